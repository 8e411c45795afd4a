//! Which version of the agent would be started: asked before each start, for Claude Code updates itself.
//!
//! `claude --version` prints `2.1.332 (Claude Code)`. Anything else, also a number from a wrapper such as `npx`, is
//! [`Version::Unknown`]: what depends on the version then uses what every version has.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

/// How long an agent may take to tell.
pub const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// What the program says of itself, after its number.
const PRODUCT: &str = "(Claude Code)";
/// What our demo agent's answer ends with.
const DEMO: &str = "(ccmux-demo-agent)";
/// The most that is read of an answer.
const ANSWER_BYTES: u64 = 4096;

/// The versions whose screens, hooks and files were measured.
pub const MEASURED: [Release; 3] = [Release::new(2, 0, 76), Release::new(2, 1, 197), Release::new(2, 1, 332)];

/// The oldest version that ccmux works with: older ones refuse the settings file with our hooks as a whole, so that no turn
/// comes out and no receipt is seen.
pub const LEAST: Release = Release::new(2, 0, 76);

/// A version of Claude Code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// As published.
    Known(Release),
    /// Our own demo agent: it knows what the newest measured version knows. The text as it came.
    Demo(String),
    /// Not of the known form; the text as it came.
    Unknown(String),
}

/// `major.minor.patch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// 2 in `2.1.332`.
    pub major: u32,
    /// 1 in `2.1.332`.
    pub minor: u32,
    /// 332 in `2.1.332`.
    pub patch: u32,
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// The program is not there or can't be run.
    #[error("can't run `{program} --version`: {source}")]
    Start {
        /// The program.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// It did not end in time, and was killed.
    #[error("`{program} --version` gave no answer within {} s", limit.as_secs())]
    Silent {
        /// The program.
        program: String,
        /// The limit.
        limit: Duration,
    },
    /// It failed.
    #[error("`{program} --version` failed ({status}): {said}")]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The first line of its complaint.
        said: String,
    },
}

/// The question to one program.
#[derive(Debug, Clone)]
pub struct VersionQuestion {
    /// `argv[0]` of the agent's command, looked up in `PATH` if it has no slash.
    pub program: OsString,
    /// The whole environment to ask in; `None`: our own.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// How long to wait.
    pub limit: Duration,
}

impl Version {
    /// Parses the first line of the answer.
    pub fn parse(answer: &str) -> Self {
        let line = answer.lines().next().unwrap_or_default().trim();
        let number = line.strip_suffix(PRODUCT).map(str::trim);
        match number.and_then(Release::parse) {
            Some(release) => Self::Known(release),
            None if line.ends_with(DEMO) => Self::Demo(line.to_owned()),
            None => Self::Unknown(line.chars().take(80).collect()),
        }
    }

    /// Whether it came out after all of the [`MEASURED`]: what is known of hooks and screens may not hold.
    pub fn is_newer_than_measured(&self) -> bool {
        matches!(self, Self::Known(release) if MEASURED.iter().all(|measured| release > measured))
    }

    /// Why it can't be used, if it is older than [`LEAST`].
    pub fn refused(&self) -> Option<String> {
        let Self::Known(release) = self else { return None };
        (*release < LEAST).then(|| {
            format!(
                "Claude Code {release} is too old: ccmux needs at least {LEAST} (update it: `claude update`)"
            )
        })
    }

    /// Whether it is one of the [`MEASURED`].
    pub fn is_measured(&self) -> bool {
        matches!(self, Self::Known(release) if MEASURED.contains(release))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(release) => release.fmt(f),
            Self::Demo(text) => f.write_str(text),
            Self::Unknown(text) => write!(f, "unknown ({text:?})"),
        }
    }
}

