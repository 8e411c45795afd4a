//! Daemon, agent, hook and client: do they answer, and are they of one version.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::unistd::{AccessFlags, access};
use tokio::process::Command;
use tokio::time::timeout;

use super::finding::Finding;
use super::patient::{Daemon, Patient};
use crate::agent::plan::{AgentPlan, PlanError};
use crate::agent::start::ask_version;
use crate::agent::version::{MEASURED, Version};
use crate::settings::expand;

/// Our own programs answer at once.
const LIMIT: Duration = Duration::from_secs(3);
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) fn daemon(patient: &Patient) -> Vec<Finding> {
    let check = "daemon";
    let (unit, program) = match &patient.setting.sources.instance {
        None => ("ccmuxd".to_owned(), "ccmuxd".to_owned()),
        Some(name) => (format!("ccmuxd@{name}"), format!("ccmuxd -i {name}")),
    };
    vec![match &patient.daemon {
        Daemon::Mute(why) => Finding::failure(
            check,
            why.clone(),
            "see its log; if it hangs, end it: the agent goes on, and a new daemon adopts it",
        ),
        Daemon::Down => Finding::warning(
            check,
            format!("no daemon runs for {}", patient.runtime_dir.display()),
            format!(
                "start it: systemctl --user start {unit}, or {program}; one that runs with another -i or CCMUX_RUNTIME_DIR is found by the same"
            ),
        ),
        Daemon::Runs(status) if status.degraded.is_empty() => Finding::ok(
            check,
            format!("pid {}, {}: {}", status.daemon_pid, status.state.word(), status.reason),
        ),
        Daemon::Runs(status) => Finding::warning(
            check,
            format!("pid {}, degraded: {}", status.daemon_pid, status.degraded.join(", ")),
            "agent: ccmux screen; mcp: see check port; disk: see check disk",
        ),
    }]
}

/// Hook, client and daemon beside each other should be of one version.
pub(super) async fn versions(patient: &Patient) -> Vec<Finding> {
    let check = "versions";
    let binaries = &patient.setting.binaries;
    let installed = expand(&patient.setting.settings.hook.path, &patient.setting.home);
    let client = binaries.ccmuxd.with_file_name("ccmux");
    let mut others = Vec::new();
    for (what, path) in [("hook", &binaries.hook), ("hook", &installed), ("client", &client)] {
        let is_used = path == &binaries.hook || (path == &installed && patient.status().is_some());
        if is_used || path.exists() {
            others.push((format!("{what} {}", path.display()), version_of(path).await));
        }
    }
    if let Some(status) = patient.status() {
        others.push(("the running daemon".to_owned(), Ok(status.daemon_version.clone())));
    }
    vec![judge_versions(check, &others)]
}

fn judge_versions(check: &'static str, others: &[(String, Result<String, String>)]) -> Finding {
    let broken: Vec<String> = others
        .iter()
        .filter_map(|(what, version)| Some(format!("{what}: {}", version.as_ref().err()?)))
        .collect();
    if !broken.is_empty() {
        return Finding::failure(
            check,
            broken.join("; "),
            "install ccmuxd, ccmux and ccmux-hook together, anew, and restart the daemon: it copies its hook",
        );
    }
    let differs = |(what, version): &(String, Result<String, String>)| {
        let version = version.as_ref().ok().filter(|version| *version != OWN_VERSION)?;
        Some(format!("{what} is {version}"))
    };
    let others: Vec<String> = others.iter().filter_map(differs).collect();
    match others.is_empty() {
        true => Finding::ok(check, format!("all are {OWN_VERSION}")),
        false => Finding::warning(
            check,
            format!("{}; this is {OWN_VERSION}", others.join(", ")),
            "restart the daemon: it runs the new program, and copies its hook. The agent goes on",
        ),
    }
}

async fn version_of(program: &Path) -> Result<String, String> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = match timeout(LIMIT, output).await {
        Err(_elapsed) => return Err("it gives no answer".to_owned()),
        Ok(output) => output.map_err(|error| error.to_string())?,
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().nth(1).map(str::to_owned);
    version.filter(|_| output.status.success()).ok_or_else(|| "it does not tell its version".to_owned())
}

