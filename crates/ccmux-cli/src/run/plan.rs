//! What a container is started with: a pure function from facts to a command line.
//!
//! ```text
//! podman run --rm --init … --mount type=bind,source=/tmp/ccmux/containers/0a1b2c3d,target=/run/ccmux,readonly … IMAGE claude …
//! ```
//!
//! No secret is in it: variables are passed by their names.

use std::path::{Path, PathBuf};

use ccmux_wire::container::{CONTAINER_VARIABLE, ContainerId, WindowId};

use super::arguments::Engine;

/// Variables of the user's that the agent may have, by name.
pub const PASSED: [&str; 25] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CCMUX_AGENT_ID",
    "CCMUX_AGENT_MANAGER",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "COLORTERM",
    "LANG",
    "LC_ALL",
    "TERM",
    "TZ",
];

/// Where things are in the container.
pub const SOCKET_DIR: &str = "/run/ccmux";
pub const PROGRAMS: &str = "/opt/ccmux/bin";
pub const TOLD: &str = "/opt/ccmux/told";
const TOKEN: &str = "/run/ccmux/token";
const HOME: &str = "/home/agent";
const CONFIG: &str = "/home/agent/.claude";

/// Everything that the command line is made of.
pub struct Plan {
    pub engine: Engine,
    pub image: String,
    pub id: ContainerId,
    /// Number and group in the container.
    pub user: (u32, u32),
    /// Root starts it.
    pub is_root: bool,
    pub project: PathBuf,
    /// Claude's configuration of this project.
    pub config: PathBuf,
    /// Hooks and tools that Claude is told of.
    pub told: PathBuf,
    /// What ccmux keeps about containers.
    pub place: PathBuf,
    pub socket_dir: PathBuf,
    pub programs: [PathBuf; 2],
    pub window: Option<WindowId>,
    /// In place of the socket.
    pub tcp: Option<Tcp>,
    /// Names of [`PASSED`] that are set.
    pub variables: Vec<&'static str>,
    pub is_terminal: bool,
    /// For the engine.
    pub further: Vec<String>,
    /// For the agent.
    pub arguments: Vec<String>,
}

/// Where a container tells by three lines.
pub struct Tcp {
    /// `HOST:PORT`, as it is reached from inside.
    pub to: String,
    /// The file of the token.
    pub token: Option<PathBuf>,
}

impl Plan {
    /// The engine's program and its arguments.
    pub fn command(&self) -> Vec<String> {
        let mut command = self.start();
        command.extend(self.mounts());
        command.extend(self.environment());
        command.push(format!("--workdir={}", self.project.display()));
        command.extend(self.further.iter().cloned());
        command.push(self.image.clone());
        command.extend(["claude".to_owned(), "--settings".to_owned()]);
        match self.tcp {
            Some(_) => command.push(format!("{TOLD}/tcp-settings.json")),
            None => command.extend([
                format!("{TOLD}/settings.json"),
                "--mcp-config".to_owned(),
                format!("{TOLD}/mcp.json"),
            ]),
        }
        command.extend(self.arguments.iter().cloned());
        command
    }

    /// The same as a shell reads it.
    pub fn shell_line(&self) -> String {
        shell_words::join(self.command())
    }

    fn start(&self) -> Vec<String> {
        let (uid, gid) = self.user;
        let mut start: Vec<String> =
            [self.engine.program(), "run", "--rm", "--interactive"].map(str::to_owned).to_vec();
        if self.is_terminal {
            start.push("--tty".to_owned());
        }
        start.push(format!("--name=ccmux-{}", self.id));
        start.push(format!("--user={uid}:{gid}"));
        start.extend(["--cap-drop=all", "--security-opt=no-new-privileges"].map(str::to_owned));
        if self.engine == Engine::Podman {
            // The user keeps their number, and a labelling system would keep the socket from them.
            start.push("--security-opt=label=disable".to_owned());
            start.extend((!self.is_root).then(|| "--userns=keep-id".to_owned()));
        }
        start
    }

    fn mounts(&self) -> impl Iterator<Item = String> {
        let [client, hook] = &self.programs;
        let in_programs = |name| format!("{PROGRAMS}/{name}");
        let mut mounts = vec![
            (&*self.project, self.project.display().to_string(), false),
            (&*self.config, CONFIG.to_owned(), false),
            (&*self.told, TOLD.to_owned(), true),
        ];
        match &self.tcp {
            Some(tcp) => mounts.extend(tcp.token.iter().map(|token| (&**token, TOKEN.to_owned(), true))),
            // Programs of this machine, which is not the container's on macOS.
            None => mounts.extend([
                (&*self.socket_dir, SOCKET_DIR.to_owned(), true),
                (&**client, in_programs("ccmux"), true),
                (&**hook, in_programs("ccmux-hook"), true),
            ]),
        }
        mounts.into_iter().map(|(source, target, is_read_only)| mount(source, &target, is_read_only))
    }

