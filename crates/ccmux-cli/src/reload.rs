//! `ccmux reload`: the daemon reads again what can change while it runs, and says what that was.

use std::io::{self, Write};
use std::path::Path;

use ccmux_wire::control::Request;

use crate::arguments::ReloadOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::paper::harmless;

pub fn run(dir: &Path, options: &ReloadOptions) -> Result<(), Failure> {
    let answer = Client::ask(dir, Request::Reload)?;
    let mut out = io::stdout();
    if options.json {
        writeln!(out, "{}", answer.raw["reload"])?;
        return Ok(());
    }
    let reloaded =
        answer.reply.reload.ok_or_else(|| Failure::of_nonsense("it does not say what was read"))?;
    for what in &reloaded.reread {
        writeln!(out, "read again: {}", harmless(what))?;
    }
    for what in &reloaded.needs_restart {
        writeln!(out, "not before the daemon's next start: {}", harmless(what))?;
    }
    Ok(())
}
