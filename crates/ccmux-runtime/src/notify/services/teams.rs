//! Microsoft Teams: a workflow that takes an Adaptive Card from a webhook.
//!
//! The lines stand in `RichTextBlock`s, whose runs are no markup, and a card without entities mentions nobody. A card has
//! 28 KB at most; four a second. Success is 202, or 200; the connectors of old answered 200 with an error in the body.

use serde_json::{Value, json};

use super::super::Notice;
use super::super::pace::Limit;
use super::super::post::{Answer, PostError};
use super::text;

/// What Teams takes.
pub const LIMITS: &[Limit] = &[Limit::new(4, 1_100), Limit::new(60, 62_000)];
const MAX_BYTES: usize = 28_000;
/// What stands around the lines, title included.
const FRAME_BYTES: usize = 2_000;
/// What stands around a line.
const LINE_BYTES: usize = 80;
const MAX_TITLE_CHARS: usize = 200;

/// The notice as a card.
pub fn form(notice: &Notice) -> Value {
    let title = text::cut(&text::clean(&notice.title), MAX_TITLE_CHARS, text::units);
    let mut blocks = vec![block(json!({"type": "TextRun", "text": title, "weight": "bolder"}))];
    let mut room = MAX_BYTES - FRAME_BYTES;
    for line in text::clean(&notice.body).lines() {
        let Some(left) = room.checked_sub(LINE_BYTES).filter(|left| *left > 0) else { break };
        let line = text::cut(line, left, text::json_bytes);
        room = left.saturating_sub(line.chars().map(text::json_bytes).sum());
        blocks.push(block(json!({"type": "TextRun", "text": line})));
    }
    let card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.2",
        "body": blocks,
    });
    let content_type = "application/vnd.microsoft.card.adaptive";
    let attachment = json!({"contentType": content_type, "contentUrl": null, "content": card});
    json!({"type": "message", "attachments": [attachment]})
}

fn block(run: Value) -> Value {
    json!({"type": "RichTextBlock", "inlines": [run]})
}

/// Whether Teams took it.
///
/// # Errors
/// If not.
pub fn judge(answer: &Answer) -> Result<(), PostError> {
    let body = answer.body.trim();
    match answer.status {
        200 | 202 if body.contains("HTTP error 429") => Err(PostError::Limited { wait: answer.wait }),
        200 | 202 if body.contains("HTTP error") => Err(PostError::Refused {
            code: i64::from(answer.status),
            remedy: "look at the runs of the workflow",
        }),
        200 | 202 if body.starts_with('<') => Err(PostError::Stranger),
        200 | 202 => Ok(()),
        code @ (400 | 401 | 403 | 404) => {
            let remedy = "the workflow is off or gone, or its URL is not whole: copy it again";
            Err(PostError::Refused { code: i64::from(code), remedy })
        }
        _ => answer.by_status().and(Err(PostError::Stranger)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{answer, notice};
    use super::*;

    #[test]
    fn the_card_is_no_markup_and_fits() {
        let form = form(&notice("Title", "**a** [x](https://example.org)\n<at>all</at>"));
        let card = &form["attachments"][0]["content"];
        assert_eq!((&form["type"], &card["type"]), (&json!("message"), &json!("AdaptiveCard")));
        let lines: Vec<&str> = card["body"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| {
                assert_eq!(
                    (&block["type"], &block["inlines"][0]["type"]),
                    (&json!("RichTextBlock"), &json!("TextRun"))
                );
                block["inlines"][0]["text"].as_str().unwrap()
            })
            .collect();
        assert_eq!(lines, ["Title", "**a** [x](https://example.org)", "<at>all</at>"]);
        for long in ["\"", "\n", "ä", "x\n"] {
            let size = super::form(&notice(&"ä".repeat(999), &long.repeat(40_000))).to_string().len();
            assert!((MAX_BYTES / 2..=MAX_BYTES).contains(&size), "{long:?} {size}");
        }
    }

    #[test]
    fn an_error_within_200_is_one() {
        for (status, body) in [(202, ""), (200, "1"), (200, "")] {
            assert!(judge(&answer(status, body)).is_ok(), "{status} {body}");
        }
        let failed =
            "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error";
        assert!(judge(&answer(200, &format!("{failed} 413 canary"))).is_err());
        let limited = judge(&answer(200, &format!("{failed} 429 with ContextId"))).unwrap_err();
        assert!(matches!(limited, PostError::Limited { .. }), "{limited}");
        assert!(!judge(&answer(401, "DirectApiAuthorizationRequired")).unwrap_err().may_pass());
        assert!(judge(&answer(502, "")).unwrap_err().may_pass());
        assert!(matches!(judge(&answer(200, "<html>")), Err(PostError::Stranger)));
    }
}
