//! What the dialogs of a start ask, and what their choices mean to ccmux. Which dialog it is, the screen rules tell.
//!
//! It recommends nothing: each choice is told with its keys and what it leads to.

use super::menu::{Choice, choices};
use crate::screen::Screen;

/// A dialog in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartDialog {
    /// As the screen rules and `ccmux why` name it.
    pub name: String,
    /// What it asks.
    pub asks: String,
    /// Its choices with what they mean, as far as known.
    pub choices: Vec<(Choice, Option<&'static str>)>,
}

struct Known {
    name: &'static str,
    asks: &'static str,
    /// Beginnings of labels.
    means: &'static [(&'static str, &'static str)],
}

/// The wordings of 2.0.76, 2.1.197 and 2.1.332.
const KNOWN: &[Known] = &[
    Known {
        name: "trust",
        asks: "Claude asks whether you trust the working directory",
        means: &[
            ("Yes", "Claude may read, change and run files there; asked once for this directory"),
            ("No", "ends Claude; choose another directory with agent.cwd (CCMUX_AGENT_CWD)"),
        ],
    },
    Known {
        name: "bypass warning",
        asks: "Claude warns that with --dangerously-skip-permissions it runs commands without asking",
        means: &[
            ("Yes", "you take the responsibility for what it runs; asked once"),
            ("No", "ends Claude; agent.command without that flag makes it ask instead"),
        ],
    },
    Known {
        name: "API key",
        asks: "Claude found ANTHROPIC_API_KEY in its environment",
        means: &[
            ("Yes", "what Claude does is billed to that key"),
            ("No", "the key is not used: Claude needs another login"),
        ],
    },
    Known {
        name: "settings error",
        asks: "Claude does not understand something in a settings file; its screen names the file and the line",
        means: &[
            ("Continue", "starts without what it does not understand; it asks again at the next start"),
            ("Fix with Claude", "Claude changes the file"),
            ("Exit", "ends Claude, so that you can change the file"),
        ],
    },
    Known {
        name: "renderer offer",
        asks: "Claude offers its fullscreen renderer; ccmux works with both",
        means: &[("Yes", "fullscreen from now on"), ("Not now", "stays as it is; Claude may ask again")],
    },
    Known { name: "theme", asks: "Claude asks for its colours; any of them will do for ccmux", means: &[] },
    Known {
        name: "login",
        asks: "Claude asks you to log in; it shows how, and needs your browser",
        means: &[],
    },
];

impl StartDialog {
    /// Explains the dialog on a screen; `text` is the screen as plain text.
    pub fn on(screen: &Screen, text: &str) -> Self {
        let name = screen.dialog.clone().unwrap_or_else(|| "unknown".to_owned());
        let known = KNOWN.iter().find(|known| known.name == name);
        // 2.0.76 draws a frame around some.
        let unframed = text.replace('│', " ");
        let rows: Vec<&str> = unframed.lines().map(str::trim_end).collect();
        let meaning = |choice: Choice| {
            let means = known.and_then(|known| known.meaning(&choice.label));
            (choice, means)
        };
        Self {
            asks: known
                .map_or("Claude asks something that ccmux has no words for", |known| known.asks)
                .to_owned(),
            choices: choices(&rows).into_iter().map(meaning).collect(),
            name,
        }
    }

    /// One line for the dialog, one for each choice.
    pub fn lines(&self) -> Vec<String> {
        let head = format!("{} dialog: {}", self.name, self.asks);
        let keys = width(self.choices.iter().map(|(choice, _)| choice.keys.as_str()));
        let labels = width(self.choices.iter().map(|(choice, _)| choice.label.as_str()));
        let line = |(choice, means): &(Choice, Option<&str>)| {
            let mark = if choice.marked { '❯' } else { ' ' };
            let means = means.unwrap_or_default();
            format!("{:<keys$}  {mark} {:<labels$}  {means}", choice.keys, choice.label).trim_end().to_owned()
        };
        std::iter::once(head).chain(self.choices.iter().map(line)).collect()
    }
}

impl Known {
    fn meaning(&self, label: &str) -> Option<&'static str> {
        let found = self.means.iter().find(|(begins, _)| label.starts_with(begins));
        found.map(|(_, means)| *means)
    }
}

fn width<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Rules, classify, plain_text};

    fn dialog(fixture: &str) -> StartDialog {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/screens");
        let ansi = std::fs::read_to_string(format!("{folder}/{fixture}.ansi")).unwrap();
        let rules = Rules::builtin("claude-code").unwrap();
        StartDialog::on(&classify(&rules, &ansi), &plain_text(&ansi))
    }

    /// Label, keys, and whether its meaning is known.
    fn told(fixture: &str) -> Vec<(String, String, bool)> {
        let choices = dialog(fixture).choices.into_iter();
        choices.map(|(choice, means)| (choice.label, choice.keys, means.is_some())).collect()
    }

    #[test]
    fn each_start_dialog_is_told_with_the_keys_of_every_choice() {
        let row = |label: &str, keys: &str| (label.to_owned(), keys.to_owned(), true);
        let trust = [row("No, exit", "Enter"), row("Yes, I trust this folder", "Down, Enter")];
        assert_eq!(told("dialog-trust"), trust);
        let moved = [row("No, exit", "Up, Enter"), row("Yes, I trust this folder", "Enter")];
        assert_eq!(told("dialog-trust-moved-up"), moved);
        let bypass = [row("No, exit", "Enter"), row("Yes, I accept", "Down, Enter")];
        assert_eq!(told("dialog-bypass-accept-nonroot"), bypass);
        let key = [row("Yes", "Up, Enter"), row("No (recommended)", "Enter")];
        assert_eq!(told("dialog-custom-api-key"), key);
        assert_eq!(told("v20-dialog-custom-api-key"), key);
        assert_eq!(told("v20-dialog-bypass-accept"), bypass);
        let renderer = [row("Yes, try it", "Enter"), row("Not now", "Down, Enter")];
        assert_eq!(told("dialog-fullscreen-upsell"), renderer);
        let error =
            [row("Exit and fix manually", "Enter"), row("Continue without these settings", "Down, Enter")];
        assert_eq!(told("v20-dialog-settings-error"), error);
        let warning = [
            row("Continue", "Enter"),
            row("Fix with Claude", "Down, Enter"),
            row("Exit and fix manually", "Down 2 times, Enter"),
        ];
        assert_eq!(told("v197-dialog-settings-warning"), warning);
    }

    #[test]
    fn the_lines_name_the_dialog_and_mark_what_enter_takes() {
        let lines = dialog("dialog-trust").lines();
        assert!(lines[0].starts_with("trust dialog: "), "{lines:?}");
        assert!(lines[1].starts_with("Enter        ❯ No, exit                  ends Claude"), "{lines:?}");
        assert!(lines[2].starts_with("Down, Enter    Yes, I trust this folder  Claude may"), "{lines:?}");
    }

    #[test]
    fn a_dialog_without_words_keeps_its_choices() {
        let dialog = dialog("dialog-model-switch-while-busy");
        assert!(dialog.asks.contains("no words"), "{dialog:?}");
        assert!(!dialog.choices.is_empty(), "{dialog:?}");
    }
}
