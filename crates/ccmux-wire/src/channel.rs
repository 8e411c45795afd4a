//! Channel names: `[A-Za-z0-9][A-Za-z0-9_.-]{0,63}`, and the FIFO names they come from.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest channel name, in bytes (the names are ASCII).
pub const MAX_LEN: usize = 64;

/// The channel of the FIFO that is just called `in`.
pub const DEFAULT: &str = "default";

/// Endings that editors and file tools leave behind; a file `in.x.swp` is never a channel.
const LEFTOVER_ENDINGS: [&str; 4] = ["~", ".bak", ".swp", ".tmp"];

/// A valid channel name. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChannelName(Arc<str>);

/// Why a text is not a channel name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelNameError {
    /// The empty name.
    #[error("a channel name can't be empty")]
    Empty,
    /// Longer than [`MAX_LEN`].
    #[error("a channel name has at most {MAX_LEN} characters")]
    TooLong,
    /// A character outside the set, or a first one that is not a letter or digit.
    #[error(
        "`{0}` is not allowed in a channel name: use letters, digits, `_`, `.` and `-`, beginning with a letter or digit"
    )]
    Character(char),
}

impl ChannelName {
    /// The channel of the FIFO `in`.
    pub fn default_channel() -> Self {
        Self(Arc::from(DEFAULT))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ChannelName {
    type Err = ChannelNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some(first) = text.chars().next() else {
            return Err(ChannelNameError::Empty);
        };
        if !first.is_ascii_alphanumeric() {
            return Err(ChannelNameError::Character(first));
        }
        if let Some(bad) = text.chars().find(|c| !c.is_ascii_alphanumeric() && !"_.-".contains(*c)) {
            return Err(ChannelNameError::Character(bad));
        }
        if text.len() > MAX_LEN {
            return Err(ChannelNameError::TooLong);
        }
        Ok(Self(Arc::from(text)))
    }
}

impl TryFrom<String> for ChannelName {
    type Error = ChannelNameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ChannelName> for String {
    fn from(name: ChannelName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a file name in the runtime directory stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileRole {
    /// `in` or `in.NAME`: messages come in here.
    In(ChannelName),
    /// `out.NAME`: Claude's answers leave here.
    Out(ChannelName),
    /// Looks like a channel but can't be one; the text says why.
    Refused(String),
    /// Nothing to do with channels.
    Other,
}

/// The name of the FIFO by which messages of a channel come in.
///
/// ```
/// use ccmux_wire::channel::in_file;
/// assert_eq!(in_file(&"telegram".parse().unwrap()), "in.telegram");
/// assert_eq!(in_file(&"default".parse().unwrap()), "in");
/// ```
pub fn in_file(channel: &ChannelName) -> String {
    match channel == &ChannelName::default_channel() {
        true => "in".to_owned(),
        false => format!("in.{channel}"),
    }
}

/// Says what a file of that name in the runtime directory is for. Looks at the name only.
///
/// ```
/// use ccmux_wire::channel::{FileRole, role_of_file};
/// assert_eq!(role_of_file("in"), FileRole::In("default".parse().unwrap()));
/// assert_eq!(role_of_file("in.telegram"), FileRole::In("telegram".parse().unwrap()));
/// assert_eq!(role_of_file("in.notes.swp"), FileRole::Other);
/// assert!(matches!(role_of_file("in.default"), FileRole::Refused(_)));
/// ```
pub fn role_of_file(file_name: &str) -> FileRole {
    if LEFTOVER_ENDINGS.iter().any(|ending| file_name.ends_with(ending)) {
        return FileRole::Other;
    }
    if file_name == "in" {
        return FileRole::In(ChannelName::default_channel());
    }
    if file_name == "in.default" {
        return FileRole::Refused(
            "in.default is refused: the channel `default` belongs to the FIFO `in`".into(),
        );
    }
    let (name, role): (&str, fn(ChannelName) -> FileRole) = match file_name.split_once('.') {
        Some(("in", name)) => (name, FileRole::In),
        Some(("out", name)) => (name, FileRole::Out),
        _ => return FileRole::Other,
    };
    match name.parse() {
        Ok(channel) => role(channel),
        Err(error) => FileRole::Refused(format!("{file_name:?} is no channel: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_documented_form_are_taken() {
        for name in ["a", "telegram", "Z9", "a.b-c_d", &"x".repeat(64)] {
            assert_eq!(name.parse::<ChannelName>().map(|n| n.to_string()), Ok(name.to_owned()));
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for name in ["", ".x", "-x", "_x", "a b", "a/b", "ä", "a\n", "a]", &"x".repeat(65)] {
            assert!(name.parse::<ChannelName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn editor_leftovers_are_no_channels() {
        for file in
            ["in.x~", "in.x.bak", "in.x.swp", "in.x.tmp", "out.x~", "output.sock", "control.sock", "index"]
        {
            assert_eq!(role_of_file(file), FileRole::Other, "{file}");
        }
    }

    #[test]
    fn a_bad_name_is_refused_with_the_reason() {
        let FileRole::Refused(why) = role_of_file("in.a b") else { panic!("taken") };
        assert!(why.contains("in.a b"), "{why}");
    }
}
