//! The agent's pane, looked at until it rests. Nothing is typed into it, ever.
//!
//! Without a daemon the agent is started exactly as the daemon starts it, in the same session; both directories are held
//! meanwhile, so that no daemon comes in between. With a daemon it is the daemon's own session, seen through its door.

use std::time::Duration;

use ccmux_policy::event::ExitStatus;
use ccmux_policy::screen::ScreenClass;
use ccmux_wire::status::{StateWord, TmuxStatus};
use tokio::time::{Instant, sleep};

use super::checks::{Directories, Ground, Step};
use super::dialogs::StartDialog;
use super::door::Door;
use super::last_words::LastWords;
use super::login::{is_logged_out, shows_logged_out};
use super::{Seen, mark};
use crate::agent::mcp_entry::Transport;
use crate::agent::record::session_token;
use crate::agent::start::AgentStart;
use crate::agent::version_ahead::VersionAhead;
use crate::mcp;
use crate::screen::{Screen, classify, plain_text};
use crate::terminal::{Terminal, TerminalError};
use crate::workers::starter::exit_status;

const LOOK_PAUSE: Duration = Duration::from_millis(150);
/// An agent that shows nothing that can be understood is given up after that time. (A cold start takes some seconds.)
const LIMIT: Duration = Duration::from_secs(60);

/// Where the agent is.
#[derive(Debug)]
pub struct Stage {
    ground: Ground,
    seat: Seat,
}

#[derive(Debug)]
enum Seat {
    /// Our terminal; `ours`: started by this run, or left by an earlier one.
    Pane { ours: bool, id: String, pid: i32 },
    /// The daemon's.
    Daemon { door: Door, tmux: TmuxStatus },
}

/// One look.
enum Sight {
    Ended(LastWords),
    Shows { screen: Screen, text: String },
}

impl Stage {
    /// Starts the agent, or finds the one that runs.
    ///
    /// # Errors
    /// What kept it from starting, in words.
    pub async fn open(ground: Ground) -> Result<(Self, Step), String> {
        let (seat, step) = match &ground.dirs {
            Directories::Ours(..) => pane(&ground).await?,
            Directories::Daemons { pid, runtime_dir } => {
                let door = Door { socket: runtime_dir.join("control.sock") };
                let status = door.status().await?;
                let tmux = status.tmux.ok_or("the daemon does not say where its session is: is it older?")?;
                let step =
                    Step::ok(format!("tmux session {}, which ccmuxd (pid {pid}) looks after", tmux.session));
                (Seat::Daemon { door, tmux }, step)
            }
        };
        Ok((Self { ground, seat }, step))
    }

    /// Looks until the screen rests.
    pub async fn settle(&self) -> Seen {
        let seen = self.rest().await;
        let plan = &self.ground.plan;
        if seen == Seen::Ready && is_logged_out(plan, &self.ground.version).await {
            return Seen::LoggedOut;
        }
        seen
    }

    async fn rest(&self) -> Seen {
        let begun = Instant::now();
        let mut last: Option<(ScreenClass, Option<String>)> = None;
        let mut since = begun;
        loop {
            let (screen, text) = match self.look().await {
                Ok(Sight::Ended(words)) => return Seen::Ended(words),
                Ok(Sight::Shows { screen, text }) => (screen, text),
                Err(why) => return Seen::Unclear(vec![why]),
            };
            let kind = Some((screen.class, screen.dialog.clone()));
            if kind != last {
                (last, since) = (kind, Instant::now());
            }
            let rests = since.elapsed() >= rests_after(screen.class, &text);
            if rests || begun.elapsed() >= LIMIT {
                return seen(&screen, &text);
            }
            sleep(LOOK_PAUSE).await;
        }
    }

    async fn look(&self) -> Result<Sight, String> {
        let ansi = match &self.seat {
            Seat::Pane { .. } => match self.ground.terminal.capture().await {
                Ok(capture) => match capture.pane.dead {
                    Some(_) => {
                        let status = exit_status(&self.ground.terminal, capture.pane.pid).await;
                        return Ok(Sight::Ended(LastWords::read(status, &plain_text(&capture.text))));
                    }
                    None => capture.text,
                },
                Err(TerminalError::NoPane(_)) => {
                    return Ok(Sight::Ended(LastWords::read(ExitStatus::Unknown, "")));
                }
                Err(error) => return Err(error.to_string()),
            },
            Seat::Daemon { door, .. } => {
                let status = door.status().await?;
                let screen = door.screen().await;
                if matches!(status.state, StateWord::Down | StateWord::Degraded) {
                    let text = plain_text(&screen.unwrap_or_default());
                    return Ok(Sight::Ended(LastWords::read(ExitStatus::Unknown, &text)));
                }
                screen.unwrap_or_default()
            }
        };
        Ok(Sight::Shows { screen: classify(&self.ground.rules.rules(), &ansi), text: plain_text(&ansi) })
    }

