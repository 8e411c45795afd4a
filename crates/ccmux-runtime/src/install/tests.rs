//! Files of the user in every state, on a real file system: in, in again, out.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::agent::hook_settings::HookSettings;
use crate::agent::version::{Release, Version};

const HOOK: &str = "/opt/ccmux/ccmux-hook";

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With these two files.
    fn with(settings: &str, state: &str) -> Self {
        let home = Self::new();
        fs::create_dir(home.path(".claude")).unwrap();
        fs::write(home.settings(), settings).unwrap();
        fs::write(home.state(), state).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn settings(&self) -> PathBuf {
        self.path(".claude/settings.json")
    }

    fn state(&self) -> PathBuf {
        self.path(".claude.json")
    }

    fn installation(&self) -> Installation {
        let version = Version::Known(Release::new(2, 1, 332));
        let settings =
            HookSettings { hook: Path::new(HOOK), version: &version, permission_s: 610 }.to_json().unwrap();
        let server = json!({"type": "stdio", "command": "/opt/ccmux/ccmux", "args": ["mcp"]});
        Installation {
            targets: vec![
                Target { path: self.settings(), part: Part::Members(Which::Settings) },
                Target { path: self.state(), part: Part::Members(Which::State) },
            ],
            ours: Ours { hook: HOOK.into() },
            wanted: Wanted { settings, server: Some(server) },
            backups: Backups::of(&self.path("ccmux-state")),
        }
    }

    fn install(&self) -> Vec<Change> {
        self.installation().carry_out(Direction::In).unwrap()
    }

    fn uninstall(&self) -> Vec<Change> {
        self.installation().carry_out(Direction::Out).unwrap()
    }

    fn refusal(&self) -> InstallError {
        self.installation().carry_out(Direction::In).unwrap_err()
    }

    fn contents(&self) -> [Option<Vec<u8>>; 2] {
        [fs::read(self.settings()).ok(), fs::read(self.state()).ok()]
    }

    fn value(&self, path: &Path) -> Value {
        Document::parse(&fs::read(path).unwrap()).unwrap().value(&[]).unwrap().unwrap()
    }

    fn count_hooks(&self) -> usize {
        fs::read_to_string(self.settings()).unwrap().matches(HOOK).count()
    }
}

/// Field fault 25.
#[test]
fn in_again_changes_no_byte_and_out_brings_every_byte_back() {
    let settings = [
        "{}",
        "",
        "{ }\n",
        "{\n\t\"theme\": \"dark\",   \n\t\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}]},\n\t\"zeta\": [1,2 ,3]\n}",
        "\u{feff}{\r\n    \"hooks\": {},\r\n    \"permissions\": { \"allow\": [ ] } // mine\r\n}\r\n",
        "// head\n{\"permissions\":{\"deny\":[\"x\"],\"allow\":[\"Bash(ls)\",],},\"big\":123456789012345678901234567890,\"e\":1e400,}\n\n\n",
        "{\"hooks\": {\n  \"Stop\": [\n\n  ]\n}}",
    ];
    let states = [
        "{\"a\":1,\"mcpServers\":{\"x\":{\"command\":\"y\"}},\"projects\":{}}\n",
        "{\n  \"mcpServers\": {}\n}",
    ];
    for (settings, state) in settings.iter().zip(states.iter().cycle()) {
        let home = Home::with(settings, state);
        let before = home.contents();
        assert!(home.install().iter().all(|change| !change.is_none()), "{settings}");
        assert_eq!(home.count_hooks(), 11, "{settings}");
        assert_eq!(home.value(&home.state())["mcpServers"]["ccmux"]["args"], json!(["mcp"]));
        let with = home.contents();
        assert!(home.install().iter().all(Change::is_none), "{settings}");
        assert_eq!(home.contents(), with);
        home.uninstall();
        assert_eq!(home.contents(), before, "{settings}");
        assert!(home.uninstall().iter().all(Change::is_none));
        assert_eq!(home.contents(), before);
    }
}

/// Field fault 25.
#[test]
fn links_and_modes_are_kept() {
    let home = Home::new();
    fs::create_dir_all(home.path("dotfiles/claude")).unwrap();
    symlink("dotfiles/claude", home.path(".claude")).unwrap();
    symlink("../settings", home.path("dotfiles/claude/settings.json")).unwrap();
    fs::write(home.path("dotfiles/settings"), "{\"a\": 1}").unwrap();
    fs::write(home.state(), "{}").unwrap();
    fs::set_permissions(home.path("dotfiles/settings"), Permissions::from_mode(0o640)).unwrap();
    home.install();
    let look = || {
        let mode = home.path("dotfiles/settings").symlink_metadata().unwrap().mode();
        (mode & 0o7777, fs::read_link(home.path("dotfiles/claude/settings.json")).unwrap())
    };
    assert_eq!(look(), (0o640, "../settings".into()));
    assert_eq!(home.count_hooks(), 11);
    home.uninstall();
    assert_eq!(look(), (0o640, "../settings".into()));
    assert_eq!(fs::read(home.path("dotfiles/settings")).unwrap(), b"{\"a\": 1}");
    assert_eq!(home.path("dotfiles").read_dir().unwrap().count(), 2, "nothing is left beside it");
}

