//! What keys do in the prompt box.

use std::time::Instant;

use super::{Again, Agent, HINT_SHOWN, LEAVE_WINDOW};
use crate::keys::{EnterForm, Key};

/// How a paste begins.
const PASTE: &[u8] = b"\x1b[200~";

impl Agent {
    pub(super) fn input(&mut self, bytes: &[u8], now: Instant) {
        if bytes.windows(PASTE.len()).any(|part| part == PASTE) {
            // The whole agent stands still, as one whose event loop is blocked.
            std::thread::sleep(std::mem::take(&mut self.freeze));
        } else {
            std::thread::sleep(std::mem::take(&mut self.keys_late));
        }
        self.journal.read(bytes);
        let keys = self.parser.feed(bytes);
        self.keys(keys, now);
        self.escape_since = self.parser.waits().then_some(now);
    }

    pub(super) fn keys(&mut self, keys: Vec<Key>, now: Instant) {
        for key in keys {
            self.idle_since = None;
            let armed = self.dialog_armed.is_none_or(|at| now >= at);
            if let Some(dialog) = self.dialog_mut().filter(|_| armed) {
                if let Some(answer) = dialog.key(&key) {
                    self.answered(&answer, now);
                }
            } else {
                self.prompt_key(key, now);
            }
        }
    }

    fn prompt_key(&mut self, key: Key, now: Instant) {
        let width = self.size.text_width();
        if self.normal_mode && self.normal_key(&key) {
            return;
        }
        match key {
            Key::Text(text) => self.prompt.insert(&text),
            Key::Paste(text) => self.paste(&text, now),
            Key::NewLine => self.prompt.insert("\n"),
            Key::Enter(form) => self.enter(form, now),
            Key::Backspace => self.prompt.backspace(),
            Key::Delete => self.prompt.delete(),
            Key::Left => self.prompt.left(),
            Key::Right => self.prompt.right(),
            Key::Home => self.prompt.home(width),
            Key::End => self.prompt.end(width),
            Key::Up => self.up(),
            Key::Down => self.prompt.vertical(1, width),
            Key::Escape => self.escape(now),
            Key::Ctrl(letter) => self.ctrl(letter, now),
        }
    }

    fn ctrl(&mut self, letter: char, now: Instant) {
        let width = self.size.text_width();
        match letter {
            'a' => self.prompt.home(width),
            'e' => self.prompt.end(width),
            'b' => self.prompt.left(),
            'f' => self.prompt.right(),
            'u' => {
                if !self.prompt.is_empty() {
                    self.hint = Some(("ctrl+y to paste deleted text", now + HINT_SHOWN));
                }
                self.prompt.kill_row(width);
            }
            's' => self.stash(now),
            'c' => self.ctrl_c(now),
            'd' if self.prompt.is_empty() => self.leave_or_wait(Again::CtrlD, now),
            'd' => self.prompt.delete(),
            _ => {}
        }
    }

    /// Keys of vim's NORMAL mode, a fault switch: text is commands, Enter a motion.
    fn normal_key(&mut self, key: &Key) -> bool {
        let width = self.size.text_width();
        match key {
            Key::Text(text) => self.normal_mode = !text.starts_with(['i', 'a', 'I', 'A']),
            Key::Enter(_) => self.prompt.vertical(1, width),
            _ => return false,
        }
        true
    }

    fn paste(&mut self, text: &str, now: Instant) {
        if self.drop_left > 0 {
            self.drop_left -= 1;
            self.hint = Some(("No text in the clipboard", now + HINT_SHOWN));
            return;
        }
        self.prompt.paste(text);
        self.deaf_until = Some(now + self.faults.enter_deaf);
        if !std::mem::replace(&mut self.pasted_before, true) {
            self.dialog_due = self.faults.dialog_after_paste.map(|pause| now + pause);
        }
    }

    fn enter(&mut self, form: EnterForm, now: Instant) {
        let submits = match self.faults.enter_form {
            Some(only) => form == only,
            // Ctrl-J is a newline, as in Claude.
            None if form == EnterForm::Lf => return self.prompt.insert("\n"),
            None => true,
        };
        // Before the box is up an Enter is lost, the text is not (FINDINGS 19).
        if !submits || !self.is_ready() || self.deaf_until.is_some_and(|until| now < until) {
            return;
        }
        if self.swallow_left > 0 {
            self.swallow_left -= 1;
            return;
        }
        if self.faults.poison.as_deref().is_some_and(|mark| self.prompt.text().contains(mark)) {
            return drop(self.prompt.take());
        }
        if self.prompt.continues() {
            return self.prompt.break_line();
        }
        self.submit(now);
    }

    fn up(&mut self) {
        if self.turn.is_some() && !self.queue.is_empty() {
            return self.edit_queue();
        }
        self.prompt.vertical(-1, self.size.text_width());
    }

    fn escape(&mut self, now: Instant) {
        if self.faults.vim {
            self.normal_mode = true;
        }
        if self.turn.is_some() {
            return self.interrupt(now);
        }
        if self.prompt.is_empty() {
            return;
        }
        if self.pressed_again(Again::Escape, now) {
            self.prompt.take();
        } else {
            self.hint = Some(("esc again to clear", now + LEAVE_WINDOW));
        }
    }

    fn ctrl_c(&mut self, now: Instant) {
        if self.turn.is_some() {
            return self.interrupt(now);
        }
        if !self.prompt.is_empty() {
            self.prompt.take();
        }
        self.leave_or_wait(Again::CtrlC, now);
    }

    fn leave_or_wait(&mut self, key: Again, now: Instant) {
        if self.pressed_again(key, now) {
            self.leave(0, "prompt_input_exit");
        }
    }

    /// The key was pressed a moment ago; if not, the wait for the second press begins.
    fn pressed_again(&mut self, key: Again, now: Instant) -> bool {
        let again = self.again.is_some_and(|(armed, until)| armed == key && now < until);
        self.again = (!again).then_some((key, now + LEAVE_WINDOW));
        again
    }

    /// Ctrl-S: a draft is put aside; with an empty box it comes back.
    fn stash(&mut self, now: Instant) {
        if !self.prompt.is_empty() {
            self.stash = Some(self.prompt.take());
        } else if let Some(draft) = self.stash.take() {
            self.prompt.put(draft);
            self.hint = None;
        }
        self.idle_since = self.idle_since.map(|_| now);
    }
}
