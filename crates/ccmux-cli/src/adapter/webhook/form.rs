//! The body of a request → a message. Pure.
//!
//! | `Content-Type` | message |
//! |---|---|
//! | `application/json` | an object: `content`, optional `id`, `ts`, `meta`; other fields are ignored |
//! | `application/x-www-form-urlencoded` | the same fields; others go into `meta` |
//! | `text/plain` | the body as it stands |
//!
//! What can't be read is told, not guessed: here, unlike at a FIFO, somebody listens to the answer.

use ccmux_wire::control::SendRequest;
use ccmux_wire::inbound::MAX_ID_BYTES;
use hyper::StatusCode;
use serde_json::{Map, Value};

/// Why a body is no message.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub status: StatusCode,
    pub why: String,
}

/// How the body is read.
#[derive(Debug, Clone, Copy)]
pub struct Form<'a> {
    /// The `Content-Type` header.
    pub content_type: Option<&'a str>,
    /// The body is the text, whatever it is.
    pub raw: bool,
}

/// Reads a body; its channel is not among what it may say.
pub fn read(body: &[u8], form: Form<'_>) -> Result<SendRequest, Unreadable> {
    let kind = form.content_type.unwrap_or("application/json").split(';').next().unwrap_or_default().trim();
    let message = match kind.to_ascii_lowercase().as_str() {
        _ if form.raw => text(body),
        "application/json" => json(body),
        "application/x-www-form-urlencoded" => fields(body),
        "text/plain" => text(body),
        other => Err(Unreadable {
            status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
            why: format!("{other:?} is not read here: send JSON, a form or text/plain"),
        }),
    }?;
    if message.content.trim().is_empty() {
        return Err(bad("the content is empty"));
    }
    Ok(message)
}

fn bad(why: impl Into<String>) -> Unreadable {
    Unreadable { status: StatusCode::BAD_REQUEST, why: why.into() }
}

fn message(content: String) -> SendRequest {
    SendRequest { channel: None, content, id: None, ts: None, meta: None, wait: None, timeout_s: None }
}

fn text(body: &[u8]) -> Result<SendRequest, Unreadable> {
    let text = std::str::from_utf8(body).map_err(|error| bad(format!("the body is no UTF-8: {error}")))?;
    Ok(message(text.strip_suffix('\n').unwrap_or(text).to_owned()))
}

fn json(body: &[u8]) -> Result<SendRequest, Unreadable> {
    let value: Value =
        serde_json::from_slice(body).map_err(|error| bad(format!("the body is no JSON: {error}")))?;
    let Value::Object(mut fields) = value else { return Err(bad("the body is no JSON object")) };
    let mut take = |name: &str| fields.remove(name).filter(|value| !value.is_null());
    let content = match take("content") {
        Some(Value::String(content)) => content,
        Some(_) => return Err(bad("content is no string")),
        None => return Err(bad("content is missing")),
    };
    let id = take("id").map(id_of).transpose()?;
    let ts = take("ts").map(|ts| ts.as_f64().ok_or_else(|| bad("ts is no number"))).transpose()?;
    let meta = match take("meta") {
        Some(meta) if !meta.is_object() => return Err(bad("meta is no object")),
        meta => meta,
    };
    Ok(SendRequest { id, ts, meta, ..message(content) })
}

fn id_of(value: Value) -> Result<String, Unreadable> {
    let id = match value {
        Value::String(id) => id,
        Value::Number(id) => id.to_string(),
        _ => return Err(bad("id is neither a string nor a number")),
    };
    match id.len() {
        1..=MAX_ID_BYTES => Ok(id),
        bytes => Err(bad(format!("id has {bytes} bytes, 1 to {MAX_ID_BYTES} are allowed"))),
    }
}

fn fields(body: &[u8]) -> Result<SendRequest, Unreadable> {
    let (mut found, mut meta) = (None, Map::new());
    let (mut id, mut ts) = (None, None);
    for (name, value) in form_urlencoded::parse(body) {
        match name.as_ref() {
            "content" => found = Some(value.into_owned()),
            "id" => id = Some(id_of(Value::String(value.into_owned()))?),
            "ts" => ts = Some(value.parse().map_err(|_| bad("ts is no number"))?),
            _ => drop(meta.insert(name.into_owned(), Value::String(value.into_owned()))),
        }
    }
    let content = found.ok_or_else(|| bad("content is missing"))?;
    let meta = (!meta.is_empty()).then_some(Value::Object(meta));
    Ok(SendRequest { id, ts, meta, ..message(content) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_as(content_type: &str, body: &str) -> Result<SendRequest, Unreadable> {
        read(body.as_bytes(), Form { content_type: Some(content_type), raw: false })
    }

    fn parts(message: &SendRequest) -> (&str, Option<&str>, Option<f64>, Option<&Value>) {
        (message.content.as_str(), message.id.as_deref(), message.ts, message.meta.as_ref())
    }

    #[test]
    fn json_forms_and_text_say_the_same() {
        let meta = json!({"host": "db1"});
        let expected = ("disk\nfull", Some("d-1"), Some(1_740_000_000.0), Some(&meta));
        let body = r#"{"content":"disk\nfull","id":"d-1","ts":1740000000,"meta":{"host":"db1"},"more":1}"#;
        for kind in ["application/json", "Application/JSON; charset=utf-8"] {
            assert_eq!(parts(&read_as(kind, body).unwrap()), expected, "{kind}");
        }
        let form = "content=disk%0Afull&id=d-1&ts=1740000000&host=db1";
        assert_eq!(parts(&read_as("application/x-www-form-urlencoded", form).unwrap()), expected);
        let plain = read_as("text/plain", "disk\nfull\n").unwrap();
        assert_eq!(parts(&plain), ("disk\nfull", None, None, None));
        let raw = read(br#"{"any":1}"#, Form { content_type: Some("application/json"), raw: true }).unwrap();
        assert_eq!(raw.content, r#"{"any":1}"#);
    }

    #[test]
    fn an_id_may_be_a_number_and_null_is_nothing() {
        let message =
            read_as("application/json", r#"{"content":"x","id":17,"ts":null,"meta":null}"#).unwrap();
        assert_eq!(parts(&message), ("x", Some("17"), None, None));
    }

    #[test]
    fn what_can_not_be_read_is_told() {
        let long = format!(r#"{{"content":"x","id":"{}"}}"#, "i".repeat(MAX_ID_BYTES + 1));
        for (body, words) in [
            ("{", "no JSON: EOF"),
            ("[1]", "no JSON object"),
            ("{}", "content is missing"),
            (r#"{"content":1}"#, "content is no string"),
            (r#"{"content":" \n"}"#, "content is empty"),
            (r#"{"content":"x","id":[]}"#, "id is neither"),
            (r#"{"content":"x","id":""}"#, "id has 0 bytes"),
            (long.as_str(), "id has 257 bytes"),
            (r#"{"content":"x","ts":"now"}"#, "ts is no number"),
            (r#"{"content":"x","meta":"m"}"#, "meta is no object"),
        ] {
            let found = read_as("application/json", body).unwrap_err();
            assert_eq!(found.status, StatusCode::BAD_REQUEST, "{body}");
            assert!(found.why.contains(words), "{body}: {}", found.why);
        }
        let image = read_as("image/png", "x").unwrap_err();
        assert_eq!(image.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        let no_utf8 = read(b"\xff", Form { content_type: Some("text/plain"), raw: false }).unwrap_err();
        assert_eq!(no_utf8.status, StatusCode::BAD_REQUEST);
    }
}
