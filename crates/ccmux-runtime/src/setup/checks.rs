//! One step for each thing that a start needs: what is there, or what is missing with the remedy.
//!
//! The same functions as the daemon's start, in steps, so that all that is wrong is told at once. Like a start they make
//! the working directory, both directories and the copy of the hook.

use std::fmt;
use std::path::PathBuf;

use crate::agent::plan::AgentPlan;
use crate::agent::proxy;
use crate::agent::start::ask_version;
use crate::agent::version::{MEASURED, Version};
use crate::daemon::{DaemonError, Setting, install_hook, tmux_settings};
use crate::runtime_dir::{RuntimeDir, RuntimeDirError, StateDir};
use crate::screen::RuleBook;
use crate::settings::expand;
use crate::tmux::Tmux;

/// How one step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works, but the person should know.
    Note,
    /// A start would fail with that exit code.
    Bad(u8),
}

/// One line for the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// How it went.
    pub verdict: Verdict,
    /// What is there, or what is missing and the remedy.
    pub text: String,
}

impl Step {
    pub(super) fn ok(text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, text: text.into() }
    }

    pub(super) fn note(text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Note, text: text.into() }
    }

    fn bad(code: u8, text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad(code), text: text.into() }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Bad(_) => "missing",
        };
        write!(f, "{word:<8} {}", self.text)
    }
}

/// All that a look at the agent needs.
#[derive(Debug)]
pub struct Ground {
    pub(super) setting: Setting,
    pub(super) plan: AgentPlan,
    pub(super) rules: RuleBook,
    pub(super) version: Version,
    pub(super) hook: PathBuf,
    pub(super) terminal: Tmux,
    pub(super) dirs: Directories,
}

/// Who holds the directories.
#[derive(Debug)]
pub(super) enum Directories {
    /// We do: no daemon can start meanwhile.
    Ours(RuntimeDir, StateDir),
    /// A daemon does.
    Daemons { pid: i32, runtime_dir: PathBuf },
}

/// Runs all steps.
///
/// # Errors
/// The first step that failed, after all were told.
pub async fn check(setting: Setting, tell: &mut (dyn FnMut(&Step) + Send)) -> Result<Ground, Step> {
    let mut checks = Checks { setting: &setting, tell, failed: None };
    let terminal = checks.tmux().await;
    let plan = checks.agent();
    let version = match &plan {
        Some(plan) => checks.describe(plan).await,
        None => Version::Unknown(String::new()),
    };
    let rules = checks.rules();
    let hook = checks.hook();
    let dirs = checks.directories();
    checks.proxy(plan.as_ref());
    let failed = checks.failed.take();
    match (failed, plan, rules, hook, terminal, dirs) {
        (None, Some(plan), Some(rules), Some(hook), Some(terminal), Some(dirs)) => {
            Ok(Ground { setting, plan, rules, version, hook, terminal, dirs })
        }
        (failed, ..) => Err(failed.unwrap_or_else(|| Step::bad(1, "a step gave no result"))),
    }
}

struct Checks<'a> {
    setting: &'a Setting,
    tell: &'a mut (dyn FnMut(&Step) + Send),
    failed: Option<Step>,
}

impl Checks<'_> {
    fn tell(&mut self, step: Step) {
        (self.tell)(&step);
        if matches!(step.verdict, Verdict::Bad(_)) {
            self.failed.get_or_insert(step);
        }
    }

    fn bad<T>(&mut self, code: u8, why: impl Into<String>) -> Option<T> {
        self.tell(Step::bad(code, why));
        None
    }

    async fn tmux(&mut self) -> Option<Tmux> {
        let terminal = Tmux::new(tmux_settings(self.setting, &self.state_dir()));
        match terminal.version().await {
            Ok(version) => {
                self.tell(Step::ok(format!("tmux {version}")));
                Some(terminal)
            }
            Err(error) => {
                let error = DaemonError::from(error);
                self.bad(error.exit_code(), error.to_string())
            }
        }
    }

    fn state_dir(&self) -> PathBuf {
        expand(&self.setting.settings.state_dir, &self.setting.home)
    }

    /// The program and the working directory.
    fn agent(&mut self) -> Option<AgentPlan> {
        let environment = self.setting.environment.clone();
        match AgentPlan::new(&self.setting.settings, &self.setting.home, environment) {
            Ok(plan) => Some(plan),
            Err(error) => {
                let error = DaemonError::from(error);
                self.bad(error.exit_code(), error.to_string())
            }
        }
    }

    async fn describe(&mut self, plan: &AgentPlan) -> Version {
        let version = self.version(plan).await;
        self.tell(Step::ok(format!("working directory {}", plan.cwd.display())));
        version
    }

    async fn version(&mut self, plan: &AgentPlan) -> Version {
        let program = plan.program();
        match ask_version(plan).await {
            Ok(version) if version.is_measured() => {
                self.tell(Step::ok(format!("agent {program}: version {version}, which was measured")));
                version
            }
            Ok(version) => {
                self.tell(Step::note(format!(
                    "agent {program}: version {version} was not measured ({} were): it gets only the hooks that all versions know",
                    measured()
                )));
                version
            }
            Err(error) => {
                self.tell(Step::note(format!("agent {program}: its version is unknown: {error}")));
                Version::Unknown("unknown".to_owned())
            }
        }
    }

    fn rules(&mut self) -> Option<RuleBook> {
        match self.setting.rule_book() {
            Ok(rules) => Some(rules),
            Err(error) => {
                let error = DaemonError::from(error);
                self.bad(error.exit_code(), error.to_string())
            }
        }
    }

    fn hook(&mut self) -> Option<PathBuf> {
        if let Some(missing) = self.setting.binaries.missing() {
            return self.bad(69, missing);
        }
        match install_hook(self.setting) {
            Ok(hook) => {
                self.tell(Step::ok(format!("hook {}", hook.display())));
                Some(hook)
            }
            Err(error) => self.bad(error.exit_code(), error.to_string()),
        }
    }

    fn directories(&mut self) -> Option<Directories> {
        let runtime = expand(&self.setting.settings.runtime_dir, &self.setting.home);
        let runtime_dir = match RuntimeDir::claim(&runtime) {
            Ok(runtime_dir) => runtime_dir,
            Err(RuntimeDirError::AlreadyRunning { pid, dir }) => {
                let text = format!("runtime directory {}, where ccmuxd runs (pid {pid})", dir.display());
                self.tell(Step::ok(text));
                return Some(Directories::Daemons { pid, runtime_dir: dir });
            }
            Err(error) => return self.bad(error.exit_code(), error.to_string()),
        };
        let text = format!("runtime directory {}", runtime_dir.path().display());
        self.tell(Step::ok(text));
        match StateDir::claim(&self.state_dir()) {
            Ok(state_dir) => {
                self.tell(Step::ok(format!("state directory {}", state_dir.path().display())));
                Some(Directories::Ours(runtime_dir, state_dir))
            }
            Err(error) => self.bad(error.exit_code(), error.to_string()),
        }
    }

    fn proxy(&mut self, plan: Option<&AgentPlan>) {
        let expect = &self.setting.settings.proxy.expect;
        if let Some(warning) = plan.and_then(|plan| proxy::unexpected(&plan.environment, expect)) {
            self.tell(Step::note(warning.to_string()));
        }
    }
}

fn measured() -> String {
    MEASURED.map(|release| release.to_string()).join(", ")
}
