//! `ccmux`: a client of the daemon's sockets. It holds no state and knows no tmux but for `attach`.
//!
//! ```text
//! arguments ─► one command, one file ─► client ─► control.sock
//!                     └─► stdout, or a Failure with its exit code
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`arguments`] | what can be said on the command line, as types |
//! | [`client`] | one connection to `control.sock`, blocking |
//! | [`failure`] | the ways a command ends other than well, and their exit codes |
//! | [`paper`] | what output for people looks like: colour, times, harmless text |
//! | the others | one command each |

mod arguments;
mod attach;
mod channels;
mod client;
mod completions;
mod failure;
mod inbox;
mod paper;
mod screen;
mod send;
mod setup;
mod status;
mod tail;
mod why;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let dir = ccmux_wire::paths::runtime_dir(arguments.instance.as_ref());
    match arguments.command {
        Command::Send(options) => send::run(&dir, options),
        Command::Status(options) => status::run(&dir, &options),
        Command::Why => why::run(&dir),
        Command::Screen(options) => screen::run(&dir, &options),
        Command::Tail(options) => tail::run(&dir, &options),
        Command::Channels(options) => channels::run(&dir, &options),
        Command::Inbox(options) => inbox::run(&dir, options),
        Command::Attach(options) => attach::run(&dir, arguments.instance.as_ref(), &options),
        Command::Setup(options) => setup::run(arguments.instance.as_ref(), &options),
        Command::Completions(options) => completions::run(&options),
    }
}
