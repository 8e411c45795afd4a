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
//! | [`late`] | that the parser hears of the said command's options only |
//! | [`client`] | one connection to `control.sock`, blocking |
//! | [`failure`] | the ways a command ends other than well, and their exit codes |
//! | [`ccmuxd`] | commands that work without a daemon: they become the `ccmuxd` beside this client |
//! | [`mcp`] | Claude's tools over stdio |
//! | [`paper`] | what output for people looks like: colour, times, harmless text |
//! | [`notes`] | what agents of one repository leave for each other: notes, questions |
//! | [`adapter`] | programs of their own that put messages on a channel: by the clock, over HTTP |
//! | [`mod@run`] | an agent's session in a container |
//! | [`tcp`] | three lines to a daemon elsewhere |
//! | the others | one command each |

mod adapter;
mod arguments;
mod attach;
mod attention;
mod ccmuxd;
mod channels;
mod client;
mod completions;
mod container;
mod failure;
mod inbox;
mod late;
mod manual;
mod mcp;
mod notes;
mod paper;
mod permission;
mod reload;
mod run;
mod screen;
mod send;
mod status;
mod tail;
mod tcp;
mod why;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command, McpOptions};
use crate::failure::Failure;
use crate::late::Late;
use crate::permission::arguments::InterruptOptions;

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let dir = ccmux_wire::paths::runtime_dir(arguments.instance.as_ref());
    match arguments.command {
        Command::Send(Late(options)) => send::run(&dir, options),
        Command::Status(Late(options)) => status::run(&dir, &options),
        Command::Why(Late(options)) => why::run(&dir, &options),
        Command::Screen(Late(options)) => screen::run(&dir, &options),
        Command::Tail(Late(options)) => tail::run(&dir, &options),
        Command::Channels(Late(options)) => channels::run(&dir, &options),
        Command::Inbox(Late(options)) => inbox::run(&dir, options),
        Command::Attach(Late(options)) => attach::run(&dir, arguments.instance.as_ref(), &options),
        Command::Mcp(Late(McpOptions {})) => mcp::run(&dir),
        Command::Setup(Late(options)) => ccmuxd::run("setup", arguments.instance.as_ref(), options.arguments),
        Command::Doctor(Late(options)) => {
            ccmuxd::run("doctor", arguments.instance.as_ref(), options.arguments())
        }
        Command::Install(Late(options)) => {
            ccmuxd::run("install", arguments.instance.as_ref(), options.arguments())
        }
        Command::Uninstall(Late(options)) => {
            ccmuxd::run("uninstall", arguments.instance.as_ref(), options.arguments())
        }
        Command::Attention(Late(options)) => attention::run(&dir, &options),
        Command::Mute(Late(options)) => attention::mute(&dir, &options),
        Command::Permission(Late(options)) => permission::run(&dir, options),
        Command::Interrupt(Late(InterruptOptions {})) => permission::interrupt(&dir),
        Command::Notify(Late(options)) => match &options.test {
            Some(route) => attention::test_route(&dir, route),
            None => notes::notify::run(&dir, options),
        },
        Command::Listen(Late(options)) => notes::listen::run(&dir, options),
        Command::Ask(Late(options)) => notes::questions::ask(&dir, options),
        Command::Questions(Late(options)) => notes::questions::list(&options),
        Command::Answer(Late(options)) => notes::questions::answer(&dir, options),
        Command::Acknowledge(Late(options)) => notes::questions::acknowledge(&dir, options),
        Command::Adapter(Late(options)) => adapter::run(&dir, options),
        Command::Run(Late(options)) => run::run(&dir, arguments.instance.as_ref(), options),
        Command::Container(Late(options)) => container::run(&dir, options),
        Command::Reload(Late(options)) => reload::run(&dir, &options),
        Command::Completions(Late(options)) => completions::run(&options),
        Command::Manual(Late(options)) => manual::run(&options),
    }
}
