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
        command.args(["-u", "-L", &self.name, "-f", "/dev/null"]).args(args);
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
    Guard { pid: pane.pid, cursor: None }
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

mod starting {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_agent_is_the_panes_own_process_and_no_shell_reads_its_arguments() {
        let server = Server::new();
        let argv = [
            "tail",
            "-f",
            "/dev/null",
            "--",
            "a b",
            "$HOME",
            "~",
            "#{pane_id} %H",
            "'\"\\",
            "{",
            "end;",
            "\\;",
            ";",
        ];
        let pane = server.start(&argv).await;
        until("it runs", async || argv_of(pane.pid)[0] == "tail").await;
        assert_eq!(argv_of(pane.pid), argv);
        assert_eq!((pane.dead, pane.in_mode, pane.width, pane.height), (None, false, 160, 48));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_single_word_is_a_program_too_and_not_a_line_for_a_shell() {
        let server = Server::new();
        let pane = server.start(&["cat"]).await;
        until("it runs", async || argv_of(pane.pid) == ["cat"]).await;
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_working_directory_may_have_any_name() {
        let server = Server::new();
        let cwd = server.path("a #{pane_id} %H ## $x; ;");
        std::fs::create_dir(&cwd).expect("made");
        let argv = vec!["tail".to_owned(), "-f".to_owned(), "/dev/null".to_owned()];
        let mut command = LaunchCommand { argv, cwd: cwd.clone() };
        let pane = server.tmux.respawn(command.clone()).await.expect("a pane");
        let place = |pane: &Pane| std::fs::read_link(format!("/proc/{}/cwd", pane.pid)).expect("a process");
        until("it is there", async || place(&pane) == cwd).await;
        kill(Pid::from_raw(pane.pid), Signal::SIGKILL).expect("killed");
        server.dead().await;
        command.cwd = server.dir.path().to_owned();
        let pane = server.tmux.respawn(command).await.expect("a pane");
        until("it is there", async || place(&pane) == server.dir.path()).await;
    }

    #[tokio::test]
    async fn an_agent_that_exits_at_once_leaves_its_pane_and_status() {
        let server = Server::with_config("set -g destroy-unattached on\nset -g exit-empty on\n");
        server.start(&["sh", "-c", "exit 3"]).await;
        assert_eq!(server.dead().await, ExitStatus::Code(3));
        assert_eq!(server.user(&["show-options", "-gwv", "remain-on-exit"]), "off", "nothing is set for all");
        assert_eq!(server.user(&["show-options", "-gv", "destroy-unattached"]), "on");
    }

    #[tokio::test]
    async fn a_dead_pane_is_used_again_and_a_live_one_never() {
        let server = Server::new();
        let first = server.start(&["sleep", "1000"]).await;
        let refused = server.try_start(&["sleep", "1000"]).await;
        assert!(
            matches!(&refused, Err(TerminalError::Failed { why, .. }) if why.contains("alive")),
            "{refused:?}"
        );
        assert_eq!(server.pane().await.pid, first.pid);

        kill(Pid::from_raw(first.pid), Signal::SIGKILL).expect("killed");
        assert_eq!(server.dead().await, ExitStatus::Signal(9));
        let second = server.start(&["sh", "-c", "exit 0"]).await;
        assert_eq!(second.id, first.id);
        assert_ne!(second.pid, first.pid);
        assert_eq!(server.dead().await, ExitStatus::Code(0));
        server.user(&["set-option", "-w", "-t", &first.id, "remain-on-exit", "off"]);
        server.start(&["sh", "-c", "exit 4"]).await;
        assert_eq!(server.dead().await, ExitStatus::Code(4), "remain-on-exit is put right");
    }

    /// Field fault 36.
    #[tokio::test]
    async fn a_session_with_a_longer_name_is_another_session() {
        let server = Server::new();
        assert_eq!(server.tmux.find().await, Ok(None), "no server");
        server.user(&["new-session", "-d", "-s", "ccmux2", "-x", "80", "-y", "24", "sleep 1000"]);
        assert_eq!(server.tmux.find().await, Ok(None));
        assert!(matches!(server.tmux.capture().await, Err(TerminalError::NoPane(_))));
        server.tmux.kill_session().await.expect("nothing to kill");
        let pane = server.start(&["sleep", "1000"]).await;
        assert_eq!(
            server.user(&["display-message", "-p", "-t", &pane.id, "#{session_name}:#{window_name}"]),
            "ccmux:claude"
        );
        server.tmux.kill_session().await.expect("killed");
        assert_eq!(server.tmux.find().await, Ok(None));
        assert_eq!(server.user(&["list-sessions", "-F", "#{session_name}"]), "ccmux2");
    }

    #[tokio::test]
    async fn a_session_of_the_user_gets_a_window_and_keeps_its_panes() {
        let server = Server::new();
        server.user(&["new-session", "-d", "-s", "ccmux", "-x", "80", "-y", "24", "sleep 1000"]);
        server.user(&["new-window", "-t", "=ccmux:5", "sleep 1000"]);
        let theirs = server.user(&["list-panes", "-s", "-t", "=ccmux", "-F", "#{pane_id} #{pane_pid}"]);
        let pane = server.start(&["sh", "-c", "exit 5"]).await;
        assert_eq!(server.dead().await, ExitStatus::Code(5));
        let all = server.user(&["list-panes", "-s", "-t", "=ccmux", "-F", "#{pane_id} #{pane_pid}"]);
        assert_eq!(all.lines().filter(|line| !theirs.contains(line)).count(), 1);
        assert!(theirs.lines().all(|line| all.contains(line)), "{all}");
        let active = server.user(&["list-windows", "-t", "=ccmux", "-F", "#{window_index} #{window_active}"]);
        assert!(active.contains("5 1"), "the user's window stays the current one: {active}");
        server.tmux.kill_pane().await.expect("killed");
        assert_eq!(server.tmux.find().await, Ok(None));
        assert_ne!(pane.id, "");
        assert_eq!(
            server.user(&["list-panes", "-s", "-t", "=ccmux", "-F", "#{pane_id} #{pane_pid}"]),
            theirs
        );
    }

    #[tokio::test]
    async fn our_pane_stays_ours_when_the_user_splits_and_moves_it() {
        let server = Server::new();
        let pane = server.start_listening().await;
        server.user(&["split-window", "-t", &pane.id, "-h", "sleep 1000"]);
        assert_eq!(server.pane().await.id, pane.id);
        assert!(server.capture().await.text.contains("ready"));
        server.user(&["break-pane", "-d", "-s", &pane.id]);
        server.user(&["new-session", "-d", "-s", "elsewhere", "sleep 1000"]);
        server.user(&["join-pane", "-d", "-s", &pane.id, "-t", "=elsewhere:"]);
        assert_eq!(server.pane().await.id, pane.id);
        let pieces = vec!["x".to_owned()];
        assert_eq!(server.tmux.inject(guard(&pane), pieces.clone()).await, Ok(Typed::Done));
        server.typed_is(&bracketed(&pieces)).await;
    }

    #[tokio::test]
    async fn a_hook_of_the_user_that_splits_new_sessions_does_not_get_the_mark() {
        let server = Server::with_config("set-hook -g after-new-session 'split-window -h \"sleep 1000\"'\n");
        let pane = server.start(&["sh", "-c", "sleep 1000; exit 0"]).await;
        let started = server.user(&["display-message", "-p", "-t", &pane.id, "#{pane_start_command}"]);
        assert!(started.contains("exit 0"), "{started}");
        let marks = server.user(&["list-panes", "-a", "-F", "#{pane_id}#{@ccmux_pane}"]);
        assert_eq!(marks.lines().filter(|line| line.contains("ccmux")).count(), 1, "{marks}");
        assert_eq!(marks.lines().count(), 2, "{marks}");
    }

    #[tokio::test]
    async fn a_session_name_that_tmux_would_change_is_refused() {
        let server = Server::new();
        let mut settings = server.tmux.settings.clone();
        settings.session = "a.b".to_owned();
        let refused = Tmux::new(settings)
            .respawn(LaunchCommand { argv: vec!["sleep".to_owned(), "9".to_owned()], cwd: "/".into() })
            .await;
        assert!(
            matches!(&refused, Err(TerminalError::Failed { why, .. }) if why.contains("a.b")),
            "{refused:?}"
        );
    }
}

mod typing;

mod looking {
    use super::*;

