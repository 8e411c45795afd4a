//! What the agent is doing, from its witnesses in order of trust: hooks, state file, screen.
//!
//! ```text
//! hooks       edges, at once:   busy | over | dialog        (may be missing, tripled, or never come: Esc)
//! state file  levels, 0.2 s late: idle | busy | shell | waiting   (undocumented: may be absent)
//! screen      levels, when asked: a dialog on it vetoes whatever the others say
//! ```
//!
//! The more cautious one wins. A hook's word yields to the state file once that had time to follow, and, where there
//! is no state file, to a screen that was ready at every look for a second: no state is ever held for good by an edge
//! that never comes. Nor by a level that stays: what hooks and state file say of a turn or a dialog is believed no more until
//! either speaks again, once every look for a minute has shown a prompt box and no turn (a state file that could not be written
//! on a full disk; a turn that was left through the agents view, field fault 43b). Facts: FINDINGS 1 to 12, 28.

use crate::event::FileState;
use crate::now::{Mono, Now};
use crate::screen::{BoxHolds, ScreenClass, Seen};

/// A state file follows a hook within 0.2 s (F 61); after this it is believed again.
const FILE_FOLLOWS_WITHIN_MS: u64 = 2_000;
/// After the last Stop hook Claude is idle at once; what is busy for longer goes on.
const STOP_FOLLOWED_WITHIN_MS: u64 = 1_000;
/// Without a state file, a screen that is ready for that long ends a hook's "busy".
const SCREEN_BELIEVED_AFTER_MS: u64 = 1_000;
/// Looks further apart than that say nothing about the time between them.
const LOOKS_CLOSE_WITHIN_MS: u64 = 2_500;
/// The screen follows a state change within that time.
const SCREEN_FOLLOWS_WITHIN_MS: u64 = 300;
/// Witnesses may be of two minds for a moment; after this, people are told.
const DISPUTED_AFTER_MS: u64 = 60_000;
/// A look is good for a decision only that long: keys may come at any time.
const LOOK_FRESH_FOR_MS: u64 = 20;

/// What the hooks said last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum HookWord {
    #[default]
    Nothing,
    Busy,
    Over {
        background: bool,
    },
    Dialog(String),
}

/// What the agent is doing, as hooks and state file say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// Waits for input.
    Idle,
    /// A turn runs.
    Busy,
    /// A dialog is open; the text says which.
    Dialog(String),
    /// No witness said anything yet.
    Unknown,
}

/// What the witnesses of the owned agent said last, and when.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    hook: HookWord,
    hook_at: Mono,
    file: FileState,
    file_at: Mono,
    /// Hooks and screen have contradicted it for too long.
    file_doubted: bool,
    /// The screen has contradicted them for too long.
    hook_doubted: bool,
    seen: Option<Seen>,
    seen_at: Mono,
    /// Nothing happened since the last look.
    current: bool,
    ready_since: Option<Mono>,
    box_empty_since: Option<Mono>,
    idle_since: Option<Mono>,
    dispute: Option<(&'static str, Mono)>,
}

impl Evidence {
    /// A prompt was taken.
    pub fn hook_busy(&mut self, now: Now) {
        self.hook_says(HookWord::Busy, now);
    }

    /// A turn is over; tasks of it may go on in the background, and the state file says busy as long.
    pub fn hook_over(&mut self, background: bool, now: Now) {
        self.hook_says(HookWord::Over { background }, now);
    }

    /// A dialog opened.
    pub fn hook_dialog(&mut self, tool: String, now: Now) {
        self.hook_says(HookWord::Dialog(tool), now);
    }

    fn hook_says(&mut self, word: HookWord, now: Now) {
        self.hook = word;
        self.hook_at = now.mono;
        (self.ready_since, self.dispute, self.hook_doubted) = (None, None, false);
        self.outdate(now);
    }

    /// The state file changed.
    pub fn file_says(&mut self, state: FileState, now: Now) {
        self.file = state;
        self.file_at = now.mono;
        (self.file_doubted, self.dispute) = (false, None);
        self.outdate(now);
    }

    /// Something happened that the last look could not show.
    pub fn outdate(&mut self, now: Now) {
        self.current = false;
        self.note_idle(now);
    }