#[test]
fn what_was_not_there_is_private_and_goes_again_with_its_directory() {
    let home = Home::new();
    home.install();
    for path in [home.settings(), home.state()] {
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    }
    home.uninstall();
    assert_eq!(home.contents(), [None, None]);
    assert!(!home.path(".claude").exists());
    home.install();
    fs::write(home.path(".claude/history"), "mine").unwrap();
    home.uninstall();
    assert_eq!((home.contents(), home.path(".claude/history").exists()), ([None, None], true));
}

/// Field fault 25.
#[test]
fn what_others_changed_since_stays_and_only_ours_goes() {
    let home = Home::with("{\n  \"a\": 1\n}\n", "{}");
    home.install();
    let text = fs::read_to_string(home.settings()).unwrap();
    let changed = text.replace("\"a\": 1,", "\"a\": 2, // changed\n  \"b\": [],");
    let changed =
        changed.replacen("\"Stop\": [", "\"Stop\": [\n      {\"hooks\": [{\"command\": \"mine\"}]},", 1);
    fs::write(home.settings(), changed).unwrap();
    // As Claude does it.
    let mut state = home.value(&home.state());
    state["numStartups"] = 7.into();
    fs::write(home.state(), format!("{state:#}")).unwrap();
    assert!(home.install().iter().all(Change::is_none), "it is all there still");
    home.uninstall();
    let left = home.value(&home.settings());
    let mine = json!([{"hooks": [{"command": "mine"}]}]);
    assert_eq!(left, json!({"a": 2, "b": [], "hooks": {"Stop": mine}}));
    assert!(fs::read_to_string(home.settings()).unwrap().contains("\"a\": 2, // changed\n"));
    assert_eq!(home.value(&home.state()), json!({"numStartups": 7}));
}

#[test]
fn a_file_that_was_made_by_us_and_used_by_others_stays() {
    let home = Home::new();
    home.install();
    let mut state = home.value(&home.state());
    state["theme"] = "dark".into();
    fs::write(home.state(), state.to_string()).unwrap();
    home.uninstall();
    assert_eq!(home.value(&home.state()), json!({"theme": "dark"}));
    assert!(!home.settings().exists());
}

#[test]
fn an_older_installation_is_brought_up_to_date_and_still_comes_out_whole() {
    let home = Home::with("{\n  \"hooks\": {}\n}", "{\"mcpServers\":{}}");
    let before = home.contents();
    let mut older = home.installation();
    older.wanted.settings["hooks"]["OldEvent"] = older.wanted.settings["hooks"]["Stop"].clone();
    older.wanted.settings["hooks"]["Stop"][0]["hooks"][0]["timeout"] = 60.into();
    older.wanted.settings["hooks"].as_object_mut().unwrap().remove("Elicitation");
    older.wanted.server = Some(json!({"type": "http", "url": "http://127.0.0.1:9876/mcp"}));
    older.carry_out(Direction::In).unwrap();
    home.install();
    assert_eq!(home.count_hooks(), 11);
    let settings = home.value(&home.settings());
    assert_eq!(
        settings["hooks"].get("OldEvent"),
        None,
        "Claude Code stops at an event that it does not know"
    );
    assert_eq!(settings["hooks"]["Stop"][0]["hooks"][0]["timeout"], 5);
    assert_eq!(home.value(&home.state())["mcpServers"]["ccmux"]["type"], "stdio");
    home.uninstall();
    assert_eq!(home.contents(), before);
}

#[test]
fn without_the_record_ours_goes_all_the_same() {
    let home = Home::with("{\"a\":1}", "{\"b\":2}");
    let before = home.contents();
    home.install();
    fs::remove_dir_all(home.path("ccmux-state")).unwrap();
    home.uninstall();
    assert_eq!(home.contents(), before);
}

/// Field fault 25.
#[test]
fn what_can_not_be_read_is_refused_with_what_to_paste_and_neither_file_is_touched() {
    for (settings, state, word) in [
        ("{\"a\": 1", "{}", "not valid JSON"),
        ("[]", "{}", "an object"),
        ("{\"hooks\": []}", "{}", "`hooks`"),
        ("{\"hooks\": {\"Stop\": {}}}", "{}", "`hooks.Stop`"),
        ("{\"permissions\": {\"allow\": \"x\"}}", "{}", "`permissions.allow`"),
        ("{\"permissions\": 7}", "{}", "`permissions`"),
        ("{\"hooks\": {}, \"hooks\": {}}", "{}", "twice"),
        ("{}", "{'a': 1}", "not valid JSON"),
        ("{}", "{\"mcpServers\": []}", "`mcpServers`"),
        ("{}", "{\"mcpServers\": {\"ccmux\": {\"command\": \"other\"}}}", "another program's"),
    ] {
        let home = Home::with(settings, state);
        let before = home.contents();
        let error = home.refusal();
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(error.exit_code(), 4);
        let InstallError::Content { snippet: Some(snippet), .. } = error else { panic!("{error:?}") };
        assert!(snippet.contains("/opt/ccmux/ccmux"), "{snippet}");
        assert_eq!(home.contents(), before);
        assert!(!home.path("ccmux-state").exists());
    }
}

