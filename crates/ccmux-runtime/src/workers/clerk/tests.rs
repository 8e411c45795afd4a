//! Clerk and publisher over real databases that another program locks.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ccmux_policy::Attempt;
use ccmux_policy::event::Found;
use ccmux_wire::receipt::{MessageState, Proof};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::inbox::{BatchState, InboxSettings, NewMessage, Size, Texts};
use crate::outlet::{OutletSettings, Outlets};
use crate::turns::TurnsSettings;
use crate::workers::herald::Alerts;
use crate::workers::on_the_way::{NotUnderstood, PutAway};
use crate::workers::speaker::Speaker;
use crate::workers::witness::Witness;

const LIMIT: Duration = Duration::from_secs(30);

struct Desk {
    dir: TempDir,
    inbox: Inbox,
    turns: Turns,
    on_the_way: OnTheWay,
    orders: mpsc::UnboundedSender<Effect>,
    witness: mpsc::UnboundedSender<Effect>,
    speaker: mpsc::UnboundedSender<Effect>,
    typed: mpsc::UnboundedReceiver<Effect>,
    events: mpsc::Receiver<Event>,
    tasks: Vec<JoinHandle<()>>,
    _agent: watch::Sender<Option<AgentNow>>,
}

fn inbox(dir: &TempDir, events: mpsc::Sender<Event>) -> Inbox {
    let texts = Texts {
        normalise: Arc::new(|_, text| text.to_owned()),
        measure: Arc::new(|_, content| Size { bytes: content.len() as u64, rows: 1 }),
    };
    let settings = InboxSettings { busy_limit: Duration::from_millis(20), ..InboxSettings::default() };
    Inbox::open(&dir.path().join("inbox.db"), settings, texts, events).unwrap().inbox
}

fn desk() -> Desk {
    let dir = TempDir::new().unwrap();
    let (accepted, _) = mpsc::channel(16);
    let inbox = inbox(&dir, accepted);
    let settings = TurnsSettings { projects_dir: dir.path().to_owned(), subscriber_bytes: 1 << 20 };
    let turns = Turns::open(dir.path(), settings).unwrap().turns;
    let (event_sender, events) = mpsc::channel(16);
    let (typist, typed) = mpsc::unbounded_channel();
    let (orders, clerk_orders) = mpsc::unbounded_channel();
    let (witness, witness_orders) = mpsc::unbounded_channel();
    let (speaker, speaker_orders) = mpsc::unbounded_channel();
    let (agent_sender, agent) = watch::channel(Some(AgentNow { pid: 7, session: None, version: None }));
    let on_the_way = OnTheWay::default();
    let clerk = Clerk {
        orders: clerk_orders,
        events: event_sender.clone(),
        typist,
        inbox: inbox.clone(),
        turns: turns.clone(),
        on_the_way: on_the_way.clone(),
        agent,
        clock: Clock::default(),
    };
    let finder = Witness {
        orders: witness_orders,
        events: event_sender.clone(),
        inbox: inbox.clone(),
        turns: turns.clone(),
        sessions: Default::default(),
        agent: watch::channel(None).1,
        on_the_way: on_the_way.clone(),
    };
    let talker = Speaker {
        orders: speaker_orders,
        events: event_sender,
        turns: turns.clone(),
        inbox: inbox.clone(),
        alerts: Alerts::new().0,
        put_away: PutAway::default(),
        not_understood: NotUnderstood::default(),
        outlets: Outlets::new(
            dir.path().to_owned(),
            OutletSettings { wait: Duration::ZERO, linger: Duration::ZERO, finish: Duration::ZERO },
            watch::channel(Vec::new()).1,
            CancellationToken::new(),
        ),
        earlier: Vec::new(),
    };
    let tasks = vec![tokio::spawn(clerk.run()), tokio::spawn(finder.run()), tokio::spawn(talker.run())];
    Desk {
        dir,
        inbox,
        turns,
        on_the_way,
        orders,
        witness,
        speaker,
        typed,
        events,
        tasks,
        _agent: agent_sender,
    }
}

