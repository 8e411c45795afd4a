//! Stands in for the daemon where only the other side is measured: answers every line on `control.sock`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::Context;
use tempfile::TempDir;

/// A private runtime directory with a `control.sock`.
#[derive(Debug)]
pub struct Ear {
    dir: TempDir,
    heard: Arc<AtomicU64>,
}

impl Ear {
    pub fn new() -> anyhow::Result<Self> {
        let dir =
            tempfile::Builder::new().prefix("ccmux-bench-").tempdir().context("a temporary directory")?;
        let listener = UnixListener::bind(dir.path().join("control.sock")).context("control.sock")?;
        let heard = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&heard);
        // Ends with this process.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(answer(stream), Ordering::Relaxed);
            }
        });
        Ok(Self { dir, heard })
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Whole lines that came.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }
}

/// One after the other is enough: nobody is measured while somebody else is.
fn answer(stream: UnixStream) -> u64 {
    let Ok(mut answers) = stream.try_clone() else { return 0 };
    let mut lines = BufReader::new(stream);
    let (mut line, mut heard) = (String::new(), 0);
    while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
        heard += u64::from(line.ends_with("}\n"));
        let _ = answers.write_all(b"{\"ok\":true}\n");
        line.clear();
    }
    heard
}
