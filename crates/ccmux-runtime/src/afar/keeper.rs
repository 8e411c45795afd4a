//! The task: sees to answers that came by the channel, closes what is over, and asks for looks where there is no state file.
//!
//! It waits for nothing but answers, the next deadline and changes; while nothing is open it does nothing at all.

use std::sync::Arc;
use std::time::Duration;

use ccmux_policy::Event;
use ccmux_wire::channel::ChannelName;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::follower::Told;
use super::{Answers, By, NotAnswered};
use crate::clock::until;
use crate::inbox::{AnswerLine, AnswersLeft, InboxError};

/// How often the screen is looked at while something is open and nobody else tells whether the dialog is gone.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// The task.
#[derive(Debug)]
pub struct Keeper {
    /// Who knows what is open.
    pub answers: Answers,
    /// To ask for looks.
    pub events: mpsc::Sender<Event>,
    lines: mpsc::UnboundedReceiver<AnswerLine>,
    shutdown: CancellationToken,
}

impl Keeper {
    /// From now on answers come here, first of all those that an earlier daemon left.
    ///
    /// # Errors
    /// If the inbox is closed.
    pub async fn new(
        answers: Answers,
        left: AnswersLeft,
        events: mpsc::Sender<Event>,
        shutdown: CancellationToken,
    ) -> Result<Self, InboxError> {
        let (taken, lines) = mpsc::unbounded_channel();
        left.lines.into_iter().for_each(|line| drop(taken.send(line)));
        let finder = answers.clone();
        let is_answer = move |channel: &ChannelName, text: &str| finder.is_answer(channel, text);
        answers.0.inbox.watch_answers(Arc::new(is_answer), taken).await?;
        Ok(Self { answers, events, lines, shutdown })
    }

    /// Runs until shutdown. What was not seen to then, the next daemon sees to.
    pub async fn run(mut self) {
        loop {
            let (deadline, looks) = {
                let state = self.answers.state();
                let deadline = state.policy.next_deadline().map(|at| self.answers.0.clock.instant_of(at));
                (deadline, state.policy.wants_looks())
            };
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return,
                Some(line) = self.lines.recv() => self.see_to(line).await,
                () = until(deadline) => self.deadline(),
                () = self.answers.0.changed.notified() => {}
                () = sleep(LOOK_EVERY), if looks => drop(self.events.try_send(Event::StateAsked)),
            }
        }
    }

    fn deadline(&self) {
        let closed = self.answers.state().policy.deadline(self.answers.0.clock.now());
        closed.into_iter().for_each(|(code, end)| self.answers.release(vec![code], end));
    }

    /// The line's row goes once the hook has the answer, or whoever wrote it will be told why not.
    async fn see_to(&self, line: AnswerLine) {
        let by = By::Sender(line.sender.as_deref());
        let decided = self.answers.decide_line(&line.line, by);
        // A channel that nobody reads, or a proof that is late, must not hold the next answer up.
        tokio::spawn(tell(self.answers.clone(), line.channel.clone(), line.line.clone(), decided));
        if let Err(error) = self.answers.0.inbox.answer_seen_to(line.row).await {
            tracing::error!(event = "inbox.failed", %error);
        }
    }
}

async fn tell(
    answers: Answers,
    channel: ChannelName,
    line: String,
    decided: Option<Result<Told, NotAnswered>>,
) {
    let told = match decided {
        Some(Ok(told)) => answers.proved(told).await.map_or_else(|error| error.to_string(), str::to_owned),
        Some(Err(error)) => error.to_string(),
        None => "too late: the code is forgotten".to_owned(),
    };
    let code = ccmux_policy::attention::afar::line::parse(&line).map(|said| said.code);
    let told = code.map_or_else(|| told.clone(), |code| format!("{code}: {told}"));
    if let Err(error) = answers.0.outlets.send(channel.as_str(), told).await {
        tracing::info!(event = "permission.not_told", %channel, %error);
    }
}