    /// A look was taken. `outdated`: something happened while it was taken.
    pub fn screen_seen(&mut self, seen: Seen, outdated: bool, now: Now) {
        let ready = seen.class == ScreenClass::Ready && !seen.copy_mode;
        self.ready_since = if ready { self.ready_since.or(Some(now.mono)) } else { None };
        let empty = ready && seen.holds == BoxHolds::Nothing;
        let unbroken = self.box_empty_since.filter(|_| now.mono.since(self.seen_at) <= LOOKS_CLOSE_WITHIN_MS);
        self.box_empty_since = if empty { unbroken.or(Some(now.mono)) } else { None };
        self.seen = Some(seen);
        self.seen_at = now.mono;
        self.current = !outdated;
        self.note_idle(now);
        let since = |what| self.dispute.filter(|old| old.0 == what).map_or(now.mono, |old| old.1);
        self.dispute = self.contradiction(now).map(|what| (what, since(what)));
        if self.file_stands_alone() {
            (self.file_doubted, self.hook_doubted) = (true, true);
        }
    }

    /// Only words from before say that Claude works, the screen has shown none of it for long. A background task's word counts:
    /// it shows on no screen.
    fn file_stands_alone(&self) -> bool {
        let over = !matches!(self.hook, HookWord::Over { background: true });
        let since = self.ready_since.unwrap_or(self.seen_at).max(self.file_at).max(self.hook_at);
        over && self.seen_at.since(since) >= DISPUTED_AFTER_MS
            && matches!(self.file, FileState::Busy | FileState::Waiting(_))
    }

    /// What the state file says, if it is believed.
    fn file(&self) -> &FileState {
        if self.file_doubted { &FileState::Absent } else { &self.file }
    }

