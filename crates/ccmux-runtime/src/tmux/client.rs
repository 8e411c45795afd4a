//! Runs one `tmux` process: arguments in, output out, at most 5 s.
//!
//! It knows the server's socket and the environment that a server may be started with. It does not know what is asked.
//! Descriptors of ours are all close-on-exec, so a server that this starts inherits none.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use super::TmuxSettings;
use crate::agent::launch::scrubbed_environment;
use crate::program::find_absolute;
use crate::terminal::TerminalError;

/// How long one tmux process may take.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// A word that nobody else can know, in front of every line that is ours.
#[derive(Debug, Clone)]
pub(super) struct Nonce(String);

impl Nonce {
    /// A new one.
    pub(super) fn random() -> Self {
        let half = || RandomState::new().build_hasher().finish();
        Self(format!("ccmux-{:016x}{:016x}", half(), half()))
    }

    /// The word.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// A buffer of ours. Short: tmux reads its language a byte at a time, and a batch names each buffer twice.
    pub(super) fn buffer(&self, index: usize) -> String {
        format!("{}-{index}", self.0.get(..10).unwrap_or(&self.0))
    }

    /// The rest of a line that starts with this word and `kind`.
    pub(super) fn strip<'a>(&self, line: &'a str, kind: &str) -> Option<&'a str> {
        line.strip_prefix(self.as_str())?.strip_prefix(kind)
    }
}

/// What a tmux process said.
#[derive(Debug)]
pub(super) struct Reply {
    /// It exited with 0.
    pub(super) ok: bool,
    /// What it printed.
    pub(super) stdout: String,
    /// What it complained about, trimmed.
    pub(super) stderr: String,
}

impl Reply {
    /// There is no server on that socket, so nothing was done.
    pub(super) fn no_server(&self) -> bool {
        !self.ok && (self.stderr.contains("no server running") || self.stderr.contains("error connecting to"))
    }

    /// A target does not exist. (`no current target` is said by a server without any session, about to exit.)
    pub(super) fn no_target(&self) -> bool {
        !self.ok && (self.stderr.contains("can't find") || self.stderr.contains("no current target"))
    }

    fn explained(self) -> String {
        match self.stderr.contains("server exited") {
            true => format!(
                "{}; in tmux.conf `exit-unattached on`, in tmux 3.3 also `window-size manual`, ends a server that has \
                 no clients",
                self.stderr
            ),
            false => self.stderr,
        }
    }

    /// The reply if it is one of success, else the error.
    pub(super) fn done(self, what: &'static str) -> Result<Self, TerminalError> {
        if self.ok {
            Ok(self)
        } else if self.no_server() || self.no_target() {
            Err(TerminalError::NoPane(self.stderr))
        } else {
            Err(TerminalError::Failed { what, why: self.explained() })
        }
    }
}

impl From<Output> for Reply {
    fn from(output: Output) -> Self {
        Self {
            ok: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }
    }
}

/// Starts tmux processes for one server.
#[derive(Debug, Clone)]
pub(super) struct Client {
    binary: PathBuf,
    /// `-u -L NAME -f FILE`.
    server: Vec<OsString>,
    environment: BTreeMap<String, String>,
}

impl Client {
    /// A client of the server that the settings name.
    pub(super) fn new(settings: &TmuxSettings) -> Self {
        // -u: whatever the daemon's locale is, texts and screens are UTF-8. (No LC_ALL here: a server that we start
        // would give it to every pane of the user.)
        let mut server: Vec<OsString> = vec!["-u".into()];
        if let Some(name) = &settings.socket {
            server.extend(["-L".into(), name.into()]);
        }
        if let Some(file) = &settings.config {
            server.extend(["-f".into(), file.into()]);
        }
        let environment = scrubbed_environment(std::env::vars_os());
        Self { binary: settings.binary.clone(), server, environment }
    }

    /// A client of the server that listens on that socket.
    pub(super) fn at(binary: PathBuf, socket: &Path) -> Self {
        let server = vec!["-u".into(), "-S".into(), socket.into()];
        Self { binary, server, environment: scrubbed_environment(std::env::vars_os()) }
    }

    /// Runs one command list given as arguments. An argument `;` separates commands; see [`literal`].
    pub(super) async fn run(&self, what: &'static str, args: &[String]) -> Result<Reply, TerminalError> {
        self.run_with_input(what, args, Vec::new()).await
    }

    /// The same, with bytes on its stdin.
    pub(super) async fn run_with_input(
        &self,
        what: &'static str,
        args: &[String],
        input: Vec<u8>,
    ) -> Result<Reply, TerminalError> {
        let failed = |error: std::io::Error| TerminalError::Failed { what, why: self.start_error(&error) };
        let child = self.spawn(args, !input.is_empty()).map_err(failed)?;
        // On the limit the future is dropped and kill_on_drop ends the process.
        match tokio::time::timeout(LIMIT, converse(child, input)).await {
            Ok(output) => output.map(Reply::from).map_err(failed),
            Err(_) => Err(silent(what)),
        }
    }

