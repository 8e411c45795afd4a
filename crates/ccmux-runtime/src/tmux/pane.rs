//! Finding, starting, looking at and typing into our pane.
//!
//! The mark is the pane's own option `@ccmux_pane`, with the session's name as its value: set in the command list that
//! makes the pane, kept by tmux over respawns and moves, and not inherited by panes that are split off it.

use std::time::Duration;

use ccmux_policy::UnixMs;
use ccmux_policy::event::ExitStatus;
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use super::client::{Reply, args, literal, silent, unexpanded, unformatted};
use super::facts::{self, Facts, MARK};
use super::script::{self, Outcome, Script};
use super::{Tmux, client};
use crate::agent::process::start_time;
use crate::clock::unix_ms;
use crate::terminal::{Capture, LaunchCommand, Pane, TerminalError, Typed};

/// Columns and rows of a session that nobody is attached to.
const SIZE: (&str, &str) = ("160", "48");

/// An end that the terminal has not noticed within that time is none.
const NOTICED_WITHIN: Duration = Duration::from_secs(1);
const NOTICE_PAUSE: Duration = Duration::from_millis(20);

/// How often a session is tried again in a server that was just ending, and after what time.
const ENDING_SERVERS: u32 = 3;
const SERVER_ENDS: Duration = Duration::from_millis(50);

/// From so many rows above the screen.
const LAST_WORDS: &str = "-50";

impl Tmux {
    /// Our pane, dead or alive.
    pub(super) async fn find_pane(&self) -> Result<Option<Pane>, TerminalError> {
        let facts = self.ask_for_pane().await?;
        let ended_somehow = facts.pane.as_ref().is_some_and(|pane| pane.dead == Some(ExitStatus::Unknown));
        if !ended_somehow {
            return Ok(self.remember(facts.pane));
        }
        collect_children(facts.server);
        Ok(self.remember(self.ask_for_pane().await?.pane))
    }

    /// Our pane, once the terminal has noticed that its process has ended: a moment after the system did.
    async fn find_settled_pane(&self) -> Result<Option<Pane>, TerminalError> {
        let until = Instant::now() + NOTICED_WITHIN;
        loop {
            let pane = self.find_pane().await?;
            let has_ended = |pane: &Pane| pane.dead.is_none() && start_time(pane.pid).is_none();
            if !pane.as_ref().is_some_and(has_ended) || Instant::now() >= until {
                return Ok(pane);
            }
            sleep(NOTICE_PAUSE).await;
        }
    }

    async fn ask_for_pane(&self) -> Result<Facts, TerminalError> {
        let reply = self.list_or_renew().await?;
        if reply.no_server() || reply.no_target() {
            return Ok(Facts::default());
        }
        let facts = Facts::read(&self.nonce, &reply.done("list panes")?.stdout);
        if let Some(server) = facts.server {
            self.know_pid(server.as_raw());
        }
        Ok(facts)
    }

    /// The id of our pane, from memory if there is one: whatever uses it is guarded or compares it.
    pub(super) async fn known_pane(&self) -> Result<String, TerminalError> {
        let known = self.pane.lock().ok().and_then(|pane| pane.clone());
        match known {
            Some(id) => Ok(id),
            None => self.find_pane().await?.map(|pane| pane.id).ok_or_else(|| self.no_pane()),
        }
    }

    /// Starts the command in our dead pane, or in a new window of the session, or in a new session.
    pub(super) async fn start(&self, command: LaunchCommand) -> Result<Pane, TerminalError> {
        self.check_name()?;
        let argv = direct_argv(command.argv)?;
        let cwd = unformatted(&command.cwd.to_string_lossy());
        let pane = match self.respawn_known(&cwd, &argv).await? {
            Some(pane) => pane,
            None => self.respawn_or_make(&literal(&cwd), &argv).await?,
        };
        if !self.known_server().is_some_and(|server| server.lives()) {
            let _ = self.ask_for_pane().await;
        }
        self.started.notify_one();
        Ok(pane)
    }

    /// In the pane that we remember, by one tmux process, which checks by itself that it is ours and dead. `None`: it is
    /// not, and nothing was done.
    async fn respawn_known(&self, cwd: &str, argv: &[String]) -> Result<Option<Pane>, TerminalError> {
        let what = "respawn the pane";
        let Some(id) = self.pane.lock().ok().and_then(|pane| pane.clone()) else { return Ok(None) };
        // Never -k, here neither.
        let script = script::respawn(&self.nonce, &id, &self.settings.session, cwd, argv, &self.list_pane());
        let list = args(&["source-file", "-"]);
        let reply = self.client.run_with_input(what, &list, script.into_bytes()).await?;
        let has_begun = reply.stdout.lines().any(|line| self.nonce.strip(line, "B").is_some());
        let facts = Facts::read(&self.nonce, &reply.stdout);
        match facts.pane {
            Some(pane) if has_begun => {
                // Of the one before it the end may have been missed.
                collect_children(facts.server);
                Ok(self.remember(Some(pane)))
            }
            _ if has_begun => Err(reply.done(what).err().unwrap_or_else(|| self.no_pane())),
            _ => Ok(None),
        }
    }

