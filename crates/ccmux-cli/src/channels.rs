//! `ccmux channels`: the FIFOs that are open or were refused.

use std::io::{self, Write};
use std::path::Path;

use ccmux_wire::status::{ChannelStatus, Direction};

use crate::arguments::ChannelsOptions;
use crate::failure::Failure;
use crate::paper::harmless;
use crate::status;

pub fn run(dir: &Path, options: &ChannelsOptions) -> Result<(), Failure> {
    let answer = status::ask(dir)?;
    let mut out = io::stdout();
    if options.json {
        writeln!(out, "{}", answer.raw["status"]["channels"])?;
        return Ok(());
    }
    let channels = &status::of(&answer)?.channels;
    let width = channels.iter().map(|channel| channel.name.as_str().len()).max().unwrap_or(0);
    for channel in channels {
        writeln!(out, "{}", row(channel, width))?;
    }
    Ok(())
}

fn row(channel: &ChannelStatus, width: usize) -> String {
    let direction = match channel.direction {
        Direction::In => "in ",
        Direction::Out => "out",
    };
    format!("{direction}  {:width$}  {}", channel.name.as_str(), harmless(&channel.state))
}
