//! Each check, spoiled once. (The clock, disk, cgroup, versions and `NO_PROXY` are judged beside their measuring.)

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use ccmux_wire::status::{
    AgentStatus, ChannelStatus, Direction, McpStatus, QueueStatus, StateWord, Status, TurnsStatus,
};

use tokio_util::sync::CancellationToken;

use super::finding::Health::{Failure, Ok as Fine, Warning};
use super::patient::{Daemon, Patient, World};
use super::{Finding, Health, host, network, paste, places, probe, programs, room, shell};
use crate::agent::plan::agent_environment;
use crate::daemon::{Binaries, LogLevel, Setting};
use crate::settings::Settings;
use crate::settings::load::Sources;

/// A house with private directories, no daemon, and a world of its own.
struct House {
    folder: tempfile::TempDir,
    patient: Patient,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["run", "state", "home", "proc"] {
            fs::create_dir(path(name)).unwrap();
            fs::set_permissions(path(name), PermissionsExt::from_mode(0o700)).unwrap();
        }
        let mut settings = Settings::defaults(None);
        settings.proxy.expect = String::new();
        settings.mcp.port = 0;
        settings.agent.command = "sh -c true".to_owned();
        settings.agent.cwd = path("home/work").display().to_string();
        let path_variable = std::env::var_os("PATH").unwrap();
        let environment: Vec<(OsString, OsString)> =
            vec![("PATH".into(), path_variable), ("HOME".into(), path("home").into())];
        let patient = Patient {
            runtime_dir: path("run"),
            state_dir: path("state"),
            environment: agent_environment(&settings, environment.clone()),
            setting: Setting {
                settings,
                home: path("home"),
                environment,
                binaries: Binaries { ccmuxd: path("ccmuxd"), hook: path("ccmux-hook") },
                sources: Sources::default(),
                log_level: LogLevel::default(),
            },
            daemon: Daemon::Down,
            world: World { proc: path("proc"), systemd: path("systemd"), linger: path("linger"), own_pid: 1 },
        };
        Self { folder, patient }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A daemon (pid 2) with an agent (pid 3), whose parent is tmux (pid 4).
    fn with_daemon(mut self) -> Self {
        let status = Status {
            state: StateWord::Ready,
            since: 0,
            reason: String::new(),
            session: None,
            agent: AgentStatus { pid: Some(3), version: None, restarts: 0, last_exit: None },
            queue: QueueStatus::default(),
            channels: Vec::new(),
            refused_files: Vec::new(),
            subscribers: 0,
            degraded: Vec::new(),
            last_seq: None,
            turns: TurnsStatus::default(),
            daemon_pid: 2,
            daemon_version: env!("CARGO_PKG_VERSION").to_owned(),
            mcp: McpStatus { port: None },
            tmux: None,
        };
        self.patient.daemon = Daemon::Runs(Box::new(status));
        self
    }

    fn status(&mut self) -> &mut Status {
        match &mut self.patient.daemon {
            Daemon::Runs(status) => status,
            other => panic!("{other:?}"),
        }
    }

