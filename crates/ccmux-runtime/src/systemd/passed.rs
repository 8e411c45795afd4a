//! `LISTEN_FDS`: what systemd held open for an earlier daemon, checked and taken.
//!
//! A number in a variable is no proof of what is behind it. Each descriptor is looked at through `/proc/self/fd`; only
//! a FIFO of this user is opened anew from there, as a descriptor of our own that children don't inherit. The number
//! that came is closed in any case; systemd has its own.

use std::fs::{File, Metadata, OpenOptions, metadata};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use nix::fcntl::OFlag;
use nix::unistd::Uid;

/// What was passed at the start.
#[derive(Debug, Default)]
pub struct Passed {
    /// FIFOs of ours, by the names under which they are stored.
    pub fifos: Vec<(String, File)>,
    /// What is none, by its name.
    pub refused: Vec<(String, Refused)>,
}

/// Why something that was passed is not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A file, a socket, a device.
    #[error("not a FIFO")]
    Kind,
    /// Another user's.
    #[error("a FIFO of uid {0}, not yours")]
    Foreign(u32),
    /// The system said no.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl Passed {
    /// Takes everything that the variables name. To be called before anything else is opened.
    pub fn take() -> Self {
        let mut passed = Self::default();
        match sd_notify::listen_fds_with_names() {
            Ok(numbers) => numbers.for_each(|(number, name)| passed.add(number, name)),
            Err(error) => passed.refused.push(("LISTEN_FDS".to_owned(), error.into())),
        }
        passed
    }

    fn add(&mut self, number: RawFd, name: String) {
        match take(number) {
            Ok(fifo) => self.fifos.push((name, fifo)),
            Err(refused) => self.refused.push((name, refused)),
        }
        let _ = nix::unistd::close(number);
    }
}

fn take(number: RawFd) -> Result<File, Refused> {
    let path = PathBuf::from(format!("/proc/self/fd/{number}"));
    check(&metadata(&path)?)?;
    let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let fifo = OpenOptions::new().read(true).write(true).custom_flags(flags.bits()).open(&path)?;
    check(&fifo.metadata()?)?;
    Ok(fifo)
}

fn check(found: &Metadata) -> Result<(), Refused> {
    if !found.file_type().is_fifo() {
        return Err(Refused::Kind);
    }
    match found.uid() {
        uid if uid == Uid::effective().as_raw() => Ok(()),
        uid => Err(Refused::Foreign(uid)),
    }
}
