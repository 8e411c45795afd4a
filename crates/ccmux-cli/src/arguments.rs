//! What can be said on the command line. Types only: what a command does stands in the file of its name.

use std::path::PathBuf;

use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::Seq;
use ccmux_wire::inbox::LIST_AT_MOST;
use ccmux_wire::paths::InstanceName;
use ccmux_wire::receipt::MessageState;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use crate::adapter::arguments::AdapterOptions;
use crate::late::Late;
use crate::notes::arguments::{
    AcknowledgeOptions, AnswerOptions, AskOptions, ListenOptions, NotifyOptions, QuestionsOptions,
};
use crate::permission::arguments::{InterruptOptions, PermissionOptions};
use crate::run::arguments::{ContainerOptions, RunOptions};

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed otherwise, 2 usage, 3 timed out, 4 refused, 5 uncertain, 6 daemon not reachable.
The daemon is found in /tmp/ccmux-NAME with -i NAME, else in CCMUX_RUNTIME_DIR, else in /tmp/ccmux.";

/// Talk to the ccmux daemon, which keeps Claude Code running in tmux
#[derive(Debug, Parser)]
#[command(name = "ccmux", version, after_help = EXIT_CODES)]
pub struct Arguments {
    /// Which instance of the daemon; wins over CCMUX_RUNTIME_DIR
    #[arg(short, long, value_name = "NAME", global = true, value_parser = parse_instance)]
    pub instance: Option<InstanceName>,

    #[command(subcommand)]
    pub command: Command,
}

fn parse_instance(text: &str) -> Result<InstanceName, String> {
    text.parse().map_err(|error| format!("an instance is named as a channel is: {error}"))
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send a message to Claude
    Send(Late<SendOptions>),
    /// Show what the daemon and the agent are doing
    Status(Late<StatusOptions>),
    /// Say why nothing is being sent to Claude right now, and what would change that
    Why(Late<WhyOptions>),
    /// Show the agent's screen
    Screen(Late<ScreenOptions>),
    /// Follow Claude's finished turns and the daemon's alerts
    Tail(Late<TailOptions>),
    /// List the channels
    Channels(Late<ChannelsOptions>),
    /// Show the messages of the inbox, have some tried again, drop some
    Inbox(Late<InboxOptions>),
    /// Go to the agent's terminal (leave it with tmux's detach key, mostly Ctrl-b d)
    Attach(Late<AttachOptions>),
    /// Offer Claude its tools over stdio (MCP); Claude Code starts this itself
    ///
    /// It stays when the daemon goes, and finds the next one. Ends with its input.
    Mcp(Late<McpOptions>),
    /// Guide through the first run: what is missing, what Claude asks and what to press
    ///
    /// Works without the daemon, and presses nothing itself. Exit codes: those of `ccmuxd setup` (0 Claude is ready,
    /// 1 it is not, 69 something is missing, 73 a directory is refused, 78 settings).
    Setup(Late<SetupOptions>),
    /// Measure whether ccmux can work here, and say what to do where it can't
    ///
    /// Works without the daemon and disturbs none. Exit codes: 0 no check failed, 1 one did, 78 settings. With --screen: 0 the
    /// screen is understood, 1 it is not, or there is none, 69 tmux is missing, 78 settings or screen rules.
    Doctor(Late<DoctorOptions>),
    /// Show what waits for somebody: ended turns, dialogs, failures
    Attention(Late<AttentionOptions>),
    /// Get no notices about a session or a kind for a while
    Mute(Late<MuteOptions>),
    /// Show what Claude asks at its terminal and can be answered from here; allow or deny it
    ///
    /// Only where permission.channel is set: without it Claude's dialog waits for the terminal alone. The first answer counts,
    /// wherever it comes from; exit code 4 where it is too late.
    Permission(Late<PermissionOptions>),
    /// Stop the running turn, as Esc does; refused (4) while none runs, in a dialog, and over somebody's draft
    Interrupt(Late<InterruptOptions>),
    /// Leave a note for the agents of this repository, and wake the one that listens
    ///
    /// Worktrees share their main repository's notes. Works without the daemon, and waits for nobody. With --test: send a
    /// test notice by a route of the settings.
    Notify(Late<NotifyOptions>),
    /// Print the notes of this repository that wait, or the first ones that come: one JSON line each
    ///
    /// Exit code 0, also when none came in time.
    Listen(Late<ListenOptions>),
    /// Ask the agents of this repository, or whoever looks after them; prints the question's id
    Ask(Late<AskOptions>),
    /// List the questions of this repository that are open
    Questions(Late<QuestionsOptions>),
    /// Answer a question: of an agent of this repository by its id, of Claude's by the five letters behind `code:`
    Answer(Late<AnswerOptions>),
    /// Close a question without an answer
    Acknowledge(Late<AcknowledgeOptions>),
    /// Put hooks and tools into Claude Code's own files (--user), the service into systemd or launchd (--service), or the
    /// plugin into OpenCode's folder (--opencode)
    ///
    /// Works without the daemon. A second run changes no byte, `uninstall` takes everything out again. Exit codes: 0 done,
    /// 1 failed, 2 usage, 4 a file is refused and nothing was changed, 69 ccmux-hook is missing, 73 the state directory is
    /// refused, 78 settings.
    Install(Late<InstallOptions>),
    /// Take out again what `install` put in
    ///
    /// A file that nobody else changed since is restored to the byte; of one that was changed, what is ours goes and the rest
    /// stays. Exit codes as for `install`.
    Uninstall(Late<InstallOptions>),
    /// Run a session of Claude Code in a container, in the current directory
    ///
    /// Exit codes: the agent's own; 125 to 127 the engine could not start it; else those of ccmux. With --dry-run neither an
    /// engine nor the daemon is needed.
    Run(Late<RunOptions>),
    /// List containers and answer their questions; from within one: tell or ask somebody
    Container(Late<ContainerOptions>),
    /// Read settings and screen rules again, and say what changed and what counts from the daemon's next start only
    Reload(Late<ReloadOptions>),
    /// Run an adapter that comes with ccmux: messages by the clock, or from HTTP requests
    Adapter(Late<AdapterOptions>),
    /// Print a completion script for a shell
    Completions(Late<CompletionsOptions>),
    /// Write the manual pages of ccmux and ccmuxd into a folder, e.g. ~/.local/share/man/man1
    Manual(Late<ManualOptions>),
}

