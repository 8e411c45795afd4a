//! ntfy: a POST of JSON to the server's root, with a topic in it.
//!
//! A message of more than 4,096 bytes would become an attachment, and is cut. Priorities go from 1 to 5; tags that are
//! names of emoji are shown as such. With a topic for answers a permission has two buttons; they publish to it what a
//! person would type:
//!
//! ```text
//! notice ─► topic ─► phone: [Allow] [Deny] ─► reply topic: "y bcdfg" ─► replies
//! ```
//!
//! Success is the message with its `id`. Whoever asks too much is answered 429.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::Notice;
use super::super::pace::Limit;
use super::super::post::{Answer, Order, PostError};
use super::super::secret::Secrets;
use super::{Service, text};
use crate::settings::services::NtfySettings;

/// The public server allows 60 at once, and one each 5 s from then on.
const LIMITS: &[Limit] = &[Limit::new(10, 60_000)];
const MAX_MESSAGE_BYTES: usize = 4096;
const MAX_TITLE_BYTES: usize = 250;
const MAX_TOPIC_CHARS: usize = 64;

/// A topic of a server.
#[derive(Clone)]
pub struct Ntfy {
    settings: NtfySettings,
    secrets: Secrets,
}

impl std::fmt::Debug for Ntfy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ntfy")
    }
}

impl Ntfy {
    /// From the settings.
    pub fn new(settings: NtfySettings, home: &Path) -> Self {
        Self { settings, secrets: Secrets::new(home) }
    }

    /// It has buttons whose answers are followed.
    pub fn has_replies(&self) -> bool {
        self.settings.reply_topic().is_given()
    }

    /// Where the answers are published.
    ///
    /// # Errors
    /// If what makes it is not there.
    pub fn reply_url(&self) -> Result<String, PostError> {
        let topic = self.secrets.read(&self.settings.reply_topic())?;
        Ok(format!("{}/{}", self.server()?, topic_of(topic)?))
    }

    /// What the server wants to know of us.
    ///
    /// # Errors
    /// If a secret is not there.
    pub fn authorization(&self) -> Result<Option<String>, PostError> {
        if let Some(token) = self.secrets.read(&self.settings.token())? {
            return Ok(Some(format!("Bearer {token}")));
        }
        let password = self.secrets.read(&self.settings.password())?;
        let pair = self.settings.user.as_ref().zip(password);
        Ok(pair.map(|(user, password)| format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))))
    }

    fn server(&self) -> Result<String, PostError> {
        Ok(self.secrets.url(&self.settings.url())?.trim_end_matches('/').to_owned())
    }

    fn buttons(&self, code: &str) -> Result<Value, PostError> {
        let url = self.reply_url()?;
        let button = |label: &str, word: &str| {
            let body = format!("{word} {code}");
            json!({"action": "http", "label": label, "url": url, "method": "POST", "body": body, "clear": true})
        };
        Ok(json!([button("Allow", "y"), button("Deny", "n")]))
    }
}

/// One that the server takes.
fn topic_of(topic: Option<String>) -> Result<String, PostError> {
    let is_fine = |topic: &String| {
        let mut characters = topic.chars();
        (1..=MAX_TOPIC_CHARS).contains(&topic.len())
            && characters.all(|character| character.is_ascii_alphanumeric() || "-_".contains(character))
    };
    topic.filter(is_fine).ok_or(PostError::Setting("a topic has 1 to 64 letters, digits, - or _"))
}

impl Service for Ntfy {
    fn limits(&self) -> &'static [Limit] {
        LIMITS
    }

    fn order(&self, notice: &Notice, _now_ms: i64) -> Result<Order, PostError> {
        let topic = topic_of(self.secrets.read(&self.settings.topic())?)?;
        let (priority, tag) = weight(&notice.kind);
        let mut body = json!({
            "topic": topic,
            "title": text::cut(&text::clean(&notice.title), MAX_TITLE_BYTES, text::bytes),
            "message": text::cut(&text::clean(&notice.body), MAX_MESSAGE_BYTES, text::bytes),
            "priority": priority,
            "tags": [tag],
        });
        if let Some(code) =
            notice.code.as_deref().filter(|_| notice.kind == "permission" && self.has_replies())
        {
            body["actions"] = self.buttons(code)?;
        }
        Ok(Order::json(self.server()?, &body).with("Authorization", self.authorization()?))
    }

    fn judge(&self, answer: &Answer) -> Result<(), PostError> {
        if matches!(answer.status, 401 | 403) {
            let remedy = "let this user or token write to the topic";
            return Err(PostError::Refused { code: i64::from(answer.status), remedy });
        }
        answer.by_status()?;
        if answer.json()["id"].is_string() { Ok(()) } else { Err(PostError::Stranger) }
    }
}

