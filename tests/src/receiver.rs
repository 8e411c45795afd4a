//! Services that take notices: an HTTP server on this machine that takes what a service's documents allow, and refuses
//! the rest as the service does, with status 200 where the service does that.
//!
//! ```text
//! /robot/send?…    DingTalk        /message     Gotify       /slack/…    Slack      /discord/…           Discord
//! /open-apis/…     Lark            /            ntfy         /teams/…    Teams      /bot…/sendMessage    Telegram
//! ```
//!
//! Written from the services' documents, without a line of the program's own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

/// The secret of everything here: it must stand nowhere else.
pub const CANARY: &str = "canary0Secret";

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub query: BTreeMap<String, String>,
    /// By their names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Request {
    /// The body, which must be JSON and say so.
    fn json(&self) -> Result<Value, String> {
        let kind = self.headers.get("content-type").map(String::as_str).unwrap_or_default();
        ensure(kind.starts_with("application/json"), "content type")?;
        serde_json::from_str(&self.body).map_err(|error| error.to_string())
    }

    fn has_header(&self, name: &str, value: &str) -> Result<(), String> {
        ensure(self.headers.get(name).is_some_and(|there| there == value), name)
    }
}

/// Status and body.
pub type Answer = (u16, String);

/// The server; it ends with the test.
#[derive(Debug)]
pub struct Receiver {
    port: u16,
    came: Arc<Mutex<Vec<Request>>>,
}

impl Receiver {
    /// Answers as every service would.
    pub fn strict() -> Self {
        Self::answering(judge)
    }

