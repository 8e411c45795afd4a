//! `ccmuxd install` and `uninstall` as programs: what they print and write, their exit codes, and what a kill in the middle
//! leaves. What becomes of the files in every state is tested beside the code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

const SETTINGS: &str = "{\n\t\"theme\": \"dark\",   \n\t\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}]},\n\t\"zeta\": [1,2 ,3]\n}";
const STATE: &str = "{\"a\":1,\"mcpServers\":{\"x\":{\"command\":\"y\"}},\"projects\":{}}\n";
/// A Claude Code that says its version.
const CLAUDE: &str = "#!/bin/sh\necho '2.1.332 (Claude Code)'\n";
/// In the place of systemd: notes what it is told, and whether the unit was there then; fails at what the file `fails` says.
const SYSTEMCTL: &str = "#!/bin/sh
cd \"${0%/*}/..\"
[ -e home/.config/systemd/user/ccmuxd.service ] && there=' with its unit'
echo \"$*$there\" >> said
case $* in $(cat fails 2>/dev/null)) echo 'no bus' >&2; exit 1 ;; esac
";

struct Place {
    dir: TempDir,
    /// Where the binaries were built, since the daemon is linked there.
    bin: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
            bin: TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            variables: Vec::new(),
        };
        for folder in ["home/.claude", "path"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        fs::write(place.settings(), SETTINGS).unwrap();
        fs::write(place.state(), STATE).unwrap();
        place.program("path/claude", CLAUDE);
        place.program("path/systemctl", SYSTEMCTL);
        fs::hard_link(env!("CARGO_BIN_EXE_ccmuxd"), place.ccmuxd()).unwrap();
        fs::write(place.bin.path().join("ccmux-hook"), "#!/bin/sh\n").unwrap();
        place
    }

    fn program(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), Permissions::from_mode(0o755)).unwrap();
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.variables.push((name, value.to_string()));
        self
    }

    fn ccmuxd(&self) -> PathBuf {
        self.bin.path().join("ccmuxd")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn settings(&self) -> PathBuf {
        self.path("home/.claude/settings.json")
    }

    #[cfg(target_os = "linux")]
    fn unit(&self) -> PathBuf {
        self.path("home/.config/systemd/user/ccmuxd.service")
    }

    fn state(&self) -> PathBuf {
        self.path("home/.claude.json")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.prepared(Command::new(self.ccmuxd()), arguments)
    }

    /// `ccmuxd` as the last argument of another program.
    #[cfg(target_os = "linux")]
    fn wrapped(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.prepared(Command::new(program), arguments);
        command.arg(self.ccmuxd());
        command
    }

    fn prepared(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.args(arguments).env_clear().stdin(Stdio::null());
        command.env("HOME", self.path("home"));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.path("path").display()));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    }

    fn contents(&self) -> [Option<Vec<u8>>; 2] {
        [fs::read(self.settings()).ok(), fs::read(self.state()).ok()]
    }

    fn before() -> [Option<Vec<u8>>; 2] {
        [Some(SETTINGS.into()), Some(STATE.into())]
    }

    fn value(&self, path: &Path) -> serde_json::Value {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }
}

#[test]
fn a_look_shows_a_diff_and_changes_nothing() {
    let place = Place::new();
    let diff = place.ok(&["install", "--user", "--dry-run"]);
    let settings = place.settings().display().to_string();
    for line in [format!("--- {settings}"), format!("+++ {settings}"), "@@ -1,5 +1,11 @@".to_owned()] {
        assert!(diff.contains(&line), "{line} in {diff}");
    }
    assert!(
        diff.contains("\n+\t\"hooks\": {\"Stop\": [{") && diff.contains("\n \t\"theme\": \"dark\",   \n"),
        "{diff}"
    );
    assert_eq!(place.contents(), Place::before());
    assert_eq!(place.path("home").read_dir().unwrap().count(), 2, "no backup, no hook, no directory");
    place.ok(&["install", "--user"]);
    let back = place.ok(&["uninstall", "--user", "--dry-run"]);
    assert!(
        back.contains(
            "\n+\t\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}]},\n"
        ),
        "{back}"
    );
    assert!(place.value(&place.settings())["permissions"].is_object(), "it was only looked at");
    place.ok(&["uninstall", "--user"]);
    assert_eq!(place.ok(&["uninstall", "--user", "--dry-run"]), "");
}

