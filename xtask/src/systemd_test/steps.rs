//! The units as such, the start, and who lives where.

use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::daemon::{Daemon, LIMIT};
use super::machine::wait_for;
use super::{Seen, Step};

const MOST_EXPOSED: f64 = 3.5;

pub const ALL: &[Step] = &[
    ("the units are valid", units_are_valid),
    ("the sandbox", exposure),
    ("start", start),
    ("tmux and the agent live outside", agent_lives_outside),
    ("the agent's shell is free", shell_is_free),
    ("descriptors are stored and let go", store_follows_channels),
    ("reload", reload),
    ("the doctor", doctor),
];

fn units_are_valid(daemon: &Daemon<'_>) -> Seen {
    let files = "~/.config/systemd/user/ccmuxd.service ~/.config/systemd/user/ccmuxd@.service";
    let said = daemon.sh(&format!("systemd-analyze --user --man=no verify {files} 2>&1"))?;
    ensure!(said.is_empty(), "{said}");
    Ok("systemd-analyze verify has nothing to say".to_owned())
}

fn exposure(daemon: &Daemon<'_>) -> Seen {
    let mut seen = Vec::new();
    for unit in ["ccmuxd.service", "ccmuxd@work.service"] {
        let said = daemon.sh(&format!("systemd-analyze --user --no-pager security {unit}"))?;
        let line = said.lines().find(|line| line.contains("Overall exposure")).context("no exposure told")?;
        let level = line.split(": ").nth(1).and_then(|rest| rest.split(' ').next());
        let level: f64 = level.context("no number")?.parse()?;
        ensure!(level < MOST_EXPOSED, "{unit}: exposure {level}");
        seen.push(format!("{unit} {level}"));
    }
    Ok(format!("exposure of {}", seen.join(", ")))
}

fn start(daemon: &Daemon<'_>) -> Seen {
    let begin = Instant::now();
    daemon.sh("systemctl --user start ccmuxd")?;
    let started = begin.elapsed();
    let agent = daemon.ready()?;
    let ready = begin.elapsed();
    wait_for("the status line", LIMIT, || {
        daemon.property("ccmuxd", "StatusText").ok().filter(|text| text == "ready")
    })?;
    daemon.sh("ccmux send --wait answered --timeout 30 hello")?;
    Ok(format!(
        "READY after {:.1} s, agent {agent} ready after {:.1} s, a message answered",
        started.as_secs_f64(),
        ready.as_secs_f64()
    ))
}

/// The daemon is in its sandbox, the agent is not.
fn agent_lives_outside(daemon: &Daemon<'_>) -> Seen {
    let (agent, pid) = (daemon.ready()?, daemon.pid()?);
    let server = daemon.tmux_server()?;
    let unit = daemon.unit_of(server)?;
    ensure!(unit == "ccmux-tmux-default.service", "tmux lives in {unit}");
    // A tmux that was built for systemd gives each pane a scope of its own.
    let home = daemon.unit_of(agent)?;
    ensure!(home == unit || home.starts_with("tmux-spawn-"), "the agent lives in {home}");
    let main = daemon.property(&unit, "MainPID")?;
    ensure!(main == server.to_string(), "the unit's main process is {main}, tmux is {server}");
    let privileges = [daemon.process(agent, "NoNewPrivs")?, daemon.process(pid, "NoNewPrivs")?];
    ensure!(privileges == ["0", "1"], "NoNewPrivs of agent and daemon: {privileges:?}");
    // The container has filters of its own.
    let manager: u32 = daemon.sh("pgrep -u 1000 -o systemd")?.parse()?;
    let filters = |of| daemon.process(of, "Seccomp_filters");
    ensure!(filters(agent)? == filters(manager)?, "the agent has filters of its own");
    ensure!(filters(agent)? != filters(pid)?, "the daemon has none");
    Ok(format!("tmux in {unit}, agent {agent} in {home}, NoNewPrivs 0; the daemon {pid} has NoNewPrivs 1"))
}

fn shell_is_free(daemon: &Daemon<'_>) -> Seen {
    let script = "bash: grep NoNewPrivs /proc/self/status; touch ~/written && echo can-write";
    let said = daemon.sh(&format!("ccmux send --wait answered --timeout 30 '{script}'"))?;
    let wide: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(wide.contains("NoNewPrivs: 0") && wide.contains("can-write"), "{said}");
    Ok(wide)
}

fn store_follows_channels(daemon: &Daemon<'_>) -> Seen {
    daemon.until_stored(1)?;
    daemon.sh("mkfifo /tmp/ccmux/in.test /tmp/ccmux/in.other")?;
    daemon.until_stored(3)?;
    daemon.sh("rm /tmp/ccmux/in.other")?;
    daemon.until_stored(2)?;
    Ok("one for each FIFO, none for a FIFO that went".to_owned())
}

fn reload(daemon: &Daemon<'_>) -> Seen {
    let pid = daemon.pid()?;
    daemon.sh("systemctl --user reload ccmuxd")?;
    wait_for("the end of the reload", LIMIT, || {
        daemon.property("ccmuxd", "ActiveState").ok().filter(|state| state == "active")
    })?;
    ensure!(daemon.pid()? == pid, "the daemon is another one");
    Ok("active again, same daemon".to_owned())
}

/// What can only be measured where systemd is real.
fn doctor(daemon: &Daemon<'_>) -> Seen {
    let script = "ccmux doctor --json --no-probe || true";
    let found: Vec<Value> = serde_json::from_str(&daemon.sh(script)?).context("no findings")?;
    let mut seen = Vec::new();
    for check in ["linger", "sandbox", "cgroup", "tmp"] {
        let finding = found.iter().find(|finding| finding["check"] == check).context(check)?;
        let detail = finding["detail"].as_str().unwrap_or_default();
        let is_well = finding["state"] == "ok" && !detail.contains("not to be measured");
        ensure!(is_well, "{check}: {finding}");
        seen.push(format!("{check}: {detail}"));
    }
    Ok(seen.join("; "))
}
