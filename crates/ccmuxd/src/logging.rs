//! The log: JSON lines to a file, and the same to stderr, but for what is said there in plain words.
//!
//! The file keeps its name; at 16 MiB it becomes `NAME.1`, what was there `NAME.2`, and so on, four in all. (The rolling
//! writers of the libraries put a date into the name, and people follow the log by its name.)

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ccmux_runtime::body::{TARGET as BODIES, logged};
use ccmux_runtime::daemon::LogLevel;
use ccmux_runtime::settings::LogSettings;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

/// The target of what people are told on stderr in plain words: it stands in the file alone.
pub const FILE_ONLY: &str = "ccmuxd::told";

const FILE_BYTES: u64 = 16 * 1024 * 1024;
const KEPT: u32 = 4;

/// Lines that may wait for a slow disk, and for a slow terminal or journal; beyond, lines are left out. Room for them is made
/// at once, 32 bytes each, and a disk that hangs must not fill the memory with the log.
const WAITING: (usize, usize) = (8192, 4096);

/// Starts logging. What is returned must live as long as anything is logged.
///
/// # Errors
/// If the file's folder can't be made or the file not be written.
pub fn start(file: &Path, log: &LogSettings) -> io::Result<([WorkerGuard; 2], LogLevel)> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Each is flushed when no line waits: a flood of them costs few writes, and none is held back.
    let (file, to_file) = aside(BufWriter::new(LogFile::open(file, FILE_BYTES)?), WAITING.0);
    // A terminal that was stopped with Ctrl-S stops nobody who logs.
    let (stderr, to_stderr) = aside(BufWriter::new(io::stderr()), WAITING.1);
    let log_to = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter(log))
        .with_writer(file.and(stderr.with_filter(|event| event.target() != FILE_ONLY)))
        .with_filter_reloading();
    let handle = log_to.reload_handle();
    log_to.init();
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        log_panic(place.unwrap_or_default(), panic.payload());
    }));
    let level = LogLevel::new(move |log| {
        if let Err(error) = handle.reload(filter(log)) {
            eprintln!("ccmuxd: log.level can't be changed: {error}");
        }
    });
    Ok(([to_file, to_stderr], level))
}

/// Written by a thread of its own.
fn aside(to: impl Write + Send + 'static, waiting: usize) -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default().buffered_lines_limit(waiting).finish(to)
}

/// What libraries tell may be anything, bodies too: of theirs comes no more than warnings, and of rmcp, which quotes what
/// it is sent, nothing.
fn filter(log: &LogSettings) -> EnvFilter {
    EnvFilter::new(directives(log))
}

fn directives(log: &LogSettings) -> String {
    let theirs = if log.level == "error" { "error" } else { "warn" };
    let (rmcp, bodies) = if log.bodies { ("error", "info") } else { ("off", "off") };
    format!("{theirs},ccmux={},rmcp={rmcp},{BODIES}={bodies}", log.level)
}

/// A sentence put together when it happened may quote a text (slices that don't fit do); one that stands in the program
/// does not.
fn log_panic(place: String, payload: &(dyn Any + Send)) {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(why), _) => tracing::error!(event = "daemon.panicked", place, why),
        (_, Some(why)) => {
            tracing::error!(event = "daemon.panicked", place, bytes = why.len(), body = logged(why));
        }
        _ => tracing::error!(event = "daemon.panicked", place),
    }
}

/// A file that makes way for a new one when it is full. A rotation that fails is tried again with the next line.
struct LogFile {
    path: PathBuf,
    file: File,
    written: u64,
    limit: u64,
}

impl LogFile {
    fn open(path: &Path, limit: u64) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let written = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, written, limit })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |number: u32| PathBuf::from(format!("{}.{number}", self.path.display()));
        for number in (1..KEPT).rev() {
            let _ = fs::rename(numbered(number), numbered(number + 1));
        }
        fs::rename(&self.path, numbered(1))?;
        *self = Self::open(&self.path, self.limit)?;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.written > 0 && self.written + line.len() as u64 > self.limit {
            let _ = self.rotate();
        }
        let written = self.file.write(line)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_programs_words_are_no_more_than_warnings_and_bodies_are_out_unless_asked_for() {
        let with = |level: &str, bodies| {
            directives(&LogSettings { file: String::new(), level: level.to_owned(), bodies })
        };
        assert_eq!(with("trace", false), "warn,ccmux=trace,rmcp=off,ccmux_bodies=off");
        assert_eq!(with("error", true), "error,ccmux=error,rmcp=error,ccmux_bodies=info");
    }

    #[test]
    fn a_full_file_makes_way_and_only_so_many_are_kept() {
        let folder = std::env::temp_dir().join(format!("ccmux-log-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.log");
        let mut log = LogFile::open(&path, 10).unwrap();
        (0..8).for_each(|n| log.write_all(format!("line {n}\n").as_bytes()).unwrap());
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!((read("x.log"), read("x.log.1")), ("line 7\n".to_owned(), "line 6\n".to_owned()));
        assert!(folder.join("x.log.4").exists() && !folder.join("x.log.5").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
