//! What containers and older senders tell: they have no session of ours, and no pane to look at.
//!
//! ```text
//! c-k3f9c2ab            what a container says on its socket
//! c-k3f9c2ab-<session>  its Claude's hooks
//! w-41943043, tcp       a sender over TCP, by its window
//! ```
//!
//! A message is over once it was told, and so is what a container itself says of being done; anything else once the same
//! speaker says something new of the kind, or has gone. A question that was not told yet is told first. What a container
//! asks waits for its answer.

use ccmux_policy::Now;
use ccmux_policy::attention::{Attention, Key, Kind, Selection, Source, Waiting};
use ccmux_wire::id::SessionId;

use super::Attendant;
use super::fact::Fact;
use super::words::{Text, shortened};
use crate::terminal::Terminal;

/// So many things of one session wait at most: nobody answers more, and who sends them may be an attacker.
const MAX_ITEMS: usize = 32;
/// So many things of one kind that a speaker said wait to be told; the oldest make room.
const MAX_SAID: usize = 32;
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
        /// Which one, if its end will be told; otherwise the speaker's next one of the kind takes its place.
        subject: Option<String>,
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
            GuestNews::Hook { session, fact } => {
                let session = SessionId::new(session);
                let held = self.texts.keys().filter(|key| key.session == session).count();
                if held < MAX_ITEMS || !matches!(fact, Fact::Dialog { .. } | Fact::SubagentStopped { .. }) {
                    self.fact(session, fact);
                }
            }
            GuestNews::Began { session, kind, subject, text } => {
                let subject = subject.unwrap_or_else(|| self.make_room(&session, kind));
                self.keep_text(key_of(&session, kind, subject), Text::about(kind, &text_of(&text)));
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
                self.forget_turns(|known| is_of(known, &session));
            }
        }
    }
}

impl<T: Terminal> Attendant<T> {
    /// Ends what a new thing takes the place of, and gives it a subject of its own, or it would count as the same again.
    fn make_room(&mut self, session: &str, kind: Kind) -> String {
        let now = self.setting.clock.now();
        replaced(&self.engine, session, kind, now).iter().for_each(|key| over(&mut self.engine, key));
        self.said = following(self.said, now);
        self.said.to_string()
    }
}

/// A new number, even after a restart: what waited before it has older ones.
fn following(last: i64, now: Now) -> i64 {
    now.wall.0.max(last + 1)
}

