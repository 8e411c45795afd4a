//! The real tmux, on a server of its own for each test. Where there is no tmux these tests fail, and say so.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ccmux_policy::event::ExitStatus;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;

mod looking;
mod process;
mod showing;
mod starting;
mod typing;
mod watching;

/// A server that ends with the test, whatever happens to it.
struct Server {
    name: String,
    dir: tempfile::TempDir,
    tmux: Arc<Tmux>,
}

impl Server {
    fn new() -> Self {
        Self::with_config("")
    }

    fn with_config(config: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ccmux-test-{}-{count}", std::process::id());
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("tmux.conf");
        std::fs::write(&file, config).expect("written");
        let exe = std::env::current_exe().expect("this binary").to_string_lossy().into_owned();
        let sink = [&exe, "--exact", "tmux::tests::the_sink_of_these_tests", "--nocapture"];
        let tmux = Arc::new(Tmux::new(TmuxSettings {
            binary: "tmux".into(),
            socket: Some(name.clone()),
            config: Some(file),
            session: "ccmux".to_owned(),
            window: "claude".to_owned(),
            sink: sink.iter().map(|word| (*word).to_owned()).collect(),
            sink_socket: dir.path().join("a #{pane_id} '%H; sink.sock"),
            own_unit: false,
            silence_timeout: Duration::from_millis(300),
        }));
        Self { name, dir, tmux }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A command as the user would give it.
    fn user(&self, args: &[&str]) -> String {
        let output = self.command(args).output().expect("tmux must be installed for these tests");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-u", "-L", &self.name, "-f"]).arg(self.path("tmux.conf")).args(args);
        command.env_remove("TMUX").env_remove("TMUX_PANE").env("TERM", "xterm-256color").stdin(Stdio::null());
        command
    }

    async fn start(&self, argv: &[&str]) -> Pane {
        self.try_start(argv).await.expect("a pane")
    }

    async fn try_start(&self, argv: &[&str]) -> Result<Pane, TerminalError> {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        self.tmux.respawn(LaunchCommand { argv, cwd: self.dir.path().to_owned() }).await
    }

    /// An agent that writes what is typed to the file `typed`, byte by byte, and knows bracketed paste.
    async fn start_listening(&self) -> Pane {
        let script = format!(
            "stty raw -echo; printf '\\033[?2004h\\033[31mready\\033[m'; exec cat >>'{}'",
            self.path("typed").display()
        );
        let pane = self.start(&["sh", "-c", &script]).await;
        until("the agent is ready", async || self.capture().await.text.contains("ready")).await;
        pane
    }

    async fn capture(&self) -> Capture {
        self.tmux.capture().await.expect("a capture")
    }

    async fn pane(&self) -> Pane {
        self.tmux.find().await.expect("an answer").expect("a pane")
    }

    async fn dead(&self) -> ExitStatus {
        let mut status = ExitStatus::Unknown;
        until("the pane is dead", async || {
            status = self.pane().await.dead.unwrap_or(ExitStatus::Unknown);
            status != ExitStatus::Unknown
        })
        .await;
        status
    }

    fn typed(&self) -> String {
        String::from_utf8(std::fs::read(self.path("typed")).unwrap_or_default()).expect("UTF-8")
    }

    async fn typed_is(&self, expected: &str) {
        let all = async || self.typed().len() >= expected.len();
        until("all was typed", all).await;
        let typed = self.typed();
        assert!(typed == expected, "typed {} bytes, not the {} expected", typed.len(), expected.len());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.command(&["kill-server"]).stderr(Stdio::null()).status();
        // tmux leaves its socket behind.
        let tmp = std::env::var_os("TMUX_TMPDIR").unwrap_or_else(|| "/tmp".into());
        let directory = format!("tmux-{}", nix::unistd::getuid());
        let _ = std::fs::remove_file(Path::new(&tmp).join(directory).join(&self.name));
    }
}

/// Asks again until it is true, at most 10 s.
async fn until(what: &str, mut fact: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !fact().await {
        assert!(Instant::now() < limit, "still not: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn bracketed(pieces: &[String]) -> String {
    pieces.iter().map(|piece| format!("\x1b[200~{piece}\x1b[201~")).collect()
}

fn guard(pane: &Pane) -> Guard {
    Guard { pid: pane.pid, untouched: None }
}

#[cfg(target_os = "linux")]
fn argv_of(pid: i32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("a process");
    line.strip_suffix(b"\0")
        .unwrap_or(&line)
        .split(|b| *b == 0)
        .map(|w| String::from_utf8_lossy(w).into_owned())
        .collect()
}

/// Run by tmux as the sink, with the socket as its last argument; run as a test it hands over nothing.
#[test]
fn the_sink_of_these_tests() {
    let last = std::env::args().next_back().unwrap_or_default();
    if last.ends_with("sink.sock") {
        pane_sink(Path::new(&last)).expect("handed over");
    } else {
        let error = pane_sink(Path::new("/nonexistent/sink.sock")).expect_err("nobody listens");
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }
}
