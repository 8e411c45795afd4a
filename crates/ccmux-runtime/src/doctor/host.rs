//! The system around ccmux: whose environment, whose cgroup, whose `/tmp`.
//!
//! Linux and systemd tell by files; where there are none nothing is measured, and the detail says so.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Uid, User};

use super::finding::Finding;
use super::patient::Patient;
use crate::agent::launch::scrubbed_environment;
use crate::agent::process::parent_of;
use crate::install::namespaces::forbidden;
use crate::install::units::{Starter, Unit};

/// A Claude Code that found its parent's marks would take itself for its child.
pub(super) fn environment(patient: &Patient) -> Vec<Finding> {
    let check = "environment";
    let kept = scrubbed_environment(patient.setting.environment.clone());
    let mark = |name: &str| name.starts_with("CLAUDE") && !kept.contains_key(name);
    let mut here: Vec<String> = patient
        .setting
        .environment
        .iter()
        .filter_map(|(name, _)| name.to_str())
        .filter(|name| mark(name))
        .map(str::to_owned)
        .collect();
    here.sort();
    let agent = patient.status().and_then(|status| status.agent.pid);
    let there = agent.and_then(|pid| patient.variables_of(pid)).unwrap_or_default();
    let inherited: Vec<&str> = there
        .keys()
        .map(String::as_str)
        .filter(|name| *name == "CLAUDECODE" || here.iter().any(|mark| mark == name))
        .collect();
    vec![match (inherited.is_empty(), here.is_empty()) {
        (false, _) => Finding::failure(
            check,
            format!(
                "the agent inherited {} from another Claude: it may write no transcript",
                inherited.join(", ")
            ),
            "remove it from agent.env, or unset it where the daemon is started; then restart the agent",
        ),
        (true, false) => {
            Finding::ok(check, format!("{} are set here; the agent gets none of them", here.join(", ")))
        }
        (true, true) => Finding::ok(check, "nothing of another Claude is in it"),
    }]
}

pub(super) fn linger(patient: &Patient) -> Vec<Finding> {
    let check = "linger";
    if !patient.world.systemd.is_dir() {
        return vec![Finding::ok(check, "not to be measured: no systemd here")];
    }
    let name = match User::from_uid(Uid::effective()) {
        Ok(Some(user)) => user.name,
        _ => return vec![Finding::ok(check, "not to be measured: this user has no name")],
    };
    if patient.world.linger.join(&name).exists() {
        return vec![Finding::ok(check, format!("{name}'s programs go on after a logout"))];
    }
    vec![Finding::warning(
        check,
        format!(
            "lingering is off for {name}: a daemon of the user's systemd, and Claude, end at the last logout"
        ),
        "loginctl enable-linger",
    )]
}

/// Whether the unit could start: its sandbox needs user namespaces, unless the drop-in took out what does.
pub(super) fn sandbox(patient: &Patient) -> Vec<Finding> {
    let check = "sandbox";
    if !patient.world.systemd.is_dir() {
        return vec![Finding::ok(check, "not to be measured: no systemd here")];
    }
    let setting = &patient.setting;
    let Some(why) = forbidden(&setting.binaries.ccmuxd, &patient.world.proc) else {
        return vec![Finding::ok(
            check,
            "nothing forbids user namespaces: the daemon's unit can have its own",
        )];
    };
    let unit =
        Unit::of(setting, setting.sources.instance.as_ref().map(|name| name.as_str()), Starter::Systemd);
    let install = match &setting.sources.instance {
        Some(name) => format!("ccmux -i {name} install --service"),
        None => "ccmux install --service".to_owned(),
    };
    vec![match unit.drop_in() {
        Some(drop_in) if drop_in.exists() => {
            Finding::ok(check, format!("{why}, and {} leaves out what needs them", drop_in.display()))
        }
        _ if unit.path.exists() => Finding::failure(
            check,
            format!("{why}: {} can't start (exit code 217, 218 or 226)", unit.name),
            format!("{install} puts no-namespaces.conf beside it; then systemctl --user daemon-reload"),
        ),
        _ => Finding::ok(check, format!("{why}: {install} makes a unit that needs none")),
    }]
}

