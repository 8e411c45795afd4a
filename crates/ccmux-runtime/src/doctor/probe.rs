//! Starts the agent once, beside everything: does its hook speak, does it publish its state, is its screen understood?
//!
//! ```text
//! scratch: config, project, run ─► the agent, as the daemon starts it, on a tmux server of its own
//!        control.sock ◄── ccmux-hook ◄── SessionStart ──┤
//!        config/sessions/PID.json ◄──── its state ──────┤      then its screen; then it is ended
//! ```
//!
//! It costs nothing: the agent has a configuration folder of its own, without a login, its API is an address where nobody
//! listens, and nothing is typed into it. So it says nothing about the user's login, nor about the user's own settings but
//! for `disableAllHooks`, which is read from them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ccmux_policy::event::FileState;
use ccmux_policy::screen::ScreenClass;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::INTERRUPTED;
use super::ear::Ear;
use super::finding::Finding;
use super::paste::Stand;
use super::patient::Patient;
use super::scratch::Scratch;
use crate::agent::launch::scrubbed_environment;
use crate::agent::plan::AgentPlan;
use crate::agent::process::{AgentProcess, start_time};
use crate::agent::start::AgentStart;
use crate::agent::state_file::{StateFile, StateFileWatcher};
use crate::agent::version_ahead::VersionAhead;
use crate::install::places::ClaudeFiles;
use crate::plain_file::read_text;
use crate::screen::{classify, plain_text};
use crate::terminal::{Pane, Terminal};

/// A cold start takes two seconds, on a busy machine some more.
const LIMIT: Duration = Duration::from_secs(15);
/// Claude's own settings are a page.
const MAX_SETTINGS_BYTES: u64 = 16 * 1024 * 1024;
const LOOK_PAUSE: Duration = Duration::from_millis(150);
/// Where nobody listens: whatever the agent would ask its API fails at once.
const NO_API: &str = "http://127.0.0.1:1";
/// A login must not be found, nor be asked about.
const SECRETS: [&str; 5] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
];
/// Not known by the process: a token that only this probe's hooks have.
const TOKEN: &str = "the doctor's own";

/// What a probe that was not made says.
pub(super) fn skipped(why: &str) -> Vec<Finding> {
    let one = |check| Finding::ok(check, format!("skipped: {why}"));
    vec![one("hooks"), one("state_file")]
}

pub(super) async fn probe(patient: &Patient, stop: &CancellationToken) -> Vec<Finding> {
    if let Some(file) = disables_hooks(patient) {
        let why = format!("{}: disableAllHooks is true, so that Claude runs no hook", file.display());
        let remedy = "remove it: without hooks ccmux knows turns from the transcript and the screen alone";
        return vec![Finding::failure("hooks", why, remedy), skipped("hooks are disabled").remove(1)];
    }
    let stand = match Scratch::new() {
        Ok(scratch) => (Stand::new(patient, &scratch), scratch),
        Err(error) => {
            return vec![Finding::failure("hooks", error.to_string(), "make room, or look at its mode")];
        }
    };
    let (stand, scratch) = stand;
    let findings = tokio::select! {
        findings = measure(patient, &stand, &scratch) => findings,
        () = stop.cancelled() => Err(INTERRUPTED.to_owned()),
    };
    stand.end().await;
    findings.unwrap_or_else(|why| {
        let remedy = "run the command of agent.command by hand, in agent.cwd: what does it say?";
        vec![Finding::failure("hooks", why, remedy), skipped("the agent could not be started").remove(1)]
    })
}

/// The user's own settings can silence every hook, ours included.
fn disables_hooks(patient: &Patient) -> Option<PathBuf> {
    let file = ClaudeFiles::of(&patient.environment, &patient.setting.home).settings;
    let settings: Value = serde_json::from_str(&read_text(&file, MAX_SETTINGS_BYTES).ok()?).ok()?;
    (settings["disableAllHooks"] == true).then_some(file)
}

async fn measure(patient: &Patient, stand: &Stand, scratch: &Scratch) -> Result<Vec<Finding>, String> {
    let plan = plan(patient, scratch)?;
    let ear = Ear::open(&scratch.run()).map_err(|error| error.to_string())?;
    let start = AgentStart {
        plan: &plan,
        hook: &patient.setting.binaries.hook,
        state_dir: &scratch.state(),
        runtime_dir: &scratch.run(),
        token: TOKEN,
        permission_s: patient.setting.settings.permission.hook_timeout_s(),
        launcher: &patient.setting.binaries.ccmuxd,
        version: &VersionAhead::default(),
        mcp: None,
    };
    let begin = Instant::now();
    let started = start.start(&stand.tmux, None).await?;
    let said = async { tokio::join!(hear(&ear), state(&plan, &started.pane)) };
    let (heard, state) = tokio::select! {
        said = said => said,
        () = gone(started.pane.pid) => (None, None),
    };
    let shown = shown(patient, stand).await?;
    Ok(vec![judge_hook(heard, begin, &shown), judge_state(state, &shown)])
}

