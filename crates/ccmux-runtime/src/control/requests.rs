//! What the user's client asks: `send`, `status`, `why`, `screen`, `inbox`, and the older `broadcast`.

use std::sync::Arc;
use std::time::Duration;

use ccmux_policy::event::ExitStatus;
use ccmux_policy::{Event, PolicyStatus};
use ccmux_wire::channel::ChannelName;
use ccmux_wire::control::{BroadcastRequest, ErrorCode, Reply, SendRequest};
use ccmux_wire::id::{MessageId, Seq};
use ccmux_wire::inbound::sent_at_ms;
use ccmux_wire::inbox::{InboxMessage, InboxRequest, LIST_BY_DEFAULT};
use ccmux_wire::receipt::{MessageState, Receipt};
use ccmux_wire::status::{AgentStatus, McpStatus, Status, TmuxStatus, Why};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::clock::unix_ms;
use crate::inbox::{AcceptError, Inbox, InboxError, NewMessage, Selection};
use crate::intake::ChannelBoard;
use crate::mcp::Door;
use crate::metrics::Metrics;
use crate::recorder::Recorder;
use crate::screen::plain_text;
use crate::terminal::Terminal;
use crate::turns::{Offer, Turns};
use crate::workers::starter::AgentNow;

/// A look that was asked for is awaited that long.
const LOOK_WITHIN: Duration = Duration::from_millis(700);

/// What requests are answered from.
#[derive(Debug)]
pub struct Answers<T> {
    /// Messages.
    pub inbox: Inbox,
    /// Turns and subscribers.
    pub turns: Turns,
    /// The screen.
    pub terminal: Arc<T>,
    /// What the policy believes.
    pub policy: watch::Receiver<PolicyStatus>,
    /// The agent that runs.
    pub agent: watch::Receiver<Option<AgentNow>>,
    /// FIFOs.
    pub channels: ChannelBoard,
    /// The latest events and orders.
    pub recorder: Recorder,
    /// Where the HTTP server is.
    pub mcp: Door,
    /// Where the pane is.
    pub tmux: TmuxStatus,
    /// To ask the policy for a look.
    pub events: mpsc::Sender<Event>,
    /// Counts what is not taken in.
    pub metrics: Metrics,
}

impl<T: Terminal> Answers<T> {
    /// Takes a message in, and waits for what the sender wants to wait for.
    pub async fn send(&self, request: SendRequest) -> Reply {
        let message = match new_message(&request) {
            Ok(message) => message,
            Err(why) => return Reply::refused(ErrorCode::Rejected, why),
        };
        let channel = message.channel.clone();
        let accepted = match self.inbox.accept(message).await {
            Ok(accepted) => accepted,
            Err(error) => {
                self.metrics.rejected(&channel);
                return refused_message(&error);
            }
        };
        let wanted = request.wait.unwrap_or(MessageState::Accepted);
        if wanted == MessageState::Accepted {
            return Reply { receipt: Some(accepted.receipt), duplicate: accepted.duplicate, ..Reply::ok() };
        }
        let reply = self.wait(accepted.message, wanted, request.timeout_s).await;
        Reply { duplicate: accepted.duplicate, ..reply }
    }

    async fn wait(&self, message: MessageId, wanted: MessageState, limit_s: Option<u64>) -> Reply {
        let reached = self.inbox.wait_for(message, wanted);
        let receipt = match limit_s {
            None => reached.await,
            Some(limit_s) => match timeout(Duration::from_secs(limit_s), reached).await {
                Ok(receipt) => receipt,
                Err(_elapsed) => return self.timed_out(message, wanted, limit_s).await,
            },
        };
        match receipt {
            Ok(receipt) => self.reply_with(receipt, wanted).await,
            Err(error) => Reply::refused(ErrorCode::Internal, error.to_string()),
        }
    }

