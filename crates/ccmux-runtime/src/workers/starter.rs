//! Starts the agent, adopts one that runs, and reports what becomes of its process.
//!
//! It does not know when to start one: pauses and restarts are the policy's.

mod adoption;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ccmux_policy::event::ExitStatus;
use ccmux_policy::{AlertKind, Effect, Event};
use ccmux_wire::id::SessionId;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::agent::mcp_entry::Transport;
use crate::agent::plan::AgentPlan;
use crate::agent::process::{AgentProcess, EndSignal, resident_bytes};
use crate::agent::record::AgentRecord;
use crate::agent::start::AgentStart;
use crate::agent::state_file::{StateFile, StateFileWatcher, Watches};
use crate::agent::version::{MEASURED, Release, Version};
use crate::agent::version_ahead::VersionAhead;
use crate::mcp::Door;
use crate::terminal::{Pane, Terminal};
use crate::turns::Turns;
use crate::workers::herald::{Alerts, News};

/// The terminal notices an exit a moment after the kernel did.
const EXIT_SHOWS_WITHIN: Duration = Duration::from_secs(1);
const EXIT_LOOK_PAUSE: Duration = Duration::from_millis(20);
/// An agent that was told to end and has not within that time is killed.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// The agent that runs now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentNow {
    /// Its process.
    pub pid: i32,
    /// The owned session, once it is bound.
    pub session: Option<SessionId>,
    /// What `--version` or its state file said.
    pub version: Option<String>,
}

/// The task.
#[derive(Debug)]
pub struct Starter<T> {
    /// What is ordered.
    pub orders: mpsc::UnboundedReceiver<Effect>,
    /// What is answered.
    pub events: mpsc::Sender<Event>,
    /// The pane.
    pub terminal: Arc<T>,
    /// How it is started.
    pub plan: AgentPlan,
    /// Our hook.
    pub hook: PathBuf,
    /// Seconds that Claude Code waits for a hook that may wait for somebody far away.
    pub permission_s: u32,
    /// Generated files go there.
    pub state_dir: PathBuf,
    /// The agent's hooks find us by it.
    pub runtime_dir: PathBuf,
    /// Its hooks prove by it that they are ours.
    pub token: String,
    /// `ccmuxd`, for `ccmuxd launch`.
    pub launcher: PathBuf,
    /// Where Claude finds our tools, and how it gets there.
    pub mcp: (Door, Transport),
    /// Knows the transcripts.
    pub turns: Turns,
    /// Where a version is told that nobody has measured.
    pub alerts: Alerts,
    /// The agent that runs now, for whoever types or authenticates.
    pub agent: watch::Sender<Option<AgentNow>>,
    /// Asked when an agent ends, for the next one.
    pub version: VersionAhead,
    /// What the state file's watchers use in turn.
    pub watches: Watches,
    /// Whether an agent of an earlier daemon was found, or surely there is none.
    pub is_known: bool,
    /// Ends the watchers.
    pub shutdown: CancellationToken,
}

impl<T: Terminal> Starter<T> {
    /// Looks for an agent of an earlier daemon, then runs until nobody orders any more.
    pub async fn run(mut self) {
        let found = self.first_look().await;
        let _ = self.events.send(found).await;
        while let Some(order) = self.orders.recv().await {
            match order {
                Effect::StartAgent { resume } => {
                    let event = self.start(resume).await;
                    let _ = self.events.send(event).await;
                }
                Effect::BindSession { session } => self.bind(session).await,
                Effect::MeasureAgent { pid } => self.measure(pid).await,
                Effect::EndAgent { pid } => self.end(pid),
                Effect::KeepHold { held } => {
                    self.write_record(&AgentRecord { held, ..AgentRecord::read(&self.state_dir) });
                }
                _ => {}
            }
        }
    }

    /// What can't be told is no size.
    async fn measure(&self, pid: i32) {
        let bytes = resident_bytes(pid).unwrap_or(0);
        tracing::debug!(event = "agent.measured", pid, bytes);
        let _ = self.events.send(Event::AgentMeasured { pid, bytes }).await;
    }

