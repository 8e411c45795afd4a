//! Knows which FIFOs there are, and has one reader for each.
//!
//! A hint of the directory watch, and one look a minute, lead to the same thing: read the directory and compare
//! (dev, ino) of what is there with what is open. So late, doubled or lost hints do no harm, and a FIFO that was
//! deleted and made again between two looks is seen: while the old one is held its inode can't be used again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::Metadata;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ccmux_wire::channel::{ChannelName, FileRole, role_of_file};
use ccmux_wire::status::{ChannelStatus, Direction, RefusedFile};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout_at};
use tokio_util::sync::CancellationToken;

use super::adoption::{self, AdoptError, Adopted, Adoption};
use super::board::{ChannelBoard, OPEN};
use super::feed::at;
use super::fifo::{self, FifoRefused, OpenFifo};
use super::fifo_reader::FifoReader;
use super::kept::{FifoStore, Kept};
use super::log::IntakeLogs;
use super::sink::Sink;
use crate::dir_watch::{DirWatch, Watched};
use crate::runtime_dir::{FileId, Restored, RuntimeDir};

/// The most FIFOs that are read at once.
pub const MAX_CHANNELS: usize = 256;

/// The FIFO that ccmux makes itself.
const DEFAULT_FIFO: &str = "in";
const RESCAN: Duration = Duration::from_secs(60);
/// All readers have ended that long after the daemon was told to stop.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

/// The task that finds FIFOs.
#[derive(Debug)]
pub struct Registry<S> {
    dir: Arc<RuntimeDir>,
    sink: Arc<S>,
    logs: IntakeLogs,
    shutdown: CancellationToken,
    board: ChannelBoard,
    open: HashMap<ChannelName, Reading>,
    /// Readers whose FIFO has gone and which may still be draining it.
    draining: HashMap<ChannelName, JoinHandle<()>>,
    /// What systemd keeps open.
    store: FifoStore,
    adoption: Adoption,
    /// Channels of which an earlier daemon left the beginning of a message.
    partials: Vec<ChannelName>,
    /// Whether logs of channels without a FIFO were taken up.
    leftovers_taken: bool,
    /// Cancelled once the list of channels is complete for the first time.
    first_look: CancellationToken,
    /// What was logged as refused.
    refused: HashSet<(String, FileId)>,
    /// The last trouble with the directory itself; logged when it changes.
    trouble: Option<String>,
}

/// An open FIFO and its reader.
#[derive(Debug)]
struct Reading {
    id: FileId,
    closing: CancellationToken,
    task: JoinHandle<()>,
}

/// A file in the runtime directory that has to do with channels.
struct Found {
    file_name: String,
    role: FileRole,
    metadata: Metadata,
}

impl<S: Sink> Registry<S> {
    /// A registry of that directory; nothing happens before [`Registry::run`].
    pub fn new(dir: Arc<RuntimeDir>, sink: Arc<S>, logs: IntakeLogs, shutdown: CancellationToken) -> Self {
        Self {
            adoption: Adoption::new(dir.path(), logs.clone()),
            partials: Vec::new(),
            leftovers_taken: false,
            first_look: CancellationToken::new(),
            store: FifoStore::default(),
            dir,
            sink,
            logs,
            shutdown,
            board: ChannelBoard::new(),
            open: HashMap::new(),
            draining: HashMap::new(),
            refused: HashSet::new(),
            trouble: None,
        }
    }

    /// Channels of which something is unfinished: accepted as it stands if the FIFO has gone meanwhile.
    pub fn with_partials(self, partials: Vec<ChannelName>) -> Self {
        Self { partials, ..self }
    }

    /// With what systemd keeps open for it.
    pub fn with_store(self, store: FifoStore) -> Self {
        Self { store, ..self }
    }

    /// The list of channels, as it changes.
    pub fn channels(&self) -> watch::Receiver<Vec<ChannelStatus>> {
        self.board.subscribe()
    }

