//! Doors for those who are not the user: containers, each by its own socket, and older senders over TCP.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::DaemonError;
use super::house::House;
use crate::attention::Ears;
use crate::containers::host::Host;
use crate::containers::{ContainerDesk, Order};
use crate::control::Desk;
use crate::senders::SenderDoor;
use crate::tmux::Tmux;

/// Opens the sockets of containers that an earlier daemon left, and waits for new ones.
pub(super) fn start_host(
    house: &House,
    tasks: &TaskTracker,
    (own, orders): (ContainerDesk, mpsc::Receiver<Order>),
    desk: &Arc<Desk<Tmux>>,
    shutdown: &CancellationToken,
) {
    let host = Host {
        ears: desk.attention.ears.clone(),
        desk: Arc::clone(desk),
        own,
        orders,
        runtime_dir: Arc::clone(&house.runtime_dir),
        state_dir: house.state_dir.path().to_owned(),
        shutdown: shutdown.clone(),
    };
    tasks.spawn(host.run());
}

/// Listens where the settings say, if they do.
///
/// # Errors
/// If the token that others must know can't be read: nothing is opened without it.
pub(super) fn start_senders(
    house: &House,
    tasks: &TaskTracker,
    ears: &Ears,
    shutdown: &CancellationToken,
) -> Result<(), DaemonError> {
    let settings = &house.setting.settings.tcp;
    let Some(address) = settings.address() else { return Ok(()) };
    let token = settings.token(&house.setting.home)?;
    let (ears, shutdown) = (ears.clone(), shutdown.clone());
    tasks.spawn(SenderDoor { address, token, ears, shutdown }.run());
    Ok(())
}