    /// Answers as the test wants.
    pub fn answering(answer: impl Fn(&Request) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let came: Arc<Mutex<Vec<Request>>> = Arc::default();
        let book = Arc::clone(&came);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Some((request, mut stream)) = read(stream) else { continue };
                let (status, body) = answer(&request);
                book.lock().unwrap_or_else(PoisonError::into_inner).push(request);
                let head = format!(
                    "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        Self { port, came }
    }

    /// Where it is.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// What came so far.
    pub fn came(&self) -> Vec<Request> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn read(stream: TcpStream) -> Option<(Request, TcpStream)> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers: BTreeMap<String, String> = lines
        .iter()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut body = vec![0; headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let target = lines.first()?.strip_prefix("POST ")?.strip_suffix(" HTTP/1.1")?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let request = Request { path: path.to_owned(), query, headers, body: String::from_utf8(body).ok()? };
    Some((request, reader.into_inner()))
}

fn judge(request: &Request) -> Answer {
    let path = request.path.as_str();
    match path.split('/').nth(1).unwrap_or_default() {
        "robot" => match dingtalk(request) {
            Ok(()) => (200, json!({"errcode": 0, "errmsg": "ok"}).to_string()),
            Err(why) => (200, json!({"errcode": 310_000, "errmsg": format!("{why} {CANARY}")}).to_string()),
        },
        "open-apis" => match lark(request) {
            Ok(()) => (200, json!({"StatusCode": 0, "code": 0, "data": {}, "msg": "success"}).to_string()),
            Err(why) => (200, json!({"code": 19_021, "msg": format!("{why} {CANARY}")}).to_string()),
        },
        "message" => match gotify(request) {
            Ok(()) => (
                200,
                json!({"id": 25, "appid": 5, "message": "x", "date": "2026-03-01T00:00:00Z"}).to_string(),
            ),
            Err(why) => {
                (400, json!({"error": "Bad Request", "errorCode": 400, "errorDescription": why}).to_string())
            }
        },
        "" => match ntfy(request) {
            Ok(()) => {
                (200, json!({"id": "hwQ2YpKdmg", "time": 1, "event": "message", "topic": "t"}).to_string())
            }
            Err(why) => (400, json!({"code": 40_017, "http": 400, "error": why}).to_string()),
        },
        "slack" => slack(request).map_or_else(|why| (400, why), |()| (200, "ok".to_owned())),
        "teams" => teams(request).map_or_else(|why| (400, why), |()| (202, String::new())),
        "discord" => match discord(request) {
            Ok(()) => (200, json!({"id": "1", "content": "x"}).to_string()),
            Err(why) => (400, json!({"code": 50_035, "message": why}).to_string()),
        },
        _ => match telegram(request) {
            Ok(()) => (200, json!({"ok": true, "result": {"message_id": 1}}).to_string()),
            Err(why) => (400, json!({"ok": false, "error_code": 400, "description": why}).to_string()),
        },
    }
}

fn ensure(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn signed(key: &str, text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

/// Within the hour that both robots allow.
fn is_fresh(seconds: u64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    now.abs_diff(seconds) < 3_600
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    keys
}

fn text_of(value: &Value) -> Result<&str, String> {
    value.as_str().filter(|text| !text.is_empty()).ok_or_else(|| format!("no text: {value}"))
}

fn dingtalk(request: &Request) -> Result<(), String> {
    let query = |name: &str| request.query.get(name).cloned().unwrap_or_default();
    ensure(request.path == "/robot/send" && query("access_token") == CANARY, "token")?;
    let stamp = query("timestamp");
    let fresh = stamp.parse::<u64>().is_ok_and(|ms| stamp.len() == 13 && is_fresh(ms / 1000));
    ensure(fresh, "timestamp")?;
    ensure(query("sign") == signed(CANARY, &format!("{stamp}\n{CANARY}")), "sign")?;
    let body = request.json()?;
    ensure(request.body.len() <= 20_000, "size")?;
    ensure(keys(&body) == ["at", "msgtype", "text"] && body["msgtype"] == "text", "msgtype")?;
    ensure(body["at"]["isAtAll"] == false, "at")?;
    text_of(&body["text"]["content"]).map(drop)
}

fn lark(request: &Request) -> Result<(), String> {
    ensure(request.path == format!("/open-apis/bot/v2/hook/{CANARY}"), "token")?;
    let body = request.json()?;
    ensure(request.body.len() <= 20_000, "size")?;
    let stamp = text_of(&body["timestamp"])?;
    ensure(stamp.parse().is_ok_and(is_fresh), "timestamp")?;
    ensure(text_of(&body["sign"])? == signed(&format!("{stamp}\n{CANARY}"), ""), "sign")?;
    ensure(body["msg_type"] == "post", "msg_type")?;
    let post = &body["content"]["post"]["en_us"];
    text_of(&post["title"])?;
    let paragraphs = post["content"].as_array().filter(|lines| !lines.is_empty()).ok_or("content")?;
    for element in paragraphs.iter().flat_map(|paragraph| paragraph.as_array().into_iter().flatten()) {
        ensure(element["tag"] == "text" && element["text"].is_string(), "tag")?;
    }
    Ok(())
}

fn gotify(request: &Request) -> Result<(), String> {
    request.has_header("x-gotify-key", CANARY)?;
    let body = request.json()?;
    text_of(&body["title"])?;
    text_of(&body["message"])?;
    ensure(body["priority"].as_u64().is_some_and(|priority| priority <= 10), "priority")?;
    ensure(body["extras"]["client::display"]["contentType"] == "text/plain", "extras")
}

fn ntfy(request: &Request) -> Result<(), String> {
    request.has_header("authorization", &format!("Bearer {CANARY}"))?;
    let body = request.json()?;
    ensure(body["topic"] == CANARY, "topic")?;
    ensure(text_of(&body["message"])?.len() <= 4_096, "message")?;
    text_of(&body["title"])?;
    ensure(body["priority"].as_u64().is_some_and(|priority| (1..=5).contains(&priority)), "priority")?;
    ensure(body["tags"].as_array().is_some_and(|tags| tags.iter().all(Value::is_string)), "tags")?;
    let actions = body["actions"].as_array().map(Vec::as_slice).unwrap_or_default();
    ensure(actions.len() <= 3, "actions")?;
    for action in actions {
        ensure(action["action"] == "http" && action["url"].is_string(), "action")?;
        text_of(&action["label"])?;
    }
    Ok(())
}

fn slack(request: &Request) -> Result<(), String> {
    ensure(request.path == format!("/slack/{CANARY}"), "no_service")?;
    let body = request.json().map_err(|_| "invalid_payload")?;
    let text = text_of(&body["text"]).map_err(|_| "no_text")?;
    let is_entity = |rest: &str| ["amp;", "lt;", "gt;"].iter().any(|entity| rest.starts_with(entity));
    let escaped = !text.contains(['<', '>']) && text.split('&').skip(1).all(is_entity);
    ensure(escaped && text.chars().count() <= 4_000, "invalid_payload")
}

fn teams(request: &Request) -> Result<(), String> {
    ensure(request.path == format!("/teams/{CANARY}"), "url")?;
    let body = request.json()?;
    ensure(request.body.len() <= 28 * 1024 && body["type"] == "message", "message")?;
    let attachment = &body["attachments"][0];
    ensure(attachment["contentType"] == "application/vnd.microsoft.card.adaptive", "contentType")?;
    let card = &attachment["content"];
    ensure(card["type"] == "AdaptiveCard" && card["version"] == "1.2", "card")?;
    let blocks = card["body"].as_array().filter(|blocks| !blocks.is_empty()).ok_or("body")?;
    for block in blocks {
        let run = &block["inlines"][0];
        ensure(
            block["type"] == "RichTextBlock" && run["type"] == "TextRun" && run["text"].is_string(),
            "block",
        )?;
    }
    Ok(())
}

fn discord(request: &Request) -> Result<(), String> {
    ensure(request.path == format!("/discord/{CANARY}"), "webhook")?;
    ensure(request.query.get("wait").is_some_and(|wait| wait == "true"), "wait")?;
    let body = request.json()?;
    ensure(text_of(&body["content"])?.encode_utf16().count() <= 2_000, "content")?;
    ensure(body["allowed_mentions"] == json!({"parse": []}), "mentions")
}

fn telegram(request: &Request) -> Result<(), String> {
    ensure(request.path == format!("/bot{CANARY}/sendMessage"), "token")?;
    let body = request.json()?;
    ensure(body["chat_id"] == "-100123", "chat")?;
    ensure(text_of(&body["text"])?.encode_utf16().count() <= 4_096, "text")?;
    ensure(body.get("parse_mode").is_none(), "parse_mode")
}
