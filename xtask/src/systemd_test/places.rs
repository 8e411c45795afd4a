//! Instances, exit codes that end it, logout, a tmux server that is the user's own, and the end of the installation.

use anyhow::ensure;

use super::daemon::{Daemon, LIMIT};
use super::machine::{USER, wait_for};
use super::{Seen, Step};

pub const ALL: &[Step] = &[
    ("an instance", instance),
    ("a wrong setting is no reason to start again", wrong_setting),
    ("a shell is known from within the sandbox", shell_is_known),
    ("logout with linger", logout),
    ("the user's own tmux server is used", own_server),
    ("without user namespaces", without_namespaces),
    ("an uninstallation", uninstall),
];

fn instance(daemon: &Daemon<'_>) -> Seen {
    let agent = daemon.ready()?;
    daemon.sh("systemctl --user start ccmuxd@work")?;
    let other = daemon.ready_as("ccmux -i work")?;
    ensure!(other != agent, "both have the same agent");
    // As in a shell of the plain daemon's agent.
    let within = daemon.ready_as("CCMUX_RUNTIME_DIR=/tmp/ccmux ccmux -i work")?;
    ensure!(within == other, "the variable won over -i");
    daemon.sh("systemctl --user stop ccmuxd@work && tmux kill-session -t =ccmux-work")?;
    daemon.same_agent(agent)?;
    Ok(format!("ccmuxd@work has agent {other}, ccmuxd still has {agent}"))
}

fn wrong_setting(daemon: &Daemon<'_>) -> Seen {
    let output = daemon.machine.user_output("systemctl --user start ccmuxd@broken")?;
    ensure!(!output.status.success(), "it started");
    let unit = "ccmuxd@broken";
    wait_for("a failed unit", LIMIT, || {
        daemon.property(unit, "ActiveState").ok().filter(|state| state == "failed")
    })?;
    let (code, restarts) = (daemon.property(unit, "ExecMainStatus")?, daemon.property(unit, "NRestarts")?);
    ensure!(code == "78" && restarts == "0", "exit code {code}, {restarts} restarts");
    Ok("exit code 78, failed, no restart".to_owned())
}

/// Nothing may be typed into one; the sandbox hides which file a process executes.
fn shell_is_known(daemon: &Daemon<'_>) -> Seen {
    daemon.sh("systemctl --user start ccmuxd@shell")?;
    let why = wait_for("the shell to be seen", LIMIT, || {
        daemon.sh("ccmux -i shell why").ok().filter(|why| why.contains("a shell runs in its pane"))
    })?;
    daemon.sh("systemctl --user stop ccmuxd@shell && tmux kill-session -t =ccmux-shell")?;
    Ok(why.lines().next().unwrap_or_default().to_owned())
}

/// A session as a login makes one, and its end.
fn logout(daemon: &Daemon<'_>) -> Seen {
    let (agent, pid) = (daemon.ready()?, daemon.pid()?);
    // The user's manager may have a session of its own.
    let sessions = format!("loginctl list-sessions --no-legend | grep -w {USER} | grep -v manager || true");
    daemon.machine.root(&format!(
        "systemd-run --quiet --unit=login-of-{USER} -p PAMName=login -p User={USER} sleep infinity"
    ))?;
    wait_for("a session", LIMIT, || daemon.machine.root(&sessions).ok().filter(|list| !list.is_empty()))?;
    daemon.machine.root(&format!(
        "for s in $({{ {sessions}; }} | awk '{{print $1}}'); do loginctl terminate-session $s; done"
    ))?;
    wait_for("no session", LIMIT, || daemon.machine.root(&sessions).ok().filter(String::is_empty))?;
    daemon.same_agent(agent)?;
    ensure!(daemon.pid()? == pid, "the daemon is another one");
    Ok(format!("daemon {pid} and agent {agent} live on"))
}

/// A command that may make no namespaces, as if the system allowed none to users.
const FORBIDDEN: &str =
    "systemd-run --user --quiet --wait --pipe --setenv=PATH=$PATH -p RestrictNamespaces=yes ccmux";

/// The doctor and an installation on a system that forbids them: told, mended, filters stay, namespaces are the manager's.
fn without_namespaces(daemon: &Daemon<'_>) -> Seen {
    let agent = daemon.ready()?;
    let said = daemon.sh(&format!("{FORBIDDEN} doctor --no-probe | grep '^failure *sandbox'"))?;
    daemon.sh(&format!("{FORBIDDEN} install --service && systemctl --user daemon-reload"))?;
    daemon.sh(&format!("{FORBIDDEN} doctor --no-probe | grep '^ok *sandbox'"))?;
    daemon.sh("systemctl --user restart ccmuxd")?;
    daemon.same_agent(agent)?;
    let pid = daemon.pid()?;
    let spaces = daemon.sh(&format!(
        "for n in user mnt; do readlink /proc/{pid}/ns/$n /proc/{agent}/ns/$n; done | uniq | wc -l"
    ))?;
    ensure!(spaces == "2", "the daemon has namespaces of its own");
    ensure!(daemon.process(pid, "NoNewPrivs")? == "1", "the daemon may gain privileges");
    Ok(format!("{said}; after an installation ccmuxd starts with no-namespaces.conf, NoNewPrivs 1"))
}

fn own_server(daemon: &Daemon<'_>) -> Seen {
    daemon.sh("systemctl --user stop ccmuxd ccmux-tmux-default.service")?;
    daemon.sh("systemd-run --user --quiet --unit=mine --service-type=forking tmux new-session -d -s mine")?;
    daemon.sh("systemctl --user start ccmuxd")?;
    let agent = daemon.ready()?;
    let unit = daemon.unit_of(daemon.tmux_server()?)?;
    ensure!(unit == "mine.service", "tmux lives in {unit}");
    Ok(format!("agent {agent} under the server of {unit}, none of ours was started"))
}

/// The last step: nothing of the service is left, and the agent lives on. A unit that was never started goes, too.
fn uninstall(daemon: &Daemon<'_>) -> Seen {
    daemon.sh("systemctl --user enable --now ccmuxd")?;
    let (agent, pid) = (daemon.ready()?, daemon.pid()?);
    let settings = daemon.sh("ccmux doctor --no-probe | grep -w settings")?;
    ensure!(settings.contains("this shell has the daemon's"), "{settings}");
    let said = daemon.sh("ccmux uninstall --service")?;
    let steps: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("ran")).map(str::trim).collect();
    ensure!(
        steps == ["systemctl --user disable --now ccmuxd.service", "systemctl --user daemon-reload"],
        "{said}"
    );
    daemon.until_dead(pid)?;
    ensure!(daemon.is_alive(agent), "the agent ended");
    let state = daemon.property("ccmuxd", "LoadState")?;
    ensure!(state == "not-found", "the unit is {state}");
    daemon.sh("! find ~/.config/systemd -name 'ccmuxd.service*' | grep .")?;
    daemon.sh("ccmux uninstall --service && ccmux install --service && ccmux uninstall --service")?;
    Ok(format!("stopped, disabled, removed, forgotten; agent {agent}"))
}
