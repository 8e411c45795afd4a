//! Services that want a form of their own, and say in a way of their own whether they took it.
//!
//! | module | service | what is particular |
//! |---|---|---|
//! | [`dingtalk`] | DingTalk's robots | a signature in the query; refusals come with 200 |
//! | [`lark`] | Lark's (Feishu's) bots | a signature in the body; refusals come with 200 |
//! | [`gotify`] | Gotify | a key in a header; priorities |
//! | [`ntfy`] | ntfy | priorities, tags, buttons; 4 KB |
//! | [`slack`], [`teams`], [`discord`], [`telegram`] | incoming webhooks | escaping, sizes, what success is |
//! | [`text`] | | sizes as services count them |
//!
//! Forms and readings are pure; nothing here connects to anything, and nothing that a service answers is passed on, but
//! its numbers.

pub mod dingtalk;
pub mod discord;
pub mod gotify;
pub mod lark;
pub mod ntfy;
pub mod slack;
pub mod teams;
pub mod telegram;
pub mod text;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::Notice;
use super::pace::Limit;
use super::post::{Answer, Order, PostError};

/// Somebody who takes notices over HTTP.
pub trait Service: std::fmt::Debug + Send {
    /// How many it takes within which time.
    fn limits(&self) -> &'static [Limit];

    /// What is to be sent. `now_ms`: milliseconds since 1970.
    ///
    /// # Errors
    /// If a secret is not there, or makes no sense.
    fn order(&self, notice: &Notice, now_ms: i64) -> Result<Order, PostError>;

    /// Whether it took it.
    ///
    /// # Errors
    /// If not.
    fn judge(&self, answer: &Answer) -> Result<(), PostError>;
}

/// HMAC-SHA256, in base64.
fn signature(key: &str, text: &str) -> String {
    // A key of any length will do; there is no error to come.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else { return String::new() };
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn notice(title: &str, body: &str) -> Notice {
        let [kind, session] = ["permission", "s1"].map(str::to_owned);
        Notice { kind, session, title: title.into(), body: body.into(), ts: 7, code: None }
    }

    pub fn answer(status: u16, body: &str) -> Answer {
        Answer { status, wait: None, body: body.to_owned() }
    }

    /// From RFC 4231, test case 2.
    #[test]
    fn a_signature_is_hmac_sha256_in_base64() {
        let signed = signature("Jefe", "what do ya want for nothing?");
        assert_eq!(signed, "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=");
    }
}
