//! What is wrong with a value, and what is wanted, for people who know no types of Rust's.
//!
//! ```text
//! InvalidValue(Signed(70000), "u16") ─► found 70000; give a whole number from 0 to 65535
//! UnknownVariant("nope", [..])       ─► there is no `nope`; give one of command, webhook, ...
//! ```
//!
//! Knows no key: whoever tells the error names it.

use figment::error::{Actual, Kind};

/// In words.
pub(super) fn of(kind: &Kind) -> String {
    match kind {
        Kind::InvalidType(found, wanted) | Kind::InvalidValue(found, wanted) => {
            format!("found {}; give {}", value(found), type_of(wanted))
        }
        Kind::UnknownField(name, known) => format!("there is no key `{name}` here{}", one_of(known)),
        Kind::UnknownVariant(name, known) => format!("there is no `{name}`{}", one_of(known)),
        Kind::MissingField(name) => format!("the key `{name}` is missing"),
        other => other.to_string(),
    }
}

fn one_of(known: &[&str]) -> String {
    if known.is_empty() { String::new() } else { format!("; give one of {}", known.join(", ")) }
}

/// A number is a number, whatever holds it.
fn value(found: &Actual) -> String {
    match found {
        Actual::Signed(number) => number.to_string(),
        Actual::Unsigned(number) => number.to_string(),
        Actual::Float(number) => number.to_string(),
        other => other.to_string(),
    }
}

fn type_of(wanted: &str) -> String {
    match wanted {
        "f32" | "f64" => "a number, such as 2 or 0.5".to_owned(),
        "a boolean" => "true or false, without quotes".to_owned(),
        "a string" => "a text in quotes".to_owned(),
        "a map" => "a table of keys".to_owned(),
        "a sequence" => "a list in brackets".to_owned(),
        other => whole_number(other).unwrap_or_else(|| other.to_owned()),
    }
}

/// The limits of an integer's type.
fn whole_number(kind: &str) -> Option<String> {
    let bits: u32 = kind.strip_prefix(['i', 'u'])?.parse().ok()?;
    Some(match (kind.starts_with('u'), bits) {
        (true, 1..=32) => format!("a whole number from 0 to {}", (1_u64 << bits) - 1),
        (true, _) => "a whole number, not below 0".to_owned(),
        (false, 1..=32) => {
            let limit = 1_u64 << (bits - 1);
            format!("a whole number from -{limit} to {}", limit - 1)
        }
        (false, _) => "a whole number".to_owned(),
    })
}
