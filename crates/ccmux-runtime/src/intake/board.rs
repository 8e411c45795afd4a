//! What every channel is doing, for `ccmux channels` and `status`.

use ccmux_wire::channel::ChannelName;
use ccmux_wire::status::{ChannelStatus, Direction, RefusedFile};
use tokio::sync::watch;

use crate::disk::Disk;

/// The state of a channel whose FIFO is read.
pub(super) const OPEN: &str = "open";

/// The published lists, sorted by name; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ChannelBoard {
    channels: watch::Sender<Vec<ChannelStatus>>,
    refused: watch::Sender<Vec<RefusedFile>>,
    /// Where the logs of all channels are.
    pub(super) disk: Disk,
}

impl ChannelBoard {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Follows the list; it changes only when something on it does.
    pub fn subscribe(&self) -> watch::Receiver<Vec<ChannelStatus>> {
        self.channels.subscribe()
    }

    /// Files whose names are no channels' names.
    pub fn refused_files(&self) -> Vec<RefusedFile> {
        self.refused.borrow().clone()
    }

    /// Whether some channel's log waits for room on the disk.
    pub fn waits_for_disk(&self) -> bool {
        self.disk.is_full()
    }

    /// Sets all files that are refused for their names.
    pub(super) fn set_refused(&self, files: Vec<RefusedFile>) {
        self.refused.send_if_modified(|list| std::mem::replace(list, files) != *list);
    }

    /// Sets the state of one channel: `open`, or why not.
    pub(super) fn set(&self, name: &ChannelName, direction: Direction, state: &str) {
        self.channels.send_if_modified(|list| {
            let wanted = ChannelStatus { name: name.clone(), direction, state: state.to_owned() };
            match list.binary_search_by(|entry| (&entry.name, entry.direction).cmp(&(name, direction))) {
                Ok(at) if list[at] == wanted => false,
                Ok(at) => {
                    list[at] = wanted;
                    true
                }
                Err(at) => {
                    list.insert(at, wanted);
                    true
                }
            }
        });
    }

    /// Keeps only what is still there.
    pub(super) fn retain(&self, mut is_there: impl FnMut(&ChannelName, Direction) -> bool) {
        self.channels.send_if_modified(|list| {
            let before = list.len();
            list.retain(|entry| is_there(&entry.name, entry.direction));
            list.len() < before
        });
    }
}
