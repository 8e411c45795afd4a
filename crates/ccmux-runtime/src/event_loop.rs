//! Select, handle, drain, record: the whole loop is [`EventLoop::run`].
//!
//! It awaits nothing but its events, the policy's deadline, the watchdog's hunger and the shutdown: no tmux call, no file, no database, no
//! socket. Effects go into the workers' unbounded queues; the policy orders a bounded number of things at a time.

use ccmux_policy::{Effect, Event, PolicyStatus, Supervisor};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::afar::Answers;
use crate::attention::Ears;
use crate::clock::{Clock, until};
use crate::metrics::Metrics;
use crate::recorder::Recorder;
use crate::systemd::Watchdog;

/// Who does what the policy orders.
#[derive(Debug, Clone)]
pub struct Workers {
    /// Looks and keys.
    pub typist: mpsc::UnboundedSender<Effect>,
    /// The inbox.
    pub clerk: mpsc::UnboundedSender<Effect>,
    /// Searches of the transcript.
    pub witness: mpsc::UnboundedSender<Effect>,
    /// Turns and alerts.
    pub speaker: mpsc::UnboundedSender<Effect>,
    /// The agent's process.
    pub starter: mpsc::UnboundedSender<Effect>,
}

impl Workers {
    /// One queue an effect. A worker that is gone is one that was shut down.
    fn give(&self, effect: Effect) {
        let queue = match &effect {
            Effect::Look { .. } | Effect::PressEnter { .. } | Effect::TakeOut { .. } | Effect::StashDraft => {
                &self.typist
            }
            Effect::Inject { .. }
            | Effect::RecordDelivered { .. }
            | Effect::RecordUncertain { .. }
            | Effect::RecordRequeued { .. }
            | Effect::RecordFailed { .. }
            | Effect::RecordExpired { .. } => &self.clerk,
            Effect::FindInTranscript { .. } => &self.witness,
            Effect::PublishTurn { .. }
            | Effect::Alert { .. }
            | Effect::Note { .. }
            | Effect::TellSenders { .. }
            | Effect::TellDraftLost => &self.speaker,
            Effect::StartAgent { .. }
            | Effect::MeasureAgent { .. }
            | Effect::EndAgent { .. }
            | Effect::KeepHold { .. }
            | Effect::BindSession { .. } => &self.starter,
        };
        let _ = queue.send(effect);
    }
}

/// The loop around the policy.
#[derive(Debug)]
pub struct EventLoop {
    /// Decides.
    pub policy: Supervisor,
    /// What the last daemon left: told before anything else.
    pub begin: Vec<Event>,
    /// What happened.
    pub events: mpsc::Receiver<Event>,
    /// What is ordered.
    pub workers: Workers,
    /// What is believed, after every event.
    pub status: watch::Sender<PolicyStatus>,
    /// Hears whom somebody waits for.
    pub ears: Ears,
    /// Hears whether a dialog is gone that is answered from afar.
    pub afar: Answers,
    /// Writes all of it down.
    pub recorder: Recorder,
    /// Counts.
    pub metrics: Metrics,
    /// Tells the time.
    pub clock: Clock,
    /// Starves if the loop hangs.
    pub watchdog: Watchdog,
    /// Ends the loop.
    pub shutdown: CancellationToken,
}

impl EventLoop {
    /// Runs until shutdown.
    pub async fn run(mut self) {
        std::mem::take(&mut self.begin).into_iter().for_each(|event| self.step(event));
        loop {
            let deadline = self.policy.next_deadline().map(|at| self.clock.instant_of(at));
            let event = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => break,
                // Before the events: a flood of them is no reason to starve.
                () = self.watchdog.is_hungry() => {
                    self.watchdog.feed();
                    continue;
                }
                Some(event) = self.events.recv() => event,
                () = until(deadline) => Event::DeadlinePassed,
            };
            self.step(event);
        }
        self.step(Event::ShutdownAsked);
        self.recorder.written().await;
    }

    fn step(&mut self, event: Event) {
        let now = self.clock.now();
        if event == Event::DeadlinePassed {
            self.recorder.deadline(now);
        } else {
            self.recorder.event(&event, now);
            self.metrics.happened(&event, now);
            self.ears.event(&event);
            self.afar.event(&event);
        }
        self.policy.handle(event, now);
        while let Some(effect) = self.policy.next_effect() {
            self.recorder.effect(&effect, now);
            self.ears.effect(&effect);
            self.workers.give(effect);
        }
        self.tell(self.policy.status(now));
    }

    fn tell(&self, status: PolicyStatus) {
        self.status.send_if_modified(|known| {
            if gate_kind(&known.gate) != gate_kind(&status.gate) {
                tracing::info!(
                    event = gate_event(&status.gate),
                    reason = status.gate.trim_start_matches("closed: "),
                    waiting = status.messages
                );
            }
            let changed = *known != status;
            *known = status;
            changed
        });
    }
}

/// What makes an answer another one for the log: not how long ago somebody was active, nor how far a batch is.
fn gate_kind(gate: &str) -> String {
    match gate.strip_prefix("closed: busy") {
        Some(_) => "busy".to_owned(),
        None => gate.replace(|c: char| c.is_ascii_digit(), ""),
    }
}

fn gate_event(gate: &str) -> &'static str {
    if gate == "open" { "gate.open" } else { "gate.closed" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_a_new_reason_and_not_each_second_of_an_old_one() {
        let human = |ago: u64| gate_kind(&format!("closed: human: a human was active {ago} s ago"));
        assert_eq!(human(9), human(10));
        assert_eq!(gate_kind("closed: busy: a turn runs"), gate_kind("closed: busy: a batch is being typed"));
        assert_ne!(human(1), gate_kind("open"));
        assert_ne!(gate_kind("closed: draft: text"), gate_kind("closed: draft: vim"));
    }
}
