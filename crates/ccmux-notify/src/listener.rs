//! Takes the notes that are there, or sleeps until some come: in one `poll`, without waking up by itself.
//!
//! ```text
//! listen ─► notes there? print, remove, end
//!        └► else poll: doorbell, doorbell.NAME, whether they were removed (Linux), stdout's other end, the timeout
//! ```
//!
//! Several may listen; each note goes to one of them. `listener.pid` is locked by all of them together, so that anybody can
//! tell whether somebody listens, whatever number stands in it.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::bell::{Bell, DOORBELL, bell_of};
use crate::folder::{Folder, FolderError};
use crate::note::Note;
use crate::queue::{self, TakeError};

const PID_FILE: &str = "listener.pid";

/// How listening ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// These were printed, and are out of the queue.
    Notes(Vec<Note>),
    /// Nothing came in time.
    TimedOut,
    /// Nobody reads what would be printed.
    NobodyReads,
}

/// Listens under a name. Notes go to `out`, whose descriptor is `reader`'s end, if there is one to watch.
///
/// # Errors
/// If the files can't be used, or what came can't be printed.
pub fn listen(
    folder: &Folder,
    name: &str,
    deadline: Option<Instant>,
    out: &mut impl Write,
    watched: Option<BorrowedFd<'_>>,
) -> Result<Heard, TakeError> {
    let _here = announce(folder)?;
    let names = [DOORBELL.to_owned(), bell_of(name)];
    loop {
        let bells = hang(folder, &names)?;
        let alarm = Alarm::on(folder, &bells);
        while bells.iter().all(|bell| bell.still_hangs(folder)) {
            let taken = queue::take(folder, name, &bells, out, deadline)?;
            if !taken.is_empty() {
                return Ok(Heard::Notes(taken));
            }
            match wait(&bells, &alarm, watched, deadline) {
                Waking::Rung => {}
                Waking::TimedOut => return Ok(Heard::TimedOut),
                Waking::NobodyReads => return Ok(Heard::NobodyReads),
            }
        }
    }
}

/// Waits until a bell rings: for who has asked and waits for the answer.
///
/// # Errors
/// If the files can't be used.
pub fn wait_until<T>(
    folder: &Folder,
    name: &str,
    deadline: Option<Instant>,
    mut fact: impl FnMut() -> Result<Option<T>, FolderError>,
) -> Result<Option<T>, FolderError> {
    let names = [bell_of(name)];
    let found = loop {
        let bells = hang(folder, &names)?;
        let alarm = Alarm::on(folder, &bells);
        let lock = folder.lock()?;
        bells.iter().for_each(Bell::silence);
        drop(lock);
        if let Some(found) = fact()? {
            break Some(found);
        }
        if matches!(wait(&bells, &alarm, None, deadline), Waking::TimedOut) {
            break None;
        }
    };
    folder.remove(&names[0])?;
    Ok(found)
}

fn hang(folder: &Folder, names: &[String]) -> Result<Vec<Bell>, FolderError> {
    let _lock = folder.lock()?;
    names.iter().map(|name| Bell::hang(folder, name)).collect()
}

/// Says that somebody listens, while the file lives.
fn announce(folder: &Folder) -> Result<File, FolderError> {
    let mut file = folder.file(PID_FILE, OFlag::O_RDWR | OFlag::O_CREAT)?;
    let at = |source| FolderError::Io { path: folder.path_of(PID_FILE), source };
    file.lock_shared().map_err(at)?;
    file.set_len(0)
        .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()))
        .map_err(at)?;
    Ok(file)
}

/// Whether somebody listens, and who was the last to begin.
///
/// # Errors
/// If the files can't be used.
pub fn status(folder: &Folder) -> Result<Option<u32>, FolderError> {
    let at = |source| FolderError::Io { path: folder.path_of(PID_FILE), source };
    let mut file = folder.file(PID_FILE, OFlag::O_RDWR | OFlag::O_CREAT)?;
    match file.try_lock() {
        Ok(()) => Ok(None),
        Err(TryLockError::Error(source)) => Err(at(source)),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(at)?;
            Ok(Some(text.trim().parse().unwrap_or(0)))
        }
    }
}

enum Waking {
    Rung,
    TimedOut,
    NobodyReads,
}

fn wait(bells: &[Bell], alarm: &Alarm, watched: Option<BorrowedFd<'_>>, deadline: Option<Instant>) -> Waking {
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    loop {
        let timeout = match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
            None => PollTimeout::NONE,
            Some(left) if left.is_zero() => return Waking::TimedOut,
            // Rounded up, or the last millisecond would be spent awake.
            Some(left) => PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX),
        };
        let mut fds: Vec<PollFd<'_>> =
            watched.iter().map(|fd| PollFd::new(*fd, PollFlags::empty())).collect();
        fds.extend(bells.iter().map(|bell| PollFd::new(bell.as_fd(), PollFlags::POLLIN)));
        fds.extend(alarm.fd().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        if poll(&mut fds, timeout).unwrap_or(0) == 0 {
            continue;
        }
        let is_gone = |fd: &PollFd<'_>| fd.revents().is_some_and(|what| what.intersects(gone));
        return match watched.is_some() && is_gone(&fds[0]) {
            true => Waking::NobodyReads,
            false => Waking::Rung,
        };
    }
}

/// Goes off when a bell is taken away (Linux).
#[cfg(target_os = "linux")]
struct Alarm(Option<nix::sys::inotify::Inotify>);

#[cfg(target_os = "linux")]
impl Alarm {
    fn on(folder: &Folder, bells: &[Bell]) -> Self {
        use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
        let watch = |inotify: Inotify| {
            let flags =
                AddWatchFlags::IN_ATTRIB | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_DELETE_SELF;
            for bell in bells {
                inotify.add_watch(&folder.path_of(bell.name()), flags)?;
            }
            Ok::<_, nix::Error>(inotify)
        };
        Self(Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).and_then(watch).ok())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }
}

#[cfg(not(target_os = "linux"))]
struct Alarm;

#[cfg(not(target_os = "linux"))]
impl Alarm {
    fn on(_: &Folder, _: &[Bell]) -> Self {
        Self
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
