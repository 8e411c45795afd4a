//! Dialogs that take the place of the prompt box: permission, question, plan, status.
//!
//! Knows options, keys and rows; does not know what an answer leads to. As in Claude, a text of several characters
//! that arrives in one piece is dropped, a digit picks, Enter takes the marked option (FINDINGS 15).

use serde_json::Value;

use crate::keys::Key;
use crate::script::Call;
use crate::style::{BOLD, DIALOG, GREY, RESET, printable, rule};
use crate::wrap;

/// What a dialog asks.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Bash { command: String, about: String },
    Write { path: String, content: String },
    Other { tool: String, input: String },
    Ask { header: String, question: String, options: Vec<(String, String)> },
    Plan,
    Status(Vec<(String, String)>),
}

/// A dialog on the screen.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialog {
    pub kind: Kind,
    marked: usize,
    /// What was typed at "Type something."
    typed: String,
    cwd: String,
}

/// How the human answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// An option, counted from 0.
    Pick(usize),
    Typed(String),
    Cancel,
}

/// Rows at the bottom of the pane, and where the cursor is in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    pub rows: Vec<String>,
    /// Row and column.
    pub cursor: (usize, usize),
}

impl Dialog {
    pub fn new(kind: Kind, cwd: &str) -> Self {
        Self { kind, marked: 0, typed: String::new(), cwd: cwd.to_owned() }
    }

    /// The dialog that a tool call needs.
    pub fn of_call(call: &Call, cwd: &str) -> Self {
        let kind = match call.name.as_str() {
            "Bash" => {
                Kind::Bash { command: call.text("command").into(), about: call.text("description").into() }
            }
            "Write" => {
                Kind::Write { path: call.text("file_path").into(), content: call.text("content").into() }
            }
            "AskUserQuestion" => question(&call.input["questions"][0]),
            "ExitPlanMode" => Kind::Plan,
            tool => Kind::Other { tool: tool.into(), input: call.input.to_string() },
        };
        Self::new(kind, cwd)
    }

    pub fn is_question(&self) -> bool {
        matches!(self.kind, Kind::Ask { .. })
    }

    /// The label of an option of a question.
    pub fn label(&self, option: usize) -> Option<&str> {
        match &self.kind {
            Kind::Ask { options, .. } => options.get(option).map(|(label, _)| label.as_str()),
            _ => None,
        }
    }

    /// The option means yes (of a permission or a plan).
    pub fn agrees(&self, option: usize) -> bool {
        option + 1 < self.options().len()
    }

    /// What a key does: an answer, or only a change of the dialog.
    pub fn key(&mut self, key: &Key) -> Option<Answer> {
        if matches!(key, Key::Escape | Key::Ctrl('c')) {
            return Some(Answer::Cancel);
        }
        if matches!(self.kind, Kind::Status(_)) {
            return None;
        }
        if self.typing() && self.type_key(key) {
            return None;
        }
        let last = self.options().len().saturating_sub(1);
        match key {
            Key::Up => self.marked = self.marked.checked_sub(1).unwrap_or(last),
            Key::Down => self.marked = if self.marked == last { 0 } else { self.marked + 1 },
            Key::Enter(_) => return self.take(self.marked),
            Key::Text(text) => return self.digit(text),
            _ => {}
        }
        None
    }

    fn typing(&self) -> bool {
        matches!(&self.kind, Kind::Ask { options, .. } if self.marked == options.len())
    }

    fn type_key(&mut self, key: &Key) -> bool {
        match key {
            Key::Text(text) | Key::Paste(text) => self.typed.push_str(&text.replace('\n', " ")),
            Key::Backspace => drop(self.typed.pop()),
            _ => return false,
        }
        true
    }

    fn digit(&mut self, text: &str) -> Option<Answer> {
        let mut chars = text.chars();
        let (Some(digit), None) = (chars.next(), chars.next()) else {
            return None;
        };
        let option = digit.to_digit(10)?.checked_sub(1)? as usize;
        if option >= self.options().len() {
            return None;
        }
        self.marked = option;
        if self.typing() { None } else { self.take(option) }
    }

    fn take(&self, option: usize) -> Option<Answer> {
        let Kind::Ask { options, .. } = &self.kind else {
            return Some(Answer::Pick(option));
        };
        match option {
            at if at < options.len() => Some(Answer::Pick(at)),
            at if at == options.len() => {
                Some(self.typed.trim().to_owned()).filter(|t| !t.is_empty()).map(Answer::Typed)
            }
            _ => Some(Answer::Cancel),
        }
    }

