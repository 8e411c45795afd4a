//! Directories, sockets, token and FIFOs: there, of the right kind, and nobody else's. Nothing is opened but read-only,
//! and no FIFO at all: a reader that waits would take us for its writer.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use ccmux_wire::channel::{FileRole, in_file, role_of_file};
use ccmux_wire::paths::check_private;
use ccmux_wire::status::{ChannelStatus, Direction};
use nix::unistd::Uid;

use super::finding::Finding;
use super::patient::Patient;

/// Whoever else may not.
const OTHERS: u32 = 0o077;

pub(super) fn runtime_dir(patient: &Patient) -> Vec<Finding> {
    vec![private_dir("runtime_dir", &patient.runtime_dir, "CCMUX_RUNTIME_DIR")]
}

pub(super) fn state_dir(patient: &Patient) -> Vec<Finding> {
    vec![private_dir("state_dir", &patient.state_dir, "CCMUX_STATE_DIR")]
}

fn private_dir(check: &'static str, dir: &Path, variable: &str) -> Finding {
    let shown = dir.display();
    if let Err(error) = dir.symlink_metadata()
        && error.kind() == io::ErrorKind::NotFound
    {
        return Finding::ok(check, format!("{shown} is not there yet: the daemon makes it"));
    }
    match check_private(dir) {
        Ok(()) => Finding::ok(check, format!("{shown} is private")),
        Err(error) => {
            let remedy = format!("chmod 700 {shown}, or choose another one ({check}, {variable})");
            Finding::failure(check, error.to_string(), remedy)
        }
    }
}

pub(super) fn sockets(patient: &Patient) -> Vec<Finding> {
    let names = ["control.sock", "output.sock"];
    let wrong = names.iter().filter_map(|name| {
        let path = patient.runtime_dir.join(name);
        match path.symlink_metadata() {
            Err(_) if patient.status().is_none() => None,
            Err(error) => Some(format!("{}: {error}", path.display())),
            Ok(found) => fault(&found, found.file_type().is_socket(), "no socket")
                .map(|why| format!("{}: {why}", path.display())),
        }
    });
    let wrong: Vec<String> = wrong.collect();
    let remedy = "remove it; the daemon makes its sockets again within seconds, or at its start";
    match (wrong.is_empty(), patient.status().is_some()) {
        (true, true) => vec![Finding::ok("sockets", "control.sock and output.sock are there, for you alone")],
        (true, false) => vec![Finding::ok("sockets", "no daemon serves them")],
        (false, _) => vec![Finding::failure("sockets", wrong.join("; "), remedy)],
    }
}

pub(super) fn token_file(patient: &Patient) -> Vec<Finding> {
    let check = "token_file";
    if patient.setting.settings.mcp.auth == "none" {
        let what = "mcp.auth is none: every local program may use Claude's tools and read /events";
        return vec![Finding::warning(
            check,
            what,
            "mcp.auth = \"token\", unless you are the only user here",
        )];
    }
    let path = patient.state_dir.join("mcp.token");
    let shown = path.display();
    vec![match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && patient.status().is_none() => {
            Finding::ok(check, format!("{shown} is not there yet: the daemon makes it"))
        }
        Err(error) => {
            Finding::failure(check, format!("{shown}: {error}"), "restart the daemon: it makes one")
        }
        Ok(found) => match fault(&found, found.is_file(), "no regular file") {
            Some(why) => {
                let remedy = format!("remove {shown} and restart the daemon: it makes a new one");
                Finding::failure(check, format!("{shown}: {why}"), remedy)
            }
            None => Finding::ok(check, format!("{shown} is yours alone")),
        },
    }]
}

/// What is wrong with a file that should be ours alone.
fn fault(found: &Metadata, is_right_kind: bool, wrong_kind: &str) -> Option<String> {
    let mode = found.mode() & 0o7777;
    if !is_right_kind {
        Some(wrong_kind.to_owned())
    } else if found.uid() != Uid::effective().as_raw() {
        Some(format!("it belongs to uid {}", found.uid()))
    } else if mode & OTHERS != 0 {
        Some(format!("its mode {mode:o} lets others in"))
    } else {
        None
    }
}

pub(super) fn fifos(patient: &Patient) -> Vec<Finding> {
    let check = "fifos";
    if let Some(status) = patient.status() {
        return vec![of_daemon(&status.channels)];
    }
    let unread = fifos_in(&patient.runtime_dir);
    vec![match unread.is_empty() {
        true => Finding::ok(check, "no daemon runs, and no FIFO waits for one"),
        false => Finding::warning(
            check,
            format!("nobody reads {}: no daemon runs, and whoever writes there waits", unread.join(", ")),
            "start the daemon",
        ),
    }]
}

/// With a daemon: is each read, or refused?
fn of_daemon(channels: &[ChannelStatus]) -> Finding {
    let way = |channel: &ChannelStatus| match channel.direction {
        Direction::In => in_file(&channel.name),
        Direction::Out => format!("out.{}", channel.name),
    };
    let closed: Vec<String> = channels
        .iter()
        .filter(|channel| channel.state != "open")
        .map(|channel| format!("{}: {}", way(channel), channel.state))
        .collect();
    match closed.is_empty() {
        true => Finding::ok("fifos", format!("all {} are open", channels.len())),
        false => {
            let remedy = "a refused file: put a FIFO of your own there (mkfifo -m 600); a stalled one waits for room, see ccmux status";
            Finding::warning("fifos", closed.join("; "), remedy)
        }
    }
}

/// Names of FIFOs that writers use.
fn fifos_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let fifos = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_fifo()));
    let mut names: Vec<String> = fifos
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| matches!(role_of_file(name), FileRole::In(_)))
        .collect();
    names.sort();
    names
}
