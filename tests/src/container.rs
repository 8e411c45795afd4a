//! Containers of a house: `ccmux run` with an engine that is podman's command line on bubblewrap, and an agent that does
//! what it is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::{House, binaries};

/// Drops what `ccmux run` tells Claude, and runs the rest in bash.
const AGENT: &str = "#!/bin/bash\n[ \"$1\" = --settings ] && [ -r \"$2\" ] && [ -r \"$4\" ] || exit 99\nexec bash -c \"$5\"\n";

/// Fails where there is no bubblewrap in CI; elsewhere says that nothing was tested.
pub fn or_skip() -> bool {
    let works = Command::new("bwrap").args(["--ro-bind", "/", "/", "true"]).output();
    let works = works.is_ok_and(|output| output.status.success());
    let must = cfg!(target_os = "linux") && std::env::var_os("CI").is_some();
    assert!(works || !must, "bubblewrap does not work here, and CI must have it");
    if !works {
        println!("skipped: bubblewrap is not there, or may not make namespaces (apt install bubblewrap)");
    }
    works
}

/// `ccmux run` of a script.
pub fn run(house: &House, script: &str) -> Command {
    run_with(house, &["--image", "any"], script)
}

/// The same with other options.
pub fn run_with(house: &House, options: &[&str], script: &str) -> Command {
    let agent = house.path("stand-in-agent");
    if !agent.exists() {
        // Beside its place: two containers may start at once.
        let new = house.path(&format!("stand-in-agent-{:?}", std::thread::current().id()));
        fs::write(&new, AGENT).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &agent).unwrap();
    }
    run_agent(house, options, &agent, &[script])
}

/// `ccmux run` of any agent, with its arguments.
pub fn run_agent(house: &House, options: &[&str], agent: &Path, arguments: &[&str]) -> Command {
    let mut command = house.command(house.bin("ccmux"));
    let engine = binaries::repository().join("tests/fixtures/engine");
    let path = std::env::join_paths([engine, "/usr/bin".into(), "/bin".into()]).unwrap();
    command.env("PATH", path).env("STAND_IN_AGENT", agent).current_dir(house.proj());
    command.arg("run").args(options).arg("--").args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a script in a container prints; it must succeed.
pub fn said(house: &House, script: &str) -> String {
    text(house.run_to_end(run(house, script)))
}

/// A container that goes on.
pub fn spawn(house: &House, script: &str) -> Child {
    run(house, script).spawn().expect("ccmux can be started")
}

/// Standard output of one that must have succeeded.
pub fn text(output: Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
