//! Starts the tasks and gives each its world.

use std::sync::Arc;

use ccmux_policy::{AlertKind, Effect, Event, PolicyStatus, Supervisor};
use ccmux_wire::id::BatchId;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::DaemonError;
use super::channel_news::ChannelNews;
use super::doors::{People, Views, desk, outlets, start_afar, start_attendant, start_mcp, start_metrics};
use super::guests::{start_host, start_senders};
use super::house::House;
use super::sink::InboxSink;
use super::sockets::start_sockets;
use crate::afar::Answers;
use crate::agent::record::AgentRecord;
use crate::agent::state_file::Watches;
use crate::agent::version_ahead::VersionAhead;
use crate::attention::Ears;
use crate::containers::ContainerDesk;
use crate::control::interrupt::{InterruptDesk, Interrupts};
use crate::control::live::{Live, Rooms};
use crate::event_loop::{EventLoop, Workers};
use crate::inbox::{Caretaker, Inbox};
use crate::intake::{FifoStore, Registry};
use crate::mcp::Tools;
use crate::outlet::Outlets;
use crate::recorder::Recorder;
use crate::systemd::{StatusTeller, Watchdog};
use crate::terminal::{PaneNews, Terminal};
use crate::tmux::Tmux;
use crate::turns::retention::Keeper;
use crate::turns::store::Keep;
use crate::workers::clerk::Clerk;
use crate::workers::herald::{Herald, News};
use crate::workers::on_the_way::{NotUnderstood, OnTheWay, PutAway, TextOnTheWay};
use crate::workers::speaker::Speaker;
use crate::workers::starter::{AgentNow, Starter};
use crate::workers::typist::Typist;
use crate::workers::witness::Witness;

/// What runs.
pub struct Running {
    /// Ends first.
    pub event_loop: JoinHandle<()>,
    /// End after it.
    pub tasks: TaskTracker,
}

/// The waiting ends of the workers' queues.
struct Orders {
    typist: mpsc::UnboundedReceiver<Effect>,
    clerk: mpsc::UnboundedReceiver<Effect>,
    witness: mpsc::UnboundedReceiver<Effect>,
    speaker: mpsc::UnboundedReceiver<Effect>,
    starter: mpsc::UnboundedReceiver<Effect>,
}

fn queues() -> (Workers, Orders) {
    let (typist, typist_orders) = mpsc::unbounded_channel();
    let (clerk, clerk_orders) = mpsc::unbounded_channel();
    let (witness, witness_orders) = mpsc::unbounded_channel();
    let (speaker, speaker_orders) = mpsc::unbounded_channel();
    let (starter, starter_orders) = mpsc::unbounded_channel();
    let orders = Orders {
        typist: typist_orders,
        clerk: clerk_orders,
        witness: witness_orders,
        speaker: speaker_orders,
        starter: starter_orders,
    };
    (Workers { typist, clerk, witness, speaker, starter }, orders)
}

