//! The service that starts the daemon: the templates of the repository, with the place of this `ccmuxd` filled in.
//!
//! ```text
//! Linux    ~/.config/systemd/user/ccmuxd.service, ccmuxd@.service for all instances
//!          and, where user namespaces are forbidden, no-namespaces.conf in a folder beside it
//! macOS    ~/Library/LaunchAgents/dev.ccmux.ccmuxd.plist, dev.ccmux.ccmuxd.NAME.plist
//! ```
//!
//! It starts nothing, and does not know what the templates say beside the command, the search path and the home folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Installation, Part, Target};
use crate::daemon::Setting;
use crate::install::edits::{Ours, Wanted};
use crate::install::places::backups;

const UNIT: &str = include_str!("../../../../systemd/ccmuxd.service");
const INSTANCES: &str = include_str!("../../../../systemd/ccmuxd@.service");
const NO_NAMESPACES: &str = include_str!("../../../../systemd/no-namespaces.conf");
const DROP_IN: &str = "no-namespaces.conf";
const PLIST: &str = include_str!("../../../../launchd/dev.ccmux.ccmuxd.plist");
const INSTANCE_PLIST: &str = include_str!("../../../../launchd/dev.ccmux.ccmuxd.NAME.plist");
/// What the templates say in the place of ours.
const UNIT_COMMAND: &str = "ExecStart=";
const LABEL: &str = "dev.ccmux.ccmuxd";
const PLIST_HOME: &str = "/Users/USER";
const PLIST_INSTANCE: &str = "NAME";
/// launchctl's: no such process, no such service.
const NOT_LOADED: [i32; 2] = [3, 113];
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
    /// What is started and stopped: `ccmuxd.service`, `ccmuxd@NAME.service`, or launchd's label.
    pub name: String,
    /// Where its file goes.
    pub path: PathBuf,
    /// What goes there.
    pub text: String,
}

impl Unit {
    /// Of this daemon, or of an instance of it.
    pub fn of(setting: &Setting, instance: Option<&str>, starter: Starter) -> Self {
        let (home, program) = (&setting.home, &setting.binaries.ccmuxd);
        match starter {
            Starter::Systemd => {
                let suffix = instance.map(|name| format!("@{name}")).unwrap_or_default();
                let (file, template) = match instance {
                    None => ("ccmuxd.service", UNIT),
                    Some(_) => ("ccmuxd@.service", INSTANCES),
                };
                let path = systemd_folder(setting).join(file);
                let text = unit_text(template, program, &variable(setting, "PATH"));
                Self { starter, name: format!("ccmuxd{suffix}.service"), path, text }
            }
            Starter::Launchd => {
                let suffix = instance.map(|name| format!(".{name}")).unwrap_or_default();
                let name = format!("{LABEL}{suffix}");
                let path = home.join("Library/LaunchAgents").join(format!("{name}.plist"));
                Self { starter, text: plist_text(program, home, instance), name, path }
            }
        }
    }

    /// What is installed. `is_forbidden`: this user may not make user namespaces.
    pub fn going_in(&self, setting: &Setting, is_forbidden: bool) -> Installation {
        let drop_in = self.drop_in().filter(|_| is_forbidden);
        self.installation(setting, drop_in)
    }

    /// What is taken out.
    pub fn going_out(&self, setting: &Setting) -> Installation {
        self.installation(setting, self.drop_in())
    }

    fn installation(&self, setting: &Setting, drop_in: Option<PathBuf>) -> Installation {
        let whole = |path, text: &str| Target { path, part: Part::Whole(text.to_owned()) };
        let drop_in = drop_in.map(|path| whole(path, NO_NAMESPACES));
        Installation {
            targets: [whole(self.path.clone(), &self.text)].into_iter().chain(drop_in).collect(),
            ours: Ours { hook: PathBuf::new() },
            wanted: Wanted { settings: serde_json::Value::Null, server: None },
            backups: backups(setting),
        }
    }

    /// Where that goes which takes out of the sandbox what needs user namespaces.
    pub fn drop_in(&self) -> Option<PathBuf> {
        let folder = format!("{}.d", self.path.file_name()?.to_string_lossy());
        (self.starter == Starter::Systemd).then(|| self.path.with_file_name(folder).join(DROP_IN))
    }

