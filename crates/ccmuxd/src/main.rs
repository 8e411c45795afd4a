//! `ccmuxd`: the daemon's main. Settings, logging, signals, then [`ccmux_runtime::daemon::run`].
//!
//! `ccmuxd setup` guides through the first run; `ccmuxd doctor` measures whether all can work; `ccmuxd install` puts what
//! is ours into files of the user. Two hidden commands are run inside tmux: `launch FILE` becomes the agent, `pane-sink
//! SOCKET` hands the pane's output over; one is run by ourselves: `try-namespaces`. Exit codes: 0 stopped, 1 already running or internal, 2 usage, 69 something needed is missing, 73 a directory
//! is refused, 78 settings.

mod cli;
mod doctor;
mod install;
mod logging;
mod manual;
mod print;
mod setup;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ccmux_runtime::agent::launch::run_launch;
use ccmux_runtime::agent::plan::agent_environment;
use ccmux_runtime::agent::proxy::{self, UnexpectedProxy};
use ccmux_runtime::daemon::{self, Binaries, LogLevel, Setting};
use ccmux_runtime::install::{Direction, namespaces};
use ccmux_runtime::settings::{Loaded, SettingsError, expand, load};
use ccmux_runtime::systemd::{Passed, Systemd};
use ccmux_runtime::tmux::pane_sink;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use cli::{Cli, Command};

/// Bad usage, as clap says it.
const EX_BAD_USAGE: u8 = 2;
/// sysexits.h: something needed is not there; settings.
const EX_UNAVAILABLE: u8 = 69;
const EX_CONFIG: u8 = 78;
/// Whoever still waits for a locked database or a dead disk ends with the process: databases commit wholly or not at all.
const ENDS_WITHIN: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    if let Some(file) = launch_file(std::env::args_os()) {
        return launch(&file);
    }
    let cli = Cli::parse();
    match &cli.command {
        Some(Command::Launch { file }) => launch(file),
        Some(Command::PaneSink { socket }) => match pane_sink(socket) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &format!("pane-sink {}: {error}", socket.display())),
        },
        Some(Command::TryNamespaces) => match namespaces::enter() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(namespaces::FORBIDDEN, &format!("no user namespace: {error}")),
        },
        Some(Command::Manual { folder }) => manual::write(folder),
        None if cli.print_default_config => print::default_file(),
        Some(Command::Doctor { screen: true, json, .. }) => with_settings(&cli, |loaded| {
            with_setting(&cli, loaded, |setting| doctor::screen::run(&setting, *json))
        }),
        Some(Command::Doctor { json, no_probe, .. }) => {
            let run = |setting| doctor::run(setting, *json, !no_probe);
            with_settings(&cli, |loaded| with_setting(&cli, loaded, run))
        }
        Some(Command::Install(options)) => install::run(&cli, options, Direction::In),
        Some(Command::Uninstall(options)) => install::run(&cli, options, Direction::Out),
        Some(Command::Setup) => with_settings(&cli, |loaded| with_setting(&cli, loaded, setup::run)),
        None => with_settings(&cli, |loaded| with_setting(&cli, loaded, run)),
    }
}

/// Exactly `launch FILE`, as tmux is told: whoever waits for the agent need not wait until a command line of fifty options
/// has been made and read.
fn launch_file(arguments: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let arguments: Vec<OsString> = arguments.skip(1).take(3).collect();
    match arguments.as_slice() {
        [launch, file] if launch == "launch" && !file.as_encoded_bytes().starts_with(b"-") => {
            Some(file.into())
        }
        _ => None,
    }
}

fn launch(file: &Path) -> ExitCode {
    let error = run_launch(file);
    eprintln!("ccmuxd launch: {error}");
    ExitCode::from(error.exit_code())
}

fn fail(code: u8, why: &str) -> ExitCode {
    eprintln!("ccmuxd: {why}");
    ExitCode::from(code)
}

fn with_settings(cli: &Cli, run: impl FnOnce(Loaded) -> ExitCode) -> ExitCode {
    let sources = match cli.sources() {
        Ok(sources) => sources,
        Err(error) => return fail(EX_BAD_USAGE, &error),
    };
    let loaded = match load(&sources) {
        Ok(loaded) => loaded,
        Err(error) => return fail(EX_CONFIG, &error.to_string()),
    };
    for warning in &loaded.warnings {
        eprintln!("ccmuxd: {warning}");
    }
    if cli.print_config {
        return print::settings(&loaded);
    }
    if cli.check_config {
        return check(&loaded);
    }
    run(loaded)
}

