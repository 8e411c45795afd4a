//! Notices on a real desktop: what the bubble says, and what a click on it shows.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ffi::OsString;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ccmux_tests::{Desktop, House};
use serde_json::json;

const SETTINGS: &str = "[routes.desk]\ntype = \"desktop\"\n[attention]\nsessions = \"all\"\nroutes = [\"desk\"]\n\
                        [attention.reply]\nafter = 1\ncooldown = 0\n";

/// The daemon knows the bus and no display, as one that systemd started early.
fn house_on(desktop: &Desktop) -> House {
    House::builder()
        .settings(SETTINGS)
        .env("DBUS_SESSION_BUS_ADDRESS", desktop.bus())
        .env("WINDOWID", "7")
        .ready()
}

/// A window of the desktop with a tmux client in it.
fn terminal(desktop: &mut Desktop, house: &House, title: &str, line: &str) -> String {
    let mut environment: Vec<(OsString, OsString)> =
        ["TMUX_TMPDIR", "PATH", "LANG"].map(|name| (name.into(), house_variable(house, name))).to_vec();
    environment.push(("TMUX".into(), "".into()));
    desktop.terminal(title, "100x30+20+60", &environment, line)
}

fn house_variable(house: &House, name: &str) -> OsString {
    let command = house.command("env");
    command.get_envs().find(|(known, _)| *known == name).and_then(|(_, value)| value).unwrap().to_owned()
}

fn socket_of(house: &House) -> String {
    house_variable(house, "CCMUX_TMUX_SOCKET").into_string().unwrap()
}

fn wait_for_bubble(desktop: &Desktop, house: &House) {
    house.wait_until("a bubble", || desktop.shown() > 0);
}

/// What the clients of the house's server look at.
fn looked_at(house: &House) -> Vec<String> {
    house.tmux(&["list-clients", "-F", "#{session_name} #{pane_id}"]).lines().map(str::to_owned).collect()
}

/// Field fault 41. Acceptance G3.
#[test]
fn a_bubble_says_the_text_as_it_is_and_a_click_shows_the_window_and_the_pane() {
    let Some(mut desktop) = Desktop::or_skip() else { return };
    let house = house_on(&desktop);
    let pane = house.pane("#{pane_id}");
    house.tmux(&["new-window", "-n", "notes", "cat"]);
    house.tmux(&["new-session", "-d", "-s", "elsewhere", "cat"]);
    let attach = format!("exec tmux -L {} attach-session -t =ccmux", socket_of(&house));
    let ours = terminal(&mut desktop, &house, "the-agents-terminal", &attach);
    house.wait_until("the client", || looked_at(&house).len() == 1);
    let above = terminal(&mut desktop, &house, "something-else", "exec cat");
    house.wait_until("the other window to be on top", || desktop.active_window().as_ref() == Some(&above));
    house.send("answered", "say: <b>bold</b> & \"co\"");
    wait_for_bubble(&desktop, &house);
    println!("picture: {}", desktop.picture("bubble").display());
    assert_ne!(looked_at(&house), [format!("ccmux {pane}")], "nothing was selected yet");
    desktop.click();
    house.wait_until("the pane to be selected", || looked_at(&house) == [format!("ccmux {pane}")]);
    house.wait_until("the window to be raised", || desktop.active_window().as_ref() == Some(&ours));
    println!("picture: {}", desktop.picture("clicked").display());
    house.wait_until("the bubble in the history", || desktop.history().len() == 1);
    let [title, body] = desktop.history().remove(0);
    assert_eq!(title, "Claude Code - User Input Needed");
    assert!(body.contains("&lt;b&gt;bold&lt;/b&gt; &amp; \"co\""), "{body}");
    assert!(body.ends_with("Waiting for your input for 1 seconds"), "{body}");
    house.wait_until("the log", || house.log_events("notice.clicked").len() == 1);
    let clicked = house.log_events("notice.clicked");
    assert_eq!(clicked[0]["how"], "window raised by xdotool", "{clicked:?}");
}

#[test]
fn a_click_on_a_foreign_sessions_bubble_shows_its_own_window_and_pane() {
    let Some(mut desktop) = Desktop::or_skip() else { return };
    let house = house_on(&desktop);
    // Somebody's session outside of tmux says its window; one in another tmux its pane.
    let plain = terminal(&mut desktop, &house, "a-plain-terminal", "exec cat");
    let above = terminal(&mut desktop, &house, "something-else", "exec cat");
    house.wait_until("the other window to be on top", || desktop.active_window().as_ref() == Some(&above));
    let foreign = house.command(house.path("hook/ccmux-hook"));
    stop_hook(foreign, "s1", &[("WINDOWID", &plain)]);
    wait_for_bubble(&desktop, &house);
    desktop.click();
    house.wait_until("the log", || house.log_events("notice.clicked").len() == 1);
    // The daemon knows no display, and nothing told it one.
    assert!(house.log_events("notice.clicked")[0]["error"].as_str().unwrap().contains("xdotool"));
    let pane = house.tmux(&["new-window", "-d", "-P", "-F", "#{pane_id}", "cat"]).trim().to_owned();
    let attach = format!("exec tmux -L {} attach-session -t =ccmux", socket_of(&house));
    let theirs = terminal(&mut desktop, &house, "their-terminal", &attach);
    house.wait_until("the client", || looked_at(&house).len() == 1);
    terminal(&mut desktop, &house, "on-top", "exec cat");
    let tmux = house.tmux(&["display-message", "-p", "#{socket_path},#{pid},0"]);
    let foreign = house.command(house.path("hook/ccmux-hook"));
    stop_hook(foreign, "s2", &[("TMUX", tmux.trim()), ("TMUX_PANE", &pane), ("WINDOWID", "1")]);
    wait_for_bubble(&desktop, &house);
    desktop.click();
    house.wait_until("the pane to be selected", || looked_at(&house) == [format!("ccmux {pane}")]);
    house.wait_until("the window to be raised", || desktop.active_window().as_ref() == Some(&theirs));
}

fn stop_hook(mut hook: std::process::Command, session: &str, variables: &[(&str, &str)]) {
    let payload = json!({"session_id": session, "hook_event_name": "Stop", "background_tasks": []});
    let mut child = hook.envs(variables.iter().copied()).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(payload.to_string().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Field fault 42.
#[test]
fn without_a_bus_or_a_notification_daemon_the_route_fails_at_once() {
    let settings = "[routes.desk]\ntype = \"desktop\"\n";
    let nothing = House::builder().settings(settings).env("XDG_RUNTIME_DIR", "{dir}").ready();
    let begin = Instant::now();
    let refused = nothing.ccmux(&["notify", "--test", "desk"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("DBUS_SESSION_BUS_ADDRESS") && why.contains("/bus"), "{why}");
    nothing.stop();
    let dead = format!("unix:path={}", nothing.path("dead").display());
    nothing.start_with(&[("DBUS_SESSION_BUS_ADDRESS", &dead)]);
    let why = String::from_utf8_lossy(&nothing.ccmux(&["notify", "--test", "desk"]).stderr).into_owned();
    assert!(why.contains(&dead), "{why}");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}
