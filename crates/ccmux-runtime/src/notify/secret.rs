//! Reads what the settings only say the place of. It is read anew each time, so that a changed secret counts at once.

use std::path::{Path, PathBuf};

use super::post::PostError;
use crate::plain_file::read_text;
use crate::settings::expand;
use crate::settings::services::Secret;

/// A URL, a token, a topic.
const MAX_BYTES: u64 = 8 * 1024;

/// Reads secrets. Knows where `~` is.
#[derive(Debug, Clone)]
pub struct Secrets {
    home: PathBuf,
}

impl Secrets {
    /// Of the user with that home.
    pub fn new(home: &Path) -> Self {
        Self { home: home.to_owned() }
    }

    /// `None`: nobody said where it is.
    ///
    /// # Errors
    /// If it is not there.
    pub fn read(&self, secret: &Secret) -> Result<Option<String>, PostError> {
        if let Some(plain) = &secret.plain {
            return Ok(Some(plain.clone()));
        }
        if let Some(file) = &secret.file {
            return self.file(file).map(Some);
        }
        let Some(variable) = &secret.variable else { return Ok(None) };
        let value = std::env::var(variable).ok().filter(|value| !value.is_empty());
        value.map(Some).ok_or_else(|| PostError::Variable(variable.clone()))
    }

    /// The same, of a URL.
    ///
    /// # Errors
    /// The same, and if nobody said where it is.
    pub fn url(&self, secret: &Secret) -> Result<String, PostError> {
        self.read(secret)?.ok_or(PostError::Url("is not given"))
    }

    fn file(&self, file: &str) -> Result<String, PostError> {
        let path = expand(file, &self.home);
        match read_text(&path, MAX_BYTES) {
            Ok(text) if text.trim().is_empty() => Err(PostError::Empty(path)),
            Ok(text) => Ok(text.trim().to_owned()),
            Err(source) => Err(PostError::File { path, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let secret = Secret::hidden("token", &Some("~/token".to_owned()), &None);
        for (text, read) in [("", None), (" \n", None), ("t\n", Some("t"))] {
            std::fs::write(dir.path().join("token"), text).unwrap();
            let known = Secrets::new(dir.path()).read(&secret).ok().flatten();
            assert_eq!(known.as_deref(), read, "{text:?}");
        }
    }

    #[test]
    fn a_fifo_or_too_much_is_no_secret_and_nobody_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let why = || {
            let secret = Secret::hidden("token", &Some("~/token".to_owned()), &None);
            Secrets::new(dir.path()).read(&secret).unwrap_err().to_string()
        };
        let path = dir.path().join("token");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        assert!(why().ends_with("it is a FIFO: name a file"), "{}", why());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "t".repeat(9000)).unwrap();
        assert!(why().ends_with("longer than 8192 bytes"), "{}", why());
    }
}
