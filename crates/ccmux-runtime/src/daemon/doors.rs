//! What people and programs meet: the desk of `control.sock`, HTTP, Claude's tools, the metrics page, whoever tells that
//! somebody waits.
//!
//! Doesn't know what goes on between an event and its effects.

use std::sync::{Arc, Mutex};

use ccmux_policy::PolicyStatus;
use ccmux_wire::status::{ChannelStatus, TmuxStatus};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::DaemonError;
use super::house::House;
use crate::afar::{Answers, By, Keeper, NotAnswered};
use crate::attention::attendant::Setting as AttendantSetting;
use crate::attention::book::{Book, Kept};
use crate::attention::opencode::stream::{Stream, origin_of};
use crate::attention::{Attendant, Ears, Heard};
use crate::containers::ContainerDesk;
use crate::control::Desk;
use crate::control::attention::{AttentionDesk, MAX_OPENCODES};
use crate::control::doubles::Doubles;
use crate::control::gone::{Gone, end_what_went};
use crate::control::hooks::HookFront;
use crate::control::interrupt::InterruptDesk;
use crate::control::notes::{NotesDesk, Said};
use crate::control::requests::Answers as ClientAnswers;
use crate::intake::ChannelBoard;
use crate::mcp::server::AGAIN;
use crate::mcp::{McpServer, Tools};
use crate::metrics::{Follower, Page};
use crate::notify::desktop::focus::Focus;
use crate::notify::desktop::mac::MacTools;
use crate::notify::{Notifier, Route, Ways};
use crate::outlet::Outlets;
use crate::recorder::Recorder;
use crate::spots::Spots;
use crate::tmux::Tmux;
use crate::workers::on_the_way::OnTheWay;
use crate::workers::starter::AgentNow;

/// So long before the daemon began a button may have been pressed, by the clock of its server.
const REPLIES_SINCE_S: i64 = 60;

/// Counts what the inbox commits from now on.
pub(super) fn start_metrics(
    house: &House,
    tasks: &TaskTracker,
    desk: Arc<Desk<Tmux>>,
    shutdown: &CancellationToken,
) -> Page {
    let (metrics, receipts) = (house.metrics.clone(), house.inbox.inbox.subscribe());
    tasks.spawn(Follower { metrics, receipts, shutdown: shutdown.clone() }.run());
    let started_s = house.clock.now().wall.0 / 1000;
    Page::new(house.metrics.clone(), started_s, move || desk.answers.status_now())
}

pub(super) fn outlets(
    house: &House,
    channels: watch::Receiver<Vec<ChannelStatus>>,
    shutdown: &CancellationToken,
) -> Outlets {
    let settings = &house.setting.settings;
    let dir = house.runtime_dir.path().to_owned();
    Outlets::with_policies(dir, settings.outlets(), settings.outlet_policies(), channels, shutdown.clone())
}

/// Answers from afar, before anything asks.
///
/// # Errors
/// If the inbox can't be asked what an earlier daemon left.
pub(super) async fn start_afar(
    house: &House,
    tasks: &TaskTracker,
    (outlets, ears): (Outlets, Ears),
    shutdown: &CancellationToken,
) -> Result<Answers, DaemonError> {
    let inbox = house.inbox.inbox.clone();
    let left = inbox.answers_left().await?;
    let settings = house.setting.settings.permission.clone();
    let around = (house.clock.clone(), house.turns.turns.projects_dir().to_owned());
    let answers = Answers::new(settings, &left, (inbox, outlets, ears), around);
    let keeper = Keeper::new(answers.clone(), left, house.events.clone(), shutdown.clone()).await?;
    tasks.spawn(keeper.run());
    Ok(answers)
}

/// Without its database nothing outlives a restart; people are told all the same.
pub(super) fn start_attendant(
    house: &House,
    tasks: &TaskTracker,
    agent: watch::Receiver<Option<AgentNow>>,
    (outlets, afar): (Outlets, Answers),
    (ears, heard): (Ears, mpsc::Receiver<Heard>),
    shutdown: &CancellationToken,
) -> AttentionDesk {
    let settings = &house.setting.settings;
    let routes = Route::all(&settings.routes, &house.setting.home);
    let spots = Spots::default();
    let mac = MacTools::here();
    let focus = Focus { own: Some(Arc::clone(&house.terminal)), spots: spots.clone(), mac };
    let notifier = Notifier::new(routes, Ways { outlets, inbox: house.inbox.inbox.clone(), focus });
    start_replies(house, tasks, &notifier, afar.clone(), shutdown);
    let (book, kept) = match Book::open(house.state_dir.path()) {
        Ok((book, kept)) => (Some(Arc::new(Mutex::new(book))), kept),
        Err(error) => {
            tracing::error!(event = "attention.not_kept", %error);
            (None, Kept::default())
        }
    };
    end_what_went(&kept, &ears);
    let setting = AttendantSetting {
        rules: settings.attention.rules(),
        all_sessions: settings.attention.sessions == "all",
        debug: settings.attention.debug,
        kept,
        book,
        terminal: Arc::clone(&house.terminal),
        agent,
        notifier: notifier.clone(),
        spots: spots.clone(),
        servers: house.setting.settings.opencode.keys().map(|name| origin_of(name)).collect(),
        afar,
        clock: house.clock.clone(),
        shutdown: shutdown.clone(),
    };
    let attendant = Attendant::new(setting, ears.clone(), heard);
    let changed = attendant.changes();
    tasks.spawn(attendant.run());
    follow_servers(house, tasks, &ears, shutdown);
    AttentionDesk { ears, changed, notifier, spots, opencodes: Arc::new(Semaphore::new(MAX_OPENCODES)) }
}

