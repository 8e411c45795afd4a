//! `install --service` and `uninstall --service`: the unit's file and the commands of systemd or launchd around it, each told.
//!
//! ```text
//! in     write ─► daemon-reload ─► enable, start           the commands with --now, else they are named
//! out    may it go? ─► stop, disable ─► remove ─► daemon-reload
//! ```
//!
//! Nothing is taken from under a service that runs: one that can't be stopped keeps its file. What the file says is not known
//! here.

use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

use ccmux_runtime::daemon::Setting;
use ccmux_runtime::install::units::{Starter, Unit};
use ccmux_runtime::install::{Direction, namespaces};

use super::{Stop, apply, note};
use crate::cli::InstallOptions;

/// Why a command of systemd or launchd did nothing; fits behind the command.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error("can't be run: {0}")]
    NotRun(io::Error),
    #[error("failed ({0})")]
    Failed(ExitStatus),
}

/// Writes the unit, and has it started where that was asked for.
pub fn put_in(setting: &Setting, unit: &Unit, options: &InstallOptions) -> Result<(), Stop> {
    let has_sandbox = unit.starter == Starter::Systemd;
    let forbidden =
        has_sandbox.then(|| namespaces::forbidden(&setting.binaries.ccmuxd, Path::new("/proc"))).flatten();
    if let Some(why) = &forbidden {
        note(&format!("{why}: no-namespaces.conf takes out of the daemon's sandbox what needs them"));
    }
    tell_what_is_left_out(setting, unit);
    apply(&unit.going_in(setting, forbidden.is_some()), options.dry_run, Direction::In)?;
    if options.now {
        let path = unit.path.display();
        return run_all(&unit.starting()).map_err(|(line, error)| {
            Stop(1, format!("{path} is there, but `{line}` {error}: mend that and run this again"))
        });
    }
    if !options.dry_run {
        tell("next", &unit.starting());
        if unit.starter == Starter::Systemd {
            println!("{:<10} loginctl enable-linger   (keeps it running while you are logged out)", "");
        }
    }
    Ok(())
}

/// The service starts with other variables than this shell; whoever set these would miss them. Names, never values.
fn tell_what_is_left_out(setting: &Setting, unit: &Unit) {
    let names = setting.sources.of_the_shell();
    if names.is_empty() {
        return;
    }
    let file = setting.sources.usual_file().unwrap_or_else(|| "the settings file".into());
    let or = match unit.starter {
        Starter::Systemd => format!(", or variables into a drop-in: systemctl --user edit {}", unit.name),
        Starter::Launchd => String::new(),
    };
    note(&format!(
        "the service does not get what this shell says by {}: put it into {}{or}",
        names.join(", "),
        file.display()
    ));
}

/// Stops the service for good, and removes its file unless another instance needs it.
pub fn take_out(setting: &Setting, unit: &Unit, options: &InstallOptions) -> Result<(), Stop> {
    let others = unit.others();
    let installation = unit.going_out(setting);
    let (is_there, is_enabled) = (unit.path.symlink_metadata().is_ok(), unit.is_enabled());
    if others.is_empty() {
        // A file that is refused is refused before anything is stopped.
        installation.look(Direction::Out)?;
    }
    if is_there {
        stop(unit, is_enabled, options.dry_run)?;
    }
    if !others.is_empty() {
        note(&format!("{} stays: {} needs it", unit.path.display(), others.join(", ")));
        return Ok(());
    }
    let changes = apply(&installation, options.dry_run, Direction::Out).map_err(|Stop(code, why)| {
        let stopped =
            if is_there { format!("; {} is stopped and disabled", unit.name) } else { String::new() };
        Stop(code, why + &stopped)
    })?;
    if changes.iter().all(|change| change.is_none()) {
        return Ok(());
    }
    forget(unit, is_enabled, options.dry_run)
}

/// A systemd that can't be asked, as where nobody is logged in, keeps no unit that it was never told of.
fn stop(unit: &Unit, is_enabled: bool, dry_run: bool) -> Result<(), Stop> {
    if dry_run {
        would_run(&unit.stopping());
        return Ok(());
    }
    match run_all(&unit.stopping()) {
        Ok(()) => Ok(()),
        Err((line, StepError::NotRun(error))) if error.kind() == io::ErrorKind::NotFound => {
            note(&format!("there is no {}: nothing to stop", line.split(' ').next().unwrap_or_default()));
            Ok(())
        }
        Err((_, StepError::Failed(status)))
            if status.code().is_some_and(|code| unit.was_not_loaded(code)) =>
        {
            note(&format!("{} did not run", unit.name));
            Ok(())
        }
        Err((line, error)) if !is_enabled => {
            note(&format!("`{line}` {error}; {} was not enabled, and its unit goes all the same", unit.name));
            Ok(())
        }
        Err((line, error)) => {
            let path = unit.path.display();
            let remedy =
                "mend that and run this again; where nothing can have started it, remove the file by hand";
            Err(Stop(1, format!("`{line}` {error}, so {path} stays as it is: {remedy}")))
        }
    }
}

/// The file is gone: systemd should not know it any more either.
fn forget(unit: &Unit, is_enabled: bool, dry_run: bool) -> Result<(), Stop> {
    if dry_run {
        would_run(&unit.forgetting());
        return Ok(());
    }
    match run_all(&unit.forgetting()) {
        Err((_, StepError::NotRun(error))) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) if !is_enabled => Ok(()),
        Err((line, error)) => {
            let path = unit.path.display();
            Err(Stop(1, format!("{path} is removed, but `{line}` {error}: run it by hand")))
        }
        Ok(()) => Ok(()),
    }
}

/// One after the other, each told; the first that fails ends it.
fn run_all(lines: &[Vec<String>]) -> Result<(), (String, StepError)> {
    for line in lines {
        let status = Command::new(&line[0]).args(&line[1..]).status();
        let done = match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(StepError::Failed(status)),
            Err(error) => Err(StepError::NotRun(error)),
        };
        done.map_err(|error| (line.join(" "), error))?;
        tell("ran", std::slice::from_ref(line));
    }
    Ok(())
}

fn tell(word: &str, lines: &[Vec<String>]) {
    for (number, line) in lines.iter().enumerate() {
        println!("{:<10} {}", if number == 0 { word } else { "" }, line.join(" "));
    }
}

/// Beside the diff, not in it.
fn would_run(lines: &[Vec<String>]) {
    for line in lines {
        eprintln!("{:<10} {}", "would run", line.join(" "));
    }
}