/// What `sqlite3` with an open `BEGIN IMMEDIATE` is to us, until it is dropped.
fn lock(desk: &Desk, name: &str) -> Connection {
    let other = Connection::open(desk.dir.path().join(name)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

impl Desk {
    async fn accept(&self) -> MessageId {
        let new = NewMessage {
            channel: "x".parse().unwrap(),
            shown: "x".into(),
            content: "hi".into(),
            id: None,
            meta: None,
            ts_ms: 7,
        };
        self.inbox.accept(new).await.unwrap().message
    }

    fn inject(&self, batch: u64, message: MessageId) {
        self.order(Effect::Inject { batch: BatchId(batch), messages: vec![message] });
    }

    fn order(&self, effect: Effect) {
        self.orders.send(effect).unwrap();
    }

    async fn event(&mut self) -> Event {
        timeout(LIMIT, self.events.recv()).await.unwrap().unwrap()
    }

    async fn typed(&mut self) -> BatchId {
        match timeout(LIMIT, self.typed.recv()).await.unwrap() {
            Some(Effect::Inject { batch, .. }) => batch,
            other => panic!("{other:?}"),
        }
    }

    /// An order was refused by the lock, for sure: this one was ordered after it.
    async fn refused_by_the_lock(&self) {
        for _ in 0..3 {
            assert!(self.inbox.batch(BatchId(1)).await.unwrap_err().is_storage());
        }
    }
}

fn requeued(batch: u64, attempt: Attempt) -> Effect {
    Effect::RecordRequeued { batch: BatchId(batch), attempt }
}

fn delivered(batch: u64) -> Effect {
    Effect::RecordDelivered { batch: BatchId(batch), proof: Proof::Hook, prompt: None }
}

#[tokio::test]
async fn records_wait_for_the_lock_and_delivery_goes_on_in_order() {
    let mut desk = desk();
    let id = desk.accept().await;
    desk.inject(1, id);
    assert_eq!(desk.typed().await, BatchId(1));
    let locked = lock(&desk, "inbox.db");
    desk.order(requeued(1, Attempt::Failed));
    desk.inject(2, id);
    desk.refused_by_the_lock().await;
    drop(locked);
    assert_eq!(desk.typed().await, BatchId(2));
    desk.order(delivered(2));
    let receipt = timeout(LIMIT, desk.inbox.wait_for(id, MessageState::Delivered)).await.unwrap().unwrap();
    assert_eq!(receipt.state, MessageState::Delivered);
    let state = async |batch| desk.inbox.batch(BatchId(batch)).await.unwrap().unwrap().state;
    assert_eq!((state(1).await, state(2).await), (BatchState::Requeued, BatchState::Delivered));
}

#[tokio::test]
async fn a_batch_that_the_lock_kept_from_being_recorded_is_refused_and_tried_anew() {
    let mut desk = desk();
    let id = desk.accept().await;
    let locked = lock(&desk, "inbox.db");
    desk.inject(1, id);
    assert!(matches!(desk.event().await, Event::PasteRefused { batch: BatchId(1), .. }));
    desk.order(requeued(1, Attempt::Untyped));
    desk.inject(2, id);
    desk.refused_by_the_lock().await;
    drop(locked);
    assert_eq!(desk.typed().await, BatchId(2));
    assert_eq!(desk.inbox.batch(BatchId(1)).await.unwrap(), None);
}

#[tokio::test]
async fn a_batch_that_was_recorded_though_an_error_was_told_is_taken_back() {
    let mut desk = desk();
    let id = desk.accept().await;
    desk.inbox.begin_batch(BatchId(1), vec![id], "hi".into(), Mark::default(), UnixMs(1)).await.unwrap();
    desk.order(requeued(1, Attempt::Untyped));
    desk.inject(2, id);
    assert_eq!(desk.typed().await, BatchId(2));
}

#[tokio::test]
async fn the_witness_waits_for_the_lock() {
    let mut desk = desk();
    let id = desk.accept().await;
    let path = desk.dir.path().join("s.jsonl");
    std::fs::write(&path, "").unwrap();
    let mark = Mark { transcript_path: Some(path), offset: 0, agent_pid: Some(7) };
    desk.inbox.begin_batch(BatchId(1), vec![id], "hi".into(), mark, UnixMs(1)).await.unwrap();
    desk.on_the_way.add(TextOnTheWay { batch: BatchId(1), text: "hi".into(), pid: 7 });
    let locked = lock(&desk, "inbox.db");
    desk.witness.send(Effect::FindInTranscript { batch: BatchId(1) }).unwrap();
    desk.refused_by_the_lock().await;
    drop(locked);
    let found = Found::Absent;
    assert_eq!(
        desk.event().await,
        Event::TranscriptSearched { batch: BatchId(1), found, prompt: None, session: None }
    );
}

fn transcript(desk: &Desk) -> PathBuf {
    let path = desk.dir.path().join("s.jsonl");
    let user = r#"{"type":"user","promptId":"p","uuid":"p","message":{"content":"hi"}}"#;
    std::fs::write(&path, format!("{user}\n")).unwrap();
    path
}

#[tokio::test]
async fn a_turn_and_its_answer_wait_for_both_databases_and_for_the_delivery() {
    let mut desk = desk();
    let id = desk.accept().await;
    desk.inject(1, id);
    desk.typed().await;
    let session = ccmux_wire::id::SessionId::new("s");
    let prompt = ccmux_wire::id::PromptId::new("p");
    desk.turns.note_stop(&session, Some(&prompt), Some("hello"), Some(&transcript(&desk)));
    let locked = (lock(&desk, "inbox.db"), lock(&desk, "turns.db"));
    desk.speaker
        .send(Effect::PublishTurn {
            session,
            prompt: Some(prompt),
            in_reply_to: vec![id],
            answers: vec![id],
            interrupted: false,
        })
        .unwrap();
    desk.refused_by_the_lock().await;
    drop(locked);
    // The answer comes to the database before its delivery.
    let early = async { while desk.turns.answer_text(ccmux_wire::id::Seq(1)).await.unwrap().is_none() {} };
    timeout(LIMIT, early).await.unwrap();
    desk.order(delivered(1));
    assert!(matches!(desk.event().await, Event::TurnPublished { .. }));
    assert_eq!(desk.inbox.receipt(id).await.unwrap().state, MessageState::Answered);
}

#[tokio::test]
async fn a_locked_database_does_not_hold_up_the_end() {
    let mut desk = desk();
    let id = desk.accept().await;
    desk.inject(1, id);
    desk.typed().await;
    let _locked = lock(&desk, "inbox.db");
    desk.order(requeued(1, Attempt::Failed));
    desk.order(delivered(1));
    desk.witness.send(Effect::FindInTranscript { batch: BatchId(1) }).unwrap();
    desk.refused_by_the_lock().await;
    let begin = Instant::now();
    drop((desk.events, desk.orders, desk.witness, desk.speaker));
    for task in desk.tasks {
        timeout(LIMIT, task).await.unwrap().unwrap();
    }
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
}
