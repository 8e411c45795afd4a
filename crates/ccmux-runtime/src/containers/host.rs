//! The task: makes a container's directory, listens there, and removes both when its process has ended.
//!
//! ```text
//! open   directory 0700, socket 0600, the process is followed, the book is written
//! start  the book is read: whose process lives is opened again, in the same directory, which is mounted
//! end    connections closed, socket and directory removed, its questions forgotten
//! ```
//!
//! A directory is the daemon's alone, also for another user in the container: that one gets the socket and may pass, no
//! more, so that it can put nothing there for the daemon to step on.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ccmux_wire::container::{CONTAINERS, ContainerId, ContainerStatus, Containers, GuestQuestion, SOCKET};
use ccmux_wire::id::SessionId;
use nix::unistd::{Uid, chown};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::book::{Book, Kept, Refusal};
use super::door::Door;
use super::{ContainerDesk, Opening, Order};
use crate::agent::process::{AgentProcess, is_same};
use crate::attention::{Ears, GuestNews, Heard};
use crate::clock::unix_ms;
use crate::control::Desk;
use crate::runtime_dir::RuntimeDir;
use crate::spots::Spot;
use crate::terminal::Terminal;

/// What the host is made of.
#[derive(Debug)]
pub struct Host<T> {
    /// Answers what containers ask.
    pub desk: Arc<Desk<T>>,
    /// To be told that a process ended.
    pub own: ContainerDesk,
    /// What is asked.
    pub orders: mpsc::Receiver<Order>,
    /// Where the directories are.
    pub runtime_dir: Arc<RuntimeDir>,
    /// Where the book is.
    pub state_dir: PathBuf,
    /// Who hears that a container has gone.
    pub ears: Ears,
    /// Ends it.
    pub shutdown: CancellationToken,
}

/// What runs for the containers.
#[derive(Debug, Default)]
struct Open {
    book: Book,
    doors: BTreeMap<ContainerId, CancellationToken>,
    waiting: Vec<(String, oneshot::Sender<Result<GuestQuestion, Refusal>>)>,
    tasks: TaskTracker,
}

