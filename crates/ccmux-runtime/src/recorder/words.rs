//! Events and orders in people's words: what `ccmux why` tells of the latest past. What is of no interest to people, such
//! as looks and the state file's levels, has none.
//!
//! ```text
//! agent_started pid=7     the agent runs (pid 7)
//! enter_pressed batch=3   Enter was pressed behind batch 3
//! ```

use ccmux_policy::event::{FileState, Found, Origin, SessionFact};
use ccmux_policy::{Attempt, Effect, Event};

/// What happened. Where an alert follows, that says it.
pub fn of_event(event: &Event) -> Option<String> {
    Some(match event {
        Event::AgentFound { pid, .. } => format!("the agent was found running (pid {pid})"),
        Event::AgentMissing { .. } => "no agent was found".to_owned(),
        Event::AgentStarted { pid } => format!("the agent runs (pid {pid})"),
        Event::MessageAccepted(message) => {
            format!("a message of {} bytes came on {}", message.bytes, message.channel)
        }
        Event::BatchFound { batch, .. } => format!("batch {batch} was on its way when the daemon ended"),
        Event::Session { origin: Origin::Own, fact, .. } => return of_session(fact),
        Event::StateFileRead { state: FileState::Waiting(what) } => format!("Claude waits for {what}"),
        Event::ShutdownAsked => "the daemon was asked to stop".to_owned(),
        Event::HoldFound { .. } => "an earlier daemon held messages back".to_owned(),
        Event::RulesReread => "the screen rules were read again".to_owned(),
        Event::SettingsReread { .. } => "the settings were read again".to_owned(),
        Event::LookFailed { reason, .. } => format!("the screen could not be looked at: {reason}"),
        other => return of_typing(other),
    })
}

fn of_session(fact: &SessionFact) -> Option<String> {
    Some(match fact {
        SessionFact::Started { source } => format!("Claude's session began ({source})"),
        SessionFact::PromptSubmitted { batch: Some(batch), .. } => format!("Claude took batch {batch}"),
        SessionFact::PromptSubmitted { batch: None, .. } => "a prompt was submitted".to_owned(),
        SessionFact::TurnEnded { .. } => "the turn ended".to_owned(),
        SessionFact::Ended { reason } => format!("Claude's session ended ({reason})"),
        // An alert says it.
        SessionFact::LoggedIn => "somebody logged in".to_owned(),
        SessionFact::TurnFailed { .. } | SessionFact::DialogOpened { .. } => return None,
    })
}

fn of_typing(event: &Event) -> Option<String> {
    Some(match event {
        Event::Pasted { batch } => format!("batch {batch} was typed"),
        Event::PasteRefused { batch, reason } => format!("batch {batch} was not typed: {reason}"),
        Event::PasteDoubtful { batch, reason } => format!("batch {batch} may have been typed: {reason}"),
        Event::EnterPressed { batch } => format!("Enter was pressed behind batch {batch}"),
        Event::PaneTooSmall { batch, has, needs } => {
            format!("batch {batch} was not typed: the pane has room for {has} rows of text, it needs {needs}")
        }
        Event::EnterRefused { batch, reason } => {
            format!("Enter was not pressed behind batch {batch}: {reason}")
        }
        Event::DraftStashed => "a draft was put away".to_owned(),
        Event::StashRefused { reason } => format!("a draft was not put away: {reason}"),
        Event::TranscriptSearched { batch, found, .. } => match found {
            Found::Whole => format!("batch {batch} is in the transcript"),
            Found::Within => format!("batch {batch} is in the transcript, with other text"),
            Found::Absent => format!("batch {batch} is not in the transcript"),
            Found::AbsentHere => {
                format!("batch {batch} is not in the transcript, but another session of the folder lives")
            }
            Found::Unreadable => "the transcript can't be read".to_owned(),
        },
        Event::TurnPublished { seq, .. } => format!("turn {seq} was published"),
        _ => return None,
    })
}

/// What was ordered, where the event that answers it does not say it better.
pub fn of_effect(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::RecordDelivered { batch, proof, .. } => {
            format!("batch {batch} is delivered, as the {} proved", proof.word())
        }
        Effect::RecordRequeued { batch, attempt: Attempt::Untyped } => format!("batch {batch} waits again"),
        Effect::RecordRequeued { batch, .. } => {
            format!("batch {batch} was not taken and waits again")
        }
        Effect::RecordFailed { reason, .. } => format!("a message was given up: {reason}"),
        Effect::TellSenders { message, .. } => format!("senders are told: {message}"),
        Effect::Alert { kind, message, .. } => format!("alert {}: {message}", kind.word()),
        _ => return None,
    })
}