/// The agent's own plan, in a place where nothing is the user's.
fn plan(patient: &Patient, scratch: &Scratch) -> Result<AgentPlan, String> {
    furnish(scratch).map_err(|error| error.to_string())?;
    let mut settings = patient.setting.settings.clone();
    settings.agent.cwd = scratch.project().display().to_string();
    let environment = scrubbed_environment(patient.setting.environment.clone());
    let environment = environment.into_iter().map(|(name, value)| (name.into(), value.into()));
    let mut plan =
        AgentPlan::new(&settings, &patient.setting.home, environment).map_err(|error| error.to_string())?;
    SECRETS.iter().for_each(|name| drop(plan.environment.remove(*name)));
    let config = scratch.config().display().to_string();
    for (name, value) in [
        ("CLAUDE_CONFIG_DIR", config.as_str()),
        ("ANTHROPIC_BASE_URL", NO_API),
        ("DISABLE_AUTOUPDATER", "1"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ] {
        plan.environment.insert(name.to_owned(), value.to_owned());
    }
    Ok(AgentPlan { config_dir: scratch.config(), ..plan })
}

/// What Claude asks of everybody once is settled in its scratch folder, and nowhere else.
fn furnish(scratch: &Scratch) -> std::io::Result<()> {
    let project = scratch.project().canonicalize()?.display().to_string();
    let state = json!({
        "hasCompletedOnboarding": true, "theme": "dark", "hasSeenAutoDefaultNotice": true,
        "projects": {project: {"hasTrustDialogAccepted": true}},
    });
    std::fs::write(scratch.config().join(".claude.json"), state.to_string())?;
    let settings = json!({"skipDangerousModePermissionPrompt": true});
    std::fs::write(scratch.config().join("settings.json"), settings.to_string())
}

/// Returns when the agent has ended.
async fn gone(pid: i32) {
    if let Ok(process) = AgentProcess::open(pid) {
        process.exited().await;
    }
}

/// The first hook of the session.
async fn hear(ear: &Ear) -> Option<(String, bool)> {
    let frame = timeout(LIMIT, ear.next()).await.ok()?.ok()?;
    Some((frame.event, frame.token.as_deref() == Some(TOKEN)))
}

/// What the agent says about itself.
async fn state(plan: &AgentPlan, pane: &Pane) -> Option<String> {
    let watcher =
        StateFileWatcher { dir: plan.sessions_dir(), pid: pane.pid, start_time: start_time(pane.pid)? };
    let (news, mut said) = mpsc::channel::<StateFile>(8);
    let shutdown = CancellationToken::new();
    let first = async {
        while let Some(state) = said.recv().await {
            if state.state != FileState::Absent {
                return Some(state.version.unwrap_or_else(|| "an unknown version".to_owned()));
            }
        }
        None
    };
    tokio::select! {
        version = first => version,
        () = watcher.run(news, shutdown) => None,
        () = sleep(LIMIT) => None,
    }
}

/// What its screen shows once some rule fits, or at the end of patience: the class, and the last row.
async fn shown(patient: &Patient, stand: &Stand) -> Result<(ScreenClass, String), String> {
    let book = patient.setting.rule_book().map_err(|error| error.to_string())?;
    let begin = Instant::now();
    loop {
        let capture = stand.tmux.capture().await.map_err(|error| error.to_string())?;
        let class = classify(&book.rules(), &capture.text).class;
        let text = plain_text(&capture.text);
        let last = last_row(&text);
        if capture.pane.dead.is_some() {
            return Err(format!("the agent ended at once and said: {last}"));
        }
        if class == ScreenClass::Ready || begin.elapsed() > LIMIT / 2 {
            return Ok((class, last));
        }
        sleep(LOOK_PAUSE).await;
    }
}

/// The last thing that the program itself wrote.
fn last_row(text: &str) -> String {
    let is_tmuxs = |row: &&str| row.is_empty() || row.starts_with("Pane is dead");
    text.lines().rev().map(str::trim).find(|row| !is_tmuxs(row)).unwrap_or_default().to_owned()
}

fn judge_hook(
    heard: Option<(String, bool)>,
    begin: Instant,
    (class, last): &(ScreenClass, String),
) -> Finding {
    match heard {
        Some((event, true)) if *class == ScreenClass::Unknown => Finding::warning(
            "hooks",
            format!("{event} came, but no screen rule fits what the agent shows: {last}"),
            "ccmux doctor --screen on the real session; CONFIGURATION.md tells how to add a rule",
        ),
        Some((event, true)) => {
            let ms = begin.elapsed().as_millis();
            Finding::ok("hooks", format!("{event} came with the session's token; understood after {ms} ms"))
        }
        Some((event, false)) => Finding::failure(
            "hooks",
            format!("{event} came without the session's token: ccmux would take it for another session's"),
            "does agent.command run the agent in a cleaned environment? it must keep CCMUX_SESSION_TOKEN",
        ),
        None => Finding::failure(
            "hooks",
            format!("no hook came within {} s; the agent's last row: {last}", LIMIT.as_secs()),
            "does agent.command pass its arguments on (--settings)? is allowManagedHooksOnly set? may the hook be run?",
        ),
    }
}

fn judge_state(state: Option<String>, (_, last): &(ScreenClass, String)) -> Finding {
    match state {
        Some(version) => Finding::ok("state_file", format!("the agent publishes its state ({version})")),
        None => Finding::warning(
            "state_file",
            format!("the agent publishes no state; its last row: {last}"),
            "older versions have none: hooks and screen must do; ccmux works, and sees some things later",
        ),
    }
}