/// Starts everything.
///
/// # Errors
/// If a socket can't be bound.
pub async fn start(house: &mut House, shutdown: &CancellationToken) -> Result<Running, DaemonError> {
    let tasks = TaskTracker::new();
    start_herald(house, &tasks);
    tell_damage(house);
    let on_the_way = OnTheWay::default();
    let begin = what_was_left(house, &on_the_way).await;
    let settings = house.setting.settings.policy();
    let recorder = Recorder::new(house.state_dir.path(), house.clock.now(), &settings);
    let policy = Supervisor::new(settings);
    let (status, policy_status) = watch::channel(policy.status(house.clock.now()));
    let (agent, agent_now) = watch::channel(None::<AgentNow>);
    let (workers, orders) = queues();
    let registry = registry(house, shutdown);
    let board = registry.board();
    let outlets = outlets(house, board.subscribe(), shutdown);
    // Before the first line comes in: it may be an answer.
    let (ears, heard) = Ears::new();
    let afar = start_afar(house, &tasks, (outlets.clone(), ears.clone()), shutdown).await?;
    start_intake(house, &tasks, registry, shutdown);
    let stopping = outlets.clone();
    tasks.spawn(async move { stopping.stopped().await });
    let (interrupt, interrupts) = InterruptDesk::new();
    let orders = (orders, interrupts);
    start_workers(house, &tasks, &workers, orders, agent, (&on_the_way, outlets.clone()), shutdown);
    start_caretaker(house, &tasks, shutdown);
    let tools = Tools { outlets: outlets.clone(), tells_news: false };
    house.live = Some(live(house, &tools, afar.clone(), start_keeper(house, &tasks, shutdown)));
    start_status(house, &tasks, policy_status.clone(), shutdown);
    let answered = (outlets, afar.clone());
    let hears = (ears.clone(), heard);
    let attention = start_attendant(house, &tasks, agent_now.clone(), answered, hears, shutdown);
    let views = Views { policy: policy_status, agent: agent_now, board, recorder: recorder.clone() };
    let (containers, asked) = ContainerDesk::new();
    let people = People { attention, afar: afar.clone(), interrupt, containers: containers.clone() };
    let desk = desk(house, views, on_the_way, tools.clone(), people);
    start_host(house, &tasks, (containers, asked), &desk, shutdown);
    start_senders(house, &tasks, &ears, shutdown)?;
    let page = start_metrics(house, &tasks, Arc::clone(&desk), shutdown);
    start_mcp(house, &tasks, tools, page, shutdown);
    start_sockets(house, &tasks, desk, shutdown)?;
    start_watch(house, &tasks, shutdown);
    let event_loop = EventLoop {
        policy,
        begin,
        events: house.waiting_events.take().unwrap_or_else(|| mpsc::channel(1).1),
        workers,
        status,
        ears,
        afar,
        recorder,
        metrics: house.metrics.clone(),
        clock: house.clock.clone(),
        watchdog: Watchdog::new(house.systemd.clone()),
        shutdown: shutdown.clone(),
    };
    Ok(Running { event_loop: tokio::spawn(event_loop.run()), tasks })
}

fn start_herald(house: &mut House, tasks: &TaskTracker) {
    let Some(news) = house.waiting_news.take() else { return };
    let (turns, inbox) = (house.turns.turns.clone(), house.inbox.inbox.clone());
    let metrics = house.metrics.clone();
    tasks.spawn(Herald { news, events: house.events.clone(), turns, inbox, metrics }.run());
}

/// For `systemctl status`.
fn start_status(
    house: &House,
    tasks: &TaskTracker,
    policy: watch::Receiver<PolicyStatus>,
    shutdown: &CancellationToken,
) {
    let teller = StatusTeller { systemd: house.systemd.clone(), policy, shutdown: shutdown.clone() };
    tasks.spawn(teller.run());
}

fn start_keeper(house: &House, tasks: &TaskTracker, shutdown: &CancellationToken) -> watch::Sender<Keep> {
    let (turns, (keep, kept)) = (house.turns.turns.clone(), watch::channel(house.setting.settings.keep()));
    tasks.spawn(Keeper { turns, keep: kept, shutdown: shutdown.clone() }.run());
    keep
}

/// Who hears of settings that change.
fn live(house: &House, tools: &Tools, afar: Answers, keep: watch::Sender<Keep>) -> Live {
    let rooms = Rooms {
        events: house.events.clone(),
        inbox: house.inbox.inbox.clone(),
        broadcast: house.turns.turns.broadcast().clone(),
        afar,
        outlets: tools.outlets.clone(),
        terminal: Arc::clone(&house.terminal),
        mentioning: house.mentioning.clone(),
        keep,
        log_level: house.setting.log_level.clone(),
    };
    Live::new(house.setting.settings.clone(), house.setting.sources.clone(), rooms)
}

/// Databases and logs that had to be moved aside are no secret.
fn tell_damage(house: &House) {
    let databases = [&house.inbox.damaged, &house.turns.moved_aside];
    let databases = databases.into_iter().flatten().map(|path| {
        let path = path.display();
        format!("a damaged database was moved to {path} and a new one begun")
    });
    let logs = house.logs_aside.iter().map(|path| {
        let path = path.display();
        format!(
            "the inbox is new: what had come in on FIFOs and may not have been accepted was moved to {path}"
        )
    });
    for what in databases.chain(logs) {
        house.alerts.raise(News::new(AlertKind::Damaged, what));
    }
}

