//! What `/metrics` tells, read by Prometheus' own parser: the Python package `prometheus_client`, installed once into a
//! virtual environment below the target folder.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::fetched;
use crate::house::House;

/// The parser's release that the tests are written for.
const PACKAGE: &str = "prometheus_client==0.22.1";

/// The page as it came, and its samples as the parser understood them.
#[derive(Debug)]
pub struct MetricsPage {
    /// Its text.
    pub text: String,
    samples: Vec<Value>,
}

impl MetricsPage {
    /// The value of the one sample of that name whose labels include these.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let fits = |one: &&Value| {
            one["name"] == name && labels.iter().all(|(label, value)| one["labels"][label] == *value)
        };
        self.samples.iter().find(fits)?["value"].as_f64()
    }

    /// Names of all samples' families.
    pub fn types(&self) -> Vec<(String, String)> {
        let word = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
        self.samples.iter().map(|one| (word(one, "name"), word(one, "type"))).collect()
    }
}

/// The parser's Python, installed if it is not there. Without the registry this fails in CI and is skipped elsewhere,
/// saying so.
pub fn parser_or_skip() -> Option<PathBuf> {
    fetched::or_skip(PACKAGE, fetched::python(PACKAGE))
}

impl House {
    /// `/metrics` as it comes, with the status of the answer.
    pub fn metrics_text(&self, with_token: bool) -> (String, String) {
        let port = self.status().mcp.port.expect("the port is bound");
        let mut curl = self.command("curl");
        curl.args(["--silent", "--write-out", "\n%{http_code} %{content_type}"]);
        if with_token {
            let token = fs::read_to_string(self.state_dir().join("mcp.token")).unwrap();
            curl.args(["--header", &format!("Authorization: Bearer {token}")]);
        }
        curl.arg(format!("http://127.0.0.1:{port}/metrics"));
        let text = String::from_utf8(self.run_to_end(curl).stdout).unwrap();
        let (page, answer) = text.rsplit_once('\n').expect("the answer's status");
        (page.to_owned(), answer.to_owned())
    }

    /// `/metrics`, parsed.
    pub fn metrics(&self, python: &Path) -> MetricsPage {
        let (text, _) = self.metrics_text(true);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/read_metrics.py");
        let mut parser = Command::new(python);
        parser.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = parser.spawn().expect("the parser can be started");
        child.stdin.take().expect("its stdin").write_all(text.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
        let samples = serde_json::from_slice(&output.stdout).expect("JSON");
        MetricsPage { text, samples }
    }
}
