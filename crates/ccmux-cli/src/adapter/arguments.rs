//! What can be said to an adapter on the command line. Types only. Secrets are not among it: everybody may read the
//! arguments of a process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::IntErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use ccmux_wire::channel::ChannelName;
use clap::{ArgGroup, Args, Subcommand};

#[derive(Debug, Args)]
pub struct AdapterOptions {
    #[command(subcommand)]
    pub kind: Kind,
}

#[derive(Debug, Subcommand)]
pub enum Kind {
    /// Put messages on a channel at times
    ///
    /// Runs until SIGTERM (exit code 0); SIGHUP reads the file again. While the daemon is away, messages wait here.
    Cron(CronOptions),
    /// Put on a channel what HTTP requests say
    ///
    /// Answers once the message is accepted: 202, or 200 if its id was known; 503 while the daemon is away. Runs until
    /// SIGTERM (exit code 0).
    Webhook(WebhookOptions),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("times").required(true).args(["file", "at"]))]
pub struct CronOptions {
    /// The channel; a line CHANNEL=NAME in the file chooses another for the lines below it
    #[arg(short, long, value_name = "NAME", default_value = "cron")]
    pub channel: ChannelName,

    /// Lines of a crontab, with the message where the command would be: */5 8-18 * * MON-FRI look at the queue
    #[arg(short, long, value_name = "CRONTAB")]
    pub file: Option<PathBuf>,

    /// One time and its message; may be given several times
    #[arg(long, num_args = 2, value_names = ["TIME", "TEXT"])]
    pub at: Vec<String>,

    /// Send what came due so long before the start, too, if it was not sent then: 90s, 15m, 2h, 1d; 31d at most
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = parse_catch_up)]
    pub catch_up: Duration,
}

#[derive(Debug, Args)]
pub struct WebhookOptions {
    /// The channel
    #[arg(short, long, value_name = "NAME")]
    pub channel: ChannelName,

    /// Where to listen; port 0 takes a free one and says which
    #[arg(short, long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9877))]
    pub listen: SocketAddr,

    /// A file with the token that requests must know, readable by nobody else (without it: CCMUX_WEBHOOK_TOKEN)
    #[arg(short, long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// One more name that requests may call this server by, in their Host header: a reverse proxy's
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,

    /// Listen on an address that other machines reach: the token then crosses the network in the clear
    #[arg(long)]
    pub allow_remote: bool,

    /// The body is the message as it stands, whatever its form
    #[arg(long)]
    pub raw: bool,
}

/// More would be a flood: of a line for every minute, half a million messages a year.
const LONGEST_CATCH_UP: Duration = Duration::from_secs(31 * 86_400);

fn parse_catch_up(text: &str) -> Result<Duration, String> {
    match parse_span(text)? {
        span if span > LONGEST_CATCH_UP => Err("at most 31d".to_owned()),
        span => Ok(span),
    }
}

const FORM: &str = "give a whole number and s, m, h or d: 90s, 2h";

/// A number and its unit.
fn parse_span(text: &str) -> Result<Duration, String> {
    let (number, seconds) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3_600),
        Some((at, 'd')) => (&text[..at], 86_400),
        _ => return Err(FORM.to_owned()),
    };
    match number.parse::<u32>() {
        Ok(number) => Ok(Duration::from_secs(u64::from(number) * seconds)),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err("at most 31d".to_owned()),
        Err(_) => Err(FORM.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_a_number_and_its_unit() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("2h", 7_200), ("1d", 86_400), ("0s", 0)] {
            assert_eq!(parse_span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "5", "-1h", "1.5h", "1 h", "1µ", "99999999999d"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nobody_catches_up_with_years() {
        assert_eq!(parse_catch_up("31d"), Ok(LONGEST_CATCH_UP));
        for text in ["32d", "3650d", "4294967295s"] {
            assert_eq!(parse_catch_up(text), Err("at most 31d".to_owned()), "{text}");
        }
    }
}
