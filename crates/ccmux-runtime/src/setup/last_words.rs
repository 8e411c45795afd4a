//! Why an agent ended, from what it left on the screen: its last words, and the remedy where they are known.

use ccmux_policy::event::ExitStatus;

/// So many rows are shown.
const SHOWN: usize = 8;

/// What ended, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWords {
    /// How.
    pub status: ExitStatus,
    /// The last rows of its screen.
    pub rows: Vec<String>,
    /// What to do.
    pub remedy: &'static str,
}

/// What a row says, and what to do then.
const REMEDIES: &[(&str, &str)] = &[
    (
        "cannot be used with root/sudo privileges",
        "run ccmux as an ordinary user; or, in a container or VM that may be lost, set agent.env = { IS_SANDBOX = \"1\" }; \
         or leave the flag out of agent.command",
    ),
    (
        "Unable to connect to Anthropic services",
        "check the network and the proxy variables of the agent's environment, then run `ccmux setup` again",
    ),
    ("ccmuxd launch:", "put right what it says, then run `ccmux setup` again"),
];

const UNKNOWN: &str =
    "run agent.command by hand in agent.cwd to see more (`ccmuxd --print-config` shows both)";
const CHOSEN: &str = "that is what `No, exit` and /exit do: run `ccmux setup` again to decide otherwise";

impl LastWords {
    /// Reads them from the screen as plain text.
    pub fn read(status: ExitStatus, text: &str) -> Self {
        let rows: Vec<&str> = text
            .lines()
            .map(str::trim_end)
            .filter(|row| !row.trim().is_empty() && !row.starts_with("Pane is dead"))
            .collect();
        let known = REMEDIES
            .iter()
            .find(|(words, _)| rows.iter().any(|row| row.contains(words)))
            .map(|(_, remedy)| *remedy);
        let by_itself = matches!(status, ExitStatus::Code(0 | 1)) && asked(&rows);
        let remedy = known.unwrap_or(if by_itself { CHOSEN } else { UNKNOWN });
        let from = rows.len().saturating_sub(SHOWN);
        let rows = rows[from..].iter().map(|row| harmless(row)).collect();
        Self { status, rows, remedy }
    }

    /// How it ended, for a sentence.
    pub fn ended(&self) -> String {
        match self.status {
            ExitStatus::Code(code) => format!("ended with {code}"),
            ExitStatus::Signal(signal) => format!("was ended by signal {signal}"),
            ExitStatus::Unknown => "ended".to_owned(),
        }
    }
}

/// A dialog that was answered is the last that stands there, or nothing at all.
fn asked(rows: &[&str]) -> bool {
    rows.is_empty() || rows.iter().any(|row| row.contains("No, exit"))
}

fn harmless(row: &str) -> String {
    row.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::plain_text;

    fn words(fixture: &str) -> LastWords {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/screens");
        let ansi = std::fs::read_to_string(format!("{folder}/{fixture}.ansi")).unwrap();
        LastWords::read(ExitStatus::Code(1), &plain_text(&ansi))
    }

    #[test]
    fn known_words_have_their_remedy() {
        let root = words("exit-root-without-IS_SANDBOX");
        assert!(root.remedy.contains("IS_SANDBOX"), "{root:?}");
        assert!(root.rows[0].contains("root/sudo"), "{root:?}");
        let network = words("exit-onboarding-no-network");
        assert!(network.remedy.contains("network"), "{network:?}");
        let launch = LastWords::read(ExitStatus::Code(127), "ccmuxd launch: cannot find x\nPane is dead");
        assert_eq!(launch.rows, ["ccmuxd launch: cannot find x"]);
    }

    #[test]
    fn a_person_who_chose_to_leave_is_told_so() {
        let left = words("dialog-trust");
        assert_eq!((left.remedy, left.ended().as_str()), (CHOSEN, "ended with 1"));
        let other = LastWords::read(ExitStatus::Signal(9), "boom\u{7}\n");
        assert_eq!((other.remedy, other.rows), (UNKNOWN, vec!["boom\u{fffd}".to_owned()]));
    }
}