    async fn timed_out(&self, message: MessageId, wanted: MessageState, limit_s: u64) -> Reply {
        let receipt = self.inbox.receipt(message).await.ok();
        let state = receipt.as_ref().map_or("accepted", |receipt| receipt.state.word());
        let why = format!(
            "not {} within {limit_s} s: the message is {state} and stays in the inbox; `ccmux why` tells what it waits for",
            wanted.word()
        );
        Reply { receipt, ..Reply::refused(ErrorCode::TimedOut, why) }
    }

    async fn reply_with(&self, receipt: Receipt, wanted: MessageState) -> Reply {
        let because = receipt.reason.clone().unwrap_or_else(|| "the log tells more".to_owned());
        let mut reply = match receipt.state {
            MessageState::Uncertain => {
                Reply::refused(ErrorCode::Uncertain, format!("delivery is uncertain: {because}"))
            }
            MessageState::Failed | MessageState::Expired => Reply::refused(
                ErrorCode::Rejected,
                format!("the message {}: {because}", receipt.state.word()),
            ),
            MessageState::Delivered if wanted == MessageState::Answered => Reply::refused(
                ErrorCode::Rejected,
                format!("the message is delivered, and nothing will answer it: {because}"),
            ),
            _ => Reply::ok(),
        };
        if wanted == MessageState::Answered
            && let Some(seq) = receipt.turn_seq
        {
            reply.answer = self.answer(seq).await;
        }
        Reply { receipt: Some(receipt), ..reply }
    }

    async fn answer(&self, seq: Seq) -> Option<String> {
        self.turns.answer_text(seq).await.unwrap_or_default()
    }

    /// Shows messages, puts some back, drops some.
    pub async fn inbox(&self, request: InboxRequest) -> Reply {
        let done = match request {
            InboxRequest::List { state, channel, limit } => {
                let limit = limit.unwrap_or(LIST_BY_DEFAULT);
                self.inbox.select(Selection { state, channel, limit }).await
            }
            InboxRequest::Show { message } => self.inbox.show(message).await.map(|message| vec![message]),
            InboxRequest::Retry { messages } => {
                let on_the_way = self.policy.borrow().batch;
                self.inbox.retry(messages, on_the_way).await
            }
            InboxRequest::Drop { messages } => self.inbox.drop_messages(messages).await,
        };
        messages_or_refusal(done)
    }

    /// The daemon's state, from a look not older than a second where one can be taken.
    pub async fn status(&self) -> Reply {
        let policy = self.fresh_policy().await;
        Reply { status: Some(Box::new(self.status_of(&policy))), ..Reply::ok() }
    }

    /// The daemon's state as it is known, without a look.
    pub fn status_now(&self) -> Status {
        let policy = self.policy.borrow().clone();
        self.status_of(&policy)
    }

    fn status_of(&self, policy: &PolicyStatus) -> Status {
        let agent = self.agent.borrow().clone();
        let last_seq = self.turns.broadcast().last_seq();
        Status {
            state: policy.state,
            since: policy.since.wall.0,
            reason: policy.reason.clone(),
            session: policy.session.clone(),
            agent: AgentStatus {
                pid: policy.pid,
                version: agent.and_then(|agent| agent.version),
                restarts: policy.restarts,
                last_exit: policy.last_exit.map(ExitStatus::words),
            },
            queue: self.inbox.queue(),
            channels: self.channels.subscribe().borrow().clone(),
            refused_files: self.channels.refused_files(),
            subscribers: u32::try_from(self.turns.broadcast().subscribers()).unwrap_or(u32::MAX),
            degraded: self.degraded(policy),
            last_seq: (last_seq > Seq(0)).then_some(last_seq),
            turns: self.turns.counts(),
            daemon_pid: std::process::id().cast_signed(),
            daemon_version: env!("CARGO_PKG_VERSION").to_owned(),
            mcp: McpStatus { port: self.mcp.port() },
            tmux: Some(self.tmux.clone()),
        }
    }