/// What waits no more as soon as the same speaker says one more thing of that kind.
fn replaced(engine: &Attention, session: &str, kind: Kind, now: Now) -> Vec<Key> {
    let is_said = |key: &Key| {
        (key.source, key.session.as_str(), key.kind) == (Source::Ccmux, session, kind)
            && key.subject.chars().all(|c| c.is_ascii_digit())
    };
    let said = engine.waiting(now).into_iter().filter(|waiting| is_said(&waiting.key));
    let (over, mut untold): (Vec<Waiting>, Vec<Waiting>) = said.partition(|waiting| match kind {
        Kind::Message => false,
        Kind::Reply => true,
        _ => waiting.told > 0 || waiting.next_in_ms.is_none(),
    });
    untold.sort_by_key(|waiting| waiting.began);
    untold.truncate((untold.len() + 1).saturating_sub(MAX_SAID));
    over.into_iter().chain(untold).map(|waiting| waiting.key).collect()
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
    use ccmux_policy::attention::{Answer, Effect};
    use ccmux_policy::{Mono, UnixMs};

    use super::*;
    use crate::settings::attention::AttentionSettings;

    #[test]
    fn a_speaker_is_itself_and_what_stands_behind_it_and_no_other() {
        let of = |session: &str| is_of(&SessionId::new(session), "c-abcd");
        assert!(of("c-abcd") && of("c-abcd-0f1e"));
        assert!(!of("c-abcde") && !of("c-abc") && !of("abcd"));
    }

    const AT: Now = Now { mono: Mono(1_000_000), wall: UnixMs(1_700_000_000_000), utc_offset_s: 0 };

    fn later(ms: u64) -> Now {
        Now { mono: AT.mono + ms, wall: UnixMs(AT.wall.0 + ms as i64), ..AT }
    }

    /// With the rules of fresh settings and a route.
    fn engine() -> Attention {
        let settings = AttentionSettings { routes: vec!["desk".into()], ..AttentionSettings::default() };
        Attention::new(settings.rules(), Vec::new(), Vec::new(), AT)
    }

    /// As the attendant does it.
    fn says(engine: &mut Attention, last: &mut i64, session: &str, kind: Kind, now: Now) -> Key {
        replaced(engine, session, kind, now).iter().for_each(|key| over(engine, key));
        *last = following(*last, now);
        let key = key_of(session, kind, last.to_string());
        engine.began(key.clone(), now);
        key
    }

    /// Everything that is told until then; looks show nothing.
    fn told(engine: &mut Attention, now: Now) -> Vec<Key> {
        let mut told = Vec::new();
        engine.deadline(now);
        while let Some(effect) = engine.next_effect() {
            match effect {
                Effect::Ask { key } => engine.answered(&key, Answer::default(), now),
                Effect::Notice { key, .. } => told.push(key),
                _ => {}
            }
        }
        told
    }

    fn standing(engine: &Attention, now: Now) -> Vec<Key> {
        engine.waiting(now).into_iter().map(|waiting| waiting.key).collect()
    }

    #[test]
    fn of_two_ended_turns_at_once_the_later_one_waits_and_is_told() {
        let (mut engine, mut last) = (engine(), 0);
        says(&mut engine, &mut last, "w-88", Kind::Reply, AT);
        let second = says(&mut engine, &mut last, "w-88", Kind::Reply, later(1));
        assert_eq!(standing(&engine, later(2)), std::slice::from_ref(&second));
        assert_eq!(told(&mut engine, later(20_000)), [second]);
    }

    #[test]
    fn each_question_of_a_window_is_told_and_the_latest_stands() {
        let (mut engine, mut last) = (engine(), 0);
        let mut ask = |engine: &mut Attention, ms| says(engine, &mut last, "tcp", Kind::Question, later(ms));
        let at_once = [ask(&mut engine, 0), ask(&mut engine, 0)];
        assert_eq!(told(&mut engine, later(1_000)), at_once);
        let third = ask(&mut engine, 60_000);
        assert_eq!(standing(&engine, later(60_001)), std::slice::from_ref(&third));
        assert_eq!(told(&mut engine, later(61_000)), [third]);
    }

    #[test]
    fn what_a_container_asked_and_other_speakers_go_on_waiting() {
        let (mut engine, mut last) = (engine(), 0);
        let asked = key_of("c-abcd", Kind::Question, "q-1-abcdef".into());
        engine.began(asked.clone(), AT);
        let other = says(&mut engine, &mut last, "c-abcde", Kind::Question, AT);
        let first = says(&mut engine, &mut last, "c-abcd", Kind::Question, AT);
        assert_eq!(told(&mut engine, later(1_000)).len(), 3);
        let second = says(&mut engine, &mut last, "c-abcd", Kind::Question, later(5_000));
        let standing = standing(&engine, later(5_000));
        assert!([&asked, &other, &second].iter().all(|key| standing.contains(key)), "{standing:?}");
        assert!(!standing.contains(&first), "{standing:?}");
    }

    #[test]
    fn a_flood_keeps_the_newest_messages() {
        let (mut engine, mut last) = (engine(), 0);
        let said: Vec<Key> =
            (0..100).map(|_| says(&mut engine, &mut last, "w-7", Kind::Message, AT)).collect();
        assert_eq!(standing(&engine, AT), said[100 - MAX_SAID..]);
        assert!(following(0, later(1_000)) > last, "after a restart none has a number that is taken");
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
