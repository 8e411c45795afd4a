//! Whether this shell has the settings of the daemon that runs: all that the doctor says of programs, ports and directories is
//! about those of the shell.
//!
//! ```text
//! the daemon's /proc/PID: environ, cmdline, cwd ─► sources ─► settings ┐
//! the doctor's own variables and options        ─► sources ─► settings ┴► keys that differ, and who says so
//! ```
//!
//! Both read the files as they are now: what a file said when the daemon started is not known here, `ccmux reload` tells it.
//! No value is ever told, names alone. Linux: elsewhere nobody shows another process's variables.

use std::path::{Path, PathBuf};

use ccmux_wire::paths::{Paths, parse_instance};
use serde_json::Value;

use super::finding::{Finding, Health};
use super::patient::Patient;
use crate::settings::keys::{KEYS, value_at};
use crate::settings::load::Sources;
use crate::settings::{Loaded, expand, load};

const CHECK: &str = "settings";
/// The daemon answers in our runtime directory: whatever its path is called, it is the same.
const THE_SAME: &str = "runtime_dir";
/// Tables with names of the user's in them.
const TABLES: [&str; 3] = ["channels", "routes", "opencode"];
/// It may show values, but to whoever asks for them.
const SAYS_WHY: &str =
    "`ccmuxd --print-config`, with the same variables, -i, --config and --set, says why: mend that";
/// So many keys are named.
const NAMED: usize = 8;

pub(super) fn settings(patient: &Patient) -> Vec<Finding> {
    let ours = match load(&patient.setting.sources) {
        Ok(ours) => ours,
        // They were good a moment ago.
        Err(_) => {
            return vec![Finding::warning(CHECK, "this shell's can't be read any more", SAYS_WHY)];
        }
    };
    let compared = compared(patient, &ours);
    match clients_go_astray(patient, &ours) {
        None => vec![compared],
        Some(astray) if compared.state == Health::Ok => vec![astray],
        Some(astray) => vec![astray, compared],
    }
}

fn compared(patient: &Patient, ours: &Loaded) -> Finding {
    let said_by = said_by(ours);
    let Some(status) = patient.status() else {
        return Finding::ok(CHECK, format!("this shell's come from {said_by}"));
    };
    match sources_of(patient, status.daemon_pid).map(|sources| (load(&sources), sources)) {
        None => Finding::ok(
            CHECK,
            format!("this shell's come from {said_by}; the daemon's can't be seen from here"),
        ),
        Some((Err(_), _)) => broken(status.daemon_pid),
        Some((Ok(theirs), sources)) => {
            let home =
                sources.environment.get("HOME").is_some_and(|home| patient.setting.home != Path::new(home));
            judge(status.daemon_pid, &differences(&theirs, ours, home), &said_by)
        }
    }
}

fn judge(daemon: i32, differ: &[String], said_by: &str) -> Finding {
    if differ.is_empty() {
        return Finding::ok(CHECK, format!("this shell has the daemon's, from {said_by}"));
    }
    let more = match differ.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = differ[..differ.len().min(NAMED)].join(", ");
    Finding::warning(
        CHECK,
        format!(
            "the daemon (pid {daemon}) has others than this shell, which the checks below go by: {named}{more}"
        ),
        "say here what the daemon was started with (variables, -i, --config, --set), or put it into the settings file for both",
    )
}

/// Why may show a value.
fn broken(daemon: i32) -> Finding {
    Finding::warning(
        CHECK,
        format!(
            "those that the daemon (pid {daemon}) was started with can't be read now: its next start fails"
        ),
        SAYS_WHY,
    )
}