    /// What does not work now.
    fn degraded(&self, policy: &PolicyStatus) -> Vec<String> {
        let disk = self.inbox.waits_for_disk() || self.channels.waits_for_disk();
        let parts = [("agent", policy.degraded), ("mcp", self.mcp.port().is_none()), ("disk", disk)];
        parts.into_iter().filter(|(_, degraded)| *degraded).map(|(part, _)| part.to_owned()).collect()
    }

    /// Whether a message would go in now, and why not.
    pub async fn why(&self) -> Reply {
        let policy = self.fresh_policy().await;
        let why = Why {
            gate: policy.gate,
            opens_when: policy.opens_when,
            next_look_ms: policy.next_look_ms,
            evidence: policy.evidence,
            happened: self.recorder.happened(),
            recent: self.recorder.recent(),
        };
        Reply { why: Some(Box::new(why)), ..Reply::ok() }
    }

    async fn fresh_policy(&self) -> PolicyStatus {
        let mut policy = self.policy.clone();
        let before = policy.borrow_and_update().asked;
        if self.events.send(Event::StateAsked).await.is_ok() {
            let looked = policy.wait_for(|status| status.asked > before && !status.look_is_due);
            let _ = timeout(LOOK_WITHIN, looked).await;
        }
        policy.borrow().clone()
    }

    /// Takes a turn that an older hook shows. Answered at once: Claude waits for the hook. It has no token; the session's
    /// id is what it must know.
    pub fn broadcast(&self, shown: BroadcastRequest) -> Reply {
        let owned = self.policy.borrow().session.clone();
        if owned.as_ref() != Some(&shown.session) {
            return Reply::refused(ErrorCode::NotAllowed, "the session is not the owned one");
        }
        let offer = match Offer::new(shown.session, shown.turn) {
            Ok(offer) => offer,
            Err(why) => return Reply::refused(ErrorCode::Rejected, why),
        };
        let turns = self.turns.clone();
        tokio::spawn(async move {
            if let Err(error) = turns.offer(offer).await {
                tracing::error!(event = "turn.failed", %error);
            }
        });
        Reply::ok()
    }

    /// The agent's screen as text.
    pub async fn screen(&self, ansi: bool) -> Reply {
        match self.terminal.capture().await {
            Ok(capture) => {
                let screen = if ansi { capture.text } else { plain_text(&capture.text) };
                Reply { screen: Some(screen), ..Reply::ok() }
            }
            Err(error) => {
                Reply::refused(ErrorCode::Internal, format!("the screen can't be captured: {error}"))
            }
        }
    }
}

fn new_message(request: &SendRequest) -> Result<NewMessage, String> {
    let channel: ChannelName = match &request.channel {
        Some(name) => name.parse().map_err(|error| format!("channel {name:?}: {error}"))?,
        None => ChannelName::default_channel(),
    };
    let now = unix_ms().0;
    Ok(NewMessage {
        shown: channel.to_string(),
        channel,
        content: request.content.clone(),
        id: request.id.clone(),
        meta: request.meta.clone(),
        ts_ms: request.ts.and_then(|ts| sent_at_ms(ts, now)).unwrap_or(now),
    })
}

fn messages_or_refusal(done: Result<Vec<InboxMessage>, InboxError>) -> Reply {
    match done {
        Ok(messages) => Reply { messages: Some(messages), ..Reply::ok() },
        Err(error @ (InboxError::Unnamed(_) | InboxError::NotNow { .. })) => {
            Reply::refused(ErrorCode::Rejected, error.to_string())
        }
        Err(error) => Reply::refused(ErrorCode::Internal, error.to_string()),
    }
}

fn refused_message(error: &AcceptError) -> Reply {
    let code = match error {
        AcceptError::QueueFull { .. } => ErrorCode::Full,
        AcceptError::Inbox(_) => ErrorCode::Internal,
        _ => ErrorCode::Rejected,
    };
    Reply::refused(code, error.to_string())
}
