//! Acceptance E4: nobody comes in who is not let in, and the token is nowhere that others can see.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use ccmux_tests::House;
use nix::unistd::Uid;
use serde_json::json;

/// Every route that there is, and some that are not.
const ROUTES: [&str; 9] = [
    "/mcp",
    "/sse",
    "/messages?session_id=x",
    "/events",
    "/metrics",
    "/",
    "/nowhere",
    "/healthz/",
    "/mcp/../healthz",
];

/// Acceptance E4.
#[test]
fn e4_no_route_lets_anybody_in_who_is_not_let_in() {
    let house = House::builder().ready();
    let (port, token) = (house.http_port(), house.http_token());
    let us = format!("Host: 127.0.0.1:{port}\r\n");
    for route in ROUTES {
        for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"] {
            let good = house.request(method, route);
            let without = |header: &str| -> String {
                let lines = good.split_inclusive("\r\n").filter(|line| !line.starts_with(header));
                lines.collect()
            };
            let bearer = format!("Bearer {token}");
            let in_query =
                without("Authorization").replace(" HTTP", &format!("{}token={token} HTTP", mark(route)));
            for (what, request, status) in [
                ("another host", good.replace(&us, &format!("Host: evil.example:{port}\r\n")), 403),
                ("a host by number", good.replace(&us, &format!("Host: 0.0.0.0:{port}\r\n")), 403),
                ("another port", good.replace(&us, "Host: 127.0.0.1:80\r\n"), 403),
                ("IPv6 without a port", good.replace(&us, "Host: [::1]\r\n"), 403),
                ("another page", format!("{good}Origin: http://evil.example\r\n"), 403),
                ("a sandboxed page", format!("{good}Origin: null\r\n"), 403),
                ("a page's image", format!("{good}Sec-Fetch-Site: cross-site\r\n"), 403),
                ("no token", without("Authorization"), 401),
                ("a wrong token", good.replace(&bearer, "Bearer wrong"), 401),
                ("half the token", good.replace(&bearer, &bearer[..40]), 401),
                ("the token in the query", in_query, 401),
                ("two tokens", format!("{good}Authorization: {bearer}\r\n"), 401),
            ] {
                let answer = house.ask(&request, "");
                assert_eq!(answer.status, status, "{what}: {method} {route}: {answer:?}");
                assert!(!answer.head.to_lowercase().contains("access-control-allow"), "{answer:?}");
                assert!(!answer.body.contains(&token), "{answer:?}");
            }
        }
        let missing = house.ask(&house.request("GET", route).replace(&us, ""), "");
        assert!([400, 403].contains(&missing.status), "no host: {route}: {missing:?}");
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
            let form = house.request("POST", route).replace("application/json\r\n", &format!("{kind}\r\n"));
            assert_eq!(house.ask(&form, "{}").status, 415, "{kind} {route}");
        }
        let long = house.ask(&house.request("POST", route), &"x".repeat(8 * 1024 * 1024 + 1));
        assert_eq!(long.status, 413, "{route}");
        assert!(long.body.contains("the limit is 8 MiB"), "{long:?}");
    }
    assert_eq!(house.ask("GET /healthz HTTP/1.1\r\nHost: anything\r\n", "").status, 200);
    assert!(house.log_events("mcp.refused").len() < 20, "anybody could fill the log");
}

fn mark(route: &str) -> char {
    if route.contains('?') { '&' } else { '?' }
}

/// Acceptance E4.
#[test]
fn e4_without_authentication_pages_and_foreign_hosts_stay_out() {
    let house = House::builder().settings("[mcp]\nauth = \"none\"\n").ready();
    let us = format!("Host: 127.0.0.1:{}\r\n", house.http_port());
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let good = format!("POST /mcp HTTP/1.1\r\n{us}Accept: application/json, text/event-stream\r\n");
    let json = format!("{good}Content-Type: application/json\r\n");
    assert_eq!(house.ask(&json, call).status, 200);
    assert_eq!(house.ask(&json.replace(&us, "Host: evil.example\r\n"), call).status, 403);
    assert_eq!(house.ask(&format!("{json}Origin: https://evil.example\r\n"), call).status, 403);
    assert_eq!(house.ask(&format!("{good}Content-Type: text/plain\r\n"), call).status, 415);
}

