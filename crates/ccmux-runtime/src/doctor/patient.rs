//! What is examined: settings and places, the daemon if one runs, and where the system tells about itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ccmux_wire::status::Status;

use crate::agent::plan::agent_environment;
use crate::daemon::Setting;
use crate::settings::expand;
use crate::setup::door::Door;

/// What is known of the daemon.
#[derive(Debug, Clone)]
pub enum Daemon {
    /// It answered.
    Runs(Box<Status>),
    /// Nothing listens at `control.sock`, or there is none.
    Down,
    /// Something is there and gives no answer.
    Mute(String),
}

/// Where the system tells about itself; tests have a world of their own.
#[derive(Debug, Clone)]
pub struct World {
    /// `/proc`
    pub proc: PathBuf,
    /// There where systemd is the init system.
    pub systemd: PathBuf,
    /// A file for each user whose manager runs without a login.
    pub linger: PathBuf,
    /// The process that examines.
    pub own_pid: i32,
}

impl Default for World {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            systemd: "/run/systemd/system".into(),
            linger: "/var/lib/systemd/linger".into(),
            own_pid: std::process::id().cast_signed(),
        }
    }
}

/// What is examined.
#[derive(Debug, Clone)]
pub struct Patient {
    /// As the daemon would be started.
    pub setting: Setting,
    /// FIFOs and sockets.
    pub runtime_dir: PathBuf,
    /// Databases, tokens.
    pub state_dir: PathBuf,
    /// What the agent would get.
    pub environment: BTreeMap<String, String>,
    /// What runs.
    pub daemon: Daemon,
    /// Where to look.
    pub world: World,
}

impl Patient {
    /// Asks the daemon, if there is one.
    pub async fn new(setting: Setting, world: World) -> Self {
        let place = |path: &str| expand(path, &setting.home);
        let (runtime_dir, state_dir) =
            (place(&setting.settings.runtime_dir), place(&setting.settings.state_dir));
        let environment = agent_environment(&setting.settings, setting.environment.clone());
        let daemon = ask(&runtime_dir.join("control.sock")).await;
        Self { setting, runtime_dir, state_dir, environment, daemon, world }
    }

    /// The daemon's answer, if one runs.
    pub(super) fn status(&self) -> Option<&Status> {
        match &self.daemon {
            Daemon::Runs(status) => Some(status),
            Daemon::Down | Daemon::Mute(_) => None,
        }
    }

    /// A variable of the doctor's own environment.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let found = self.setting.environment.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.to_string_lossy().into_owned()).filter(|value| !value.is_empty())
    }

    /// What `/proc` has on a process; nothing where there is no such file, or it is another user's.
    pub(super) fn of_process(&self, pid: i32, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.world.proc.join(pid.to_string()).join(name)).ok()
    }

    /// A variable with which a process was started.
    pub(super) fn variables_of(&self, pid: i32) -> Option<BTreeMap<String, String>> {
        let bytes = self.of_process(pid, "environ")?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
        Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

async fn ask(socket: &Path) -> Daemon {
    use std::os::unix::fs::FileTypeExt;
    match socket.symlink_metadata() {
        Ok(found) if found.file_type().is_socket() => {}
        _ => return Daemon::Down,
    }
    // A socket that a killed daemon left is refused at once.
    if let Err(error) = std::os::unix::net::UnixStream::connect(socket)
        && error.kind() == std::io::ErrorKind::ConnectionRefused
    {
        return Daemon::Down;
    }
    match (Door { socket: socket.to_owned() }).status().await {
        Ok(status) => Daemon::Runs(Box::new(status)),
        Err(why) => Daemon::Mute(why),
    }
}
