//! What containers and older senders tell: they have no session of ours, and no pane to look at.
//!
//! ```text
//! c-k3f9c2ab            what a container says on its socket
//! c-k3f9c2ab-<session>  its Claude's hooks
//! w-41943043, tcp       a sender over TCP, by its window
//! ```
//!
//! A message is over once it was told, and so is what a container itself says of being done; anything else once the same
//! speaker says something new, or has gone.

use ccmux_policy::attention::{Attention, Key, Kind, Selection, Source};
use ccmux_wire::id::SessionId;

use super::Attendant;
use super::fact::Fact;
use super::words::{Text, shortened};
use crate::terminal::Terminal;

/// As much of a text as a notice shows.
const MAX_CHARS: usize = 500;

/// What somebody without a session of ours tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestNews {
    /// A hook of Claude's in a container.
    Hook {
        /// With the container's name before it.
        session: String,
        /// What it means.
        fact: Fact,
    },
    /// Somebody is waited for.
    Began {
        /// Who says so.
        session: String,
        /// What kind of thing.
        kind: Kind,
        /// Which one.
        subject: String,
        /// What.
        text: String,
    },
    /// One thing is over.
    Over {
        /// Who said so.
        session: String,
        /// Which one.
        subject: String,
    },
    /// All of a speaker's is over, and of every session behind it.
    Gone {
        /// Who.
        session: String,
    },
}

impl<T: Terminal> Attendant<T> {
    /// Hears a guest.
    pub(super) fn guest(&mut self, news: GuestNews) {
        match news {
            GuestNews::Hook { session, fact } => self.fact(SessionId::new(session), fact),
            GuestNews::Began { session, kind, subject, text } => {
                let key = key_of(&session, kind, subject);
                // The same speaker's earlier one is over; within the dedup window it was the same one.
                if matches!(kind, Kind::Reply | Kind::Message) {
                    over(&mut self.engine, &key);
                }
                self.keep_text(key, Text::about(kind, &text_of(&text)));
            }
            GuestNews::Over { session, subject } => {
                let is_over = |key: &&Key| key.session.as_str() == session && key.subject == subject;
                let ended: Vec<Key> = self.texts.keys().filter(is_over).cloned().collect();
                ended.iter().for_each(|key| over(&mut self.engine, key));
            }
            GuestNews::Gone { session } => {
                let gone = |key: &&Key| is_of(&key.session, &session) && !is_last_word(key);
                let gone: Vec<Key> = self.texts.keys().filter(gone).cloned().collect();
                gone.iter().for_each(|key| over(&mut self.engine, key));
            }
        }
    }
}

/// A key of what a guest tells.
fn key_of(session: &str, kind: Kind, subject: String) -> Key {
    Key { source: Source::Ccmux, session: SessionId::new(session), kind, subject }
}

/// What a notice shows of a guest's text.
fn text_of(text: &str) -> String {
    shortened(text, MAX_CHARS)
}

/// Whether it is over once it was told.
pub fn is_over_when_told(key: &Key) -> bool {
    let session = key.session.as_str();
    let is_guest = session == "tcp" || session.starts_with("c-") || session.starts_with("w-");
    (is_guest && key.kind == Kind::Message) || is_last_word(key)
}

/// What a container itself tells, be it just before its end: a container that has gone is no reason not to tell it.
fn is_last_word(key: &Key) -> bool {
    let itself = key.session.as_str().strip_prefix("c-").is_some_and(|id| !id.contains('-'));
    itself && matches!(key.kind, Kind::Reply | Kind::Message)
}

/// Whether a session is that speaker, or stands behind it.
fn is_of(session: &SessionId, speaker: &str) -> bool {
    session.as_str().strip_prefix(speaker).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// One thing is over.
pub fn over(engine: &mut Attention, key: &Key) {
    let Key { source, session, kind, subject } = key.clone();
    engine.ended(&Selection { source, session, kind: Some(kind), subject: Some(subject) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speaker_is_itself_and_what_stands_behind_it_and_no_other() {
        let of = |session: &str| is_of(&SessionId::new(session), "c-abcd");
        assert!(of("c-abcd") && of("c-abcd-0f1e"));
        assert!(!of("c-abcde") && !of("c-abc") && !of("abcd"));
    }

    #[test]
    fn a_message_and_a_containers_last_word_are_over_once_told() {
        let over = |session: &str, kind| is_over_when_told(&key_of(session, kind, String::new()));
        for session in ["tcp", "w-7", "c-abcd", "c-abcd-0f1e"] {
            assert!(over(session, Kind::Message) && !over(session, Kind::Question), "{session}");
        }
        assert!(
            over("c-abcd", Kind::Reply) && !over("c-abcd-0f1e", Kind::Reply) && !over("w-7", Kind::Reply)
        );
        assert!(!over("0f1e2d3c-0000", Kind::Message), "Claude's ids are UUIDs");
    }
}