    async fn respawn_or_make(&self, cwd: &str, argv: &[String]) -> Result<Pane, TerminalError> {
        match self.find_settled_pane().await? {
            Some(pane) => self.respawn_in(&pane, cwd, argv).await,
            None => {
                self.ensure_server().await;
                self.without_errors(self.make(cwd, argv).await?).await
            }
        }
    }

    /// tmux changes `.` and `:` in names silently, and other characters mean something in targets and formats.
    fn check_name(&self) -> Result<(), TerminalError> {
        let name = &self.settings.session;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !name.is_empty() && name.chars().all(plain) {
            return Ok(());
        }
        let why = format!("the session name {name:?} may hold letters, digits, `-` and `_` only");
        Err(TerminalError::Failed { what: "start the agent", why })
    }

    async fn respawn_in(&self, pane: &Pane, cwd: &str, argv: &[String]) -> Result<Pane, TerminalError> {
        if pane.dead.is_none() {
            let why = format!(
                "pane {0} is alive and runs process {1}, which ccmux did not start: end it, or `tmux kill-pane -t {0}`",
                pane.id, pane.pid
            );
            return Err(TerminalError::Failed { what: "respawn the pane", why });
        }
        // Never -k: if it came alive meanwhile, tmux itself refuses.
        let mut list = args(&["respawn-pane", "-t", &pane.id, "-c", cwd, "--"]);
        list.extend(argv.iter().map(|word| literal(word)));
        list.extend(args(&[";", "set-option", "-p", "-t", &pane.id, "remain-on-exit", "on", ";"]));
        list.extend(self.list_pane());
        let reply = self.client.run("respawn the pane", &list).await?;
        match Facts::read(&self.nonce, &reply.stdout).pane {
            // Another process runs in it: if tmux complains all the same, a hook of the user failed.
            Some(found) if found.pid != pane.pid => self.remember(Some(found)).ok_or_else(|| self.no_pane()),
            _ => self.pane_in(&reply.done("respawn the pane")?),
        }
    }

    async fn make(&self, cwd: &str, argv: &[String]) -> Result<Pane, TerminalError> {
        let name = &self.settings.session;
        let new_session = args(&["new-session", "-d", "-x", SIZE.0, "-y", SIZE.1, "-s", name]);
        let mut reply = self.make_with(new_session.clone(), cwd, argv).await?;
        // It came to a server on its way out, whose last session had ended: nothing was made there.
        for _ in 0..ENDING_SERVERS {
            if reply.ok || !reply.stderr.contains("server exited") {
                break;
            }
            tokio::time::sleep(SERVER_ENDS).await;
            reply = self.make_with(new_session.clone(), cwd, argv).await?;
        }
        if !reply.ok && reply.stderr.contains("duplicate session") {
            // The session is there, without a pane of ours: it is the user's, and stays as it is.
            let new_window =
                args(&["new-window", "-d", "-a", "-t", &format!("{}{{end}}", self.session_target())]);
            let reply = self.make_with(new_window, cwd, argv).await?;
            return self.marked("make a window", reply).await;
        }
        self.marked("make the session", reply).await
    }

    /// One list, so that an agent that exits at once still leaves a pane, and a user's `destroy-unattached on` does not
    /// take the session away between two calls.
    async fn make_with(
        &self,
        mut list: Vec<String>,
        cwd: &str,
        argv: &[String],
    ) -> Result<Reply, TerminalError> {
        let window = literal(&unformatted(&self.settings.window));
        let created = format!("{}N#{{pane_id}}", self.nonce.as_str());
        list.extend(args(&["-n", &window, "-c", cwd, "-P", "-F", &created, "--"]));
        list.extend(argv.iter().map(|word| literal(word)));
        // A new window is not made the current one; it is made (-a) and named as the last.
        let target = match list.first().map(String::as_str) {
            Some("new-session") => self.session_target(),
            _ => format!("{}{{end}}", self.session_target()),
        };
        list.extend(args(&[";", "set-option", "-t", &self.session_target(), "destroy-unattached", "off"]));
        list.extend(args(&[";", "set-option", "-p", "-t", &target, "remain-on-exit", "on"]));
        list.extend(args(&[";", "set-option", "-p", "-t", &target, MARK, &self.settings.session, ";"]));
        list.extend(self.list_pane());
        self.client.run("make a pane", &list).await
    }