    #[tokio::test]
    async fn a_dead_pane_still_has_its_only_row() {
        let server = Server::new();
        server.start(&["sh", "-c", "echo 'it cannot be started'; exit 1"]).await;
        server.dead().await;
        let text = server.capture().await.text;
        assert!(text.starts_with("it cannot be started\n"), "{text}");
        assert!(text.contains("Pane is dead"), "{text}");
    }

    #[tokio::test]
    async fn a_capture_has_all_rows_colours_and_any_title() {
        let server = Server::new();
        let script =
            "printf '\\033]2;ccmux P %%9 1 0 ✳ a | b\\033\\\\\\n\\033[31mred\\033[m \\n\\nlast'; sleep 1000";
        server.start(&["sh", "-c", script]).await;
        until("it is on the screen", async || server.capture().await.text.contains("last")).await;
        let capture = server.capture().await;
        let rows: Vec<&str> = capture.text.split('\n').collect();
        assert_eq!(rows.len(), 48, "as many as the pane has");
        assert!(rows[1].contains("\x1b[31mred"), "{rows:?}");
        assert_eq!(&rows[2..5], ["", "last", ""]);
        assert_eq!(capture.pane.title, "ccmux P %9 1 0 ✳ a | b");
        assert_eq!(capture.active_at, None, "nobody is attached");
        assert_eq!(capture.pane, server.pane().await);
    }

