//! Looks that settle, at a terminal whose picture changes by a timetable. The clock is tokio's own, which stands until
//! everybody waits.

use std::sync::Mutex;

use ccmux_policy::UnixMs;
use tempfile::TempDir;

use super::*;
use crate::inbox::{InboxSettings, Size, Texts};
use crate::terminal::{LaunchCommand, Pane, PaneNews};
use crate::workers::on_the_way::TextOnTheWay;

const TEXT: &str = "[12:00 a] hello";
const BATCH: BatchId = BatchId(1);
const PID: i32 = -1;

/// When the agent draws, and what stands in its box then, from the begin of the test in ms.
struct Timetable {
    begun: Instant,
    draws: Vec<(u64, &'static str)>,
    captures: Mutex<Vec<u64>>,
    is_watched: bool,
    /// What was pasted, and when.
    pastes: Mutex<Vec<(u64, String)>>,
    activity: Option<Activity>,
}

impl Timetable {
    fn at(&self, ms: u64) -> Instant {
        self.begun + Duration::from_millis(ms)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap()
    }

    fn drawn(&self) -> Option<&(u64, &'static str)> {
        self.draws.iter().rfind(|(ms, _)| self.at(*ms) <= Instant::now())
    }
}

impl Terminal for Timetable {
    async fn find(&self) -> Result<Option<Pane>, TerminalError> {
        unreachable!("a look does not search")
    }
    async fn respawn(&self, _: LaunchCommand) -> Result<Pane, TerminalError> {
        unreachable!("a look starts nothing")
    }
    async fn capture(&self) -> Result<Capture, TerminalError> {
        self.captures.lock().unwrap().push(self.now_ms());
        let rule = "─".repeat(80);
        let shown = self.drawn().map_or("", |(_, shown)| shown);
        let pane = Pane {
            id: "%0".to_owned(),
            pid: PID,
            dead: None,
            in_mode: false,
            width: 80,
            height: 24,
            cursor: (2, 1),
            title: String::new(),
        };
        Ok(Capture {
            pane,
            text: format!("{rule}\n❯\u{a0}{shown}\n{rule}\n  ? for shortcuts"),
            activity: self.activity.clone(),
            active_at: None,
            silent_since: self.drawn().map(|(ms, _)| self.at(*ms)),
        })
    }
    async fn inject(&self, _: Guard, pieces: Vec<String>) -> Result<Typed, TerminalError> {
        self.pastes.lock().unwrap().push((self.now_ms(), pieces.join("|")));
        Ok(Typed::Done)
    }
    async fn press_enter(&self, _: Guard) -> Result<Typed, TerminalError> {
        unreachable!("a look presses nothing")
    }
    async fn take_out(&self, _: Guard, _: Vec<usize>) -> Result<Typed, TerminalError> {
        unreachable!("a look presses nothing")
    }
    async fn stash_draft(&self, _: Guard) -> Result<Typed, TerminalError> {
        unreachable!("a look presses nothing")
    }
    async fn press_escape(&self, _: Guard) -> Result<Typed, TerminalError> {
        unreachable!("a look presses nothing")
    }
    async fn clear_row(&self, _: Guard) -> Result<Typed, TerminalError> {
        unreachable!("a look presses nothing")
    }
    async fn last_typed(&self) -> Result<Option<UnixMs>, TerminalError> {
        Ok(None)
    }
    async fn wrote_after(&self, moment: Instant) {
        match self.draws.iter().map(|(ms, _)| self.at(*ms)).find(|at| *at > moment) {
            Some(at) if self.is_watched => sleep_until(at).await,
            _ => std::future::pending().await,
        }
    }
    async fn watch_output(&self, _: mpsc::Sender<PaneNews>) {}
}

/// A typist that has pasted the batch at 0.
struct Room {
    typist: Typist<Timetable>,
    _dir: TempDir,
}

impl Room {
    fn new(draws: &[(u64, &'static str)], is_watched: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let texts = Texts {
            normalise: Arc::new(|_, text| text.to_owned()),
            measure: Arc::new(|_, content| Size { bytes: content.len() as u64, rows: 1 }),
        };
        let (events, _) = mpsc::channel(16);
        let inbox =
            Inbox::open(&dir.path().join("inbox.db"), InboxSettings::default(), texts, events.clone());
        let begun = Instant::now();
        let (draws, captures) = (draws.to_vec(), Mutex::default());
        let typist = Typist {
            orders: mpsc::unbounded_channel().1,
            interrupts: mpsc::channel(1).1,
            events,
            terminal: Arc::new(Timetable {
                begun,
                draws,
                captures,
                is_watched,
                pastes: Mutex::default(),
                activity: Some(Activity::new("1").unwrap()),
            }),
            rules: RuleBook::open("claude-code", None).unwrap(),
            on_the_way: OnTheWay::default(),
            agent: watch::channel(None).1,
            put_away: PutAway::default(),
            not_understood: NotUnderstood::default(),
            inbox: inbox.unwrap().inbox,
            looked: None,
            pasted: Some(Pasted { batch: BATCH, at: begun, activity: None }),
        };
        Self { typist, _dir: dir }
    }

    /// What the box held in the end, when the looks were, and when it was over.
    async fn settle(&self) -> (String, Vec<u64>) {
        let (_, screen) = self.typist.look_at(Some(BATCH)).await.unwrap();
        let captures = self.typist.terminal.captures.lock().unwrap().clone();
        (screen.prompt_box.unwrap().rows.join("\n"), captures)
    }
}

#[tokio::test(start_paused = true)]
async fn the_pause_begins_with_what_the_agent_draws_and_nothing_is_looked_at_before() {
    let room = Room::new(&[(11, TEXT)], true);
    assert_eq!(room.settle().await, (TEXT.to_owned(), vec![11, 111]));
}

#[tokio::test(start_paused = true)]
async fn a_text_that_comes_in_pieces_is_settled_a_pause_after_the_last() {
    let room = Room::new(&[(11, "[12:00 a]"), (15, "[12:00 a] hel"), (90, TEXT)], true);
    assert_eq!(room.settle().await, (TEXT.to_owned(), vec![11, 31, 90, 190]));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_draws_all_the_time_is_looked_at_now_and_then_only() {
    let draws: Vec<_> = (0..200).map(|n| (11 + 5 * n, TEXT)).collect();
    let (text, captures) = Room::new(&draws, true).settle().await;
    assert_eq!((text.as_str(), captures.last()), (TEXT, Some(&111)));
    assert!(captures.len() <= 6, "{captures:?}");
}

#[tokio::test(start_paused = true)]
async fn a_box_that_was_another_one_in_between_has_not_settled() {
    let room = Room::new(&[(11, TEXT), (60, "something else"), (95, TEXT)], true);
    assert_eq!(room.settle().await, (TEXT.to_owned(), vec![11, 60, 95, 195]));
}

#[tokio::test(start_paused = true)]
async fn without_a_watch_two_looks_with_the_pause_between_them_must_agree() {
    let room = Room::new(&[(150, TEXT)], false);
    assert_eq!(room.settle().await, (TEXT.to_owned(), vec![100, 200, 300]));
}

#[tokio::test(start_paused = true)]
async fn a_box_that_never_rests_is_reported_as_it_is() {
    let draws: Vec<_> = (0..400).map(|n| (20 * n, if n % 2 == 0 { "a" } else { "b" })).collect();
    let (_, captures) = Room::new(&draws, true).settle().await;
    let over = *captures.last().unwrap();
    assert!((5_000..5_200).contains(&over), "{over}");
}

/// `letters` times the letter; the first 780 of a long text are its first piece.
fn letters(letters: usize) -> String {
    "a".repeat(letters)
}

/// A batch of 1000 letters for an agent of a version.
fn with_long_text(draws: &[(u64, &'static str)], version: Option<&str>) -> Room {
    let mut room = Room::new(draws, true);
    room.typist.on_the_way.add(TextOnTheWay { batch: BATCH, text: letters(1000).into(), pid: PID });
    let version = version.map(str::to_owned);
    room.typist.agent = watch::channel(Some(AgentNow { pid: PID, session: None, version })).1;
    room
}

/// `letters` as the box of 76 columns shows them.
fn drawn(count: usize) -> &'static str {
    let text = letters(count);
    let rows: Vec<_> = text.as_bytes().chunks(76).map(|row| std::str::from_utf8(row).unwrap()).collect();
    rows.join("\n  ").leak()
}

async fn pasted(mut room: Room) -> (Event, Vec<(u64, usize)>) {
    let event = room.typist.paste(BATCH).await;
    let pastes = room.typist.terminal.pastes.lock().unwrap();
    (event, pastes.iter().map(|(ms, text)| (*ms, text.len())).collect())
}

/// Field fault 75.
#[tokio::test(start_paused = true)]
async fn an_old_agent_gets_a_piece_when_the_last_one_is_drawn() {
    for version in [None, Some("2.0.76"), Some("2.1.128")] {
        let room = with_long_text(&[(0, ""), (300, drawn(780))], version);
        assert_eq!(pasted(room).await, (Event::Pasted { batch: BATCH }, vec![(0, 780), (550, 220)]));
    }
}

/// Field fault 75.
#[tokio::test(start_paused = true)]
async fn nothing_is_pasted_after_a_piece_that_is_not_in_the_box_alone() {
    for shown in [drawn(700), drawn(781), ""] {
        let (event, pastes) = pasted(with_long_text(&[(0, ""), (40, shown)], Some("2.0.76"))).await;
        assert!(matches!(event, Event::PasteDoubtful { .. }), "{event:?}");
        assert_eq!(pastes, [(0, 780)]);
    }
}

/// Field fault 75.
#[tokio::test(start_paused = true)]
async fn a_new_agent_gets_all_pieces_at_once() {
    let (event, pastes) = pasted(with_long_text(&[(0, "")], Some("2.1.332"))).await;
    assert_eq!((event, pastes), (Event::Pasted { batch: BATCH }, vec![(0, 780 + 1 + 220)]));
}
