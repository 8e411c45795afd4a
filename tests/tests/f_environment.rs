//! What the agent's environment holds, wherever the daemon and the tmux server were started from.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;

use ccmux_tests::House;
use ccmux_tests::house::is_alive;

/// What a Claude Code leaves for its children, systemd for one process, and a shell for its own.
const NOT_THE_AGENTS: [(&str, &str); 12] = [
    ("CLAUDECODE", "1"),
    ("CLAUDE_CODE_CHILD_SESSION", "1"),
    ("CLAUDE_CODE_ENTRYPOINT", "cli"),
    ("CLAUDE_CODE_SESSION_ID", "parent"),
    ("CLAUDE_CODE_MESSAGING_SOCKET", "/nowhere"),
    ("CLAUDE_CODE_MESSAGING_TOKEN", "secret"),
    ("CLAUDE_EFFORT", "high"),
    ("CLAUDE_PID", "1"),
    ("CLAUDE_PROJECT_DIR", "/nowhere"),
    ("CREDENTIALS_DIRECTORY", "/run/credentials/ccmuxd"),
    ("INVOCATION_ID", "1"),
    ("JOURNAL_STREAM", "8:1"),
];

fn environment(pid: i32) -> BTreeMap<String, String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let pairs = bytes.split(|byte| *byte == 0).map(|pair| String::from_utf8_lossy(pair).into_owned());
    pairs
        .filter_map(|pair| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
        .collect()
}

/// Field fault 31.
#[test]
fn f31_no_mark_of_a_parent_reaches_the_agent_by_the_daemon_or_by_an_old_tmux_server() {
    let mut builder = House::builder().env("MY_OWN", "kept").env("CCMUX_MCP_SECRET", "x").env("CCMUX", "0");
    for (name, value) in NOT_THE_AGENTS {
        builder = builder.env(name, value);
    }
    let house = builder.build();
    // The server runs before the daemon, with marks and secrets of whoever started it.
    let mut server = house.tmux_command();
    server.args(["new-session", "-d", "-s", "other"]).envs(NOT_THE_AGENTS).env("OLD_SECRET", "x");
    assert!(house.run_to_end(server).status.success());
    assert!(house.tmux(&["show-environment", "-g"]).contains("OLD_SECRET"));
    house.start();
    house.wait_ready();
    let agent = environment(house.agent_pid());
    let ours: Vec<&str> = agent.keys().map(String::as_str).filter(|name| name.starts_with("CCMUX")).collect();
    assert_eq!(ours, ["CCMUX", "CCMUX_RUNTIME_DIR", "CCMUX_SESSION_TOKEN"]);
    assert_eq!(agent["CCMUX"], house.status().daemon_version, "the mark of who lives in ccmux");
    for name in NOT_THE_AGENTS.map(|(name, _)| name).into_iter().chain(["OLD_SECRET"]) {
        assert!(!agent.contains_key(name), "{name}");
    }
    assert_eq!(agent["MY_OWN"], "kept");
    assert!(agent["TMUX_PANE"].starts_with('%'));
    house.send("answered", "say: a transcript is written");
    assert_eq!(house.transcript_files().len(), 1);
}

/// Field fault 31.
#[test]
fn f31_a_server_that_the_daemon_starts_gives_none_of_it_to_the_users_panes() {
    let mut builder = House::builder();
    for (name, value) in NOT_THE_AGENTS {
        builder = builder.env(name, value);
    }
    let house = builder.ready();
    let globals = house.tmux(&["show-environment", "-g"]);
    for (name, _) in NOT_THE_AGENTS {
        assert!(!globals.lines().any(|line| line.starts_with(&format!("{name}="))), "{name}");
    }
    assert!(!globals.contains("CCMUX_"), "{globals}");
}

/// Field fault 32.
#[test]
fn f32_a_proxy_captures_no_loopback_and_a_taken_port_makes_no_crash_loop() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut builder = House::builder()
        .env("CCMUX_MCP_PORT", taken.local_addr().unwrap().port())
        .env("no_proxy", "intranet.example, 127.0.0.1");
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        builder = builder.env(name, &address);
    }
    let house = builder.ready();
    let agent = environment(house.agent_pid());
    for name in ["NO_PROXY", "no_proxy"] {
        assert_eq!(agent[name], "intranet.example,127.0.0.1,localhost,::1", "{name}");
    }
    assert_eq!((&agent["HTTPS_PROXY"], &agent["http_proxy"]), (&address, &address));
    let (daemon, pid) = (house.daemon_pid(), house.agent_pid());
    house.send("answered", "say: it flows");
    assert!(is_alive(daemon) && house.exit_status().is_none());
    assert_eq!((house.agent_pid(), house.status().degraded), (pid, vec!["mcp".to_owned()]));
    assert!(proxy.accept().is_err(), "somebody of ours went to the proxy");
}
