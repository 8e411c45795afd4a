//! `SHA256SUMS`, in the form that `sha256sum --check` reads.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};

use super::files;

const NAME: &str = "SHA256SUMS";

/// Of every file right in that folder.
pub fn write(folder: &Path) -> anyhow::Result<()> {
    let mut lines = String::new();
    for path in files(folder)? {
        lines += &format!("{}  {}\n", of(&path)?, path.file_name().unwrap_or_default().display());
    }
    fs::write(folder.join(NAME), lines).with_context(|| format!("can't write {NAME}"))
}

/// Of one file, as hexadecimal digits.
pub fn of(path: &Path) -> anyhow::Result<String> {
    let mut file = File::open(path).with_context(|| format!("can't read {}", path.display()))?;
    let mut sum = Sums(Sha256::new());
    io::copy(&mut file, &mut sum).with_context(|| format!("can't read {}", path.display()))?;
    Ok(sum.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Fails on a file that is missing or another one.
pub fn check(folder: &Path) -> anyhow::Result<usize> {
    let lines = fs::read_to_string(folder.join(NAME)).with_context(|| format!("can't read {NAME}"))?;
    for line in lines.lines() {
        let (sum, name) = line.split_once("  ").context("a line of another form")?;
        ensure!(of(&folder.join(name))? == sum, "{name} is not what {NAME} says");
    }
    Ok(lines.lines().count())
}

struct Sums(Sha256);

impl io::Write for Sums {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_found_out() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "abc").unwrap();
        write(folder.path()).unwrap();
        let lines = fs::read_to_string(folder.path().join(NAME)).unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(lines, format!("{abc}  a\n"));
        assert_eq!(check(folder.path()).unwrap(), 1);
        fs::write(folder.path().join("a"), "abd").unwrap();
        assert!(check(folder.path()).unwrap_err().to_string().contains("a is not what"));
    }
}
