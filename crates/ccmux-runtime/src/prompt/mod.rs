//! Message texts: made safe, put together, cut into pieces, and found again in what Claude reports.
//!
//! ```text
//! channel bytes ─ sanitise ─► inbox ─ neutralise_mentions, compose ─► batch text ─ pieces ─► paste
//!                                                                         └─ same_prompt ◄─ UserPromptSubmit
//! ```
//!
//! A prompt of two messages, the second of two lines:
//!
//! ```text
//! [14:30 telegram] is the build green?
//! [14:31 cron] nightly report
//!   2 failures
//! ```
//!
//! Pure functions over text. They know no pane, no database, no clock and no file system: whether a path exists, and
//! how far from UTC a moment is, is asked of the caller.

mod compose;
mod invisible;
mod mentions;
mod pieces;
mod same;
mod sanitise;

#[cfg(test)]
mod tests;

pub use compose::{Part, Size, compose, size};
pub use mentions::neutralise_mentions;
pub use pieces::pieces;
pub use same::{contains_prompt, same_prompt};
pub use sanitise::sanitise;
