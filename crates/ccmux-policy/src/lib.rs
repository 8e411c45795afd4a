//! What ccmux does next: decisions only.
//!
//! One type with verbs, and time is an argument:
//!
//! ```text
//! Supervisor::handle(event, now)    a past fact comes in
//! Supervisor::next_effect()         orders go out, until there is none
//! Supervisor::next_deadline()       when to come back although nothing happened
//! Supervisor::status(), why()       what it believes, for people
//! ```
//!
//! | module | what it decides |
//! |---|---|
//! | [`supervisor`] | which part hears of an event |
//! | [`evidence`] | what the agent is doing, from hooks, state file and screen |
//! | [`gate`] | whether a batch may be injected now, and if not, why |
//! | [`queue`] | which messages make the next batch |
//! | [`flight`] | the one batch on its way: paste, look, Enter, receipt |
//! | [`turns`] | when a turn is over and which messages it answers |
//! | [`hold`] | how long nothing goes in after the API failed |
//! | [`lifecycle`] | when the agent is started again |
//! | [`attention`] | which notice about what waits is due; an engine of its own, beside the supervisor |
//! | [`timeline`] | events and effects as lines of text, for tests and the recorder |
//!
//! No I/O, no clock, no async, no randomness, and no message body ever comes here: `clippy.toml` beside this crate
//! forbids the first ones.
#![deny(missing_docs)]

pub mod attention;
pub mod effect;
pub mod event;
pub mod evidence;
pub mod flight;
pub mod gate;
pub mod hold;
pub mod lifecycle;
pub mod now;
pub mod queue;
pub mod screen;
pub mod settings;
pub mod supervisor;
pub mod timeline;
pub mod turns;

pub use effect::{AlertKind, Attempt, Effect};
pub use event::{Event, Message};
pub use now::{Mono, Now, UnixMs};
pub use settings::PolicySettings;
pub use supervisor::{PolicyStatus, Supervisor};
