//! `ccmuxd manual FOLDER`: our manual pages, for `ccmux manual`, which writes its own beside them.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::fail;

pub fn write(folder: &Path) -> ExitCode {
    let written = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, &format!("can't write manual pages into {}: {error}", folder.display())),
    }
}
