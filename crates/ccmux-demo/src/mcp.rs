//! A client of one MCP server over stdio or streamable HTTP: as much of it as a tool call needs.
//!
//! Reads the `--mcp-config` files that Claude Code would read. Each call is two requests, `initialize` and `tools/call`:
//! over HTTP each on a connection of its own, over stdio to a program that is started for the call. Servers of other
//! types are as good as not connected.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::Outcome;

const LIMIT: Duration = Duration::from_secs(60);
/// What begins the names of the server's tools.
const PREFIX: &str = "mcp__ccmux__";

/// Where the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// It listens already.
    Http(HttpServer),
    /// It is to be started.
    Stdio(StdioServer),
}

/// Streamable HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpServer {
    authority: String,
    path: String,
    /// Whole lines.
    headers: String,
}

/// A program, and what it adds to our environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioServer {
    command: String,
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
}

impl Server {
    /// The server called `ccmux` of the first of these files that has one.
    pub fn of_files(files: &[String]) -> Option<Self> {
        files.iter().find_map(|file| {
            let config: Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
            Self::of_entry(&config["mcpServers"]["ccmux"])
        })
    }

    fn of_entry(entry: &Value) -> Option<Self> {
        match entry["type"].as_str()? {
            "http" => HttpServer::of_entry(entry).map(Self::Http),
            "stdio" => StdioServer::of_entry(entry).map(Self::Stdio),
            _ => None,
        }
    }

    /// Calls a tool by the name that the model knows. Blocks. Exit code 0 is a result, 1 a tool error, none: no answer.
    pub fn call(&self, name: &str, arguments: &Value) -> Outcome {
        let tool = name.strip_prefix(PREFIX).unwrap_or(name);
        match self.try_call(tool, arguments) {
            Ok(result) => {
                let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
                let failed = result["isError"] == json!(true);
                Outcome { code: Some(i32::from(failed)), stdout: text, stderr: String::new() }
            }
            Err(problem) => Outcome { code: None, stdout: String::new(), stderr: problem.to_string() },
        }
    }

    fn try_call(&self, tool: &str, arguments: &Value) -> io::Result<Value> {
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "ccmux-demo-agent", "version": env!("CARGO_PKG_VERSION")},
        });
        let call = json!({"name": tool, "arguments": arguments});
        let requests = [("initialize", hello), ("tools/call", call)];
        match self {
            Self::Http(server) => {
                requests.iter().try_fold(Value::Null, |_, (method, params)| server.ask(method, params))
            }
            Self::Stdio(server) => server.ask(&requests),
        }
    }
}

impl StdioServer {
    fn of_entry(entry: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            command: text(&entry["command"])?,
            arguments: entry["args"].as_array().into_iter().flatten().filter_map(text).collect(),
            environment: entry["env"]
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(name, value)| Some((name.clone(), text(value)?)))
                .collect(),
        })
    }

    /// Asks one after the other; the last result.
    fn ask(&self, requests: &[(&str, Value)]) -> io::Result<Value> {
        let mut command = Command::new(&self.command);
        command.args(&self.arguments).envs(&self.environment);
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let mut said = BufReader::new(server.stdout.take().ok_or_else(gone)?);
        let mut result = Ok(Value::Null);
        if let Some(mut input) = server.stdin.take() {
            for (method, params) in requests {
                let request = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
                writeln!(input, "{request}")?;
                result = answer_to(method, &mut said);
            }
        }
        // Its input has ended: it ends.
        server.wait()?;
        result
    }
}

/// Reads until there is the answer; whatever else the server says is not for us.
fn answer_to(id: &str, said: &mut impl BufRead) -> io::Result<Value> {
    loop {
        let mut line = String::new();
        if said.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let reply: Value = serde_json::from_str(&line)?;
        if reply["id"] == id {
            return outcome_of(&reply, "an error");
        }
    }
}

impl HttpServer {
    fn of_entry(entry: &Value) -> Option<Self> {
        let (authority, path) = entry["url"].as_str()?.strip_prefix("http://")?.split_once('/')?;
        let headers = entry["headers"].as_object().into_iter().flatten();
        let headers =
            headers.filter_map(|(name, value)| value.as_str().map(|value| format!("{name}: {value}\r\n")));
        Some(Self { authority: authority.to_owned(), path: format!("/{path}"), headers: headers.collect() })
    }

    fn ask(&self, method: &str, params: &Value) -> io::Result<Value> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let mut stream = TcpStream::connect(&self.authority)?;
        stream.set_read_timeout(Some(LIMIT))?;
        write!(
            stream,
            "POST {} HTTP/1.1\r\nHost: {}\r\n{}Accept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.path,
            self.authority,
            self.headers,
            body.len()
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        result_of(&String::from_utf8_lossy(&answer))
    }
}