impl Release {
    /// A release by its numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(|number| number.parse::<u32>().ok());
        let release = Self::new(numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(release)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl VersionQuestion {
    /// The usual question: our own environment, [`VERSION_LIMIT`].
    pub fn to(program: impl AsRef<OsStr>) -> Self {
        Self { program: program.as_ref().to_owned(), environment: None, limit: VERSION_LIMIT }
    }

    /// Runs `PROGRAM --version`.
    ///
    /// # Errors
    /// If it can't be started, fails or says nothing in time. An answer that is not understood is no error.
    pub async fn ask(self) -> Result<Version, VersionError> {
        let program = self.program.to_string_lossy().into_owned();
        match timeout(self.limit, self.run(&program)).await {
            Ok(answer) => answer,
            Err(_elapsed) => Err(VersionError::Silent { program, limit: self.limit }),
        }
    }

    async fn run(&self, program: &str) -> Result<Version, VersionError> {
        let start_error = |source| VersionError::Start { program: program.to_owned(), source };
        let mut child = self.command().spawn().map_err(start_error)?;
        let (said, complaint) =
            tokio::join!(read_answer(child.stdout.take()), read_answer(child.stderr.take()));
        let status = child.wait().await.map_err(start_error)?;
        if !status.success() {
            let said = complaint.lines().next().unwrap_or_default().chars().take(200).collect();
            return Err(VersionError::Failed { program: program.to_owned(), status, said });
        }
        Ok(Version::parse(&said))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        if let Some(environment) = &self.environment {
            command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
        }
        command
    }
}

/// The beginning of what it says; whoever says more finds the pipe closed.
async fn read_answer(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(ANSWER_BYTES).read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::time::Instant;

    use super::*;

    fn program(dir: &tempfile::TempDir, script: &str) -> PathBuf {
        let path = dir.path().join("agent");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    async fn ask(script: &str) -> Result<Version, VersionError> {
        let dir = tempfile::tempdir().unwrap();
        let question =
            VersionQuestion { limit: Duration::from_secs(5), ..VersionQuestion::to(program(&dir, script)) };
        question.ask().await
    }

    #[test]
    fn the_published_form_is_understood() {
        assert_eq!(Version::parse("2.1.332 (Claude Code)\n"), Version::Known(Release::new(2, 1, 332)));
        assert_eq!(Version::parse("2.0.76 (Claude Code)"), Version::Known(Release::new(2, 0, 76)));
    }

    #[test]
    fn every_other_form_is_unknown() {
        for text in
            ["", "10.9.2", "2.1 (Claude Code)", "2.1.3.4 (Claude Code)", "2.1.332-beta (Claude Code)", "v1"]
        {
            assert_eq!(Version::parse(text), Version::Unknown(text.to_owned()));
        }
    }

    #[test]
    fn only_what_came_out_after_all_measured_ones_is_newer() {
        let newer = |text: &str| Version::parse(text).is_newer_than_measured();
        assert!(newer("2.1.333 (Claude Code)") && newer("3.0.0 (Claude Code)"));
        assert!(!newer("2.1.332 (Claude Code)") && !newer("2.0.1 (Claude Code)"));
        assert!(!newer("9.9.9") && !newer("0.1.0 (ccmux-demo-agent)"));
    }

    #[test]
    fn releases_are_ordered_by_number_and_not_by_text() {
        assert!(Release::new(2, 0, 76) < Release::new(2, 1, 9));
        assert!(Release::new(2, 1, 9) < Release::new(2, 1, 332));
    }

    #[tokio::test]
    async fn the_program_is_asked() {
        let version = ask(r#"[ "$1" = --version ] && echo "2.1.332 (Claude Code)""#).await.unwrap();
        assert_eq!(version.to_string(), "2.1.332");
    }

    /// Fault 78.
    #[test]
    fn a_version_that_is_too_old_is_refused_by_its_number_and_an_unknown_one_is_not() {
        let refused = Version::Known(Release::new(2, 0, 30)).refused().unwrap();
        assert!(refused.contains("2.0.30") && refused.contains("at least 2.0.76"), "{refused}");
        assert_eq!(Version::Known(LEAST).refused(), None);
        assert_eq!(Version::Unknown("x".into()).refused(), None);
    }

    #[tokio::test]
    async fn a_failure_is_told_with_its_complaint() {
        let error = ask("echo 'node: not found' >&2; exit 127").await.unwrap_err().to_string();
        assert!(error.contains("node: not found") && error.contains("127"), "{error}");
        let missing = VersionQuestion::to("/no/such/agent").ask().await.unwrap_err().to_string();
        assert!(missing.contains("/no/such/agent"), "{missing}");
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_ended_at_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let program = program(&dir, "exec sleep 60");
        let started = Instant::now();
        let question = VersionQuestion { limit: Duration::from_millis(200), ..VersionQuestion::to(program) };
        assert!(matches!(question.ask().await, Err(VersionError::Silent { .. })));
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[tokio::test]
    async fn a_program_that_floods_is_not_kept_in_memory() {
        let version =
            ask("echo '2.1.332 (Claude Code)'; head -c 1000000 /dev/zero 2>/dev/null; exit 0").await.unwrap();
        assert_eq!(version, Version::Known(Release::new(2, 1, 332)));
    }

    #[tokio::test]
    async fn the_given_environment_is_the_whole_environment() {
        let dir = tempfile::tempdir().unwrap();
        let program = program(&dir, r#"echo "2.1.$N (Claude Code)"; [ -z "$HOME" ]"#);
        let environment = Some(vec![("N".into(), "5".into()), ("PATH".into(), "/usr/bin:/bin".into())]);
        let question = VersionQuestion { environment, ..VersionQuestion::to(program) };
        assert_eq!(question.ask().await.unwrap(), Version::Known(Release::new(2, 1, 5)));
    }
}
