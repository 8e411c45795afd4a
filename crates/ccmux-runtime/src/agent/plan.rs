//! How the agent is started: its command line, environment and directories, worked out from the settings once.
//!
//! It starts nothing, and knows no pane and no process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ccmux_wire::hook::TOKEN_VARIABLE;
use ccmux_wire::id::SessionId;
use rustix::process::{Resource, getrlimit};

use super::launch::{LaunchFile, scrubbed_environment};
use crate::program::find;
use crate::settings::{Settings, expand};

/// Where our own arguments go, if the command names the place.
const ARGUMENTS_PLACE: &str = "{args}";

/// Says that a process lives in ccmux, and in which version of it.
const MARK: &str = "CCMUX";

/// Where no proxy may stand between: our own HTTP server. Some programs read the one name, some the other.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "::1"];

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
    /// How many descriptors it may open: what the daemon was given, before it allows itself more.
    pub descriptors: Option<u64>,
}

/// What Claude Code is told by files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedFiles {
    /// `--settings`
    pub settings: PathBuf,
    /// `--mcp-config`; none where there is nothing to connect to.
    pub mcp: Option<PathBuf>,
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
        let environment = agent_environment(settings, daemon_environment);
        let command = shell_words::split(&settings.agent.command)
            .map_err(|_| PlanError::Settings("agent.command: a quote is not closed".into()))?;
        check_program(&command, &environment)?;
        let cwd = expand(&settings.agent.cwd, home);
        check_cwd(&cwd, home, settings.agent.allow_home)?;
        let config_dir = match environment.get("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()) {
            Some(dir) => PathBuf::from(dir),
            None => environment.get("HOME").map_or(home, Path::new).join(".claude"),
        };
        let descriptors = getrlimit(Resource::Nofile).current;
        Ok(Self { command, environment, cwd, config_dir, descriptors })
    }

    /// Where transcripts are.
    pub fn projects_dir(&self) -> PathBuf {
        self.config_dir.join("projects")
    }

    /// Where Claude keeps the transcript of a session in our working directory (F 40; every character that is no letter
    /// or digit becomes `-`). Hooks name it too, and are believed first.
    pub fn transcript_of(&self, session: &SessionId) -> PathBuf {
        let cwd = self.cwd.canonicalize().unwrap_or_else(|_| self.cwd.clone());
        let dash = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let folder: String = cwd.to_string_lossy().chars().map(dash).collect();
        self.projects_dir().join(folder).join(format!("{session}.jsonl"))
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
        files: &GeneratedFiles,
        resume: Option<&SessionId>,
        token: &str,
        runtime_dir: &Path,
    ) -> LaunchFile {
        let mut own = vec!["--settings".to_owned(), files.settings.display().to_string()];
        if let Some(mcp) = &files.mcp {
            own.extend(["--mcp-config".to_owned(), mcp.display().to_string()]);
        }
        if let Some(session) = resume {
            own.extend(["--resume".to_owned(), session.to_string()]);
        }
        let mut env = self.environment.clone();
        env.insert(TOKEN_VARIABLE.to_owned(), token.to_owned());
        env.insert(MARK.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        env.insert("CCMUX_RUNTIME_DIR".to_owned(), runtime_dir.display().to_string());
        LaunchFile {
            argv: with_arguments(&self.command, own),
            env,
            cwd: self.cwd.clone(),
            descriptors: self.descriptors,
        }
    }
}

/// Adds loopback to what the user has; where only one of the names is set, the other one gets the same.
fn add_no_proxy(environment: &mut BTreeMap<String, String>) {
    let [upper, lower] = NO_PROXY.map(|name| environment.get(name).cloned());
    for (name, own, other) in [(NO_PROXY[0], &upper, &lower), (NO_PROXY[1], &lower, &upper)] {
        let value = own.as_ref().or(other.as_ref()).map_or("", String::as_str);
        let there: Vec<&str> = value.split(',').map(str::trim).filter(|host| !host.is_empty()).collect();
        let missing = LOOPBACK.into_iter().filter(|host| !there.contains(host) && !there.contains(&"*"));
        let all: Vec<&str> = there.iter().copied().chain(missing).collect();
        environment.insert(name.to_owned(), all.join(","));
    }
}

/// The agent's environment: the daemon's without what is not the agent's, and `agent.env` on top.
pub fn agent_environment(
    settings: &Settings,
    daemon_environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> BTreeMap<String, String> {
    let mut environment = scrubbed_environment(daemon_environment);
    environment.extend(settings.agent.env.clone());
    add_no_proxy(&mut environment);
    environment
}

fn with_arguments(command: &[String], own: Vec<String>) -> Vec<String> {
    match command.iter().position(|word| word == ARGUMENTS_PLACE) {
        Some(place) => [&command[..place], &own, &command[place + 1..]].concat(),
        None => [command, &own].concat(),
    }
}

fn check_program(command: &[String], environment: &BTreeMap<String, String>) -> Result<(), PlanError> {
    let program = command.first().ok_or_else(|| PlanError::Settings("agent.command is empty".into()))?;
    let path = environment.get("PATH").map_or("", String::as_str);
    find(program, path).map(drop).ok_or_else(|| PlanError::NoProgram(program.clone()))
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
        let files = GeneratedFiles { settings: "/s.json".into(), mcp: None };
        let end = plan(|_| {}).unwrap().launch(&files, Some(&SessionId::new("x")), "t", Path::new("/r"));
        assert_eq!(end.argv, ["sh", "-c", "echo hi", "--settings", "/s.json", "--resume", "x"]);
        let placed = plan(|settings| settings.agent.command = "sh {args} -- last".into()).unwrap();
        let files = GeneratedFiles { mcp: Some("/m.json".into()), ..files };
        let placed = placed.launch(&files, None, "t", Path::new("/r"));
        assert_eq!(placed.argv, ["sh", "--settings", "/s.json", "--mcp-config", "/m.json", "--", "last"]);
        assert_eq!(placed.env["CCMUX_SESSION_TOKEN"], "t");
        assert_eq!(placed.env["CCMUX"], env!("CARGO_PKG_VERSION"));
        assert!(!placed.env.contains_key("CLAUDECODE"), "a parent's mark must not be inherited");
    }

    #[test]
    fn no_proxy_stands_between_the_agent_and_us_and_the_users_list_stays() {
        let with = |pairs: &[(&str, &str)]| {
            let mut environment = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            add_no_proxy(&mut environment);
            NO_PROXY.map(|name| environment[name].clone())
        };
        let loopback = "127.0.0.1,localhost,::1";
        assert_eq!(with(&[]), [loopback, loopback]);
        assert_eq!(
            with(&[("no_proxy", "a.b, localhost")]),
            ["a.b,localhost,127.0.0.1,::1"; 2].map(String::from)
        );
        assert_eq!(with(&[("NO_PROXY", "*"), ("no_proxy", "x")]), ["*".to_owned(), format!("x,{loopback}")]);
        assert!(plan(|_| {}).unwrap().environment["NO_PROXY"].contains("127.0.0.1"));
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
