//! The agent: what happens to it (events, time) and what it shows, without a terminal of its own.
//!
//! The caller feeds [`Agent::handle`] and [`Agent::tick`], waits until [`Agent::next_deadline`], and draws
//! [`Agent::view`]. Its files: `input` (keys), `submit` (prompts and commands), `turn` (the script of a turn),
//! `tool` (calls and dialogs), `mcp_call` (calls of MCP tools), `background` (sub-agents), `hooking` (what hooks are told), `view` (what is seen).

mod background;
mod hooking;
mod input;
mod mcp_call;
mod submit;
#[cfg(test)]
mod tests;
mod tool;
mod turn;
mod view;

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use crate::cli::Options;
use crate::conversation::{Conversation, Mark};
use crate::dialog::Dialog;
use crate::event::{Event, RunId};
use crate::faults::Faults;
use crate::hooks::HookRunner;
use crate::journal::Journal;
use crate::keys::KeyParser;
use crate::paths::Paths;
use crate::prompt_box::{Draft, PromptBox};
use crate::screen::Size;
use crate::session::Opened;
use crate::settings::Hooks;
use crate::state_file::{StateFile, Status};
use crate::transcript::Transcript;
use background::BackgroundTask;
use turn::Turn;

/// SessionStart comes that long after the start, before the box is up (FINDINGS 35).
const SESSION_START_AFTER: Duration = Duration::from_millis(100);
/// A lone ESC is the Escape key if nothing follows within this time.
const ESCAPE_WAIT: Duration = Duration::from_millis(30);
/// The second Ctrl-C or Ctrl-D counts within this time.
const LEAVE_WINDOW: Duration = Duration::from_secs(1);
const HINT_SHOWN: Duration = Duration::from_secs(4);
/// Between two pictures of the spinner.
const FRAME_EVERY: Duration = Duration::from_millis(120);
const IDLE_PROMPT_AFTER: Duration = Duration::from_secs(60);
/// What SessionEnd hooks may take while the agent ends.
const LAST_HOOKS: Duration = Duration::from_millis(1500);

/// How the agent ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    pub code: u8,
    /// As SessionEnd hooks are told.
    pub reason: &'static str,
}

/// How far the start has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Startup {
    Begun,
    SessionStarted,
    /// The box is up.
    Ready,
}

/// A key that leaves when pressed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    CtrlC,
    CtrlD,
    Escape,
}

pub struct Agent {
    faults: Faults,
    paths: Paths,
    hooks: HookRunner,
    events: Sender<Event>,
    journal: Journal,
    state: StateFile,
    transcript: Transcript,
    session: String,
    permission_mode: String,
    size: Size,
    begun: Instant,
    startup: Startup,
    opened: Opened,
    parser: KeyParser,
    escape_since: Option<Instant>,
    prompt: PromptBox,
    stash: Option<Draft>,
    hint: Option<(&'static str, Instant)>,
    again: Option<(Again, Instant)>,
    swallow_left: u32,
    drop_left: u32,
    deaf_until: Option<Instant>,
    /// How long it freezes at the next paste.
    freeze: Duration,
    /// How much later it reads the next keys that are no paste.
    keys_late: Duration,
    /// A dialog opens by itself then: a fault switch.
    dialog_due: Option<Instant>,
    /// That dialog takes keys from then on.
    dialog_armed: Option<Instant>,
    pasted_before: bool,
    /// Vim's NORMAL mode is on.
    normal_mode: bool,
    conversation: Conversation,
    /// Entries before this one are printed for good (classic renderer).
    printed: usize,
    queue: Vec<String>,
    turn: Option<Turn>,
    tasks: Vec<BackgroundTask>,
    /// `--mcp-config`
    mcp_config: Vec<String>,
    /// `!cmd`s that run.
    shells: Vec<RunId>,
    /// A dialog that belongs to no turn (`/status`).
    overlay: Option<Dialog>,
    last_prompt: Option<String>,
    idle_since: Option<Instant>,
    last_run: u64,
    exit: Option<Exit>,
}

impl Agent {
    pub fn new(
        options: &Options,
        faults: Faults,
        paths: Paths,
        hooks: Hooks,
        opened: Opened,
        events: Sender<Event>,
        size: Size,
    ) -> Self {
        let permission_mode = permission_mode(options, &faults);
        let session = opened.session.clone();
        let transcript = Transcript::new(paths.transcript(&session), &session, &paths.cwd, &permission_mode)
            .after(opened.parent.clone(), opened.prompts);
        let state = StateFile::new(paths.state_file(std::process::id()), &paths.cwd, faults.state_file);
        let mut agent = Self {
            hooks: HookRunner { hooks, runs: faults.hook_runs(), events: events.clone() },
            events,
            journal: Journal::default(),
            state,
            transcript,
            session,
            permission_mode,
            size,
            begun: Instant::now(),
            startup: Startup::Begun,
            opened,
            parser: KeyParser::default(),
            escape_since: None,
            prompt: PromptBox::default(),
            stash: None,
            hint: None,
            again: None,
            swallow_left: faults.swallow_enter,
            drop_left: faults.drop_paste,
            deaf_until: None,
            freeze: faults.freeze,
            keys_late: faults.keys_late,
            dialog_due: None,
            dialog_armed: None,
            pasted_before: false,
            normal_mode: faults.vim,
            conversation: Conversation::default(),
            printed: 0,
            queue: Vec::new(),
            turn: None,
            tasks: Vec::new(),
            mcp_config: options.mcp_config.clone(),
            shells: Vec::new(),
            overlay: None,
            last_prompt: None,
            idle_since: None,
            last_run: 0,
            exit: None,
            faults,
            paths,
        };
        agent.show_head();
        agent
    }

