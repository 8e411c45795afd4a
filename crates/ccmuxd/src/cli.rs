//! The command line as types.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ccmux_runtime::settings::load::Sources;
use ccmux_wire::paths::parse_instance;
use clap::{ArgGroup, Args, Parser, Subcommand};

/// Keeps Claude Code alive in a tmux session and gives it standard Unix doors.
///
/// Runs in the foreground until SIGTERM. `tmux attach -t ccmux` shows Claude; `ccmux` speaks to the daemon.
#[derive(Debug, Parser)]
#[command(name = "ccmuxd", version)]
pub struct Cli {
    /// Run an instance of that name, with directories and a session of its own
    #[arg(short = 'i', long = "instance", value_name = "NAME", global = true)]
    pub instance: Option<String>,

    /// Read this settings file instead of ~/.config/ccmux/ccmux.toml
    #[arg(long, value_name = "FILE", env = "CCMUX_CONFIG", global = true)]
    pub config: Option<PathBuf>,

    /// Change a setting, e.g. --set idle_threshold=0
    #[arg(long = "set", value_name = "KEY=VALUE", global = true)]
    pub set: Vec<String>,

    /// Show every setting with its origin, and stop
    #[arg(long)]
    pub print_config: bool,

    /// Check the settings, and stop
    #[arg(long)]
    pub check_config: bool,

    /// Show a settings file with every key and its default, and stop
    #[arg(long)]
    pub print_default_config: bool,

    /// Something else than being the daemon
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What `ccmuxd` does besides being the daemon; the hidden ones are run by tmux.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Guide through the first run: check what is needed, start Claude, say what it asks and what to press
    ///
    /// Presses nothing itself. Exit codes: 0 Claude is ready, 1 it is not, 69 something is missing, 73 a directory is
    /// refused, 78 settings.
    Setup,
    /// Measure whether ccmux can work here, and say what to do where it can't
    ///
    /// Needs no daemon and disturbs none; starts the agent once, beside everything and without its login. Exit codes: 0 no
    /// check failed, 1 one did, 78 settings. With --screen: 0 the screen is understood, 1 it is not, or there is none, 69
    /// tmux is missing, 78 settings or screen rules.
    Doctor {
        /// Only classify what is on the agent's pane now, and say by which rule
        #[arg(long)]
        screen: bool,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
        /// Don't start the agent
        #[arg(long, conflicts_with = "screen")]
        no_probe: bool,
    },
    /// Put hooks and tools into Claude Code's own files (--user), the service into systemd or launchd (--service), or the
    /// plugin into OpenCode's folder (--opencode)
    ///
    /// Works without a daemon. A second run changes no byte, `uninstall` takes everything out again. Exit codes: 0 done,
    /// 1 failed, 2 usage, 4 a file is refused and nothing was changed, 69 ccmux-hook is missing, 73 the state directory is
    /// refused, 78 settings.
    Install(InstallOptions),
    /// Take out again what `install` put in
    ///
    /// A file that nobody else changed since is restored to the byte; of one that was changed, what is ours goes and the rest
    /// stays. Exit codes as for `install`.
    Uninstall(InstallOptions),
    /// Write the manual pages of ccmuxd; `ccmux manual` calls it
    #[command(hide = true)]
    Manual {
        /// Made if it is missing
        folder: PathBuf,
    },
    /// Become the agent that FILE describes
    #[command(hide = true)]
    Launch {
        /// Written by the daemon, removed when read
        file: PathBuf,
    },
    /// Try to enter a user namespace, as the unit's sandbox does, and stop
    #[command(hide = true)]
    TryNamespaces,
    /// Hand standard input to the daemon, and stop
    #[command(hide = true)]
    PaneSink {
        /// Where the daemon waits
        socket: PathBuf,
    },
}

/// What is put in, or taken out.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["user", "service", "opencode"]))]
pub struct InstallOptions {
    /// Claude Code's own files: hooks into settings.json, the tools into .claude.json
    ///
    /// All sessions of the user then tell the daemon what they do, and have its tools. The session that ccmux runs needs
    /// nothing of this.
    #[arg(long)]
    pub user: bool,
    /// The service of systemd or launchd that starts the daemon
    #[arg(long)]
    pub service: bool,
    /// The plugin for OpenCode, which tells the daemon what happens in its sessions
    ///
    /// It goes to ~/.config/opencode/plugin/ccmux.js, and counts for each OpenCode that starts from then on.
    #[arg(long)]
    pub opencode: bool,
    /// Show what would change, as a diff, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Also have the service started at once; `uninstall` stops it in any case
    #[arg(long, requires = "service", conflicts_with = "dry_run")]
    pub now: bool,
}

impl Cli {
    /// Where settings come from.
    pub fn sources(&self) -> Result<Sources, String> {
        let instance = match &self.instance {
            Some(name) => Some(parse_instance(name).map_err(|error| error.to_string())?),
            None => None,
        };
        let flags = self.set.iter().map(|text| flag(text)).collect::<Result<_, _>>()?;
        let environment: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Ok(Sources { instance, file: self.config.clone(), environment, flags })
    }
}

fn flag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.to_owned())),
        None => Err(format!("--set {text}: give KEY=VALUE")),
    }
}
