//! A small file that the settings name, or that users write: a secret, settings, rules. Whatever stands in its place, be
//! it a FIFO that nobody writes, a device, or gigabytes, nobody waits for it, and no more is read than is wanted.
//!
//! ```text
//! path ─► opened without waiting (links are followed) ─► looked at by its descriptor: a file? ─► read up to a limit
//! ```
//!
//! It does not know what the file holds, nor who may read it: [`PlainFile::mode`] tells.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

/// An opened regular file.
#[derive(Debug)]
pub struct PlainFile {
    file: File,
    found: Metadata,
}

impl PlainFile {
    /// Opens it, and looks at what was opened.
    ///
    /// # Errors
    /// As open(2), and if it is anything but a file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
        let found = file.metadata()?;
        match found.is_file() {
            true => Ok(Self { file, found }),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, what_else(&found))),
        }
    }

    /// Its permissions.
    pub fn mode(&self) -> u32 {
        self.found.mode() & 0o7777
    }

    /// Its text.
    ///
    /// # Errors
    /// As read(2), and if it is longer than that, or no UTF-8.
    pub fn text(self, most_bytes: u64) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most_bytes {
            let why = format!("it is longer than {most_bytes} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        String::from_utf8(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8"))
    }
}

/// The text of the file at that path.
///
/// # Errors
/// As [`PlainFile::open`] and [`PlainFile::text`].
pub fn read_text(path: &Path, most_bytes: u64) -> io::Result<String> {
    PlainFile::open(path)?.text(most_bytes)
}

fn what_else(found: &Metadata) -> &'static str {
    let kind = found.file_type();
    match () {
        () if kind.is_dir() => "it is a directory: name a file",
        () if kind.is_fifo() => "it is a FIFO: name a file",
        () => "it is a device: name a file",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn nobody_waits_for_what_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mkfifo(&fifo, Mode::from_bits_truncate(0o600)).unwrap();
        let link = dir.path().join("link");
        symlink(&fifo, &link).unwrap();
        for (path, why) in [
            (fifo.as_path(), "FIFO"),
            (&link, "FIFO"),
            (Path::new("/dev/zero"), "device"),
            (dir.path(), "directory"),
        ] {
            let error = read_text(path, 10).unwrap_err();
            assert!(error.to_string().contains(why), "{}: {error}", path.display());
        }
    }

    #[test]
    fn no_more_is_read_than_is_wanted_and_links_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        symlink(&file, &link).unwrap();
        std::fs::write(&file, "0123456789").unwrap();
        assert_eq!(read_text(&link, 10).unwrap(), "0123456789");
        assert_eq!(read_text(&link, 9).unwrap_err().to_string(), "it is longer than 9 bytes");
        std::fs::write(&file, b"\xff").unwrap();
        assert_eq!(read_text(&link, 9).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
