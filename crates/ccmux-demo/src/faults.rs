//! Switches by environment: what the demo agent does wrong on purpose, and a few choices of looks.
//!
//! Every variable is in [`TABLE`], which `--help` prints. Knows the environment only through the lookup it is given.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::hooks::Runs;
use crate::keys::EnterForm;

/// Name and meaning of every variable.
pub const TABLE: &[(&str, &str)] = &[
    ("CCMUX_DEMO_START_MS=MS", "time until the prompt box is up (400)"),
    ("CCMUX_DEMO_RENDERER=classic", "main screen, box right under the text, instead of the alternate screen"),
    ("CCMUX_DEMO_PLACEHOLDER=1", "show a dim suggestion in the empty box"),
    ("CCMUX_DEMO_PERMISSIONS=ask", "open a permission dialog before bash:, full: and edit:"),
    ("CCMUX_DEMO_SWALLOW_ENTER=N", "ignore the first N Enters of every prompt"),
    ("CCMUX_DEMO_ENTER_DEAF_MS=MS", "ignore Enter that long after a paste"),
    ("CCMUX_DEMO_ENTER_FORM=cr|lf|csi", "only this form of Enter submits: CR, LF or ESC [ 13 u"),
    ("CCMUX_DEMO_DROP_PASTE=N", "lose the first N pastes"),
    ("CCMUX_DEMO_FREEZE_MS=MS", "at the first paste, read and draw nothing for that long"),
    (
        "CCMUX_DEMO_KEYS_LATE_MS=MS",
        "the first keys that are no paste are read that much later, as under load",
    ),
    (
        "CCMUX_DEMO_DIALOG_AFTER_PASTE_MS=MS",
        "a permission dialog opens by itself that long after the first paste",
    ),
    ("CCMUX_DEMO_POISON=MARK", "a prompt with this mark is dropped from the box instead of being submitted"),
    ("CCMUX_DEMO_IDLE_REDRAW_MS=MS", "a clock below the box is redrawn that often, also at rest"),
    ("CCMUX_DEMO_TRANSCRIPT_DELAY_MS=MS", "write the last assistant line of a turn that long after Stop"),
    ("CCMUX_DEMO_HOOKS=off|N", "run no hooks, or each one N times"),
    ("CCMUX_DEMO_HOOKS_DROP=A,B", "do not fire these events"),
    ("CCMUX_DEMO_HOOKS_DELAY_MS=MS", "run each hook that much later"),
    ("CCMUX_DEMO_STATE_FILE=off", "write no sessions/<pid>.json"),
    ("CCMUX_DEMO_VERSION=N.N.N", "say that it is Claude Code of that version"),
    ("CCMUX_DEMO_EXIT=CODE", "exit at once with this code, before drawing"),
    ("CCMUX_DEMO_VIM=1", "vim mode, in NORMAL: Enter moves and does not submit"),
    ("CCMUX_DEMO_JOURNAL=DIR", "write down there what came from the terminal and what was submitted"),
    ("CCMUX_DEMO_FAULTS=FILE", "at the start, take further variables from there: NAME=VALUE a line"),
];

/// What the environment asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    pub start: Duration,
    pub classic: bool,
    pub placeholder: bool,
    pub ask_permissions: bool,
    pub swallow_enter: u32,
    pub enter_deaf: Duration,
    /// Only this form submits; none: CR and CSI do.
    pub enter_form: Option<EnterForm>,
    pub drop_paste: u32,
    pub freeze: Duration,
    pub keys_late: Duration,
    pub dialog_after_paste: Option<Duration>,
    pub poison: Option<String>,
    pub idle_redraw: Option<Duration>,
    pub transcript_delay: Duration,
    /// How often each hook runs: 0 = never.
    pub hook_runs: u32,
    pub hooks_dropped: Vec<String>,
    pub hooks_delay: Duration,
    pub state_file: bool,
    pub exit: Option<u8>,
    pub vim: bool,
    pub journal: Option<PathBuf>,
}

