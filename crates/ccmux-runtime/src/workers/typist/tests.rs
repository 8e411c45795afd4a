//! Looks that settle, at a terminal whose picture changes by a timetable. The clock is tokio's own, which stands until
//! everybody waits.

use std::sync::Mutex;

use ccmux_policy::UnixMs;
use tempfile::TempDir;

use super::*;
use crate::inbox::{InboxSettings, Size, Texts};
use crate::terminal::{LaunchCommand, Pane, PaneNews};

const TEXT: &str = "[12:00 a] hello";
const BATCH: BatchId = BatchId(1);

/// When the agent draws, and what stands in its box then, from the begin of the test in ms.
struct Timetable {
    begun: Instant,
    draws: Vec<(u64, &'static str)>,
    captures: Mutex<Vec<u64>>,
    is_watched: bool,
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
            pid: -1,
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
            activity: None,
            active_at: None,
            silent_since: self.drawn().map(|(ms, _)| self.at(*ms)),
        })
    }
    async fn inject(&self, _: Guard, _: Vec<String>) -> Result<Typed, TerminalError> {
        unreachable!("a look types nothing")
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
            terminal: Arc::new(Timetable { begun, draws, captures, is_watched }),
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