    /// What the screen shows against what the others say. A dialog that only the screen shows is none: a human's overlay.
    fn contradiction(&self, now: Now) -> Option<&'static str> {
        use ScreenClass::{Busy, Draft, Queued, Ready};
        match (self.activity(now), self.seen.as_ref()?.class) {
            (Activity::Busy, Ready | Draft) => Some("hooks or state file say busy, the screen shows no turn"),
            (Activity::Dialog(_), Ready | Draft | Busy | Queued) => {
                Some("hooks or state file say that a dialog is open, the screen shows none")
            }
            (Activity::Idle, Busy | Queued) => {
                Some("hooks and state file say idle, the screen shows a running turn")
            }
            _ => None,
        }
    }

    /// Two witnesses that have been of different minds at every look since then, and when it is time to tell people.
    pub fn dispute(&self) -> Option<(&'static str, Mono)> {
        self.dispute.map(|(what, since)| (what, since + DISPUTED_AFTER_MS))
    }

    /// Notes since when Claude is idle; asked at every event, since a hook's word can yield by time alone.
    pub fn note_idle(&mut self, now: Now) {
        let idle = self.activity(now) == Activity::Idle;
        self.idle_since = if idle { self.idle_since.or(Some(now.mono)) } else { None };
    }

    /// What the hooks said, if it is believed.
    fn hook(&self) -> &HookWord {
        if self.hook_doubted { &HookWord::Over { background: false } } else { &self.hook }
    }

    /// What hooks and state file say now, the screen as a help where one of them is silent.
    pub fn activity(&self, now: Now) -> Activity {
        match self.file() {
            FileState::Waiting(what) => Activity::Dialog(what.clone()),
            FileState::Busy => match self.hook() {
                HookWord::Dialog(tool) if self.hook_leads(now) => Activity::Dialog(tool.clone()),
                _ => Activity::Busy,
            },
            FileState::Idle | FileState::Shell if self.hook_leads(now) => self.hook_activity(),
            FileState::Idle | FileState::Shell => Activity::Idle,
            FileState::Absent if self.screen_believed() => Activity::Idle,
            FileState::Absent => self.hook_activity(),
        }
    }

    fn hook_activity(&self) -> Activity {
        match self.hook() {
            HookWord::Busy => Activity::Busy,
            HookWord::Dialog(tool) => Activity::Dialog(tool.clone()),
            HookWord::Over { .. } => Activity::Idle,
            HookWord::Nothing => match self.file() {
                FileState::Absent => Activity::Unknown,
                _ => Activity::Idle,
            },
        }
    }

    fn hook_leads(&self, now: Now) -> bool {
        self.hook_at > self.file_at && now.mono.since(self.hook_at) < FILE_FOLLOWS_WITHIN_MS
    }

    fn screen_believed(&self) -> bool {
        let needed = if self.hook == HookWord::Nothing { 0 } else { SCREEN_BELIEVED_AFTER_MS };
        self.ready_since.is_some_and(|since| self.seen_at.since(since) >= needed)
    }

    /// The last look, if nothing happened since and it is not older than 20 ms.
    pub fn fresh_look(&self, now: Now) -> Option<&Seen> {
        let fresh = self.current && now.mono.since(self.seen_at) <= LOOK_FRESH_FOR_MS;
        self.seen.as_ref().filter(|_| fresh)
    }

    /// The last look, however old.
    pub fn last_look(&self) -> Option<&Seen> {
        self.seen.as_ref()
    }

    /// When the last look was taken.
    pub fn looked_at(&self) -> Option<Mono> {
        self.seen.as_ref().map(|_| self.seen_at)
    }

    /// Since when every witness but the screen says idle.
    pub fn idle_since(&self) -> Option<Mono> {
        self.idle_since
    }

    /// Since when every look showed an empty prompt box.
    pub fn box_empty_since(&self) -> Option<Mono> {
        self.box_empty_since
    }

    /// The state file said busy until now, although a Stop came longer ago than the file takes to follow.
    pub fn outlasted_stop(&self, now: Now) -> bool {
        let over_for = now.mono.since(self.hook_at);
        *self.file() == FileState::Busy
            && matches!(self.hook, HookWord::Over { .. })
            && over_for > STOP_FOLLOWED_WITHIN_MS
    }

    /// Neither hooks nor a state file: only the screen tells.
    pub fn is_unwitnessed(&self) -> bool {
        *self.file() == FileState::Absent && self.hook == HookWord::Nothing
    }

    /// A background shell still runs.
    pub fn background_shell(&self) -> bool {
        self.file == FileState::Shell
    }

    /// There is no state file, and the screen says ready since a hook said otherwise: further looks will confirm it.
    pub fn screen_must_confirm(&self) -> bool {
        *self.file() == FileState::Absent && self.ready_since.is_some() && !self.screen_believed()
    }

    /// When a look is due because Claude became idle after the last one, which shows the past.
    pub fn idle_look_at(&self) -> Option<Mono> {
        let outdated = self.seen.as_ref().is_some_and(|seen| seen.class != ScreenClass::Ready);
        self.idle_since
            .filter(|since| outdated && *since >= self.seen_at)
            .map(|since| since + SCREEN_FOLLOWS_WITHIN_MS)
    }

    /// When a hook's word will have yielded to the state file by itself.
    pub fn hook_yields_at(&self, now: Now) -> Option<Mono> {
        let leads = self.hook_leads(now) && matches!(self.file, FileState::Idle | FileState::Shell);
        leads.then(|| self.hook_at + FILE_FOLLOWS_WITHIN_MS)
    }

    /// One line a witness, for `ccmux why`.
    pub fn lines(&self, now: Now) -> Vec<String> {
        let ago = |at: Mono| format!("{:.1} s ago", now.mono.since(at) as f64 / 1000.0);
        let hooks = match &self.hook {
            HookWord::Nothing => "hooks: nothing yet".to_owned(),
            HookWord::Busy => format!("hooks: a prompt was submitted, {}", ago(self.hook_at)),
            HookWord::Over { .. } => format!("hooks: the turn ended, {}", ago(self.hook_at)),
            HookWord::Dialog(tool) => format!("hooks: a dialog for {tool} opened, {}", ago(self.hook_at)),
        };
        let file = match &self.file {
            FileState::Absent => "state file: none".to_owned(),
            FileState::Waiting(what) => format!("state file: waiting for {what}, {}", ago(self.file_at)),
            FileState::Idle => format!("state file: idle, {}", ago(self.file_at)),
            FileState::Busy => format!("state file: busy, {}", ago(self.file_at)),
            FileState::Shell => format!("state file: idle with a background shell, {}", ago(self.file_at)),
        };
        let file = if self.file_doubted { file + ", not believed: nobody else says so" } else { file };
        let screen = match &self.seen {
            None => "screen: not looked at yet".to_owned(),
            Some(Seen { class, holds, .. }) => {
                format!("screen: {class:?}, the box holds {holds:?}, {}", ago(self.seen_at)).to_lowercase()
            }
        };
        let human = match self.seen.as_ref().and_then(|seen| seen.active_at) {
            None => "people: nobody attached who can type".to_owned(),
            Some(at) => format!("people: last active {} s ago", (now.wall.0 - at.0).max(0) / 1000),
        };
        let dispute = self.dispute().filter(|(_, due)| now.mono >= *due);
        let dispute = dispute.map(|(what, _)| format!("disputed: {what}; the more cautious one counts"));
        [hooks, file, screen, human].into_iter().chain(dispute).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now { mono: Mono(ms), ..Now::default() }
    }

    fn ready() -> Seen {
        Seen::plain(ScreenClass::Ready, BoxHolds::Nothing)
    }

    #[test]
    fn a_hook_leads_the_state_file_for_two_seconds_and_no_longer() {
        let mut evidence = Evidence::default();
        evidence.file_says(FileState::Idle, at(0));
        evidence.hook_busy(at(10));
        assert_eq!(evidence.activity(at(1_000)), Activity::Busy);
        assert_eq!(
            evidence.activity(at(2_010)),
            Activity::Idle,
            "Esc fires no hook: the file is believed again"
        );
    }

    /// Field fault 17.
    #[test]
    fn a_busy_state_file_outlasts_the_stop_hook() {
        let mut evidence = Evidence::default();
        evidence.file_says(FileState::Busy, at(0));
        evidence.hook_over(false, at(100));
        assert_eq!(evidence.activity(at(200)), Activity::Busy, "other Stop hooks still run");
        evidence.file_says(FileState::Idle, at(300));
        assert_eq!(evidence.activity(at(300)), Activity::Idle);
    }

    /// Field fault 17.
    #[test]
    fn without_a_state_file_a_ready_screen_ends_busy_after_a_second() {
        let mut evidence = Evidence::default();
        evidence.hook_busy(at(0));
        evidence.screen_seen(ready(), false, at(100));
        assert_eq!(evidence.activity(at(600)), Activity::Busy, "the screen may lag");
        evidence.screen_seen(ready(), false, at(1_100));
        assert_eq!(evidence.activity(at(1_100)), Activity::Idle);
    }

    /// What that evidence says after a minute and more of looks, one a second, that all show a ready prompt box.
    fn after_a_minute_of_ready_screens(evidence: &mut Evidence) -> Activity {
        for second in 0..=60 {
            evidence.screen_seen(ready(), false, at(1_000 * second + 1_000));
            if second < 60 {
                assert_eq!(evidence.activity(at(1_000 * second + 1_000)), Activity::Busy, "{second} s");
            }
        }
        evidence.activity(at(61_000))
    }

    /// Field fault 17: a full disk, and the file that should say idle can't be written.
    #[test]
    fn a_state_file_that_alone_says_busy_for_a_minute_is_believed_no_more_until_it_changes() {
        let mut evidence = Evidence::default();
        evidence.file_says(FileState::Busy, at(0));
        evidence.hook_over(false, at(100));
        assert_eq!(after_a_minute_of_ready_screens(&mut evidence), Activity::Idle);
        assert!(evidence.lines(at(61_000))[1].ends_with("not believed: nobody else says so"));
        evidence.hook_busy(at(62_000));
        assert_eq!(evidence.activity(at(65_000)), Activity::Busy, "hooks go on to count");
        evidence.hook_over(false, at(66_000));
        assert_eq!(evidence.activity(at(66_000)), Activity::Idle);
        evidence.file_says(FileState::Busy, at(70_000));
        assert_eq!(evidence.activity(at(73_000)), Activity::Busy, "it is written again");
    }

    #[test]
    fn a_state_file_says_busy_as_long_as_tasks_go_on_in_the_background() {
        let mut evidence = Evidence::default();
        evidence.file_says(FileState::Busy, at(0));
        evidence.hook_over(true, at(100));
        assert_eq!(after_a_minute_of_ready_screens(&mut evidence), Activity::Busy);
    }

    /// Field fault 43b: a turn that was left through the agents view ends by no hook, and its state file says busy for ever.
    #[test]
    fn a_turn_that_no_look_has_shown_for_a_minute_is_over_whatever_hook_and_state_file_say() {
        let mut evidence = Evidence::default();
        evidence.file_says(FileState::Busy, at(0));
        evidence.hook_busy(at(100));
        assert_eq!(after_a_minute_of_ready_screens(&mut evidence), Activity::Idle);
        evidence.hook_busy(at(62_000));
        assert_eq!(evidence.activity(at(62_000)), Activity::Busy, "a hook speaks again");
    }

    #[test]
    fn a_screen_that_shows_a_turn_in_between_makes_the_minute_begin_anew() {
        let mut evidence = Evidence::default();
        evidence.file_says(FileState::Busy, at(0));
        evidence.hook_over(false, at(100));
        evidence.screen_seen(ready(), false, at(1_000));
        evidence.screen_seen(Seen::plain(ScreenClass::Busy, BoxHolds::Nothing), false, at(30_000));
        evidence.screen_seen(ready(), false, at(61_000));
        assert_eq!(evidence.activity(at(61_000)), Activity::Busy);
    }

    #[test]
    fn a_look_is_outdated_by_any_event_and_by_age() {
        let mut evidence = Evidence::default();
        evidence.screen_seen(ready(), false, at(0));
        assert!(evidence.fresh_look(at(20)).is_some());
        assert!(evidence.fresh_look(at(21)).is_none(), "too old");
        evidence.screen_seen(ready(), false, at(400));
        evidence.outdate(at(401));
        assert!(evidence.fresh_look(at(402)).is_none(), "something happened");
        evidence.screen_seen(ready(), true, at(500));
        assert!(evidence.fresh_look(at(500)).is_none(), "something happened while it was taken");
    }
}
