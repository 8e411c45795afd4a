//! Documents of every style: what is put in looks like them, and what is taken out leaves them as they were.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn document(text: &str) -> Document {
    Document::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn text_of(document: &Document) -> String {
    String::from_utf8(document.to_bytes()).unwrap()
}

fn keys<'a>(path: &[&'a str]) -> Vec<Step<'a>> {
    path.iter().copied().map(Step::Key).collect()
}

/// Puts one member in, looks at the text, takes it out again.
fn there_and_back(before: &str, path: &[&str], value: Value, after: &str) {
    let mut changed = document(before);
    changed.set(path, &value).unwrap();
    assert_eq!(text_of(&changed), after);
    assert_eq!(document(after).value(&keys(path)).unwrap(), Some(value));
    changed.remove(&keys(path)).unwrap();
    assert_eq!(text_of(&changed), before);
}

/// A text that JavaScript cut in the middle of a character.
#[test]
fn half_a_character_stays_as_it_is() {
    let after = r#"{"a":"x\ud83d","b":1,"c":2}"#;
    there_and_back(r#"{"a":"x\ud83d","b":1}"#, &["c"], json!(2), after);
}

#[test]
fn a_new_member_looks_like_its_neighbours() {
    let value = json!({"a": [1], "b": {}});
    let cases = [
        (
            "{\n  \"x\": 1\n}\n",
            "{\n  \"x\": 1,\n  \"k\": {\n    \"a\": [\n      1\n    ],\n    \"b\": {}\n  }\n}\n",
        ),
        (
            "{\n\t\"x\": 1\n}",
            "{\n\t\"x\": 1,\n\t\"k\": {\n\t\t\"a\": [\n\t\t\t1\n\t\t],\n\t\t\"b\": {}\n\t}\n}",
        ),
        ("{\"x\":1}", "{\"x\":1,\"k\":{\"a\":[1],\"b\":{}}}"),
        ("{ \"x\": 1 }\n\n", "{ \"x\": 1, \"k\": {\"a\": [1], \"b\": {}} }\n\n"),
        (
            "\u{feff}{\r\n    \"x\": 1,\r\n}",
            "\u{feff}{\r\n    \"x\": 1,\r\n    \"k\": {\r\n        \"a\": [\r\n            1\r\n        ],\r\n        \"b\": {}\r\n    },\r\n}",
        ),
    ];
    for (before, after) in cases {
        there_and_back(before, &["k"], value.clone(), after);
    }
}

#[test]
fn comments_stay_where_they_are() {
    let cases = [
        ("{\n  \"x\": 1 // one\n  // end\n}", "{\n  \"x\": 1, // one\n  \"k\": 2\n  // end\n}"),
        ("{\n  \"x\": 1, /* one */ // two\n}", "{\n  \"x\": 1, /* one */ // two\n  \"k\": 2,\n}"),
        ("{\"x\":1 // one\n}", "{\"x\":1,\"k\":2 // one\n}"),
        ("// head\n{\n  \"x\": 1\n}\n// foot", "// head\n{\n  \"x\": 1,\n  \"k\": 2\n}\n// foot"),
    ];
    for (before, after) in cases {
        there_and_back(before, &["k"], json!(2), after);
    }
}

#[test]
fn what_is_missing_on_the_way_is_made() {
    let before = "{\n  \"x\": 1\n}";
    let after = "{\n  \"x\": 1,\n  \"a\": {\n    \"b\": {\n      \"c\": 1\n    }\n  }\n}";
    let mut changed = document(before);
    changed.set(&["a", "b", "c"], &json!(1)).unwrap();
    assert_eq!(text_of(&changed), after);
    changed.push(&["a", "list"], &json!("e")).unwrap();
    changed.push(&["a", "list"], &json!("f")).unwrap();
    assert_eq!(changed.value(&keys(&["a", "list"])).unwrap(), Some(json!(["e", "f"])));
    changed.remove(&keys(&["a"])).unwrap();
    assert_eq!(text_of(&changed), before);
}

#[test]
fn an_empty_document_becomes_one_as_claude_writes_it() {
    for (before, after) in [
        ("", "{\n  \"k\": 1\n}\n"),
        ("{}", "{\n  \"k\": 1\n}"),
        ("{\n}\n", "{\n  \"k\": 1\n}\n"),
        ("{ // mine\n}", "{ // mine\n  \"k\": 1\n}"),
    ] {
        let mut changed = document(before);
        changed.set(&["k"], &json!(1)).unwrap();
        assert_eq!(text_of(&changed), after);
    }
}

#[test]
fn an_empty_container_is_as_open_as_what_is_around_it() {
    let mut tight = document(r#"{"hooks":{},"list":[ ]}"#);
    tight.set(&["hooks", "k"], &json!(1)).unwrap();
    tight.push(&["list"], &json!(1)).unwrap();
    assert_eq!(text_of(&tight), r#"{"hooks":{"k":1},"list":[ 1 ]}"#);
    let mut wide = document("{\n    \"hooks\": {}\n}");
    wide.set(&["hooks", "k"], &json!(1)).unwrap();
    assert_eq!(text_of(&wide), "{\n    \"hooks\": {\n        \"k\": 1\n    }\n}");
}

#[test]
fn what_is_taken_out_of_the_middle_leaves_no_gap() {
    let cases = [
        ("{\n  \"k\": 1,\n  \"x\": 2\n}", "{\n  \"x\": 2\n}"),
        ("{\"a\":1,\"k\":1,\"x\":2}", "{\"a\":1,\"x\":2}"),
        ("{\n  \"a\": 1, // one\n  \"k\": 2 // ours\n}", "{\n  \"a\": 1 // one\n   // ours\n}"),
        ("{\"k\":1}", "{}"),
    ];
    for (before, after) in cases {
        let mut changed = document(before);
        changed.remove(&[Step::Key("k")]).unwrap();
        document(&text_of(&changed));
        assert_eq!(text_of(&changed), after);
    }
    let mut list = document("{\"l\": [1, 2, 3]}");
    list.remove(&[Step::Key("l"), Step::Index(1)]).unwrap();
    assert_eq!(text_of(&list), "{\"l\": [1, 3]}");
}

#[test]
fn what_is_there_is_replaced_in_its_place() {
    let mut changed = document("{\n  \"k\": {\"old\": 1}, // mine\n  \"x\": 1\n}");
    changed.set(&["k"], &json!({"new": 2})).unwrap();
    assert_eq!(text_of(&changed), "{\n  \"k\": {\n    \"new\": 2\n  }, // mine\n  \"x\": 1\n}");
}

#[test]
fn what_is_no_json_is_refused_and_said_where() {
    for text in [
        "{",
        "{'a': 1}",
        "{a: 1}",
        "{\"a\" 1}",
        "{\"a\": 1 \"b\": 2}",
        "{\"a\": 0x1}",
        "{} {}",
        "{\"a\": NaN}",
    ] {
        let error = Document::parse(text.as_bytes()).unwrap_err();
        assert!(matches!(&error, DocumentError::Invalid(why) if why.contains("line 1")), "{text}: {error:?}");
    }
    for (bytes, error) in [
        (&b"[]"[..], wrong_kind(&[], "an object")),
        (b"7", wrong_kind(&[], "an object")),
        (b"{\"a\": \"\xff\"}", DocumentError::NotText),
    ] {
        assert_eq!(Document::parse(bytes).unwrap_err(), error);
    }
    let deep = "[".repeat(100_000);
    assert!(Document::parse(format!("{{\"a\": {deep}").as_bytes()).is_err(), "and no stack is used up");
}

#[test]
fn something_of_another_kind_on_the_way_is_an_error_that_names_it() {
    let mut wrong = document(r#"{"hooks": [], "list": {}, "text": "x"}"#);
    assert_eq!(
        wrong.set(&["hooks", "Stop"], &json!(1)).unwrap_err(),
        wrong_kind(&keys(&["hooks"]), "an object")
    );
    assert_eq!(wrong.push(&["list"], &json!(1)).unwrap_err(), wrong_kind(&keys(&["list"]), "a list"));
    assert!(wrong.set(&["text", "a"], &json!(1)).is_err());
    let mut twice = document(r#"{"hooks": {}, "hooks": {}}"#);
    assert_eq!(twice.set(&["hooks", "a"], &json!(1)).unwrap_err(), DocumentError::Twice("hooks".into()));
}

/// A document in some style: any members, blanks and comments between them.
fn any_document() -> impl Strategy<Value = String> {
    let blank = prop_oneof![
        Just(""),
        Just(" "),
        Just("\n"),
        Just("\n  "),
        Just("\r\n\t"),
        Just(" /* c, } */ "),
        Just(" // c \" {\n"),
    ];
    let value = prop_oneof![
        Just("1"),
        Just("\"a,b}\""),
        Just("[]"),
        Just("[1, {\"a\": 2}]"),
        Just("{\"q\":{}}"),
        Just("null"),
        Just("\"\\\"\""),
    ];
    let member = (blank.clone(), value, blank.clone(), blank.clone());
    (prop::collection::vec(member, 0..4), blank, any::<bool>()).prop_map(|(members, end, trailing)| {
        let count = members.len();
        let members = members.into_iter().enumerate().map(|(n, (before, value, between, after))| {
            let comma = if n + 1 < count || trailing { "," } else { "" };
            format!("{before}\"m{n}\":{between}{value}{after}{comma}")
        });
        format!("{{{}{end}}}", members.collect::<String>())
    })
}

proptest! {
    /// Whatever the style, a member that is put in is there, nothing else changes, and taken out again the document is the
    /// one before, but for the blanks of an empty one.
    #[test]
    fn any_document_comes_back(before in any_document()) {
        let mut changed = document(&before);
        let whole = changed.value(&[]).unwrap().unwrap();
        changed.set(&["hooks", "Stop"], &json!([{"command": "x"}])).unwrap();
        let mut with_ours = whole.clone();
        with_ours["hooks"] = json!({"Stop": [{"command": "x"}]});
        prop_assert_eq!(document(&text_of(&changed)).value(&[]).unwrap().unwrap(), with_ours);
        changed.remove(&[Step::Key("hooks")]).unwrap();
        let back = text_of(&changed);
        prop_assert_eq!(document(&back).value(&[]).unwrap().unwrap(), whole.clone());
        if whole != json!({}) {
            prop_assert_eq!(back, before);
        }
    }
}
