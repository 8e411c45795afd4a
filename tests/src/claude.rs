//! The real Claude Code CLI in a house: installed from npm once, on a mock of the model's API.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::binaries;
use crate::fetched;
use crate::house::{House, HouseBuilder};

/// The version that the tests are written for.
pub const VERSION: &str = "2.1.332";
const KEY: &str = "sk-ant-test-dummy-0123456789abcdefghij";

/// The mock of the model's API, a Python script; ends when dropped.
#[derive(Debug)]
pub struct Mock {
    child: Child,
    log: PathBuf,
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Claude's executable, installed if it is not there; or why it can't be had.
pub fn installed() -> Result<PathBuf, String> {
    installed_in(&binaries::target())
}

/// [`installed`] into a folder for what is built.
pub fn installed_in(target: &Path) -> Result<PathBuf, String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the test knows the package for Linux on x86_64 only".into());
    }
    let target = target.join(format!("npm-claude-{VERSION}"));
    let claude = target.join("node_modules/@anthropic-ai/claude-code-linux-x64/claude");
    fetched::npm(&format!("@anthropic-ai/claude-code-linux-x64@{VERSION}"), &target, &claude)?;
    Ok(claude)
}

/// Claude's executable; without the registry this fails in CI and is skipped elsewhere, saying so.
pub fn or_skip() -> Option<PathBuf> {
    fetched::or_skip("Claude Code from npm", installed())
}

/// A house with the real Claude, ready, under these settings.
pub fn ready(settings: &str) -> Option<House> {
    let house = House::with_claude(&or_skip()?);
    house.write_settings(settings);
    house.start();
    house.wait_ready();
    Some(house)
}

impl House {
    /// A house with the real Claude, nothing started but the mock.
    pub fn with_claude(claude: &Path) -> House {
        House::with_claude_in(House::builder(), claude)
    }

    /// [`House::with_claude`], built otherwise.
    pub fn with_claude_in(builder: HouseBuilder, claude: &Path) -> House {
        let mut house = builder.build();
        let port = house.start_mock();
        fs::create_dir_all(house.home().join(".claude")).unwrap();
        let project = house.proj().display().to_string();
        let state = json!({
            "hasCompletedOnboarding": true, "theme": "dark", "hasSeenAutoDefaultNotice": true,
            "customApiKeyResponses": {"approved": [&KEY[KEY.len() - 20..]], "rejected": []},
            "projects": {project: {"hasTrustDialogAccepted": true}},
        });
        fs::write(house.home().join(".claude.json"), state.to_string()).unwrap();
        let settings = r#"{"skipDangerousModePermissionPrompt": true}"#;
        fs::write(house.home().join(".claude/settings.json"), settings).unwrap();
        house.set_env("CCMUX_AGENT_COMMAND", format!("{} --dangerously-skip-permissions", claude.display()));
        house.set_env("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{port}"));
        house.set_env("ANTHROPIC_API_KEY", KEY);
        // As root Claude refuses to skip permissions otherwise.
        house.set_env("IS_SANDBOX", "1");
        for name in [
            "DISABLE_TELEMETRY",
            "DISABLE_AUTOUPDATER",
            "DISABLE_ERROR_REPORTING",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        ] {
            house.set_env(name, "1");
        }
        house
    }

    fn start_mock(&self) -> u16 {
        let (log, port_file) = (self.path("mock.log"), self.path("mock.port"));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/mock_api.py");
        let mut python = self.command("python3");
        python.arg(script).args(["--port", "0", "--port-file"]).arg(&port_file).arg("--log").arg(&log);
        let child =
            python.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("python3 must be installed");
        *self.mock.lock().unwrap() = Some(Mock { child, log });
        self.wait_for("the mock's port", || fs::read_to_string(&port_file).ok()?.trim().parse().ok())
    }

    /// What the model's API got as the user's words, in order.
    pub fn model_prompts(&self) -> Vec<String> {
        let log = self.mock.lock().unwrap().as_ref().map(|mock| mock.log.clone());
        let text = log.and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let prompts = lines.filter(|line| line["kind"] == "prompt");
        prompts.filter_map(|line| line["text"].as_str().map(str::to_owned)).collect()
    }
}