/// A program of another user, run in a shell; what it printed and whether it succeeded.
fn as_another_user(house: &House, script: &str) -> (bool, String) {
    const NOBODY: u32 = 65534;
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).uid(NOBODY).gid(NOBODY).current_dir("/");
    let output = house.run_to_end(shell);
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Acceptance E4.
#[test]
fn e4_another_users_process_is_refused_at_every_door() {
    if !Uid::effective().is_root() {
        assert!(std::env::var_os("CI").is_none(), "CI must run this as root");
        println!("skipped: to start a process of another user needs root");
        return;
    }
    let house = House::builder().ready();
    // The house's own folder is not what keeps them out.
    for folder in ["", "home"] {
        fs::set_permissions(house.path(folder), fs::Permissions::from_mode(0o755)).unwrap();
    }
    house.fifo("out.test");
    let (port, token, agent) = (house.http_port(), house.http_token(), house.agent_pid());
    let (run, state) = (house.run_dir().display().to_string(), house.state_dir().display().to_string());
    assert!(as_another_user(&house, &format!("ls {}", house.path("").display())).0, "it gets as far as that");
    for script in [
        format!("cat {state}/mcp.token"),
        format!("cat {state}/claude-mcp.json"),
        format!("cat {state}/session.token"),
        format!("ls {state}"),
        format!("ls {run}"),
        format!("echo x > {run}/in"),
        format!("cat {run}/out.test"),
        format!("curl --silent --max-time 5 --unix-socket {run}/control.sock http://x/"),
        format!("cat /proc/{agent}/environ"),
        format!("cat {}", house.path("ccmux.log").display()),
        format!("ls {}", house.path("tmux/tmux-0").display()),
    ] {
        let (done, said) = as_another_user(&house, &script);
        assert!(!done, "{script}: {said}");
        assert!(!said.contains(&token), "{script}: {said}");
    }
    let ask = |header: &str| {
        let script = format!(
            "curl --silent --output /dev/null --write-out '%{{http_code}}' --max-time 5 {header} \
             --header 'Content-Type: application/json' --data '{{}}' http://127.0.0.1:{port}/mcp"
        );
        as_another_user(&house, &script).1
    };
    assert_eq!(ask(""), "401");
    assert_eq!(ask("--header 'Authorization: Bearer guess'"), "401");
    // It is the token alone that lets in, so it must not be had.
    assert_ne!(ask(&format!("--header 'Authorization: Bearer {token}'")), "401");
    let (_, said) = as_another_user(&house, &format!("tr '\\0' ' ' < /proc/{agent}/cmdline"));
    assert!(said.contains("ccmux-demo-agent") && !said.contains(&token), "{said}");
}

