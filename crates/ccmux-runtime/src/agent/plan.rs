//! How the agent is started: its command line, environment and directories, worked out from the settings once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ccmux_wire::hook::TOKEN_VARIABLE;
use ccmux_wire::id::SessionId;

use super::launch::{LaunchFile, scrubbed_environment};
use crate::settings::{Settings, expand};

/// Where our own arguments go, if the command names the place.
const ARGUMENTS_PLACE: &str = "{args}";

/// Why the agent can't be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The settings name something that can't be. Exit code 78.
    #[error("{0}")]
    Settings(String),
    /// The program is not installed. Exit code 69.
    #[error("there is no program `{0}`: install it, or set agent.command (CCMUX_AGENT_COMMAND)")]
    NoProgram(String),
}

/// The plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPlan {
    /// The command, split; `{args}` still in it.
    pub command: Vec<String>,
    /// The complete environment.
    pub environment: BTreeMap<String, String>,
    /// The working directory.
    pub cwd: PathBuf,
    /// Claude's own directory: `CLAUDE_CONFIG_DIR` or `~/.claude`.
    pub config_dir: PathBuf,
}

impl AgentPlan {
    /// Plans from settings and the daemon's environment.
    ///
    /// # Errors
    /// If the working directory is refused or the program can't be found.
    pub fn new(
        settings: &Settings,
        home: &Path,
        daemon_environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, PlanError> {
        let mut environment = scrubbed_environment(daemon_environment);
        environment.extend(settings.agent.env.clone());
        let command = shell_words::split(&settings.agent.command)
            .map_err(|_| PlanError::Settings("agent.command: a quote is not closed".into()))?;
        check_program(&command, &environment)?;
        let cwd = expand(&settings.agent.cwd, home);
        check_cwd(&cwd, home, settings.agent.allow_home)?;
        let config_dir = match environment.get("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()) {
            Some(dir) => PathBuf::from(dir),
            None => environment.get("HOME").map_or(home, Path::new).join(".claude"),
        };
        Ok(Self { command, environment, cwd, config_dir })
    }

    /// Where transcripts are.
    pub fn projects_dir(&self) -> PathBuf {
        self.config_dir.join("projects")
    }

    /// Where state files are.
    pub fn sessions_dir(&self) -> PathBuf {
        self.config_dir.join("sessions")
    }

    /// The agent's program as named.
    pub fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// The launch file for one start.
    pub fn launch(
        &self,
        settings_file: &Path,
        resume: Option<&SessionId>,
        token: &str,
        runtime_dir: &Path,
    ) -> LaunchFile {
        let mut own = vec!["--settings".to_owned(), settings_file.display().to_string()];
        if let Some(session) = resume {
            own.extend(["--resume".to_owned(), session.to_string()]);
        }
        let mut env = self.environment.clone();
        env.insert(TOKEN_VARIABLE.to_owned(), token.to_owned());
        env.insert("CCMUX_RUNTIME_DIR".to_owned(), runtime_dir.display().to_string());
        LaunchFile { argv: with_arguments(&self.command, own), env, cwd: self.cwd.clone() }
    }
}

fn with_arguments(command: &[String], own: Vec<String>) -> Vec<String> {
    match command.iter().position(|word| word == ARGUMENTS_PLACE) {
        Some(place) => [&command[..place], &own, &command[place + 1..]].concat(),
        None => [command, &own].concat(),
    }
}

fn check_program(command: &[String], environment: &BTreeMap<String, String>) -> Result<(), PlanError> {
    let program = command.first().ok_or_else(|| PlanError::Settings("agent.command is empty".into()))?;
    let found = if program.contains('/') {
        is_executable(Path::new(program))
    } else {
        let path = environment.get("PATH").map_or("", String::as_str);
        path.split(':').filter(|dir| !dir.is_empty()).any(|dir| is_executable(&Path::new(dir).join(program)))
    };
    if found { Ok(()) } else { Err(PlanError::NoProgram(program.clone())) }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Claude Code never trusts the home folder for good, and `/` is everything: both only when asked for.
fn check_cwd(cwd: &Path, home: &Path, allowed: bool) -> Result<(), PlanError> {
    let refused = |why: &str| Err(PlanError::Settings(format!("agent.cwd {}: {why}", cwd.display())));
    if !cwd.is_absolute() {
        return refused("give an absolute path, or one that begins with ~/");
    }
    let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    };
    if !allowed && (same(cwd, home) || same(cwd, Path::new("/"))) {
        return refused(
            "the home folder and / are refused; choose a project folder, or set agent.allow_home = true",
        );
    }
    std::fs::create_dir_all(cwd).or_else(|error| refused(&format!("can't be made: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(change: impl FnOnce(&mut Settings)) -> Result<AgentPlan, PlanError> {
        let home = tempfile::tempdir().unwrap();
        let mut settings = Settings::defaults(None);
        settings.agent.command = "sh -c 'echo hi'".into();
        change(&mut settings);
        let environment =
            [("HOME", home.path().to_str().unwrap()), ("PATH", "/usr/bin:/bin"), ("CLAUDECODE", "1")];
        AgentPlan::new(&settings, home.path(), environment.map(|(k, v)| (k.into(), v.into())))
    }

    #[test]
    fn our_arguments_go_to_the_end_or_where_the_command_says() {
        let end = plan(|_| {}).unwrap().launch(
            Path::new("/s.json"),
            Some(&SessionId::new("x")),
            "t",
            Path::new("/r"),
        );
        assert_eq!(end.argv, ["sh", "-c", "echo hi", "--settings", "/s.json", "--resume", "x"]);
        let placed = plan(|settings| settings.agent.command = "sh {args} -- last".into()).unwrap();
        let placed = placed.launch(Path::new("/s.json"), None, "t", Path::new("/r"));
        assert_eq!(placed.argv, ["sh", "--settings", "/s.json", "--", "last"]);
        assert_eq!(placed.env["CCMUX_SESSION_TOKEN"], "t");
        assert!(!placed.env.contains_key("CLAUDECODE"), "a parent's mark must not be inherited");
    }

    #[test]
    fn a_missing_program_and_the_home_folder_are_refused_with_the_remedy() {
        let error = plan(|settings| settings.agent.command = "no-such-program".into()).unwrap_err();
        assert!(matches!(&error, PlanError::NoProgram(name) if name == "no-such-program"), "{error}");
        let error = plan(|settings| settings.agent.cwd = "~".into()).unwrap_err().to_string();
        assert!(error.contains("agent.allow_home"), "{error}");
        let error = plan(|settings| settings.agent.cwd = "/".into()).unwrap_err().to_string();
        assert!(error.contains("agent.cwd"), "{error}");
        assert!(
            plan(|settings| (settings.agent.cwd, settings.agent.allow_home) = ("~".into(), true)).is_ok()
        );
    }
}
