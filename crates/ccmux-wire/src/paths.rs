//! Where the daemon and its clients meet: runtime directory, state directory, instance.
//!
//! Settings files are read by the daemon alone; a client that should find a daemon with other directories gets them
//! from the same variables or from `-i NAME`.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::channel::{ChannelName, ChannelNameError};

/// The directories of one daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// FIFOs and sockets. `/tmp/ccmux`, or `CCMUX_RUNTIME_DIR`.
    pub runtime_dir: PathBuf,
    /// Databases, logs of the intake, generated files. `~/.local/state/ccmux`, or `CCMUX_STATE_DIR`.
    pub state_dir: PathBuf,
}

/// The name of an instance: like a channel name.
pub type InstanceName = ChannelName;

/// Why the directories can't be told.
#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    /// Neither `HOME` nor the variable is set.
    #[error("HOME is not set: set it, or CCMUX_STATE_DIR")]
    NoHome,
    /// The instance's name.
    #[error("instance `{name}`: {source}")]
    Instance {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        source: ChannelNameError,
    },
}

impl Paths {
    /// The directories of the given instance (`None`: the plain one), from the environment and the defaults.
    ///
    /// # Errors
    /// If neither `HOME` nor `CCMUX_STATE_DIR` is set.
    pub fn lookup(instance: Option<&InstanceName>) -> Result<Self, PathsError> {
        Self::lookup_in(instance, &|name| {
            env::var_os(name).filter(|value| !value.is_empty())
        })
    }

    /// [`Paths::lookup`] in any environment.
    ///
    /// # Errors
    /// If neither `HOME` nor `CCMUX_STATE_DIR` is set.
    pub fn lookup_in(
        instance: Option<&InstanceName>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, PathsError> {
        let name = instance_name(instance);
        let runtime_dir =
            variable("CCMUX_RUNTIME_DIR").map_or_else(|| Path::new("/tmp").join(&name), PathBuf::from);
        let state_dir = match variable("CCMUX_STATE_DIR") {
            Some(dir) => PathBuf::from(dir),
            None => PathBuf::from(variable("HOME").ok_or(PathsError::NoHome)?)
                .join(".local/state")
                .join(&name),
        };
        Ok(Self {
            runtime_dir,
            state_dir,
        })
    }

    /// Subscribers connect here.
    pub fn output_socket(&self) -> PathBuf {
        self.runtime_dir.join("output.sock")
    }

    /// Clients and hooks connect here.
    pub fn control_socket(&self) -> PathBuf {
        self.runtime_dir.join("control.sock")
    }
}

/// `ccmux`, or `ccmux-NAME` for an instance: the name of its directories and of its tmux session.
pub fn instance_name(instance: Option<&InstanceName>) -> String {
    instance.map_or_else(|| "ccmux".to_owned(), |name| format!("ccmux-{name}"))
}

/// Parses an instance name.
///
/// # Errors
/// If it is not of the form of a channel name.
pub fn parse_instance(name: &str) -> Result<InstanceName, PathsError> {
    name.parse().map_err(|source| PathsError::Instance {
        name: name.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(instance: Option<&str>, variables: &[(&str, &str)]) -> Result<Paths, PathsError> {
        let instance = instance.map(|name| parse_instance(name).unwrap());
        Paths::lookup_in(instance.as_ref(), &|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_plain_instance_lives_in_the_documented_places() {
        let paths = lookup(None, &[("HOME", "/home/u")]).unwrap();
        assert_eq!(paths.runtime_dir, Path::new("/tmp/ccmux"));
        assert_eq!(paths.state_dir, Path::new("/home/u/.local/state/ccmux"));
    }

    #[test]
    fn an_instance_has_places_of_its_own() {
        let paths = lookup(Some("work"), &[("HOME", "/home/u")]).unwrap();
        assert_eq!(paths.runtime_dir, Path::new("/tmp/ccmux-work"));
        assert_eq!(paths.state_dir, Path::new("/home/u/.local/state/ccmux-work"));
    }

    #[test]
    fn variables_win_and_make_home_unneeded() {
        let paths = lookup(None, &[("CCMUX_RUNTIME_DIR", "/r"), ("CCMUX_STATE_DIR", "/s")]).unwrap();
        assert_eq!((paths.runtime_dir, paths.state_dir), ("/r".into(), "/s".into()));
        assert!(matches!(lookup(None, &[]), Err(PathsError::NoHome)));
    }

    #[test]
    fn a_bad_instance_name_is_named() {
        let error = parse_instance("a/b").unwrap_err().to_string();
        assert!(error.contains("a/b"), "{error}");
    }
}