/// Acceptance E4.
#[test]
fn e4_the_token_is_in_no_log_no_argument_and_no_environment() {
    let house = House::builder().settings("[log]\nlevel = \"trace\"\n").build();
    // A hook lives too short to be seen: this one of the user's leaves its environment behind.
    let hook = format!("cat > /dev/null; env > {}", house.path("hook.env").display());
    let hooks = json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": hook}]}]}});
    fs::create_dir_all(house.home().join(".claude")).unwrap();
    fs::write(house.home().join(".claude/settings.json"), hooks.to_string()).unwrap();
    let looking = AtomicBool::new(true);
    let seen = std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while looking.load(Ordering::Relaxed) {
                seen.extend(processes_of(&house));
            }
            seen
        });
        use_every_door(&house);
        looking.store(false, Ordering::Relaxed);
        looker.join().unwrap()
    });
    let (token, session) =
        (house.http_token(), fs::read_to_string(house.state_dir().join("session.token")).unwrap());
    let programs: BTreeSet<&str> = seen.iter().map(|process| process.program.as_str()).collect();
    for program in ["ccmuxd", "ccmux-demo-agent", "tmux"] {
        assert!(programs.iter().any(|seen| seen.contains(program)), "{program} was not seen: {programs:?}");
    }
    for process in &seen {
        assert!(!process.arguments.contains(&token), "argument of {}", process.program);
        assert!(!process.environment.contains(&token), "environment of {}", process.program);
        assert!(!process.arguments.contains(&session), "argument of {}", process.program);
        // The agent, and what it starts: its hooks, and the bridge of its tools.
        let name = Path::new(&process.program).file_name().unwrap_or_default();
        let may_know = ["ccmux-demo-agent", "ccmux-hook", "ccmux", "sh", "env", "cat"]
            .iter()
            .any(|known| name == *known);
        assert!(may_know || !process.environment.contains(&session), "environment of {}", process.program);
    }
    // Both are kept; an entry by stdio needs no token.
    assert_eq!(files_with(&house.path(""), &token), ["mcp.token"]);
    assert_eq!(files_with(&house.path(""), &session), ["hook.env", "session.token"]);
}

/// Starts the daemon and does what could make somebody write the token down.
fn use_every_door(house: &House) {
    house.start();
    house.wait_ready();
    let adapter = house.adapter("test");
    let turns = house.subscribe();
    house.write("in.t", "mcp: test hello\n");
    assert_eq!(house.wait_for_lines(&adapter, 1), ["hello"]);
    turns.wait_for_turns(1);
    house.wait_until("the user's hook", || house.path("hook.env").exists());
    let (good, token) = (house.request("GET", "/events"), house.http_token());
    assert_eq!(house.ask(&good, "").status, 200);
    assert_eq!(house.ask(&house.request("GET", "/sse"), "").status, 200);
    house.ask(&good.replace("Authorization: Bearer ", "Authorization: Basic "), "");
    house.ask(&good.replace("GET /events", &format!("GET /events?token={token}")).replace("Bearer", "x"), "");
    house.ask(&good.replace("GET /events", &format!("GET /{token}")).replace("Bearer", "x"), "");
    house.ask(&format!("{good}X: {}\r\n", "y".repeat(600_000)), "");
    house.kill_agent();
    turns.wait_for_alert("agent_restarted");
    house.wait_ready();
    house.kill9();
    house.start();
    house.wait_ready();
}

/// What others can see of a process.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    program: String,
    arguments: String,
    environment: String,
}

/// Those that have to do with the house.
fn processes_of(house: &House) -> Vec<Process> {
    let place = house.path("").display().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter_map(|entry| process(&entry.path()));
    processes
        .filter(|process| process.arguments.contains(&place) || process.environment.contains(&place))
        .collect()
}

/// A process that was one program while it was looked at: in the middle of an exec the arguments are empty, or the old
/// program's beside the new one's environment, and then it is looked at once more.
fn process(folder: &Path) -> Option<Process> {
    let read = |name: &str| {
        let bytes = fs::read(folder.join(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let mut looks = 0;
    loop {
        let (arguments, environment) = (read("cmdline")?, read("environ")?);
        if arguments.is_empty() && environment.is_empty() {
            return None;
        }
        looks += 1;
        let settled = !arguments.is_empty() && read("cmdline")? == arguments;
        if settled || looks == 1_000 {
            let program = arguments.split('\0').next()?.to_owned();
            return Some(Process { program, arguments, environment });
        }
    }
}

/// Names of the files below a folder that hold a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let kind = path.symlink_metadata().map(|found| found.file_type());
            match kind {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() && holds(&path, text) => {
                    found.insert(path.file_name().unwrap().to_string_lossy().into_owned());
                }
                _ => {}
            }
        }
    }
    found.into_iter().collect()
}

fn holds(path: &PathBuf, text: &str) -> bool {
    fs::read(path).unwrap_or_default().windows(text.len()).any(|window| window == text.as_bytes())
}
