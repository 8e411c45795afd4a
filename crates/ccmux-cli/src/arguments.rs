//! What can be said on the command line. Types only: what a command does stands in the file of its name.

use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::Seq;
use ccmux_wire::inbox::LIST_AT_MOST;
use ccmux_wire::paths::InstanceName;
use ccmux_wire::receipt::MessageState;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::adapter::arguments::AdapterOptions;

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed otherwise, 2 usage, 3 timed out, 4 refused, 5 uncertain, 6 daemon not reachable.
The daemon is found through CCMUX_RUNTIME_DIR (default /tmp/ccmux, or /tmp/ccmux-NAME with -i NAME).";

/// Talk to the ccmux daemon, which keeps Claude Code running in tmux
#[derive(Debug, Parser)]
#[command(name = "ccmux", version, after_help = EXIT_CODES)]
pub struct Arguments {
    /// Which instance of the daemon; CCMUX_RUNTIME_DIR, if it is set, says where instead
    #[arg(short, long, value_name = "NAME", global = true)]
    pub instance: Option<InstanceName>,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send a message to Claude
    Send(SendOptions),
    /// Show what the daemon and the agent are doing
    Status(StatusOptions),
    /// Say why nothing is being sent to Claude right now, and what would change that
    Why(WhyOptions),
    /// Show the agent's screen
    Screen(ScreenOptions),
    /// Follow Claude's finished turns and the daemon's alerts
    Tail(TailOptions),
    /// List the channels
    Channels(ChannelsOptions),
    /// Show the messages of the inbox, have some tried again, drop some
    Inbox(InboxOptions),
    /// Go to the agent's terminal (leave it with tmux's detach key, mostly Ctrl-b d)
    Attach(AttachOptions),
    /// Guide through the first run: what is missing, what Claude asks and what to press
    ///
    /// Works without the daemon, and presses nothing itself. Exit codes: those of `ccmuxd setup` (0 Claude is ready,
    /// 1 it is not, 69 something is missing, 73 a directory is refused, 78 settings).
    Setup(SetupOptions),
    /// Look at Claude's terminal now and say what ccmux makes of it, and by which rule
    ///
    /// Works without the daemon. Exit codes: 0 the screen is understood, 1 it is not, or there is none, 69 tmux is missing,
    /// 78 settings or screen rules.
    Doctor(DoctorOptions),
    /// Read the screen rules again (other settings count from the daemon's next start)
    Reload(ReloadOptions),
    /// Run an adapter that comes with ccmux: messages by the clock, or from HTTP requests
    Adapter(AdapterOptions),
    /// Print a completion script for a shell
    Completions(CompletionsOptions),
}

#[derive(Debug, Args)]
pub struct SendOptions {
    /// The channel it is shown under
    #[arg(short, long, value_name = "NAME")]
    pub channel: Option<ChannelName>,

    /// Return once the message is that far
    #[arg(short, long, value_enum, default_value_t = Wait::Accepted, value_name = "STATE")]
    pub wait: Wait,

    /// Give up waiting after that many seconds; the message stays in the inbox
    #[arg(short, long, value_name = "SECONDS")]
    pub timeout: Option<u64>,

    /// Your id for the message: the same id on the same channel is accepted once
    #[arg(long)]
    pub id: Option<String>,

    /// Print the receipt as JSON
    #[arg(long)]
    pub json: bool,

    /// The message; several words are joined by blanks, a lone `-` reads it from stdin
    #[arg(required = true, value_name = "TEXT")]
    pub text: Vec<String>,
}

/// How far a message must be before `send` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wait {
    /// It is in the inbox: nothing can lose it any more
    Accepted,
    /// Claude Code itself proved that it took it
    Delivered,
    /// The turn it went into has ended; prints Claude's answer
    Answered,
}

impl From<Wait> for MessageState {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::Accepted => Self::Accepted,
            Wait::Delivered => Self::Delivered,
            Wait::Answered => Self::Answered,
        }
    }
}