/// Priority and tag.
fn weight(kind: &str) -> (u8, &'static str) {
    match kind {
        "permission" => (4, "lock"),
        "question" => (4, "question"),
        "failure" => (4, "rotating_light"),
        "stuck" => (4, "warning"),
        "reply" => (3, "white_check_mark"),
        "subagent_reply" => (2, "white_check_mark"),
        _ => (3, "speech_balloon"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answer, notice};
    use super::*;

    fn ntfy(
        more: impl FnOnce(&mut NtfySettings, &dyn Fn(&str) -> Option<String>),
    ) -> (tempfile::TempDir, Ntfy) {
        let dir = tempfile::TempDir::new().unwrap();
        let file = |text: &str| {
            let path = dir.path().join(text);
            std::fs::write(&path, format!("{text}\n")).unwrap();
            Some(path.display().to_string())
        };
        let mut settings = NtfySettings {
            url: Some("https://ntfy.example.org/".into()),
            topic_file: file("my-topic"),
            ..NtfySettings::default()
        };
        more(&mut settings, &file);
        let ntfy = Ntfy::new(settings, Path::new("/"));
        (dir, ntfy)
    }

    fn body(order: &Order) -> Value {
        serde_json::from_str(&order.body).unwrap()
    }

    #[test]
    fn a_permission_has_buttons_that_publish_what_a_person_would_type() {
        let (_dir, ntfy) = ntfy(|settings, file| {
            settings.token_file = file("tk_1");
            settings.reply_topic_file = file("my-replies");
        });
        let coded = Notice { code: Some("bcdfg".into()), ..notice("Title", "Tool: Bash") };
        let order = ntfy.order(&coded, 0).unwrap();
        assert_eq!(order.url, "https://ntfy.example.org");
        assert_eq!(order.headers, [("Authorization", "Bearer tk_1".to_owned())]);
        let button = |label: &str, body: &str| {
            let url = "https://ntfy.example.org/my-replies";
            json!({"action": "http", "label": label, "url": url, "method": "POST", "body": body, "clear": true})
        };
        let expected = json!({
            "topic": "my-topic", "title": "Title", "message": "Tool: Bash", "priority": 4, "tags": ["lock"],
            "actions": [button("Allow", "y bcdfg"), button("Deny", "n bcdfg")],
        });
        assert_eq!(body(&order), expected);
        let question = Notice { kind: "question".into(), ..coded };
        assert_eq!(body(&ntfy.order(&question, 0).unwrap()).get("actions"), None);
        assert_eq!(body(&ntfy.order(&notice("a", "b"), 0).unwrap()).get("actions"), None, "no code");
    }

    #[test]
    fn a_password_is_basic_and_a_long_message_no_attachment() {
        let (_dir, ntfy) = ntfy(|settings, file| {
            settings.user = Some("me".into());
            settings.password_file = file("pw");
        });
        let order = ntfy.order(&notice(&"ä".repeat(300), &"ä".repeat(4000)), 0).unwrap();
        assert_eq!(order.headers, [("Authorization", "Basic bWU6cHc=".to_owned())]);
        let body = body(&order);
        let length = |key: &str| body[key].as_str().unwrap().len();
        assert!(
            (4090..=4096).contains(&length("message")) && length("title") <= 250,
            "{}",
            length("message")
        );
    }

    #[test]
    fn answers_are_read_as_the_server_means_them() {
        let (_dir, ntfy) = ntfy(|_, _| {});
        let judge = |status, body: &str| ntfy.judge(&answer(status, body));
        assert!(judge(200, r#"{"id":"hwQ2YpKdmg","time":1,"event":"message","topic":"t"}"#).is_ok());
        let limited = judge(429, r#"{"code":42901,"http":429,"error":"limit reached"}"#);
        assert!(matches!(limited, Err(PostError::Limited { wait: None })), "{limited:?}");
        let refused = judge(403, r#"{"code":40301,"http":403,"error":"canary"}"#).unwrap_err();
        assert!(!refused.may_pass() && !format!("{refused:?}").contains("canary"), "{refused}");
        assert!(matches!(judge(200, "<html>"), Err(PostError::Stranger)));
        for topic in ["", "a b", "../x", "ä", &"x".repeat(65)] {
            assert!(topic_of(Some(topic.to_owned())).is_err(), "{topic}");
        }
    }
}
