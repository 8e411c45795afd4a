//! What a look at the agent's screen showed, as the runtime reports it. No text of it comes here.

use serde::{Deserialize, Serialize};

use crate::now::UnixMs;

/// What kind of screen it is. Classified in the runtime by rules that are data (`config/agents/*.toml`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScreenClass {
    /// The prompt box is there and empty (a placeholder is empty).
    Ready,
    /// The prompt box holds text, and nothing runs.
    Draft,
    /// A turn runs.
    Busy,
    /// A turn runs, and Claude holds queued input.
    Queued,
    /// A dialog or overlay is open: keys mean something else.
    Dialog,
    /// The agent is gone; a shell or its last words are on the screen.
    Shell,
    /// No rule fits.
    Unknown,
}

/// What is in the prompt box, compared with the batch in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoxHolds {
    /// It is empty, or there is no box.
    Nothing,
    /// The text of the batch that the look asked about, whole.
    Ours,
    /// Anything else.
    Foreign,
}

/// One look: the screen, the pane and the people at it, from one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// What kind of screen.
    pub class: ScreenClass,
    /// What is in the prompt box.
    pub holds: BoxHolds,
    /// The pane is in one of tmux's modes (copy mode): keys don't reach the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copy_mode: bool,
    /// The box holds the text of the batch that the look asked about and one further line behind it, and the keys that take
    /// the text out again are known for this version of the agent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removable: bool,
    /// The agent has written nothing since the batch that the look asked about was pasted: it may not have read it yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    /// When a client that can type was last active; absent when nobody is attached. Resolution: 1 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_at: Option<UnixMs>,
    /// The agent says that it waits for Enter to send what is in the box.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub press_enter: bool,
    /// A draft of the human is stashed: a second stash would destroy it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stashed: bool,
    /// This version of the agent is known to put a stashed draft back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_stash: bool,
    /// Vim's normal mode: Enter is a motion.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vim_normal: bool,
    /// Which rule named the dialog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialog: Option<String>,
}

impl Seen {
    /// A look that shows just this, at a pane that nobody is attached to.
    pub fn plain(class: ScreenClass, holds: BoxHolds) -> Self {
        Self {
            class,
            holds,
            copy_mode: false,
            removable: false,
            silent: false,
            active_at: None,
            press_enter: false,
            stashed: false,
            can_stash: false,
            vim_normal: false,
            dialog: None,
        }
    }
}
