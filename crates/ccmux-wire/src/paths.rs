//! Where the daemon and its clients meet: runtime directory, state directory, instance.
//!
//! Settings files are read by the daemon alone; a client that should find a daemon with other directories gets them
//! from the same variables or from `-i NAME`. A name on the command line wins: within an agent's shell the variables
//! are those of the daemon that started it, and there too `-i NAME` means NAME.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::channel::{ChannelName, ChannelNameError};
use crate::container::{CONTAINER_VARIABLE, SOCKET};

/// The directories of one daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// FIFOs and sockets. `/tmp/ccmux`, or `CCMUX_RUNTIME_DIR`; an instance's is `/tmp/ccmux-NAME`.
    pub runtime_dir: PathBuf,
    /// Databases, logs of the intake, generated files. `~/.local/state/ccmux`, or `CCMUX_STATE_DIR`; an instance's is
    /// `~/.local/state/ccmux-NAME`.
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
        Self::lookup_in(instance, &environment)
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
        let runtime_dir = runtime_dir_in(instance, variable);
        let state_dir = match variable("CCMUX_STATE_DIR").filter(|_| instance.is_none()) {
            Some(dir) => PathBuf::from(dir),
            None => {
                PathBuf::from(variable("HOME").ok_or(PathsError::NoHome)?).join(".local/state").join(&name)
            }
        };
        Ok(Self { runtime_dir, state_dir })
    }
}

fn environment(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// The runtime directory alone, for whoever only speaks to the sockets: needs no `HOME`.
pub fn runtime_dir(instance: Option<&InstanceName>) -> PathBuf {
    runtime_dir_in(instance, &environment)
}

fn runtime_dir_in(instance: Option<&InstanceName>, variable: &dyn Fn(&str) -> Option<OsString>) -> PathBuf {
    variable("CCMUX_RUNTIME_DIR")
        .filter(|_| instance.is_none())
        .map_or_else(|| Path::new("/tmp").join(instance_name(instance)), PathBuf::from)
}

/// The socket to speak to the daemon by, in that directory. Within a container it is the container's own, and whoever
/// started the container put it there; elsewhere the directory must be private.
///
/// # Errors
/// If what listens there may be somebody else's.
pub fn control_socket(dir: &Path) -> Result<PathBuf, NotPrivate> {
    if environment(CONTAINER_VARIABLE).is_some() {
        return Ok(dir.join(SOCKET));
    }
    check_private(dir).map(|()| dir.join("control.sock"))
}

/// Why a client doesn't speak to the sockets in a directory.
#[derive(Debug, thiserror::Error)]
pub enum NotPrivate {
    /// It can't be looked at; mostly: it is not there.
    #[error("{}: {source}", dir.display())]
    Unseen {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A symbolic link, a file, another user's, or open to others.
    #[error("{} is refused: {why}", dir.display())]
    Refused {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Checks that a runtime directory is a directory of this user and nobody else's business, so that what listens in it
/// is this user's daemon: `/tmp/ccmux` could have been made by anybody.
///
/// # Errors
/// If it is missing, no directory, another user's, or open to others.
pub fn check_private(dir: &Path) -> Result<(), NotPrivate> {
    let found =
        fs::symlink_metadata(dir).map_err(|source| NotPrivate::Unseen { dir: dir.to_owned(), source })?;
    let refused = |why| Err(NotPrivate::Refused { dir: dir.to_owned(), why });
    if !found.is_dir() {
        return refused("it is not a directory");
    }
    if found.mode() & 0o077 != 0 {
        return refused("it is open to other users (chmod 700)");
    }
    if own_uid().is_some_and(|uid| uid != found.uid()) {
        return refused("it belongs to another user");
    }
    Ok(())
}

/// std knows no `getuid`: whose the own entry in `/proc` is, or the home directory where there is no `/proc`.
fn own_uid() -> Option<u32> {
    let own =
        fs::metadata("/proc/self").or_else(|error| environment("HOME").map_or(Err(error), fs::metadata));
    own.ok().map(|found| found.uid())
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
    name.parse().map_err(|source| PathsError::Instance { name: name.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(instance: Option<&str>, variables: &[(&str, &str)]) -> Result<Paths, PathsError> {
        let instance = instance.map(|name| parse_instance(name).unwrap());
        Paths::lookup_in(instance.as_ref(), &|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
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
    fn an_instance_that_is_named_wins_over_variables() {
        let variables = [("HOME", "/home/u"), ("CCMUX_RUNTIME_DIR", "/r"), ("CCMUX_STATE_DIR", "/s")];
        let paths = lookup(Some("work"), &variables).unwrap();
        assert_eq!(paths, lookup(Some("work"), &variables[..1]).unwrap());
        assert_eq!(paths.runtime_dir, Path::new("/tmp/ccmux-work"));
    }

    #[test]
    fn only_a_directory_that_is_closed_to_others_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let dir = env::temp_dir().join(format!("ccmux-private-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(check_private(&dir).is_ok());
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o710)).unwrap();
        assert!(matches!(check_private(&dir), Err(NotPrivate::Refused { .. })));
        fs::remove_dir(&dir).unwrap();
        assert!(matches!(check_private(&dir), Err(NotPrivate::Unseen { .. })));
        assert!(matches!(check_private(Path::new("/proc/self")), Err(NotPrivate::Refused { .. })));
    }

    #[test]
    fn a_bad_instance_name_is_named() {
        let error = parse_instance("a/b").unwrap_err().to_string();
        assert!(error.contains("a/b"), "{error}");
    }
}
