//! What is seen of the agent: the conversation, what still changes, and the bottom of the pane.

use std::time::Instant;

use super::turn::{Phase, Turn};
use super::{Again, Agent, tool};
use crate::conversation::{Entry, Mark};
use crate::screen::{self, Footer, Frame, Looks};
use crate::script::Call;

const GLYPHS: [char; 10] = ['·', '✢', '*', '✶', '✻', '✽', '✻', '✶', '*', '✢'];
const TITLE: &str = "Demo";

/// Rows to print for good, and the frame to draw.
pub struct View {
    pub printed: Vec<String>,
    pub frame: Frame,
}

impl Agent {
    /// The screen at this moment; nothing before the box is up.
    pub fn view(&mut self, now: Instant) -> Option<View> {
        if !self.is_ready() {
            return None;
        }
        self.open_due_dialog(now);
        let (size, looks) = (self.size, self.looks(now));
        let block = match self.dialog() {
            Some(dialog) => dialog.block(size.columns),
            None => screen::prompt_block(&mut self.prompt, &looks, size),
        };
        let mut live: Vec<String> =
            self.live_entries(now).iter().flat_map(|entry| entry.rows(size.columns)).collect();
        if looks.spinner.is_some() || self.faults.classic {
            live.push(String::new());
        }
        if self.faults.classic {
            let printed = self.conversation.rows_from(self.printed, size.columns);
            self.printed = self.conversation.end();
            return Some(View { printed, frame: screen::live_frame(live, block, size) });
        }
        let mut body = self.conversation.tail(size.columns, size.rows);
        body.append(&mut live);
        Some(View { printed: Vec::new(), frame: screen::full_frame(body, block, size) })
    }

    /// The screen was lost: what a scrolling screen had printed is printed again.
    pub fn reprint(&mut self) {
        self.printed = 0;
    }

    /// OSC 0 title: `✳` at rest and in dialogs, else `◐` and `◑` in turn (FINDINGS 5).
    pub fn title(&self, now: Instant) -> Option<String> {
        let glyph = match (self.is_animated(), self.seconds_since_start(now) % 2) {
            (false, _) => '✳',
            (true, 0) => '◐',
            (true, _) => '◑',
        };
        self.is_ready().then(|| format!("{glyph} {TITLE}"))
    }

    fn seconds_since_start(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.begun).as_secs()
    }

    fn looks(&self, now: Instant) -> Looks {
        let queued = !self.queue.is_empty();
        let placeholder = if queued && self.turn.is_some() {
            Some("Press up to edit queued messages".to_owned())
        } else if self.faults.placeholder && self.turn.is_none() {
            Some("Try \"say: hello\"".to_owned())
        } else {
            None
        };
        Looks {
            spinner: self.spinner(now),
            hint: self.hint_text(),
            placeholder: placeholder.filter(|_| self.prompt.is_empty()),
            shell: self.prompt.text().starts_with('!'),
            footer: self.footer(now),
        }
    }

    fn spinner(&self, now: Instant) -> Option<(char, String)> {
        let at = now.saturating_duration_since(self.begun).as_millis() / super::FRAME_EVERY.as_millis();
        let glyph = GLYPHS[usize::try_from(at).unwrap_or(0) % GLYPHS.len()];
        match &self.turn {
            Some(turn) => Some((glyph, spinner_text(turn, now))),
            None if !self.tasks.is_empty() => Some((glyph, "Waiting for 1 background agent…".to_owned())),
            None => None,
        }
    }

    fn hint_text(&self) -> Option<String> {
        match (&self.hint, &self.stash) {
            (Some((hint, _)), _) => Some((*hint).to_owned()),
            (None, Some(_)) => Some("draft stashed".to_owned()),
            (None, None) => None,
        }
    }

    fn footer(&self, now: Instant) -> Footer {
        let manual = self.permission_mode != "bypassPermissions";
        match self.again {
            Some((Again::CtrlC, _)) => return Footer::Said("Press Ctrl-C again to exit".into()),
            Some((Again::CtrlD, _)) => return Footer::Said("Press Ctrl-D again to exit".into()),
            _ => {}
        }
        if self.faults.idle_redraw.is_some() {
            return Footer::Said(format!("⏱ {} ms", now.saturating_duration_since(self.begun).as_millis()));
        }
        if self.normal_mode {
            return Footer::Said("-- NORMAL --".into());
        }
        if self.faults.vim {
            return Footer::Said("-- INSERT --".into());
        }
        if self.prompt.text().starts_with('!') {
            return Footer::Said("! for shell mode".into());
        }
        if self.prompt.holds_paste() {
            return Footer::Said("paste again to expand".into());
        }
        // With a draft in the box the real footer does not offer Esc.
        if self.is_busy() && self.prompt.is_empty() {
            return Footer::Interruptible { manual };
        }
        if manual { Footer::Manual } else { Footer::Bypass }
    }

    /// What may still change: the text under way, a running tool, what waits in the queue.
    fn live_entries(&self, now: Instant) -> Vec<Entry> {
        let mut entries = Vec::new();
        let Some(turn) = &self.turn else { return entries };
        if !turn.streamed.is_empty() {
            entries.push(Entry::new(Mark::Reply, &turn.streamed));
        }
        match &turn.phase {
            Phase::Running { call, since, .. } => {
                let seconds = now.saturating_duration_since(*since).as_secs();
                entries.push(Entry::new(Mark::Tool, &format!("Mock command · {seconds}s")));
                entries.push(Entry::new(Mark::Detail, &format!("{} ({seconds}s)", tool::summary(call))));
            }
            Phase::Asking(asking) if !asking.dialog.is_question() => {
                entries.extend(asked_entries(&asking.call));
            }
            _ => {}
        }
        entries.extend(self.queue.iter().map(|text| Entry::new(Mark::Waiting, text)));
        if !self.queue.is_empty() {
            entries.push(Entry::new(Mark::Detail, "Queued · ctrl+x ctrl+s to send now"));
        }
        entries
    }
}

/// A call that waits for a permission.
fn asked_entries(call: &Call) -> Vec<Entry> {
    if call.name != "Bash" {
        return vec![Entry::new(Mark::Tool, &tool::summary(call))];
    }
    vec![Entry::new(Mark::Tool, "Mock command"), Entry::new(Mark::Detail, &tool::summary(call))]
}

fn spinner_text(turn: &Turn, now: Instant) -> String {
    let seconds = now.saturating_duration_since(turn.started).as_secs();
    let verb = turn.verbs().0;
    match (seconds, turn.tokens) {
        (0, 0) => format!("{verb}…"),
        (seconds, 0) => format!("{verb}… ({seconds}s)"),
        (seconds, tokens) => format!("{verb}… ({seconds}s · ↓ {tokens} tokens)"),
    }
}
