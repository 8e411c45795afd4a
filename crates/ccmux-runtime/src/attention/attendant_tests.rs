//! The attendant with real routes, a real book, and a terminal that has no server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccmux_policy::attention::{Rule, Rules, Step};
use ccmux_wire::id::SessionId;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::attendant::Setting;
use super::book::Book;
use super::fact::Fact;
use super::*;
use crate::afar::Answers;
use crate::clock::Clock;
use crate::inbox::{AnswersLeft, Inbox, InboxSettings, Selection as Messages, Size, Texts};
use crate::notify::desktop::focus::Focus;
use crate::notify::{Notifier, Route, Ways};
use crate::outlet::{OutletSettings, Outlets};
use crate::settings::RouteSettings;
use crate::settings::permission::PermissionSettings;
use crate::spots::Spots;
use crate::tmux::{Tmux, TmuxSettings};

struct Room {
    dir: TempDir,
    ears: Ears,
    inbox: Inbox,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

fn terminal(dir: &Path) -> Arc<Tmux> {
    Arc::new(Tmux::new(TmuxSettings {
        binary: "tmux".into(),
        socket: Some("ccmux-test-no-such-server".to_owned()),
        config: Some("/dev/null".into()),
        session: "none".to_owned(),
        window: "none".to_owned(),
        sink: Vec::new(),
        sink_socket: dir.join("sink"),
        own_unit: false,
        silence_timeout: Duration::from_secs(60),
    }))
}

/// Every kind is told at once, by these routes.
fn rules(routes: &[&str]) -> Rules {
    let routes = routes.iter().map(|name| (*name).to_owned()).collect();
    let rule = Rule { steps: vec![Step { after_ms: 0, routes }], cooldown_ms: 0 };
    Rules { kinds: std::array::from_fn(|_| rule.clone()), dedup_ms: 0, focus_ms: 0, quiet: None }
}

fn room(dir: TempDir, routes: &[(&str, RouteSettings)], rules: Rules) -> Room {
    let texts = Texts {
        normalise: Arc::new(|_, text| text.to_owned()),
        measure: Arc::new(|_, _| Size { bytes: 1, rows: 1 }),
    };
    let inbox =
        Inbox::open(&dir.path().join("inbox.db"), InboxSettings::default(), texts, mpsc::channel(8).0);
    let inbox = inbox.unwrap().inbox;
    let patience = OutletSettings {
        wait: Duration::from_millis(200),
        linger: Duration::from_millis(50),
        finish: Duration::from_secs(1),
    };
    let shutdown = CancellationToken::new();
    let outlets =
        Outlets::new(dir.path().to_owned(), patience, watch::channel(Vec::new()).1, shutdown.clone());
    let routes: BTreeMap<_, _> =
        routes.iter().map(|(name, route)| ((*name).to_owned(), route.clone())).collect();
    let ways = Ways { outlets: outlets.clone(), inbox: inbox.clone(), focus: Focus::default() };
    let afar = (inbox.clone(), outlets);
    let clock = Clock::default();
    let (book, kept) = Book::open(dir.path()).unwrap();
    let setting = Setting {
        rules,
        all_sessions: true,
        debug: false,
        kept,
        book: Some(Arc::new(Mutex::new(book))),
        terminal: terminal(dir.path()),
        agent: watch::channel(None).1,
        notifier: Notifier::new(Route::all(&routes, Path::new("/")), ways),
        spots: Spots::default(),
        afar: Answers::new(PermissionSettings::default(), &AnswersLeft::default(), afar, clock.clone()),
        clock,
        shutdown: shutdown.clone(),
    };
    let (ears, heard) = Ears::new();
    let task = tokio::spawn(Attendant::new(setting, ears.clone(), heard).run());
    Room { dir, ears, inbox, shutdown, task }
}

impl Room {
    fn hook(&self, session: &str, own: bool, fact: Fact) {
        self.ears.tell(Heard::Hook { session: SessionId::new(session), own, fact });
    }

    /// Everything that was on its way has arrived, or was given up.
    async fn end(self) -> TempDir {
        self.shutdown.cancel();
        self.task.await.unwrap();
        self.dir
    }
}

fn stopped() -> Fact {
    Fact::Stopped { prompt: Some("p1".to_owned()), background: 0 }
}

fn command(line: &str) -> RouteSettings {
    RouteSettings::Command { argv: ["/bin/sh", "-c", line].map(str::to_owned).to_vec() }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn lines(path: &PathBuf) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn claude_is_told_of_other_sessions_and_never_of_its_own() {
    let dir = TempDir::new().unwrap();
    let desk = dir.path().join("desk");
    let routes = [
        ("claude", RouteSettings::Claude { channel: "attention".to_owned() }),
        ("desk", command(&format!("cat >> {}; echo >> {0}", desk.display()))),
    ];
    let room = room(dir, &routes, rules(&["claude", "desk"]));
    room.hook("own", true, stopped());
    until("the own session's notice goes the other way", async || lines(&desk) > 0).await;
    room.hook("other", false, stopped());
    let messages = async || room.inbox.select(Messages::default()).await.unwrap();
    until("Claude is told of another session", async || !messages().await.is_empty()).await;
    assert_eq!(messages().await.len(), 1);
    room.end().await;
}
