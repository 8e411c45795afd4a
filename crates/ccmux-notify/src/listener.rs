//! Takes the notes that are there, or sleeps until some come: in one `poll`, without waking up by itself.
//!
//! ```text
//! listen ─► notes there? print, remove, end
//!        └► else poll: doorbell, doorbell.NAME, whether they were removed or moved (Linux), stdout's other end, the timeout
//! ```
//!
//! Where the directory was moved or removed, it goes on in the one that stands in its place: whoever writes a note does.
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
    let mut anew: Option<Folder> = None;
    loop {
        let here = anew.as_ref().unwrap_or(folder);
        match listen_in(here, name, deadline, out, watched) {
            Ok(Some(heard)) => return Ok(heard),
            Ok(None) => {}
            Err(TakeError::Folder(_)) if !here.is_in_place() => {}
            Err(error) => return Err(error),
        }
        anew = Some(here.again()?);
    }
}

/// `None`: the directory is not the one any more that notes are put in.
fn listen_in(
    folder: &Folder,
    name: &str,
    deadline: Option<Instant>,
    out: &mut impl Write,
    watched: Option<BorrowedFd<'_>>,
) -> Result<Option<Heard>, TakeError> {
    let _here = announce(folder)?;
    let names = [DOORBELL.to_owned(), bell_of(name)];
    while folder.is_in_place() {
        let bells = hang(folder, &names)?;
        let alarm = Alarm::on(folder, &bells);
        // Looked at with the alarm set: what happens from here on wakes.
        while folder.is_in_place() && bells.iter().all(|bell| bell.still_hangs(folder)) {
            let taken = queue::take(folder, name, &bells, out, deadline)?;
            if !taken.is_empty() {
                return Ok(Some(Heard::Notes(taken)));
            }
            match wait(&bells, &alarm, watched, deadline) {
                Waking::Rung => {}
                Waking::TimedOut => return Ok(Some(Heard::TimedOut)),
                Waking::NobodyReads => return Ok(Some(Heard::NobodyReads)),
            }
        }
    }
    Ok(None)
}

/// Waits until a bell rings: for who has asked and waits for the answer. The fact is looked at under [`Folder::lock`],
/// for the last time when the bell is gone already: what becomes a fact later finds nobody to ring for.
///
/// # Errors
/// If the files can't be used, or the fact can't be told; [`FolderError::Moved`] where nobody could ring any more.
pub(crate) fn wait_until<T, E: From<FolderError>>(
    folder: &Folder,
    name: &str,
    deadline: Option<Instant>,
    mut fact: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let names = [bell_of(name)];
    let mut is_late = false;
    loop {
        let moved = |error| if folder.is_in_place() { error } else { folder.moved() };
        let bells = hang(folder, &names).map_err(moved)?;
        let alarm = Alarm::on(folder, &bells);
        let lock = folder.lock().map_err(moved)?;
        bells.iter().for_each(Bell::silence);
        let found = fact();
        if !matches!(found, Ok(Some(_))) && !folder.is_in_place() {
            return Err(folder.moved().into());
        }
        if is_late || !matches!(found, Ok(None)) {
            folder.remove(&names[0])?;
            return found;
        }
        drop(lock);
        is_late = matches!(wait(&bells, &alarm, None, deadline), Waking::TimedOut);
    }
}

fn hang(folder: &Folder, names: &[String]) -> Result<Vec<Bell>, FolderError> {
    let _lock = folder.lock()?;
    names.iter().map(|name| Bell::hang(folder, name)).collect()
}

/// Says that somebody listens, while the file lives.
fn announce(folder: &Folder) -> Result<File, FolderError> {
    let _lock = folder.lock()?;
    let mut file = folder.file(PID_FILE, OFlag::O_RDWR | OFlag::O_CREAT)?;
    file.lock_shared().map_err(|source| FolderError::Io { path: folder.path_of(PID_FILE), source })?;
    // The number only informs: a full disk keeps nobody from listening.
    let _ = file.set_len(0).and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()));
    Ok(file)
}

/// Whether somebody listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listening {
    /// Nobody.
    Nobody,
    /// This process was the last to begin.
    Process(u32),
    /// Somebody; the disk had no room for a number.
    Somebody,
}

/// Whether somebody listens, and who was the last to begin.
///
/// # Errors
/// If the files can't be used.
pub fn status(folder: &Folder) -> Result<Listening, FolderError> {
    let at = |source| FolderError::Io { path: folder.path_of(PID_FILE), source };
    // Who begins holds it until the number is written.
    let _lock = folder.lock()?;
    let mut file = folder.file(PID_FILE, OFlag::O_RDWR | OFlag::O_CREAT)?;
    match file.try_lock() {
        Ok(()) => Ok(Listening::Nobody),
        Err(TryLockError::Error(source)) => Err(at(source)),
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(at)?;
            Ok(text.trim().parse().map_or(Listening::Somebody, Listening::Process))
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
        alarm.silence();
        let is_gone = |fd: &PollFd<'_>| fd.revents().is_some_and(|what| what.intersects(gone));
        return match watched.is_some() && is_gone(&fds[0]) {
            true => Waking::NobodyReads,
            false => Waking::Rung,
        };
    }
}

/// Goes off when a bell is taken away, or the directory moved (Linux). It can't be removed with its bells in it.
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
            for dir in folder.movable() {
                inotify.add_watch(&dir, AddWatchFlags::IN_MOVE_SELF)?;
            }
            Ok::<_, nix::Error>(inotify)
        };
        Self(Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).and_then(watch).ok())
    }

    /// Whatever it tells of is looked at next; left unread it would wake for ever.
    fn silence(&self) {
        let Some(inotify) = &self.0 else { return };
        while inotify.read_events().is_ok_and(|events| !events.is_empty()) {}
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

    fn silence(&self) {}

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::repository::Repository;

    fn place() -> (TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        let folder = Folder::open(&Repository { root, worktree: None, exclude: None }).unwrap();
        (dir, folder)
    }

    #[test]
    fn what_becomes_a_fact_at_the_deadline_is_not_missed() {
        let (_dir, folder) = place();
        let mut looks = 0;
        let found = wait_until(&folder, "q", Some(Instant::now()), || {
            looks += 1;
            Ok::<_, FolderError>((looks == 2).then_some("answered"))
        });
        assert_eq!(found.unwrap(), Some("answered"));
        assert!(!folder.path_of(&bell_of("q")).exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_bell_that_somebody_touches_wakes_once() {
        use std::fs::{self, Permissions};
        use std::os::unix::fs::PermissionsExt;
        use std::time::Duration;

        let (_dir, folder) = place();
        let bells = hang(&folder, &[DOORBELL.to_owned()]).unwrap();
        let alarm = Alarm::on(&folder, &bells);
        fs::set_permissions(folder.path_of(DOORBELL), Permissions::from_mode(0o600)).unwrap();
        let in_ms = |ms| Some(Instant::now() + Duration::from_millis(ms));
        assert!(matches!(wait(&bells, &alarm, None, in_ms(30_000)), Waking::Rung));
        assert!(matches!(wait(&bells, &alarm, None, in_ms(20)), Waking::TimedOut));
    }
}
