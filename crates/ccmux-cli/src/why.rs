//! `ccmux why`: is the gate open, and if not, why not, and what would open it. The first line is the answer.
//!
//! ```text
//! closed: draft: somebody's text is in the prompt box
//! opens when  the prompt box is emptied or sent by whoever typed there
//! next look   in 980 ms
//! happened    12 s ago: a message of 20 bytes came on telegram
//! ```

use std::io::{self, Write};
use std::path::Path;

use ccmux_wire::control::Request;
use ccmux_wire::status::Why;

use crate::arguments::WhyOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::paper::{Ink, Paper, ago, harmless};

/// So much of the latest past is told.
const TOLD: usize = 5;

pub fn run(dir: &Path, options: &WhyOptions) -> Result<(), Failure> {
    let answer = Client::ask(dir, Request::Why)?;
    let why = answer.reply.why.ok_or_else(|| Failure::of_nonsense("it holds no reason"))?;
    if options.json {
        writeln!(io::stdout(), "{}", answer.raw["why"])?;
    } else {
        io::stdout().write_all(in_words(&why, Paper::stdout()).as_bytes())?;
    }
    Ok(())
}

fn in_words(why: &Why, paper: Paper) -> String {
    let ink = if why.gate == "open" { Ink::Green } else { Ink::Yellow };
    let mut text = format!("{}\n", paper.ink(ink, &harmless(&why.gate)));
    let mut row = |name: &str, value: &str| {
        text.push_str(&format!("{} {}\n", paper.ink(Ink::Dim, &format!("{name:<11}")), harmless(value)));
    };
    if !why.opens_when.is_empty() {
        row("opens when", &why.opens_when);
    }
    row("next look", &next_look(why.next_look_ms));
    for disputed in why.evidence.iter().filter_map(|line| line.strip_prefix("disputed: ")) {
        row("disputed", disputed);
    }
    for happened in &why.happened[why.happened.len().saturating_sub(TOLD)..] {
        row("happened", &format!("{} ago: {}", ago(happened.at), happened.what));
    }
    text
}

fn next_look(in_ms: Option<u64>) -> String {
    match in_ms {
        None => "at the next event".to_owned(),
        Some(ms @ ..1000) => format!("in {ms} ms"),
        Some(ms) => format!("in {} s", ms.div_ceil(1000)),
    }
}
