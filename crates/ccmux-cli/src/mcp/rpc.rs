//! JSON-RPC 2.0 as MCP uses it: one message a line. It knows no method.
//!
//! ```text
//! {"jsonrpc":"2.0","id":1,"method":"ping"}  ──► Heard::Request     ──► {"jsonrpc":"2.0","id":1,"result":{}}
//! {"jsonrpc":"2.0","method":"notifications/x"} ► Heard::Notification
//! not JSON                                  ──► Heard::Nonsense    ──► {"jsonrpc":"2.0","id":null,"error":{…}}
//! ```

use std::io::{self, BufRead, Read};

use ccmux_wire::halves;
use serde_json::{Value, json};

/// The line is no JSON.
const NO_JSON: i32 = -32700;
/// It is none of JSON-RPC's messages.
pub const INVALID: i32 = -32600;
/// There is no such method.
pub const NO_METHOD: i32 = -32601;
/// The parameters are not of the method's form.
pub const BAD_PARAMS: i32 = -32602;

/// The longest line: a message of 1 MiB in which every character is escaped is shorter.
const LINE_BYTES: u64 = 8 * 1024 * 1024;

/// What came in.
pub enum Line {
    Whole(Vec<u8>),
    /// Over the limit; skipped.
    TooLong,
}

/// What a line says.
#[derive(Debug, PartialEq)]
pub enum Heard {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// To a request of ours; we have none.
    Answer,
    /// What to say about it.
    Nonsense(Value),
}

/// The next line; `None` at the end of the input.
pub fn next_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    if input.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.ends_with(b"\n") || (line.len() as u64) < LINE_BYTES {
        return Ok(Some(Line::Whole(line)));
    }
    skip_line(input)?;
    Ok(Some(Line::TooLong))
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let there = input.fill_buf()?;
        if there.is_empty() {
            return Ok(());
        }
        let newline = there.iter().position(|byte| *byte == b'\n');
        let used = newline.map_or(there.len(), |at| at + 1);
        input.consume(used);
        if newline.is_some() {
            return Ok(());
        }
    }
}

/// Reads a line.
pub fn read(line: &[u8]) -> Heard {
    if line.trim_ascii().is_empty() {
        return Heard::Answer;
    }
    // Nonsense gets an answer that belongs to no call, and Claude would wait for its own very long.
    let mut message = match halves::from_slice(line) {
        Ok(Value::Object(message)) => message,
        Ok(_) => return Heard::Nonsense(error(&Value::Null, INVALID, "one message a line, an object")),
        Err(why) => {
            return Heard::Nonsense(error(&Value::Null, NO_JSON, &format!("the line is no JSON: {why}")));
        }
    };
    let params = message.remove("params").unwrap_or_default();
    match (message.remove("id"), message.remove("method")) {
        (Some(id @ (Value::String(_) | Value::Number(_))), Some(Value::String(method))) => {
            Heard::Request { id, method, params }
        }
        (None, Some(Value::String(method))) => Heard::Notification { method, params },
        (Some(_), None) => Heard::Answer,
        _ => Heard::Nonsense(error(&Value::Null, INVALID, "a request has an `id` and a `method`")),
    }
}

/// An answer.
pub fn result(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// A refusal.
pub fn error(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn requests_notifications_and_answers_are_told_apart() {
        let request = read(br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#);
        assert_eq!(request, Heard::Request { id: "a".into(), method: "ping".into(), params: Value::Null });
        let notification = read(br#"{"jsonrpc":"2.0","method":"notifications/x","params":{"n":1}}"#);
        assert_eq!(
            notification,
            Heard::Notification { method: "notifications/x".into(), params: json!({"n": 1}) }
        );
        assert_eq!(read(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Heard::Answer);
        assert_eq!(read(b"  \r\n"), Heard::Answer);
    }

    /// As JavaScript writes a text that was cut in the middle of a character.
    #[test]
    fn half_a_character_is_replaced_and_the_request_is_heard() {
        let params = json!({"message": "cut \u{fffd}, \u{1f600}"});
        assert_eq!(
            read(br#"{"id":1,"method":"tools/call","params":{"message":"cut \ud83d, \ud83d\ude00"}}"#),
            Heard::Request { id: 1.into(), method: "tools/call".into(), params }
        );
    }

    #[test]
    fn nonsense_gets_an_error_that_says_what_it_is() {
        for (line, code) in [
            (&b"{"[..], NO_JSON),
            (b"[]", INVALID),
            (br#"{"id":null,"method":"ping"}"#, INVALID),
            (br#"{"id":1,"method":2}"#, INVALID),
        ] {
            let Heard::Nonsense(refusal) = read(line) else { panic!("{line:?}") };
            assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&Value::Null, &json!(code)));
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_read() {
        let mut text = vec![b'x'; usize::try_from(LINE_BYTES).unwrap() + 10];
        text.extend(b"\nnext");
        let mut input = BufReader::new(text.as_slice());
        assert!(matches!(next_line(&mut input), Ok(Some(Line::TooLong))));
        match next_line(&mut input) {
            Ok(Some(Line::Whole(line))) => assert_eq!(line, b"next"),
            _ => panic!("the next line"),
        }
        assert!(matches!(next_line(&mut input), Ok(None)));
    }
}
