//! Slack's incoming webhooks: `{"text": …}`.
//!
//! `&`, `<` and `>` are escaped, so that `<!channel>` calls nobody; `mrkdwn: false` leaves the rest as it is. Longer
//! texts than 4,000 characters are cut by Slack itself. One message a second. Success is 200 with the body `ok`.

use std::fmt::Write;

use serde_json::{Value, json};

use super::super::Notice;
use super::super::pace::Limit;
use super::super::post::{Answer, PostError};
use super::text;

/// What Slack takes.
pub const LIMITS: &[Limit] = &[Limit::new(1, 1_100)];
const MAX_CHARS: usize = 4_000;

/// The notice in Slack's form.
pub fn form(notice: &Notice) -> Value {
    let text = text::cut(&text::whole(notice), MAX_CHARS, escaped_units);
    json!({"text": escaped(&text), "mrkdwn": false, "unfurl_links": false, "unfurl_media": false})
}

/// Whether Slack took it.
///
/// # Errors
/// If not.
pub fn judge(answer: &Answer) -> Result<(), PostError> {
    match answer.status {
        200 if answer.body.trim() == "ok" => Ok(()),
        200 => Err(PostError::Stranger),
        code @ (400 | 403 | 404 | 410) => {
            let remedy = "the webhook or its channel is gone, or may not be written to: make a new one";
            Err(PostError::Refused { code: i64::from(code), remedy })
        }
        _ => answer.by_status().and(Err(PostError::Stranger)),
    }
}

fn escape(character: char) -> Option<&'static str> {
    match character {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        _ => None,
    }
}

fn escaped_units(character: char) -> usize {
    escape(character).map_or(character.len_utf16(), str::len)
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut escaped, character| {
        let _ = match escape(character) {
            Some(entity) => escaped.write_str(entity),
            None => escaped.write_char(character),
        };
        escaped
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answer, notice};
    use super::*;

    #[test]
    fn nobody_is_called_and_only_ok_is_success() {
        let form = form(&notice("T & C", "<!channel> *a* <b>"));
        assert_eq!(form["text"], "T &amp; C\n&lt;!channel&gt; *a* &lt;b&gt;");
        assert_eq!(form["mrkdwn"], false);
        let long = super::form(&notice("T", &"<".repeat(5_000)));
        let long = long["text"].as_str().unwrap();
        assert!(long.ends_with("&lt;…") && long.chars().count() <= MAX_CHARS, "{}", long.len());
        assert!(judge(&answer(200, "ok")).is_ok());
        assert!(matches!(judge(&answer(200, "<html>")), Err(PostError::Stranger)));
        let gone = judge(&answer(404, "no_service canary")).unwrap_err();
        assert!(!gone.may_pass() && !format!("{gone:?}").contains("canary"), "{gone}");
        assert!(judge(&answer(500, "rollup_error")).unwrap_err().may_pass());
        let limited = Answer { wait: Some(std::time::Duration::from_secs(3)), ..answer(429, "rate_limited") };
        assert_eq!(judge(&limited).unwrap_err().to_string(), "it takes no more for 3 s");
    }
}
