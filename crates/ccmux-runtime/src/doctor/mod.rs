//! `ccmux doctor`: measures whether ccmux can work here, and says what to do where it can't.
//!
//! ```text
//! Patient ─► checks, one after the other, each with a limit ─► Finding { check, state, detail, remedy }
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`screen`] | `doctor --screen`: what is on the agent's pane now, and by which rule |
//! | [`finding`] | what a check says, and the list of checks |
//! | [`patient`] | what is examined: settings, places, the daemon if one runs |
//! | `paste` | tmux: its version, and a guarded paste into a pane of its own |
//! | `probe` | starts the agent once, in a folder of its own, and sees hook, state file and screen work |
//! | `scratch` | that folder |
//! | `ear` | hears hooks in it |
//! | `shell` | whether this shell has the settings of the daemon that runs |
//! | `places` | directories, sockets, token, FIFOs |
//! | `room` | disk and inbox |
//! | `routes` | whether the ways of notices have what they need |
//! | `network` | port, token, proxies |
//! | `host` | environment, systemd, cgroups, `/tmp` |
//! | `time` | the clock |
//! | `programs` | agent, hook, client and daemon: there, and of one version |
//!
//! It needs no daemon and disturbs none: no key reaches the agent's pane, no file of the user is written, and the agent that
//! it starts has neither the user's login nor an API to call.

mod ear;
pub mod finding;
mod host;
mod network;
mod paste;
pub mod patient;
mod places;
mod probe;
mod programs;
mod room;
mod routes;
mod scratch;
pub mod screen;
mod shell;
mod time;

use std::future::Future;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use finding::{CHECKS, Finding, Health};
pub use patient::{Patient, World};
pub use screen::{BoxReport, DoctorError, PaneReport, ScreenReport, look};

/// A check that hangs (a dead network file system, a program that never answers) is given up.
const LIMIT: Duration = Duration::from_secs(20);
/// The agent's start takes some seconds when it is cold.
const PROBE_LIMIT: Duration = Duration::from_secs(60);

/// What a check says that somebody ended.
const INTERRUPTED: &str = "it was interrupted";

/// Runs every check. `probe`: also start the agent once.
pub async fn examine(patient: Patient, probe: bool, tell: &mut (dyn FnMut(Finding) + Send)) {
    for check in [
        programs::daemon as fn(&Patient) -> Vec<Finding>,
        shell::settings,
        places::runtime_dir,
        places::state_dir,
        places::sockets,
        places::token_file,
        places::fifos,
        room::disk,
        room::inbox,
        network::proxy,
        network::no_proxy,
        host::environment,
        host::linger,
        host::sandbox,
        host::cgroup,
        host::tmp,
        time::clock,
        routes::routes,
    ] {
        let patient = patient.clone();
        // A thread of its own: files may be on a disk that does not answer.
        let found = async { spawn_blocking(move || check(&patient)).await.unwrap_or_default() };
        within(LIMIT, "doctor", found).await.into_iter().for_each(&mut *tell);
    }
    within(LIMIT, "port", network::port(&patient)).await.into_iter().for_each(&mut *tell);
    within(LIMIT, "token", network::token(&patient)).await.into_iter().for_each(&mut *tell);
    within(LIMIT, "versions", programs::versions(&patient)).await.into_iter().for_each(&mut *tell);
    // From here on something of ours runs, which nobody else would end.
    let stop = CancellationToken::new();
    tokio::spawn(cancel_at_a_signal(stop.clone()));
    within(LIMIT, "tmux", paste::tmux(&patient, &stop)).await.into_iter().for_each(&mut *tell);
    within(LIMIT, "agent", programs::agent(&patient)).await.into_iter().for_each(&mut *tell);
    let probed = match probe {
        _ if stop.is_cancelled() => probe::skipped(INTERRUPTED),
        true => within(PROBE_LIMIT, "hooks", probe::probe(&patient, &stop)).await,
        false => probe::skipped("it was not asked for (--no-probe)"),
    };
    probed.into_iter().for_each(tell);
}

/// `timeout`, a terminal that is closed, Ctrl-C.
async fn cancel_at_a_signal(stop: CancellationToken) {
    let came = |kind| async move {
        match signal(kind) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = came(SignalKind::interrupt()) => {}
        () = came(SignalKind::terminate()) => {}
        () = came(SignalKind::hangup()) => {}
    }
    stop.cancel();
}

async fn within(
    limit: Duration,
    check: &'static str,
    found: impl Future<Output = Vec<Finding>>,
) -> Vec<Finding> {
    timeout(limit, found).await.unwrap_or_else(|_elapsed| {
        let what = format!("no answer within {} s", limit.as_secs());
        vec![Finding::failure(check, what, "something that it needs hangs: a disk, tmux, or a program")]
    })
}

#[cfg(test)]
mod tests;
