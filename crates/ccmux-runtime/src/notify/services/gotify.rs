//! Gotify: `POST SERVER/message` with the application's token in `X-Gotify-Key`.
//!
//! Priorities go from 0 to 10; phones make a sound from 4 on, and show what is 8 or more at once. The message is marked
//! as plain text. Success is the message with its `id`.

use std::path::Path;

use serde_json::json;

use super::super::Notice;
use super::super::pace::Limit;
use super::super::post::{Answer, Order, PostError};
use super::super::secret::Secrets;
use super::{Service, text};
use crate::settings::services::GotifySettings;

/// It says no limit; a flood is one all the same.
const LIMITS: &[Limit] = &[Limit::new(30, 60_000)];
/// It says no limit; phones have one.
const MAX_MESSAGE_BYTES: usize = 8_000;
const MAX_TITLE_BYTES: usize = 250;

/// An application of a server.
#[derive(Clone)]
pub struct Gotify {
    settings: GotifySettings,
    secrets: Secrets,
}

impl std::fmt::Debug for Gotify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gotify")
    }
}

impl Gotify {
    /// From the settings.
    pub fn new(settings: GotifySettings, home: &Path) -> Self {
        Self { settings, secrets: Secrets::new(home) }
    }
}

impl Service for Gotify {
    fn limits(&self) -> &'static [Limit] {
        LIMITS
    }

    fn order(&self, notice: &Notice, _now_ms: i64) -> Result<Order, PostError> {
        let server = self.secrets.url(&self.settings.url())?;
        let token = self.secrets.read(&self.settings.token())?;
        // It refuses an empty message.
        let body = if notice.body.trim().is_empty() { &notice.title } else { &notice.body };
        let body = json!({
            "title": text::cut(&text::clean(&notice.title), MAX_TITLE_BYTES, text::bytes),
            "message": text::cut(&text::clean(body), MAX_MESSAGE_BYTES, text::bytes),
            "priority": priority(&notice.kind),
            "extras": {"client::display": {"contentType": "text/plain"}},
        });
        let url = format!("{}/message", server.trim_end_matches('/'));
        Ok(Order::json(url, &body).with("X-Gotify-Key", token))
    }

    fn judge(&self, answer: &Answer) -> Result<(), PostError> {
        if matches!(answer.status, 401 | 403) {
            let remedy = "give the token of an application, not of a client";
            return Err(PostError::Refused { code: i64::from(answer.status), remedy });
        }
        answer.by_status()?;
        if answer.json()["id"].is_number() { Ok(()) } else { Err(PostError::Stranger) }
    }
}

fn priority(kind: &str) -> u8 {
    match kind {
        "permission" | "question" => 8,
        "failure" | "stuck" => 7,
        "subagent_reply" => 2,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answer, notice};
    use super::*;

    #[test]
    fn the_key_is_in_a_header_and_the_kind_makes_the_priority() {
        let dir = tempfile::TempDir::new().unwrap();
        std::fs::write(dir.path().join("token"), "Akey\n").unwrap();
        let settings = GotifySettings {
            url: Some("https://gotify.example.org/base/".into()),
            token_file: Some(dir.path().join("token").display().to_string()),
            ..GotifySettings::default()
        };
        let gotify = Gotify::new(settings, Path::new("/"));
        let order = gotify.order(&notice("Title", "**a**\n<b>"), 0).unwrap();
        assert_eq!(order.url, "https://gotify.example.org/base/message");
        assert_eq!(order.headers, [("X-Gotify-Key", "Akey".to_owned())]);
        let body: serde_json::Value = serde_json::from_str(&order.body).unwrap();
        let extras = json!({"client::display": {"contentType": "text/plain"}});
        assert_eq!(body, json!({"title": "Title", "message": "**a**\n<b>", "priority": 8, "extras": extras}));
        let empty = gotify.order(&notice("Title", ""), 0).unwrap();
        assert!(empty.body.contains(r#""message":"Title""#), "{}", empty.body);
        let judge = |status, body: &str| gotify.judge(&answer(status, body));
        assert!(judge(200, r#"{"id":25,"appid":5,"message":"x"}"#).is_ok());
        let wrong = judge(401, r#"{"error":"Unauthorized","errorCode":401,"errorDescription":"canary"}"#);
        let wrong = wrong.unwrap_err();
        assert!(wrong.to_string().contains("application") && !wrong.may_pass(), "{wrong}");
        assert!(matches!(judge(200, "<html>"), Err(PostError::Stranger)));
        assert!(judge(500, "").unwrap_err().may_pass());
    }
}