    /// In order first, so that it saves what it has; its end is told by whoever follows it.
    fn end(&self, pid: i32) {
        let Ok(process) = AgentProcess::open(pid) else { return };
        tracing::info!(event = "agent.ending", pid);
        tokio::spawn(async move {
            let told = process.kill(EndSignal::Terminate);
            if timeout(ENDS_WITHIN, process.exited()).await.is_err() {
                tracing::warn!(event = "agent.killed", pid, ?told);
                let _ = process.kill(EndSignal::Kill);
            }
        });
    }

    async fn start(&mut self, resume: Option<SessionId>) -> Event {
        if !self.is_known {
            return self.first_look().await;
        }
        match self.try_start(resume).await {
            Ok(event) => event,
            Err(reason) => {
                tracing::error!(event = "agent.start_failed", %reason);
                Event::AgentStartFailed { reason }
            }
        }
    }

    async fn try_start(&self, resume: Option<SessionId>) -> Result<Event, String> {
        if let found @ Event::AgentFound { .. } = self.adopt().await? {
            return Ok(found);
        }
        let start = AgentStart {
            plan: &self.plan,
            hook: &self.hook,
            permission_s: self.permission_s,
            state_dir: &self.state_dir,
            runtime_dir: &self.runtime_dir,
            token: &self.token,
            launcher: &self.launcher,
            version: &self.version,
            mcp: Some((&self.mcp.0, self.mcp.1)),
        };
        let started = start.start(self.terminal.as_ref(), resume).await?;
        self.note_version(&started.version);
        let pid = started.pane.pid;
        match self.attend(&started.pane, started.resumed, Some(started.version.to_string())) {
            true => Ok(Event::AgentStarted { pid }),
            false => Err(format!("its process {pid} ended at once; `ccmux screen` shows its last words")),
        }
    }

    /// Claude Code updates itself: what runs goes on, and what is started next may be another one.
    fn note_version(&self, version: &Version) {
        let record = AgentRecord::read(&self.state_dir);
        let now = version.to_string();
        if record.version.as_ref() == Some(&now) {
            return;
        }
        tracing::info!(event = "agent.version_changed", before = record.version, %now);
        if version.is_newer_than_measured() {
            let newest = MEASURED.last().map_or_else(String::new, Release::to_string);
            let what = format!(
                "Claude Code {now} was started, and this ccmux was measured with {newest} at the latest: it uses the \
                 hooks that all versions know, and may not understand a screen (`ccmux doctor --screen`); look for a \
                 newer ccmux"
            );
            self.alerts.raise(News::new(AlertKind::NewVersion, what));
        }
        self.write_record(&AgentRecord { version: Some(now), ..record });
    }

    /// Remembers the agent and follows its process. False: it is gone already.
    fn attend(&self, pane: &Pane, session: Option<SessionId>, version: Option<String>) -> bool {
        let Ok(process) = AgentProcess::open(pane.pid) else {
            return false;
        };
        self.remember(&process, version.is_some());
        self.agent.send_replace(Some(AgentNow { pid: pane.pid, session, version }));
        let gone = self.shutdown.child_token();
        tokio::spawn(self.follow_state_file(&process, gone.clone()));
        tokio::spawn(self.follow_exit(process, gone));
        true
    }

    fn remember(&self, process: &AgentProcess, is_started: bool) {
        let before = AgentRecord::read(&self.state_dir);
        let command = if is_started { Some(self.plan.command.clone()) } else { before.command.clone() };
        let (pid, start_time) = (Some(process.pid()), Some(process.start_time()));
        let server = self.terminal.server();
        self.write_record(&AgentRecord { pid, start_time, command, server, ..before });
    }

    fn write_record(&self, record: &AgentRecord) {
        if let Err(error) = record.write(&self.state_dir) {
            tracing::error!(event = "agent.record_failed", %error);
        }
    }

