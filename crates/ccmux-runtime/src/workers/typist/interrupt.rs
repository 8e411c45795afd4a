//! Stopping a turn: Esc, and afterwards the box.
//!
//! ```text
//! look ─► may it be pressed? ─ no ─► why not
//!           └ yes ─► Esc ─► look ─► the turn runs on: look again, 5 s at most
//!                             ├───► our own prompt came back (F 48): Ctrl-U, a row a press, a look after each
//!                             └───► anything else for 0.7 s: done
//! ```
//!
//! It runs between two orders, so that nothing is pasted meanwhile. What it may do is decided in the policy's `interrupt`.

use std::time::Duration;

use ccmux_policy::attention::afar::interrupt::{Next, after_interrupt, may_interrupt};
use ccmux_policy::screen::{BoxHolds, ScreenClass, Seen};
use tokio::time::{Instant, sleep};

use super::Typist;
use crate::screen::{PromptBox, Screen, box_holds};
use crate::terminal::{Capture, Guard, Terminal, Typed};

/// A turn that runs on for longer was not stopped.
const STOPS_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(150);
/// A prompt that comes back does so within that time.
const COMES_BACK_WITHIN: Duration = Duration::from_millis(700);
/// More rows than any box shows.
const MOST_ROWS: usize = 400;

impl<T: Terminal> Typist<T> {
    /// Stops the turn that runs, or says why not.
    pub(super) async fn interrupt(&self) -> Result<(), String> {
        let pid = self.agent.borrow().as_ref().map(|agent| agent.pid).ok_or("the agent does not run")?;
        let (capture, screen) = self.settled_look().await.map_err(|error| error.to_string())?;
        may_interrupt(&beneath(&capture, screen)).map_err(|refusal| refusal.words().to_owned())?;
        match self.terminal.press_escape(Guard { pid, untouched: None }).await {
            Ok(Typed::Done) => tracing::info!(event = "turn.interrupted"),
            Ok(Typed::Refused(why)) => return Err(why),
            Err(error) => return Err(error.to_string()),
        }
        self.tidy_up(pid).await
    }

    async fn tidy_up(&self, pid: i32) -> Result<(), String> {
        let stops_by = Instant::now() + STOPS_WITHIN;
        let (mut rest_since, mut cleared) = (None, 0);
        loop {
            sleep(PAUSE).await;
            let (capture, screen) = self.settled_look().await.map_err(|error| error.to_string())?;
            let untouched = Some(capture.untouched());
            match after_interrupt(&self.compared(&capture, &screen, cleared)) {
                Next::Wait if Instant::now() >= stops_by => {
                    return Err("Esc was pressed, and the turn runs on".to_owned());
                }
                Next::Wait => rest_since = None,
                Next::ClearRow if cleared < MOST_ROWS => {
                    (rest_since, cleared) = (None, cleared + 1);
                    // Somebody who pressed a key meanwhile has the box for themselves.
                    match self.terminal.clear_row(Guard { pid, untouched }).await {
                        Ok(Typed::Done) => {}
                        _ => return Ok(()),
                    }
                }
                Next::ClearRow => return Ok(()),
                Next::Done => {
                    let since = *rest_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= COMES_BACK_WITHIN {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Compared with the prompt that was delivered last; what is left of it once a row was cleared is ours, too.
    fn compared(&self, capture: &Capture, screen: &Screen, cleared: usize) -> Seen {
        let text = self.on_the_way.last_delivered();
        let holds = match (text, screen.class) {
            (Some(text), ScreenClass::Draft) if cleared == 0 => box_holds(screen.prompt_box.as_ref(), &text),
            (Some(text), ScreenClass::Draft)
                if screen.prompt_box.as_ref().is_some_and(|rest| is_left(rest, &text)) =>
            {
                BoxHolds::Ours
            }
            (_, ScreenClass::Draft) => BoxHolds::Foreign,
            _ => BoxHolds::Nothing,
        };
        Seen { copy_mode: capture.pane.in_mode, ..Seen::plain(screen.class, holds) }
    }
}

/// Whether the box shows a beginning of the text, or rows from its middle where its top is out of sight.
fn is_left(rest: &PromptBox, text: &str) -> bool {
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    let (text, shown) = (squeezed(text), squeezed(&rest.rows.join(" ")));
    match rest.hidden_above > 0 || rest.cut_above {
        true => text.contains(&shown),
        false => text.starts_with(&shown),
    }
}

/// While a turn runs, too, somebody may be writing.
fn beneath(capture: &Capture, screen: Screen) -> Seen {
    let holds_text = screen.prompt_box.as_ref().is_some_and(|found| !found.is_empty());
    let holds = if holds_text { BoxHolds::Foreign } else { BoxHolds::Nothing };
    Seen { copy_mode: capture.pane.in_mode, ..Seen::plain(screen.class, holds) }
}
