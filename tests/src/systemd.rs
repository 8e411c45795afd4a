//! A stand-in for systemd: the socket that services notify, the descriptor store, and a start that passes the store on.
//!
//! It obeys what sd_notify(3) and sd_listen_fds(3) say, and starts nothing by itself. The real one is booted by
//! `cargo xtask systemd-test`.

use std::fmt::Write;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::house::House;

/// Its socket's name in a house.
pub const SOCKET: &str = "notify";

/// What a shell can pass on: descriptors 3 to 9.
const MOST_PASSED: usize = 7;

/// Becomes the daemon in the same process, whose id the variables must name.
const START: &str = "export LISTEN_PID=$$; exec \"$0\"";

/// Where the flag is missing there is no systemd, either.
const CLOSE_ON_EXEC: RecvFlags = {
    #[cfg(target_os = "linux")]
    {
        RecvFlags::CMSG_CLOEXEC
    }
    #[cfg(not(target_os = "linux"))]
    {
        RecvFlags::empty()
    }
};

/// Listens on the house's socket.
#[derive(Debug)]
pub struct Systemd {
    heard: Arc<Mutex<Heard>>,
}

#[derive(Debug, Default)]
struct Heard {
    words: Vec<String>,
    store: Vec<(String, OwnedFd)>,
}

impl Systemd {
    /// Before the daemon is started, with `NOTIFY_SOCKET` in its environment.
    pub fn listen(house: &House) -> Self {
        let socket = UnixDatagram::bind(house.path(SOCKET)).unwrap();
        let heard: Arc<Mutex<Heard>> = Arc::default();
        let hears = Arc::clone(&heard);
        // Ends with the process: nobody else reads this socket.
        thread::spawn(move || while hear(&socket, &hears).is_some() {});
        Self { heard }
    }

    /// All words so far, `READY=1` and the like.
    pub fn words(&self) -> Vec<String> {
        self.heard.lock().unwrap().words.clone()
    }

    /// How often that was said.
    pub fn count(&self, word: &str) -> usize {
        self.words().iter().filter(|said| *said == word).count()
    }

    /// The names in the store, sorted.
    pub fn stored(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.heard.lock().unwrap().store.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    /// Puts something into the store that no daemon sent.
    pub fn slip_in(&self, name: &str, fd: impl Into<OwnedFd>) {
        self.heard.lock().unwrap().store.push((name.to_owned(), fd.into()));
    }

    /// Starts the daemon with all that is stored, as systemd does after a crash, and waits until it answers.
    pub fn start(&self, house: &House) {
        let heard = self.heard.lock().unwrap();
        assert!(heard.store.len() <= MOST_PASSED, "a shell can't pass on so many");
        let names: Vec<&str> = heard.store.iter().map(|(name, _)| name.as_str()).collect();
        let mut script = START.to_owned();
        for (index, (_, fd)) in heard.store.iter().enumerate() {
            let (number, own) = (index + 3, fd.as_raw_fd());
            let _ = write!(script, " {number}<>/proc/{}/fd/{own}", std::process::id());
        }
        let mut command = house.command(Path::new("/bin/sh"));
        command.arg("-c").arg(script).arg(house.bin("ccmuxd"));
        command.env("LISTEN_FDS", names.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        drop(heard);
        house.start_command(command);
    }
}

/// One message; `None` when the socket is gone.
fn hear(socket: &UnixDatagram, heard: &Mutex<Heard>) -> Option<()> {
    let mut bytes = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, CLOSE_ON_EXEC).ok()?;
    let mut fds: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            fds.extend(passed);
        }
    }
    let text = String::from_utf8_lossy(&bytes[..got.bytes]).into_owned();
    heard.lock().unwrap().take(&text, fds);
    Some(())
}

impl Heard {
    fn take(&mut self, text: &str, fds: Vec<OwnedFd>) {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let name = value("FDNAME=").unwrap_or("stored").to_owned();
        if value("FDSTORE=").is_some() {
            self.store.extend(fds.into_iter().map(|fd| (name.clone(), fd)));
        } else if value("FDSTOREREMOVE=").is_some() {
            self.store.retain(|(stored, _)| *stored != name);
        }
        self.words.extend(text.lines().map(str::to_owned));
    }
}
