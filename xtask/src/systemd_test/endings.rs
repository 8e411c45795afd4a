//! The daemon ends in every way: the agent never does, and what is written meanwhile is accepted.

use std::time::Instant;

use anyhow::{Context, ensure};

use super::daemon::{Daemon, LIMIT};
use super::machine::wait_for;
use super::{Seen, Step};

/// Lines that one writer writes while the daemon is restarted, one at a time.
const LINES: usize = 60;

pub const ALL: &[Step] = &[
    ("kill -9", kill_9),
    ("the agent's record is lost", lost_record),
    ("a FIFO is replaced while the daemon is dead", stale_fifo),
    ("restart", restart),
    ("restart amid a turn", restart_amid_turn),
    ("watchdog", watchdog),
    ("stop and start", stop_and_start),
];

fn kill_9(daemon: &Daemon<'_>) -> Seen {
    let (agent, old) = (daemon.ready()?, daemon.pid()?);
    daemon.kill(old, "KILL")?;
    daemon.until_dead(old)?;
    let took = daemon.write("in.test", "written-after-kill")?;
    ensure!(daemon.pid()? == 0 || daemon.pid()? == old, "the daemon was back before the line was written");
    let back = daemon.replaced(old)?;
    daemon.same_agent(agent)?;
    daemon.delivered_once("written-after-kill")?;
    daemon.until_stored(2)?;
    Ok(format!(
        "a line written to the dead daemon returned after {} ms and was delivered; back after {:.1} s; agent {agent}",
        took.as_millis(),
        back.as_secs_f64()
    ))
}

/// As if the daemon had died right after the start of the agent. In the sandbox the agent's environment can't be read.
fn lost_record(daemon: &Daemon<'_>) -> Seen {
    let (agent, old) = (daemon.ready()?, daemon.pid()?);
    daemon.kill(old, "KILL")?;
    daemon.until_dead(old)?;
    daemon.sh("rm ~/.local/state/ccmux/agent.json")?;
    daemon.replaced(old)?;
    daemon.same_agent(agent)?;
    Ok(format!("agent {agent} was adopted"))
}

fn stale_fifo(daemon: &Daemon<'_>) -> Seen {
    let (agent, old) = (daemon.ready()?, daemon.pid()?);
    daemon.kill(old, "KILL")?;
    daemon.until_dead(old)?;
    daemon.write("in.test", "into-the-old-one")?;
    daemon.sh("rm /tmp/ccmux/in.test && mkfifo /tmp/ccmux/in.test")?;
    daemon.replaced(old)?;
    daemon.same_agent(agent)?;
    daemon.write("in.test", "into-the-new-one")?;
    daemon.delivered_once("into-the-old-one")?;
    daemon.delivered_once("into-the-new-one")?;
    daemon.until_stored(2)?;
    Ok("what was in the old one was delivered, the new one is stored in its place".to_owned())
}

fn restart(daemon: &Daemon<'_>) -> Seen {
    let (agent, old) = (daemon.ready()?, daemon.pid()?);
    let begin = Instant::now();
    let script = format!(
        "for n in $(seq {LINES}); do
             s=$(date +%s%N); timeout 5 sh -c \"echo r-$n- > /tmp/ccmux/in.test\" || exit 1
             echo $(( ($(date +%s%N) - s) / 1000000 )); sleep 0.03
         done"
    );
    let writer = daemon.machine.user_spawn(&script)?;
    daemon.sh("systemctl --user restart ccmuxd")?;
    let took = begin.elapsed();
    let written = writer.wait_with_output()?;
    ensure!(written.status.success(), "a writer waited for 5 s");
    let text = String::from_utf8_lossy(&written.stdout).into_owned();
    let longest =
        text.lines().filter_map(|ms| ms.parse::<u64>().ok()).max().context("no line was written")?;
    ensure!(daemon.pid()? != old, "the daemon was not restarted");
    daemon.same_agent(agent)?;
    let mut inbox = Vec::new();
    wait_for("all lines", LIMIT, || {
        inbox = numbers(&daemon.sh("ccmux inbox list --limit 1000").ok()?);
        (inbox.len() >= LINES).then_some(())
    })?;
    inbox.sort_unstable();
    ensure!(inbox == (1..=LINES).collect::<Vec<_>>(), "accepted: {inbox:?}");
    Ok(format!(
        "{LINES} lines during the restart ({:.1} s) accepted once; the slowest write took {longest} ms; agent {agent}",
        took.as_secs_f64()
    ))
}

/// The message in flight is known again after the restart, answered, and not sent twice.
fn restart_amid_turn(daemon: &Daemon<'_>) -> Seen {
    let (agent, old) = (daemon.ready()?, daemon.pid()?);
    daemon.sh("ccmux send --wait delivered --timeout 30 'bash: sleep 5; echo amid'")?;
    daemon.sh("systemctl --user restart ccmuxd")?;
    ensure!(daemon.pid()? != old, "the daemon was not restarted");
    let list = daemon.sh("ccmux inbox list")?;
    let was_open = list.lines().any(|line| line.contains("echo amid") && !line.contains("answered"));
    ensure!(was_open, "the turn had ended before the restart: {list}");
    daemon.same_agent(agent)?;
    daemon.delivered_once("echo amid")?;
    Ok(format!("a message in flight over the restart was answered, once; agent {agent}"))
}

/// Of the lines `r-N-`.
fn numbers(list: &str) -> Vec<usize> {
    let number = |line: &str| line.split_once("r-")?.1.split_once('-')?.0.parse().ok();
    list.lines().filter_map(number).collect()
}

fn watchdog(daemon: &Daemon<'_>) -> Seen {
    let (agent, old) = (daemon.ready()?, daemon.pid()?);
    let before = daemon.property("ccmuxd", "NRestarts")?;
    daemon.kill(old, "STOP")?;
    let took = daemon.replaced(old)?;
    let after = daemon.property("ccmuxd", "NRestarts")?;
    ensure!(before != after, "systemd did not restart it");
    let log = daemon.sh("journalctl --user --no-pager --unit=ccmuxd | grep -i watchdog | tail -1")?;
    ensure!(!log.is_empty(), "the journal tells of no watchdog");
    daemon.same_agent(agent)?;
    Ok(format!("a stopped daemon was ended and replaced after {:.1} s; agent {agent}", took.as_secs_f64()))
}

fn stop_and_start(daemon: &Daemon<'_>) -> Seen {
    let agent = daemon.ready()?;
    let begin = Instant::now();
    daemon.sh("systemctl --user stop ccmuxd")?;
    let took = begin.elapsed();
    ensure!(daemon.is_alive(agent), "the agent ended with the daemon");
    ensure!(daemon.property("ccmuxd", "Result")? == "success", "it did not stop well");
    ensure!(daemon.stored()? == 0, "FIFOs are still held");
    let mut writer = daemon.machine.user_spawn("echo written-while-stopped > /tmp/ccmux/in.test")?;
    // It must not return: only the passing of time can show that.
    std::thread::sleep(std::time::Duration::from_secs(1));
    ensure!(writer.try_wait()?.is_none(), "a writer returned although nobody reads");
    daemon.sh("systemctl --user start ccmuxd")?;
    ensure!(writer.wait()?.success(), "the writer failed");
    daemon.same_agent(agent)?;
    daemon.delivered_once("written-while-stopped")?;
    Ok(format!("stopped within {:.1} s, a writer waited for the start; agent {agent}", took.as_secs_f64()))
}
