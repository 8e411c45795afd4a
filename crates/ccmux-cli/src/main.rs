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
        Command::Send(options) => send::run(&dir, options),
        Command::Status(options) => status::run(&dir, &options),
        Command::Why(options) => why::run(&dir, &options),
        Command::Screen(options) => screen::run(&dir, &options),
        Command::Tail(options) => tail::run(&dir, &options),
        Command::Channels(options) => channels::run(&dir, &options),
        Command::Inbox(options) => inbox::run(&dir, options),
        Command::Attach(options) => attach::run(&dir, arguments.instance.as_ref(), &options),
        Command::Mcp(McpOptions {}) => mcp::run(&dir),
        Command::Setup(options) => ccmuxd::run("setup", arguments.instance.as_ref(), options.arguments),
        Command::Doctor(options) => ccmuxd::run("doctor", arguments.instance.as_ref(), options.arguments()),
        Command::Install(options) => ccmuxd::run("install", arguments.instance.as_ref(), options.arguments()),
        Command::Uninstall(options) => {
            ccmuxd::run("uninstall", arguments.instance.as_ref(), options.arguments())
        }
        Command::Attention(options) => attention::run(&dir, &options),
        Command::Mute(options) => attention::mute(&dir, &options),
        Command::Permission(options) => permission::run(&dir, options),
        Command::Interrupt(InterruptOptions {}) => permission::interrupt(&dir),
        Command::Notify(options) => match &options.test {
            Some(route) => attention::test_route(&dir, route),
            None => notes::notify::run(&dir, options),
        },
        Command::Listen(options) => notes::listen::run(&dir, options),
        Command::Ask(options) => notes::questions::ask(&dir, options),
        Command::Questions(options) => notes::questions::list(&options),
        Command::Answer(options) => notes::questions::answer(&dir, options),
        Command::Acknowledge(options) => notes::questions::acknowledge(&dir, options),
        Command::Adapter(options) => adapter::run(&dir, options),
        Command::Run(options) => run::run(&dir, arguments.instance.as_ref(), options),
        Command::Container(options) => container::run(&dir, options),
        Command::Reload(options) => reload::run(&dir, &options),
        Command::Completions(options) => completions::run(&options),
        Command::Manual(options) => manual::run(&options),
    }
}