    /// Turns are read from where the transcript ends now: a new session's from its beginning. Of the session that was
    /// bound last, perhaps by an earlier daemon, it is known how far it was read.
    async fn bind(&self, session: SessionId) {
        tracing::info!(event = "session.bound", %session);
        let before = AgentRecord::read(&self.state_dir);
        let transcript = self.turns.transcript_of(&session);
        if let Some(transcript) = &transcript {
            let is_same = before.session.as_ref() == Some(&session);
            let ready = match is_same {
                true => self.turns.set_cursor_to_end(&session, transcript).await,
                false => self.turns.take_up(&session, transcript).await,
            };
            if let Err(error) = ready {
                tracing::warn!(event = "transcript.refused", %session, %error);
            }
        }
        self.write_record(&AgentRecord { session: Some(session.clone()), transcript, ..before });
        self.agent.send_modify(|agent| {
            if let Some(agent) = agent {
                agent.session = Some(session);
            }
        });
    }

    fn follow_state_file(
        &self,
        process: &AgentProcess,
        gone: CancellationToken,
    ) -> impl Future<Output = ()> + use<T> {
        let watches = self.watches.clone();
        let watcher = StateFileWatcher {
            dir: self.plan.sessions_dir(),
            pid: process.pid(),
            start_time: process.start_time(),
        };
        let reader = StateFileReader {
            events: self.events.clone(),
            agent: self.agent.clone(),
            turns: self.turns.clone(),
            plan: self.plan.clone(),
        };
        async move {
            let (news, mut said) = mpsc::channel(16);
            tokio::spawn(watcher.run_with(watches, news, gone));
            while let Some(file) = said.recv().await {
                reader.tell(file).await;
            }
        }
    }

    fn follow_exit(
        &self,
        process: AgentProcess,
        gone: CancellationToken,
    ) -> impl Future<Output = ()> + use<T> {
        let (terminal, events, agent) = (Arc::clone(&self.terminal), self.events.clone(), self.agent.clone());
        let shutdown = self.shutdown.clone();
        let (version, plan) = (self.version.clone(), self.plan.clone());
        async move {
            let pid = process.pid();
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = process.exited() => {}
            }
            gone.cancel();
            version.begin(&plan);
            let status = match process.ended_by() {
                Some(status) => status,
                None => exit_status(terminal.as_ref(), pid).await,
            };
            tracing::warn!(event = "agent.exited", pid, ?status);
            agent.send_if_modified(|agent| agent.take_if(|agent| agent.pid == pid).is_some());
            let _ = events.send(Event::AgentExited { pid, status }).await;
        }
    }
}

/// What a state file says, to whom it matters.
struct StateFileReader {
    events: mpsc::Sender<Event>,
    agent: watch::Sender<Option<AgentNow>>,
    turns: Turns,
    plan: AgentPlan,
}

impl StateFileReader {
    async fn tell(&self, file: StateFile) {
        if let Some(version) = file.version {
            self.agent.send_modify(|agent| {
                if let Some(agent) = agent {
                    agent.version = Some(version);
                }
            });
        }
        if let Some(session) = file.session {
            if self.turns.transcript_of(&session).is_none() {
                self.turns.note_transcript(&session, &self.plan.transcript_of(&session));
            }
            let _ = self.events.send(Event::SessionSeen { session }).await;
        }
        let _ = self.events.send(Event::StateFileRead { state: file.state }).await;
    }
}

/// The pane tells how its process ended, once the terminal noticed; a pane that is gone tells nothing.
pub(crate) async fn exit_status<T: Terminal>(terminal: &T, pid: i32) -> ExitStatus {
    let until = tokio::time::Instant::now() + EXIT_SHOWS_WITHIN;
    loop {
        match terminal.find().await {
            Ok(Some(pane)) if pane.pid == pid && pane.dead.is_none() => {}
            Ok(Some(pane)) if pane.pid == pid => return pane.dead.unwrap_or(ExitStatus::Unknown),
            _ => return ExitStatus::Unknown,
        }
        if tokio::time::Instant::now() >= until {
            return ExitStatus::Unknown;
        }
        sleep(EXIT_LOOK_PAUSE).await;
    }
}
