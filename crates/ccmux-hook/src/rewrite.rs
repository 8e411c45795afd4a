//! JSON written anew as it is read, on one line: whatever it holds, no more of it is kept than the two texts.
//!
//! ```text
//! { "hook_event_name" : "Stop",⏎ "n": [1e2] }   ──►   {"hook_event_name":"Stop","n":[100.0]}   and the event, `Stop`
//! ```
//!
//! A tree of values would cost a hundred times the text where there are many small ones. What can't be read as a tree
//! (numbers too large, too deep) can't be read here either, so the daemon can read what comes out. Knows no frame.

use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

const EVENT: &[u8] = br#""hook_event_name""#;

/// Appends the input to `out` and says its event, if it names one; `None`: it is no JSON, and `out` holds a part of it.
pub fn rewrite(input: &[u8], out: &mut Vec<u8>) -> Option<String> {
    let mut event = String::new();
    let mut json = serde_json::Deserializer::from_slice(input);
    Value { out, event: Some(&mut event) }.deserialize(&mut json).ok()?;
    json.end().ok()?;
    Some(event)
}

/// One value: where it goes, and, of the outermost, where its event goes.
struct Value<'a> {
    out: &'a mut Vec<u8>,
    event: Option<&'a mut String>,
}

impl Value<'_> {
    fn put<E: Error>(self, value: impl Serialize) -> Result<(), E> {
        serde_json::to_writer(self.out, &value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.put(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.put(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.put(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.put(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.put(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.put(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut before = b'[';
        let begins = self.out.len();
        loop {
            self.out.push(before);
            before = b',';
            if items.next_element_seed(Value { out: &mut *self.out, event: None })?.is_none() {
                break;
            }
        }
        close(self.out, begins, b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let (mut event, out) = (self.event, self.out);
        let mut before = b'{';
        let begins = out.len();
        loop {
            out.push(before);
            before = b',';
            let key = out.len();
            if fields.next_key_seed(Value { out: &mut *out, event: None })?.is_none() {
                break;
            }
            let is_event = &out[key..] == EVENT;
            out.push(b':');
            let value = out.len();
            fields.next_value_seed(Value { out: &mut *out, event: None })?;
            if is_event && let Some(event) = &mut event {
                // Of several the last one counts, as for the daemon.
                **event = serde_json::from_slice(&out[value..]).unwrap_or_default();
            }
        }
        close(out, begins, b'}');
        Ok(())
    }
}

/// In place of the comma that nothing follows; an empty list or object has none.
fn close(out: &mut Vec<u8>, begins: usize, end: u8) {
    if out.len() - begins > 1 {
        out.pop();
    }
    out.push(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(input: &str) -> Option<(String, String)> {
        let mut out = Vec::new();
        let event = rewrite(input.as_bytes(), &mut out)?;
        Some((event, String::from_utf8(out).unwrap()))
    }

    /// Those that a tree would read otherwise, or not at all.
    #[test]
    fn it_reads_what_a_tree_reads_and_means_the_same() {
        for input in [
            "null",
            "\t[ ] \n",
            "{ }",
            r#"[{},[],"",0,-0,-0.0,1e2,1.5e-7,18446744073709551615,18446744073709551616,-9223372036854775809]"#,
            r#"{"a":1,"a":{"b":[true,false,null]}," ":"\u0000\u001f\"\\\/é\ud83d\ude00","\u00e9":"é"}"#,
            "{\"line\"\n:\r[1 ,\t2]}",
            "[1,]",
            "{\"a\":1,}",
            "[1] 2",
            "1e999",
            "01",
            "\"\\ud83d\"",
            "\"\n\"",
            "",
            "{1:2}",
            &"[".repeat(200),
            &("[".repeat(127) + &"]".repeat(127)),
            &("[".repeat(128) + &"]".repeat(128)),
        ] {
            let tree: Option<serde_json::Value> = serde_json::from_str(input).ok();
            let ours = rewritten(input);
            let again = ours.as_ref().map(|(_, out)| serde_json::from_str(out).unwrap());
            assert_eq!(again, tree, "{input}");
            assert!(ours.is_none_or(|(_, out)| !out.contains('\n')), "{input}");
        }
    }

    #[test]
    fn the_event_is_the_outermost_field_of_that_name_and_a_text() {
        for (input, event) in [
            (r#"{"a":{"hook_event_name":"Inner"},"hook_event_name":"Stop"}"#, "Stop"),
            (r#"{"hook_event_name":"First","hook_event_name":"La\u0073t"}"#, "Last"),
            (r#"{"hook\u005fevent_name":"Stop"}"#, "Stop"),
            (r#"{"hook_event_name":["Stop"]}"#, ""),
            (r#"[{"hook_event_name":"Stop"}]"#, ""),
            (r#""hook_event_name""#, ""),
        ] {
            assert_eq!(rewritten(input).unwrap().0, event, "{input}");
        }
    }
}
