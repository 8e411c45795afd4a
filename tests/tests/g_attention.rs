//! Somebody is waited for: notices by routes that end in a file, from the demo agent's hooks and from foreign ones.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use ccmux_tests::House;
use ccmux_tests::notices::into_a_file;
use serde_json::{Value, json};

/// Notices go into a file; the thresholds are short. `more` is further TOML.
fn house_with(threshold: &str, more: &str) -> House {
    let settings = "[attention]\nroutes = [\"file\"]\n";
    let house = House::builder()
        .env("CCMUX_NOTIFICATION_THRESHOLD", threshold)
        .settings(&into_a_file(&format!("{settings}{more}")));
    house.ready()
}

fn kinds(notices: &[Value]) -> Vec<&str> {
    notices.iter().map(|notice| notice["kind"].as_str().unwrap()).collect()
}

/// A hook of a session that ccmux does not run.
fn foreign_hook(house: &House, event: &str, session: &str, more: Value) {
    foreign_hook_at(house, event, session, more, &[]);
}

/// The same, with what its environment says more.
fn foreign_hook_at(house: &House, event: &str, session: &str, more: Value, at: &[(&str, &str)]) {
    let mut payload = json!({"session_id": session, "hook_event_name": event});
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut command = house.command(house.path("hook/ccmux-hook"));
    let mut child = command.envs(at.iter().copied()).stdin(Stdio::piped()).spawn().unwrap();
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
    house.no_more_notices_than(1, Duration::from_secs(4));
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
    house.no_more_notices_than(0, Duration::from_secs(6));
    assert_eq!(house.ccmux_ok(&["attention"]), "nothing waits for you\n");
}

#[test]
fn a_key_press_after_the_last_notice_is_seen_by_whoever_asks_what_waits() {
    let house = house_with("1", "sessions = \"all\"\n");
    let human = house.human();
    let ends_with_a_key = |notices| {
        house.wait_for_notices(notices);
        assert!(house.ccmux_ok(&["attention"]).contains("(told)"), "{}", house.ccmux_ok(&["attention"]));
        let told = Instant::now();
        house.wait_until("the next second", || told.elapsed() > Duration::from_millis(1100));
        human.types("x");
        house.wait_until("the key to count", || house.ccmux_ok(&["attention"]) == "nothing waits for you\n");
    };
    house.send("answered", "say: hello");
    ends_with_a_key(1);
    let (tmux, pane) = a_foreign_pane(&house);
    foreign_hook_at(&house, "Stop", "s1", json!({}), &[("TMUX", &tmux), ("TMUX_PANE", &pane)]);
    ends_with_a_key(2);
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
    house.no_more_notices_than(1, Duration::from_secs(5));
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
    house.no_more_notices_than(1, Duration::from_secs(2));
}