    fn options(&self) -> Vec<String> {
        let of = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        match &self.kind {
            Kind::Bash { .. } => vec![
                "Yes".into(),
                format!("Yes, and always allow access to {} from this project", self.cwd),
                "Yes, and switch to auto mode · auto mode handles these prompts for you".into(),
                "No".into(),
            ],
            Kind::Write { .. } => of(&[
                "Yes",
                "Yes, and switch to accept edits (auto-approve file edits and common file commands) for this session (shift+tab)",
                "No",
            ]),
            Kind::Other { tool, .. } => {
                vec![
                    "Yes".into(),
                    format!("Yes, and don't ask again for {tool} commands in {}", self.cwd),
                    "No".into(),
                ]
            }
            Kind::Plan => of(&["Yes, and switch to default (ask each time) for this session", "No"]),
            Kind::Ask { options, .. } => {
                let mut labels: Vec<String> = options.iter().map(|(label, _)| label.clone()).collect();
                labels.extend(of(&["Type something.", "Chat about this"]));
                labels
            }
            Kind::Status(_) => Vec::new(),
        }
    }

    /// The dialog as rows of the bottom of the pane.
    pub fn block(&self, width: usize) -> Block {
        let mut block = Block::default();
        match &self.kind {
            Kind::Bash { command, about } => {
                self.permission(&mut block, width, "Bash command", about, command)
            }
            Kind::Write { path, content } => {
                self.permission(&mut block, width, "Create file", &self.relative(path), content);
            }
            Kind::Other { tool, input } => self.permission(&mut block, width, "Tool use", tool, input),
            Kind::Ask { .. } => self.question_rows(&mut block, width),
            Kind::Plan => self.plan_rows(&mut block, width),
            Kind::Status(facts) => status_rows(&mut block, width, facts),
        }
        block
    }

    fn relative(&self, path: &str) -> String {
        path.strip_prefix(&format!("{}/", self.cwd)).unwrap_or(path).to_owned()
    }

    fn permission(&self, block: &mut Block, width: usize, title: &str, about: &str, body: &str) {
        block.rows.push(rule(width, DIALOG, None));
        block.rows.push(format!(" {BOLD}{DIALOG}{title}{RESET}"));
        block
            .rows
            .push(format!(" {GREY}{}{RESET}", wrap::fit(&printable(about).replace('\n', " "), width - 1)));
        let dashes = format!("\x1b[38;5;239m{}{RESET}", "╌".repeat(width));
        block.rows.push(dashes.clone());
        for line in printable(body).trim_end().split('\n').take(8) {
            block.rows.extend(
                wrap::rows_of(line, width - 2).into_iter().take(4).map(|row| format!(" {}", &line[row])),
            );
        }
        block.rows.push(dashes);
        let ask = match &self.kind {
            Kind::Write { path, .. } => {
                format!(
                    " Do you want to create {BOLD}{}{RESET}?",
                    wrap::fit(&self.relative(path), width.saturating_sub(25))
                )
            }
            _ => " Do you want to proceed?".to_owned(),
        };
        block.rows.push(ask);
        self.menu(block, width, " ");
        block.rows.push(String::new());
        block.rows.push(format!(" {GREY}Esc to cancel · Tab to amend{RESET}"));
    }

    /// `❯ 1. Yes`: here the mark is followed by a blank, not by U+00A0.
    fn menu(&self, block: &mut Block, width: usize, indent: &str) {
        for (at, option) in self.options().iter().enumerate() {
            self.option_row(block, width, indent, at, option);
        }
    }

    fn option_row(&self, block: &mut Block, width: usize, indent: &str, at: usize, option: &str) {
        let text = wrap::fit(option, width.saturating_sub(indent.len() + 5));
        let number = at + 1;
        if at == self.marked {
            block.cursor = (block.rows.len(), indent.len());
            block.rows.push(format!("{indent}{DIALOG}❯{RESET} {GREY}{number}. {DIALOG}{text}{RESET}"));
        } else {
            block.rows.push(format!("{indent}  {GREY}{number}. {RESET}{text}"));
        }
    }

    fn question_rows(&self, block: &mut Block, width: usize) {
        let Kind::Ask { header, question, options } = &self.kind else {
            return;
        };
        block.rows.push(rule(width, GREY, None));
        block.rows.push(format!(
            "\x1b[38;5;16m\x1b[48;5;153m ☐ {} {RESET}",
            wrap::fit(header, width.saturating_sub(4))
        ));
        block.rows.push(String::new());
        for row in wrap::rows_of(question, width) {
            block.rows.push(format!("{BOLD}{}{RESET}", &question[row]));
        }
        block.rows.push(String::new());
        for (at, (label, about)) in options.iter().enumerate() {
            self.option_row(block, width, "", at, label);
            block.rows.push(format!("     {GREY}{}{RESET}", wrap::fit(about, width.saturating_sub(5))));
        }
        let typed = if self.typed.is_empty() { "Type something." } else { &self.typed };
        self.option_row(block, width, "", options.len(), typed);
        block.rows.push(rule(width, GREY, None));
        self.option_row(block, width, "", options.len() + 1, "Chat about this");
        block.rows.push(String::new());
        let footer = "Enter to select · ↑/↓ to navigate · Esc to cancel";
        block.rows.push(format!("{GREY}{}{RESET}", wrap::fit(footer, width)));
    }