    /// Field fault 14.
    #[tokio::test]
    async fn only_a_client_that_can_type_into_our_session_is_a_human() {
        let server = Server::new();
        server.start(&["sleep", "1000"]).await;
        server.user(&["new-session", "-d", "-s", "other", "sleep 1000"]);
        let humans = Server::new();
        let attached = async |count: usize| {
            until("attached", async || server.user(&["list-clients"]).lines().count() == count).await;
        };
        let attach = |name: &str, how: &str| {
            let line = format!("exec env -u TMUX tmux -L {} {how}", server.name);
            humans.user(&["new-session", "-d", "-s", name, &line]);
        };
        attach("read-only", "attach -r -t =ccmux");
        attach("elsewhere", "attach -t =other");
        let mut control = server.command(&["-C", "attach", "-t", "=ccmux"]);
        let mut control = control.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("tmux");
        attached(3).await;
        assert_eq!(server.tmux.last_typed().await, Ok(None));

        attach("grouped", "new-session -t =ccmux");
        attached(4).await;
        let now = jiff::Timestamp::now().as_millisecond();
        let active = server.tmux.last_typed().await.expect("an answer").expect("a human");
        assert!((active.0 - now).abs() < 20_000, "{active:?} is not near {now}");
        assert_eq!(server.capture().await.active_at, Some(active));
        drop(control.stdin.take());
        control.wait().expect("it ends");
    }

    #[tokio::test]
    async fn a_new_server_that_counts_its_panes_anew_does_not_deceive() {
        let server = Server::new();
        let pane = server.start_listening().await;
        server.user(&["kill-server"]);
        until("the server is gone", async || server.tmux.find().await == Ok(None)).await;
        server.user(&["new-session", "-d", "-s", "theirs", "-x", "80", "-y", "24", "sleep 1000"]);
        *server.tmux.pane.lock().expect("not poisoned") = Some(pane.id.clone());
        assert!(matches!(server.tmux.capture().await, Err(TerminalError::NoPane(_))));
        *server.tmux.pane.lock().expect("not poisoned") = Some(pane.id.clone());
        let typed = server.tmux.inject(guard(&pane), vec!["x".to_owned()]).await;
        assert!(matches!(typed, Ok(Typed::Refused(_))), "{typed:?}");
        let again = server.start_listening().await;
        assert_eq!(server.capture().await.pane.id, again.id);
    }
}

mod watching {
    use super::*;

