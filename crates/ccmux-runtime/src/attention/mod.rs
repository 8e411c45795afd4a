//! Who is waited for: hears of hooks, dialogs and alerts, asks the policy's engine, and has people told.
//!
//! ```text
//! hooks, state file, alerts ─► Ears ─► Attendant ─► policy's Attention ─► attention.db, then routes
//!                                         └ asked: pane's last key, state file ◄┘
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`fact`] | a hook's frame → what it means for whoever waits |
//! | [`guests`] | containers and older senders |
//! | [`words`] | the texts of notices |
//! | [`book`] | `attention.db`: what a restart must neither repeat nor forget |
//! | [`opencode`] | the same for OpenCode's events |
//! | [`attendant`] | the task |
//! | `catch_up` | a turn that ended without a daemon |
//! | `letters` | notices leave |
//! | `look` | panes are looked at |
//! | `list` | what is shown of what waits, and what may be muted |
//!
//! Whoever has something to tell holds [`Ears`] and never waits. The engine never sees a text; they are kept beside it,
//! by the item's key.

pub mod attendant;
#[cfg(test)]
mod attendant_tests;
pub mod book;
mod catch_up;
pub mod fact;
pub mod guests;
mod letters;
mod list;
mod look;
pub mod opencode;
pub mod words;

use ccmux_policy::attention::{Answer, Key, Mute, Selection};
use ccmux_policy::event::FileState;
use ccmux_policy::screen::ScreenClass;
use ccmux_policy::{AlertKind, Effect, Event, UnixMs};
use ccmux_wire::attention::Standing;
use ccmux_wire::id::SessionId;
use tokio::sync::{mpsc, oneshot};

pub use attendant::Attendant;
use fact::Fact;
pub use guests::GuestNews;
use words::Text;

/// So much may wait for the attendant; what comes then is lost, and said so.
const QUEUE: usize = 4096;

/// What the attendant hears.
#[derive(Debug)]
pub enum Heard {
    /// A hook of a session.
    Hook {
        /// Which.
        session: SessionId,
        /// The one in our pane.
        own: bool,
        /// What it means.
        fact: Fact,
    },
    /// Somebody without a session of ours tells something.
    Guest(GuestNews),
    /// Something of OpenCode's.
    Opencode(opencode::News),
    /// The agent's state file changed.
    File(FileState),
    /// A turn of that session was published.
    Published(SessionId),
    /// The agent's process is gone; whose it was, if that is known.
    AgentGone(Option<SessionId>),
    /// Something people should know.
    Alert {
        /// What kind.
        kind: AlertKind,
        /// Whose.
        session: Option<SessionId>,
        /// A sentence.
        message: String,
    },
    /// Messages go in again, or the screen is understood again.
    Unstuck(&'static [AlertKind]),
    /// A note or a question of an agent waits.
    Began(Key, Text),
    /// These wait no more.
    Over(Vec<Selection>),
    /// A look that the engine asked for.
    Answered(Key, Answer),
    /// Somebody wants no notices for a while; whether that names something.
    Mute(Mute, oneshot::Sender<bool>),
    /// Somebody asks what waits.
    Asked(oneshot::Sender<Standing>),
    /// The panes were looked at for whoever asks that.
    Looked(look::Looked, oneshot::Sender<Standing>),
    /// Somebody was active at our own pane then.
    Pressed(UnixMs),
}

/// Where the attendant is told. Clones lead to the same one.
#[derive(Debug, Clone)]
pub struct Ears(mpsc::Sender<Heard>);

impl Ears {
    /// A way to tell, and where it is heard.
    pub fn new() -> (Self, mpsc::Receiver<Heard>) {
        let (ears, heard) = mpsc::channel(QUEUE);
        (Self(ears), heard)
    }

    /// Never waits.
    pub fn tell(&self, heard: Heard) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.0.try_send(heard) {
            tracing::error!(event = "attention.dropped");
        }
    }

    /// What an event of the loop means for whoever waits.
    pub fn event(&self, event: &Event) {
        match event {
            Event::StateFileRead { state } => self.tell(Heard::File(state.clone())),
            Event::TurnPublished { session, .. } => self.tell(Heard::Published(session.clone())),
            Event::AgentExited { .. } => self.tell(Heard::AgentGone(None)),
            Event::AgentMissing { session } => self.tell(Heard::AgentGone(session.clone())),
            Event::ScreenSeen { seen, .. } => {
                seen.active_at.into_iter().for_each(|at| self.tell(Heard::Pressed(at)));
                if seen.class != ScreenClass::Unknown {
                    self.tell(Heard::Unstuck(&[AlertKind::UnknownScreen]));
                }
            }
            _ => {}
        }
    }

    /// The same of an order.
    pub fn effect(&self, effect: &Effect) {
        use AlertKind::{Degraded, Failed, Stuck, Uncertain, UnknownScreen};
        match effect {
            Effect::Alert {
                kind: kind @ (Degraded | Failed | Stuck | Uncertain | UnknownScreen),
                session,
                message,
                ..
            } => {
                self.tell(Heard::Alert { kind: *kind, session: session.clone(), message: message.clone() });
            }
            Effect::RecordDelivered { .. } => self.tell(Heard::Unstuck(&[Stuck, Uncertain, Failed])),
            _ => {}
        }
    }
}