    fn plan_rows(&self, block: &mut Block, width: usize) {
        block.rows.push(format!("{DIALOG}{}{RESET}", "▔".repeat(width)));
        block.rows.push(String::new());
        block.rows.push(format!("  {}", rule(width.saturating_sub(4), GREY, None)));
        block.rows.push(format!("   {BOLD}Exit plan mode?{RESET}"));
        block.rows.push(String::new());
        block.rows.push("   Claude wants to exit plan mode".to_owned());
        block.rows.push(String::new());
        self.menu(block, width, "   ");
    }
}

fn status_rows(block: &mut Block, width: usize, facts: &[(String, String)]) {
    block.rows.push(format!("{DIALOG}{}{RESET}", "▔".repeat(width)));
    block.rows.push(format!("  {BOLD}{DIALOG}Settings{RESET} \x1b[1;38;5;16m\x1b[48;5;153m Status {RESET}"));
    block.rows.push(String::new());
    for (name, value) in facts {
        let value = wrap::fit(value, width.saturating_sub(24));
        block.rows.push(format!("  {BOLD}{:<22}{RESET}{value}", format!("{name}:")));
    }
    block.rows.push(String::new());
    block.rows.push(format!("  {GREY}←/→ to switch · Esc to close{RESET}"));
    block.cursor = (1, 2);
}

fn question(question: &Value) -> Kind {
    let text = |value: &Value| printable(value.as_str().unwrap_or_default()).replace('\n', " ");
    let options = question["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    Kind::Ask {
        header: text(&question["header"]),
        question: text(&question["question"]),
        options: options
            .iter()
            .map(|option| (text(&option["label"]), text(&option["description"])))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::EnterForm;

    fn bash() -> Dialog {
        Dialog::new(Kind::Bash { command: "ls".into(), about: "a".into() }, "/x")
    }

    fn ask() -> Dialog {
        let options = vec![("Alpha".into(), "first".into()), ("Beta".into(), "second".into())];
        Dialog::new(Kind::Ask { header: "Choice".into(), question: "Which?".into(), options }, "/x")
    }

    const ENTER: Key = Key::Enter(EnterForm::Cr);

    #[test]
    fn text_is_dropped_and_the_enter_behind_it_approves() {
        let mut dialog = bash();
        assert_eq!(dialog.key(&Key::Text("[10:00 x] hello".into())), None);
        assert_eq!(dialog.key(&Key::Paste("hello".into())), None);
        assert_eq!(dialog.key(&ENTER), Some(Answer::Pick(0)));
        assert!(dialog.agrees(0) && !dialog.agrees(3));
    }

    #[test]
    fn a_single_digit_picks_at_once() {
        assert_eq!(bash().key(&Key::Text("4".into())), Some(Answer::Pick(3)));
        assert_eq!(bash().key(&Key::Text("9".into())), None);
        assert_eq!(ask().key(&Key::Text("2".into())), Some(Answer::Pick(1)));
    }

    #[test]
    fn an_answer_of_ones_own_can_be_typed() {
        let mut dialog = ask();
        assert_eq!(dialog.key(&Key::Text("3".into())), None);
        assert_eq!(dialog.key(&ENTER), None);
        assert_eq!(dialog.key(&Key::Text("my own".into())), None);
        assert_eq!(dialog.key(&ENTER), Some(Answer::Typed("my own".into())));
    }

    #[test]
    fn arrows_go_round_and_escape_cancels() {
        let mut dialog = bash();
        dialog.key(&Key::Up);
        assert_eq!(dialog.key(&ENTER), Some(Answer::Pick(3)));
        dialog.key(&Key::Down);
        assert_eq!(dialog.key(&ENTER), Some(Answer::Pick(0)));
        assert_eq!(dialog.key(&Key::Escape), Some(Answer::Cancel));
    }

    #[test]
    fn a_menu_has_a_blank_after_its_mark() {
        for dialog in [bash(), ask()] {
            let text = dialog.block(40).rows.join("\n");
            assert!(text.contains("❯\u{1b}[0m ") && !text.contains("❯\u{a0}"));
        }
    }
}