/// The agent's program and directory, its version, and what ccmux knows of that version.
pub(super) async fn agent(patient: &Patient) -> Vec<Finding> {
    let check = "agent";
    let plan = match plan(patient) {
        Ok(plan) => plan,
        Err(error) => return vec![Finding::failure(check, error.to_string(), remedy_of(&error))],
    };
    let rules = match patient.setting.rule_book().map(|book| book.profile().to_owned()) {
        Ok(profile) => profile,
        Err(error) => {
            let remedy = "mend that file, or remove it: the built-in rules count then";
            return vec![Finding::failure(check, error.to_string(), remedy)];
        }
    };
    vec![match ask_version(&plan).await {
        Err(error) => {
            Finding::failure(check, error.to_string(), "run the command by hand: what does it say?")
        }
        Ok(version) => judge_version(plan.program(), &version, &rules),
    }]
}

fn judge_version(program: &str, version: &Version, rules: &str) -> Finding {
    let measured = MEASURED.map(|release| release.to_string()).join(", ");
    match version {
        Version::Unknown(_) => Finding::warning(
            "agent",
            format!("{program}: version {version}; the screen rules {rules} cover {measured}"),
            "it gets only the hooks that all versions know; ccmux doctor --screen tells whether its screens are understood",
        ),
        Version::Known(_) if !version.is_measured() => Finding::warning(
            "agent",
            format!(
                "{program}: version {version} was not measured; the screen rules {rules} cover {measured}"
            ),
            "look whether the checks hooks and state_file are ok; if so, it is understood so far",
        ),
        Version::Known(_) | Version::Demo(_) => Finding::ok(
            "agent",
            format!("{program}: version {version}, which the screen rules {rules} cover"),
        ),
    }
}

/// As the daemon would plan it, but for a working directory that is not there yet: the daemon makes that, we don't.
fn plan(patient: &Patient) -> Result<AgentPlan, PlanError> {
    let mut settings = patient.setting.settings.clone();
    let cwd = expand(&settings.agent.cwd, &patient.setting.home);
    if !cwd.exists() {
        may_be_made(&cwd)?;
        "/tmp".clone_into(&mut settings.agent.cwd);
    }
    AgentPlan::new(&settings, &patient.setting.home, patient.setting.environment.clone())
}

fn may_be_made(folder: &Path) -> Result<(), PlanError> {
    let above = folder.ancestors().find(|above| above.exists()).unwrap_or(folder);
    let may = above.is_dir() && access(above, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
    let why = || format!("agent.cwd {}: can't be made in {}", folder.display(), above.display());
    may.then_some(()).ok_or_else(|| PlanError::Settings(why()))
}

fn remedy_of(error: &PlanError) -> &'static str {
    match error {
        PlanError::NoProgram(_) => {
            "install Claude Code, or set agent.command (CCMUX_AGENT_COMMAND) to its path"
        }
        PlanError::Settings(_) => "choose another agent.cwd (CCMUX_AGENT_CWD)",
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

    #[test]
    fn another_version_is_a_warning_and_no_answer_a_failure() {
        let judge = |version: Result<String, String>| judge_versions("versions", &[("hook".into(), version)]);
        assert_eq!(judge(Ok(OWN_VERSION.into())).state, Health::Ok);
        let other = judge(Ok("0.0.1".into()));
        assert!(other.state == Health::Warning && other.detail.starts_with("hook is 0.0.1"), "{other:?}");
        assert_eq!(judge(Err("it gives no answer".into())).state, Health::Failure);
    }

    #[test]
    fn a_version_that_was_not_measured_is_a_warning() {
        for (answer, state) in [
            ("2.1.332 (Claude Code)", Health::Ok),
            ("2.1.333 (Claude Code)", Health::Warning),
            ("gpt 7", Health::Warning),
        ] {
            let finding = judge_version("claude", &Version::parse(answer), "claude-code");
            assert_eq!(finding.state, state, "{}", finding.detail);
        }
    }
}