    struct Watched {
        news: mpsc::Receiver<PaneNews>,
        task: tokio::task::JoinHandle<()>,
    }

    impl Watched {
        fn new(server: &Server) -> Self {
            let (sender, news) = mpsc::channel(16);
            let tmux = Arc::clone(&server.tmux);
            Self { news, task: tokio::spawn(async move { tmux.watch_output(sender).await }) }
        }

        async fn next(&mut self) -> PaneNews {
            tokio::time::timeout(Duration::from_secs(20), self.news.recv())
                .await
                .expect("news in time")
                .expect("news")
        }
    }

    fn is_piped(server: &Server) -> bool {
        server.user(&["display-message", "-p", "-t", "=ccmux:", "#{pane_pipe}"]) == "1"
    }

    #[tokio::test]
    async fn output_and_silence_are_told_once_each() {
        let server = Server::new();
        let pane = server.start(&["sh", "-c", "stty -echo; exec cat"]).await;
        let mut watched = Watched::new(&server);
        assert_eq!(watched.next().await, PaneNews::Silent, "silent from the start");
        let begun = Instant::now();
        for _ in 0..3 {
            server.tmux.inject(guard(&pane), vec!["text\n".to_owned()]).await.expect("typed");
        }
        assert_eq!(watched.next().await, PaneNews::Active);
        assert_eq!(watched.next().await, PaneNews::Silent);
        assert!(begun.elapsed() >= Duration::from_millis(300));
        assert!(watched.news.try_recv().is_err());
    }