#[derive(Debug, Args)]
pub struct SendOptions {
    /// The channel it is shown under (without it: default)
    #[arg(short, long, value_name = "NAME")]
    pub channel: Option<ChannelName>,

    /// Return once the message is that far
    #[arg(short, long, value_enum, default_value_t = Wait::Accepted, value_name = "STATE")]
    pub wait: Wait,

    /// Give up waiting after that many seconds (without it: never); the message stays in the inbox
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
pub struct AttentionOptions {
    /// Print it again whenever it changes
    #[arg(short, long)]
    pub watch: bool,

    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct MuteOptions {
    /// A session's id, or reply, permission, question, subagent_reply, failure, stuck, message
    #[arg(value_name = "SESSION|KIND")]
    pub what: String,

    /// How long, e.g. 30s, 20m, 1h, 2d; 0 ends it. What falls into it is told afterwards, if it still waits
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = parse_time)]
    pub time: Seconds,
}

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub u64);

fn parse_time(text: &str) -> Result<Seconds, &'static str> {
    const FORM: &str = "give a number with s, m, h or d, e.g. 1h";
    let number = text.trim_end_matches(['s', 'm', 'h', 'd']);
    let unit = match &text[number.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(FORM),
    };
    let number: u64 = number.parse().map_err(|_| FORM)?;
    Ok(Seconds(number.saturating_mul(unit)))
}

#[derive(Debug, Args)]
pub struct ReloadOptions {
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Only classify what is on the agent's pane now, and say by which rule
    #[arg(long)]
    pub screen: bool,

    /// Print it as JSON
    #[arg(long)]
    pub json: bool,

    /// Don't start the agent
    #[arg(long, conflicts_with = "screen")]
    pub no_probe: bool,

    /// Settings for ccmuxd, e.g. --config FILE, --set KEY=VALUE
    #[arg(value_name = "ARGUMENTS", last = true)]
    pub further: Vec<String>,
}

impl DoctorOptions {
    /// The arguments for `ccmuxd doctor`.
    pub fn arguments(self) -> Vec<String> {
        let flags = [("--screen", self.screen), ("--json", self.json), ("--no-probe", self.no_probe)];
        let flags = flags.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag.to_owned());
        flags.chain(self.further).collect()
    }
}

#[derive(Debug, Args)]
pub struct McpOptions {}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["user", "service", "opencode"]))]
pub struct InstallOptions {
    /// Claude Code's own files: hooks into settings.json, the tools into .claude.json
    #[arg(long)]
    pub user: bool,

    /// The service of systemd or launchd that starts the daemon
    #[arg(long)]
    pub service: bool,

    /// The plugin for OpenCode, which tells the daemon what happens in its sessions
    #[arg(long)]
    pub opencode: bool,

    /// Show what would change, as a diff, and change nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Also have the service started at once; `uninstall` stops it in any case
    #[arg(long, requires = "service", conflicts_with = "dry_run")]
    pub now: bool,

    /// Settings for ccmuxd, e.g. --config FILE, --set KEY=VALUE
    #[arg(value_name = "ARGUMENTS", last = true)]
    pub further: Vec<String>,
}

impl InstallOptions {
    /// The arguments for `ccmuxd install` and `ccmuxd uninstall`.
    pub fn arguments(self) -> Vec<String> {
        let flags = [
            ("--user", self.user),
            ("--service", self.service),
            ("--opencode", self.opencode),
            ("--dry-run", self.dry_run),
            ("--now", self.now),
        ];
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

fn parse_seq(text: &str) -> Result<Seq, &'static str> {
    text.parse().map(Seq).map_err(|_| "give the `seq` of a line, a whole number; 0 is the first")
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

#[derive(Debug, Args)]
pub struct ManualOptions {
    /// Made if it is missing
    pub folder: PathBuf,
}

#[cfg(test)]
mod tests;
