//! The daemon's HTTP door, as raw as a test needs it: requests by their lines, tool calls on one connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::house::House;
use crate::patience::LIMIT;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    pub body: String,
}

impl House {
    /// The port of the HTTP server.
    pub fn http_port(&self) -> u16 {
        self.status().mcp.port.expect("a port")
    }

    /// The bearer token.
    pub fn http_token(&self) -> String {
        std::fs::read_to_string(self.state_dir().join("mcp.token")).unwrap().trim().to_owned()
    }

    /// The lines of a request that is let in, without the empty one at its end.
    pub fn request(&self, method: &str, path: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n",
            self.http_port(),
            self.http_token()
        )
    }

    /// Sends the lines of a request on a connection of its own; the answer, as far as it goes without a stream's lines.
    pub fn ask(&self, lines: &str, body: &str) -> Answer {
        let mut stream = self.http_connection();
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        // A server that refuses by the head alone may hang up before it has all.
        let _ = stream.write_all(format!("{lines}{length}\r\n{body}").as_bytes());
        answer(&mut BufReader::new(stream))
    }

    fn http_connection(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.http_port())).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Somebody who calls Claude's tools, as Claude does.
    pub fn caller(&self) -> Caller {
        Caller { head: self.request("POST", "/mcp"), stream: BufReader::new(self.http_connection()) }
    }
}

/// Calls tools over `/mcp`, one after the other on one connection.
#[derive(Debug)]
pub struct Caller {
    head: String,
    stream: BufReader<TcpStream>,
}

impl Caller {
    /// The result's text; an error of the tool is `Err`.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<String, String> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}})
        .to_string();
        let request = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let answer = answer(&mut self.stream);
        assert_eq!(answer.status, 200, "{answer:?}");
        let reply: Value = serde_json::from_str(&answer.body).unwrap();
        let text = reply["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply}"));
        if reply["result"]["isError"] == true { Err(text.to_owned()) } else { Ok(text.to_owned()) }
    }

    /// `send_to_channel`
    pub fn send(&mut self, channel: &str, message: &str) -> Result<String, String> {
        self.call("send_to_channel", &json!({"channel": channel, "message": message}))
    }
}

/// An answer whose body tells its length; of any other one the head.
fn answer(stream: &mut BufReader<TcpStream>) -> Answer {
    let mut head = String::new();
    while stream.read_line(&mut head).is_ok_and(|read| read > 2) {}
    let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    let _ = stream.read_exact(&mut body);
    Answer { status, head, body: String::from_utf8_lossy(&body).into_owned() }
}