/// Field fault 39.
#[test]
fn a_permission_that_is_approved_at_once_is_silent() {
    let house = house_with("60", "[attention.permission]\nafter = 2\n");
    house.write("in.t", "perm: echo hello\n");
    house.wait_until("the permission to wait", || house.ccmux_ok(&["attention"]).contains("permission"));
    house.send_keys(&["Enter"]);
    house.no_more_notices_than(0, Duration::from_secs(4));
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
    house.no_more_notices_than(2, Duration::from_secs(3));
    let own_only = house_with("1", "");
    foreign_hook(&own_only, "Stop", "s1", json!({"background_tasks": []}));
    own_only.no_more_notices_than(0, Duration::from_secs(3));
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
    foreign_hook(&house, "UserPromptSubmit", "s1", json!({"prompt": "a task"}));
    assert!(house.ccmux_ok(&["mute", "s1", "--for", "4s"]).starts_with("muted: s1 for "));
    foreign_hook(&house, "Stop", "s1", json!({"background_tasks": []}));
    foreign_hook(&house, "Stop", "s2", json!({"background_tasks": []}));
    assert_eq!(house.wait_for_notices(1)[0]["session"], "s2");
    assert!(house.ccmux_ok(&["attention"]).contains("(muted)"));
    assert_eq!(house.wait_for_notices(2)[1]["session"], "s1");
    house.wait_until("the second steps", || {
        fs::read_to_string(house.home().join("second")).is_ok_and(|text| text.lines().count() == 2)
    });
    house.no_more_notices_than(2, Duration::from_secs(2));
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

/// A window of the house's tmux that others' sessions would run in, and what their hooks' environment says of it.
fn a_foreign_pane(house: &House) -> (String, String) {
    let pane = house.tmux(&["new-window", "-P", "-F", "#{pane_id}", "cat"]).trim().to_owned();
    let tmux = house.tmux(&["display-message", "-p", "#{socket_path},#{pid},0"]).trim().to_owned();
    (tmux, pane)
}

#[test]
fn a_key_press_in_a_foreign_sessions_pane_ends_its_silence_and_no_other() {
    let house = house_with("5", "sessions = \"all\"\n");
    let (tmux, pane) = a_foreign_pane(&house);
    let human = house.human();
    foreign_hook_at(&house, "Stop", "s1", json!({}), &[("TMUX", &tmux), ("TMUX_PANE", &pane)]);
    foreign_hook_at(&house, "Stop", "s2", json!({}), &[("TMUX", &tmux), ("TMUX_PANE", "%0")]);
    house.wait_until("both to wait", || house.ccmux_ok(&["attention"]).lines().count() == 2);
    let ended = Instant::now();
    house.wait_until("the next second", || ended.elapsed() > Duration::from_millis(1100));
    human.types("x");
    let notices = house.wait_for_notices(1);
    assert_eq!(notices[0]["session"], "s2", "its pane is not looked at");
    house.no_more_notices_than(1, Duration::from_secs(3));
    assert!(!house.ccmux_ok(&["attention"]).contains("s1"));
}

/// Acceptance G7.
#[test]
fn whoever_was_active_at_the_pane_is_left_alone_for_a_while() {
    let more = "sessions = \"all\"\nsuppress_when_focused = true\nfocus_window = 6\n";
    let house = house_with("1", more);
    let (tmux, pane) = a_foreign_pane(&house);
    let human = house.human();
    human.types("x");
    let typed = Instant::now();
    foreign_hook_at(&house, "Stop", "s1", json!({}), &[("TMUX", &tmux), ("TMUX_PANE", &pane)]);
    foreign_hook(&house, "Stop", "s2", json!({}));
    assert_eq!(house.wait_for_notices(1)[0]["session"], "s2", "nobody looks at that one");
    house.wait_for_notices(2);
    assert!(typed.elapsed() > Duration::from_millis(4900), "{:?}", typed.elapsed());
}

#[test]
fn during_quiet_hours_it_waits_and_nobody_is_told() {
    let hour = usize::from(time::OffsetDateTime::now_utc().hour());
    let quiet = format!("{:02}:00-{:02}:00", (hour + 23) % 24, (hour + 2) % 24);
    let settings =
        format!("[attention]\nsessions = \"all\"\nroutes = [\"file\"]\nquiet_hours = \"{quiet}\"\n");
    let house = House::builder().env("TZ", "UTC").settings(&into_a_file(&settings)).ready();
    foreign_hook(&house, "StopFailure", "s1", json!({"error": "rate_limit"}));
    house.wait_until("it to wait", || house.ccmux_ok(&["attention"]).contains("failure"));
    house.no_more_notices_than(0, Duration::from_secs(3));
}

#[test]
fn a_mute_of_nothing_is_refused_with_the_list_of_kinds() {
    let house = house_with("60", "");
    let refused = house.ccmux(&["mute", "permision"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(4), "{why}");
    for word in ["permision", "permission", "subagent_reply", "ccmux attention"] {
        assert!(why.contains(word), "{why}");
    }
    assert_eq!(house.ccmux_ok(&["attention"]), "nothing waits for you\n");
    let id = "3a0964c3-e4a5-4edc-bdd0-7f47bcc84843";
    assert!(house.ccmux_ok(&["mute", id]).contains(id), "it may begin later");
    assert!(house.ccmux_ok(&["mute", "nobody", "--for", "0"]).contains(id), "an end harms nobody");
}

/// Acceptance G7.
#[test]
fn the_cool_down_is_the_same_after_a_restart() {
    let house = house_with("1", "sessions = \"all\"\n");
    foreign_hook(&house, "Stop", "s1", json!({"prompt_id": "p1"}));
    house.wait_for_notices(1);
    house.wait_until("the notice to be crossed out", || house.log_events("notice.sent").len() == 1);
    house.kill9();
    house.start();
    foreign_hook(&house, "Stop", "s1", json!({"prompt_id": "p2"}));
    foreign_hook(&house, "Stop", "s2", json!({"prompt_id": "p2"}));
    assert_eq!(house.wait_for_notices(2)[1]["session"], "s2");
    house.no_more_notices_than(2, Duration::from_secs(5));
}

/// Acceptance G7.
#[test]
fn three_steps_go_three_ways() {
    let settings: String = ["one", "two", "three"]
        .map(|name| {
            let line = format!("cat >> ~/{name}");
            format!("[routes.{name}]\ntype = \"command\"\nargv = [\"/bin/sh\", \"-c\", {line:?}]\n")
        })
        .concat();
    let steps = "[attention]\nsessions = \"all\"\n[attention.reply]\nafter = 1\nroutes = [\"one\"]\n\
                 steps = [{ after = 2, routes = [\"two\"] }, { after = 4, routes = [\"three\"] }]\n";
    let house = House::builder().settings(&(settings + steps)).ready();
    foreign_hook(&house, "Stop", "s1", json!({}));
    for (name, seconds) in [("one", 1), ("two", 2), ("three", 4)] {
        let path = house.home().join(name);
        house.wait_until(name, || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
        let text = fs::read_to_string(&path).unwrap();
        let waited = format!("Waiting for your input for {seconds} seconds");
        assert!(text.lines().count() == 1 && text.contains(&waited), "{text}");
    }
}

#[test]
fn a_sub_agents_end_is_told_where_that_is_wanted() {
    let house = house_with("60", "sessions = \"all\"\n[attention.subagent_reply]\nroutes = [\"file\"]\n");
    let agent = json!({"agent_id": "a1", "agent_type": "general-purpose"});
    foreign_hook(&house, "SubagentStop", "s1", agent);
    foreign_hook(&house, "UserPromptSubmit", "s1", json!({"prompt": "<task-notification>done"}));
    foreign_hook(&house, "SubagentStop", "s1", json!({"agent_id": "a2", "agent_type": ""}));
    let notices = house.wait_for_notices(1);
    assert_eq!(
        (kinds(&notices), notices[0]["body"].as_str()),
        (vec!["subagent_reply"], Some("Agent: general-purpose"))
    );
    house.no_more_notices_than(1, Duration::from_secs(2));
}

#[test]
fn messages_that_nobody_knows_to_be_delivered_are_told_as_stuck() {
    let settings = "[attention]\nroutes = [\"file\"]\n[attention.stuck]\nafter = 1\n";
    let house =
        House::builder().settings(&into_a_file(settings)).agent("CCMUX_DEMO_SWALLOW_ENTER", "99").ready();
    house.write("in.t", "say: hello\n");
    let notices = house.wait_for_notices(1);
    assert_eq!(kinds(&notices), ["stuck"]);
    assert!(notices[0]["title"].as_str().unwrap().starts_with("ccmux - "), "{notices:?}");
}
