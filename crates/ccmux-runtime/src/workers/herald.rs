//! Stores and broadcasts alerts, one after the other, and goes on trying while the database refuses.
//!
//! ```text
//! Alerts::raise ─► 256 places ─► Herald ─► turns.db ─► subscribers
//!  never waits                    0.2 s, 0.4 s, ... 5 s between tries
//! ```
//!
//! Whoever has something to tell holds an [`Alerts`] and never waits. When the queue is full, the database has refused for
//! long: what comes then is in the log only (`alert.dropped`). It doesn't know why anything is told.

use ccmux_policy::{AlertKind, Event};
use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::{MessageId, SessionId};
use ccmux_wire::output::Alert;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::speaker::is_store;
use crate::inbox::{Inbox, InboxError, stopped, until_done};
use crate::metrics::Metrics;
use crate::turns::Turns;

/// So many alerts wait while the database refuses.
const QUEUE: usize = 256;

/// Something to tell.
#[derive(Debug, Clone)]
pub struct News {
    /// What kind.
    pub kind: AlertKind,
    /// Whose session.
    pub session: Option<SessionId>,
    /// Which messages it is about.
    pub messages: Vec<MessageId>,
    /// The tool that Claude asks about.
    pub tool: Option<String>,
    /// The channel it is about.
    pub channel: Option<ChannelName>,
    /// What the agent's terminal shows.
    pub screen: Option<String>,
    /// A sentence for people.
    pub message: String,
}

impl News {
    /// A sentence of a kind, about nothing in particular.
    pub fn new(kind: AlertKind, message: String) -> Self {
        Self { kind, session: None, messages: Vec::new(), tool: None, channel: None, screen: None, message }
    }

    /// About a channel.
    pub fn of_channel(kind: AlertKind, channel: ChannelName, message: String) -> Self {
        Self { channel: Some(channel), ..Self::new(kind, message) }
    }
}

/// Where alerts are raised. Clones lead to the same herald.
#[derive(Debug, Clone)]
pub struct Alerts(mpsc::Sender<News>);

impl Alerts {
    /// A way to raise alerts, and where they wait.
    pub fn new() -> (Self, mpsc::Receiver<News>) {
        let (alerts, waiting) = mpsc::channel(QUEUE);
        (Self(alerts), waiting)
    }

    /// Tells subscribers and the log. Never waits.
    pub fn raise(&self, news: News) {
        log(&news);
        self.raise_in_silence(news);
    }

    /// Like [`raise`](Self::raise), for whoever may have more to tell than there are places: waits for one until then.
    pub async fn raise_until(&self, deadline: Instant, news: News) {
        log(&news);
        let kind = news.kind.word();
        if !timeout_at(deadline, self.0.send(news)).await.is_ok_and(|sent| sent.is_ok()) {
            tracing::error!(event = "alert.dropped", kind);
        }
    }

    /// Like [`raise`](Self::raise), for what must not be in the log: it holds somebody's text.
    pub fn raise_in_silence(&self, news: News) {
        let kind = news.kind.word();
        if self.0.try_send(news).is_err() {
            tracing::error!(event = "alert.dropped", kind);
        }
    }
}

/// Most of them call for somebody; these only tell.
fn log(news: &News) {
    use AlertKind::{AgentRestarted, ChannelClosed, ChannelOpened, McpUp};
    let kind = news.kind.word();
    match news.kind {
        AgentRestarted | ChannelClosed | ChannelOpened | McpUp => {
            tracing::info!(event = "alert", kind, message = news.message);
        }
        _ => tracing::warn!(event = "alert", kind, message = news.message),
    }
}

/// The task.
#[derive(Debug)]
pub struct Herald {
    /// What was raised.
    pub news: mpsc::Receiver<News>,
    /// Closed when the daemon stops.
    pub events: mpsc::Sender<Event>,
    /// Stores and broadcasts.
    pub turns: Turns,
    /// Knows the messages.
    pub inbox: Inbox,
    /// Counts.
    pub metrics: Metrics,
}