impl Faults {
    /// Reads the switches; a value that makes no sense is named in the error.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let get = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let is = |name: &str, wanted: &str| get(name).is_some_and(|value| value == wanted);
        let ms = |name: &str, or: u64| number(name, get(name), or).map(Duration::from_millis);
        let some_ms = |name: &str| get(name).map(|_| ms(name, 0)).transpose();
        Ok(Self {
            start: ms("CCMUX_DEMO_START_MS", 400)?,
            classic: is("CCMUX_DEMO_RENDERER", "classic"),
            placeholder: is("CCMUX_DEMO_PLACEHOLDER", "1"),
            ask_permissions: is("CCMUX_DEMO_PERMISSIONS", "ask"),
            swallow_enter: number("CCMUX_DEMO_SWALLOW_ENTER", get("CCMUX_DEMO_SWALLOW_ENTER"), 0)?,
            enter_deaf: ms("CCMUX_DEMO_ENTER_DEAF_MS", 0)?,
            enter_form: enter_form(get("CCMUX_DEMO_ENTER_FORM"))?,
            drop_paste: number("CCMUX_DEMO_DROP_PASTE", get("CCMUX_DEMO_DROP_PASTE"), 0)?,
            freeze: ms("CCMUX_DEMO_FREEZE_MS", 0)?,
            keys_late: ms("CCMUX_DEMO_KEYS_LATE_MS", 0)?,
            dialog_after_paste: some_ms("CCMUX_DEMO_DIALOG_AFTER_PASTE_MS")?,
            poison: get("CCMUX_DEMO_POISON"),
            idle_redraw: some_ms("CCMUX_DEMO_IDLE_REDRAW_MS")?,
            transcript_delay: ms("CCMUX_DEMO_TRANSCRIPT_DELAY_MS", 0)?,
            hook_runs: hook_runs(get("CCMUX_DEMO_HOOKS"))?,
            hooks_dropped: names(get("CCMUX_DEMO_HOOKS_DROP")),
            hooks_delay: ms("CCMUX_DEMO_HOOKS_DELAY_MS", 0)?,
            state_file: !is("CCMUX_DEMO_STATE_FILE", "off"),
            exit: exit_code(get("CCMUX_DEMO_EXIT"))?,
            vim: is("CCMUX_DEMO_VIM", "1"),
            journal: get("CCMUX_DEMO_JOURNAL").map(PathBuf::from),
        })
    }

    /// How each hook that fires is run.
    pub fn hook_runs(&self) -> Runs {
        Runs { times: self.hook_runs, delay: self.hooks_delay }
    }

    /// Hooks of this event are fired.
    pub fn fires(&self, event: &str) -> bool {
        self.hook_runs > 0 && !self.hooks_dropped.iter().any(|dropped| dropped == event)
    }
}

/// The environment, and over it what the file says that `CCMUX_DEMO_FAULTS` names; one that is missing says nothing.
pub fn switches() -> Result<impl Fn(&str) -> Option<String>, String> {
    let text = std::env::var_os("CCMUX_DEMO_FAULTS").map(std::fs::read_to_string);
    let text = match text {
        Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("CCMUX_DEMO_FAULTS: {error}"));
        }
        text => text.and_then(Result::ok).unwrap_or_default(),
    };
    let further = assignments(&text);
    Ok(move |name: &str| further.get(name).cloned().or_else(|| std::env::var(name).ok()))
}

fn assignments(text: &str) -> HashMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

fn number<N: std::str::FromStr>(name: &str, value: Option<String>, or: N) -> Result<N, String> {
    match value {
        None => Ok(or),
        Some(value) => value.parse().map_err(|_| format!("{name}: '{value}' is not a number")),
    }
}

fn enter_form(value: Option<String>) -> Result<Option<EnterForm>, String> {
    Ok(match value.as_deref() {
        None => None,
        Some("cr") => Some(EnterForm::Cr),
        Some("lf") => Some(EnterForm::Lf),
        Some("csi") => Some(EnterForm::Csi),
        Some(other) => return Err(format!("CCMUX_DEMO_ENTER_FORM: '{other}' is none of cr, lf, csi")),
    })
}

fn hook_runs(value: Option<String>) -> Result<u32, String> {
    if value.as_deref() == Some("off") { Ok(0) } else { number("CCMUX_DEMO_HOOKS", value, 1) }
}

fn exit_code(value: Option<String>) -> Result<Option<u8>, String> {
    value.map(|value| number("CCMUX_DEMO_EXIT", Some(value), 0)).transpose()
}

fn names(value: Option<String>) -> Vec<String> {
    value
        .unwrap_or_default()
        .split(',')
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(pairs: &[(&str, &str)]) -> Result<Faults, String> {
        Faults::from_lookup(|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()))
    }

    #[test]
    fn without_variables_nothing_is_wrong() {
        let plain = faults(&[]).unwrap();
        assert_eq!(plain.start, Duration::from_millis(400));
        assert!(
            plain.fires("Stop") && plain.state_file && plain.enter_form.is_none() && plain.exit.is_none()
        );
    }

    #[test]
    fn hooks_can_be_off_dropped_or_doubled() {
        assert!(!faults(&[("CCMUX_DEMO_HOOKS", "off")]).unwrap().fires("Stop"));
        assert_eq!(faults(&[("CCMUX_DEMO_HOOKS", "2")]).unwrap().hook_runs, 2);
        let dropped = faults(&[("CCMUX_DEMO_HOOKS_DROP", "Stop, UserPromptSubmit")]).unwrap();
        assert!(!dropped.fires("Stop") && !dropped.fires("UserPromptSubmit") && dropped.fires("SessionEnd"));
    }

    #[test]
    fn a_file_of_switches_is_read_line_by_line() {
        let further = assignments("CCMUX_DEMO_HOOKS=3\n\nCCMUX_DEMO_SWALLOW_ENTER = 2\nnonsense\n");
        assert_eq!(further.len(), 2);
        assert_eq!(further["CCMUX_DEMO_SWALLOW_ENTER"], "2");
    }

    #[test]
    fn nonsense_is_named() {
        assert!(
            faults(&[("CCMUX_DEMO_START_MS", "soon")]).unwrap_err().contains("CCMUX_DEMO_START_MS: 'soon'")
        );
        assert!(faults(&[("CCMUX_DEMO_ENTER_FORM", "tab")]).unwrap_err().contains("tab"));
    }
}
