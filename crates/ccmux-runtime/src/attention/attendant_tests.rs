//! The attendant with real routes, a real book, and a terminal that has no server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ccmux_policy::attention::{Kind, Row, Rule, Rules, Source, Step};
use ccmux_policy::event::FileState;
use ccmux_wire::attention::Standing;
use ccmux_wire::id::SessionId;
use tempfile::TempDir;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::attendant::{Letter, Setting, Turn};
use super::book::{Book, Kept, Page};
use super::fact::Fact;
use super::opencode::Teller;
use super::opencode::stream::origin_of;
use super::words::Text;
use super::*;
use crate::afar::Answers;
use crate::clock::{Clock, unix_ms};
use crate::inbox::{AnswersLeft, Inbox, Selection as Messages};
use crate::notify::{Notice, Notifier, Route, Ways};
use crate::settings::RouteSettings;
use crate::settings::permission::PermissionSettings;
use crate::spots::Spots;
use crate::tmux::{Tmux, TmuxSettings};
use crate::workers::starter::AgentNow;

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
    let shutdown = CancellationToken::new();
    let ways = Ways::in_folder(dir.path(), shutdown.clone());
    let inbox = ways.inbox.clone();
    let routes: BTreeMap<_, _> =
        routes.iter().map(|(name, route)| ((*name).to_owned(), route.clone())).collect();
    let (ears, heard) = Ears::new();
    let afar = (inbox.clone(), ways.outlets.clone(), ears.clone());
    let clock = Clock::default();
    let (book, kept) = Book::open(dir.path()).unwrap();
    let agent = AgentNow { pid: 1, session: Some(SessionId::new("own")), version: None };
    let setting = Setting {
        rules,
        all_sessions: true,
        debug: false,
        kept,
        book: Some(Arc::new(Mutex::new(book))),
        terminal: terminal(dir.path()),
        agent: watch::channel(Some(agent)).1,
        notifier: Notifier::new(Route::all(&routes, Path::new("/")), ways),
        spots: Spots::default(),
        servers: vec![origin_of("work")],
        afar: Answers::new(
            PermissionSettings::default(),
            &AnswersLeft::default(),
            afar,
            (clock.clone(), dir.path().to_owned()),
        ),
        clock,
        shutdown: shutdown.clone(),
    };
    let task = tokio::spawn(Attendant::new(setting, ears.clone(), heard).run());
    Room { dir, ears, inbox, shutdown, task }
}

impl Room {
    fn hook(&self, session: &str, own: bool, fact: Fact) {
        self.ears.tell(Heard::Hook { session: SessionId::new(session), own, fact });
    }

    async fn standing(&self) -> Standing {
        let (answer, answered) = oneshot::channel();
        self.ears.tell(Heard::Asked(answer));
        answered.await.unwrap()
    }