    /// Writes a journal from now on.
    pub fn keep(&mut self, journal: Journal) {
        self.journal = journal;
    }

    /// Takes in what happened.
    pub fn handle(&mut self, event: Event, now: Instant) {
        match event {
            Event::Input(bytes) => self.input(&bytes, now),
            Event::InputClosed => self.leave(129, "other"),
            Event::Resized => {}
            Event::Signal(signal) => self.signalled(signal),
            Event::HooksDone(run, verdict) => {
                self.task_told(run);
                self.hooks_done(run, verdict, now);
            }
            Event::ToolDone(run, outcome) => self.tool_done(run, &outcome, now),
        }
        self.publish();
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Instant) {
        self.start_up(now);
        if self.escape_since.is_some_and(|since| now >= since + ESCAPE_WAIT) {
            self.escape_since = None;
            let keys = self.parser.flush();
            self.keys(keys, now);
        }
        self.hint = self.hint.filter(|(_, until)| now < *until);
        self.again = self.again.filter(|(_, until)| now < *until);
        self.step_turn(now);
        self.remind(now);
        self.finish_tasks(now);
        self.transcript.write_due(now);
        self.publish();
    }

    /// When [`Self::tick`] has something to do, if nothing happens before.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let start = match self.startup {
            Startup::Begun => Some(self.begun + SESSION_START_AFTER.min(self.faults.start)),
            Startup::SessionStarted => Some(self.begun + self.faults.start),
            Startup::Ready => None,
        };
        let animation = self.is_animated().then(|| now + FRAME_EVERY);
        let idle = self.idle_since.map(|since| since + IDLE_PROMPT_AFTER);
        let tasks = self.tasks.iter().filter(|_| self.turn.is_none());
        let task = tasks.filter_map(BackgroundTask::deadline).min();
        [
            start,
            animation,
            idle,
            task,
            self.dialog_due.filter(|due| *due > now),
            self.faults.idle_redraw.map(|pause| now + pause),
            self.escape_since.map(|since| since + ESCAPE_WAIT),
            self.hint.map(|(_, until)| until),
            self.again.map(|(_, until)| until),
            self.turn.as_ref().and_then(Turn::deadline),
            self.transcript.next_due(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub fn resize(&mut self, size: Size) {
        self.size = size;
    }

    pub fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// The last acts: SessionEnd, the transcript's last lines, the state file.
    pub fn finish(&mut self) {
        let reason = self.exit.map_or("other", |exit| exit.reason);
        self.cancel_turn_processes();
        self.transcript.finish();
        self.fire_session_end(reason, LAST_HOOKS);
        self.state.remove();
    }

    fn start_up(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.begun);
        if self.startup == Startup::Begun && since >= SESSION_START_AFTER.min(self.faults.start) {
            self.startup = Startup::SessionStarted;
            self.fire_session_start();
        }
        if self.startup == Startup::SessionStarted && since >= self.faults.start {
            self.startup = Startup::Ready;
        }
    }

    /// The box is up.
    pub fn is_ready(&self) -> bool {
        self.startup == Startup::Ready
    }

    fn is_busy(&self) -> bool {
        self.turn.is_some() || !self.tasks.is_empty()
    }

    /// Something moves on the screen: a turn runs and no dialog hides the spinner.
    fn is_animated(&self) -> bool {
        self.is_ready() && self.is_busy() && self.dialog().is_none()
    }

    fn status(&self) -> Status {
        match (&self.turn, &self.overlay) {
            (Some(turn), _) => match turn.dialog() {
                Some(dialog) if dialog.is_question() => Status::InputNeeded,
                Some(_) => Status::PermissionPrompt,
                None => Status::Busy,
            },
            (None, Some(_)) => Status::DialogOpen,
            (None, None) if !self.tasks.is_empty() => Status::Busy,
            (None, None) => Status::Idle,
        }
    }

    fn publish(&mut self) {
        if self.is_ready() && self.exit.is_none() {
            self.state.publish(self.status(), &self.session);
        }
    }

    fn signalled(&mut self, signal: i32) {
        match signal {
            signal_hook::consts::SIGINT => self.leave(0, "other"),
            signal => self.leave(u8::try_from(128 + signal).unwrap_or(255), "other"),
        }
    }

    fn leave(&mut self, code: u8, reason: &'static str) {
        self.exit.get_or_insert(Exit { code, reason });
    }

    fn next_run(&mut self) -> RunId {
        self.last_run += 1;
        RunId(self.last_run)
    }

    fn cwd(&self) -> String {
        self.paths.cwd.to_string_lossy().into_owned()
    }

    /// The banner, and of a resumed conversation what was said.
    fn show_head(&mut self) {
        let home = std::env::var("HOME").map(PathBuf::from).unwrap_or_default();
        let shown = match self.paths.cwd.strip_prefix(&home) {
            Ok(rest) if !home.as_os_str().is_empty() => format!("~/{}", rest.display()),
            _ => self.cwd(),
        };
        let version = env!("CARGO_PKG_VERSION");
        let banner = format!(
            "\n ▐▛███▛█   ccmux demo agent v{version}\n▝▜██████▀  no model · scripted answers\n ▝▝   ▝▝   {shown}\n"
        );
        self.conversation.push(Mark::Banner, &banner);
        for (mark, text) in std::mem::take(&mut self.opened.said) {
            self.conversation.push(mark, &text);
        }
    }
}

fn permission_mode(options: &Options, faults: &Faults) -> String {
    match &options.permission_mode {
        Some(mode) => mode.clone(),
        None if faults.ask_permissions && !options.skip_permissions => "default".into(),
        None => "bypassPermissions".into(),
    }
}