    fn environment(&self) -> Vec<String> {
        let mut given = vec![
            format!("HOME={HOME}"),
            format!("CLAUDE_CONFIG_DIR={CONFIG}"),
            format!("{CONTAINER_VARIABLE}={}", self.id),
        ];
        given.push(match &self.tcp {
            Some(tcp) => format!("CCMUX_TCP={}", tcp.to),
            None => format!("CCMUX_RUNTIME_DIR={SOCKET_DIR}"),
        });
        given.extend(self.window.as_ref().map(|window| format!("WINDOWID={window}")));
        given.extend(self.variables.iter().map(|name| (*name).to_owned()));
        given.into_iter().map(|variable| format!("--env={variable}")).collect()
    }
}

/// `--mount` takes its fields as CSV does: a path may hold anything but a line break.
fn mount(source: &Path, target: &str, is_read_only: bool) -> String {
    let fields =
        [format!("source={}", source.display()), format!("target={target}")].map(|field| {
            match field.contains([',', '"']) {
                true => format!("\"{}\"", field.replace('"', "\"\"")),
                false => field,
            }
        });
    let how = if is_read_only { ",readonly" } else { "" };
    format!("--mount=type=bind,{}{how}", fields.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            engine: Engine::Podman,
            image: "localhost/ccmux-agent:1".into(),
            id: "0a1b2c3d".to_owned().try_into().unwrap(),
            user: (1001, 1002),
            is_root: false,
            project: "/home/u/my proj, it's".into(),
            config: "/s/container/claude".into(),
            told: "/s/container/told".into(),
            place: "/s/container".into(),
            socket_dir: "/tmp/ccmux/containers/0a1b2c3d".into(),
            programs: ["/b/ccmux".into(), "/b/ccmux-hook".into()],
            window: Some("77".to_owned().try_into().unwrap()),
            tcp: None,
            variables: vec!["ANTHROPIC_API_KEY"],
            is_terminal: false,
            further: vec!["--network=host".into()],
            arguments: vec!["-p".into(), "$(rm -rf /); say 'hi'".into()],
        }
    }

    #[test]
    fn a_shell_reads_the_line_as_the_very_same_words() {
        let line = plan().shell_line();
        assert!(!line.contains('\n'));
        assert_eq!(shell_words::split(&line).unwrap(), plan().command());
        assert_eq!(plan().command().last().unwrap(), "$(rm -rf /); say 'hi'");
    }

    #[test]
    fn the_runtime_directory_is_never_mounted_and_its_part_is_read_only() {
        let command = plan().command();
        let mounts: Vec<_> = command.iter().filter(|word| word.starts_with("--mount")).collect();
        let socket = "--mount=type=bind,source=/tmp/ccmux/containers/0a1b2c3d,target=/run/ccmux,readonly";
        assert!(mounts.iter().any(|mount| *mount == socket), "{mounts:?}");
        assert!(!mounts.iter().any(|mount| mount.contains("source=/tmp/ccmux,")), "{mounts:?}");
        let project = "--mount=type=bind,\"source=/home/u/my proj, it's\",\"target=/home/u/my proj, it's\"";
        assert!(mounts.iter().any(|mount| *mount == project), "{mounts:?}");
    }

    #[test]
    fn secrets_are_passed_by_name_and_nobody_is_root() {
        let command = plan().command();
        let has = |word: &str| command.iter().any(|found| found == word);
        assert!(
            has("--env=ANTHROPIC_API_KEY")
                && has("--env=WINDOWID=77")
                && has("--env=CCMUX_CONTAINER=0a1b2c3d")
        );
        assert!(has("--user=1001:1002") && has("--userns=keep-id") && !has("--tty"));
        let by_root = Plan { is_root: true, user: (1000, 1000), is_terminal: true, ..plan() }.command();
        assert!(by_root.contains(&"--user=1000:1000".to_owned()) && by_root.contains(&"--tty".to_owned()));
        assert!(!by_root.contains(&"--userns=keep-id".to_owned()));
        let tcp = Some(Tcp { to: "host:8080".into(), token: Some("/home/u/token".into()) });
        let by_tcp = Plan { tcp, ..plan() }.shell_line();
        assert!(
            by_tcp.contains("CCMUX_TCP=host:8080")
                && by_tcp.contains("source=/home/u/token,target=/run/ccmux/token,readonly")
        );
        assert!(!by_tcp.contains("/containers/") && !by_tcp.contains("/b/ccmux"), "{by_tcp}");
        let docker = Plan { engine: Engine::Docker, ..plan() }.command();
        assert!(
            docker[0] == "docker"
                && !docker.iter().any(|word| word.contains("label") || word.contains("userns"))
        );
    }
}