    fn spawn(&self, args: &[String], with_input: bool) -> std::io::Result<Child> {
        Command::new(program(&self.binary, self.environment.get("PATH")))
            .args(&self.server)
            .args(args)
            .env_clear()
            .envs(&self.environment)
            // A server that this starts must not keep our directory (a mount, a deleted folder) busy.
            .current_dir("/")
            .stdin(if with_input { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
    }

    fn start_error(&self, error: &std::io::Error) -> String {
        format!("cannot run {}: {error}", self.binary.display())
    }

    /// Runs `tmux -V`, which needs no server.
    pub(super) async fn ask_version(&self) -> std::io::Result<Option<String>> {
        let child = self.spawn(&["-V".to_owned()], false)?;
        match tokio::time::timeout(LIMIT, converse(child, Vec::new())).await {
            Ok(output) => Ok(Some(String::from_utf8_lossy(&output?.stdout).trim().to_owned())),
            Err(_) => Ok(None),
        }
    }

    /// Program and arguments that name the server.
    pub(super) fn server_command(&self) -> impl Iterator<Item = OsString> {
        std::iter::once(self.binary.clone().into_os_string()).chain(self.server.iter().cloned())
    }

    /// Those of the variables that are set.
    pub(super) fn environment<'a>(
        &'a self,
        names: &'a [&str],
    ) -> impl Iterator<Item = (&'a String, &'a String)> {
        self.environment.iter().filter(|(name, _)| names.contains(&name.as_str()))
    }

    /// The program.
    pub(super) fn binary(&self) -> &Path {
        &self.binary
    }
}

/// The program as a path. For a bare name, with an environment that is not ours, std forks, and a fork copies the tables of all
/// the daemon's memory; with a path it is `posix_spawn`, which copies nothing.
fn program(binary: &Path, path: Option<&String>) -> PathBuf {
    let bare = binary.to_str().filter(|name| !name.contains('/'));
    let found = bare.zip(path).and_then(|(name, path)| find_absolute(name, path));
    // What is not found there is for std to look for, and to complain about.
    found.unwrap_or_else(|| binary.to_owned())
}

/// No answer in time.
pub(super) fn silent(what: &'static str) -> TerminalError {
    TerminalError::Silent { what, limit_s: LIMIT.as_secs() }
}

/// Writes the input while the output is read, so that neither pipe can fill up and stall the other.
async fn converse(mut child: Child, input: Vec<u8>) -> std::io::Result<Output> {
    let stdin = child.stdin.take();
    let write = async move {
        if let Some(mut stdin) = stdin {
            // A tmux that gives up early says why on stderr; the broken pipe adds nothing.
            let _ = stdin.write_all(&input).await;
        }
    };
    let ((), output) = tokio::join!(write, child.wait_with_output());
    output
}

/// An argument that tmux takes as it is: in a command list, a `;` at the end of an argument would separate commands.
pub(super) fn literal(argument: &str) -> String {
    match argument.strip_suffix(';') {
        Some(head) => format!("{head}\\;"),
        None => argument.to_owned(),
    }
}

/// A text for an argument in which tmux expands formats (`#{...}`), like the directory of a new pane.
pub(super) fn unformatted(text: &str) -> String {
    text.replace('#', "##")
}

/// A text for an argument in which tmux expands formats and times (`%H`), like the command of a pipe.
pub(super) fn unexpanded(text: &str) -> String {
    unformatted(text).replace('%', "%%")
}

/// Arguments from string slices.
pub(super) fn args(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_semicolon_at_the_end_of_an_argument_separates_nothing() {
        assert_eq!(literal("a;b"), "a;b");
        assert_eq!(literal("a;"), "a\\;");
        assert_eq!(literal(";"), "\\;");
        assert_eq!(literal("a\\;"), "a\\\\;");
    }

    #[test]
    fn a_bare_name_is_looked_up_and_what_is_not_found_or_has_a_place_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (plain, program_file) = (dir.path().join("a"), dir.path().join("b"));
        for (folder, mode) in [(&plain, 0o644), (&program_file, 0o755)] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("tmux"), "").unwrap();
            std::fs::set_permissions(folder.join("tmux"), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = format!(".:{}:{}", plain.display(), program_file.display());
        assert_eq!(program(Path::new("tmux"), Some(&path)), program_file.join("tmux"));
        for as_it_is in ["./tmux", "/x/tmux", "of-nobody"] {
            assert_eq!(program(Path::new(as_it_is), Some(&path)), Path::new(as_it_is));
        }
        assert_eq!(program(Path::new("tmux"), None), Path::new("tmux"));
    }

    #[test]
    fn two_nonces_differ() {
        assert_ne!(Nonce::random().as_str(), Nonce::random().as_str());
    }
}