    /// That list, and what else is shown of the directory.
    pub fn board(&self) -> ChannelBoard {
        self.board.clone()
    }

    /// Cancelled once the list is complete for the first time.
    pub fn first_look(&self) -> CancellationToken {
        self.first_look.clone()
    }

    /// Looks whenever something changed, until shutdown; then drains every FIFO, at most 2 s.
    pub async fn run(mut self) {
        let mut watch = DirWatch::new(Watched::Names);
        let mut rescan = interval_at(Instant::now() + RESCAN, RESCAN);
        rescan.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.look(&mut watch);
            self.first_look.cancel();
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => break,
                () = watch.changed() => {}
                () = at(self.adoption.next_look()) => {}
                _ = rescan.tick() => {}
            }
        }
        self.close_all().await;
    }

    fn look(&mut self, watch: &mut DirWatch) {
        let trouble = self.try_look(watch).err();
        if let Some(error) = trouble.as_ref().filter(|_| trouble != self.trouble) {
            tracing::error!(event = "runtime_dir.refused", error);
        }
        self.trouble = trouble;
    }

    fn try_look(&mut self, watch: &mut DirWatch) -> Result<(), String> {
        // Before the look: what changes during it gives another hint. Fails if the directory is gone.
        let followed = watch.follow(self.dir.path());
        if self.dir.restore().map_err(|error| error.to_string())? == Restored::Remade {
            tracing::warn!(event = "runtime_dir.lost", path = %self.dir.path().display());
            watch.follow(self.dir.path()).map_err(|error| error.to_string())?;
        } else {
            followed.map_err(|error| error.to_string())?;
        }
        self.dir.make_fifo(DEFAULT_FIFO).map_err(|error| error.to_string())?;
        let (found, hidden) = self.read_dir().map_err(|error| error.to_string())?;
        self.close_vanished(&found);
        self.drain_stale(&found);
        self.forget(&found, &hidden);
        let adopted = self.take_hidden(&hidden);
        for file in &found {
            self.take_up(file);
        }
        for channel in adopted {
            self.take_up_log(&channel);
        }
        self.take_up_leftovers();
        Ok(())
    }

    /// Files that have to do with channels, and those that are being adopted.
    fn read_dir(&self) -> io::Result<(Vec<Found>, Vec<String>)> {
        let (mut found, mut hidden) = (Vec::new(), Vec::new());
        for entry in self.dir.path().read_dir()? {
            let entry = entry?;
            let file_name = entry.file_name().to_string_lossy().into_owned();
            let role = role_of_file(&file_name);
            if role == FileRole::Other {
                hidden.extend(Some(file_name).filter(|name| adoption::hidden_channel(name).is_some()));
                continue;
            }
            // What is gone between the two calls was never there.
            if let Ok(metadata) = entry.metadata() {
                found.push(Found { file_name, role, metadata });
            }
        }
        found.sort_by(|a, b| a.file_name.cmp(&b.file_name));
        Ok((found, hidden))
    }

    fn close_vanished(&mut self, found: &[Found]) {
        let there: HashMap<&ChannelName, FileId> =
            found.iter().filter_map(|file| Some((file.channel_in()?, file.id()))).collect();
        let gone = |(name, reading): &(&ChannelName, &Reading)| {
            there.get(name) != Some(&reading.id) || reading.task.is_finished()
        };
        let gone: Vec<ChannelName> = self.open.iter().filter(gone).map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.close_reader(&name);
        }
    }

    /// FIFOs that an earlier daemon had open and whose name is another one's now: what is in them comes first.
    fn drain_stale(&mut self, found: &[Found]) {
        let is_there =
            |channel: &ChannelName, id| found.iter().any(|f| f.channel_in() == Some(channel) && f.id() == id);
        for stale in self.store.take_stale(is_there) {
            let closing = CancellationToken::new();
            closing.cancel();
            let reader = self.reader(&stale.channel, Some((stale.fifo, stale.kept)), closing);
            self.draining.insert(stale.channel, tokio::spawn(reader.run()));
        }
    }

    fn close_reader(&mut self, name: &ChannelName) {
        if let Some(reading) = self.open.remove(name) {
            reading.closing.cancel();
            self.draining.insert(name.clone(), reading.task);
        }
    }

    /// Forgets what is over, so that these lists stay as small as the directory.
    fn forget(&mut self, found: &[Found], hidden: &[String]) {
        self.draining.retain(|_, task| !task.is_finished());
        let there: HashSet<(String, FileId)> = found.iter().map(Found::key).collect();
        self.refused.retain(|key| there.contains(key));
        let is_file = |name: &str| found.iter().any(|file| file.file_name == name && file.metadata.is_file());
        self.adoption.forget(|name| is_file(name) || hidden.iter().any(|file| file == name));
        let listed: BTreeSet<(&ChannelName, Direction)> = found.iter().filter_map(Found::listed).collect();
        self.board.retain(|name, direction| listed.contains(&(name, direction)));
        self.board.set_refused(found.iter().filter_map(Found::refused_name).collect());
    }

    fn take_up(&mut self, file: &Found) {
        match &file.role {
            FileRole::In(channel) if self.open.contains_key(channel) => {}
            FileRole::In(channel) => match self.open_fifo(&file.file_name) {
                Ok(fifo) => self.spawn_reader(channel, fifo),
                Err(FifoRefused::Gone) => {}
                Err(FifoRefused::RegularFile) => self.adopt(file, channel),
                Err(refused) => self.refuse(file, &refused.to_string()),
            },
            FileRole::Out(channel) => match fifo::check(&file.metadata) {
                Ok(()) => self.board.set(channel, Direction::Out, OPEN),
                Err(refused) => self.refuse(file, &refused.to_string()),
            },
            FileRole::Refused(why) => self.refuse(file, why),
            FileRole::Other => {}
        }
    }

    fn open_fifo(&self, file_name: &str) -> Result<OpenFifo, FifoRefused> {
        if self.open.len() >= MAX_CHANNELS {
            return Err(FifoRefused::TooMany(MAX_CHANNELS));
        }
        OpenFifo::open(&self.dir.path().join(file_name))
    }

    /// A file in the place of a FIFO: the FIFO is there as soon as the file is adopted.
    fn adopt(&mut self, file: &Found, channel: &ChannelName) {
        let adopted = self.adoption.consider(&file.file_name, channel);
        match self.heed(adopted, &file.file_name, channel) {
            Ok(Adopted::NotYet) => {
                let state = "a regular file: adopted once nobody writes to it";
                self.board.set(channel, Direction::In, state);
            }
            Ok(Adopted::Staged(_)) => match self.open_fifo(&file.file_name) {
                Ok(fifo) => self.spawn_reader(channel, fifo),
                Err(refused) => self.refuse(file, &refused.to_string()),
            },
            Err(why) => self.refuse(file, &why),
        }
    }

    /// Goes on with files that an earlier look, or daemon, did not finish. Returns whose they were.
    fn take_hidden(&mut self, hidden: &[String]) -> Vec<ChannelName> {
        let mut channels = Vec::new();
        for name in hidden {
            let Some(channel) = adoption::hidden_channel(name) else { continue };
            let adopted = self.adoption.take_hidden(name, &channel);
            match self.heed(adopted, name, &channel) {
                Ok(Adopted::NotYet) => {}
                Ok(Adopted::Staged(_)) => {
                    // Only a reader that begins takes it.
                    self.close_reader(&channel);
                    channels.push(channel);
                }
                Err(error) => tracing::error!(event = "channel.adoption_failed", file = name, error),
            }
        }
        channels
    }

    fn heed(
        &self,
        adopted: Result<Adopted, AdoptError>,
        file: &str,
        channel: &ChannelName,
    ) -> Result<Adopted, String> {
        if let Ok(Adopted::Staged(bytes)) = adopted {
            let why = "a regular file where a FIFO should be; mkfifo before writing";
            tracing::warn!(event = "channel.adopted", %channel, file, bytes, why);
        }
        adopted.map_err(|error| error.to_string())
    }

    /// Once: what an earlier daemon left of channels whose FIFO has gone.
    fn take_up_leftovers(&mut self) {
        if self.leftovers_taken {
            return;
        }
        match self.logs.channels() {
            Ok(channels) => {
                self.leftovers_taken = true;
                let left: BTreeSet<_> =
                    channels.into_iter().chain(std::mem::take(&mut self.partials)).collect();
                left.iter().for_each(|channel| self.take_up_log(channel));
            }
            Err(error) => tracing::error!(event = "intake_log.unread", %error),
        }
    }

    /// The log of a channel without a FIFO.
    fn take_up_log(&mut self, channel: &ChannelName) {
        if !self.open.contains_key(channel) {
            let reader = self.reader(channel, None, CancellationToken::new());
            let task = tokio::spawn(reader.run());
            self.draining.insert(channel.clone(), task);
        }
    }

    fn reader(
        &mut self,
        channel: &ChannelName,
        fifo: Option<(OpenFifo, Kept)>,
        closing: CancellationToken,
    ) -> FifoReader<S> {
        let (fifo, kept) = fifo.unzip();
        FifoReader {
            channel: channel.clone(),
            fifo,
            kept,
            logs: self.logs.clone(),
            sink: Arc::clone(&self.sink),
            board: self.board.clone(),
            closing,
            shutdown: self.shutdown.clone(),
            predecessor: self.draining.remove(channel),
        }
    }

    fn spawn_reader(&mut self, channel: &ChannelName, fifo: OpenFifo) {
        let (id, closing) = (fifo.id, CancellationToken::new());
        let kept = self.store.keep(channel, &fifo);
        let reader = self.reader(channel, Some((fifo, kept)), closing.clone());
        self.board.set(channel, Direction::In, OPEN);
        let task = tokio::spawn(reader.run());
        self.open.insert(channel.clone(), Reading { id, closing, task });
    }

    fn refuse(&mut self, file: &Found, why: &str) {
        if let Some((name, direction)) = file.listed() {
            self.board.set(name, direction, &format!("refused: {why}"));
        }
        if self.refused.insert(file.key()) {
            tracing::warn!(event = "channel.refused", file = file.file_name, why);
        }
    }

    async fn close_all(self) {
        let readers = self.open.into_values().map(|reading| {
            reading.closing.cancel();
            reading.task
        });
        let tasks: Vec<JoinHandle<()>> = readers.chain(self.draining.into_values()).collect();
        let deadline = Instant::now() + SHUTDOWN_LIMIT;
        for mut task in tasks {
            if timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
                tracing::error!(event = "channel.undrained", "the inbox took nothing for too long");
            }
        }
    }
}

impl Found {
    fn id(&self) -> FileId {
        FileId::from(&self.metadata)
    }

    fn key(&self) -> (String, FileId) {
        (self.file_name.clone(), self.id())
    }

    fn channel_in(&self) -> Option<&ChannelName> {
        match &self.role {
            FileRole::In(name) => Some(name),
            _ => None,
        }
    }

    /// One that can't be listed as a channel: its name is none.
    fn refused_name(&self) -> Option<RefusedFile> {
        let FileRole::Refused(why) = &self.role else { return None };
        Some(RefusedFile { file: self.file_name.clone(), state: format!("refused: {why}") })
    }

    /// How it stands on the board.
    fn listed(&self) -> Option<(&ChannelName, Direction)> {
        match &self.role {
            FileRole::In(name) => Some((name, Direction::In)),
            FileRole::Out(name) => Some((name, Direction::Out)),
            FileRole::Refused(_) | FileRole::Other => None,
        }
    }
}