/// The second source of OpenCode's events.
fn follow_servers(house: &House, tasks: &TaskTracker, ears: &Ears, shutdown: &CancellationToken) {
    for (name, server) in &house.setting.settings.opencode {
        let stream = Stream {
            name: name.clone(),
            origin: origin_of(name),
            server: server.clone(),
            home: house.setting.home.clone(),
            ears: ears.clone(),
            shutdown: shutdown.clone(),
        };
        tasks.spawn(stream.run());
    }
}

/// What buttons of notices answer, where a route has such.
fn start_replies(
    house: &House,
    tasks: &TaskTracker,
    notifier: &Notifier,
    afar: Answers,
    shutdown: &CancellationToken,
) {
    // The server's clock may be behind; codes of an earlier daemon are closed.
    let since_s = house.clock.now().wall.0 / 1000 - REPLIES_SINCE_S;
    let Some(replies) = notifier.follow_replies(since_s, shutdown) else { return };
    tasks.spawn(replies.run(move |text| {
        let afar = afar.clone();
        async move {
            let unknown = || NotAnswered::Unknown("in it".to_owned());
            afar.answer_line(&text, By::Trusted).await.unwrap_or_else(|| Err(unknown()))
        }
    }));
}

/// The port is bound already: who connects before this waits a moment.
pub(super) fn start_mcp(
    house: &mut House,
    tasks: &TaskTracker,
    tools: Tools,
    metrics: Page,
    shutdown: &CancellationToken,
) {
    let Some(bound) = house.mcp_bound.take() else { return };
    let server = McpServer {
        door: house.mcp.0.clone(),
        bound,
        tools,
        alerts: house.alerts.clone(),
        broadcast: house.turns.turns.broadcast().clone(),
        metrics,
        again: AGAIN,
        shutdown: shutdown.clone(),
    };
    tasks.spawn(server.run());
}

/// What is believed at each moment.
pub(super) struct Views {
    pub policy: watch::Receiver<PolicyStatus>,
    pub agent: watch::Receiver<Option<AgentNow>>,
    pub board: ChannelBoard,
    pub recorder: Recorder,
}

/// What the desk needs to answer people about people.
pub(super) struct People {
    pub attention: AttentionDesk,
    pub afar: Answers,
    pub interrupt: InterruptDesk,
    pub containers: ContainerDesk,
}

/// Who answers on `control.sock`.
pub(super) fn desk(
    house: &House,
    views: Views,
    on_the_way: OnTheWay,
    tools: Tools,
    people: People,
) -> Arc<Desk<Tmux>> {
    let People { attention, afar, interrupt, containers } = people;
    let Views { policy, agent, board, recorder } = views;
    let (inbox, turns) = (house.inbox.inbox.clone(), house.turns.turns.clone());
    let notes = NotesDesk {
        ears: attention.ears.clone(),
        inbox: inbox.clone(),
        policy: policy.clone(),
        own_name: house.plan.environment.get("CCMUX_AGENT_ID").cloned(),
        said: Said::default(),
        gone: Gone::default(),
    };
    Arc::new(Desk {
        answers: ClientAnswers {
            inbox,
            turns: turns.clone(),
            terminal: Arc::clone(&house.terminal),
            policy,
            agent,
            channels: board,
            recorder,
            mcp: house.mcp.0.clone(),
            tmux: TmuxStatus {
                socket: Some(house.setting.settings.tmux_socket.clone()).filter(|name| !name.is_empty()),
                session: house.setting.settings.tmux_session.clone(),
            },
            events: house.events.clone(),
            metrics: house.metrics.clone(),
        },
        metrics: house.metrics.clone(),
        hooks: HookFront { turns, on_the_way, doubles: Doubles::default() },
        attention,
        afar,
        interrupt,
        notes,
        containers,
        enforce_questions: house.setting.settings.enforce_questions,
        reloader: house.reloader(),
        tools,
        events: house.events.clone(),
        token: house.token.clone(),
    })
}