    #[tokio::test]
    async fn since_when_the_pane_is_silent_is_known_as_long_as_it_is_watched() {
        let server = Server::new();
        let pane = server.start(&["sh", "-c", "stty -echo; exec cat"]).await;
        let silent_since = async || server.capture().await.silent_since;
        assert_eq!(silent_since().await, None, "nobody watches");
        let mut watched = Watched::new(&server);
        assert_eq!(watched.next().await, PaneNews::Silent);
        let before = silent_since().await.expect("watched");
        server.capture().await;
        assert_eq!(silent_since().await, Some(before), "a look is no output");
        server.tmux.inject(guard(&pane), vec!["text\n".to_owned()]).await.expect("typed");
        assert_eq!(watched.next().await, PaneNews::Active);
        assert!(silent_since().await > Some(before));
        drop(watched.news);
        watched.task.await.expect("no panic");
        assert_eq!(silent_since().await, None);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn no_process_stays_between_the_pane_and_us() {
        let server = Server::new();
        let pane = server.start(&["cat"]).await;
        let mut watched = Watched::new(&server);
        watched.next().await;
        assert!(is_piped(&server));
        let of_server = server.user(&["display-message", "-p", "#{pid}"]);
        until("only the agent is left", async || {
            let children = std::fs::read_to_string(format!("/proc/{of_server}/task/{of_server}/children"));
            children.expect("a server").trim() == pane.pid.to_string()
        })
        .await;
    }

    /// Field fault 18.
    #[tokio::test]
    async fn a_pipe_that_breaks_is_mounted_again() {
        let server = Server::new();
        let pane = server.start(&["sh", "-c", "stty -echo; exec cat"]).await;
        let mut watched = Watched::new(&server);
        assert_eq!(watched.next().await, PaneNews::Silent);
        server.user(&["pipe-pane", "-t", &pane.id]);
        assert_eq!(watched.next().await, PaneNews::Silent, "mounted, and nothing came");
        server.tmux.inject(guard(&pane), vec!["text\n".to_owned()]).await.expect("typed");
        assert_eq!(watched.next().await, PaneNews::Active);
    }

    #[tokio::test]
    async fn a_new_agent_is_watched_in_the_old_pane_and_in_a_new_server() {
        let server = Server::new();
        let script = "stty -echo; echo hello; exec cat";
        let mut watched = Watched::new(&server);
        let pane = server.start(&["sh", "-c", script]).await;
        watched.heard_something().await;
        kill(Pid::from_raw(pane.pid), Signal::SIGKILL).expect("killed");
        server.dead().await;
        server.start(&["sh", "-c", script]).await;
        watched.heard_something().await;
        server.user(&["kill-server"]);
        until("the server is gone", async || server.tmux.find().await == Ok(None)).await;
        let pane = server.start(&["sh", "-c", script]).await;
        watched.heard_something().await;
        server.tmux.inject(guard(&pane), vec!["text\n".to_owned()]).await.expect("typed");
        assert_eq!(watched.next().await, PaneNews::Active);
    }

    impl Watched {
        /// Up to the silence that follows.
        async fn heard_something(&mut self) {
            while self.next().await != PaneNews::Silent {}
        }
    }

    #[tokio::test]
    async fn the_watch_ends_with_its_listener_and_takes_socket_and_pipe_along() {
        let server = Server::new();
        let pane = server.start(&["cat"]).await;
        let mut watched = Watched::new(&server);
        watched.next().await;
        assert!(server.tmux.settings.sink_socket.exists());
        drop(watched.news);
        tokio::time::timeout(Duration::from_secs(10), watched.task)
            .await
            .expect("it ends")
            .expect("no panic");
        assert!(!server.tmux.settings.sink_socket.exists());
        // tmux notices when it next has something to write.
        server.tmux.inject(guard(&pane), vec!["text".to_owned()]).await.expect("typed");
        until("the pipe is gone", async || !is_piped(&server)).await;
    }
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

mod process {
    use super::*;

    fn with_binary(server: &Server, script: &str) -> Tmux {
        let binary = server.path("tmux");
        let mut file = std::fs::File::create(&binary).expect("a file");
        write!(file, "#!/bin/sh\n{script}\n").expect("written");
        drop(file);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&binary, mode).expect("a mode");
        Tmux::new(TmuxSettings { binary, ..server.tmux.settings.clone() })
    }

    #[tokio::test]
    async fn a_tmux_that_is_missing_or_too_old_is_named() {
        let server = Server::new();
        assert!(server.tmux.version().await.is_ok());
        let old = with_binary(&server, "echo tmux 3.1c").version().await.expect_err("too old").to_string();
        assert_eq!(old, "tmux 3.1c is too old: install tmux 3.2 or newer");
        let other = with_binary(&server, "echo hello").version().await.expect_err("no tmux").to_string();
        assert!(other.contains("hello"), "{other}");
        let settings = TmuxSettings { binary: "/nonexistent/tmux".into(), ..server.tmux.settings.clone() };
        let missing = Tmux::new(settings).version().await.expect_err("missing").to_string();
        assert!(missing.contains("/nonexistent/tmux") && missing.contains("install tmux"), "{missing}");
    }

    #[tokio::test]
    async fn a_tmux_that_hangs_is_ended_and_reported_as_silent() {
        let server = Server::new();
        let file = server.path("pid");
        let tmux = with_binary(&server, &format!("echo $$ >'{}'; exec sleep 1000", file.display()));
        assert_eq!(tmux.find().await, Err(TerminalError::Silent { what: "list panes", limit_s: 5 }));
        let pid: i32 = std::fs::read_to_string(file).expect("it ran").trim().parse().expect("a pid");
        until("it is gone", async || kill(Pid::from_raw(pid), None).is_err()).await;
    }

    #[tokio::test]
    async fn a_server_that_dies_while_we_type_leaves_a_doubt() {
        let server = Server::new();
        let tmux = with_binary(&server, "cat >/dev/null; echo 'server exited unexpectedly' >&2; exit 1");
        *tmux.pane.lock().expect("not poisoned") = Some("%0".to_owned());
        let typed = tmux.inject(Guard { pid: 1, cursor: None }, vec!["x".to_owned()]).await;
        assert!(matches!(typed, Err(TerminalError::Silent { .. })), "{typed:?}");
    }
}
