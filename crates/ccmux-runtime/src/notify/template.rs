//! A notice in somebody else's form: `{title}`, `{body}`, `{kind}`, `{session}` and `{ts}` are put in, once, escaped.
//!
//! ```text
//! {"text": "{title}: {body}"}   ─►   {"text": "Claude Code - User Input Needed: Task: fix \"it\"..."}
//! ```

use super::Notice;

/// How values are made harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Escape {
    /// They stand within quotes of JSON.
    Json,
    /// They are the text.
    Nothing,
}

/// Fills in the form. What a value holds is never taken for a place to fill in.
pub fn fill(form: &str, notice: &Notice, escape: Escape) -> String {
    let mut filled = String::with_capacity(form.len());
    let mut rest = form;
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        filled.push_str(before);
        let found = from.find('}').and_then(|end| Some((value(&from[1..end], notice)?, end + 1)));
        match found {
            Some((value, length)) => {
                filled.push_str(&escaped(&value, escape));
                rest = &from[length..];
            }
            None => {
                filled.push('{');
                rest = &from[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

fn value(name: &str, notice: &Notice) -> Option<String> {
    Some(match name {
        "title" => notice.title.clone(),
        "body" => notice.body.clone(),
        "kind" => notice.kind.clone(),
        "session" => notice.session.clone(),
        "ts" => notice.ts.to_string(),
        _ => return None,
    })
}

fn escaped(value: &str, escape: Escape) -> String {
    match escape {
        Escape::Nothing => value.to_owned(),
        Escape::Json => {
            let quoted = serde_json::Value::from(value).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(body: &str) -> Notice {
        let [kind, session, title] = ["reply", "s1", "a \"b\""].map(str::to_owned);
        Notice { kind, session, title, body: body.to_owned(), ts: 7, code: None }
    }

    /// Field fault 41.
    #[test]
    fn values_are_escaped_and_filled_in_once() {
        let form = r#"{"text": "{title}: {body}", "n": {ts}, "x": {unknown}}"#;
        let filled = fill(form, &notice("<b>{ts}\n\"}"), Escape::Json);
        assert_eq!(filled, r#"{"text": "a \"b\": <b>{ts}\n\"}", "n": 7, "x": {unknown}}"#);
        assert_eq!(fill("{body}{", &notice("a\"b"), Escape::Nothing), "a\"b{");
        let form = r#"{"text":"{body}"}"#;
        let read: serde_json::Value =
            serde_json::from_str(&fill(form, &notice("\u{1}é\\"), Escape::Json)).unwrap();
        assert_eq!(read["text"], "\u{1}é\\");
    }
}