impl<T: Terminal> Host<T> {
    /// Opens what was open, and runs until shutdown.
    pub async fn run(mut self) {
        let mut open = Open { book: Book::read(&self.state_dir), ..Open::default() };
        self.come_back(&mut open);
        let mut lost = self.runtime_dir.lost_sockets();
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => break,
                Some(order) = self.orders.recv() => self.follow(&mut open, order).await,
                changed = lost.changed() => match changed {
                    Ok(()) => self.open_lost(&mut open),
                    Err(_) => break,
                },
            }
        }
        open.tasks.close();
        open.tasks.wait().await;
    }

    /// Whose process lives is opened again; the others are gone.
    fn come_back(&self, open: &mut Open) {
        for kept in open.book.containers.clone() {
            let id = kept.status.id.clone();
            let lives = is_same(kept.status.pid, kept.started);
            match if lives { self.listen(open, &kept) } else { Err(io::ErrorKind::NotFound.into()) } {
                Ok(()) => tracing::info!(event = "container.opened", container = %id, again = true),
                Err(error) => {
                    tracing::info!(event = "container.closed", container = %id, lives, %error);
                    self.forget(open, &id);
                }
            }
        }
        self.remove_strangers(&open.book);
        if let Err(error) = open.book.write(&self.state_dir) {
            tracing::error!(event = "container.not_kept", %error);
        }
    }

    /// What a daemon that died left behind.
    fn remove_strangers(&self, book: &Book) {
        let found = fs::read_dir(self.runtime_dir.path().join(CONTAINERS)).into_iter().flatten().flatten();
        for entry in found {
            let name = entry.file_name().into_string().ok().and_then(|name| ContainerId::try_from(name).ok());
            if let Some(id) = name.filter(|id| !book.knows(id)) {
                self.remove(&id);
            }
        }
    }

    /// A directory that vanished is made again, for whoever mounts it next; a mount of the old one stays deaf.
    fn open_lost(&self, open: &mut Open) {
        for kept in open.book.containers.clone() {
            let id = &kept.status.id;
            if self.place(id).join(SOCKET).exists() {
                continue;
            }
            if let Some(door) = open.doors.remove(id) {
                door.cancel();
            }
            if let Err(error) = self.listen(open, &kept) {
                tracing::warn!(event = "container.lost", container = %id, %error);
            }
        }
    }

    async fn follow(&self, open: &mut Open, order: Order) {
        // Whoever asked and has gone needs no answer.
        match order {
            Order::Open(opening, reply) => drop(reply.send(self.open(open, opening).await)),
            Order::Close(id, reply) => {
                let known = open.book.knows(&id);
                self.close(open, &id).await;
                let done = if known { Ok(Containers::default()) } else { Err(Refusal::Unknown(id)) };
                drop(reply.send(done));
            }
            Order::Ended(id) => self.close(open, &id).await,
            Order::List(reply) => drop(reply.send(list(&open.book))),
            Order::Ask(container, question, reply) => {
                let asked = open.book.ask(new_question(container, question));
                drop(reply.send(self.kept(open, asked).await));
            }
            Order::Read(container, id, wait, reply) => match open.book.question_of(&container, &id) {
                Ok(question) if wait && question.answer.is_none() => open.wait(id, reply),
                found => drop(reply.send(found.cloned())),
            },
            Order::Answer(id, text, reply) => {
                let answered = open.book.answer(&id, text);
                let answered = self.kept(open, answered).await;
                if let Ok(question) = &answered {
                    open.tell_waiting(question);
                    let session = session_of(&question.container);
                    self.ears.tell(Heard::Guest(GuestNews::Over { session, subject: question.id.clone() }));
                }
                drop(reply.send(answered));
            }
        }
    }

    async fn open(&self, open: &mut Open, opening: Opening) -> Result<Containers, Refusal> {
        let Opening { id, uid, window, pid } = opening;
        open.book.may_open(&id)?;
        let own = Uid::effective();
        if uid.is_some_and(|uid| uid != own.as_raw()) && !own.is_root() {
            return Err(Refusal::Uid);
        }
        let uid = uid.filter(|uid| *uid != own.as_raw());
        let process = AgentProcess::open(pid).map_err(|error| Refusal::Failed(error.to_string()))?;
        let status = ContainerStatus { id: id.clone(), pid, since_ms: unix_ms().0, window };
        let kept = Kept { status, started: process.start_time(), uid };
        self.listen(open, &kept).map_err(|error| Refusal::Failed(error.to_string()))?;
        open.book.containers.push(kept);
        if let Err(refusal) = self.kept(open, Ok(())).await {
            self.close(open, &id).await;
            return Err(refusal);
        }
        tracing::info!(event = "container.opened", container = %id, pid);
        let dir = self.place(&id).display().to_string();
        Ok(Containers { dir: Some(dir), ..Containers::default() })
    }

    /// Makes the directory if there is none, listens there, and follows the process.
    fn listen(&self, open: &mut Open, kept: &Kept) -> io::Result<()> {
        let id = &kept.status.id;
        let listener = self.bind(id, kept.uid)?;
        let shutdown = self.shutdown.child_token();
        let door = Door {
            desk: Arc::clone(&self.desk),
            id: id.clone(),
            uid: kept.uid.unwrap_or_else(|| Uid::effective().as_raw()),
            listener,
            shutdown: shutdown.clone(),
        };
        open.tasks.spawn(door.run());
        open.tasks.spawn(tell_end(self.own.clone(), kept.clone(), shutdown.clone()));
        open.doors.insert(id.clone(), shutdown);
        let spot = Spot { pane: None, window: kept.status.window.clone() };
        self.desk.attention.spots.put(&SessionId::new(session_of(id)), spot);
        Ok(())
    }

    fn bind(&self, id: &ContainerId, uid: Option<u32>) -> io::Result<UnixListener> {
        let all = self.runtime_dir.path().join(CONTAINERS);
        let place = self.place(id);
        for dir in [&all, &place] {
            private(dir)?;
        }
        let socket = place.join(SOCKET);
        // Of a daemon that died; another user's would not be replaced.
        let _ = fs::remove_file(&socket);
        let listener = self.runtime_dir.bind_socket(&socket).map_err(io::Error::other)?;
        if let Some(uid) = uid {
            chown(&socket, Some(Uid::from_raw(uid)), None)?;
            fs::set_permissions(&place, Permissions::from_mode(0o711))?;
        }
        UnixListener::from_std(listener)
    }

    async fn close(&self, open: &mut Open, id: &ContainerId) {
        if !open.book.knows(id) {
            return;
        }
        self.forget(open, id);
        tracing::info!(event = "container.closed", container = %id);
        let _ = self.kept(open, Ok(())).await;
    }

    fn forget(&self, open: &mut Open, id: &ContainerId) {
        open.book.close(id);
        self.desk.attention.spots.remove(&SessionId::new(session_of(id)));
        if let Some(door) = open.doors.remove(id) {
            door.cancel();
        }
        let left: Vec<String> = open.book.questions.iter().map(|question| question.id.clone()).collect();
        open.waiting.retain(|(question, _)| left.contains(question));
        self.remove(id);
        self.ears.tell(Heard::Guest(GuestNews::Gone { session: session_of(id) }));
    }

    fn remove(&self, id: &ContainerId) {
        let place = self.place(id);
        self.runtime_dir.unbind_socket(&place.join(SOCKET));
        // What a daemon that died left there; what else is there is not ours to remove.
        let _ = fs::remove_file(place.join(SOCKET));
        if let Err(error) = fs::remove_dir(&place)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(event = "container.left", container = %id, %error);
        }
    }

    fn place(&self, id: &ContainerId) -> PathBuf {
        self.runtime_dir.path().join(CONTAINERS).join(id.as_str())
    }

    /// What changed the book counts once it is written.
    async fn kept<A>(&self, open: &Open, done: Result<A, Refusal>) -> Result<A, Refusal> {
        let done = done?;
        let (book, dir) = (open.book.clone(), self.state_dir.clone());
        match tokio::task::spawn_blocking(move || book.write(&dir)).await {
            Ok(Ok(())) => Ok(done),
            Ok(Err(error)) => {
                tracing::error!(event = "container.not_kept", %error);
                Err(Refusal::Failed(format!("can't keep it in the state directory: {error}")))
            }
            Err(_) => Err(Refusal::Stopping),
        }
    }
}