/// Clients read no settings file: they look where the variable says, or the default.
fn clients_go_astray(patient: &Patient, ours: &Loaded) -> Option<Finding> {
    let (sources, home) = (&patient.setting.sources, patient.setting.home.as_os_str());
    let variable = |name: &str| match name {
        "HOME" => Some(home.to_owned()),
        _ => sources.environment.get(name).filter(|text| !text.is_empty()).map(Into::into),
    };
    let looked_at = Paths::lookup_in(sources.instance.as_ref(), &variable).ok()?.runtime_dir;
    let daemons = expand(&ours.settings.runtime_dir, Path::new(home));
    (looked_at != daemons).then(|| {
        let (looked_at, daemons) = (looked_at.display(), daemons.display());
        let origin = ours.origins.get(THE_SAME).map_or("a settings file", String::as_str);
        Finding::warning(
            CHECK,
            format!("{origin} puts the daemon into {daemons}, but clients look for it in {looked_at}"),
            match sources.instance {
                None => format!(
                    "export CCMUX_RUNTIME_DIR={daemons} where ccmux is used: clients read no settings file"
                ),
                Some(_) => format!(
                    "leave out -i and export CCMUX_RUNTIME_DIR={daemons} where ccmux is used, or take `runtime_dir` out of the file: clients read no settings file"
                ),
            },
        )
    })
}

/// Everything that says something, once.
fn said_by(loaded: &Loaded) -> String {
    let mut origins: Vec<&str> = loaded.origins.values().map(String::as_str).collect();
    origins.retain(|origin| *origin != "default");
    origins.sort_unstable();
    origins.dedup();
    if origins.is_empty() { "the defaults alone".to_owned() } else { origins.join(", ") }
}

/// `KEY (there WHO SAYS IT, here WHO)`.
fn differences(theirs: &Loaded, ours: &Loaded, other_home: bool) -> Vec<String> {
    let values = |loaded: &Loaded| serde_json::to_value(&loaded.settings).unwrap_or_default();
    let (there, here): (Value, Value) = (values(theirs), values(ours));
    let keys = KEYS.iter().map(|key| key.path).filter(|path| *path != THE_SAME);
    let differ = keys.filter(|path| value_at(&there, path) != value_at(&here, path));
    let named = differ.map(|path| {
        let origin = |loaded: &Loaded| loaded.origins.get(path).cloned().unwrap_or_default();
        format!("{path} (there {}, here {})", origin(theirs), origin(ours))
    });
    let tables = TABLES.into_iter().filter(|table| there[table] != here[table]).map(str::to_owned);
    other_home.then(|| "HOME".to_owned()).into_iter().chain(named).chain(tables).collect()
}

/// What a daemon was started with.
fn sources_of(patient: &Patient, pid: i32) -> Option<Sources> {
    let environment = patient.variables_of(pid)?;
    let command_line = patient.of_process(pid, "cmdline")?;
    let words: Vec<String> = String::from_utf8_lossy(&command_line).split('\0').map(str::to_owned).collect();
    let (program, words) = words.split_first()?;
    if Path::new(program).file_name()?.to_str()? != "ccmuxd" {
        return None;
    }
    let instance = match options(words, &["--instance", "-i"]).pop() {
        Some(name) => Some(parse_instance(&name).ok()?),
        None => None,
    };
    let named = options(words, &["--config"]).pop();
    let named = named.or_else(|| environment.get("CCMUX_CONFIG").filter(|file| !file.is_empty()).cloned());
    let folder = std::fs::read_link(patient.world.proc.join(format!("{pid}/cwd"))).unwrap_or_default();
    let file = named.map(|file| folder.join(PathBuf::from(file)));
    let flags = options(words, &["--set"]).into_iter();
    let flags =
        flags.filter_map(|flag| flag.split_once('=').map(|(key, value)| (key.trim().into(), value.into())));
    Some(Sources { instance, file, environment, flags: flags.collect() })
}

/// The values of an option, in each form that a command line may have it.
fn options(words: &[String], names: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let rest = names.iter().find_map(|name| {
            let rest = word.strip_prefix(name)?;
            (!name.starts_with("--") || rest.is_empty() || rest.starts_with('=')).then_some(rest)
        });
        match rest {
            Some("") => found.extend(words.next().cloned()),
            Some(value) => found.push(value.strip_prefix('=').unwrap_or(value).to_owned()),
            None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_found_in_every_form() {
        let words = ["-i", "a", "--set", "x=1", "-ib", "--instance=c", "-i=d", "--instance", "e", "--settle"];
        let words = words.map(str::to_owned);
        assert_eq!(options(&words, &["--instance", "-i"]), ["a", "b", "c", "d", "e"]);
        assert_eq!(options(&words, &["--set"]), ["x=1"]);
        assert!(options(&words, &["--config"]).is_empty());
    }
}