#[test]
fn the_hook_and_the_tools_are_named_in_full_and_no_secret_is_written() {
    let place = Place::new();
    let said = place.ok(&["install", "--user"]);
    assert_eq!(said.matches("changed    ").count(), 2, "{said}");
    let settings = place.value(&place.settings());
    let hook = place.path("home/.local/share/ccmux/ccmux-hook");
    assert!(hook.is_file(), "the daemon never ran, so it is put there now");
    let group = &settings["hooks"]["StopFailure"][0]["hooks"][0];
    assert_eq!(group["command"], hook.display().to_string());
    assert_eq!(settings["hooks"]["Stop"][0]["hooks"][0]["command"], "mine");
    let server = place.value(&place.state())["mcpServers"]["ccmux"].clone();
    assert!(server["alwaysLoad"] == true && !server.to_string().contains("Bearer 0"), "{server}");
    let again = place.ok(&["install", "--user"]);
    assert_eq!(again.matches("unchanged  ").count(), 2, "{again}");
    place.ok(&["uninstall", "--user"]);
    assert_eq!(place.contents(), Place::before());
}

#[test]
fn each_kind_of_entry_is_written_as_the_settings_say() {
    let place = Place::new();
    let entry = |settings: &[&str]| {
        let flags = settings.iter().flat_map(|setting| ["--set", setting]);
        place.ok(&["install", "--user"].into_iter().chain(flags).collect::<Vec<_>>());
        place.value(&place.state())["mcpServers"]["ccmux"].clone()
    };
    let http = entry(&["mcp.entry=http", "mcp.port=1234"]);
    assert_eq!(http["url"], "http://127.0.0.1:1234/mcp");
    assert_eq!(http["headers"]["Authorization"], "Bearer ${CCMUX_MCP_TOKEN:-}");
    let sse = entry(&["mcp.entry=sse", "mcp.auth=none"]);
    assert_eq!((sse["url"].as_str(), sse.get("headers")), (Some("http://127.0.0.1:9876/sse"), None));
    place.ok(&["uninstall", "--user"]);
    assert_eq!(place.contents(), Place::before());
}

#[test]
fn without_the_agent_there_are_the_events_that_every_version_knows_and_a_warning() {
    let place = Place::new();
    fs::remove_file(place.path("path/claude")).unwrap();
    let said = place.ok(&["install", "--user"]);
    assert!(said.contains("note") && said.contains("claude --version"), "{said}");
    let hooks = place.value(&place.settings())["hooks"].clone();
    let events: Vec<&String> = hooks.as_object().unwrap().keys().collect();
    assert_eq!(events, ["PermissionRequest", "SessionEnd", "SessionStart", "Stop", "UserPromptSubmit"]);
    place.program("path/claude", CLAUDE);
    place.ok(&["install", "--user"]);
    assert_eq!(place.value(&place.settings())["hooks"].as_object().unwrap().len(), 11);
    place.ok(&["uninstall", "--user"]);
    assert_eq!(place.contents(), Place::before());
}

#[test]
fn a_config_directory_of_claudes_own_is_used() {
    let place = Place::new();
    let own = place.path("own");
    let place = place.with("CLAUDE_CONFIG_DIR", own.display());
    place.ok(&["install", "--user"]);
    assert!(own.join("settings.json").is_file() && own.join(".claude.json").is_file());
    assert_eq!(place.contents(), Place::before());
    place.ok(&["uninstall", "--user"]);
    assert!(!own.exists());
}

