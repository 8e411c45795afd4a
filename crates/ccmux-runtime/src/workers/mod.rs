//! The tasks that do what the policy orders; each is a struct whose fields are its whole world.
//!
//! | worker | orders | answers with |
//! |---|---|---|
//! | [`clerk`] | Inject (records it first), Record… | — |
//! | [`typist`] | Look, Inject (types it), PressEnter | ScreenSeen, Pasted, EnterPressed, ... |
//! | [`witness`] | FindInTranscript | TranscriptSearched |
//! | [`speaker`] | PublishTurn, Alert (the herald tells it) | TurnPublished |
//! | [`starter`] | StartAgent, BindSession | AgentStarted, AgentExited, StateFileRead, ... |
//!
//! [`herald`] tells alerts, whoever raises them. [`on_the_way`] holds the texts of batches between paste and receipt: what looks, searches and hooks compare with.

pub mod clerk;
pub mod herald;
pub mod on_the_way;
pub mod speaker;
pub mod starter;
pub mod typist;
pub mod witness;
