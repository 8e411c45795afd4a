//! `ccmux screen`: what the agent's terminal shows.

use std::io::{self, Write};
use std::path::Path;

use ccmux_wire::control::Request;

use crate::arguments::ScreenOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::paper::harmless;

pub fn run(dir: &Path, options: &ScreenOptions) -> Result<(), Failure> {
    let answer = Client::ask(dir, Request::Screen { ansi: options.ansi })?;
    let screen = answer.reply.screen.ok_or_else(|| Failure::of_nonsense("it holds no screen"))?;
    let screen = screen.strip_suffix('\n').unwrap_or(&screen);
    let mut out = io::stdout();
    if options.ansi {
        // tmux writes colours and nothing else; the last line leaves none behind.
        writeln!(out, "{screen}\x1b[0m")?;
    } else {
        writeln!(out, "{}", harmless(screen))?;
    }
    Ok(())
}
