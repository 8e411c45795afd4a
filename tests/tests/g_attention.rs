//! Somebody is waited for: notices by routes that end in a file, from the demo agent's hooks and from foreign ones.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use ccmux_tests::House;
use ccmux_tests::patience::stays_quiet;
use serde_json::{Value, json};

/// Notices go into a file; the thresholds are short. `more` is further TOML.
fn house_with(threshold: &str, more: &str) -> House {
    let settings = "[routes.file]\ntype = \"command\"\nargv = [\"/bin/sh\", \"-c\", \"cat >> ~/notices\"]\n\
                    [attention]\nroutes = [\"file\"]\n";
    let house = House::builder()
        .env("CCMUX_NOTIFICATION_THRESHOLD", threshold)
        .settings(&format!("{settings}{more}"));
    house.ready()
}

trait Notices {
    fn notices(&self) -> Vec<Value>;
    fn wait_for_notices(&self, count: usize) -> Vec<Value>;
    fn no_more_notices_than(&self, count: usize, seconds: u64);
}

impl Notices for House {
    fn notices(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.home().join("notices")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn wait_for_notices(&self, count: usize) -> Vec<Value> {
        self.wait_until(&format!("{count} notices"), || self.notices().len() >= count);
        self.notices()
    }

    fn no_more_notices_than(&self, count: usize, seconds: u64) {
        stays_quiet(Duration::from_secs(seconds), "a notice too many", || {
            Some(self.notices()).filter(|notices| notices.len() > count).map(|notices| format!("{notices:?}"))
        });
    }
}

fn kinds(notices: &[Value]) -> Vec<&str> {
    notices.iter().map(|notice| notice["kind"].as_str().unwrap()).collect()
}

/// A hook of a session that ccmux does not run.
fn foreign_hook(house: &House, event: &str, session: &str, more: Value) {
    let mut payload = json!({"session_id": session, "hook_event_name": event});
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut command = house.command(house.path("hook/ccmux-hook"));
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Acceptance G7.
#[test]
fn a_silence_is_told_once_to_the_letter() {
    let house = house_with("2", "");
    house.send("answered", "say: first answer to a prompt that is longer than fifty characters");
    let notices = house.wait_for_notices(1);
    let (title, body) = (notices[0]["title"].as_str().unwrap(), notices[0]["body"].as_str().unwrap());
    assert_eq!(title, "Claude Code - User Input Needed");
    let lines: Vec<&str> = body.lines().collect();
    assert_eq!(lines.len(), 4, "{body}");
    let task = lines[0].strip_prefix("Task: ").unwrap().strip_suffix("...").unwrap();
    assert!(task.contains("say: first answer to a") && task.chars().count() == 50, "{task}");
    assert!(lines[1].starts_with("Started: 20"), "{body}");
    assert!(lines[2].starts_with("Duration: ") && lines[2].ends_with(" seconds"), "{body}");
    assert_eq!(lines[3], "Waiting for your input for 2 seconds");
    assert_eq!(notices[0]["kind"], "reply");
    assert_eq!(notices[0]["session"], house.status().session.unwrap().as_str());
    house.no_more_notices_than(1, 4);
}

#[test]
fn a_key_press_in_the_pane_ends_the_silence() {
    let house = house_with("4", "");
    let human = house.human();
    house.send("answered", "say: hello");
    house.wait_until("the reply to wait", || house.ccmux_ok(&["attention"]).contains("reply"));
    // tmux tells whole seconds: a key in the same one as the turn's end can't be told from one before it.
    let ended = Instant::now();
    house.wait_until("the next second", || ended.elapsed() > Duration::from_millis(1100));
    human.types("x");
    house.no_more_notices_than(0, 6);
    assert_eq!(house.ccmux_ok(&["attention"]), "nothing waits for you\n");
}

#[test]
fn a_restart_neither_repeats_nor_forgets() {
    let house = house_with("3", "");
    house.send("answered", "say: hello");
    house.stop();
    house.start();
    let notices = house.wait_for_notices(1);
    assert!(notices[0]["body"].as_str().unwrap().contains("say: hello"), "{notices:?}");
    house.wait_until("the notice to be crossed out", || house.log_events("notice.sent").len() == 1);
    house.kill9();
    house.start();
    house.no_more_notices_than(1, 5);
}

#[test]
fn a_permission_is_told_while_its_dialog_is_open() {
    let house = house_with("60", "");
    house.write("in.t", "perm: echo hunter2\n");
    let notices = house.wait_for_notices(1);
    assert_eq!(kinds(&notices), ["permission"]);
    assert_eq!(notices[0]["body"], "Tool: Bash");
    assert!(house.ccmux_ok(&["attention"]).starts_with("permission"), "{}", house.ccmux_ok(&["attention"]));
    house.send_keys(&["Enter"]);
    house.wait_until("the dialog to be forgotten", || !house.ccmux_ok(&["attention"]).contains("permission"));
    house.no_more_notices_than(1, 2);
}

/// Field fault 39.
#[test]
fn a_permission_that_is_approved_at_once_is_silent() {
    let house = house_with("60", "[attention.permission]\nafter = 2\n");
    house.write("in.t", "perm: echo hello\n");
    house.wait_until("the permission to wait", || house.ccmux_ok(&["attention"]).contains("permission"));
    house.send_keys(&["Enter"]);
    house.no_more_notices_than(0, 4);
}

#[test]
fn questions_and_failures_are_told() {
    let house = house_with("60", "");
    house.write("in.t", "error: 529\n");
    assert_eq!(kinds(&house.wait_for_notices(1)), ["failure"]);
    house.write("in.t", "ask: Which one?\n");
    let notices = house.wait_for_notices(2);
    assert_eq!(kinds(&notices), ["failure", "question"]);
    assert!(notices[1]["body"].as_str().unwrap().contains("Which one?"), "{notices:?}");
}

#[test]
fn foreign_sessions_count_only_where_that_is_wanted_and_each_apart() {
    let house = house_with("2", "sessions = \"all\"\n");
    for session in ["s1", "s2", "s3"] {
        foreign_hook(&house, "UserPromptSubmit", session, json!({"prompt": format!("task of {session}")}));
        foreign_hook(&house, "Stop", session, json!({"prompt_id": "p1", "background_tasks": []}));
        foreign_hook(&house, "Stop", session, json!({"prompt_id": "p1", "background_tasks": []}));
    }
    foreign_hook(&house, "Stop", "s4", json!({"background_tasks": [{}]}));
    foreign_hook(&house, "UserPromptSubmit", "s2", json!({"prompt": "more"}));
    let notices = house.wait_for_notices(2);
    assert!(notices.iter().all(|notice| notice["session"] != "s2"), "{notices:?}");
    let mut tasks: Vec<&str> =
        notices.iter().map(|notice| notice["body"].as_str().unwrap().lines().next().unwrap()).collect();
    tasks.sort_unstable();
    assert_eq!(tasks, ["Task: task of s1", "Task: task of s3"]);
    house.no_more_notices_than(2, 3);
    let own_only = house_with("1", "");
    foreign_hook(&own_only, "Stop", "s1", json!({"background_tasks": []}));
    own_only.no_more_notices_than(0, 3);
}

/// Field fault 42.
#[test]
fn a_route_that_hangs_or_fails_delays_nobody() {
    let more = "sessions = \"all\"\n[attention.reply]\nroutes = [\"hangs\", \"file\"]\n\
                [routes.hangs]\ntype = \"command\"\nargv = [\"sleep\", \"600\"]\n";
    let house = house_with("0", more);
    foreign_hook(&house, "Stop", "s1", json!({"background_tasks": []}));
    foreign_hook(&house, "StopFailure", "s2", json!({"error": "rate_limit"}));
    let notices = house.wait_for_notices(1);
    assert_eq!((kinds(&notices), notices[0]["session"].as_str()), (vec!["failure"], Some("s2")));
    house.send("delivered", "say: nothing waits for a route");
    assert!(house.notices().iter().all(|notice| notice["session"] != "s1"), "{:?}", house.notices());
    house.wait_until("the next route to be used", || {
        house.notices().iter().any(|notice| notice["session"] == "s1")
    });
}

#[test]
fn what_is_muted_is_told_afterwards_and_a_second_step_goes_elsewhere() {
    let more = "sessions = \"all\"\n[attention.reply]\nroutes = [\"file\"]\nsteps = [{ after = 3, routes = [\"second\"] }]\n\
                [routes.second]\ntype = \"command\"\nargv = [\"/bin/sh\", \"-c\", \"cat >> ~/second\"]\n";
    let house = house_with("1", more);
    assert!(house.ccmux_ok(&["mute", "s1", "--for", "4s"]).starts_with("muted: s1 for "));
    foreign_hook(&house, "Stop", "s1", json!({"background_tasks": []}));
    foreign_hook(&house, "Stop", "s2", json!({"background_tasks": []}));
    assert_eq!(house.wait_for_notices(1)[0]["session"], "s2");
    assert!(house.ccmux_ok(&["attention"]).contains("(muted)"));
    assert_eq!(house.wait_for_notices(2)[1]["session"], "s1");
    house.wait_until("the second steps", || {
        fs::read_to_string(house.home().join("second")).is_ok_and(|text| text.lines().count() == 2)
    });
    house.no_more_notices_than(2, 2);
}

#[test]
fn a_route_is_tested_and_a_watcher_sees_every_change() {
    let house = house_with("60", "sessions = \"all\"\n");
    assert_eq!(house.ccmux_ok(&["notify", "--test", "file"]), "sent by file\n");
    assert_eq!(house.wait_for_notices(1)[0]["title"], "ccmux - Test");
    let refused = house.ccmux(&["notify", "--test", "nobody"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(4) && why.contains("[routes.nobody]"), "{why}");
    let mut watcher = house.command(house.bin("ccmux"));
    let mut watcher =
        watcher.args(["attention", "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(watcher.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["items"].as_array().unwrap().len()
    };
    assert_eq!(next(), 0);
    foreign_hook(&house, "Stop", "s1", json!({"background_tasks": []}));
    assert_eq!(next(), 1);
    foreign_hook(&house, "SessionEnd", "s1", json!({}));
    assert_eq!(next(), 0);
    watcher.kill().unwrap();
    let mut rest = String::new();
    let _ = out.read_to_string(&mut rest);
    watcher.wait().unwrap();
}