    /// Arguments that name the tmux server.
    pub fn server_arguments(&self) -> Vec<String> {
        let socket = match &self.seat {
            Seat::Daemon { tmux, .. } => tmux.socket.clone(),
            Seat::Pane { .. } => {
                Some(self.ground.setting.settings.tmux_socket.clone()).filter(|name| !name.is_empty())
            }
        };
        socket.map_or_else(Vec::new, |name| vec!["-L".to_owned(), name])
    }

    /// The session's name.
    pub fn session(&self) -> &str {
        match &self.seat {
            Seat::Daemon { tmux, .. } => &tmux.session,
            Seat::Pane { .. } => &self.ground.setting.settings.tmux_session,
        }
    }

    /// tmux's name for the agent's place: our pane, else the session.
    pub fn target(&self) -> String {
        match &self.seat {
            Seat::Daemon { tmux, .. } => format!("={}", tmux.session),
            Seat::Pane { id, .. } => id.clone(),
        }
    }

    /// Whether a daemon looks after it.
    pub fn is_daemons(&self) -> bool {
        matches!(self.seat, Seat::Daemon { .. })
    }

    /// Leaves the agent to the person, who will look at it later: the next run knows it, a daemon adopts it.
    pub fn leave(self) {
        if let (Seat::Pane { ours: true, pid, .. }, Directories::Ours(_, state_dir)) =
            (&self.seat, &self.ground.dirs)
        {
            // Without the mark the next run takes it for the user's own and does not end it: no harm.
            let _ = mark::leave(state_dir.path(), *pid);
        }
        self.release();
    }

    /// Ends the agent that we started, and nothing else: the daemon starts its own, and hears of it from the beginning.
    ///
    /// # Errors
    /// What tmux said.
    pub async fn end(self) -> Result<(), String> {
        let mut ended = Ok(());
        if let Seat::Pane { ours: true, .. } = self.seat {
            ended = self.ground.terminal.kill_pane().await.map_err(|error| error.to_string());
            if let Directories::Ours(_, state_dir) = &self.ground.dirs {
                mark::forget(state_dir.path());
            }
        }
        self.release();
        ended
    }

    fn release(self) {
        if let Directories::Ours(runtime_dir, _) = &self.ground.dirs {
            runtime_dir.release();
        }
    }
}

/// The agent of our own session.
async fn pane(ground: &Ground) -> Result<(Seat, Step), String> {
    let Directories::Ours(runtime_dir, state_dir) = &ground.dirs else {
        return Err("the directories are a daemon's".to_owned());
    };
    let settings = &ground.setting.settings;
    let session = &settings.tmux_session;
    let found = ground.terminal.find().await.map_err(|error| error.to_string())?;
    if let Some(pane) = found.filter(|pane| pane.dead.is_none()) {
        let (id, pid) = (pane.id, pane.pid);
        let ours = mark::is_left(state_dir.path(), pid);
        let step = Step::ok(format!("the agent that runs in tmux session {session} (pid {pid})"));
        return Ok((Seat::Pane { ours, id, pid }, step));
    }
    let token = session_token(state_dir.path()).map_err(|error| format!("the session's token: {error}"))?;
    // A daemon may adopt it: by stdio, or at the usual port, it has its tools then.
    let mcp = mcp::Door::new(state_dir.path(), settings.mcp.port, settings.mcp.auth == "token")
        .map_err(|error| format!("the HTTP server's token: {error}"))?;
    let start = AgentStart {
        plan: &ground.plan,
        hook: &ground.hook,
        state_dir: state_dir.path(),
        runtime_dir: runtime_dir.path(),
        token: &token,
        permission_s: settings.permission.hook_timeout_s(),
        launcher: &ground.setting.binaries.ccmuxd,
        version: &VersionAhead::default(),
        mcp: Some((&mcp, Transport::of(&settings.mcp.entry))),
    };
    let started = start.start(&ground.terminal, None).await?;
    let step = Step::ok(format!("started {} in tmux session {session}", ground.plan.program()));
    let (id, pid) = (started.pane.id, started.pane.pid);
    Ok((Seat::Pane { ours: true, id, pid }, step))
}

/// How long a screen must be the same before it is believed: a dialog may come up behind the first prompt box.
fn rests_after(class: ScreenClass, text: &str) -> Duration {
    match class {
        ScreenClass::Dialog => Duration::from_millis(500),
        ScreenClass::Ready | ScreenClass::Draft | ScreenClass::Busy | ScreenClass::Queued => {
            Duration::from_millis(1500)
        }
        _ if text.trim().is_empty() => LIMIT,
        _ => Duration::from_secs(10),
    }
}

fn seen(screen: &Screen, text: &str) -> Seen {
    match screen.class {
        ScreenClass::Dialog => Seen::Dialog(StartDialog::on(screen, text)),
        ScreenClass::Ready if shows_logged_out(text) => Seen::LoggedOut,
        ScreenClass::Ready => Seen::Ready,
        ScreenClass::Draft | ScreenClass::Busy | ScreenClass::Queued => Seen::Working,
        _ => Seen::unclear(text),
    }
}