/// The events that tell the policy what the last daemon left, and the texts of its batches.
async fn what_was_left(house: &mut House, on_the_way: &OnTheWay) -> Vec<Event> {
    let mut events = vec![Event::DaemonStarted { next_batch: house.inbox.next_batch }];
    let record = AgentRecord::read(house.state_dir.path());
    events.extend(record.held.map(|held| Event::HoldFound { held }));
    for (batch, messages) in std::mem::take(&mut house.inbox.in_flight) {
        remember_text(&house.inbox.inbox, batch, on_the_way).await;
        events.push(Event::BatchFound { batch, messages });
    }
    if record.session.is_some() {
        let unanswered = std::mem::take(&mut house.inbox.unanswered);
        let prompt = unanswered.iter().find_map(|(_, prompt)| prompt.clone());
        let unanswered = unanswered.into_iter().map(|(message, _)| message).collect();
        events.push(Event::DaemonReturned { unanswered, prompt });
    }
    events.extend(std::mem::take(&mut house.inbox.waiting).into_iter().map(Event::MessageAccepted));
    events
}

/// As it was pasted: composed anew it might have another time zone, and its receipt would not be known.
async fn remember_text(inbox: &Inbox, batch: BatchId, on_the_way: &OnTheWay) {
    match inbox.batch(batch).await {
        Ok(Some(row)) => {
            let pid = row.mark.agent_pid.unwrap_or(-1);
            on_the_way.add(TextOnTheWay { batch, text: row.text, pid });
        }
        Ok(None) => {}
        Err(error) => tracing::error!(event = "inbox.failed", %batch, %error),
    }
}

fn start_workers(
    house: &House,
    tasks: &TaskTracker,
    workers: &Workers,
    (orders, interrupts): (Orders, Interrupts),
    agent: watch::Sender<Option<AgentNow>>,
    (on_the_way, outlets): (&OnTheWay, Outlets),
    shutdown: &CancellationToken,
) {
    let (inbox, turns) = (house.inbox.inbox.clone(), house.turns.turns.clone());
    let (put_away, not_understood) = (PutAway::default(), NotUnderstood::default());
    let clerk = Clerk {
        orders: orders.clerk,
        events: house.events.clone(),
        typist: workers.typist.clone(),
        inbox: inbox.clone(),
        turns: turns.clone(),
        on_the_way: on_the_way.clone(),
        agent: agent.subscribe(),
        clock: house.clock.clone(),
    };
    let typist = Typist {
        orders: orders.typist,
        interrupts,
        events: house.events.clone(),
        terminal: Arc::clone(&house.terminal),
        rules: house.rules.clone(),
        on_the_way: on_the_way.clone(),
        agent: agent.subscribe(),
        put_away: put_away.clone(),
        not_understood: not_understood.clone(),
        inbox: inbox.clone(),
        looked: None,
        pasted: None,
    };
    let witness = Witness {
        orders: orders.witness,
        events: house.events.clone(),
        inbox: inbox.clone(),
        turns: turns.clone(),
        sessions: (house.plan.sessions_dir(), house.plan.cwd.clone()),
        agent: agent.subscribe(),
        on_the_way: on_the_way.clone(),
    };
    tasks.spawn(clerk.run());
    tasks.spawn(typist.run());
    tasks.spawn(witness.run());
    tasks.spawn(
        Speaker {
            orders: orders.speaker,
            events: house.events.clone(),
            turns,
            inbox,
            alerts: house.alerts.clone(),
            put_away,
            not_understood,
            outlets,
            earlier: house.inbox.unanswered_before.clone(),
        }
        .run(),
    );
    tasks.spawn(starter(house, orders.starter, agent, shutdown).run());
}

