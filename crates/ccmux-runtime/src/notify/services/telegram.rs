//! Telegram's bots: `POST https://api.telegram.org/botTOKEN/sendMessage`.
//!
//! A text has 4,096 characters at most, as UTF-16 counts them. Without `parse_mode` nothing in it is markup. A bot sends
//! one message a second to a chat, and 20 a minute to a group. Success is `"ok": true`; whoever sends more is answered
//! 429 with `parameters.retry_after` in seconds.

use serde_json::{Value, json};

use super::super::Notice;
use super::super::pace::Limit;
use super::super::post::{Answer, PostError, seconds_of};
use super::text;

/// What Telegram takes.
pub const LIMITS: &[Limit] = &[Limit::new(1, 1_100), Limit::new(20, 62_000)];
const MAX_CHARS: usize = 4_096;

/// The notice in Telegram's form.
pub fn form(notice: &Notice, chat: &str) -> Value {
    let text = text::cut(&text::whole(notice), MAX_CHARS, text::units);
    json!({"chat_id": chat, "text": text, "link_preview_options": {"is_disabled": true}})
}

/// Whether Telegram took it.
///
/// # Errors
/// If not.
pub fn judge(answer: &Answer) -> Result<(), PostError> {
    let said = answer.json();
    let code = said["error_code"].as_i64().unwrap_or(i64::from(answer.status));
    match (said["ok"].as_bool(), code) {
        (Some(true), _) => answer.by_status(),
        (Some(false), 429) => {
            let wait = said["parameters"]["retry_after"].as_f64().and_then(seconds_of);
            Err(PostError::Limited { wait: wait.or(answer.wait) })
        }
        (Some(false), 500..) => Err(PostError::Faulty(code)),
        (Some(false), 401 | 404) => {
            Err(refused(code, "the URL must be …/bot<token>/sendMessage with the bot's token"))
        }
        (Some(false), 403) => Err(refused(code, "write to the bot first, or let it into the group")),
        (Some(false), _) => Err(refused(code, "compare the chat's id")),
        (None, _) => answer.by_status().and(Err(PostError::Stranger)),
    }
}

fn refused(code: i64, remedy: &'static str) -> PostError {
    PostError::Refused { code, remedy }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{answer, notice};
    use super::*;

    #[test]
    fn the_text_is_no_markup_and_fits() {
        let form = form(&notice("Title", "<b>*a*"), "-100");
        let expected = json!({"chat_id": "-100", "text": "Title\n<b>*a*", "link_preview_options": {"is_disabled": true}});
        assert_eq!(form, expected, "without parse_mode");
        for long in ["x", "ä", "😀"] {
            let form = super::form(&notice("T", &long.repeat(5_000)), "1");
            let units = form["text"].as_str().unwrap().encode_utf16().count();
            assert!((MAX_CHARS - 1..=MAX_CHARS).contains(&units), "{long} {units}");
        }
    }

    #[test]
    fn ok_is_what_counts_whatever_the_status() {
        assert!(judge(&answer(200, r#"{"ok":true,"result":{"message_id":1}}"#)).is_ok());
        let body = r#"{"ok":false,"error_code":429,"description":"canary","parameters":{"retry_after":14}}"#;
        for status in [200, 429] {
            let limited = judge(&answer(status, body)).unwrap_err();
            let wait = Some(Duration::from_secs(14));
            assert!(matches!(limited, PostError::Limited { wait: told } if told == wait), "{limited:?}");
        }
        let chat =
            judge(&answer(200, r#"{"ok":false,"error_code":400,"description":"canary"}"#)).unwrap_err();
        assert!(chat.to_string().contains("chat") && !chat.may_pass(), "{chat}");
        assert!(!format!("{chat:?}").contains("canary"));
        assert!(matches!(judge(&answer(200, "<html>")), Err(PostError::Stranger)));
        assert!(judge(&answer(502, "<html>")).unwrap_err().may_pass());
    }
}
