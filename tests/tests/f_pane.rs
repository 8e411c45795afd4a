//! What people do with the agent's pane, and what becomes of agent and messages: as they would expect of any window.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use ccmux_tests::House;
use ccmux_tests::house::is_alive;

/// The agent's process and the id of its pane, wherever that is.
fn agent_and_pane(house: &House) -> (i32, String) {
    let agent = house.status().agent.pid.expect("an agent");
    (agent, pane_of(house, agent))
}

fn pane_of(house: &House, agent: i32) -> String {
    let panes = house.tmux(&["list-panes", "-a", "-F", "#{pane_pid} #{pane_id}"]);
    let found = panes.lines().find_map(|line| line.strip_prefix(&format!("{agent} ")));
    found.unwrap_or_else(|| panic!("no pane of {agent}: {panes}")).to_owned()
}

/// Another agent runs, and takes messages.
fn is_replaced(house: &House, old: i32) -> (i32, String) {
    house.wait_until("another agent", || {
        house.status().agent.pid.is_some_and(|pid| pid != old && is_alive(pid))
    });
    house.wait_ready();
    house.send("answered", "say: to the new one");
    agent_and_pane(house)
}

/// It is killed and comes back in its pane.
fn comes_back_in_its_pane(house: &House) {
    let (agent, pane) = agent_and_pane(house);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(agent), nix::sys::signal::Signal::SIGKILL).unwrap();
    assert_eq!(is_replaced(house, agent).1, pane);
}

/// Acceptance F1, F3.
#[test]
fn a_pane_that_is_killed_is_replaced_and_the_users_windows_stay() {
    let house = House::builder().ready();
    house.tmux(&["new-window", "-d", "-t", "=ccmux:", "-n", "mine", "cat"]);
    house.send("answered", "say: before");
    for kill in ["kill-pane", "kill-window"] {
        let (agent, pane) = agent_and_pane(&house);
        house.tmux(&[kill, "-t", &pane]);
        is_replaced(&house, agent);
        let windows = house.tmux(&["list-windows", "-t", "=ccmux:", "-F", "#{window_name}"]);
        assert_eq!(windows.lines().filter(|name| *name == "mine").count(), 1, "after {kill}: {windows}");
    }
    house.wait_until("the conversation to go on", || {
        let (_, pane) = agent_and_pane(&house);
        house.tmux(&["capture-pane", "-p", "-t", &pane]).contains("before")
    });
}

/// Acceptance F3.
#[test]
fn a_session_that_is_killed_is_made_again() {
    let house = House::builder().ready();
    house.tmux(&["new-session", "-d", "-s", "mine", "cat"]);
    let (agent, _) = agent_and_pane(&house);
    house.tmux(&["kill-session", "-t", "=ccmux"]);
    is_replaced(&house, agent);
    let sessions = house.tmux(&["list-sessions", "-F", "#{session_name}"]);
    assert_eq!(sessions.lines().collect::<Vec<_>>(), ["ccmux", "mine"]);
}

#[test]
fn a_session_or_window_under_another_name_is_the_same_one() {
    let house = House::builder().ready();
    let before = agent_and_pane(&house);
    house.tmux(&["rename-session", "-t", "=ccmux", "mine"]);
    house.tmux(&["rename-window", "-t", "=mine:", "work"]);
    house.send("answered", "say: under another name");
    assert_eq!(agent_and_pane(&house), before);
    house.kill9();
    house.start();
    house.wait_ready();
    assert_eq!(agent_and_pane(&house), before, "it was not adopted");
    comes_back_in_its_pane(&house);
    assert_eq!(house.tmux(&["list-sessions", "-F", "#{session_name}"]), "mine");
}

#[test]
fn a_pane_that_is_moved_is_followed_wherever_it_goes() {
    let house = House::builder().ready();
    house.tmux(&["new-session", "-d", "-x", "200", "-y", "60", "-s", "other", "cat"]);
    house.tmux(&["new-window", "-d", "-t", "=ccmux:", "cat"]);
    let (agent, pane) = agent_and_pane(&house);
    for steps in [
        &["join-pane", "-h", "-l", "120", "-s", &pane, "-t", "=other:"][..],
        &["break-pane", "-d", "-s", &pane, "-t", "=ccmux:"],
        &["move-window", "-d", "-s", &pane, "-t", "=other:7"],
    ] {
        house.tmux(steps);
        house.send("answered", &format!("say: after {}", steps[0]));
        assert_eq!(agent_and_pane(&house), (agent, pane.clone()), "{steps:?}");
    }
    house.tmux(&["join-pane", "-h", "-l", "120", "-s", &pane, "-t", "=other:0"]);
    comes_back_in_its_pane(&house);
}

#[test]
fn clients_of_different_sizes_and_one_that_takes_over_disturb_no_message() {
    let house = House::builder().ready();
    let big = house.human_of_size(190, 50);
    house.send("answered", "say: one client");
    let small = house.human_of_size(80, 24);
    let long = format!("say: {}", "two clients ".repeat(60));
    house.send("answered", &long);
    drop(big);
    house.send("answered", &format!("{long}, one left"));
    let one = house.takes_over();
    house.wait_until("the others to be out", || house.clients().len() == 1);
    house.send("answered", &format!("{long}, one took over"));
    assert_eq!(house.prompts().len(), 4);
    let agent = house.agent_pid();
    drop((small, one));
    house.wait_until("everybody to be gone", || house.clients().is_empty());
    house.send("answered", "say: nobody");
    assert_eq!(house.agent_pid(), agent);
}