    /// A file below `/proc/PID`.
    fn proc(&self, pid: i32, name: &str, text: &str) {
        let file = self.path(&format!("proc/{pid}/{name}"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}

/// The one finding, of that state, which names the remedy unless all is well.
fn is(found: Vec<Finding>, state: Health, words: &str) {
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].state == state && found[0].detail.contains(words), "{state:?} {words:?}: {found:?}");
    assert_eq!(found[0].remedy.is_some(), state != Fine, "{found:?}");
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn directories_that_others_may_enter_are_failures() {
    let house = House::new();
    is(places::runtime_dir(&house.patient), Fine, "private");
    is(places::state_dir(&house.patient), Fine, "private");
    mode(&house.path("run"), 0o755);
    is(places::runtime_dir(&house.patient), Failure, "run");
    fs::remove_dir(house.path("state")).unwrap();
    is(places::state_dir(&house.patient), Fine, "not there yet");
    symlink("/tmp", house.path("state")).unwrap();
    is(places::state_dir(&house.patient), Failure, "state");
}

#[test]
fn a_socket_that_is_none_or_open_to_others_is_a_failure() {
    let house = House::new();
    is(places::sockets(&house.patient), Fine, "no daemon");
    fs::write(house.path("run/control.sock"), "").unwrap();
    is(places::sockets(&house.patient), Failure, "no socket");
    let house = House::new().with_daemon();
    let sockets = ["run/control.sock", "run/output.sock"].map(|name| house.path(name));
    let _listeners = sockets.clone().map(|path| UnixListener::bind(path).unwrap());
    sockets.iter().for_each(|path| mode(path, 0o600));
    is(places::sockets(&house.patient), Fine, "");
    mode(&sockets[0], 0o666);
    is(places::sockets(&house.patient), Failure, "666");
    fs::remove_file(&sockets[1]).unwrap();
    is(places::sockets(&house.patient), Failure, "output.sock");
}

#[test]
fn a_token_that_others_may_read_is_a_failure_and_none_a_warning() {
    let mut house = House::new();
    is(places::token_file(&house.patient), Fine, "not there yet");
    fs::write(house.path("state/mcp.token"), "x").unwrap();
    mode(&house.path("state/mcp.token"), 0o600);
    is(places::token_file(&house.patient), Fine, "yours alone");
    mode(&house.path("state/mcp.token"), 0o640);
    is(places::token_file(&house.patient), Failure, "640");
    house.patient.setting.settings.mcp.auth = "none".to_owned();
    is(places::token_file(&house.patient), Warning, "every local program");
    is(places::token_file(&House::new().with_daemon().patient), Failure, "mcp.token");
}

#[test]
fn fifos_that_nobody_reads_are_a_warning() {
    let mut house = House::new();
    is(places::fifos(&house.patient), Fine, "");
    nix::unistd::mkfifo(&house.path("run/in.phone"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    is(places::fifos(&house.patient), Warning, "in.phone");
    house = house.with_daemon();
    is(places::fifos(&house.patient), Fine, "");
    let state = "refused: a symbolic link".to_owned();
    house.status().channels =
        vec![ChannelStatus { name: "phone".parse().unwrap(), direction: Direction::Out, state }];
    is(places::fifos(&house.patient), Warning, "out.phone: refused");
}

#[test]
fn an_inbox_that_is_none_is_a_failure_and_a_locked_one_a_warning() {
    let house = House::new();
    is(room::inbox(&house.patient), Fine, "not there yet");
    let path = house.path("state/inbox.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE messages (accepted_at INTEGER)").unwrap();
    is(room::inbox(&house.patient), Fine, "can be written");
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    is(room::inbox(&house.patient), Warning, "locked");
    drop(other);
    fs::write(&path, "no database at all, whatever its name says".repeat(100)).unwrap();
    is(room::inbox(&house.patient), Failure, "can't be written");
}

#[test]
fn a_proxy_that_is_not_the_expected_one_is_a_warning_and_a_dead_one_a_failure() {
    let mut house = House::new();
    is(network::proxy(&house.patient), Fine, "none is set");
    house.patient.setting.settings.proxy.expect = "http://127.0.0.1:8118".to_owned();
    is(network::proxy(&house.patient), Warning, "HTTP_PROXY is not set");
    house.patient.setting.settings.proxy.expect = String::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://ann:hunter2@127.0.0.1:{}", listener.local_addr().unwrap().port());
    house.patient.environment.insert("HTTPS_PROXY".to_owned(), proxy);
    is(network::proxy(&house.patient), Fine, "can be reached");
    drop(listener);
    let found = network::proxy(&house.patient);
    assert!(!found[0].detail.contains("hunter2"), "{found:?}");
    is(found, Failure, "can't be reached");
}

#[test]
fn a_mark_of_another_claude_in_the_agent_is_a_failure() {
    let mut house = House::new().with_daemon();
    is(host::environment(&house.patient), Fine, "nothing");
    house.patient.setting.environment.push(("CLAUDE_CODE_CHILD_SESSION".into(), "1".into()));
    is(host::environment(&house.patient), Fine, "the agent gets none");
    house.proc(3, "environ", "A=b\0CLAUDE_CODE_CHILD_SESSION=1\0");
    is(host::environment(&house.patient), Failure, "CLAUDE_CODE_CHILD_SESSION");
    house.patient.setting.environment.pop();
    house.proc(3, "environ", "CLAUDECODE=1\0");
    is(host::environment(&house.patient), Failure, "CLAUDECODE");
}

#[test]
fn a_user_without_lingering_is_a_warning() {
    let house = House::new();
    is(host::linger(&house.patient), Fine, "no systemd");
    fs::create_dir(house.path("systemd")).unwrap();
    is(host::linger(&house.patient), Warning, "logout");
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::effective()).unwrap().unwrap();
    fs::create_dir(house.path("linger")).unwrap();
    fs::write(house.path("linger").join(user.name), "").unwrap();
    is(host::linger(&house.patient), Fine, "after a logout");
}

#[test]
fn a_unit_that_needs_forbidden_namespaces_is_a_failure() {
    let house = House::new();
    is(host::sandbox(&house.patient), Fine, "no systemd");
    fs::create_dir(house.path("systemd")).unwrap();
    is(host::sandbox(&house.patient), Fine, "nothing forbids");
    // Whoever tries fails.
    symlink("/bin/false", house.path("ccmuxd")).unwrap();
    is(host::sandbox(&house.patient), Fine, "makes a unit that needs none");
    let units = house.path("home/.config/systemd/user");
    fs::create_dir_all(units.join("ccmuxd.service.d")).unwrap();
    fs::write(units.join("ccmuxd.service"), "").unwrap();
    let switch = house.path("proc/sys/user/max_user_namespaces");
    fs::create_dir_all(switch.parent().unwrap()).unwrap();
    fs::write(switch, "0\n").unwrap();
    is(host::sandbox(&house.patient), Failure, "(user.max_user_namespaces = 0): ccmuxd.service can't start");
    fs::write(units.join("ccmuxd.service.d/no-namespaces.conf"), "").unwrap();
    is(host::sandbox(&house.patient), Fine, "leaves out");
}

#[test]
fn a_tmux_server_in_the_daemons_unit_is_a_failure() {
    let house = House::new().with_daemon();
    is(host::cgroup(&house.patient), Fine, "not to be measured");
    house.proc(3, "stat", "3 (claude (x)) S 4 3 3");
    house.proc(2, "cgroup", "0::/app.slice/ccmuxd.service\n");
    house.proc(4, "cgroup", "0::/app.slice/ccmuxd.service\n");
    is(host::cgroup(&house.patient), Failure, "ccmuxd.service");
    house.proc(4, "cgroup", "0::/app.slice/ccmux-tmux.service\n");
    is(host::cgroup(&house.patient), Fine, "ccmux-tmux.service");
}

#[test]
fn a_tmp_of_its_own_is_a_failure_and_another_tmux_tmpdir_a_warning() {
    let mut house = House::new().with_daemon();
    is(host::tmp(&house.patient), Fine, "the same");
    for pid in [1, 2] {
        fs::create_dir_all(house.path(&format!("proc/{pid}"))).unwrap();
        symlink(house.path("root"), house.path(&format!("proc/{pid}/root"))).unwrap();
    }
    fs::create_dir_all(house.path("root/tmp")).unwrap();
    house.proc(2, "environ", "TMUX_TMPDIR=/run/user/7\0");
    is(host::tmp(&house.patient), Warning, "/run/user/7");
    house.patient.setting.environment.push(("TMUX_TMPDIR".into(), "/run/user/7".into()));
    is(host::tmp(&house.patient), Fine, "the same");
    fs::remove_file(house.path("proc/2/root")).unwrap();
    fs::create_dir_all(house.path("proc/2/root/tmp")).unwrap();
    is(host::tmp(&house.patient), Failure, "PrivateTmp");
}

#[test]
fn a_daemon_that_is_down_is_a_warning_and_one_without_an_answer_a_failure() {
    let mut house = House::new().with_daemon();
    is(programs::daemon(&house.patient), Fine, "pid 2, ready");
    house.status().degraded = vec!["disk".to_owned()];
    is(programs::daemon(&house.patient), Warning, "disk");
    house.patient.daemon = Daemon::Down;
    is(programs::daemon(&house.patient), Warning, "no daemon");
    house.patient.daemon = Daemon::Mute("nothing in time".to_owned());
    is(programs::daemon(&house.patient), Failure, "nothing in time");
}

#[test]
fn a_daemon_with_other_settings_than_the_shell_is_a_warning_that_tells_no_value() {
    let mut house = House::new();
    is(shell::settings(&house.patient), Fine, "this shell's come from the defaults alone");
    house = house.with_daemon();
    is(shell::settings(&house.patient), Fine, "can't be seen");
    let home = format!("HOME={}\0", house.path("home").display());
    house.proc(2, "cmdline", "/usr/bin/ccmuxd\0");
    house.proc(2, "environ", &home);
    is(shell::settings(&house.patient), Fine, "this shell has the daemon's");
    house.proc(
        2,
        "environ",
        &format!("{home}CCMUX_AGENT_COMMAND=sesame --street\0CCMUX_STATE_DIR=/sesame\0"),
    );
    let found = shell::settings(&house.patient);
    assert!(!found[0].detail.contains("sesame"), "{found:?}");
    is(found, Warning, "agent.command (there CCMUX_AGENT_COMMAND, here default)");
    house.patient.setting.sources.environment.insert("CCMUX_MCP_PORT".into(), "1".into());
    house.proc(2, "environ", &home);
    house.proc(2, "cmdline", "/usr/bin/ccmuxd\0--set\0log.level=debug\0");
    is(shell::settings(&house.patient), Warning, "mcp.port (there default, here CCMUX_MCP_PORT), log.level");
}

#[test]
fn a_daemon_whose_file_is_another_or_gone_is_a_warning() {
    let mut house = House::new().with_daemon();
    house.proc(2, "environ", "CCMUX_CONFIG=my.toml\0");
    house.proc(2, "cmdline", "ccmuxd\0");
    symlink(house.path("home"), house.path("proc/2/cwd")).unwrap();
    is(shell::settings(&house.patient), Warning, "can't be read now");
    for broken in ["token = \"sesame", "[channels.a]\nttl = \"sesame\"\n"] {
        fs::write(house.path("home/my.toml"), broken).unwrap();
        let found = shell::settings(&house.patient);
        assert!(!format!("{found:?}").contains("sesame"), "{found:?}");
        is(found, Warning, "can't be read now");
    }
    let text = "idle_threshold = 5\n[routes.desk]\ntype = \"desktop\"\n";
    fs::write(house.path("home/my.toml"), text).unwrap();
    let file = house.path("home/my.toml");
    let words = format!("idle_threshold (there {}, here default), routes", file.display());
    is(shell::settings(&house.patient), Warning, &words);
    house.patient.setting.sources.file = Some(file.clone());
    is(shell::settings(&house.patient), Fine, &format!("from {}", file.display()));
    fs::write(&file, "runtime_dir = \"/elsewhere\"\n").unwrap();
    let found = shell::settings(&house.patient);
    assert!(found[0].remedy.as_ref().unwrap().contains("CCMUX_RUNTIME_DIR=/elsewhere"), "{found:?}");
    is(found, Warning, "puts the daemon into /elsewhere, but clients look for it in /tmp/ccmux");
}

#[tokio::test]
async fn a_port_that_another_program_has_is_a_failure() {
    let mut house = House::new();
    is(network::port(&house.patient).await, Fine, "any free one");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    house.patient.setting.settings.mcp.port = listener.local_addr().unwrap().port();
    house.patient.world.proc = "/proc".into();
    let whose =
        if cfg!(target_os = "linux") { format!("(pid {})", std::process::id()) } else { String::new() };
    is(network::port(&house.patient).await, Failure, &whose);
    house = house.with_daemon();
    is(network::port(&house.patient).await, Failure, "is taken");
    house.status().mcp.port = Some(listener.local_addr().unwrap().port());
    // Whoever has it is no HTTP server: it accepts, and says nothing.
    is(network::port(&house.patient).await, Failure, "gives no answer");
    is(network::token(&house.patient).await, Failure, "does not take the token");
}

#[tokio::test]
async fn an_agent_that_is_missing_mute_or_broken_is_a_failure() {
    let mut house = House::new();
    house.patient.setting.settings.agent.command = "no-such-agent".to_owned();
    is(programs::agent(&house.patient).await, Failure, "no-such-agent");
    house.patient.setting.settings.agent.command = "false".to_owned();
    is(programs::agent(&house.patient).await, Failure, "failed");
    house.patient.setting.settings.agent.cwd = house.path("home").display().to_string();
    is(programs::agent(&house.patient).await, Failure, "agent.cwd");
    std::fs::write(house.path("home/file"), "").unwrap();
    house.patient.setting.settings.agent.cwd = house.path("home/file/work").display().to_string();
    is(programs::agent(&house.patient).await, Failure, "can't be made in");
    assert!(!house.path("home/work").exists(), "the doctor makes no directory of the user's");
}

#[tokio::test]
async fn programs_that_are_missing_are_a_failure() {
    is(programs::versions(&House::new().patient).await, Failure, "ccmux-hook");
    let mut house = House::new().with_daemon();
    house.patient.setting.settings.hook.path = house.path("gone/hook").display().to_string();
    is(programs::versions(&house.patient).await, Failure, "gone/hook");
}

#[tokio::test]
async fn a_paste_is_measured_on_a_server_that_is_gone_afterwards() {
    let house = House::new();
    let found = paste::tmux(&house.patient, &CancellationToken::new()).await;
    let states: Vec<_> = found.iter().map(|one| (one.check, one.state)).collect();
    assert_eq!(states, [("tmux", Fine), ("paste", Fine)], "{found:?}");
}

#[tokio::test]
async fn hooks_that_the_users_settings_disable_are_a_failure_and_no_agent_is_started() {
    let house = House::new();
    fs::create_dir_all(house.path("home/.claude")).unwrap();
    fs::write(house.path("home/.claude/settings.json"), r#"{"disableAllHooks": true}"#).unwrap();
    let found = probe::probe(&house.patient, &CancellationToken::new()).await;
    assert_eq!((found[0].state, found[1].state), (Failure, Fine), "{found:?}");
    assert!(found[0].detail.contains("disableAllHooks"), "{found:?}");
}

/// Every name is in the list, and in the order of the report.
#[tokio::test]
async fn the_list_names_every_check_and_no_other() {
    let mut found = Vec::new();
    super::examine(House::new().patient, false, &mut |one| found.push(one.check)).await;
    assert_eq!(found, super::CHECKS);
}

/// The first words in backquotes of a table's rows in docs/OPERATIONS.md.
fn documented(columns: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/OPERATIONS.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, table) = text.split_once(&format!("\n| {columns} |\n")).unwrap();
    let rows = table.split("\n\n").next().unwrap().lines();
    rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next().map(str::to_owned)).collect()
}

#[test]
fn the_operations_describe_every_check_and_no_other() {
    assert_eq!(documented("check | what is measured | a failure is"), super::CHECKS);
}
