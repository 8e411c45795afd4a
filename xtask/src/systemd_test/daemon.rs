//! ccmux in the machine: installed as the README says, and what systemd, /proc and the client say about it.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use serde_json::Value;

use super::machine::{Machine, wait_for};

/// Everything in here comes within that time.
pub const LIMIT: Duration = Duration::from_secs(60);

/// With the demo agent, and no human to wait for. The units come as README says; the template serves all instances.
const INSTALL: &str = r#"
set -e
mkdir -p ~/.local/bin ~/.config/ccmux
cp /opt/ccmux/bin/ccmuxd /opt/ccmux/bin/ccmux /opt/ccmux/bin/ccmux-hook /opt/ccmux/bin/ccmux-demo-agent ~/.local/bin
cat > ~/.config/ccmux/ccmux.toml <<END
idle_threshold = 0
[agent]
command = "$HOME/.local/bin/ccmux-demo-agent"
[proxy]
expect = ""
END
sed 's/^expect.*/&\n[mcp]\nport = 0/' ~/.config/ccmux/ccmux.toml > ~/.config/ccmux/work.toml
sed "s|^command.*|command = \"/bin/sh -c 'sleep 600; :' {args}\"|" ~/.config/ccmux/work.toml > ~/.config/ccmux/shell.toml
echo 'idle_treshold = 0' > ~/.config/ccmux/broken.toml
ccmux install --service && ccmux -i work install --service
systemctl --user daemon-reload
"#;

/// The daemon of the machine's user.
#[derive(Debug)]
pub struct Daemon<'a> {
    pub machine: &'a Machine,
}

impl<'a> Daemon<'a> {
    /// Puts binaries, units and settings where a user would.
    pub fn install(machine: &'a Machine) -> anyhow::Result<Self> {
        machine.user(INSTALL)?;
        Ok(Self { machine })
    }

    /// A shell command as the user.
    pub fn sh(&self, script: &str) -> anyhow::Result<String> {
        self.machine.user(script)
    }

    /// A property of a unit.
    pub fn property(&self, unit: &str, name: &str) -> anyhow::Result<String> {
        self.sh(&format!("systemctl --user show --property={name} --value {unit}"))
    }

    pub fn pid(&self) -> anyhow::Result<u32> {
        Ok(self.property("ccmuxd", "MainPID")?.parse()?)
    }

    fn status(&self, client: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.sh(&format!("{client} status --json"))?)?)
    }

    /// Waits until a message would go in at once; the agent's process.
    pub fn ready(&self) -> anyhow::Result<u32> {
        self.ready_as("ccmux")
    }

    pub fn ready_as(&self, client: &str) -> anyhow::Result<u32> {
        wait_for("state ready", LIMIT, || {
            let status = self.status(client).ok().filter(|status| status["state"] == "ready")?;
            u32::try_from(status["agent"]["pid"].as_u64()?).ok()
        })
    }

    /// A line of `/proc/PID/status`.
    pub fn process(&self, pid: u32, field: &str) -> anyhow::Result<String> {
        self.sh(&format!("sed -n 's/^{field}:[[:space:]]*//p' /proc/{pid}/status"))
    }

    /// The unit that a process lives in.
    pub fn unit_of(&self, pid: u32) -> anyhow::Result<String> {
        let path = self.sh(&format!("sed -n 's/^0:://p' /proc/{pid}/cgroup"))?;
        Ok(path.rsplit('/').next().unwrap_or_default().to_owned())
    }

    /// The process of tmux's default server.
    pub fn tmux_server(&self) -> anyhow::Result<u32> {
        Ok(self.sh("tmux display-message -p '#{pid}'")?.parse()?)
    }

    /// Writes a line into a FIFO, as people's scripts do. How long it took, at most 5 s.
    pub fn write(&self, fifo: &str, line: &str) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        self.sh(&format!("timeout 5 sh -c 'echo \"$1\" > /tmp/ccmux/{fifo}' - '{line}'"))
            .with_context(|| format!("writing to {fifo} did not return"))?;
        Ok(begin.elapsed())
    }

    /// How many messages of that text the inbox has, and that they were delivered.
    pub fn delivered_once(&self, text: &str) -> anyhow::Result<()> {
        let count = |list: &str| list.lines().filter(|line| line.contains(text)).count();
        wait_for(&format!("the delivery of {text}"), LIMIT, || {
            let list = self.sh("ccmux inbox list").ok()?;
            let done = list.lines().filter(|line| line.contains(text));
            done.clone().all(|line| line.contains("answered")).then(|| done.count()).filter(|done| *done > 0)
        })?;
        let list = self.sh("ccmux inbox list")?;
        ensure!(count(&list) == 1, "{text} is there {} times", count(&list));
        Ok(())
    }

    /// Waits until another process is the daemon and is ready. How long that took.
    pub fn replaced(&self, old: u32) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        wait_for("a new daemon", LIMIT, || self.pid().ok().filter(|new| *new != old && *new != 0))?;
        wait_for("an active unit", LIMIT, || {
            self.property("ccmuxd", "ActiveState").ok().filter(|state| state == "active")
        })?;
        Ok(begin.elapsed())
    }

    pub fn same_agent(&self, agent: u32) -> anyhow::Result<()> {
        let now = self.ready()?;
        ensure!(now == agent, "the agent was {agent} and is {now}");
        Ok(())
    }

    pub fn kill(&self, pid: u32, signal: &str) -> anyhow::Result<()> {
        self.sh(&format!("kill -{signal} {pid}")).map(drop)
    }

    pub fn is_alive(&self, pid: u32) -> bool {
        self.sh(&format!("kill -0 {pid}")).is_ok()
    }

    pub fn until_dead(&self, pid: u32) -> anyhow::Result<()> {
        wait_for("the daemon's death", LIMIT, || (!self.is_alive(pid)).then_some(()))
    }

    /// How many descriptors systemd holds for the daemon.
    pub fn stored(&self) -> anyhow::Result<usize> {
        self.property("ccmuxd", "NFileDescriptorStore")?.parse().map_err(|error| anyhow!("{error}"))
    }

    pub fn until_stored(&self, count: usize) -> anyhow::Result<()> {
        let what = format!("{count} stored descriptors");
        wait_for(&what, LIMIT, || self.stored().ok().filter(|stored| *stored == count)).map(drop)
    }

    /// What a person would look at.
    pub fn picture(&self) -> String {
        let look =
            "systemctl --user --no-pager status 'ccmux*'; journalctl --user --no-pager -n 60; ccmux why";
        let shown = self.machine.user_output(look).map(|output| [output.stdout, output.stderr].concat());
        String::from_utf8_lossy(&shown.unwrap_or_default()).into_owned()
    }
}
