//! `ccmux channels`: the FIFOs that are open or were refused, and files whose names are no channels' names.

use std::io::{self, Write};
use std::path::Path;

use ccmux_wire::status::{ChannelStatus, Direction};
use serde_json::Value;

use crate::arguments::ChannelsOptions;
use crate::failure::Failure;
use crate::paper::harmless;
use crate::status;

pub fn run(dir: &Path, options: &ChannelsOptions) -> Result<(), Failure> {
    let answer = status::ask(dir)?;
    let mut out = io::stdout();
    if options.json {
        writeln!(out, "{}", all_of(&answer.raw["status"]))?;
        return Ok(());
    }
    let status = status::of(&answer)?;
    let channels = &status.channels;
    let width = channels.iter().map(|channel| channel.name.as_str().len()).max().unwrap_or(0);
    for channel in channels {
        writeln!(out, "{}", row(channel, width))?;
    }
    for refused in &status.refused_files {
        writeln!(out, "-    {}  {}", harmless(&refused.file), harmless(&refused.state))?;
    }
    Ok(())
}

/// Both lists as one array.
fn all_of(status: &Value) -> Value {
    let list = |name: &str| status[name].as_array().cloned().unwrap_or_default();
    Value::Array([list("channels"), list("refused_files")].concat())
}

fn row(channel: &ChannelStatus, width: usize) -> String {
    let direction = match channel.direction {
        Direction::In => "in ",
        Direction::Out => "out",
    };
    format!("{direction}  {:width$}  {}", channel.name.as_str(), harmless(&channel.state))
}
