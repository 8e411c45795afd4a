//! DingTalk's robots: `POST …/robot/send?access_token=T&timestamp=MS&sign=S`.
//!
//! The signature is base64 of HMAC-SHA256 over `MS\nSECRET` with the secret as key. A body has 20,000 bytes at most; a
//! robot sends 20 messages a minute, and is shut out for ten minutes after more. Every answer has status 200; `errcode`
//! says what it is. Notices go as `text`, in which nothing is markup and nobody is called.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::super::Notice;
use super::super::pace::Limit;
use super::super::post::{Answer, Order, PostError};
use super::super::secret::Secrets;
use super::{Service, signature, text};
use crate::settings::services::RobotSettings;

const LIMITS: &[Limit] = &[Limit::new(20, 62_000)];
const MAX_BODY_BYTES: usize = 20_000;
/// What stands around the text.
const FRAME_BYTES: usize = 100;
/// Who sent too much is shut out for so long.
const SHUT_OUT_FOR: Duration = Duration::from_secs(600);

/// A robot.
#[derive(Clone)]
pub struct DingTalk {
    settings: RobotSettings,
    secrets: Secrets,
}

impl std::fmt::Debug for DingTalk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DingTalk")
    }
}

impl DingTalk {
    /// From the settings.
    pub fn new(settings: RobotSettings, home: &Path) -> Self {
        Self { settings, secrets: Secrets::new(home) }
    }
}

impl Service for DingTalk {
    fn limits(&self) -> &'static [Limit] {
        LIMITS
    }

    fn order(&self, notice: &Notice, now_ms: i64) -> Result<Order, PostError> {
        let mut url = self.secrets.url(&self.settings.url())?;
        if let Some(secret) = self.secrets.read(&self.settings.secret())? {
            url = signed(&url, &secret, now_ms);
        }
        let content = text::cut(&text::whole(notice), MAX_BODY_BYTES - FRAME_BYTES, text::json_bytes);
        let body = json!({
            "msgtype": "text",
            "text": {"content": content},
            "at": {"isAtAll": false},
        });
        Ok(Order::json(url, &body))
    }

    fn judge(&self, answer: &Answer) -> Result<(), PostError> {
        answer.by_status()?;
        match answer.json()["errcode"].as_i64() {
            Some(0) => Ok(()),
            Some(-1) => Err(PostError::Faulty(-1)),
            Some(130_101 | 410_100 | 90_018 | 90_030) => Err(PostError::Limited { wait: Some(SHUT_OUT_FOR) }),
            Some(310_000) => Err(refused(310_000, "compare the robot's security settings with the route's")),
            Some(code) => Err(refused(code, "look at the robot, and copy its URL again")),
            None => Err(PostError::Stranger),
        }
    }
}

fn refused(code: i64, remedy: &'static str) -> PostError {
    PostError::Refused { code, remedy }
}

fn signed(url: &str, secret: &str, now_ms: i64) -> String {
    let sign = signature(secret, &format!("{now_ms}\n{secret}"));
    let sign: String = form_urlencoded::byte_serialize(sign.as_bytes()).collect();
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}timestamp={now_ms}&sign={sign}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answer, notice};
    use super::*;

    fn robot(url: &str) -> (tempfile::TempDir, DingTalk) {
        let dir = tempfile::TempDir::new().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            Some(path.display().to_string())
        };
        let (url_file, secret_file) = (file("url", url), file("secret", "this is secret\n"));
        let settings = RobotSettings { url_file, secret_file, ..RobotSettings::default() };
        let robot = DingTalk::new(settings, Path::new("/"));
        (dir, robot)
    }

    /// The signature was computed by Python's `hmac`, `base64` and `urllib.parse.quote_plus`.
    #[test]
    fn the_query_is_signed_and_the_text_is_no_markup() {
        let (_dir, robot) = robot("https://example.org/robot/send?access_token=T");
        let order = robot.order(&notice("Title", "<b> \"@all\"\nline"), 1_577_808_000_000).unwrap();
        assert_eq!(
            order.url,
            "https://example.org/robot/send?access_token=T&timestamp=1577808000000&sign=ijHEivi6YiCNPZOq4hZstmvZ3sPfbioAiMhP30ae7W0%3D"
        );
        let body: serde_json::Value = serde_json::from_str(&order.body).unwrap();
        assert_eq!((&body["msgtype"], &body["at"]["isAtAll"]), (&json!("text"), &json!(false)));
        assert_eq!(body["text"]["content"], "Title\n<b> \"@all\"\nline");
    }

    #[test]
    fn a_long_notice_fits_and_every_code_means_something() {
        let (_dir, robot) = robot("https://example.org/");
        for long in ["\"", "ä", "\n", "x"] {
            let order = robot.order(&notice("T", &long.repeat(30_000)), 0).unwrap();
            assert!(order.body.len() <= MAX_BODY_BYTES, "{}", order.body.len());
            let least = MAX_BODY_BYTES / 2;
            assert!(long == "\n" || order.body.len() > least, "{long:?} {}", order.body.len());
        }
        let judge = |body: &str| robot.judge(&answer(200, body));
        assert!(judge(r#"{"errcode":0,"errmsg":"ok"}"#).is_ok());
        let limited = judge(r#"{"errcode":130101,"errmsg":"send too fast"}"#);
        assert!(matches!(limited, Err(PostError::Limited { wait: Some(SHUT_OUT_FOR) })), "{limited:?}");
        let unsigned = judge(r#"{"errcode":310000,"errmsg":"sign not match canary"}"#).unwrap_err();
        assert!(unsigned.to_string().contains("security settings") && !unsigned.may_pass(), "{unsigned}");
        assert!(!format!("{unsigned:?}").contains("canary"));
        assert!(judge(r#"{"errcode":-1,"errmsg":"busy"}"#).unwrap_err().may_pass());
        for stranger in ["", "<html>", "{}", "[]"] {
            assert!(matches!(judge(stranger), Err(PostError::Stranger)), "{stranger}");
        }
    }
}
