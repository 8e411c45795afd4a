//! `ccmuxd doctor`, and so `ccmux doctor`: what [`ccmux_runtime::doctor`] measured, for people or as JSON.
//!
//! ```text
//! ok       paste        a guarded paste came through whole, 92 ms with its pane
//! warning  linger       lingering is off for ann: ...
//!                       → loginctl enable-linger
//! 26 checks: 1 warning, no failure
//! ```
//!
//! Exit codes: 0 no check failed, 1 one did.

pub mod screen;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use ccmux_runtime::daemon::Setting;
use ccmux_runtime::doctor::{Finding, Health, Patient, World, examine};

use crate::fail;

/// A check that hangs is left behind.
const ENDS_WITHIN: Duration = Duration::from_millis(200);

/// Runs it. People see each finding as it comes.
pub fn run(setting: Setting, json: bool, probe: bool) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(1, &format!("the runtime can't start: {error}")),
    };
    let mut found = Vec::new();
    let mut tell = |finding: Finding| {
        if !json {
            print(&in_words(&finding));
        }
        found.push(finding);
    };
    runtime.block_on(async {
        let patient = Patient::new(setting, World::default()).await;
        examine(patient, probe, &mut tell).await;
    });
    runtime.shutdown_timeout(ENDS_WITHIN);
    print(&if json { in_json(&found) } else { summary(&found) });
    if count(&found, Health::Failure) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A reader that goes away (`| head`) is no failure.
fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

fn in_json(found: &[Finding]) -> String {
    serde_json::to_string(found).map(|line| line + "\n").unwrap_or_default()
}

fn in_words(finding: &Finding) -> String {
    let row = format!("{:<8} {:<12} {}\n", finding.state.word(), finding.check, harmless(&finding.detail));
    match &finding.remedy {
        Some(remedy) => format!("{row}{:<21} \u{2192} {}\n", "", harmless(remedy)),
        None => row,
    }
}

fn count(found: &[Finding], state: Health) -> usize {
    found.iter().filter(|finding| finding.state == state).count()
}

fn summary(found: &[Finding]) -> String {
    let of = |state, one: &str| match count(found, state) {
        0 => format!("no {one}"),
        1 => format!("1 {one}"),
        many => format!("{many} {one}s"),
    };
    format!(
        "{} checks: {}, {}\n",
        found.len(),
        of(Health::Warning, "warning"),
        of(Health::Failure, "failure")
    )
}

/// What other programs said must not command the terminal that it is shown on.
fn harmless(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}