impl Open {
    fn wait(&mut self, question: String, reply: oneshot::Sender<Result<GuestQuestion, Refusal>>) {
        self.waiting.retain(|(_, reply)| !reply.is_closed());
        self.waiting.push((question, reply));
    }

    fn tell_waiting(&mut self, question: &GuestQuestion) {
        for (id, reply) in std::mem::take(&mut self.waiting) {
            match id == question.id {
                true => drop(reply.send(Ok(question.clone()))),
                false => self.waiting.push((id, reply)),
            }
        }
    }
}

/// What its items are kept under, with a session of its own behind it where it has one.
pub(crate) fn session_of(id: &ContainerId) -> String {
    format!("c-{id}")
}

fn private(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = dir.symlink_metadata()?;
            let ours = std::os::unix::fs::MetadataExt::uid(&found) == Uid::effective().as_raw();
            if found.is_dir() && ours {
                return Ok(());
            }
            Err(io::Error::other(format!("{} is no directory of ours: remove it", dir.display())))
        }
        made => made.and_then(|()| fs::set_permissions(dir, Permissions::from_mode(0o700))),
    }
}

async fn tell_end(desk: ContainerDesk, kept: Kept, shutdown: CancellationToken) {
    let ended = async {
        match AgentProcess::open(kept.status.pid) {
            Ok(process) if process.start_time() == kept.started => process.exited().await,
            _ => {}
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = ended => drop(desk.0.send(Order::Ended(kept.status.id)).await),
    }
}

fn list(book: &Book) -> Containers {
    let containers = book.containers.iter().map(|kept| kept.status.clone()).collect();
    Containers { dir: None, containers, questions: book.questions.clone() }
}

fn new_question(container: ContainerId, question: String) -> GuestQuestion {
    let asked_ms = unix_ms().0;
    let random = uuid::Uuid::new_v4().simple().to_string();
    let id = format!("q-{}-{}", asked_ms / 1000, &random[..6]);
    GuestQuestion { id, container, question, asked_ms, answer: None }
}
