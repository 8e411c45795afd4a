//! A batch's text goes into the empty prompt box, in pieces.
//!
//! ```text
//! the version takes all at once:  look (empty) ─► all pieces, no pause
//! any other, or unknown:          look (empty) ─► piece 1 ─► look (piece 1) ─► piece 2 ─► look (pieces 1, 2) ─► ...
//! ```
//!
//! An old Claude drops a piece that comes too soon after the last one. What the screen shows decides, not a pause alone:
//! where the box does not come to hold what was pasted so far, and that alone, nothing more is pasted. The look at the batch
//! then finds that its text is not whole, and Enter is not pressed.

use ccmux_policy::Event;
use ccmux_policy::screen::{BoxHolds, ScreenClass};
use ccmux_wire::id::BatchId;
use tokio::time::{Duration, Instant, sleep_until, timeout_at};

use super::{Pasted, SETTLE_PAUSE, SETTLES_WITHIN, Typist};
use crate::body::logged;
use crate::clock::unix_ms;
use crate::prompt::pieces;
use crate::screen::{box_holds, rows_shown};
use crate::terminal::{Guard, Terminal, TerminalError, Typed, Untouched};

/// A piece has been drawn that long before the next one goes: 2.1.75 drops one that comes sooner.
const REST: Duration = Duration::from_millis(250);

impl<T: Terminal> Typist<T> {
    pub(super) async fn paste(&mut self, batch: BatchId) -> Event {
        let Some(known) = self.on_the_way.get(batch) else {
            return Event::PasteRefused { batch, reason: "its text is not known".into() };
        };
        let untouched = match self.empty_box(known.pid).await {
            Ok((untouched, width, height)) => {
                let (has, needs) = rows_shown(&known.text, width, height);
                if has < needs {
                    return Event::PaneTooSmall { batch, has, needs };
                }
                untouched
            }
            Err(reason) => return Event::PasteRefused { batch, reason },
        };
        let mut first = pieces(&known.text);
        tracing::info!(event = "batch.injected", %batch, bytes = known.text.len(), pieces = first.len(), body = logged(known.text.as_bytes()));
        self.pasted = Some(Pasted { batch, at: Instant::now(), activity: untouched.activity.clone() });
        let all_at_once = self.agent_is(|rules, version| rules.takes_all_at_once(version));
        let later = if all_at_once || first.is_empty() { Vec::new() } else { first.split_off(1) };
        match self.terminal.inject(Guard { pid: known.pid, untouched: Some(untouched) }, first.clone()).await
        {
            Ok(Typed::Done) => {}
            Ok(Typed::Refused(reason)) => return Event::PasteRefused { batch, reason },
            Err(error @ TerminalError::Silent { .. }) => {
                self.note_pasted(batch).await;
                return Event::PasteDoubtful { batch, reason: error.to_string() };
            }
            Err(error) => return Event::PasteRefused { batch, reason: error.to_string() },
        }
        self.note_pasted(batch).await;
        match self.paste_later(known.pid, first.concat(), later).await {
            Ok(()) => Event::Pasted { batch },
            Err(reason) => {
                tracing::warn!(event = "batch.incomplete", %batch, reason);
                Event::PasteDoubtful { batch, reason }
            }
        }
    }

    /// Each piece once the box shows all that was pasted before it. Why it stopped, otherwise.
    async fn paste_later(&mut self, pid: i32, mut so_far: String, later: Vec<String>) -> Result<(), String> {
        for piece in later {
            let untouched = self.drawn(&so_far).await?;
            so_far.push_str(&piece);
            if let Some(pasted) = &mut self.pasted {
                *pasted =
                    Pasted { batch: pasted.batch, at: Instant::now(), activity: untouched.activity.clone() };
            }
            match self.terminal.inject(Guard { pid, untouched: Some(untouched) }, vec![piece]).await {
                Ok(Typed::Done) => {}
                Ok(Typed::Refused(reason)) => return Err(reason),
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Looks until the box holds `text` alone. A user who touched the terminal meanwhile may have typed a key that Claude has
    /// not drawn: the next piece then waits for a pause without activity.
    async fn drawn(&self, text: &str) -> Result<Untouched, String> {
        let until = Instant::now() + SETTLES_WITHIN;
        let mut since = None;
        loop {
            let asked = Instant::now();
            let (capture, screen) = self.glance().await.map_err(|error| error.to_string())?;
            let takes_text = !matches!(screen.class, ScreenClass::Shell | ScreenClass::Dialog);
            let holds = takes_text && box_holds(screen.prompt_box.as_ref(), text) == BoxHolds::Ours;
            since = holds.then(|| since.unwrap_or(asked));
            match since {
                Some(since) if asked >= since + REST => {
                    let seen = capture.untouched();
                    let before = self.pasted.as_ref().and_then(|pasted| pasted.activity.as_ref());
                    let nobody_came = before.is_some() && before == seen.activity.as_ref();
                    return if nobody_came { Ok(seen) } else { self.quiet_box(text).await };
                }
                Some(since) => sleep_until(since + REST).await,
                None if asked >= until => {
                    return Err("the prompt box does not show what was pasted so far, and that alone".into());
                }
                None => {
                    let _ = timeout_at(asked + SETTLE_PAUSE, self.drawn_after(asked)).await;
                }
            }
        }
    }

    /// Returns what the guard compares, the columns of the box and the rows of the pane. Recording the batch took time, seconds
    /// on a slow disk: the look that opened the gate is taken again, and tmux itself checks that the user typed nothing since.
    async fn empty_box(&self, pid: i32) -> Result<(Untouched, u16, u16), String> {
        let (capture, screen) = self.glance().await.map_err(|error| error.to_string())?;
        let width = screen.prompt_box.as_ref().map_or(0, |found| found.width);
        let empty =
            screen.class == ScreenClass::Ready && screen.prompt_box.is_some_and(|found| found.is_empty());
        match &capture.pane {
            pane if pane.pid != pid => Err(format!("the pane runs process {}, not {pid}", pane.pid)),
            pane if pane.in_mode => Err("the pane is in a mode".to_owned()),
            _ if !empty => Err("the prompt box was not empty any more".to_owned()),
            _ => Ok((capture.untouched(), width, capture.pane.height)),
        }
    }

    async fn note_pasted(&self, batch: BatchId) {
        if let Err(error) = self.inbox.pasted(batch, unix_ms()).await {
            tracing::error!(event = "inbox.failed", %batch, %error);
        }
    }
}
