//! FIFOs that systemd keeps open over the end of the daemon, so that no writer waits and no byte is lost meanwhile.
//!
//! ```text
//! a FIFO is opened      keep: FDSTORE under `in.NAME/DEVICE-INODE`     ──► Kept, held by its reader
//! the daemon dies       systemd has it open: writers write into the pipe
//! the next one starts   passed; the path still leads to it: opened as always, the bytes are in there
//!                       the path leads elsewhere, or nowhere: drained like a FIFO that vanished
//! its reader ends       let go, unless the daemon stops
//! ```
//!
//! The name holds the inode, so that letting an old FIFO go never means the new one of the same channel.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

use ccmux_wire::channel::{ChannelName, FileRole, in_file, role_of_file};

use super::fifo::OpenFifo;
use crate::runtime_dir::FileId;
use crate::systemd::{Passed, Systemd};

/// What systemd keeps.
#[derive(Debug, Default)]
pub struct FifoStore {
    systemd: Systemd,
    passed: Vec<PassedFifo>,
    /// Names that readers hold.
    held: Vec<Weak<String>>,
}

/// A FIFO that an earlier daemon had stored.
#[derive(Debug)]
struct PassedFifo {
    channel: ChannelName,
    fifo: OpenFifo,
    name: String,
}

/// That a FIFO is stored; whoever reads it holds this. Two do, while one reader follows another on the same FIFO.
#[derive(Debug)]
pub struct Kept {
    systemd: Systemd,
    name: Arc<String>,
}

/// A FIFO whose channel has another one now, or none: only what is in it counts.
#[derive(Debug)]
pub(super) struct Stale {
    pub(super) channel: ChannelName,
    pub(super) fifo: OpenFifo,
    pub(super) kept: Kept,
}

impl FifoStore {
    /// With what was passed; what is no FIFO of a channel is let go.
    pub fn new(systemd: Systemd, passed: Passed) -> Self {
        for (name, why) in &passed.refused {
            refuse(&systemd, name, &why.to_string());
        }
        let fifos = passed.fifos.into_iter();
        let passed: Vec<PassedFifo> =
            fifos.filter_map(|(name, fifo)| PassedFifo::new(&systemd, name, fifo)).collect();
        if !passed.is_empty() {
            tracing::info!(event = "fifos.passed", count = passed.len());
        }
        Self { systemd, passed, held: Vec::new() }
    }

    /// Has a channel's FIFO kept, if it is not yet.
    pub(super) fn keep(&mut self, channel: &ChannelName, fifo: &OpenFifo) -> Kept {
        let systemd = self.systemd.clone();
        let name = name_of(channel, fifo.id);
        self.held.retain(|held| held.strong_count() > 0);
        if let Some(name) = self.held.iter().filter_map(Weak::upgrade).find(|held| **held == name) {
            return Kept { systemd, name };
        }
        let known =
            self.passed.iter().position(|passed| passed.fifo.id == fifo.id && passed.channel == *channel);
        let name = match known {
            Some(known) => self.passed.swap_remove(known).name,
            None => {
                self.systemd.keep(&name, fifo.reader.as_fd());
                name
            }
        };
        let name = Arc::new(name);
        self.held.push(Arc::downgrade(&name));
        Kept { systemd, name }
    }

    /// Those whose path leads elsewhere.
    pub(super) fn take_stale(&mut self, is_there: impl Fn(&ChannelName, FileId) -> bool) -> Vec<Stale> {
        let stale = self.passed.extract_if(.., |passed| !is_there(&passed.channel, passed.fifo.id));
        let systemd = &self.systemd;
        stale.map(|passed| passed.stale(systemd.clone())).collect()
    }
}

impl PassedFifo {
    fn new(systemd: &Systemd, name: String, fifo: File) -> Option<Self> {
        match (channel_of(&name), OpenFifo::passed(fifo)) {
            (Some(channel), Ok(fifo)) => Some(Self { channel, fifo, name }),
            (None, _) => {
                refuse(systemd, &name, "not the name of a channel's FIFO");
                None
            }
            (_, Err(error)) => {
                refuse(systemd, &name, &error.to_string());
                None
            }
        }
    }

    fn stale(self, systemd: Systemd) -> Stale {
        let kept = Kept { systemd, name: Arc::new(self.name) };
        Stale { channel: self.channel, fifo: self.fifo, kept }
    }
}

impl Kept {
    /// The FIFO is over and empty; unless somebody else reads it.
    pub(super) fn let_go(self) {
        if let Some(name) = Arc::into_inner(self.name) {
            self.systemd.let_go(&name);
        }
    }
}

fn refuse(systemd: &Systemd, name: &str, why: &str) {
    tracing::warn!(event = "fifos.passed_refused", name, why);
    systemd.let_go(name);
}

fn name_of(channel: &ChannelName, id: FileId) -> String {
    format!("{}/{:x}-{:x}", in_file(channel), id.dev, id.ino)
}

fn channel_of(name: &str) -> Option<ChannelName> {
    match role_of_file(name.split_once('/')?.0) {
        FileRole::In(channel) => Some(channel),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    /// A reader that follows another one on the same FIFO, as for a file that was adopted meanwhile.
    #[test]
    fn a_fifo_that_two_readers_hold_is_let_go_by_the_last_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in.x");
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        let (systemd, heard) = Systemd::heard(None);
        let mut store = FifoStore::new(systemd, Passed::default());
        let channel = "x".parse().unwrap();
        let [first, second] = [(), ()].map(|()| store.keep(&channel, &OpenFifo::open(&path).unwrap()));
        first.let_go();
        assert_eq!(heard.so_far().len(), 1, "stored once, and still wanted");
        second.let_go();
        assert!(heard.so_far()[0].starts_with("let go in.x/"));
        drop(store.keep(&channel, &OpenFifo::open(&path).unwrap()));
        assert!(heard.so_far()[0].starts_with("keep in.x/"), "it was let go meanwhile");
    }
}
