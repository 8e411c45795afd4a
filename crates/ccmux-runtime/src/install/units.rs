//! The service that starts the daemon: the templates of the repository, with the place of this `ccmuxd` filled in.
//!
//! ```text
//! Linux    ~/.config/systemd/user/ccmuxd.service, ccmuxd@NAME.service for an instance
//! macOS    ~/Library/LaunchAgents/dev.ccmux.ccmuxd.plist, dev.ccmux.ccmuxd.NAME.plist
//! ```
//!
//! It starts nothing, and does not know what the templates say beside the command, the search path and the home folder.

use std::path::{Path, PathBuf};

use super::{Installation, Part, Target};
use crate::daemon::Setting;
use crate::install::edits::{Ours, Wanted};
use crate::install::places::backups;

const UNIT: &str = include_str!("../../../../systemd/ccmuxd.service");
const PLIST: &str = include_str!("../../../../launchd/dev.ccmux.ccmuxd.plist");
/// What the templates say in the place of ours.
const UNIT_COMMAND: &str = "ExecStart=";
const LABEL: &str = "dev.ccmux.ccmuxd";
const PLIST_HOME: &str = "/Users/USER";
const PLIST_PROGRAM: &str = "/Users/USER/.local/bin/ccmuxd";

/// Which system starts services here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starter {
    /// Linux.
    Systemd,
    /// macOS.
    Launchd,
}

impl Starter {
    /// Of this system.
    pub const HERE: Self = if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd };
}

/// One service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Whose.
    pub starter: Starter,
    /// `ccmuxd.service`, or launchd's label.
    pub name: String,
    /// Where it goes.
    pub path: PathBuf,
    /// What goes there.
    pub text: String,
}

impl Unit {
    /// Of this daemon, or of an instance of it.
    pub fn of(setting: &Setting, instance: Option<&str>, starter: Starter) -> Self {
        let (home, program) = (&setting.home, &setting.binaries.ccmuxd);
        let variable = |name: &str| {
            let found = setting.environment.iter().find(|(known, _)| known == name);
            found.and_then(|(_, value)| value.to_str()).filter(|value| !value.is_empty())
        };
        match starter {
            Starter::Systemd => {
                let suffix = instance.map(|name| format!("@{name}")).unwrap_or_default();
                let name = format!("ccmuxd{suffix}.service");
                let config = variable("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
                let path = config.join("systemd/user").join(&name);
                let path_variable = variable("PATH").unwrap_or_default();
                Self { starter, name, path, text: unit_text(program, instance, path_variable) }
            }
            Starter::Launchd => {
                let suffix = instance.map(|name| format!(".{name}")).unwrap_or_default();
                let name = format!("{LABEL}{suffix}");
                let path = home.join("Library/LaunchAgents").join(format!("{name}.plist"));
                Self { starter, text: plist_text(&name, program, home, instance), name, path }
            }
        }
    }

    /// Its file as something to install.
    pub fn installation(&self, setting: &Setting) -> Installation {
        Installation {
            targets: vec![Target { path: self.path.clone(), part: Part::Whole(self.text.clone()) }],
            ours: Ours { hook: PathBuf::new() },
            wanted: Wanted { settings: serde_json::Value::Null, server: None },
            backups: backups(setting),
        }
    }

    /// The commands that start it, now and from now on.
    pub fn starting(&self) -> Vec<Vec<String>> {
        let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect();
        match self.starter {
            Starter::Systemd => vec![
                words(&["systemctl", "--user", "daemon-reload"]),
                words(&["systemctl", "--user", "enable", "--now", &self.name]),
            ],
            Starter::Launchd => {
                let domain = format!("gui/{}", nix::unistd::Uid::current());
                vec![words(&["launchctl", "bootstrap", &domain, &self.path.display().to_string()])]
            }
        }
    }

    /// The commands that stop it for good.
    pub fn stopping(&self) -> Vec<Vec<String>> {
        let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect();
        match self.starter {
            Starter::Systemd => vec![words(&["systemctl", "--user", "disable", "--now", &self.name])],
            Starter::Launchd => {
                let target = format!("gui/{}/{}", nix::unistd::Uid::current(), self.name);
                vec![words(&["launchctl", "bootout", &target])]
            }
        }
    }
}

/// The unit with its command; services of systemd don't have the search path of a shell, where `claude` and tmux are found.
fn unit_text(program: &Path, instance: Option<&str>, path: &str) -> String {
    let mut text = String::new();
    for line in UNIT.lines() {
        if line.starts_with(UNIT_COMMAND) {
            let instance = instance.map(|name| format!(" -i {name}")).unwrap_or_default();
            let program = in_unit(&program.display().to_string()).replace('$', "$$");
            text.push_str(&format!("{UNIT_COMMAND}{program}{instance}\n"));
            if !path.is_empty() {
                text.push_str(&format!("Environment={}\n", in_unit(&format!("PATH={path}"))));
            }
        } else {
            text.push_str(&format!("{line}\n"));
        }
    }
    text
}

/// One word of a unit: quoted, its `%` no specifier.
fn in_unit(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    if escaped.contains([' ', '\t', '\'', '"', '\\']) { format!("\"{escaped}\"") } else { escaped }
}

fn plist_text(label: &str, program: &Path, home: &Path, instance: Option<&str>) -> String {
    let escaped = |text: String| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let program = escaped(program.display().to_string());
    let string = |text: &str| format!("<string>{text}</string>");
    let instance = instance.map(|name| format!("\n        {}\n        {}", string("-i"), string(name)));
    let arguments = string(&program) + &instance.unwrap_or_default();
    // The label in the comment above is a path, not a string of its own.
    PLIST
        .replacen(&string(PLIST_PROGRAM), &arguments, 1)
        .replace(&string(LABEL), &string(label))
        .replace(PLIST_HOME, &escaped(home.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_starts_this_daemon_with_the_search_path_of_the_shell() {
        let text = unit_text(Path::new("/o t/50%/ccmuxd"), Some("work"), "/a b:/usr/bin");
        assert!(text.contains("\nExecStart=\"/o t/50%%/ccmuxd\" -i work\n"), "{text}");
        assert!(text.contains("\nEnvironment=\"PATH=/a b:/usr/bin\"\n"), "{text}");
        let plain = unit_text(Path::new("/usr/bin/ccmuxd"), None, "");
        let lines = |text: &str| text.lines().filter(|line| !line.starts_with("ExecStart=")).count();
        assert!(plain.contains("\nExecStart=/usr/bin/ccmuxd\n"), "{plain}");
        assert_eq!(lines(&plain), lines(UNIT), "the rest is the template's");
    }

    #[test]
    fn the_plist_starts_this_daemon_and_names_no_other_user() {
        let text = plist_text(
            "dev.ccmux.ccmuxd.work",
            Path::new("/b&b/ccmuxd"),
            Path::new("/Users/ann"),
            Some("work"),
        );
        assert!(
            text.contains(
                "<string>/b&amp;b/ccmuxd</string>\n        <string>-i</string>\n        <string>work"
            )
        );
        assert!(text.contains("<string>dev.ccmux.ccmuxd.work</string>"));
        assert!(!text.contains(PLIST_HOME), "{text}");
        assert!(text.contains("/Users/ann/Library/Logs/"));
    }
}
