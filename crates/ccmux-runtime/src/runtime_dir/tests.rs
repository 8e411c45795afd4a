//! Real directories, locks and sockets in temporary places.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use nix::unistd::{Gid, Uid, chown};
use tempfile::TempDir;

use super::*;

fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ccmux");
    (dir, path)
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

fn refusal(path: &Path) -> RuntimeDirError {
    let error = RuntimeDir::claim(path).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(path.to_str().unwrap().trim_end_matches(['/', '.'])), "names the path: {text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    error
}

#[test]
fn the_directory_is_made_private_with_a_pid_file() {
    let (_keep, path) = place();
    let dir = RuntimeDir::claim(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
    let pid_file = path.join(PID_FILE);
    assert_eq!(fs::read_to_string(&pid_file).unwrap().trim(), std::process::id().to_string());
    assert_eq!(mode(&pid_file), 0o600);
    dir.release();
    assert!(!pid_file.exists());
}

#[test]
fn a_private_directory_of_ours_is_taken_as_it_is() {
    let (_keep, path) = place();
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    fs::write(path.join("note"), "kept").unwrap();
    let _dir = RuntimeDir::claim(&path).unwrap();
    assert_eq!(fs::read_to_string(path.join("note")).unwrap(), "kept");
}

#[test]
fn a_symbolic_link_is_refused_with_and_without_a_slash() {
    let (keep, path) = place();
    fs::create_dir(keep.path().join("real")).unwrap();
    fs::set_permissions(keep.path().join("real"), Permissions::from_mode(0o700)).unwrap();
    symlink(keep.path().join("real"), &path).unwrap();
    for path in [path.clone(), path.join(""), path.join(".")] {
        assert!(matches!(refusal(&path), RuntimeDirError::Symlink { .. }), "{path:?}");
    }
    assert_eq!(keep.path().join("real").read_dir().unwrap().count(), 0, "nothing was made behind it");
    fs::remove_file(&path).unwrap();
    symlink("/no/such/place", &path).unwrap();
    assert!(matches!(refusal(&path), RuntimeDirError::Symlink { .. }), "a dangling one");
}

#[test]
fn a_file_in_its_place_is_refused() {
    let (_keep, path) = place();
    fs::write(&path, "").unwrap();
    let error = refusal(&path);
    assert!(matches!(error, RuntimeDirError::NotADirectory { .. }), "{error}");
    assert_eq!(error.exit_code(), 73);
}

#[test]
fn a_directory_open_to_others_is_refused_and_left_alone() {
    for open in [0o750, 0o701, 0o1777] {
        let (_keep, path) = place();
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
        let error = refusal(&path);
        assert!(matches!(error, RuntimeDirError::OpenToOthers { mode, .. } if mode == open), "{error}");
        assert_eq!(mode(&path), open);
        assert_eq!(path.read_dir().unwrap().count(), 0);
    }
}

#[test]
fn another_users_directory_is_refused() {
    let (_keep, path) = place();
    let path = if Uid::effective().is_root() {
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        chown(&path, Some(Uid::from_raw(65534)), Some(Gid::from_raw(65534))).unwrap();
        path
    } else {
        PathBuf::from("/usr")
    };
    assert!(matches!(refusal(&path), RuntimeDirError::Foreign { .. }));
}

#[test]
fn a_missing_parent_is_named_and_not_made() {
    let (_keep, path) = place();
    let error = refusal(&path.join("deeper"));
    assert!(matches!(error, RuntimeDirError::NoParent { .. }), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_second_daemon_is_told_who_runs_and_disturbs_nothing() {
    let (_keep, path) = place();
    let first = RuntimeDir::claim(&path).unwrap();
    let _listener = first.bind_socket(&path.join("control.sock")).unwrap();
    let error = RuntimeDir::claim(&path).unwrap_err();
    let own_pid = std::process::id() as i32;
    assert!(matches!(error, RuntimeDirError::AlreadyRunning { pid, .. } if pid == own_pid), "{error}");
    assert_eq!(error.exit_code(), 1);
    assert!(UnixStream::connect(path.join("control.sock")).is_ok());
    assert_eq!(fs::read_to_string(path.join(PID_FILE)).unwrap().trim(), own_pid.to_string());
    assert_eq!(first.restore().unwrap(), Restored::Intact);
    drop(first);
    RuntimeDir::claim(&path).expect("free again");
}

/// Chaos found it: after 40 of 17,000 kills the next daemon said that one runs.
#[test]
fn locks_that_outlive_their_daemon_in_a_program_that_it_was_starting_are_waited_for() {
    let (_keep, path) = place();
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    fs::write(path.join(PID_FILE), "4194303\n").unwrap();
    let (dir, pid_file) = (File::open(&path).unwrap(), File::open(path.join(PID_FILE)).unwrap());
    dir.try_lock().unwrap();
    pid_file.try_lock().unwrap();
    let mut program = Command::new("sleep").arg("0.3").stdin(dir).stdout(pid_file).spawn().unwrap();
    RuntimeDir::claim(&path).expect("nobody runs");
    assert!(program.wait().unwrap().success());
}

#[test]
fn a_socket_that_a_daemon_was_making_when_it_died_is_removed_by_the_next_one() {
    let (_keep, path) = place();
    drop(RuntimeDir::claim(&path).unwrap());
    drop(UnixListener::bind(path.join(".4711")).unwrap());
    fs::write(path.join(".4712"), "no socket").unwrap();
    let _dir = RuntimeDir::claim(&path).unwrap();
    assert!(!path.join(".4711").exists() && path.join(".4712").exists());
}

#[test]
fn a_daemon_that_died_leaves_nothing_in_the_way() {
    let (_keep, path) = place();
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    fs::write(path.join(PID_FILE), "4194303\n").unwrap();
    drop(std::os::unix::net::UnixListener::bind(path.join("output.sock")).unwrap());
    let dir = RuntimeDir::claim(&path).unwrap();
    let _listener = dir.bind_socket(&path.join("output.sock")).unwrap();
    assert!(UnixStream::connect(path.join("output.sock")).is_ok());
}

#[test]
fn a_pid_file_that_is_something_else_is_refused() {
    let (keep, path) = place();
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    fs::write(keep.path().join("precious"), "kept").unwrap();
    fs::hard_link(keep.path().join("precious"), path.join(PID_FILE)).unwrap();
    assert!(matches!(refusal(&path), RuntimeDirError::InTheWay { .. }));
    fs::remove_file(path.join(PID_FILE)).unwrap();
    symlink(keep.path().join("precious"), path.join(PID_FILE)).unwrap();
    assert_eq!(refusal(&path).exit_code(), 73);
    assert_eq!(fs::read_to_string(keep.path().join("precious")).unwrap(), "kept");
}

#[test]
fn a_fifo_is_made_once_and_kept() {
    let (_keep, path) = place();
    let dir = RuntimeDir::claim(&path).unwrap();
    assert!(dir.make_fifo("in").unwrap());
    let made = path.join("in").symlink_metadata().unwrap();
    assert!(made.file_type().is_fifo());
    assert_eq!(mode(&path.join("in")), 0o600);
    assert!(!dir.make_fifo("in").unwrap());
    dir.release();
    assert_eq!(FileId::of_path(&path.join("in")), Some(FileId::from(&made)), "FIFOs stay");
}

#[test]
fn a_socket_is_private_works_and_goes_at_the_end() {
    let (_keep, path) = place();
    let dir = RuntimeDir::claim(&path).unwrap();
    let socket = path.join("control.sock");
    let listener = dir.bind_socket(&socket).unwrap();
    assert_eq!(mode(&socket), 0o600);
    let mut client = UnixStream::connect(&socket).unwrap();
    client.write_all(b"hi").unwrap();
    drop(client);
    let mut text = String::new();
    listener.set_nonblocking(false).unwrap();
    listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hi");
    let names: Vec<_> = path.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "no private name is left: {names:?}");
    dir.release();
    assert_eq!(path.read_dir().unwrap().count(), 0);
}

#[test]
fn only_a_socket_is_replaced_by_a_socket() {
    let (_keep, path) = place();
    let dir = RuntimeDir::claim(&path).unwrap();
    fs::write(path.join("control.sock"), "precious").unwrap();
    let error = dir.bind_socket(&path.join("control.sock")).unwrap_err();
    assert!(matches!(error, RuntimeDirError::InTheWay { .. }), "{error}");
    assert_eq!(fs::read_to_string(path.join("control.sock")).unwrap(), "precious");
}

#[test]
fn a_path_too_long_for_a_socket_is_told_with_the_remedy() {
    let (keep, _) = place();
    let path = keep.path().join("x".repeat(100));
    let dir = RuntimeDir::claim(&path).unwrap();
    let error = dir.bind_socket(&path.join("control.sock")).unwrap_err();
    assert!(matches!(error, RuntimeDirError::SocketPathTooLong { .. }), "{error}");
    assert!(error.to_string().contains("CCMUX_RUNTIME_DIR"), "{error}");
}

#[test]
fn a_socket_path_of_exactly_the_limit_works() {
    let (keep, _) = place();
    let fill = 107 - keep.path().to_str().unwrap().len() - "//control.sock".len();
    let path = keep.path().join("x".repeat(fill));
    let dir = RuntimeDir::claim(&path).unwrap();
    let socket = path.join("control.sock");
    assert_eq!(socket.to_str().unwrap().len(), 107);
    let _listener = dir.bind_socket(&socket).unwrap();
    UnixStream::connect(&socket).unwrap();
}

#[test]
fn a_vanished_directory_is_made_and_held_again() {
    let (_keep, path) = place();
    let dir = RuntimeDir::claim(&path).unwrap();
    let mut lost = dir.lost_sockets();
    let _listener = dir.bind_socket(&path.join("control.sock")).unwrap();
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(dir.restore().unwrap(), Restored::Remade);
    assert!(lost.has_changed().unwrap());
    lost.mark_unchanged();
    assert!(matches!(RuntimeDir::claim(&path), Err(RuntimeDirError::AlreadyRunning { .. })));
    let _listener = dir.bind_socket(&path.join("control.sock")).unwrap();
    assert_eq!(dir.restore().unwrap(), Restored::Intact);
    assert!(!lost.has_changed().unwrap());
}

#[test]
fn a_vanished_pid_file_or_socket_is_noticed() {
    let (_keep, path) = place();
    let dir = RuntimeDir::claim(&path).unwrap();
    let lost = dir.lost_sockets();
    let _listener = dir.bind_socket(&path.join("control.sock")).unwrap();
    fs::remove_file(path.join(PID_FILE)).unwrap();
    fs::remove_file(path.join("control.sock")).unwrap();
    assert_eq!(dir.restore().unwrap(), Restored::Intact);
    assert!(path.join(PID_FILE).exists());
    assert!(lost.has_changed().unwrap());
}

#[test]
fn a_hostile_replacement_is_refused_and_not_used() {
    let (keep, path) = place();
    let dir = RuntimeDir::claim(&path).unwrap();
    fs::rename(&path, keep.path().join("moved")).unwrap();
    symlink("/tmp", &path).unwrap();
    assert!(matches!(dir.restore(), Err(RuntimeDirError::Symlink { .. })));
    fs::remove_file(&path).unwrap();
    assert_eq!(dir.restore().unwrap(), Restored::Remade);
}

#[test]
fn a_released_directory_is_not_repaired() {
    let (_keep, path) = place();
    let dir = RuntimeDir::claim(&path).unwrap();
    dir.release();
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(dir.restore().unwrap(), Restored::Intact);
    assert!(!path.exists());
}

#[test]
fn the_state_directory_is_made_with_its_parents_and_held() {
    let (_keep, path) = place();
    let path = path.join("state/ccmux");
    let state = StateDir::claim(&path).unwrap();
    assert_eq!(state.path(), path);
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let error = StateDir::claim(&path).unwrap_err();
    assert!(matches!(error, RuntimeDirError::Locked { .. }), "{error}");
    drop(state);
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let error = StateDir::claim(&path).unwrap_err().to_string();
    assert!(error.contains("CCMUX_STATE_DIR") && error.contains("0755"), "{error}");
}