#[test]
fn each_refusal_has_its_exit_code_and_says_what_to_paste() {
    let place = Place::new();
    fs::write(place.state(), "{\"a\": ").unwrap();
    let output = place.run(&["install", "--user"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains(".claude.json") && said.contains("\"mcpServers\": {"), "{said}");
    assert_eq!(fs::read_to_string(place.settings()).unwrap(), SETTINGS);
    for (arguments, code) in [
        (&["install"][..], 2),
        (&["install", "--user", "--now"], 2),
        (&["install", "--user", "-i", "work"], 2),
        (&["uninstall", "--user", "--set", "nonsense=1"], 78),
    ] {
        assert_eq!(place.run(arguments).status.code(), Some(code), "{arguments:?}");
    }
    fs::write(place.state(), STATE).unwrap();
    fs::remove_file(place.bin.path().join("ccmux-hook")).unwrap();
    assert_eq!(place.run(&["install", "--user"]).status.code(), Some(69));
    assert_eq!(place.contents(), Place::before());
}

/// Field fault 25.
#[test]
fn killed_at_any_moment_it_leaves_the_old_file_or_the_new_one() {
    let place = Place::new();
    let begin = Instant::now();
    place.ok(&["install", "--user"]);
    let whole = begin.elapsed().max(Duration::from_millis(20));
    let with = place.contents();
    place.ok(&["uninstall", "--user"]);
    assert_eq!(place.contents(), Place::before());
    let (kills, mut seen) = (60, [false; 2]);
    for n in 0..kills {
        for verb in ["install", "uninstall"] {
            let mut child =
                place.command(&[verb, "--user"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            // Not a wait: where in its life it is killed is what is tried.
            sleep(whole * n / kills);
            let _ = child.kill();
            child.wait().unwrap();
            for (index, content) in place.contents().into_iter().enumerate() {
                let is_old = content == Place::before()[index];
                assert!(is_old || content == with[index], "{verb} {n}: {:?}", content.map(String::from_utf8));
                seen[usize::from(is_old)] = true;
            }
        }
    }
    assert_eq!(seen, [true; 2], "the kills came too early or too late to show anything");
    place.ok(&["install", "--user"]);
    assert_eq!(place.contents(), with);
    place.ok(&["uninstall", "--user"]);
    assert_eq!(place.contents(), Place::before());
    let left = |folder: &Path| {
        folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    assert_eq!(left(&place.path("home/.claude")), ["settings.json"]);
    assert_eq!(place.path("home/.local/state/ccmux/user-files").read_dir().unwrap().count(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn the_service_is_written_told_of_and_taken_away_again() {
    let place = Place::new();
    let unit = place.path("home/.config/systemd/user/ccmuxd@.service");
    let diff = place.ok(&["install", "--service", "-i", "work", "--dry-run"]);
    assert!(diff.contains("--- /dev/null") && !place.path("home/.config").exists(), "{diff}");
    let said = place.ok(&["install", "--service", "-i", "work"]);
    assert!(said.contains("systemctl --user enable --now ccmuxd@work.service"), "{said}");
    assert!(said.contains("loginctl enable-linger"), "{said}");
    let text = fs::read_to_string(&unit).unwrap();
    let line = format!("ExecStart={} -i %i", place.ccmuxd().display());
    assert!(text.lines().any(|known| known == line), "{text}");
    let path = format!("Environment=PATH={}:/usr/bin:/bin", place.path("path").display());
    assert!(text.lines().any(|known| known == path), "{text}");
    assert!(place.ok(&["install", "--service", "-i", "work"]).starts_with("unchanged"));
    fs::write(&unit, text.replace("RestartSec=2", "RestartSec=9")).unwrap();
    for verb in ["install", "uninstall"] {
        assert_eq!(
            place.run(&[verb, "--service", "-i", "work"]).status.code(),
            Some(4),
            "it was changed by hand"
        );
    }
    fs::write(&unit, text).unwrap();
    assert!(place.ok(&["uninstall", "--service", "-i", "work"]).contains("removed"));
    assert!(!place.path("home/.config").exists(), "nothing else was in there");
    place.ok(&["uninstall", "--service", "-i", "work"]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_template_stays_while_another_instance_needs_it() {
    let place = Place::new();
    let folder = place.path("home/.config/systemd/user");
    place.ok(&["install", "--service"]);
    place.ok(&["install", "--service", "-i", "work"]);
    let wants = folder.join("default.target.wants");
    fs::create_dir(&wants).unwrap();
    for name in ["ccmuxd@work.service", "ccmuxd@play.service"] {
        std::os::unix::fs::symlink(folder.join("ccmuxd@.service"), wants.join(name)).unwrap();
    }
    let said = place.ok(&["uninstall", "--service", "-i", "work"]);
    assert!(said.contains("stays: ccmuxd@play.service needs it"), "{said}");
    assert!(said.contains("ran        systemctl --user disable --now ccmuxd@work.service"), "{said}");
    assert!(!said.contains("daemon-reload"), "{said}");
    assert!(folder.join("ccmuxd@.service").exists());
    fs::remove_file(wants.join("ccmuxd@play.service")).unwrap();
    place.ok(&["uninstall", "--service", "-i", "work"]);
    assert!(!folder.join("ccmuxd@.service").exists(), "it itself is none of the others");
    fs::remove_dir_all(&wants).unwrap();
    place.ok(&["uninstall", "--service"]);
    assert!(!place.path("home/.config").exists(), "the plain daemon needs no template");
}

/// In a user namespace that allows no further one; plainly where this machine forbids them itself.
#[cfg(target_os = "linux")]
#[test]
fn where_user_namespaces_are_forbidden_the_unit_comes_without_them() {
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces";
    let can_forbid =
        Command::new("unshare").args(["-Ur", "sh", "-c", forbid]).output().is_ok_and(|o| o.status.success());
    let place = Place::new();
    for (arguments, unit) in [(&[][..], "ccmuxd"), (&["-i", "work"], "ccmuxd@")] {
        let command = |verb: &str| {
            let mut command = place.command(&[verb, "--service"]);
            if can_forbid && verb == "install" {
                command =
                    place.wrapped("unshare", &["-Ur", "sh", "-c", &format!("{forbid}; exec \"$0\" \"$@\"")]);
                command.args([verb, "--service"]);
            }
            command.args(arguments).output().unwrap()
        };
        let output = command("install");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let drop_in = place.path(&format!("home/.config/systemd/user/{unit}.service.d/no-namespaces.conf"));
        assert!(said.contains("note       this system allows no user namespaces"), "{said}");
        assert!(!can_forbid || said.contains("(user.max_user_namespaces = 0)"), "{said}");
        assert!(said.contains(&format!("made       {}", drop_in.display())), "{said}");
        assert!(fs::read_to_string(&drop_in).unwrap().contains("\nPrivateUsers=no\n"));
        assert!(command("uninstall").status.success());
        assert!(!place.path("home/.config").exists(), "the folder goes, too");
        if can_forbid {
            let said = place.ok(&["install", "--service"]);
            assert!(!said.contains("no-namespaces") && !drop_in.exists(), "{said}");
            place.ok(&["uninstall", "--service"]);
        }
    }
}

#[cfg(target_os = "linux")]
const DISABLE: &str = "systemctl --user disable --now ccmuxd.service";
#[cfg(target_os = "linux")]
const RELOAD: &str = "systemctl --user daemon-reload";

#[cfg(target_os = "linux")]
#[test]
fn a_service_is_started_only_when_asked_and_stopped_before_its_unit_goes() {
    let place = Place::new();
    place.ok(&["install", "--service"]);
    assert!(!place.path("said").exists());
    let said = place.ok(&["install", "--service", "--now"]);
    assert!(said.contains(&format!("ran        {RELOAD}")), "{said}");
    let said = place.ok(&["uninstall", "--service", "--dry-run"]);
    assert!(said.contains(&format!("would run  {DISABLE}")) && place.unit().exists(), "{said}");
    let said = place.ok(&["uninstall", "--service"]);
    let steps: Vec<&str> = said.lines().filter(|line| !line.contains("no-namespaces")).collect();
    let [stopped, reloaded] = [DISABLE, RELOAD].map(|line| format!("ran        {line}"));
    assert_eq!(steps, [stopped, format!("removed    {}", place.unit().display()), reloaded]);
    let told = fs::read_to_string(place.path("said")).unwrap();
    assert_eq!(
        told.lines().collect::<Vec<_>>(),
        [
            "--user daemon-reload with its unit",
            "--user enable --now ccmuxd.service with its unit",
            "--user disable --now ccmuxd.service with its unit",
            "--user daemon-reload",
        ]
    );
    fs::remove_file(place.path("said")).unwrap();
    assert!(place.ok(&["uninstall", "--service"]).starts_with("unchanged"));
    assert!(!place.path("said").exists(), "there is nothing to stop");
}

#[cfg(target_os = "linux")]
#[test]
fn a_step_that_fails_ends_it_and_what_is_half_done_is_told() {
    let place = Place::new();
    place.ok(&["install", "--service"]);
    let failing = |verb: &str, arguments: &[&str]| {
        fs::write(place.path("fails"), format!("*{verb}*")).unwrap();
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = failing("enable", &["install", "--service", "--now"]);
    assert!(said.contains("is there, but `systemctl --user enable --now ccmuxd.service` failed"), "{said}");
    let enabled = place.unit().with_file_name("default.target.wants");
    fs::create_dir_all(&enabled).unwrap();
    std::os::unix::fs::symlink(place.unit(), enabled.join("ccmuxd.service")).unwrap();
    let said = failing("disable", &["uninstall", "--service"]);
    let stays = format!("`{DISABLE}` failed (exit status: 1), so {} stays", place.unit().display());
    assert!(said.contains(&stays) && place.unit().exists(), "{said}");
    let said = failing("daemon-reload", &["uninstall", "--service"]);
    let half = format!("{} is removed, but `{RELOAD}` failed", place.unit().display());
    assert!(said.contains(&half) && !place.unit().exists(), "{said}");
}

/// As in a container, or where nobody is logged in: systemctl is there, and can't ask anybody.
#[cfg(target_os = "linux")]
#[test]
fn a_unit_that_was_never_enabled_goes_where_systemd_can_not_be_asked() {
    let place = Place::new();
    fs::write(place.path("fails"), "*").unwrap();
    place.ok(&["install", "--service"]);
    let said = place.ok(&["uninstall", "--service"]);
    assert!(
        said.contains(&format!("`{DISABLE}` failed (exit status: 1); ccmuxd.service was not enabled")),
        "{said}"
    );
    assert!(!place.unit().exists());
}

/// A file that is refused is refused before the service is stopped.
#[cfg(target_os = "linux")]
#[test]
fn a_service_whose_unit_was_changed_by_hand_is_not_stopped() {
    let place = Place::new();
    place.ok(&["install", "--service"]);
    let text = fs::read_to_string(place.unit()).unwrap().replace("RestartSec=2", "RestartSec=9");
    fs::write(place.unit(), text).unwrap();
    assert_eq!(place.run(&["uninstall", "--service"]).status.code(), Some(4));
    assert!(!place.path("said").exists() && place.unit().exists());
}

#[cfg(target_os = "linux")]
#[test]
fn where_there_is_no_systemd_the_unit_goes_all_the_same() {
    let place = Place::new().with("PATH", "/nowhere");
    place.ok(&["install", "--service"]);
    let said = place.ok(&["uninstall", "--service"]);
    assert!(said.contains("there is no systemctl: nothing to stop") && !place.unit().exists(), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_only_the_shell_says_is_named_without_its_values() {
    let place = Place::new();
    assert!(!place.ok(&["install", "--service"]).contains("this shell"));
    let place = place
        .with("CCMUX_MCP_PORT", 43211)
        .with("CLAUDE_NOTIFICATION_THRESHOLD", 7654.321)
        .with("CCMUX_IDLE_THRESHOLD", "")
        .with("CCMUX_SESSION_TOKEN", "sesame");
    for more in [&[][..], &["--dry-run"]] {
        let said = place.ok(&[&["install", "--service", "--set", "agent.cwd=/street"], more].concat());
        let names = "by CCMUX_MCP_PORT, CLAUDE_NOTIFICATION_THRESHOLD, --set agent.cwd: put it into ";
        assert!(said.contains(names) && said.contains("home/.config/ccmux/ccmux.toml"), "{said}");
        assert!(said.contains("systemctl --user edit ccmuxd.service"), "{said}");
        for value in ["43211", "7654", "street", "sesame", "IDLE"] {
            assert!(!said.contains(value), "{value}: {said}");
        }
    }
    // An instance has places of its own, whatever the variables say.
    let place = Place::new().with("CCMUX_STATE_DIR", "/elsewhere");
    let said = place.ok(&["install", "--service", "-i", "work"]);
    assert!(said.contains("is ignored for an instance") && !said.contains("this shell"), "{said}");
}
