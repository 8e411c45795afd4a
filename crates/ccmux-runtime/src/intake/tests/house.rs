//! A runtime directory with a registry on real FIFOs, and the sinks that its bytes go to.

use std::path::Path;

use ccmux_policy::Event;
use tokio::sync::mpsc;

use super::*;
use crate::inbox::{Inbox, InboxSettings, Size, Texts};

/// Lines of all channels in order of arrival; what is unfinished waits for a flush.
#[derive(Default)]
pub(super) struct Lines {
    pub(super) done: Vec<(String, String)>,
    pub(super) rest: HashMap<ChannelName, Vec<u8>>,
    pub(super) taken: HashMap<ChannelName, u64>,
}

pub(super) struct Recorder {
    pub(super) lines: Mutex<Lines>,
    pub(super) count: watch::Sender<usize>,
    /// One permit a call of `ingest`.
    pub(super) room: Semaphore,
    pub(super) refusals: Mutex<u32>,
    pub(super) offered: watch::Sender<u32>,
}

impl Recorder {
    pub(super) fn new(room: usize, refusals: u32) -> Arc<Self> {
        Arc::new(Self {
            lines: Mutex::default(),
            count: watch::Sender::new(0),
            room: Semaphore::new(room),
            refusals: Mutex::new(refusals),
            offered: watch::Sender::new(0),
        })
    }

    pub(super) fn refuses(&self) -> bool {
        let mut left = self.refusals.lock().unwrap();
        let refuses = *left > 0;
        *left = left.saturating_sub(1);
        refuses
    }

    pub(super) fn accept(&self, channel: &ChannelName, line: Vec<u8>) {
        let line = (channel.to_string(), String::from_utf8(line).unwrap());
        self.lines.lock().unwrap().done.push(line);
        self.count.send_modify(|count| *count += 1);
    }

    pub(super) async fn wait_for(&self, count: usize) -> Vec<(String, String)> {
        let mut counted = self.count.subscribe();
        let reached =
            timeout(LIMIT, counted.wait_for(|seen| *seen >= count)).await.map(|seen| *seen.unwrap());
        assert!(reached.is_ok(), "{} of {count} lines came", self.count.borrow().to_owned());
        self.lines.lock().unwrap().done.clone()
    }

    /// Until that is what waits, unfinished.
    pub(super) async fn holds(&self, text: &str) {
        let mut offered = self.offered.subscribe();
        let holds = || self.lines.lock().unwrap().rest.values().any(|rest| rest == text.as_bytes());
        let reached = async {
            while !holds() {
                let _ = timeout(Duration::from_millis(20), offered.changed()).await;
            }
        };
        assert!(timeout(LIMIT, reached).await.is_ok(), "{text:?} did not come");
    }

    pub(super) async fn texts(&self, count: usize) -> Vec<String> {
        self.wait_for(count).await.into_iter().map(|(_, text)| text).collect()
    }
}

impl Sink for Recorder {
    async fn start_offset(&self, channel: &ChannelName) -> Result<u64, SinkError> {
        Ok(self.lines.lock().unwrap().taken.get(channel).copied().unwrap_or(0))
    }

    async fn has_partial(&self, channel: &ChannelName) -> Result<bool, SinkError> {
        Ok(self.lines.lock().unwrap().rest.contains_key(channel))
    }

    async fn ingest(
        &self,
        channel: &ChannelName,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<Ingested, SinkError> {
        self.offered.send_modify(|offered| *offered += 1);
        self.room.acquire().await.unwrap().forget();
        if self.refuses() {
            return Err(SinkError("no space left".into()));
        }
        let (whole, pending) = {
            let mut lines = self.lines.lock().unwrap();
            let taken = lines.taken.entry(channel.clone()).or_default();
            assert_eq!(*taken, offset, "bytes of {channel} come once and in order");
            *taken += bytes.len() as u64;
            let rest = lines.rest.entry(channel.clone()).or_default();
            rest.extend(bytes);
            let mut whole: Vec<Vec<u8>> = rest.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            *rest = whole.pop().unwrap();
            (whole, !rest.is_empty())
        };
        whole.into_iter().for_each(|line| self.accept(channel, line));
        Ok(Ingested { pending })
    }

    async fn flush_quiet(&self, channel: &ChannelName) -> Result<(), SinkError> {
        let rest = self.lines.lock().unwrap().rest.remove(channel).unwrap_or_default();
        if !rest.is_empty() {
            self.accept(channel, rest);
        }
        Ok(())
    }
}

/// The inbox as the daemon uses it.
pub(super) struct InboxSink(pub(super) Inbox);

fn refused(error: impl ToString) -> SinkError {
    SinkError(error.to_string())
}

impl Sink for InboxSink {
    async fn start_offset(&self, channel: &ChannelName) -> Result<u64, SinkError> {
        self.0.received(channel).await.map_err(refused)
    }

    async fn has_partial(&self, channel: &ChannelName) -> Result<bool, SinkError> {
        self.0.has_partial(channel).await.map_err(refused)
    }

