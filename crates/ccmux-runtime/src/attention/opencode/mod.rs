//! OpenCode's sessions: events come in, from its plugin or from a server's stream, and what waits for somebody comes out.
//!
//! ```text
//! plugin ─► control.sock ─┐
//!                         ├─► News ─► Front ─► policy's Opencode ─► Step ─► Attendant
//! server ─► stream ───────┘             └ titles, tasks, panes
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`said`] | an event's JSON → what it means, and the few words of it that a notice shows |
//! | [`front`] | what is known of sessions in words, beside what the policy knows of them |
//! | [`stream`] | the second source: a server's stream of events |
//! | [`teller`] | who told of an item, for the next daemon |
//!
//! What comes in is hostile until [`said`] has looked at it.

pub mod front;
pub mod said;
pub mod stream;
pub mod teller;

use ccmux_policy::attention::Kind;
use ccmux_policy::attention::opencode::Origin;
use ccmux_wire::id::SessionId;

pub use front::{Front, Step};
pub use said::Said;
pub use teller::Teller;

use crate::spots::Spot;

/// What is heard of OpenCode.
#[derive(Debug)]
pub enum News {
    /// Somebody tells from now on.
    Opened {
        /// Who.
        origin: Origin,
        /// Where it is seen, if in a pane of tmux.
        spot: Option<Spot>,
    },
    /// One of its connections ended.
    Closed(Origin),
    /// An event.
    Said {
        /// Who tells it.
        origin: Origin,
        /// What.
        said: Box<Said>,
    },
    /// A server's own list, after an interruption.
    Reconciled {
        /// Which.
        origin: Origin,
        /// Sessions that are busy.
        busy: Vec<SessionId>,
        /// What is asked: session, kind, request, and what a notice says.
        asks: Vec<(SessionId, Kind, String, String)>,
    },
}
