//! The real OpenCode CLI in a house: installed from npm once, with ccmux's plugin, on a mock of a model's provider.
//!
//! What a prompt says is what the mock does: `TOOL bash {…}`, `SLOW 20`, `HTTP 400 …`; anything else is echoed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::binaries;
use crate::fetched;
use crate::house::House;
use crate::patience;

/// It starts slowly, and more so where many tests run.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// The version that the tests are written for.
pub const VERSION: &str = "1.18.33";

/// OpenCode's executable; without the registry this fails in CI and is skipped elsewhere, saying so.
pub fn or_skip() -> Option<PathBuf> {
    fetched::or_skip("OpenCode from npm", installed())
}

fn installed() -> Result<PathBuf, String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the test knows the package for Linux on x86_64 only".into());
    }
    let target = binaries::target().join(format!("npm-opencode-{VERSION}"));
    let program = target.join("node_modules/opencode-linux-x64/bin/opencode");
    fetched::npm(&format!("opencode-linux-x64@{VERSION}"), &target, &program)?;
    Ok(program)
}

/// OpenCode, the mock that it asks, and a server of it if one was started; all of it ends when dropped.
#[derive(Debug)]
pub struct Opencode<'a> {
    house: &'a House,
    program: PathBuf,
    children: Vec<Child>,
    url: String,
}

impl Drop for Opencode<'_> {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl<'a> Opencode<'a> {
    /// In that house, with the plugin as `ccmux install --opencode` puts it there.
    pub fn of(house: &'a House, program: PathBuf) -> Self {
        let said = house.ccmux_ok(&["install", "--opencode"]);
        assert!(said.contains("opencode/plugin/ccmux.js"), "{said}");
        let mut opencode = Self { house, program, children: Vec::new(), url: String::new() };
        let port = opencode.start_mock();
        let provider = json!({
            "npm": "@ai-sdk/openai-compatible", "name": "Mock",
            "options": {"baseURL": format!("http://127.0.0.1:{port}/v1"), "apiKey": "x"},
            "models": {"mock-1": {
                "name": "mock-1", "limit": {"context": 100_000, "output": 8000}, "tool_call": true,
            }},
        });
        let settings = json!({
            "autoupdate": false, "share": "disabled", "enabled_providers": ["mock"],
            "model": "mock/mock-1", "small_model": "mock/mock-1", "provider": {"mock": provider},
            "permission": {"bash": "ask", "edit": "ask"},
        });
        fs::write(house.home().join(".config/opencode/opencode.json"), settings.to_string()).unwrap();
        opencode
    }

    fn start_mock(&mut self) -> u16 {
        let (port_file, log) = (self.house.path("provider.port"), self.house.path("provider.log"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/mock_provider.py");
        let mut python = self.house.command("python3");
        python.arg(script).arg(&port_file).arg(&log).stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push(python.spawn().expect("python3 must be installed"));
        self.house.wait_for("the mock's port", || fs::read_to_string(&port_file).ok()?.trim().parse().ok())
    }

    /// OpenCode in the project, with nothing fetched from anywhere.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.house.command(&self.program);
        command.args(arguments).current_dir(self.house.proj());
        for name in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE"] {
            command.env(format!("OPENCODE_DISABLE_{name}"), "1");
        }
        command
    }

    /// `opencode run`, to its end.
    pub fn run(&self, prompt: &str) {
        let output = patience::run_to_end(self.command(&["run", prompt]), PATIENCE);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// `opencode serve`, ready for requests.
    pub fn serve(&mut self) {
        let out = self.house.path("serve.out");
        let mut command = self.command(&["serve", "--port", "0", "--hostname", "127.0.0.1"]);
        command.stdout(fs::File::create(&out).unwrap()).stderr(Stdio::null());
        self.children.push(command.spawn().expect("opencode can be started"));
        self.url = self.house.wait_within(PATIENCE, "the server's address", || {
            let said = fs::read_to_string(&out).ok()?;
            let at = said.find("http://127.0.0.1:")?;
            Some(said[at..].split_whitespace().next()?.trim_end_matches('/').to_owned())
                .filter(|_| said.contains('\n'))
        });
    }

    /// A request to the server; what it answered.
    pub fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let mut curl = self.house.command("curl");
        curl.args(["-s", "--max-time", "170", "-X", method]).arg(format!("{}{path}", self.url));
        if let Some(body) = body {
            curl.args(["-H", "Content-Type: application/json", "-d", &body.to_string()]);
        }
        let output = curl.output().expect("curl must be installed");
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    /// A new session of the server's that was given a prompt.
    pub fn prompted(&self, prompt: &str) -> String {
        let session = self.ask("POST", "/session", Some(json!({})));
        let session = session["id"].as_str().unwrap_or_else(|| panic!("{session}")).to_owned();
        self.prompt(&session, prompt);
        session
    }

    pub fn prompt(&self, session: &str, prompt: &str) {
        let parts = json!({"parts": [{"type": "text", "text": prompt}]});
        self.ask("POST", &format!("/session/{session}/prompt_async"), Some(parts));
    }

    /// The id of what a session of the server's asks: `permission` or `question`.
    pub fn asked(&self, what: &str) -> String {
        self.house.wait_within(PATIENCE, what, || {
            self.ask("GET", &format!("/{what}"), None).pointer("/0/id")?.as_str().map(str::to_owned)
        })
    }

    /// What the provider was asked.
    pub fn provider_log(&self) -> String {
        fs::read_to_string(self.house.path("provider.log")).unwrap_or_default()
    }
}

impl House {
    /// OpenCode's own screen in a window beside the agent's; the pane's id, once it can be typed into.
    pub fn opencode_pane(&self, opencode: &Opencode<'_>, arguments: &[&str]) -> String {
        let command = opencode.command(arguments);
        let mut window = vec![
            "new-window".to_owned(),
            "-d".to_owned(),
            "-P".to_owned(),
            "-F".to_owned(),
            "#{pane_id}".to_owned(),
        ];
        window.extend(["-c".to_owned(), self.proj().display().to_string()]);
        for (name, value) in command.get_envs().filter_map(|(name, value)| Some((name, value?))) {
            if name.to_string_lossy().starts_with("OPENCODE_") || name == "HOME" {
                window.extend([
                    "-e".to_owned(),
                    format!("{}={}", name.to_string_lossy(), value.to_string_lossy()),
                ]);
            }
        }
        window.push(command.get_program().to_string_lossy().into_owned());
        window.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let words: Vec<&str> = window.iter().map(String::as_str).collect();
        let pane = self.tmux(&words);
        self.wait_within(PATIENCE, "OpenCode's prompt", || {
            let screen = self.tmux(&["capture-pane", "-p", "-t", &pane]);
            screen.contains("Ask anything").then_some(())
        });
        pane
    }
}
