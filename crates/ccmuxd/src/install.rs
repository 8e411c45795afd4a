//! `ccmuxd install` and `ccmuxd uninstall`: what [`ccmux_runtime::install`] does to files of the user, told to people.
//!
//! ```text
//! changed    /home/ann/.claude/settings.json
//! unchanged  /home/ann/.claude.json
//! note       claude is not found: hooks for the events that every version knows
//! ```
//!
//! With `--dry-run` it is a diff instead, and nothing is changed.

mod unit;

use std::io::{self, Write};
use std::process::ExitCode;

use ccmux_runtime::agent::version::Version;
use ccmux_runtime::daemon::Setting;
use ccmux_runtime::install::opencode;
use ccmux_runtime::install::places::{ask_version, copy_hook, in_claudes_files};
use ccmux_runtime::install::units::{Starter, Unit};
use ccmux_runtime::install::{Change, Direction, InstallError, Installation};
use similar::TextDiff;

use super::cli::{Cli, InstallOptions};
use super::{EX_BAD_USAGE, fail, with_setting, with_settings};

const EX_MISSING: u8 = 69;
const EX_SETTINGS: u8 = 78;

/// How it ends early.
struct Stop(u8, String);

impl From<InstallError> for Stop {
    fn from(error: InstallError) -> Self {
        let snippet = match &error {
            InstallError::Content { snippet: Some(snippet), .. } => {
                format!("\nNothing was changed. What belongs there, to be put in by hand:\n{snippet}")
            }
            _ => String::new(),
        };
        Self(error.exit_code(), format!("{error}{snippet}"))
    }
}

/// Runs it.
pub fn run(cli: &Cli, options: &InstallOptions, direction: Direction) -> ExitCode {
    if options.user && cli.instance.is_some() {
        let why = "Claude Code's own files serve the plain daemon only: leave out -i, or --user";
        return fail(EX_BAD_USAGE, why);
    }
    with_settings(cli, |loaded| {
        with_setting(cli, loaded, |setting| {
            let done = do_it(&setting, cli.instance.as_deref(), options, direction);
            match done {
                Ok(()) => ExitCode::SUCCESS,
                Err(Stop(code, why)) => fail(code, &why),
            }
        })
    })
}

fn do_it(
    setting: &Setting,
    instance: Option<&str>,
    options: &InstallOptions,
    direction: Direction,
) -> Result<(), Stop> {
    if options.user {
        let installation = user_files(setting, options, direction)?;
        let changes = apply(&installation, options.dry_run, direction)?;
        if direction == Direction::Out {
            changes.iter().filter(|change| names_the_hook(change)).for_each(|change| {
                note(&format!(
                    "{} still names ccmux-hook, in what is yours: look at it",
                    change.path.display()
                ));
            });
        }
    }
    if options.opencode {
        apply(&opencode::plugin(setting), options.dry_run, direction)?;
    }
    if options.service {
        let unit = Unit::of(setting, instance, Starter::HERE);
        match direction {
            Direction::In => unit::put_in(setting, &unit, options)?,
            Direction::Out => unit::take_out(setting, &unit, options)?,
        }
    }
    Ok(())
}

fn user_files(
    setting: &Setting,
    options: &InstallOptions,
    direction: Direction,
) -> Result<Installation, Stop> {
    let version = match direction {
        Direction::In => version(setting)?,
        // What comes out is known by its name.
        Direction::Out => Version::Unknown(String::new()),
    };
    let installation =
        in_claudes_files(setting, &version).map_err(|error| Stop(EX_SETTINGS, error.to_string()))?;
    if direction == Direction::In {
        if let Some(missing) = setting.binaries.missing() {
            return Err(Stop(EX_MISSING, missing));
        }
        if installation.wanted.server.is_none() {
            note(
                "no tools yet: with mcp.port = 0 the port is known after the daemon's first start; then run this again",
            );
        }
        if !options.dry_run {
            copy_hook(setting).map_err(|error| Stop(error.exit_code(), error.to_string()))?;
        }
    }
    Ok(installation)
}

/// The version decides the events; without an answer there are those that every version knows.
fn version(setting: &Setting) -> Result<Version, Stop> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Stop(1, format!("the runtime can't start: {error}")))?;
    Ok(runtime.block_on(ask_version(setting)).unwrap_or_else(|error| {
        note(&format!(
            "{error}: hooks for the events that every version of Claude Code knows; run this again later"
        ));
        Version::Unknown("unknown".to_owned())
    }))
}

fn apply(installation: &Installation, dry_run: bool, direction: Direction) -> Result<Vec<Change>, Stop> {
    let changes = if dry_run { installation.look(direction)? } else { installation.carry_out(direction)? };
    let mut text = String::new();
    for change in &changes {
        text.push_str(&if dry_run { diff(change) } else { report(change) });
    }
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Stop(1, error.to_string())),
        _ => Ok(changes),
    }
}

/// A command that somebody made of ours is his. (The other file remembers what was said, too.)
fn names_the_hook(change: &Change) -> bool {
    change.path.ends_with("settings.json")
        && String::from_utf8_lossy(change.after.as_deref().unwrap_or_default()).contains("ccmux-hook")
}

fn report(change: &Change) -> String {
    let word = match (&change.before, &change.after) {
        (before, after) if before == after => "unchanged",
        (None, _) => "made",
        (_, None) => "removed",
        _ => "changed",
    };
    format!("{word:<10} {}\n", change.path.display())
}

fn diff(change: &Change) -> String {
    let text =
        |bytes: &Option<Vec<u8>>| String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned();
    let name = |bytes: &Option<Vec<u8>>| match bytes {
        Some(_) => change.path.display().to_string(),
        None => "/dev/null".to_owned(),
    };
    let (old, new) = (text(&change.before), text(&change.after));
    let diff = TextDiff::from_lines(&old, &new);
    diff.unified_diff().header(&name(&change.before), &name(&change.after)).to_string()
}

fn note(text: &str) {
    eprintln!("{:<10} {text}", "note");
}
