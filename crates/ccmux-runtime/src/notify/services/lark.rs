//! Lark's bots, which are Feishu's elsewhere: `POST …/open-apis/bot/v2/hook/ID`.
//!
//! The signature is base64 of HMAC-SHA256 over nothing, with `SECONDS\nSECRET` as key; it stands in the body beside
//! `timestamp`. A body has 20 KB at most; a bot sends 5 messages a second and 100 a minute. Refusals come with status
//! 200, too: `code` says what they are. Notices go as `post`, whose text elements are text: in a `text` message `<at>`
//! would call people.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::super::Notice;
use super::super::pace::Limit;
use super::super::post::{Answer, Order, PostError};
use super::super::secret::Secrets;
use super::{Service, signature, text};
use crate::settings::services::RobotSettings;

const LIMITS: &[Limit] = &[Limit::new(5, 1_200), Limit::new(100, 62_000)];
const MAX_BODY_BYTES: usize = 20_000;
const MAX_TITLE_CHARS: usize = 200;
/// What stands around the text, title and signature included.
const FRAME_BYTES: usize = 3_000;
/// What stands around a line.
const LINE_BYTES: usize = 32;
const HELD_FOR: Duration = Duration::from_secs(60);

/// A bot.
#[derive(Clone)]
pub struct Lark {
    settings: RobotSettings,
    secrets: Secrets,
}

impl std::fmt::Debug for Lark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lark")
    }
}

impl Lark {
    /// From the settings.
    pub fn new(settings: RobotSettings, home: &Path) -> Self {
        Self { settings, secrets: Secrets::new(home) }
    }
}

impl Service for Lark {
    fn limits(&self) -> &'static [Limit] {
        LIMITS
    }

    fn order(&self, notice: &Notice, now_ms: i64) -> Result<Order, PostError> {
        let url = self.secrets.url(&self.settings.url())?;
        let title = text::cut(&text::clean(&notice.title), MAX_TITLE_CHARS, text::units);
        let mut body = json!({
            "msg_type": "post",
            "content": {"post": {"en_us": {"title": title, "content": paragraphs(&notice.body)}}},
        });
        if let Some(secret) = self.secrets.read(&self.settings.secret())? {
            let seconds = (now_ms / 1000).to_string();
            body["sign"] = signature(&format!("{seconds}\n{secret}"), "").into();
            body["timestamp"] = seconds.into();
        }
        Ok(Order::json(url, &body))
    }

    fn judge(&self, answer: &Answer) -> Result<(), PostError> {
        let said = answer.json();
        match said["code"].as_i64().or_else(|| said["StatusCode"].as_i64()) {
            Some(0) => answer.by_status(),
            Some(11_232 | 11_233 | 99_991_400) => {
                Err(PostError::Limited { wait: Some(answer.wait.unwrap_or(HELD_FOR)) })
            }
            Some(19_021) => Err(refused(19_021, "compare the bot's secret with the route's, and the clock")),
            Some(code @ (19_022 | 19_024)) => {
                Err(refused(code, "compare the bot's security settings: addresses and keywords"))
            }
            Some(code) => Err(refused(code, "look at the bot, and copy its URL again")),
            None => answer.by_status().and(Err(PostError::Stranger)),
        }
    }
}

fn refused(code: i64, remedy: &'static str) -> PostError {
    PostError::Refused { code, remedy }
}

/// A paragraph for each line.
fn paragraphs(body: &str) -> serde_json::Value {
    let mut room = MAX_BODY_BYTES - FRAME_BYTES;
    let (body, mut paragraphs) = (text::clean(body), Vec::new());
    for line in body.lines() {
        let Some(left) = room.checked_sub(LINE_BYTES).filter(|left| *left > 0) else { break };
        let line = text::cut(line, left, text::json_bytes);
        room = left.saturating_sub(line.chars().map(text::json_bytes).sum());
        paragraphs.push(json!([{"tag": "text", "text": line}]));
    }
    paragraphs.into()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answer, notice};
    use super::*;

    fn bot() -> (tempfile::TempDir, Lark) {
        let dir = tempfile::TempDir::new().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            Some(path.display().to_string())
        };
        let url_file = file("url", "https://example.org/open-apis/bot/v2/hook/ID");
        let secret_file = file("secret", "demo");
        let bot =
            Lark::new(RobotSettings { url_file, secret_file, ..RobotSettings::default() }, Path::new("/"));
        (dir, bot)
    }

    /// The signature was computed by Python's `hmac` and `base64`.
    #[test]
    fn the_body_is_signed_and_calls_nobody() {
        let (_dir, bot) = bot();
        let order =
            bot.order(&notice("Title", "<at user_id=\"all\">x</at>\nline"), 1_599_360_473_900).unwrap();
        assert_eq!(order.url, "https://example.org/open-apis/bot/v2/hook/ID");
        let body: serde_json::Value = serde_json::from_str(&order.body).unwrap();
        assert_eq!(
            body,
            json!({
                "timestamp": "1599360473",
                "sign": "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8=",
                "msg_type": "post",
                "content": {"post": {"en_us": {
                    "title": "Title",
                    "content": [
                        [{"tag": "text", "text": "<at user_id=\"all\">x</at>"}],
                        [{"tag": "text", "text": "line"}],
                    ],
                }}},
            })
        );
    }

    #[test]
    fn a_long_notice_fits_and_every_code_means_something() {
        let (_dir, bot) = bot();
        for long in ["\"", "ä", "\n", "x\n", "x"] {
            let order = bot.order(&notice(&"ä".repeat(999), &long.repeat(30_000)), 0).unwrap();
            assert!(order.body.len() <= MAX_BODY_BYTES, "{long:?} {}", order.body.len());
            assert!(order.body.len() > MAX_BODY_BYTES / 2, "{long:?} {}", order.body.len());
        }
        let judge = |status, body: &str| bot.judge(&answer(status, body));
        assert!(
            judge(200, r#"{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}"#)
                .is_ok()
        );
        assert!(judge(200, r#"{"StatusCode":0,"StatusMessage":"success"}"#).is_ok());
        let limited = judge(200, r#"{"code":11232,"msg":"frequency limited psm"}"#);
        assert!(matches!(limited, Err(PostError::Limited { wait: Some(HELD_FOR) })), "{limited:?}");
        let unsigned = judge(200, r#"{"code":19021,"msg":"sign match fail canary"}"#).unwrap_err();
        assert!(unsigned.to_string().contains("secret") && !unsigned.may_pass(), "{unsigned}");
        assert!(!format!("{unsigned:?}").contains("canary"));
        let bad = judge(400, r#"{"code":9499,"msg":"Bad Request","data":{}}"#);
        assert!(matches!(bad, Err(PostError::Refused { code: 9499, .. })), "{bad:?}");
        assert!(matches!(judge(200, "<html>"), Err(PostError::Stranger)));
        assert!(matches!(judge(502, "<html>"), Err(PostError::Status(502))));
    }
}