    /// The new pane. A hook of the user may have come in between and made another pane the current one, which then got
    /// the mark; and if one of its commands failed, tmux reports ours as failed although the pane is there. What counts
    /// is the pane that tmux says it made.
    async fn marked(&self, what: &'static str, reply: Reply) -> Result<Pane, TerminalError> {
        let Some(created) = self.created_in(&reply) else {
            return Err(reply.done(what).err().unwrap_or_else(|| self.no_pane()));
        };
        let marked = Facts::read(&self.nonce, &reply.stdout).pane;
        if marked.as_ref().is_some_and(|pane| pane.id == created) {
            return self.remember(marked).ok_or_else(|| self.no_pane());
        }
        let mut list = Vec::new();
        if let Some(wrong) = marked {
            tracing::info!(event = "terminal.mark_moved", from = %wrong.id, to = %created);
            list.extend(args(&["set-option", "-p", "-u", "-t", &wrong.id, MARK, ";"]));
            list.extend(args(&["set-option", "-p", "-u", "-t", &wrong.id, "remain-on-exit", ";"]));
        }
        list.extend(args(&["set-option", "-p", "-t", &created, MARK, &self.settings.session, ";"]));
        list.extend(args(&["set-option", "-p", "-t", &created, "remain-on-exit", "on", ";"]));
        list.extend(self.list_pane());
        let reply = self.client.run("mark the pane", &list).await?.done("mark the pane")?;
        self.pane_in(&reply)
    }

    /// A new server shows the errors of the user's tmux.conf in the first pane, as a mode that somebody must leave by a key.
    /// In the agent's pane nobody may be there to do that.
    async fn without_errors(&self, pane: Pane) -> Result<Pane, TerminalError> {
        if !pane.in_mode {
            return Ok(pane);
        }
        tracing::warn!(event = "tmux.config_errors", pane = %pane.id, "tmux reported errors in its configuration");
        let mut list = args(&["copy-mode", "-q", "-t", &pane.id, ";"]);
        list.extend(self.list_pane());
        let reply = self.client.run("leave the mode", &list).await?.done("leave the mode")?;
        self.pane_in(&reply)
    }

    /// The id that `new-session -P` or `new-window -P` printed.
    fn created_in(&self, reply: &Reply) -> Option<String> {
        reply.stdout.lines().find_map(|line| self.nonce.strip(line, "N")).map(str::to_owned)
    }

    /// One look: facts, clients and screen of one moment.
    pub(super) async fn look(&self) -> Result<Capture, TerminalError> {
        let pane = self.known_pane().await?;
        match self.look_at(&pane).await {
            // The pane that we remember is gone, or another server counts its panes anew: find ours, look once more.
            Err(TerminalError::NoPane(_)) => {
                let pane = self.find_pane().await?.ok_or_else(|| self.no_pane())?;
                self.look_at(&pane.id).await
            }
            result => result,
        }
    }

    async fn look_at(&self, id: &str) -> Result<Capture, TerminalError> {
        let mut list = self.list_pane_and_clients();
        list.push(";".to_owned());
        list.extend(facts::screen(&self.nonce, &self.settings.session, id));
        let second = unix_ms().0.div_euclid(1000);
        let reply = self.client.run("capture the pane", &list).await?.done("capture the pane")?;
        let mut facts = Facts::read(&self.nonce, &reply.stdout);
        let pane = facts.pane.take().filter(|pane| pane.id == id).ok_or_else(|| self.no_pane())?;
        let mut text = facts.screen.take().unwrap_or_default();
        if pane.dead.is_some() {
            text = self.last_words(id).await.unwrap_or(text);
        }
        let (active_at, activity) = (facts.active_at(), facts.activity.filter(|all| all.is_before(second)));
        Ok(Capture { pane, text, active_at, activity, silent_since: self.silent_since() })
    }

    /// The screen of a dead pane with what stood above it: tmux scrolls it by a row for its own `Pane is dead`, and an
    /// agent that could not start mostly left a single one.
    async fn last_words(&self, id: &str) -> Result<String, TerminalError> {
        let list = args(&["capture-pane", "-p", "-e", "-S", LAST_WORDS, "-t", id]);
        let reply = self.client.run("capture the pane", &list).await?.done("capture the pane")?;
        Ok(reply.stdout.strip_suffix('\n').unwrap_or(&reply.stdout).to_owned())
    }

    /// When a client that can type was last active.
    pub(super) async fn last_activity(&self) -> Result<Option<UnixMs>, TerminalError> {
        let reply = self.client.run("list clients", &self.list_pane_and_clients()).await?;
        let facts = Facts::read(&self.nonce, &reply.done("list clients")?.stdout);
        if facts.pane.is_none() {
            return Err(self.no_pane());
        }
        Ok(facts.active_at())
    }

