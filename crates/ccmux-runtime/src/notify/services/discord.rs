//! Discord's webhooks: `{"content": …}` of 2,000 characters at most.
//!
//! `allowed_mentions` allows none, markup is escaped by backslashes, and links show no preview. With `wait=true` the
//! answer is the message, so that success is known. Five messages within two seconds, thirty a minute; whoever sends more
//! is answered 429 with `retry_after` in seconds.

use serde_json::{Value, json};

use super::super::Notice;
use super::super::pace::Limit;
use super::super::post::{Answer, PostError, seconds_of};
use super::text;

/// What Discord takes.
pub const LIMITS: &[Limit] = &[Limit::new(5, 2_200), Limit::new(30, 62_000)];
const MAX_CHARS: usize = 2_000;
/// `SUPPRESS_EMBEDS`.
const NO_PREVIEWS: u8 = 4;

/// The same webhook, which answers only once the message is there.
pub fn waiting(url: &str) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}wait=true")
}

/// The notice in Discord's form.
pub fn form(notice: &Notice) -> Value {
    // Cut before it is escaped, no backslash is alone at the end; every weight is that of the escaped character.
    let text = text::cut(&text::whole(notice), MAX_CHARS, escaped_units);
    json!({"content": escaped(&text), "allowed_mentions": {"parse": []}, "flags": NO_PREVIEWS})
}

/// Whether Discord took it.
///
/// # Errors
/// If not.
pub fn judge(answer: &Answer) -> Result<(), PostError> {
    let said = answer.json();
    match answer.status {
        200 if said["id"].is_string() => Ok(()),
        200 => Err(PostError::Stranger),
        204 => Ok(()),
        429 => Err(PostError::Limited {
            wait: said["retry_after"].as_f64().and_then(seconds_of).or(answer.wait),
        }),
        code @ (400 | 401 | 403 | 404) => {
            let remedy = "the webhook or its channel is gone: make a new one";
            Err(PostError::Refused { code: said["code"].as_i64().unwrap_or(i64::from(code)), remedy })
        }
        _ => answer.by_status().and(Err(PostError::Stranger)),
    }
}

fn is_markup(character: char) -> bool {
    matches!(
        character,
        '\\' | '*' | '_' | '~' | '`' | '|' | '>' | '<' | '#' | '[' | ']' | '(' | ')' | '-' | ':' | '@'
    )
}

fn escaped_units(character: char) -> usize {
    usize::from(is_markup(character)) + character.len_utf16()
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_markup(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{answer, notice};
    use super::*;

    #[test]
    fn nobody_is_mentioned_and_nothing_is_markup() {
        let form = form(&notice("Title", "@everyone **a** <@1> [x](y)"));
        assert_eq!(
            form["content"],
            r"Title
\@everyone \*\*a\*\* \<\@1\> \[x\]\(y\)"
        );
        assert_eq!(form["allowed_mentions"], json!({"parse": []}));
        for long in ["*", "ä", "😀", "x"] {
            let form = super::form(&notice("T", &long.repeat(5_000)));
            let units = form["content"].as_str().unwrap().encode_utf16().count();
            assert!((MAX_CHARS - 2..=MAX_CHARS).contains(&units), "{long} {units}");
        }
        assert_eq!(waiting("https://x.example/a/b"), "https://x.example/a/b?wait=true");
        assert_eq!(waiting("https://x.example/a?thread_id=1"), "https://x.example/a?thread_id=1&wait=true");
    }

    #[test]
    fn a_pause_is_as_long_as_discord_says() {
        assert!(judge(&answer(200, r#"{"id":"1","content":"x"}"#)).is_ok());
        assert!(judge(&answer(204, "")).is_ok());
        let limited = judge(&answer(429, r#"{"message":"x","retry_after":1.337,"global":false}"#));
        let wait = Some(Duration::from_millis(1_337));
        assert!(matches!(limited, Err(PostError::Limited { wait: told }) if told == wait), "{limited:?}");
        let bad = judge(&answer(400, r#"{"code":50035,"message":"Invalid Form Body canary"}"#)).unwrap_err();
        assert!(bad.to_string().contains("50035") && !format!("{bad:?}").contains("canary"), "{bad}");
        assert!(matches!(judge(&answer(200, "{}")), Err(PostError::Stranger)));
    }
}