#[derive(Debug, Args)]
pub struct StatusOptions {
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct WhyOptions {
    /// Print all that is known as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ReloadOptions {
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Classify what is on the pane now
    #[arg(long, required = true)]
    pub screen: bool,

    /// Print it as JSON
    #[arg(long)]
    pub json: bool,

    /// Settings for ccmuxd, e.g. --config FILE, --set KEY=VALUE
    #[arg(value_name = "ARGUMENTS", last = true)]
    pub further: Vec<String>,
}

impl DoctorOptions {
    /// The arguments for `ccmuxd doctor`.
    pub fn arguments(self) -> Vec<String> {
        let flags = [("--screen", self.screen), ("--json", self.json)];
        let flags = flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned());
        flags.chain(self.further).collect()
    }
}

#[derive(Debug, Args)]
pub struct ScreenOptions {
    /// Keep the colours
    #[arg(long)]
    pub ansi: bool,
}

#[derive(Debug, Args)]
pub struct TailOptions {
    /// Begin after this line (its `seq`), then go on live; 0 shows everything that is kept
    #[arg(long, value_name = "SEQ", value_parser = parse_seq)]
    pub since: Option<Seq>,

    /// When the daemon goes, or lets go of us, wait for it and go on with the next line
    #[arg(long)]
    pub retry: bool,

    /// Print the lines as they come: JSON
    #[arg(long)]
    pub json: bool,

    /// Alerts only
    #[arg(long, conflicts_with = "turns")]
    pub alerts: bool,

    /// Turns only
    #[arg(long)]
    pub turns: bool,
}

fn parse_seq(text: &str) -> Result<Seq, std::num::ParseIntError> {
    text.parse().map(Seq)
}

#[derive(Debug, Args)]
pub struct ChannelsOptions {
    /// Print them as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct InboxOptions {
    #[command(subcommand)]
    pub verb: InboxVerb,
}

#[derive(Debug, Subcommand)]
pub enum InboxVerb {
    /// List the latest messages, newest first
    List {
        /// Only those in this state: accepted, in_flight, delivered, answered, uncertain, failed, expired
        #[arg(short, long, value_name = "STATE", value_parser = parse_state)]
        state: Option<MessageState>,

        /// Only those of this channel
        #[arg(short, long, value_name = "NAME")]
        channel: Option<ChannelName>,

        /// So many at most (1 to 1000)
        #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(LIST_AT_MOST)))]
        limit: Option<u32>,

        /// Print them as JSON, one a line
        #[arg(long)]
        json: bool,
    },
    /// Show one message with its text
    Show {
        /// Its id, or CHANNEL/ID where several channels know the same one
        id: String,

        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Put uncertain or failed messages back: they are sent again, as (redelivered) if they were typed before
    Retry(Named),
    /// Give up messages that wait, or that are uncertain or failed
    Drop(Named),
}

#[derive(Debug, Args)]
pub struct Named {
    /// Their ids, or CHANNEL/ID where several channels know the same one
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,

    /// Print them as they are now as JSON, one a line
    #[arg(long)]
    pub json: bool,
}

fn parse_state(word: &str) -> Result<MessageState, &'static str> {
    MessageState::from_word(word)
        .ok_or("use accepted, in_flight, delivered, answered, uncertain, failed or expired")
}

#[derive(Debug, Args)]
pub struct AttachOptions {
    /// Look only: no key reaches the agent, and your presence does not hold messages back
    #[arg(short, long)]
    pub read_only: bool,
}

#[derive(Debug, Args)]
pub struct SetupOptions {
    /// Settings for ccmuxd, e.g. --config FILE, --set KEY=VALUE
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub struct CompletionsOptions {
    /// Which shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_types_make_a_sound_command_line() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_may_stand_after_the_words() {
        let arguments =
            Arguments::try_parse_from(["ccmux", "send", "hello", "you", "--wait", "answered"]).unwrap();
        let Command::Send(options) = arguments.command else { panic!("{arguments:?}") };
        assert_eq!(
            (options.text, options.wait),
            (vec!["hello".to_owned(), "you".to_owned()], Wait::Answered)
        );
    }

    #[test]
    fn a_bad_channel_or_instance_is_a_matter_of_usage() {
        for line in [["ccmux", "send", "-c", "a/b", "x"], ["ccmux", "-i", "../x", "send", "x"]] {
            assert_eq!(Arguments::try_parse_from(line).unwrap_err().exit_code(), 2);
        }
    }
}
