//! `ccmuxd setup`: the guided first run, as a dialogue with the person. What is checked and seen is
//! [`ccmux_runtime::setup`]; here it is printed, and the person is led to Claude's own terminal.
//!
//! ```text
//! ok       tmux 3.3a
//! ...
//! look     trust dialog: Claude asks whether you trust the working directory
//!          Enter        ❯ No, exit                  ends Claude; ...
//!          Down, Enter    Yes, I trust this folder  Claude may read, change and run files there; ...
//! Press Enter to go to Claude's terminal ...
//! ```
//!
//! It presses nothing. Without a terminal it says what is open and how to get there, and leaves the agent to be answered.

use std::io::{self, IsTerminal};
use std::process::{Command, ExitCode};

use ccmux_runtime::daemon::Setting;
use ccmux_runtime::setup::{Seen, Stage, Verdict, check};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;

use super::fail;

/// How the conversation ended.
enum End {
    /// Claude is ready, or at work.
    Ready(Seen),
    /// It is not, and nobody can be asked: the agent stays as it is.
    Unattended(Seen),
    /// It is not, and it ended or the person gave up.
    NotReady(String),
}

/// Runs it.
pub fn run(setting: Setting) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(1, &format!("the runtime can't start: {error}")),
    };
    let code = runtime.block_on(guide(setting));
    // A read of stdin may still wait for a line that nobody needs any more.
    runtime.shutdown_background();
    code
}

async fn guide(setting: Setting) -> ExitCode {
    let interruption = match Interruption::awaited() {
        Ok(interruption) => interruption,
        Err(error) => return fail(1, &format!("signals: {error}")),
    };
    let ground = match check(setting, &mut |step| println!("{step}")).await {
        Ok(ground) => ground,
        Err(step) => {
            let code = match step.verdict {
                Verdict::Bad(code) => code,
                Verdict::Ok | Verdict::Note => 1,
            };
            return fail(code, &format!("not ready: {}", step.text));
        }
    };
    let stage = match Stage::open(ground).await {
        Ok((stage, step)) => {
            println!("{step}");
            stage
        }
        Err(why) => return fail(1, &format!("not ready: the agent can't be started: {why}")),
    };
    let end = tokio::select! {
        end = talk(&stage) => end,
        () = interruption.came() => End::NotReady("interrupted".to_owned()),
    };
    finish(stage, end).await
}

/// The signals that end a program, from now on: the agent that we started must not stay behind.
struct Interruption([Signal; 3]);

impl Interruption {
    fn awaited() -> io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = kinds.map(signal);
        Ok(Self([interrupt?, terminate?, hangup?]))
    }

    async fn came(mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

async fn talk(stage: &Stage) -> End {
    let attended = io::stdin().is_terminal() && io::stdout().is_terminal();
    loop {
        let seen = stage.settle().await;
        show(&seen);
        match seen {
            seen if seen.is_ready() => return End::Ready(seen),
            seen if !seen.needs_person() => return End::NotReady(seen.reason()),
            seen if !attended => return End::Unattended(seen),
            seen if !lead(stage).await => return End::NotReady(seen.reason()),
            _ => {}
        }
    }
}

fn show(seen: &Seen) {
    let word = if seen.is_ready() { "ok" } else { "look" };
    for (number, line) in seen.lines().iter().enumerate() {
        let word = if number == 0 { word } else { "" };
        println!("{word:<8} {line}");
    }
}

/// Leads the person to Claude's terminal and waits until they are back. False: they gave up.
async fn lead(stage: &Stage) -> bool {
    let inside = Inside::of(stage);
    println!("ccmux presses nothing: you decide, in Claude's own terminal.");
    println!("Press Enter to go there, come back with {}; or q and Enter to stop.", inside.way_back());
    if !goes().await {
        return false;
    }
    let mut tmux = tmux(stage);
    match inside {
        Inside::SameServer => tmux.args(["switch-client", "-t", &stage.target()]),
        Inside::OtherServer | Inside::Nothing => tmux.args(["attach-session", "-t", &stage.target()]),
    };
    let left = spawn_blocking(move || tmux.status()).await;
    if !matches!(left, Ok(Ok(status)) if status.success()) {
        println!("note     tmux could not show it; in another terminal: {}", way(stage));
    }
    if inside == Inside::SameServer {
        println!("Press Enter when you are back; or q and Enter to stop.");
        return goes().await;
    }
    true
}

/// A line of the person; `q` or the end of the input says no.
async fn goes() -> bool {
    let line = spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|length| (length, line))
    })
    .await;
    matches!(line, Ok(Ok((1.., line))) if line.trim() != "q")
}

/// Which tmux we run in ourselves: one does not attach to a server from a pane of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    OtherServer,
    SameServer,
}

impl Inside {
    fn of(stage: &Stage) -> Self {
        let Some(around) = std::env::var("TMUX").ok().filter(|value| !value.is_empty()) else {
            return Self::Nothing;
        };
        let socket = tmux(stage)
            .args(["display-message", "-p", "-t", &stage.target(), "#{socket_path}"])
            .output()
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        match socket {
            Ok(socket) if around.split(',').next() == Some(socket.as_str()) => Self::SameServer,
            _ => Self::OtherServer,
        }
    }

    fn way_back(self) -> &'static str {
        match self {
            Self::Nothing => "tmux's detach key (mostly Ctrl-b d)",
            Self::OtherServer => "the inner tmux's detach key (mostly Ctrl-b Ctrl-b d)",
            Self::SameServer => "tmux's key for the last session (mostly Ctrl-b L)",
        }
    }
}

fn tmux(stage: &Stage) -> Command {
    let mut tmux = Command::new("tmux");
    tmux.arg("-u").args(stage.server_arguments());
    tmux
}

/// For the person to type.
fn way(stage: &Stage) -> String {
    let words = [
        vec!["tmux".to_owned()],
        stage.server_arguments(),
        vec!["attach".to_owned(), "-t".to_owned(), stage.session().to_owned()],
    ];
    words.concat().join(" ")
}

async fn finish(stage: Stage, end: End) -> ExitCode {
    let (way, daemons) = (way(&stage), stage.is_daemons());
    match end {
        End::Ready(Seen::Working) => {
            stage.leave();
            println!("The agent goes on; `{way}` shows it.{}", next_step(daemons));
            ExitCode::SUCCESS
        }
        End::Ready(_) => {
            let ended = stage.end().await;
            println!("Nothing is left to answer.{}", next_step(daemons));
            ended.map_or_else(
                |why| fail(1, &format!("the agent can't be ended: {why}")),
                |()| ExitCode::SUCCESS,
            )
        }
        End::Unattended(seen) => {
            stage.leave();
            let why = format!(
                "not ready: {}; answer it yourself: `{way}` (come back with Ctrl-b d), then `ccmux setup` again",
                seen.reason()
            );
            fail(1, &why)
        }
        End::NotReady(reason) => {
            let _ = stage.end().await;
            fail(1, &format!("not ready: {reason}"))
        }
    }
}

fn next_step(daemons: bool) -> &'static str {
    if daemons { "" } else { " Start the daemon now: ccmuxd" }
}
