//! `ccmux run`: an agent's session in a container, with hooks and tools from inside.
//!
//! ```text
//! image there? build it, with its progress ─► the daemon makes a directory with one socket ─► engine run …
//!                                                                the agent's exit code ◄──────────┘
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`arguments`] | what can be said on the command line |
//! | [`mod@plan`] | what is mounted and passed: the engine's command line, a pure function |
//! | [`image`] | the image of our own, built at the first run |
//! | [`files`] | what Claude is told in there: hooks and tools; where its configuration is kept |
//! | [`engine`] | runs the engine, passes signals and the exit code on |
//!
//! The directory of the daemon is never mounted: only `containers/<id>` of it, read-only.

pub mod arguments;
mod engine;
mod files;
mod image;
mod plan;

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use ccmux_wire::container::{CONTAINERS, ContainerId, ContainerRequest, WindowId};
use ccmux_wire::control::Request;
use ccmux_wire::paths::{InstanceName, Paths};
use rustix::process::{getgid, getuid};

use crate::client::Client;
use crate::failure::Failure;
use arguments::RunOptions;
use plan::{Plan, Tcp};

/// Who the agent is in the container when root starts it: nobody should be root there.
const NOT_ROOT: u32 = 1000;

/// Runs it to its end.
pub fn run(dir: &Path, instance: Option<&InstanceName>, options: RunOptions) -> Result<(), Failure> {
    let image = options.image.clone();
    let dry_run = options.dry_run;
    let plan = plan(dir, instance, options)?;
    if dry_run {
        writeln!(io::stdout(), "{}", plan.shell_line())?;
        return Ok(());
    }
    if image.is_none() {
        image::ensure(&plan)?;
    }
    files::write(&plan)?;
    match in_place(dir, &plan)? {
        0 => Ok(()),
        code => Err(Failure::Exit(code)),
    }
}

/// Runs it with its socket, which is there as long as it runs; without one where it tells by TCP.
fn in_place(dir: &Path, plan: &Plan) -> Result<u8, Failure> {
    if plan.tcp.is_some() {
        return engine::run(plan, engine::catch()?);
    }
    if cfg!(target_os = "macos") {
        let why = "a socket does not reach a container on macOS: take --tcp HOST:PORT and --token-file FILE";
        return Err(Failure::Refused(why.to_owned()));
    }
    // A signal must leave neither the engine nor the directory alone.
    let signals = engine::catch()?;
    let opened = open(dir, plan)?;
    let code = engine::run(plan, signals);
    // The daemon would notice by itself that this process has ended.
    drop(Client::ask(dir, Request::Container(ContainerRequest::Close { id: opened })));
    code
}

fn plan(dir: &Path, instance: Option<&InstanceName>, options: RunOptions) -> Result<Plan, Failure> {
    let failed = |error: String| Failure::Failed(error);
    let project = std::env::current_dir()
        .map_err(|error| failed(format!("can't tell the working directory: {error}")))?;
    refuse_wide(&project, &private_places())?;
    let paths = Paths::lookup(instance).map_err(|error| failed(error.to_string()))?;
    let place = paths.state_dir.join("container");
    let id = new_id()?;
    let is_root = getuid().is_root();
    let (uid, gid) = match is_root {
        true => (NOT_ROOT, NOT_ROOT),
        false => (getuid().as_raw(), getgid().as_raw()),
    };
    let to = options.tcp.as_deref().map(crate::tcp::address_of).transpose()?;
    let token = options.token_file.map(|file| file.canonicalize()).transpose();
    let token = token.map_err(|error| failed(format!("the token's file: {error}")))?;
    let window = std::env::var("WINDOWID").ok().and_then(|window| WindowId::try_from(window).ok());
    Ok(Plan {
        engine: options.engine,
        image: options.image.unwrap_or_else(image::name),
        user: (uid, gid),
        is_root,
        socket_dir: dir.join(CONTAINERS).join(id.as_str()),
        config: files::config_of(&place, &project),
        told: place.join("told"),
        place,
        programs: programs()?,
        project,
        window,
        tcp: to.map(|to| Tcp { to, token }),
        variables: plan::PASSED.iter().filter(|name| std::env::var_os(name).is_some()).copied().collect(),
        is_terminal: io::stdin().is_terminal() && io::stdout().is_terminal(),
        further: options.engine_args,
        arguments: options.arguments,
        id,
    })
}

