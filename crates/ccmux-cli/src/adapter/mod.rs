//! The adapters that come with ccmux: each is a program of its own that puts messages on a channel until it is told to
//! stop. They know what any adapter may know, `control.sock`, and give every message an id, so that they may send again
//! whenever they don't know whether they were heard.
//!
//! ```text
//! crontab, clock ─► cron    ─┐
//!                            ├─► post ─► control.sock        the same id is accepted once
//! HTTP request   ─► webhook ─┘
//! ```

pub mod arguments;
mod cron;
mod webhook;

use std::path::Path;

use ccmux_wire::control::{Request, SendRequest};
use ccmux_wire::receipt::Receipt;

use crate::adapter::arguments::{AdapterOptions, Kind};
use crate::client::Client;
use crate::failure::Failure;

pub fn run(dir: &Path, options: AdapterOptions) -> Result<(), Failure> {
    match options.kind {
        Kind::Cron(options) => cron::run(dir, options),
        Kind::Webhook(options) => webhook::run(dir, options),
    }
}

/// What the daemon said of a message that it has now.
#[derive(Debug)]
struct Posted {
    receipt: Receipt,
    /// It had the message already.
    duplicate: bool,
}

/// Puts a message into the inbox: once this returns well, nothing can lose it any more.
fn post(dir: &Path, message: SendRequest) -> Result<Posted, Failure> {
    let answer = Client::ask(dir, Request::Send(message))?;
    let receipt = answer.reply.receipt.ok_or_else(|| Failure::of_nonsense("it holds no receipt"))?;
    Ok(Posted { receipt, duplicate: answer.reply.duplicate })
}

/// Whether the daemon said no for good: the same message will not be taken later either.
fn is_refusal(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(_))
}

/// Says something to whoever reads this adapter's log.
fn note(kind: &str, words: &str) {
    eprintln!("ccmux: {kind}: {words}");
}
