//! What is on the agent's pane now, classified, with the reasons: `ccmux doctor --screen`.
//!
//! ```text
//! settings ─► rules, tmux ─► one capture ─► explain ─► ScreenReport
//! ```
//!
//! It needs no daemon and disturbs none: one capture, no key. It says nothing about what may be injected; that is
//! `ccmux why`, which knows more than one moment.

use std::path::PathBuf;

use ccmux_policy::screen::ScreenClass;
use serde::Serialize;

use crate::daemon::{DaemonError, Setting, tmux_settings};
use crate::screen::{Explanation, Mark, PromptBox, explain};
use crate::settings::expand;
use crate::terminal::{Pane, Terminal, TerminalError};
use crate::tmux::Tmux;

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// What a start of the daemon would refuse, too.
    #[error(transparent)]
    Refused(#[from] DaemonError),
    /// There is nothing to look at.
    #[error("{source}: is ccmuxd started, and are these its settings?")]
    NoScreen {
        /// What the terminal said.
        #[from]
        source: TerminalError,
    },
}

impl DoctorError {
    /// The documented exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(error) => error.exit_code(),
            Self::NoScreen { .. } => 1,
        }
    }
}

/// The pane that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PaneReport {
    /// tmux's name for it.
    pub id: String,
    /// Its own process.
    pub pid: i32,
    /// Whether that has ended.
    pub dead: bool,
    /// In copy mode or another one: keys don't reach the agent.
    pub in_mode: bool,
    /// Columns and rows.
    pub size: (u16, u16),
}

/// The prompt box, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BoxReport {
    /// Rows of text in it.
    pub rows: usize,
    /// Rows scrolled away above.
    pub hidden_above: u32,
    /// Rows scrolled away below.
    pub hidden_below: u32,
    /// It shows a suggestion, which counts as empty.
    pub placeholder: bool,
    /// Nothing was typed into it.
    pub empty: bool,
}

/// What one look says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScreenReport {
    /// Some rule fits.
    pub understood: bool,
    /// `ready`, `draft`, `busy`, `queued`, `dialog`, `shell`, `unknown`.
    pub class: ScreenClass,
    /// Which dialog.
    pub dialog: Option<String>,
    /// The rule that decided, and the row it fits.
    pub decided_by: Option<Mark>,
    /// The prompt box, where there is one.
    #[serde(rename = "box")]
    pub prompt_box: Option<BoxReport>,
    /// `press_enter`, `stashed`, `vim_normal`.
    pub facts: Vec<&'static str>,
    /// Every pattern that fits a row.
    pub marks: Vec<Mark>,
    /// Which profile's rules.
    pub profile: String,
    /// `built in`, or the file.
    pub rules: String,
    /// The pane.
    pub pane: PaneReport,
}

/// Looks, and says what it makes of it.
///
/// # Errors
/// If there are no rules, no tmux, or no pane.
pub async fn look(setting: &Setting) -> Result<ScreenReport, DoctorError> {
    let book = setting.rule_book().map_err(DaemonError::from)?;
    let origin = book.reread().map_err(DaemonError::from)?;
    let state_dir: PathBuf = expand(&setting.settings.state_dir, &setting.home);
    let terminal = Tmux::new(tmux_settings(setting, &state_dir));
    terminal.version().await.map_err(DaemonError::from)?;
    let capture = terminal.capture().await?;
    let explanation = explain(&book.rules(), &capture.text);
    Ok(report(explanation, &capture.pane, book.profile().to_owned(), origin.to_string()))
}

fn report(explanation: Explanation, pane: &Pane, profile: String, rules: String) -> ScreenReport {
    let Explanation { screen, decided_by, marks } = explanation;
    let facts =
        [("press_enter", screen.press_enter), ("stashed", screen.stashed), ("vim_normal", screen.vim_normal)];
    ScreenReport {
        understood: screen.class != ScreenClass::Unknown,
        class: screen.class,
        dialog: screen.dialog,
        decided_by,
        prompt_box: screen.prompt_box.as_ref().map(box_report),
        facts: facts.into_iter().filter(|(_, is)| *is).map(|(fact, _)| fact).collect(),
        marks,
        profile,
        rules,
        pane: PaneReport {
            id: pane.id.clone(),
            pid: pane.pid,
            dead: pane.dead.is_some(),
            in_mode: pane.in_mode,
            size: (pane.width, pane.height),
        },
    }
}

fn box_report(found: &PromptBox) -> BoxReport {
    BoxReport {
        rows: found.rows.len(),
        hidden_above: found.hidden_above,
        hidden_below: found.hidden_below,
        placeholder: found.placeholder,
        empty: found.is_empty(),
    }
}