/// What no container may have: the home folder as a whole, and Claude's configuration in whole or in part.
struct Private {
    home: Option<PathBuf>,
    claude: Vec<PathBuf>,
}

fn private_places() -> Private {
    let place = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = place("HOME");
    let claude = home.as_ref().map(|home| home.join(".claude")).into_iter();
    Private { home, claude: claude.chain(place("CLAUDE_CONFIG_DIR")).collect() }
}

/// Links are followed: the mount would, too.
fn refuse_wide(project: &Path, private: &Private) -> Result<(), Failure> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let real_project = real(project);
    let holds_home = private.home.iter().any(|home| real(home).starts_with(&real_project));
    let of_claude = private.claude.iter().map(|claude| real(claude));
    let mut touching =
        of_claude.filter(|claude| claude.starts_with(&real_project) || real_project.starts_with(claude));
    let why = match touching.next() {
        _ if holds_home || real_project == Path::new("/") => "it holds your home folder".to_owned(),
        Some(claude) => format!("Claude's own configuration is there ({})", claude.display()),
        None => return Ok(()),
    };
    let project = project.display();
    Err(Failure::Refused(format!("{project} is no project, {why}: go to the project's own directory")))
}

/// `ccmux` and `ccmux-hook`, mounted one by one: what else stands beside them is not the container's business.
fn programs() -> Result<[PathBuf; 2], Failure> {
    let own = std::env::current_exe().and_then(|path| path.canonicalize());
    let own = own.map_err(|error| Failure::Failed(format!("can't tell where this program is: {error}")))?;
    let hook = own.with_file_name("ccmux-hook");
    if !hook.is_file() {
        return Err(Failure::Failed(format!("{} is missing: install it beside ccmux", hook.display())));
    }
    Ok([own, hook])
}

fn open(dir: &Path, plan: &Plan) -> Result<ContainerId, Failure> {
    let (id, window) = (plan.id.clone(), plan.window.clone());
    let uid = plan.is_root.then_some(plan.user.0);
    let answer =
        Client::ask(dir, Request::Container(ContainerRequest::Open { id: id.clone(), uid, window }))?;
    let made = answer.reply.container.and_then(|opened| opened.dir).map(PathBuf::from);
    if made.as_deref() != Some(&*plan.socket_dir) {
        return Err(Failure::of_nonsense("it names another directory than the one that is mounted"));
    }
    Ok(id)
}

fn new_id() -> Result<ContainerId, Failure> {
    let mut bytes = [0; 4];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.map_err(|error| Failure::Failed(format!("no random numbers: {error}")))?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    ContainerId::try_from(text).map_err(|error| Failure::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn neither_home_nor_claudes_configuration_is_a_project() {
        let top = tempfile::tempdir().unwrap();
        let at = |path: &str| top.path().join(path);
        ["homes/u/src/proj", "homes/u/dots/claude/skills", "homes/u/.config"]
            .iter()
            .for_each(|dir| fs::create_dir_all(at(dir)).unwrap());
        symlink(at("homes"), at("linked")).unwrap();
        symlink(at("homes/u/dots/claude"), at("homes/u/.claude")).unwrap();
        let home = at("linked/u");
        let private = Private { claude: vec![home.join(".claude")], home: Some(home) };
        let homes = ["", "homes", "linked", "homes/u", "linked/u"];
        for dir in homes.into_iter().chain(["homes/u/.claude", "homes/u/dots", "homes/u/dots/claude/skills"])
        {
            let refused = refuse_wide(&at(dir), &private);
            assert!(matches!(refused, Err(Failure::Refused(_))), "{dir}");
        }
        for dir in ["homes/u/src/proj", "linked/u/src", "homes/u/.config"] {
            assert!(refuse_wide(&at(dir), &private).is_ok(), "{dir}");
        }
        assert!(refuse_wide(Path::new("/"), &Private { home: None, claude: Vec::new() }).is_err());
    }
}