impl Herald {
    /// Runs until nobody can raise anything, or the daemon stops; what waits then is told if the database allows.
    pub async fn run(mut self) {
        let mut stopping = false;
        loop {
            let news = tokio::select! {
                news = self.news.recv() => news,
                () = self.events.closed(), if !stopping => {
                    stopping = true;
                    self.news.close();
                    continue;
                }
            };
            match news {
                Some(news) => {
                    self.count(&news);
                    if self.tell(news).await.is_none() {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    fn count(&self, news: &News) {
        self.metrics.alerted(news.kind);
        if let (AlertKind::Rejected, Some(channel)) = (news.kind, &news.channel) {
            self.metrics.rejected(channel);
        }
    }

    /// `None`: the daemon stopped before.
    async fn tell(&self, news: News) -> Option<()> {
        let kind = news.kind.word();
        let alert = Alert {
            kind: kind.to_owned(),
            messages: self.ids(news.messages).await?,
            tool: news.tool,
            channel: news.channel,
            screen: news.screen,
            message: news.message,
        };
        let store = || self.turns.alert(alert.clone(), news.session.clone());
        if let Err(error) = until_done("alert", is_store, stopped(&self.events), store).await? {
            tracing::error!(event = "alert.failed", kind, %error);
        }
        Some(())
    }

    /// Messages by the ids that their senders know.
    async fn ids(&self, messages: Vec<MessageId>) -> Option<Vec<String>> {
        if messages.is_empty() {
            return Some(Vec::new());
        }
        let names = || self.inbox.reply_to(messages.clone());
        let names = until_done("reply to", InboxError::may_pass, stopped(&self.events), names).await?;
        Some(names.unwrap_or_default().into_iter().map(|name| name.id).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;
    use tempfile::TempDir;
    use tokio::io::{AsyncBufReadExt, BufReader};
    use tokio::net::UnixStream;
    use tokio::time::timeout;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::inbox::{InboxSettings, Texts};
    use crate::turns::TurnsSettings;
    use crate::turns::store::FILE_NAME;

    /// Databases, a herald, a subscriber.
    struct Told {
        dir: TempDir,
        alerts: Alerts,
        events: mpsc::Receiver<Event>,
        herald: tokio::task::JoinHandle<()>,
        lines: tokio::io::Lines<BufReader<UnixStream>>,
    }

    fn told() -> Told {
        let dir = TempDir::new().unwrap();
        let settings = TurnsSettings { projects_dir: dir.path().join("projects"), subscriber_bytes: 1 << 20 };
        let turns = Turns::open(dir.path(), settings).unwrap().turns;
        let texts = Texts::plain();
        let settings = InboxSettings::default();
        let inbox =
            Inbox::open(&dir.path().join("inbox.db"), settings, texts, mpsc::channel(1).0).unwrap().inbox;
        let (ours, theirs) = UnixStream::pair().unwrap();
        let broadcast = turns.broadcast().clone();
        let wish = Some(ccmux_wire::output::Wish::default());
        tokio::spawn(async move { broadcast.subscribe(ours, wish, CancellationToken::new()).await });
        let (alerts, news) = Alerts::new();
        let (sender, events) = mpsc::channel(1);
        let herald =
            tokio::spawn(Herald { news, events: sender, turns, inbox, metrics: Metrics::default() }.run());
        Told { dir, alerts, events, herald, lines: BufReader::new(theirs).lines() }
    }

    impl Told {
        async fn next(&mut self) -> Value {
            let line = timeout(Duration::from_secs(30), self.lines.next_line()).await.unwrap().unwrap();
            serde_json::from_str(&line.unwrap()).unwrap()
        }

        fn lock(&self) -> rusqlite::Connection {
            let other = rusqlite::Connection::open(self.dir.path().join(FILE_NAME)).unwrap();
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            other
        }
    }

    fn news(what: impl ToString) -> News {
        News::new(AlertKind::Stuck, what.to_string())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn alerts_wait_for_a_database_that_is_locked_for_longer_than_sqlite_waits() {
        let mut told = told();
        told.alerts.raise(news("before"));
        assert_eq!(told.next().await["alert"]["message"], "before");
        let lock = told.lock();
        let begin = Instant::now();
        for n in 0..3 {
            told.alerts.raise(news(n));
        }
        assert!(begin.elapsed() < Duration::from_secs(1), "raising waits");
        tokio::time::sleep(Duration::from_millis(5500)).await;
        drop(lock);
        for n in 0..3 {
            assert_eq!(told.next().await["alert"]["message"], n.to_string());
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_full_queue_drops_and_raising_never_waits() {
        let mut told = told();
        let lock = told.lock();
        let begin = Instant::now();
        for n in 0..=2 * QUEUE {
            told.alerts.raise(news(n));
        }
        assert!(begin.elapsed() < Duration::from_secs(2));
        drop(lock);
        for n in 0..QUEUE {
            assert_eq!(told.next().await["alert"]["message"], n.to_string());
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_waits_when_the_daemon_stops_is_still_told() {
        let mut told = told();
        for n in 0..50 {
            told.alerts.raise(news(n));
        }
        told.events.close();
        timeout(Duration::from_secs(10), told.herald).await.unwrap().unwrap();
        for n in 0..50 {
            let line = timeout(Duration::from_secs(10), told.lines.next_line()).await.unwrap().unwrap();
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            assert_eq!(line["alert"]["message"], n.to_string());
        }
        told.alerts.raise(news("too late"));
    }
}
