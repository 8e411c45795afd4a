//! Orders to the runtime, in one closed list.
//!
//! Messages are named by their numbers; whoever carries an order out has the texts.

use ccmux_wire::id::{BatchId, MessageId, PromptId, SessionId};
use ccmux_wire::receipt::Proof;
use serde::{Deserialize, Serialize};

use crate::hold::Held;

/// How far a batch had come that is proved absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempt {
    /// Nothing of it was typed.
    #[default]
    Untyped,
    /// It was typed, or maybe typed, and then the daemon or the agent was ended: marked as redelivered, but no fault of its
    /// messages.
    Interrupted,
    /// It was typed and failed: marked as redelivered, and counted against its messages.
    Failed,
}

impl Attempt {
    /// Whether nothing was typed.
    pub fn is_untyped(&self) -> bool {
        *self == Self::Untyped
    }
}

/// What kind of alert; the words are listed in docs/PROTOCOL.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// Claude asks for permission.
    PermissionRequest,
    /// Claude, or a tool of its, asks a question.
    Question,
    /// The API failed in a turn.
    Failure,
    /// The API failed and would fail again: nothing is sent for a while.
    Held,
    /// That is over.
    Resumed,
    /// Claude asks something before its prompt box is there for the first time.
    StartDialog,
    /// The agent's process ended.
    AgentExited,
    /// It was started again.
    AgentRestarted,
    /// It keeps ending at once.
    Degraded,
    /// A batch can't be proved delivered or absent.
    Uncertain,
    /// A message was given up.
    Failed,
    /// Messages waited longer than their channel's time to live.
    Expired,
    /// ccmux's text, or somebody's, stands in the prompt box and nothing moves.
    Stuck,
    /// The screen fits no rule.
    UnknownScreen,
    /// Hooks don't come although turns do.
    HooksSilent,
    /// What came on a channel can't be a message.
    Rejected,
    /// A FIFO is a channel from now on.
    ChannelOpened,
    /// The FIFO of a channel is gone.
    ChannelClosed,
    /// What stands in a channel's place can't be one.
    ChannelRefused,
    /// A database was damaged and moved aside.
    Damaged,
    /// The port of the HTTP server can't be bound: Claude can't answer.
    McpDown,
    /// It is bound again.
    McpUp,
    /// The agent is of a version that nobody has measured.
    NewVersion,
}

impl AlertKind {
    /// The word as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::PermissionRequest => "permission_request",
            Self::Question => "question",
            Self::Failure => "failure",
            Self::Held => "held",
            Self::Resumed => "resumed",
            Self::StartDialog => "start_dialog",
            Self::AgentExited => "agent_exited",
            Self::AgentRestarted => "agent_restarted",
            Self::Degraded => "degraded",
            Self::Uncertain => "uncertain",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Stuck => "stuck",
            Self::UnknownScreen => "unknown_screen",
            Self::HooksSilent => "hooks_silent",
            Self::Rejected => "rejected",
            Self::ChannelOpened => "channel_opened",
            Self::ChannelClosed => "channel_closed",
            Self::ChannelRefused => "channel_refused",
            Self::Damaged => "damaged",
            Self::McpDown => "mcp_down",
            Self::McpUp => "mcp_up",
            Self::NewVersion => "new_version",
        }
    }
}

/// Something for the log alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// Somebody is active at the terminal, but the box stayed empty: mouse or focus. It does not count as typing.
    OnlyMouse,
    /// Two witnesses have been of different minds for a minute.
    Dispute(String),
    /// A batch was submitted together with text that a human typed.
    SubmittedWithOtherText,
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Start the agent in the session's pane, which is made if it is not there.
    StartAgent {
        /// The conversation to go on with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume: Option<SessionId>,
    },
    /// How big is the agent by now?
    MeasureAgent {
        /// Its process.
        pid: i32,
    },
    /// End the agent in order: it will be started again at once.
    EndAgent {
        /// Its process.
        pid: i32,
    },
    /// Remember for the next daemon what is held, or that nothing is.
    KeepHold {
        /// What.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Held>,
    },
    /// Tell the channels of these messages, on their way out.
    TellSenders {
        /// Which messages.
        messages: Vec<MessageId>,
        /// A sentence for people.
        message: String,
    },
    /// Remember this session as the owned one.
    BindSession {
        /// Its id.
        session: SessionId,
    },
    /// Look at the screen, the pane and the people at it.
    Look {
        /// Number of the order; the answer repeats it.
        look: u64,
        /// Compare the box with this batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<BatchId>,
        /// Wait until two captures are equal (at most 5 s).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        settled: bool,
    },
    /// Record the batch as in flight, then paste its text. No Enter.
    Inject {
        /// Number of the batch.
        batch: BatchId,
        /// Its messages, in order.
        messages: Vec<MessageId>,
    },
    /// Press Enter, if the pane still is what it was.
    PressEnter {
        /// For this batch.
        batch: BatchId,
    },
    /// Take the batch's text out of the box, from in front of what the human typed behind it, if the box still is what it
    /// was.
    TakeOut {
        /// Which batch.
        batch: BatchId,
    },
    /// Put the human's draft away, remembering its text, if the pane still is what it was.
    StashDraft,
    /// The draft that was put away did not come back: tell people its text.
    TellDraftLost,
    /// Look for the batch in the transcript, behind the offset of its paste, and in every other transcript of its folder that
    /// has grown since.
    FindInTranscript {
        /// Which batch.
        batch: BatchId,
    },
    /// The batch's messages are delivered.
    RecordDelivered {
        /// Which batch.
        batch: BatchId,
        /// Who proved it.
        proof: Proof,
        /// The prompt it became.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<PromptId>,
    },
    /// The batch's messages are uncertain.
    RecordUncertain {
        /// Which batch.
        batch: BatchId,
        /// Why, for people.
        reason: String,
    },
    /// The batch is provably not delivered: its messages wait again.
    RecordRequeued {
        /// Which batch.
        batch: BatchId,
        /// How far it had come.
        #[serde(default, skip_serializing_if = "Attempt::is_untyped")]
        attempt: Attempt,
    },
    /// A message is given up.
    RecordFailed {
        /// Which message.
        message: MessageId,
        /// Why, for people.
        reason: String,
    },
    /// A message that was never sent is too old by now.
    RecordExpired {
        /// Which message.
        message: MessageId,
    },
    /// Read the turn from the transcript and broadcast it.
    PublishTurn {
        /// Whose.
        session: SessionId,
        /// Which prompt began it; absent: what follows the cursor.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<PromptId>,
        /// Messages that were delivered into it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        in_reply_to: Vec<MessageId>,
        /// Messages that it answers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        answers: Vec<MessageId>,
        /// No Stop hook told of its end.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
    /// Write it into the log.
    Note {
        /// What.
        note: Note,
    },
    /// Tell subscribers.
    Alert {
        /// What kind.
        kind: AlertKind,
        /// Whose.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// Which messages it is about.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        messages: Vec<MessageId>,
        /// The tool that Claude asks about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// A sentence for people.
        message: String,
    },
}
