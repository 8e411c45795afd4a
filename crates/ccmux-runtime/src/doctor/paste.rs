//! tmux: its version, and a real paste, guarded, into a pane on a server of our own.
//!
//! ```text
//! sh -c 'stty raw; bracketed paste on; cat >typed' ◄─ guarded paste ── Tmux::inject     what the file holds is judged
//! ```

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::Uid;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::INTERRUPTED;
use super::finding::Finding;
use super::patient::Patient;
use super::scratch::Scratch;
use crate::agent::process::{AgentProcess, EndSignal};
use crate::terminal::{Guard, LaunchCommand, Terminal, Typed};
use crate::tmux::{Tmux, TmuxSettings};

/// What tmux is known to get wrong if it is not told how: a `;` at the end, a tab, wide characters, a leading `-`.
const TEXT: &str = "-x\t$(no) \u{4f60}\u{597d} \u{1f600} ;";
/// The beginning and end of what was pasted, as the program is told.
const BRACKETS: [&str; 2] = ["\u{1b}[200~", "\u{1b}[201~"];
/// Raw, as an agent would be.
const LISTEN: &str = "stty raw -echo; printf '\\033[?2004hlistening'; exec cat >\"$0\"";
const LOOK_PAUSE: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(8);
/// An agent that was told to go gets so long.
const ENDS_WITHIN: Duration = Duration::from_secs(3);

/// A tmux server of our own, with nobody's configuration; ended by [`Stand::end`].
#[derive(Debug)]
pub(super) struct Stand {
    pub(super) tmux: Tmux,
    socket: PathBuf,
}

impl Stand {
    pub(super) fn new(patient: &Patient, scratch: &Scratch) -> Self {
        let server = scratch.server();
        let tmux = Tmux::new(TmuxSettings {
            binary: "tmux".into(),
            socket: Some(server.clone()),
            config: Some("/dev/null".into()),
            session: "ccmux-doctor".to_owned(),
            window: "probe".to_owned(),
            sink: vec![patient.setting.binaries.ccmuxd.display().to_string(), "pane-sink".to_owned()],
            sink_socket: scratch.state().join("pane.sock"),
            silence_timeout: Duration::from_secs(3),
            own_unit: false,
        });
        let dir = patient.variable("TMUX_TMPDIR").unwrap_or_else(|| "/tmp".to_owned());
        let socket = Path::new(&dir).join(format!("tmux-{}", Uid::effective())).join(server);
        Self { tmux, socket }
    }

    /// Ends the server and what runs in it.
    pub(super) async fn end(self) {
        let pid = self.tmux.find().await.ok().flatten().map(|pane| pane.pid);
        let process = pid.and_then(|pid| AgentProcess::open(pid).ok());
        let _ = self.tmux.kill_session().await;
        if let Some(process) = process
            && tokio::time::timeout(ENDS_WITHIN, process.exited()).await.is_err()
        {
            let _ = process.kill(EndSignal::Kill);
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

pub(super) async fn tmux(patient: &Patient, stop: &CancellationToken) -> Vec<Finding> {
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(error) => {
            return vec![Finding::failure("tmux", error.to_string(), "make room, or look at its mode")];
        }
    };
    let stand = Stand::new(patient, &scratch);
    let version = match stand.tmux.version().await {
        Ok(version) => Finding::ok("tmux", format!("tmux {version}")),
        Err(error) => return vec![Finding::failure("tmux", error.to_string(), "install tmux 3.2 or newer")],
    };
    let begin = Instant::now();
    let typed = scratch.path().join("typed");
    let pasted = tokio::select! {
        pasted = paste(&stand.tmux, &typed, scratch.path()) => pasted,
        () = stop.cancelled() => Err(INTERRUPTED.to_owned()),
    };
    let took = begin.elapsed();
    stand.end().await;
    let paste = match pasted {
        Ok(()) => Finding::ok(
            "paste",
            format!("a guarded paste came through whole, {} ms with its pane", took.as_millis()),
        ),
        Err(why) => Finding::failure(
            "paste",
            why,
            "run `tmux -f /dev/null -L try new` by hand; another release of tmux may do better",
        ),
    };
    vec![version, paste]
}

/// What is wrong with a paste, in words.
async fn paste(tmux: &Tmux, typed: &Path, cwd: &Path) -> Result<(), String> {
    let argv = ["sh", "-c", LISTEN, &typed.display().to_string()].map(str::to_owned).to_vec();
    let pane = tmux.respawn(LaunchCommand { argv, cwd: cwd.to_owned() }).await.map_err(|e| e.to_string())?;
    until("the pane does not show what its program wrote", async || {
        tmux.capture().await.is_ok_and(|capture| capture.text.contains("listening"))
    })
    .await?;
    let guard = |pid| Guard { pid, untouched: None };
    match tmux.inject(guard(pane.pid + 1), vec!["no".to_owned()]).await {
        Ok(Typed::Refused(_)) => {}
        Ok(Typed::Done) => return Err("tmux pasted although the guard did not hold".to_owned()),
        Err(error) => return Err(error.to_string()),
    }
    match tmux.inject(guard(pane.pid), vec![TEXT.to_owned()]).await {
        Ok(Typed::Done) => {}
        Ok(Typed::Refused(why)) => return Err(format!("tmux refused the paste: {why}")),
        Err(error) => return Err(error.to_string()),
    }
    let expected = BRACKETS.join(TEXT);
    let read = || std::fs::read_to_string(typed).unwrap_or_default();
    until("", async || read().len() >= expected.len()).await.ok();
    match read() {
        found if found == expected => Ok(()),
        found => Err(format!("pasted {expected:?}, but the program read {found:?}")),
    }
}

/// Waits for a fact.
pub(super) async fn until(otherwise: &str, fact: impl AsyncFn() -> bool) -> Result<(), String> {
    let begin = Instant::now();
    while !fact().await {
        if begin.elapsed() > LIMIT {
            return Err(format!("{otherwise} (within {} s)", LIMIT.as_secs()));
        }
        sleep(LOOK_PAUSE).await;
    }
    Ok(())
}
