//! Whole lines of a file that still grows, from an offset on, in bounded memory.
//!
//! A last line without its newline is left for later; a line over the limit is skipped without being held. Knows no JSON.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Lines longer than this are skipped.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

const CHUNK_BYTES: usize = 64 * 1024;

/// What lines are read from.
pub trait Source {
    /// Fills the buffer from `offset` on, as far as there is something; says how far.
    ///
    /// # Errors
    /// What reading says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl Source for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

impl Source for &[u8] {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

/// Reads a file line by line; after [`Next::End`] it may be asked again.
#[derive(Debug)]
pub struct LineReader<S = File> {
    file: S,
    /// Bytes read but not yet given out; those before `taken` were.
    buffer: Vec<u8>,
    taken: usize,
    /// Where the line at `taken` begins in the file.
    line_start: u64,
    /// Where the next read begins.
    read_from: u64,
    /// No newline is in `buffer[taken..scanned]`.
    scanned: usize,
    /// The current line is too long; its bytes are thrown away.
    skipping: bool,
    limit: usize,
    bytes_read: u64,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A whole line, without its newline.
    Line {
        /// Its bytes.
        bytes: &'a [u8],
        /// Where it begins.
        start: u64,
    },
    /// A line over the limit ended.
    TooLong,
    /// A line over the limit goes on; the caller may ask again or give up.
    StillLong,
    /// There is no whole line any more, for now.
    End {
        /// But the beginning of one.
        torn: bool,
    },
}

impl<S: Source> LineReader<S> {
    /// Reads from `offset` on.
    pub fn new(file: S, offset: u64) -> Self {
        Self::with_limit(file, offset, MAX_LINE_BYTES)
    }

    fn with_limit(file: S, offset: u64, limit: usize) -> Self {
        let (buffer, taken, scanned, skipping, bytes_read) = (Vec::new(), 0, 0, false, 0);
        Self {
            file,
            buffer,
            taken,
            line_start: offset,
            read_from: offset,
            scanned,
            skipping,
            limit,
            bytes_read,
        }
    }

    /// The end of the last whole line.
    pub fn position(&self) -> u64 {
        self.line_start
    }

    /// How much was read of the file.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The next whole line, or that there is none yet.
    ///
    /// # Errors
    /// What reading says.
    pub fn next_line(&mut self) -> io::Result<Next<'_>> {
        loop {
            if let Some(length) = self.line_length() {
                let (from, start) = (self.taken, self.line_start);
                self.advance(length);
                if std::mem::take(&mut self.skipping) {
                    return Ok(Next::TooLong);
                }
                return Ok(Next::Line { bytes: &self.buffer[from..from + length], start });
            }
            if self.read_more()? == 0 {
                return Ok(Next::End { torn: self.skipping || self.buffer.len() > self.taken });
            }
            if self.skipping && self.line_length().is_none() {
                return Ok(Next::StillLong);
            }
        }
    }

    /// The line that was given out last, of that length, was not used: [`Self::position`] stays before it.
    pub fn put_back(&mut self, length: u64) {
        self.taken -= length as usize + 1;
        self.scanned = self.taken;
        self.line_start -= length + 1;
    }

    fn line_length(&mut self) -> Option<usize> {
        let newline = self.buffer[self.scanned..].iter().position(|&byte| byte == b'\n');
        match newline {
            Some(at) => Some(self.scanned + at - self.taken),
            None => {
                self.scanned = self.buffer.len();
                None
            }
        }
    }

    fn advance(&mut self, length: usize) {
        self.taken += length + 1;
        self.scanned = self.taken;
        self.line_start = self.read_from - (self.buffer.len() - self.taken) as u64;
    }

    fn read_more(&mut self) -> io::Result<usize> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        if self.skipping || self.buffer.len() > self.limit {
            self.skipping = true;
            self.buffer.clear();
        }
        if self.buffer.capacity() > 4 * CHUNK_BYTES && self.buffer.len() < CHUNK_BYTES {
            self.buffer.shrink_to(CHUNK_BYTES);
        }
        self.scanned = self.buffer.len();
        let kept = self.buffer.len();
        self.buffer.resize(kept + CHUNK_BYTES, 0);
        let read = self.file.read_at(&mut self.buffer[kept..], self.read_from);
        self.buffer.truncate(kept + *read.as_ref().unwrap_or(&0));
        let read = read?;
        self.read_from += read as u64;
        self.bytes_read += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file_with(bytes: &[u8]) -> (tempfile::NamedTempFile, File) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let reading = File::open(file.path()).unwrap();
        (file, reading)
    }

    fn line(next: Next<'_>) -> (String, u64) {
        let Next::Line { bytes, start } = next else { panic!("{next:?}") };
        (String::from_utf8_lossy(bytes).into_owned(), start)
    }

    #[test]
    fn a_torn_last_line_waits_for_its_newline() {
        let (mut file, reading) = file_with(b"one\ntw");
        let mut lines = LineReader::new(reading, 0);
        assert_eq!(line(lines.next_line().unwrap()), ("one".into(), 0));
        assert_eq!(lines.next_line().unwrap(), Next::End { torn: true });
        assert_eq!(lines.position(), 4);
        file.write_all(b"o\nthree\n").unwrap();
        assert_eq!(line(lines.next_line().unwrap()), ("two".into(), 4));
        assert_eq!(line(lines.next_line().unwrap()), ("three".into(), 8));
        assert_eq!(lines.next_line().unwrap(), Next::End { torn: false });
        assert_eq!(lines.position(), 14);
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_the_next_one_is_whole() {
        let long = vec![b'x'; 3 * CHUNK_BYTES];
        let (_file, reading) = file_with(&[b"a\n", long.as_slice(), b"\nb\n"].concat());
        let mut lines = LineReader::with_limit(reading, 0, CHUNK_BYTES);
        assert_eq!(line(lines.next_line().unwrap()).0, "a");
        while lines.next_line().unwrap() == Next::StillLong {}
        assert!(lines.buffer.capacity() <= 4 * CHUNK_BYTES);
        assert_eq!(line(lines.next_line().unwrap()), ("b".into(), 2 + long.len() as u64 + 1));
    }

    #[test]
    fn many_lines_across_chunks_keep_their_offsets() {
        let text: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
        let (_file, reading) = file_with(text.as_bytes());
        let mut lines = LineReader::new(reading, 0);
        for n in 0..20_000 {
            let (found, start) = line(lines.next_line().unwrap());
            assert_eq!(found, format!("line {n}"));
            assert!(text[start as usize..].starts_with(&format!("line {n}\n")));
        }
        assert_eq!(lines.position(), text.len() as u64);
    }
}
