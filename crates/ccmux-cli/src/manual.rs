//! `ccmux manual FOLDER`: writes the manual pages, ours here and then those of the `ccmuxd` beside us.
//!
//! They are made from the same types as `--help`, so they can't say anything else.

use std::fs;
use std::io;

use clap::CommandFactory;

use crate::arguments::{Arguments, ManualOptions};
use crate::ccmuxd;
use crate::failure::Failure;

pub fn run(options: &ManualOptions) -> Result<(), Failure> {
    let folder = &options.folder;
    let written =
        fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    let failed = |error: io::Error| {
        Failure::Failed(format!("can't write manual pages into {}: {error}", folder.display()))
    };
    written.map_err(failed)?;
    ccmuxd::run("manual", None, vec![folder.display().to_string()])
}
