//! The API's failures: what is held because of them, who is told, and what lifts it again.

use std::collections::BTreeSet;

use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::{MessageId, PromptId, SessionId};

use super::Supervisor;
use crate::effect::{AlertKind, Effect};
use crate::gate::Reason;
use crate::hold::{Failure, Held, until_text};
use crate::now::Now;

/// Why a hold is over when a turn ends well.
pub(super) const ANSWERS: &str = "the API answers: messages go in again";

/// Which failure was told last, and who knows of the hold.
#[derive(Debug, Default)]
pub(super) struct Told {
    failed_prompt: Option<PromptId>,
    channels: BTreeSet<ChannelName>,
}

impl Supervisor {
    /// Says so once, however often and by whomever it is told. `unanswered` are the messages of that turn.
    pub(super) fn note_failure(&mut self, failure: Failure<'_>, unanswered: &[MessageId], now: Now) {
        let is_known = match failure.prompt {
            Some(prompt) => self.told.failed_prompt.as_ref() == Some(prompt),
            // One told again has no messages any more.
            None => unanswered.is_empty() && self.hold.failed_just_now(now),
        };
        if is_known {
            return;
        }
        self.told.failed_prompt = failure.prompt.cloned();
        let what = format!("the API failed in a turn: {}", failure.error);
        self.alert_of(AlertKind::Failure, unanswered.to_vec(), None, what);
        let failed = self.hold.failed(failure, now);
        self.effects.push_back(Effect::KeepHold { held: self.hold.held() });
        let Some(held) = failed.held else { return };
        let sentence = reason(held, now).sentence();
        if !unanswered.is_empty() {
            let message = format!("Claude gave no answer: {sentence}. Send it again later.");
            self.effects.push_back(Effect::TellSenders { messages: unanswered.to_vec(), message });
        }
        if failed.is_news {
            self.told.channels.clear();
            self.alert(AlertKind::Held, format!("{sentence}; {} messages wait", self.queue.messages()));
        }
    }

    /// The transcript shows a failure that no hook told of. What an earlier daemon held because of is in there, too.
    pub(super) fn failure_read(&mut self, session: &SessionId, failure: Failure<'_>, now: Now) {
        if self.session.as_ref() != Some(session) {
            return;
        }
        if self.hold.held().is_some() && self.told.failed_prompt.is_none() {
            self.told.failed_prompt = failure.prompt.cloned();
            return;
        }
        self.note_failure(failure, &[], now);
    }

    /// A turn ended well, or somebody did what was needed.
    pub(super) fn lift_hold(&mut self, why: &str) {
        let Some(was_told) = self.hold.lift() else { return };
        self.effects.push_back(Effect::KeepHold { held: None });
        if was_told {
            self.alert(AlertKind::Resumed, why.to_owned());
        }
    }

    /// Whoever waits because of the hold is told so, once for each channel.
    pub(super) fn tell_senders(&mut self, now: Now) {
        let Some(held) = self.hold.held().filter(|_| self.hold.is_closed(now)) else { return };
        let told = &mut self.told.channels;
        let heads = self.queue.heads().filter(|head| told.insert(head.channel.clone()));
        let messages: Vec<MessageId> = heads.map(|head| head.id).collect();
        if !messages.is_empty() {
            let message = format!("Messages wait: {}.", reason(held, now).sentence());
            self.effects.push_back(Effect::TellSenders { messages, message });
        }
    }

    /// Why the gate is closed, if it is for this.
    pub(super) fn held_reason(&self, now: Now) -> Option<Reason> {
        self.hold.held().filter(|_| self.hold.is_closed(now)).map(|held| reason(held, now))
    }
}

fn reason(held: Held, now: Now) -> Reason {
    let until = held.until.map(|until| until_text(until, now));
    Reason::Held { cause: held.cause, until }
}
