//! Past facts: everything that can wake the policy, in one closed list.
//!
//! No text of a message, a turn or a screen is in them: ids, sizes, channels, classes, and the words of reasons.

use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::{BatchId, MessageId, PromptId, Seq, SessionId};
use serde::{Deserialize, Serialize};

use crate::hold::Held;
use crate::now::UnixMs;
use crate::screen::Seen;
use crate::settings::PolicySettings;

/// A message of the inbox, without its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its row; messages are ordered by it.
    pub id: MessageId,
    /// Where it came from.
    pub channel: ChannelName,
    /// Bytes it will take in a prompt, head included.
    pub bytes: u64,
    /// Lines it will take in a prompt.
    pub rows: u32,
    /// How often a batch with it failed before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// Its channel's: n goes before a channel that was passed over fewer than n times.
    #[serde(default, skip_serializing_if = "is_level")]
    pub priority: i32,
    /// Not worth sending from then on: its channel's time to live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<UnixMs>,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_level(priority: &i32) -> bool {
    *priority == 0
}

/// Whose session a fact is about, as proved by token and process, not as claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The hook had our token and was run by the agent in our pane.
    Own,
    /// Any other session of the user.
    Foreign,
}

/// What a session's own hooks say happened in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum SessionFact {
    /// SessionStart. Not "ready": the prompt box comes 1 to 2 s later.
    Started {
        /// `startup`, `resume`, `clear`, `compact`.
        source: String,
    },
    /// UserPromptSubmit.
    PromptSubmitted {
        /// Absent in 2.0.76.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<PromptId>,
        /// The batch in flight whose text it is, under the comparison form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<BatchId>,
    },
    /// Stop.
    TurnEnded {
        /// Absent in 2.0.76.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<PromptId>,
        /// Background tasks that still run.
        background: u32,
    },
    /// StopFailure: the API said no.
    TurnFailed {
        /// Absent in some versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<PromptId>,
        /// Claude Code's word for it, e.g. `rate_limit`.
        error: String,
        /// When the limit ends, as its text says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resets_at: Option<UnixMs>,
    },
    /// Notification: somebody logged in.
    LoggedIn,
    /// PermissionRequest, Elicitation.
    DialogOpened {
        /// The tool it is about.
        tool: String,
    },
    /// SessionEnd: a note, the process may live on (`/clear`).
    Ended {
        /// `clear`, `prompt_input_exit`, `other`.
        reason: String,
    },
}

/// Claude Code's own state file, `sessions/<pid>.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", content = "waiting_for", rename_all = "snake_case")]
pub enum FileState {
    /// The main loop waits for input.
    Idle,
    /// A turn, a retry, a slow Stop hook, a background agent.
    Busy,
    /// The main loop waits for input while a background shell runs.
    Shell,
    /// A dialog is open; the text says which.
    Waiting(String),
    /// There is no such file, or it is another process's, or its word is unknown.
    #[default]
    Absent,
}

/// What the transcript says about a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// A user line behind the offset of the paste is the batch.
    Whole,
    /// A user line holds the batch's text together with other text.
    Within,
    /// Everything behind the offset was read, and every transcript of the folder that has grown since; it is not there.
    Absent,
    /// The same, but another session lives in this folder: it may stand behind the screen, and what it keeps is not known.
    AbsentHere,
    /// The transcript can't be read.
    Unreadable,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody could tell.
    Unknown,
}

impl ExitStatus {
    /// Somebody ended it: HUP, INT, KILL or TERM, or its tmux server is gone; Claude Code catches HUP, INT and TERM, and ends
    /// with 128 and their number. A fault of its own ends it by another code, or another signal.
    pub fn is_from_outside(self) -> bool {
        matches!(self, Self::Signal(1 | 2 | 9 | 15) | Self::Code(129 | 130 | 143) | Self::Unknown)
    }