#[test]
fn what_is_no_plain_file_of_the_user_is_refused() {
    type Spoil = fn(&Home);
    let cases: [(&str, Spoil); 8] = [
        ("is a FIFO", |home| nix::unistd::mkfifo(&home.settings(), nix::sys::stat::Mode::S_IRWXU).unwrap()),
        ("is a directory", |home| fs::create_dir(home.settings()).unwrap()),
        ("is a socket", |home| drop(std::os::unix::net::UnixListener::bind(home.settings()).unwrap())),
        ("is a device", |home| symlink("/dev/zero", home.settings()).unwrap()),
        ("remove the link", |home| symlink("/no/such", home.settings()).unwrap()),
        ("in a circle", |home| symlink("settings.json", home.settings()).unwrap()),
        ("read-only", |home| {
            fs::write(home.settings(), "{}").unwrap();
            fs::set_permissions(home.settings(), Permissions::from_mode(0o444)).unwrap();
        }),
        ("hard links", |home| {
            fs::write(home.settings(), "{}").unwrap();
            fs::hard_link(home.settings(), home.path("other")).unwrap();
        }),
    ];
    for (word, spoil) in cases {
        let home = Home::with("{}", "{\"a\":1}");
        fs::remove_file(home.settings()).unwrap();
        spoil(&home);
        let error = home.refusal().to_string();
        assert!(error.contains(word) && error.contains("settings.json"), "{word}: {error}");
        assert_eq!(fs::read(home.state()).unwrap(), b"{\"a\":1}");
    }
}

#[test]
fn another_users_file_is_refused() {
    if !nix::unistd::Uid::effective().is_root() {
        println!("skipped: only root can give a file away");
        return;
    }
    let home = Home::with("{}", "{}");
    std::os::unix::fs::chown(home.settings(), Some(12345), None).unwrap();
    assert!(home.refusal().to_string().contains("user 12345"));
}

#[test]
fn a_change_that_is_only_looked_at_changes_nothing() {
    let home = Home::with("{}", "{}");
    let changes = home.installation().look(Direction::In).unwrap();
    assert!(changes.iter().all(|change| !change.is_none()));
    assert_eq!(home.contents(), [Some(b"{}".to_vec()), Some(b"{}".to_vec())]);
    assert_eq!(home.0.path().read_dir().unwrap().count(), 2);
}

/// Two programs change the state, each under the lock that Claude Code takes: what either writes is there in the end.
/// Field fault 25.
#[test]
fn a_writer_that_takes_claudes_lock_loses_nothing_and_takes_nothing() {
    let home = Home::with("{}", "{\"count\": 0}");
    let done = AtomicBool::new(false);
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                let _lock = ClaudeLock::take(&home.state()).unwrap();
                let mut state = home.value(&home.state());
                assert_eq!(state["count"], count, "what was written before is still there");
                count += 1;
                state["count"] = count.into();
                let beside = home.path("writer");
                fs::write(&beside, format!("{state:#}")).unwrap();
                fs::rename(&beside, home.state()).unwrap();
            }
            count
        });
        for _ in 0..60 {
            home.install();
            assert_eq!(home.value(&home.state())["mcpServers"]["ccmux"]["type"], "stdio");
            home.uninstall();
            assert_eq!(home.value(&home.state()).get("mcpServers"), None);
        }
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert!(written > 60, "{written}");
    assert_eq!(home.value(&home.state()), json!({"count": written}));
}

/// A program that knows no lock and writes by rename: its newest content is never covered by an older one of ours.
/// Field fault 25.
#[test]
fn a_writer_without_a_lock_is_never_covered_by_what_we_read_before() {
    let home = Home::with("{\"count\": 0}", "{}");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut count: u64 = 0;
            while !done.load(Ordering::Relaxed) {
                count += 1;
                let beside = home.path("writer");
                fs::write(&beside, format!("{{\"count\": {count}}}")).unwrap();
                fs::rename(&beside, home.settings()).unwrap();
                // One of ours that was made of an older one is put back before anybody could rely on it.
                let deadline = Instant::now() + Duration::from_secs(10);
                while home.value(&home.settings())["count"] != count {
                    assert!(Instant::now() < deadline, "{count} is lost");
                }
            }
            count
        });
        for _ in 0..4 {
            for direction in [Direction::In, Direction::Out] {
                match home.installation().carry_out(direction) {
                    Ok(_) | Err(InstallError::Restless { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        done.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap();
        home.uninstall();
        assert_eq!(home.value(&home.settings()), json!({"count": written}));
    });
}
