//! The two sockets of the runtime directory: bound at the start, and again whenever they were lost.
//!
//! Doesn't know what is said on them.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::DaemonError;
use super::house::House;
use crate::control::{Control, Desk};
use crate::runtime_dir::RuntimeDir;
use crate::tmux::Tmux;
use crate::turns::Turns;
use crate::turns::broadcast::Broadcaster;

/// How soon a socket that can't be bound is tried again.
const BIND_AGAIN: Duration = Duration::from_secs(5);

/// Binds both sockets now, so that what is refused is an error of the start, and again whenever they were lost.
pub(super) fn start_sockets(
    house: &House,
    tasks: &TaskTracker,
    desk: Arc<Desk<Tmux>>,
    shutdown: &CancellationToken,
) -> Result<(), DaemonError> {
    let dir = Arc::clone(&house.runtime_dir);
    let turns = house.turns.turns.clone();
    let mut lost = dir.lost_sockets();
    let mut listeners = bind(&dir)?;
    let (shutdown, inner) = (shutdown.clone(), tasks.clone());
    tasks.spawn(async move {
        loop {
            let serving = shutdown.child_token();
            serve(&inner, listeners, &desk, &turns, &serving);
            tokio::select! {
                () = shutdown.cancelled() => return,
                changed = lost.changed() => if changed.is_err() { return },
            }
            serving.cancel();
            listeners = tokio::select! {
                () = shutdown.cancelled() => return,
                listeners = bind_again(&dir) => listeners,
            };
        }
    });
    Ok(())
}

/// A directory that is refused now may be put right: the sockets come back then.
async fn bind_again(dir: &RuntimeDir) -> Listeners {
    loop {
        match bind(dir) {
            Ok(listeners) => return listeners,
            Err(error) => tracing::error!(event = "sockets.lost", %error),
        }
        sleep(BIND_AGAIN).await;
    }
}

type Listeners = (UnixListener, UnixListener);

fn bind(dir: &RuntimeDir) -> Result<Listeners, DaemonError> {
    let listen = |name: &str| {
        let listener = dir.bind_socket(&dir.path().join(name))?;
        UnixListener::from_std(listener).map_err(|source| DaemonError::Io { what: "can't listen", source })
    };
    // control.sock last: whoever sees it finds everything else.
    let output = listen("output.sock")?;
    Ok((output, listen("control.sock")?))
}

fn serve(
    tasks: &TaskTracker,
    (output, control): Listeners,
    desk: &Arc<Desk<Tmux>>,
    turns: &Turns,
    shutdown: &CancellationToken,
) {
    let broadcast = turns.broadcast().clone();
    tasks.spawn(Broadcaster { broadcast, listener: output, shutdown: shutdown.clone() }.run());
    tasks.spawn(Control { desk: Arc::clone(desk), listener: control, shutdown: shutdown.clone() }.run());
}