    /// Runs a typing script. Whatever is not surely done or surely not begun is reported as doubtful.
    pub(super) async fn type_into(
        &self,
        pane: &str,
        what: &'static str,
        script: Script,
    ) -> Result<Typed, TerminalError> {
        let Script { arguments, input, buffers } = script;
        // Without an answer in time nothing is asked a second time: the script, should it still run, deletes its buffers.
        let reply = self.client.run_with_input(what, &arguments, input.into_bytes()).await?;
        match script::outcome(&self.nonce, &reply.stdout) {
            Outcome::Known(Typed::Done) if reply.ok => Ok(Typed::Done),
            Outcome::Known(Typed::Refused(why)) if reply.ok => {
                // A refusal may mean that our memory of the pane is old.
                self.remember(None);
                tracing::info!(event = "terminal.refused", pane, %why);
                self.forget(what, buffers).await;
                Ok(Typed::Refused(why))
            }
            Outcome::NotBegun if reply.no_server() => Err(TerminalError::NoPane(reply.stderr)),
            // A script that tmux can't read is not run at all.
            Outcome::NotBegun if reply.stderr.starts_with("-:") => {
                Err(TerminalError::Failed { what, why: reply.stderr })
            }
            outcome => {
                tracing::warn!(event = "terminal.doubtful", what, ?outcome, why = %reply.stderr);
                self.forget(what, buffers).await;
                Err(silent(what))
            }
        }
    }

    /// Takes our buffers out of the server, if it still answers: a text must not stay in the user's buffer list.
    async fn forget(&self, what: &'static str, buffers: usize) {
        if buffers > 0 {
            let Script { arguments, input, .. } = script::forget(&self.nonce, buffers);
            let _ = self.client.run_with_input(what, &arguments, input.into_bytes()).await;
        }
    }

    pub(super) async fn kill(&self, command: &'static str, target: String) -> Result<(), TerminalError> {
        let reply = self.client.run(command, &[command.to_owned(), "-t".to_owned(), target]).await?;
        self.remember(None);
        match reply.done(command) {
            Ok(_) | Err(TerminalError::NoPane(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Mounts the sink on our pane's output.
    pub(super) async fn mount_sink(&self) -> Result<(), TerminalError> {
        let pane = self.find_pane().await?.ok_or_else(|| self.no_pane())?;
        let socket = self.settings.sink_socket.to_string_lossy().into_owned();
        let words = self.settings.sink.iter().chain(std::iter::once(&socket));
        // tmux gives this to sh, after expanding it like a status line.
        let command = unexpanded(&format!("exec {}", shell_words::join(words)));
        let list = args(&["pipe-pane", "-O", "-t", &pane.id, &literal(&command)]);
        self.client.run("pipe the pane", &list).await?.done("pipe the pane").map(|_| ())
    }

    fn session_target(&self) -> String {
        format!("={}:", self.settings.session)
    }

    pub(super) fn list_pane(&self) -> Vec<String> {
        facts::list_pane(&self.nonce, &self.settings.session)
    }

    fn list_pane_and_clients(&self) -> Vec<String> {
        let mut list = self.list_pane();
        list.push(";".to_owned());
        list.extend(facts::list_clients(&self.nonce));
        list
    }

    fn pane_in(&self, reply: &Reply) -> Result<Pane, TerminalError> {
        self.remember(Facts::read(&self.nonce, &reply.stdout).pane).ok_or_else(|| self.no_pane())
    }

    fn remember(&self, pane: Option<Pane>) -> Option<Pane> {
        if let Ok(mut known) = self.pane.lock() {
            *known = pane.as_ref().map(|pane| pane.id.clone());
        }
        pane
    }

    fn no_pane(&self) -> TerminalError {
        let none = || format!("session {} has no pane of ours", self.settings.session);
        TerminalError::NoPane(self.remedy().unwrap_or_else(none))
    }
}

/// tmux 3.3a misses the end of a pane's process where another child of it ends at that moment (`utempter`, which it runs
/// when a pane's terminal closes), and keeps it as a zombie until the next one ends. The same signal again makes it look.
fn collect_children(server: Option<Pid>) {
    if let Some(server) = server {
        let _ = nix::sys::signal::kill(server, nix::sys::signal::Signal::SIGCHLD);
    }
}

/// tmux runs two and more words directly, but gives a single one to a shell: `env` in front makes it two, and becomes
/// the program in the same process.
fn direct_argv(argv: Vec<String>) -> Result<Vec<String>, TerminalError> {
    match argv.len() {
        0 => Err(TerminalError::Failed { what: "start the agent", why: "the command is empty".to_owned() }),
        1 => Ok(client::args(&["/usr/bin/env"]).into_iter().chain(argv).collect()),
        _ => Ok(argv),
    }
}