/// What a start would refuse beyond the settings themselves: the file of a token.
fn check(loaded: &Loaded) -> ExitCode {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    match loaded.settings.tcp.token_to_listen(&home) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => fail(EX_CONFIG, &error.to_string()),
    }
}

/// Adds what the process itself knows: home, environment, binaries.
fn with_setting(cli: &Cli, loaded: Loaded, run: impl FnOnce(Setting) -> ExitCode) -> ExitCode {
    let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from) else {
        return fail(EX_CONFIG, &SettingsError::NoHome.to_string());
    };
    // Where the link to it stands is no matter: the others lie beside the file itself.
    let ccmuxd = match std::env::current_exe() {
        Ok(ccmuxd) => ccmuxd,
        Err(error) => return fail(EX_UNAVAILABLE, &format!("can't tell where I am: {error}")),
    };
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    // They were good a moment ago.
    let sources = cli.sources().unwrap_or_default();
    let log_level = LogLevel::default();
    let binaries = Binaries::beside(ccmuxd);
    run(Setting { settings: loaded.settings, home, environment, binaries, sources, log_level })
}

fn run(setting: Setting) -> ExitCode {
    // Before anything else is opened: the numbers are systemd's until they are taken.
    let passed = Passed::take();
    let systemd = Systemd::from_environment();
    let code = run_under(setting, (systemd.clone(), passed));
    systemd.last_words();
    code
}

fn run_under(mut setting: Setting, systemd: (Systemd, Passed)) -> ExitCode {
    if let Some(missing) = setting.binaries.missing() {
        return fail(EX_UNAVAILABLE, &missing);
    }
    let environment = agent_environment(&setting.settings, setting.environment.clone());
    let proxy = proxy::unexpected(&environment, &setting.settings.proxy.expect);
    let log_file = expand(&setting.settings.log.file, &setting.home);
    let (_log, log_level) = match logging::start(&log_file, &setting.settings.log) {
        Ok(started) => started,
        Err(error) => {
            return fail(1, &format!("the log {}: {error}; see log.file", log_file.display()));
        }
    };
    setting.log_level = log_level;
    match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(run_until_signal(setting, systemd, proxy));
            runtime.shutdown_timeout(ENDS_WITHIN);
            code
        }
        Err(error) => fail(1, &format!("the runtime can't start: {error}")),
    }
}

/// A line for people in place of the log's, once everything else is well: a proxy that is not the expected one is easily
/// overlooked.
fn warn_of_proxy(warning: &UnexpectedProxy) {
    tracing::warn!(target: logging::FILE_ONLY, event = "proxy.unexpected", %warning);
    eprintln!("ccmuxd: warning: {warning}");
}

async fn run_until_signal(
    setting: Setting,
    systemd: (Systemd, Passed),
    proxy: Option<UnexpectedProxy>,
) -> ExitCode {
    let shutdown = CancellationToken::new();
    let signals =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()));
    let (terminate, interrupt, hang_up) = match signals {
        (Ok(terminate), Ok(interrupt), Ok(hang_up)) => (terminate, interrupt, hang_up),
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
            return fail(1, &format!("signals: {error}"));
        }
    };
    let reload = Arc::new(Notify::new());
    tokio::spawn(reload_on(hang_up, Arc::clone(&reload)));
    tokio::spawn(stop_on(terminate, shutdown.clone()));
    tokio::spawn(stop_on(interrupt, shutdown.clone()));
    let ready = || proxy.iter().for_each(warn_of_proxy);
    match daemon::run(setting, systemd, shutdown, reload, ready).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(target: logging::FILE_ONLY, event = "daemon.refused", %error);
            fail(error.exit_code(), &error.to_string())
        }
    }
}

/// `systemctl reload`, and who knows daemons, send SIGHUP.
async fn reload_on(mut signal: tokio::signal::unix::Signal, reload: Arc<Notify>) {
    while signal.recv().await.is_some() {
        reload.notify_one();
    }
}

async fn stop_on(mut signal: tokio::signal::unix::Signal, shutdown: CancellationToken) {
    if signal.recv().await.is_some() {
        shutdown.cancel();
    }
}