/// Whose unit tmux lives in: stopping that unit ends tmux, and Claude with it.
pub(super) fn cgroup(patient: &Patient) -> Vec<Finding> {
    let check = "cgroup";
    let Some(status) = patient.status() else {
        return vec![Finding::ok(check, "not to be measured: no daemon runs")];
    };
    let Some(agent) = status.agent.pid else {
        return vec![Finding::ok(check, "not to be measured: the agent does not run")];
    };
    let unit =
        |pid: i32| patient.of_process(pid, "cgroup").map(|text| unit_of(&String::from_utf8_lossy(&text)));
    let tmux = parent(patient, agent).and_then(unit);
    vec![match (tmux, unit(status.daemon_pid)) {
        (Some(tmux), Some(daemon)) => judge_units(&tmux, &daemon),
        _ => Finding::ok(check, "not to be measured: this system has no cgroups"),
    }]
}

fn parent(patient: &Patient, pid: i32) -> Option<i32> {
    if patient.world.proc == Path::new("/proc") {
        return parent_of(pid);
    }
    let stat = String::from_utf8_lossy(&patient.of_process(pid, "stat")?).into_owned();
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The path in `/proc/PID/cgroup`: cgroup 2, else systemd's own tree of cgroup 1.
fn unit_of(text: &str) -> String {
    let path = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let named = || text.lines().find_map(|line| line.split_once(":name=systemd:").map(|(_, path)| path));
    path("0::").filter(|path| !path.is_empty()).or_else(named).unwrap_or("/").to_owned()
}

fn judge_units(tmux: &str, daemon: &str) -> Finding {
    let check = "cgroup";
    let last = tmux.rsplit('/').next().unwrap_or(tmux);
    if tmux == daemon && last.ends_with(".service") {
        return Finding::failure(
            check,
            format!("the tmux server lives in the daemon's own unit {last}: stopping it would end Claude"),
            "start the daemon with the units that ccmux brings, after ending that tmux server once",
        );
    }
    let shown = if last.is_empty() { "/" } else { last };
    Finding::ok(check, format!("the tmux server lives in {shown}"))
}

/// Whether daemon, agent and this shell see the same `/tmp` and the same tmux sockets.
pub(super) fn tmp(patient: &Patient) -> Vec<Finding> {
    let check = "tmp";
    let Some(daemon) = patient.status().map(|status| status.daemon_pid) else {
        return vec![Finding::ok(check, "not to be measured: no daemon runs")];
    };
    let inode = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let own = inode(&patient.world.proc.join(patient.world.own_pid.to_string()).join("root/tmp"));
    let its = inode(&patient.world.proc.join(daemon.to_string()).join("root/tmp"));
    if let (Some(own), Some(its)) = (own, its)
        && own != its
    {
        return vec![Finding::failure(
            check,
            "the daemon has a /tmp of its own (PrivateTmp): neither its FIFOs nor tmux's socket are yours",
            "remove PrivateTmp from its unit, or put runtime_dir and TMUX_TMPDIR elsewhere",
        )];
    }
    let variables = patient.variables_of(daemon).unwrap_or_default();
    let its = variables.get("TMUX_TMPDIR").filter(|dir| !dir.is_empty()).cloned();
    let own = patient.variable("TMUX_TMPDIR");
    vec![match (its, own) {
        (its, own) if its == own || variables.is_empty() => {
            Finding::ok(check, "the daemon and this shell see the same /tmp and the same tmux sockets")
        }
        (its, _) => {
            let dir = its.unwrap_or_else(|| "/tmp".to_owned());
            Finding::warning(
                check,
                format!(
                    "the daemon's tmux has its sockets in {dir}, this shell's elsewhere: tmux attach does not find it"
                ),
                format!("TMUX_TMPDIR={dir} tmux attach; or give both the same TMUX_TMPDIR"),
            )
        }
    }]
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

    #[test]
    fn a_tmux_in_the_daemons_own_unit_is_a_failure() {
        let user = "/user.slice/user-1000.slice/user@1000.service/app.slice";
        let daemon = format!("{user}/ccmuxd.service");
        assert_eq!(judge_units(&daemon, &daemon).state, Health::Failure);
        let own = judge_units(&format!("{user}/ccmux-tmux.service"), &daemon);
        assert!(own.state == Health::Ok && own.detail.contains("ccmux-tmux.service"), "{own:?}");
        let shell = "/user.slice/user-1000.slice/session-3.scope";
        assert_eq!(judge_units(shell, shell).state, Health::Ok, "both started by hand");
    }

    #[test]
    fn both_kinds_of_cgroups_are_read() {
        assert_eq!(unit_of("0::/a.slice/b.service\n"), "/a.slice/b.service");
        assert_eq!(unit_of("5:cpu:/x\n1:name=systemd:/c.service\n0::\n"), "/c.service");
        assert_eq!(unit_of("5:cpu:/x\n"), "/");
    }
}