fn starter(
    house: &House,
    orders: mpsc::UnboundedReceiver<Effect>,
    agent: watch::Sender<Option<AgentNow>>,
    shutdown: &CancellationToken,
) -> Starter<Tmux> {
    Starter {
        orders,
        events: house.events.clone(),
        terminal: Arc::clone(&house.terminal),
        plan: house.plan.clone(),
        hook: house.hook.clone(),
        permission_s: house.setting.settings.permission.hook_timeout_s(),
        state_dir: house.state_dir.path().to_owned(),
        runtime_dir: house.runtime_dir.path().to_owned(),
        token: house.token.clone(),
        mcp: house.mcp.clone(),
        launcher: house.setting.binaries.ccmuxd.clone(),
        alerts: house.alerts.clone(),
        turns: house.turns.turns.clone(),
        agent,
        version: VersionAhead::default(),
        watches: Watches::default(),
        is_known: false,
        shutdown: shutdown.clone(),
    }
}

fn registry(house: &mut House, shutdown: &CancellationToken) -> Registry<InboxSink> {
    let sink = InboxSink { inbox: house.inbox.inbox.clone(), alerts: house.alerts.clone() };
    Registry::new(Arc::clone(&house.runtime_dir), Arc::new(sink), house.logs.clone(), shutdown.clone())
        .with_partials(house.inbox.partials.clone())
        .with_store(FifoStore::new(house.systemd.clone(), std::mem::take(&mut house.passed)))
}

fn start_intake(
    house: &House,
    tasks: &TaskTracker,
    registry: Registry<InboxSink>,
    shutdown: &CancellationToken,
) {
    let news = ChannelNews {
        channels: registry.board().subscribe(),
        first_look: registry.first_look(),
        alerts: house.alerts.clone(),
        shutdown: shutdown.clone(),
    };
    tasks.spawn(registry.run());
    tasks.spawn(news.run());
}

/// Looks after the inbox's file, and tells what befalls it.
fn start_caretaker(house: &mut House, tasks: &TaskTracker, shutdown: &CancellationToken) {
    let Some(notices) = house.inbox.notices.take() else { return };
    let alerts = house.alerts.clone();
    let caretaker = Caretaker { inbox: house.inbox.inbox.clone(), notices, shutdown: shutdown.clone() };
    tasks.spawn(caretaker.run(move |notice| {
        let alerts = alerts.clone();
        async move { alerts.raise(News::new(AlertKind::Damaged, notice)) }
    }));
}

fn start_watch(house: &House, tasks: &TaskTracker, shutdown: &CancellationToken) {
    let (news, mut heard) = mpsc::channel(16);
    let (terminal, watching) = (Arc::clone(&house.terminal), shutdown.clone());
    tasks.spawn(async move {
        tokio::select! {
            () = watching.cancelled() => {}
            () = terminal.watch_output(news) => {}
        }
    });
    let events = house.events.clone();
    tasks.spawn(async move {
        while let Some(news) = heard.recv().await {
            let event = match news {
                PaneNews::Active => Event::PaneActive,
                PaneNews::Silent => Event::PaneSilent,
            };
            if events.send(event).await.is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use ccmux_policy::UnixMs;

    use super::*;
    use crate::inbox::{InboxSettings, Mark, NewMessage, Texts};

    #[tokio::test]
    async fn a_batch_left_in_flight_is_remembered_as_it_was_pasted() {
        let dir = tempfile::tempdir().unwrap();
        let texts = || Texts::plain();
        let open = || {
            let path = dir.path().join("inbox.db");
            Inbox::open(&path, InboxSettings::default(), texts(), mpsc::channel(1).0).unwrap().inbox
        };
        let inbox = open();
        let channel = "x".parse().unwrap();
        let new =
            NewMessage { channel, shown: "x".into(), content: "hi".into(), id: None, meta: None, ts_ms: 7 };
        let id = inbox.accept(new).await.unwrap().message;
        let pasted: Arc<str> = "[another time zone x] hi".into();
        let mark = Mark { agent_pid: Some(7), ..Mark::default() };
        inbox.begin_batch(BatchId(1), vec![id], Arc::clone(&pasted), mark, UnixMs(1)).await.unwrap();
        inbox.close().await;
        let on_the_way = OnTheWay::default();
        remember_text(&open(), BatchId(1), &on_the_way).await;
        let known = on_the_way.get(BatchId(1));
        assert_eq!(known, Some(TextOnTheWay { batch: BatchId(1), text: pasted, pid: 7 }));
    }
}