/// The result in an answer that is one JSON text with a length.
fn result_of(answer: &str) -> io::Result<Value> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.lines().next().unwrap_or_default();
    let reply: Value =
        serde_json::from_str(body).map_err(|_| io::Error::other(format!("{status}: {body}")))?;
    outcome_of(&reply, status)
}

fn outcome_of(reply: &Value, otherwise: &str) -> io::Result<Value> {
    match reply.get("result") {
        Some(result) => Ok(result.clone()),
        None => Err(io::Error::other(reply["error"]["message"].as_str().unwrap_or(otherwise).to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    use super::*;

    /// A server that gives these results, one a connection; returns the requests' heads and bodies.
    fn serve(results: Vec<Value>) -> (Server, std::thread::JoinHandle<Vec<(String, Value)>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let entry = json!({"type": "http", "url": url, "headers": {"Authorization": "Bearer t"}});
        let server = Server::of_entry(&entry).unwrap();
        let answer = move |result: &Value| {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(stream.read_line(&mut head).unwrap() > 0);
            }
            let length = head.split("Content-Length: ").nth(1).unwrap().lines().next().unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            let reply = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
            write!(stream.get_mut(), "HTTP/1.1 200 OK\r\n\r\n{reply}").unwrap();
            (head, serde_json::from_slice(&body).unwrap())
        };
        (server, std::thread::spawn(move || results.iter().map(answer).collect()))
    }

    #[test]
    fn a_tool_is_called_with_the_headers_of_the_entry_and_its_error_is_one() {
        let text = |text: &str, failed: bool| json!({"content": [{"type": "text", "text": text}], "isError": failed});
        let (server, asked) = serve(vec![json!({}), text("sent", false), json!({}), text("nobody", true)]);
        let arguments = json!({"channel": "x", "message": "hi"});
        let done = server.call("mcp__ccmux__send_to_channel", &arguments);
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), "sent"));
        let done = server.call("mcp__ccmux__send_to_channel", &arguments);
        assert_eq!((done.code, done.stdout.as_str()), (Some(1), "nobody"));
        let asked = asked.join().unwrap();
        assert!(asked.iter().all(|(head, _)| head.contains("\r\nAuthorization: Bearer t\r\n")), "{asked:?}");
        assert_eq!(asked[1].1["params"], json!({"name": "send_to_channel", "arguments": arguments}));
    }

    #[test]
    fn a_server_that_is_gone_gives_no_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        drop(listener);
        let server = Server::of_entry(&json!({"type": "http", "url": url})).unwrap();
        assert_eq!(server.call("mcp__ccmux__list_channels", &json!({})).code, None);
    }

    #[test]
    fn a_server_over_stdio_is_started_for_the_call_with_its_own_variables() {
        let script = r#"
            while read -r line; do
                case $line in
                    *initialize*) echo '{"jsonrpc":"2.0","method":"notifications/x"}'; id=initialize ;;
                    *) id=tools/call ;;
                esac
                echo '{"jsonrpc":"2.0","id":"'$id'","result":{"content":[{"type":"text","text":"'$SAID'"}]}}'
            done"#;
        let entry =
            json!({"type": "stdio", "command": "sh", "args": ["-c", script], "env": {"SAID": "sent"}});
        let done = Server::of_entry(&entry).unwrap().call("mcp__ccmux__send_to_channel", &json!({}));
        assert_eq!((done.code, done.stdout.as_str()), (Some(0), "sent"), "{}", done.stderr);
        let entry = json!({"type": "stdio", "command": "true"});
        assert_eq!(Server::of_entry(&entry).unwrap().call("x", &json!({})).code, None);
    }

    #[test]
    fn only_a_server_called_ccmux_of_a_known_type_counts() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            path.display().to_string()
        };
        let other = file("a", r#"{"mcpServers":{"x":{"type":"http","url":"http://127.0.0.1:1/mcp"}}}"#);
        let sse = file("b", r#"{"mcpServers":{"ccmux":{"type":"sse","url":"http://127.0.0.1:1/sse"}}}"#);
        let ours = file("c", r#"{"mcpServers":{"ccmux":{"type":"http","url":"http://127.0.0.1:1/mcp"}}}"#);
        assert_eq!(Server::of_files(&["/nowhere".into(), other.clone(), sse.clone()]), None);
        assert!(Server::of_files(&[other, sse, ours]).is_some());
    }
}