    async fn ingest(
        &self,
        channel: &ChannelName,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<Ingested, SinkError> {
        let ingested = self.0.ingest(channel, offset, bytes).await.map_err(refused)?;
        Ok(Ingested { pending: ingested.pending })
    }

    async fn flush_quiet(&self, channel: &ChannelName) -> Result<(), SinkError> {
        self.0.flush_quiet(channel).await.map(|_| ()).map_err(refused)
    }
}

/// An inbox of its own, and what it tells the policy.
pub(super) fn open_inbox(dir: &Path) -> (Inbox, mpsc::Receiver<Event>) {
    let texts = Texts {
        normalise: Arc::new(|_, text| text.to_owned()),
        measure: Arc::new(|_, content| Size { bytes: content.len() as u64, rows: 1 }),
    };
    let settings = InboxSettings { queue_messages: 100_000, ..InboxSettings::default() };
    let (sender, events) = mpsc::channel(100_000);
    (Inbox::open(&dir.join("inbox.db"), settings, texts, sender).unwrap().inbox, events)
}

/// The texts of all messages in it, in order.
pub(super) fn contents(inbox: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(inbox).unwrap();
    let mut all = connection.prepare("SELECT content FROM messages ORDER BY id").unwrap();
    all.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

pub(super) fn logs_in(keep: &TempDir) -> IntakeLogs {
    let path = keep.path().join("intake");
    fs::create_dir_all(&path).unwrap();
    IntakeLogs::new(path)
}

pub(super) struct House {
    pub(super) _keep: Arc<TempDir>,
    pub(super) dir: Arc<RuntimeDir>,
    pub(super) sink: Arc<Recorder>,
    pub(super) channels: watch::Receiver<Vec<ChannelStatus>>,
    pub(super) shutdown: CancellationToken,
    pub(super) registry: JoinHandle<()>,
}

/// A temporary directory in which daemons come and go; a sink outlives them, as the inbox's file does.
pub(super) struct Place {
    pub(super) keep: Arc<TempDir>,
    pub(super) sink: Arc<Recorder>,
}

impl Place {
    pub(super) fn new(room: usize) -> Self {
        Self { keep: Arc::new(tempfile::tempdir().unwrap()), sink: Recorder::new(room, 0) }
    }

    pub(super) fn open(&self) -> House {
        House::in_place(Arc::clone(&self.keep), Arc::clone(&self.sink))
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.keep.path().join("intake")
    }

    /// Names of the files in the folder of logs.
    pub(super) fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.logs()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl House {
    pub(super) fn open() -> Self {
        Self::with(Recorder::new(Semaphore::MAX_PERMITS, 0))
    }

    pub(super) fn with(sink: Arc<Recorder>) -> Self {
        Self::in_place(Arc::new(tempfile::tempdir().unwrap()), sink)
    }

    pub(super) fn in_place(keep: Arc<TempDir>, sink: Arc<Recorder>) -> Self {
        Self::with_partials(&Place { keep, sink }, Vec::new())
    }

    pub(super) fn with_partials(place: &Place, partials: Vec<ChannelName>) -> Self {
        let (keep, sink) = (Arc::clone(&place.keep), Arc::clone(&place.sink));
        let dir = Arc::new(RuntimeDir::claim(&keep.path().join("ccmux")).unwrap());
        let shutdown = CancellationToken::new();
        let logs = logs_in(&keep);
        let registry = Registry::new(Arc::clone(&dir), Arc::clone(&sink), logs, shutdown.clone());
        let registry = registry.with_partials(partials);
        let channels = registry.channels();
        Self { _keep: keep, dir, sink, channels, shutdown, registry: tokio::spawn(registry.run()) }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn make(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        path
    }

    /// The state that the board shows, once it fits.
    pub(super) async fn state(
        &mut self,
        name: &str,
        direction: Direction,
        fits: impl Fn(Option<&str>) -> bool,
    ) {
        let shown = |list: &Vec<ChannelStatus>| {
            let entry = list.iter().find(|entry| entry.name.as_str() == name && entry.direction == direction);
            fits(entry.map(|entry| entry.state.as_str()))
        };
        let mut channels = self.channels.clone();
        let reached = timeout(LIMIT, channels.wait_for(shown)).await.is_ok();
        assert!(reached, "{name}: {:?}", self.channels.borrow().to_owned());
    }

    pub(super) async fn opened(&mut self, name: &str) {
        self.state(name, Direction::In, |state| state == Some("open")).await;
    }

    pub(super) async fn refused(&mut self, name: &str, why: &str) {
        let fits = |state: Option<&str>| state.is_some_and(|s| s.starts_with("refused: ") && s.contains(why));
        self.state(name, Direction::In, fits).await;
    }

    pub(super) async fn close(self) -> Vec<(String, String)> {
        self.shutdown.cancel();
        timeout(LIMIT, self.registry).await.expect("the registry hangs").unwrap();
        self.sink.lines.lock().unwrap().done.clone()
    }
}

/// As `echo` does: waits until somebody reads, writes, leaves.
pub(super) async fn write(path: PathBuf, text: impl AsRef<[u8]> + Send + 'static) {
    let write = move || OpenOptions::new().write(true).open(path)?.write_all(text.as_ref());
    timeout(LIMIT, tokio::task::spawn_blocking(write)).await.expect("nobody reads").unwrap().unwrap();
}

pub(super) fn writer(path: &PathBuf) -> std::io::Result<File> {
    OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)
}

/// Opens as soon as somebody reads.
pub(super) async fn patient_writer(path: &PathBuf) -> File {
    let started = Instant::now();
    loop {
        match writer(path) {
            Ok(file) => return file,
            Err(error) => assert!(started.elapsed() < LIMIT, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
