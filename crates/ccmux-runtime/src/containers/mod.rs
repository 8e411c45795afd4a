//! Containers: each has a directory of its own with one socket, and what speaks there is that container.
//!
//! ```text
//! ccmux run ─ open ─► ContainerDesk ─► Host ─► <runtime_dir>/containers/<id>/ccmux.sock
//!                                       │            ▲ mounted alone, read-only
//! container ── hook, tool, guest ──► Door ───────────┘
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`book`] | which containers there are and what they asked; outlives a restart |
//! | [`host`] | the task: makes and removes directories, follows the processes, keeps the book |
//! | [`door`] | one container's connections, with their limits |
//! | [`verbs`] | what a container may ask, and what becomes of it |
//! | [`rate`] | so many in a while, and no more |
//!
//! A container is the one speaker that may be an attacker. It never names itself: its socket does. It doesn't know engines
//! or images: `ccmux run` does.

pub mod book;
pub mod door;
pub mod host;
pub mod rate;
pub mod verbs;

use ccmux_wire::container::{ContainerId, ContainerRequest, Containers, GuestQuestion, WindowId};
use ccmux_wire::control::{ErrorCode, Reply};
use tokio::sync::{mpsc, oneshot};

use book::Refusal;

/// So many orders may wait for the host.
const QUEUE: usize = 64;

/// What the host is asked.
#[derive(Debug)]
pub enum Order {
    /// A directory for a container.
    Open(Opening, oneshot::Sender<Result<Containers, Refusal>>),
    /// No directory any more.
    Close(ContainerId, oneshot::Sender<Result<Containers, Refusal>>),
    /// The process that a container lived as long as has ended.
    Ended(ContainerId),
    /// What there is.
    List(oneshot::Sender<Containers>),
    /// A container asks.
    Ask(ContainerId, String, oneshot::Sender<Result<GuestQuestion, Refusal>>),
    /// A container wants to know what was answered: now, or with `true` once something is.
    Read(ContainerId, String, bool, oneshot::Sender<Result<GuestQuestion, Refusal>>),
    /// The owner answers.
    Answer(String, String, oneshot::Sender<Result<GuestQuestion, Refusal>>),
}

/// What a container's directory is made for.
#[derive(Debug)]
pub struct Opening {
    /// Which.
    pub id: ContainerId,
    /// Another user than the daemon's.
    pub uid: Option<u32>,
    /// Where it was started from.
    pub window: Option<WindowId>,
    /// It lives as long as this process.
    pub pid: i32,
}

/// Where the host is asked. Clones lead to the same one.
#[derive(Debug, Clone)]
pub struct ContainerDesk(mpsc::Sender<Order>);

impl ContainerDesk {
    /// A desk, and where its orders arrive.
    pub fn new() -> (Self, mpsc::Receiver<Order>) {
        let (orders, waiting) = mpsc::channel(QUEUE);
        (Self(orders), waiting)
    }

    /// Answers the owner. `pid`: the process that asks.
    pub async fn owner(&self, request: ContainerRequest, pid: Option<i32>) -> Reply {
        let done = match request {
            ContainerRequest::Open { id, uid, window } => match pid {
                Some(pid) => self.ask(|reply| Order::Open(Opening { id, uid, window, pid }, reply)).await,
                None => Err(Refusal::Failed("the system does not tell which process asks".to_owned())),
            },
            ContainerRequest::Close { id } => self.ask(|reply| Order::Close(id, reply)).await,
            ContainerRequest::List => self.list().await,
            ContainerRequest::Answer { question, text } => self.answer(question, text).await.map(only),
        };
        reply_of(done)
    }

    /// A container's question.
    pub async fn question(&self, id: &ContainerId, text: String) -> Result<GuestQuestion, Refusal> {
        self.ask(|reply| Order::Ask(id.clone(), text, reply)).await
    }

    /// What was answered; with `wait` only once something is.
    pub async fn read(&self, id: &ContainerId, question: &str, wait: bool) -> Result<GuestQuestion, Refusal> {
        self.ask(|reply| Order::Read(id.clone(), question.to_owned(), wait, reply)).await
    }

    /// The owner's answer to a container's question.
    ///
    /// # Errors
    /// If there is no such question, or it was answered.
    pub async fn answer(&self, question: String, text: String) -> Result<GuestQuestion, Refusal> {
        self.ask(|reply| Order::Answer(question, text, reply)).await
    }

    async fn list(&self) -> Result<Containers, Refusal> {
        let (reply, answered) = oneshot::channel();
        let _ = self.0.send(Order::List(reply)).await;
        answered.await.map_err(|_| Refusal::Stopping)
    }

    async fn ask<A>(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<A, Refusal>>) -> Order,
    ) -> Result<A, Refusal> {
        let (reply, answered) = oneshot::channel();
        let _ = self.0.send(order(reply)).await;
        answered.await.unwrap_or(Err(Refusal::Stopping))
    }
}

/// A reply that shows one question.
pub(crate) fn only(question: GuestQuestion) -> Containers {
    Containers { questions: vec![question], ..Containers::default() }
}

/// What was done, or why not.
pub(crate) fn reply_of(done: Result<Containers, Refusal>) -> Reply {
    match done {
        Ok(containers) => Reply { container: Some(Box::new(containers)), ..Reply::ok() },
        Err(refusal) => {
            let code = match refusal {
                Refusal::Full(_) => ErrorCode::Full,
                Refusal::Stopping => ErrorCode::Stopping,
                Refusal::Failed(_) => ErrorCode::Internal,
                _ => ErrorCode::Rejected,
            };
            Reply::refused(code, refusal.to_string())
        }
    }
}