    /// What a daemon that starts now would find.
    fn kept(&self) -> Kept {
        Book::open(self.dir.path()).unwrap().1
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

fn prompted() -> Fact {
    Fact::Prompted { task: Some("go on".to_owned()), by_human: true }
}

fn key(session: &str, kind: Kind) -> Key {
    Key { source: Source::Claude, session: SessionId::new(session), kind, subject: "x".to_owned() }
}

fn letter(key: Key, title: &str, ts: i64) -> Letter {
    let (kind, session) = (key.kind.word().to_owned(), key.session.to_string());
    let notice = Notice { kind, session, title: title.to_owned(), body: String::new(), ts, code: None };
    Letter { key: Some(key), notice, routes: vec!["desk".to_owned()] }
}

/// What an earlier daemon kept.
fn kept(page: &Page) -> TempDir {
    let dir = TempDir::new().unwrap();
    Book::open(dir.path()).unwrap().0.write(page).unwrap();
    dir
}

#[tokio::test]
async fn what_was_answered_is_not_told_by_the_next_route() {
    let dir = TempDir::new().unwrap();
    let [tried, desk] = ["tried", "desk"].map(|name| dir.path().join(name));
    let routes = [
        ("phone", command(&format!("echo >> {}; exit 1", tried.display()))),
        ("desk", command(&format!("cat >> {}", desk.display()))),
    ];
    let room = room(dir, &routes, rules(&["phone", "desk"]));
    room.hook("s1", false, stopped());
    until("the first route was tried", async || lines(&tried) > 0).await;
    room.hook("s1", false, prompted());
    until("the letter is crossed out", async || room.kept().letters.is_empty()).await;
    let _dir = room.end().await;
    assert_eq!(lines(&desk), 0);
}

#[tokio::test]
async fn letters_of_what_is_over_or_old_are_not_told_after_a_restart() {
    let now = unix_ms().0 / 1000;
    let guest = Key { source: Source::Ccmux, ..key("tcp", Kind::Message) };
    let letters = vec![
        letter(key("s1", Kind::Permission), "answered", now),
        letter(key("s1", Kind::Failure), "old", now - 90_000),
        letter(guest, "message", now),
        letter(key("s1", Kind::Failure), "failure", now),
    ];
    let dir = kept(&Page { letters, ..Page::default() });
    let desk = dir.path().join("desk");
    let room = room(dir, &[("desk", command(&format!("cat >> {}", desk.display())))], rules(&["desk"]));
    until("nothing is on its way", async || room.kept().letters.is_empty()).await;
    let _dir = room.end().await;
    let told = std::fs::read_to_string(&desk).unwrap();
    let is_told = |title: &str| told.contains(&format!("\"title\":\"{title}\""));
    assert_eq!(["answered", "old", "message", "failure"].map(is_told), [false, false, true, true], "{told}");
}

#[tokio::test]
async fn a_dialog_that_was_answered_without_a_daemon_waits_no_more() {
    let now = unix_ms();
    let row = |kind| {
        let row = Row { key: key("own", kind), began: now, base: now, step: 1, due: None, held: false };
        (row, Text::about(kind, "Bash"))
    };
    let keep = vec![row(Kind::Permission), row(Kind::Reply)];
    let room = room(kept(&Page { keep, ..Page::default() }), &[], rules(&[]));
    room.ears.tell(Heard::File(FileState::Waiting("permission prompt".to_owned())));
    assert_eq!(room.standing().await.items.len(), 2);
    room.ears.tell(Heard::File(FileState::Absent));
    room.ears.tell(Heard::File(FileState::Busy));
    until("the dialog is over", async || room.standing().await.items.len() == 1).await;
    assert_eq!(room.standing().await.items[0].kind, "reply");
    room.end().await;
}

#[tokio::test]
async fn what_a_server_asked_that_is_followed_no_more_waits_no_more() {
    let now = unix_ms();
    let ask = |session: &str, server: &str| {
        let key = Key { source: Source::Opencode, ..key(session, Kind::Permission) };
        let by = Teller::of(origin_of(server), &SessionId::new(session));
        let text = Text::Told { by, text: Box::new(Text::about(Kind::Permission, "bash")) };
        (Row { key, began: now, base: now, step: 1, due: None, held: false }, text)
    };
    let keep = vec![ask("s1", "gone"), ask("s2", "work")];
    let room = room(kept(&Page { keep, ..Page::default() }), &[], rules(&[]));
    let waiting = async || {
        let items = room.standing().await.items.into_iter();
        items.map(|item| item.session).collect::<Vec<_>>()
    };
    until("the ask to be over", async || waiting().await == ["s2"]).await;
    room.end().await;
}

#[tokio::test]
async fn a_turn_that_ended_without_a_daemon_is_reminded_of_once() {
    let turn = Turn { task: "t".to_owned(), started: unix_ms(), count: 1, spot: None };
    let page = Page { turns: vec![(SessionId::new("own"), Some(turn))], ..Page::default() };
    let published = || Heard::Published(SessionId::new("own"));
    let waits = async |told: Vec<Heard>| {
        let room = room(kept(&page), &[], rules(&[]));
        told.into_iter().for_each(|heard| room.ears.tell(heard));
        let items = room.standing().await.items.len();
        room.end().await;
        items
    };
    let idle = || Heard::File(FileState::Idle);
    assert_eq!(waits(vec![idle(), published(), published()]).await, 1);
    assert_eq!(waits(vec![published(), idle()]).await, 1, "whichever comes first");
    assert_eq!(waits(vec![Heard::File(FileState::Busy), published(), idle()]).await, 0, "a hook will tell");
    assert_eq!(waits(vec![Heard::AgentGone(None), published(), idle()]).await, 0, "it did not end by itself");
    let hook = Heard::Hook { session: SessionId::new("own"), own: true, fact: prompted() };
    assert_eq!(waits(vec![idle(), hook, published()]).await, 0, "hooks come again");
}