    /// Other instances that systemd starts from the same file.
    pub fn others(&self) -> Vec<String> {
        let folder = self.path.with_file_name("default.target.wants");
        let is_template = self.path.file_stem().is_some_and(|stem| stem.as_encoded_bytes().ends_with(b"@"));
        let names = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let is_other = |name: &String| is_template && name.starts_with("ccmuxd@") && *name != self.name;
        let mut others: Vec<String> = names.filter(is_other).collect();
        others.sort();
        others
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

    /// Whether the system starts it by itself: launchd does of each file, systemd of those that it was told to.
    pub fn is_enabled(&self) -> bool {
        let wanted = self.path.with_file_name("default.target.wants").join(&self.name);
        self.starter == Starter::Launchd || wanted.symlink_metadata().is_ok()
    }

    /// What is run once the file is removed.
    pub fn forgetting(&self) -> Vec<Vec<String>> {
        match self.starter {
            Starter::Systemd => vec![["systemctl", "--user", "daemon-reload"].map(str::to_owned).to_vec()],
            Starter::Launchd => Vec::new(),
        }
    }

    /// What a command that stops it says, by its exit code, of a service that does not run. systemd is content with one.
    pub fn was_not_loaded(&self, code: i32) -> bool {
        self.starter == Starter::Launchd && NOT_LOADED.contains(&code)
    }
}

pub(super) fn variable(setting: &Setting, name: &str) -> String {
    let found = setting.environment.iter().find(|(known, _)| known == name);
    found.and_then(|(_, value)| value.to_str()).unwrap_or_default().to_owned()
}

/// Where a user's own units are.
fn systemd_folder(setting: &Setting) -> PathBuf {
    let config = Some(variable(setting, "XDG_CONFIG_HOME")).filter(|config| !config.is_empty());
    config.map_or_else(|| setting.home.join(".config"), PathBuf::from).join("systemd/user")
}

/// The template with its command; services of systemd don't have the search path of a shell, where `claude` and tmux are
/// found.
fn unit_text(template: &str, program: &Path, path: &str) -> String {
    let mut text = String::new();
    for line in template.lines() {
        if let Some(command) = line.strip_prefix(UNIT_COMMAND) {
            let arguments = command.split_once(' ').map(|(_, rest)| format!(" {rest}")).unwrap_or_default();
            let program = in_unit(&program.display().to_string()).replace('$', "$$");
            text.push_str(&format!("{UNIT_COMMAND}{program}{arguments}\n"));
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

fn plist_text(program: &Path, home: &Path, instance: Option<&str>) -> String {
    let escaped = |path: &Path| {
        path.display().to_string().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
    };
    let (template, name) = instance.map_or((PLIST, ""), |name| (INSTANCE_PLIST, name));
    without_instructions(template)
        .replace(PLIST_INSTANCE, name)
        .replace(PLIST_PROGRAM, &escaped(program))
        .replace(PLIST_HOME, &escaped(home))
}

/// The first comment says how to do by hand what is done here.
fn without_instructions(plist: &str) -> String {
    let around = plist.split_once("<!-- ").and_then(|(head, rest)| Some((head, rest.split_once("-->\n")?.1)));
    around.map_or_else(|| plist.to_owned(), |(head, rest)| format!("{head}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_starts_this_daemon_with_the_search_path_of_the_shell() {
        let text = unit_text(INSTANCES, Path::new("/o t/50%/ccmuxd"), "/a b:/usr/bin");
        assert!(text.contains("\nExecStart=\"/o t/50%%/ccmuxd\" -i %i\n"), "{text}");
        assert!(text.contains("\nEnvironment=\"PATH=/a b:/usr/bin\"\n"), "{text}");
        for template in [UNIT, INSTANCES] {
            let text = unit_text(template, Path::new("/usr/bin/ccmuxd"), "");
            assert!(text.contains("\nExecStart=/usr/bin/ccmuxd"), "{text}");
            let rest = |text: &str| text.replace("=/usr/bin/", "=%h/.local/bin/");
            assert_eq!(rest(&text), template, "the rest is the template's");
        }
    }

    #[test]
    fn the_plist_starts_this_daemon_and_names_no_other_user() {
        let text = plist_text(Path::new("/b&b/ccmuxd"), Path::new("/Users/ann"), Some("work"));
        assert!(
            text.contains(
                "<string>/b&amp;b/ccmuxd</string>\n        <string>--instance</string>\n        <string>work<"
            ),
            "{text}"
        );
        assert!(text.contains("<string>dev.ccmux.ccmuxd.work</string>"));
        assert!(text.contains("/Users/ann/Library/Logs/ccmuxd-work.stderr.log<"));
        let plain = plist_text(Path::new("/usr/bin/ccmuxd"), Path::new("/Users/ann"), None);
        assert!(plain.contains("<string>dev.ccmux.ccmuxd</string>") && !plain.contains("instance"));
        for text in [text, plain] {
            assert!(!text.contains("USER") && !text.contains("NAME") && !text.contains("Copy"), "{text}");
            assert!(text.contains("<!-- Started again") && text.ends_with("</plist>\n"), "{text}");
        }
    }
}
