//! `ccmux completions SHELL`: prints a completion script.

use std::io::{self, Write};

use clap::CommandFactory;

use crate::arguments::{Arguments, CompletionsOptions};
use crate::failure::Failure;

pub fn run(options: &CompletionsOptions) -> Result<(), Failure> {
    // The generator panics where it can't write, so it writes into memory.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), "ccmux", &mut script);
    io::stdout().write_all(&script)?;
    Ok(())
}