    /// For people: the process ended ...
    pub fn words(self) -> String {
        match self {
            Self::Code(code) => format!("with code {code}"),
            Self::Signal(signal) => format!("by signal {signal}"),
            Self::Unknown => "in an unknown way".to_owned(),
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The daemon runs; batches are numbered from here on.
    DaemonStarted {
        /// The first number not used before.
        next_batch: BatchId,
    },
    /// An earlier daemon ran here: turns may have ended since, without anybody to publish them.
    DaemonReturned {
        /// Messages of the latest batch that was delivered, if it was not answered.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unanswered: Vec<MessageId>,
        /// The prompt that they became: only its turn answers them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<PromptId>,
    },
    /// The pane holds an agent of an earlier daemon.
    AgentFound {
        /// Its process.
        pid: i32,
        /// The session that was bound then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
    },
    /// There is no agent: no tmux session, or its pane is dead.
    AgentMissing {
        /// The session that was bound then, to be resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
    },
    /// The agent's process runs in the pane.
    AgentStarted {
        /// Its process.
        pid: i32,
    },
    /// It could not be started.
    AgentStartFailed {
        /// Why, for people.
        reason: String,
    },
    /// Its process is gone.
    AgentExited {
        /// Which process.
        pid: i32,
        /// How.
        status: ExitStatus,
    },
    /// How much memory the agent takes.
    AgentMeasured {
        /// Which process.
        pid: i32,
        /// Its resident set.
        bytes: u64,
    },
    /// An earlier daemon held messages back.
    HoldFound {
        /// Why and until when.
        held: Held,
    },
    /// The transcript shows that the API failed in a turn that ended without a hook.
    FailureRead {
        /// Whose.
        session: SessionId,
        /// The prompt that began the turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<PromptId>,
        /// Claude Code's word for it.
        error: String,
        /// When the limit ends, as its text says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resets_at: Option<UnixMs>,
    },
    /// A message was committed to the inbox.
    MessageAccepted(Message),
    /// Somebody took a message out of the inbox before it was sent.
    MessageDropped {
        /// Which.
        message: MessageId,
    },
    /// The inbox is a new one: whatever waited is not in it.
    InboxLost,
    /// A batch was in flight when an earlier daemon ended.
    BatchFound {
        /// Its number.
        batch: BatchId,
        /// Its messages.
        messages: Vec<Message>,
    },
    /// A hook of a session.
    Session {
        /// Which session.
        session: SessionId,
        /// Whose.
        origin: Origin,
        /// What happened.
        #[serde(flatten)]
        fact: SessionFact,
    },
    /// The agent's state file names its session.
    SessionSeen {
        /// Which.
        session: SessionId,
    },
    /// The agent's state file changed.
    StateFileRead {
        /// What it says.
        #[serde(flatten)]
        state: FileState,
    },
    /// The pane wrote something after having been silent.
    PaneActive,
    /// The pane was silent for `silence_timeout`: a reason to look, never proof.
    PaneSilent,
    /// A look was taken.
    ScreenSeen {
        /// Which order it answers.
        look: u64,
        /// What it showed.
        #[serde(flatten)]
        seen: Seen,
    },
    /// A look could not be taken.
    LookFailed {
        /// Which order it answers.
        look: u64,
        /// Why, for people.
        reason: String,
    },
    /// tmux took the text of the batch.
    Pasted {
        /// Which batch.
        batch: BatchId,
    },
    /// The guard refused, nothing was typed.
    PasteRefused {
        /// Which batch.
        batch: BatchId,
        /// Why, for people.
        reason: String,
    },
    /// The pane has too few rows for the text; nothing was typed.
    PaneTooSmall {
        /// Which batch.
        batch: BatchId,
        /// Rows of text that the prompt box has room for.
        has: u32,
        /// Rows that the text needs.
        needs: u32,
    },
    /// It can't be told whether the text was typed (tmux gave no answer).
    PasteDoubtful {
        /// Which batch.
        batch: BatchId,
        /// Why, for people.
        reason: String,
    },
    /// tmux took the Enter key.
    EnterPressed {
        /// Which batch.
        batch: BatchId,
    },
    /// The guard refused, Enter was not sent.
    EnterRefused {
        /// Which batch.
        batch: BatchId,
        /// Why, for people.
        reason: String,
    },
    /// The human's draft was put away.
    DraftStashed,
    /// It was not; nothing was pressed.
    StashRefused {
        /// Why, for people.
        reason: String,
    },
    /// The transcript was searched for a batch.
    TranscriptSearched {
        /// Which batch.
        batch: BatchId,
        /// What was found.
        found: Found,
        /// The prompt of the line that was found.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<PromptId>,
        /// The session whose transcript holds it, where that is not the bound one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
    },
    /// The text of the batch was taken out of the box again: what the human typed behind it stands there alone.
    TakenOut {
        /// Which batch.
        batch: BatchId,
    },
    /// It was not: the box is not what it must be, or the user typed meanwhile.
    TakeOutRefused {
        /// Which batch.
        batch: BatchId,
        /// Why, for people.
        reason: String,
    },
    /// A turn went out on `output.sock`.
    TurnPublished {
        /// Whose.
        session: SessionId,
        /// Its line.
        seq: Seq,
    },
    /// The screen rules were read again: a screen may mean something else now.
    RulesReread,
    /// The settings were read again: these count from now on.
    SettingsReread {
        /// All of them.
        settings: PolicySettings,
    },
    /// A deadline passed.
    DeadlinePassed,
    /// Somebody asks what the state is: a look older than a second is taken again.
    StateAsked,
    /// The daemon was asked to stop: nothing new is injected.
    ShutdownAsked,
}
