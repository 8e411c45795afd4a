//! Containers: what the owner asks about them on `control.sock`, and what they may say on a socket of their own.
//!
//! ```text
//! owner     → {"v":1,"type":"container","verb":"open","id":"k3f9c2ab"}        `ccmux run`
//! owner     ← {"ok":true,"container":{"dir":"/tmp/ccmux/containers/k3f9c2ab"}}
//! container → {"v":1,"type":"guest","verb":"notify","event":"complete","message":"the tests pass"}
//! container → {"v":1,"type":"guest","verb":"ask","question":"Which branch?","wait_s":60}
//! container ← {"ok":true,"container":{"questions":[{"id":"q-1740000000-0a1b2c","answer":"main",…}]}}
//! ```
//!
//! Whoever speaks on a container's socket is that container, whatever it says. It opens nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The socket in a container's directory.
pub const SOCKET: &str = "ccmux.sock";
/// The variable that names the container to what runs in it.
pub const CONTAINER_VARIABLE: &str = "CCMUX_CONTAINER";
/// The directory in the runtime directory that holds one directory for each container.
pub const CONTAINERS: &str = "containers";
/// The longest frame that a container may send, in bytes.
pub const MAX_GUEST_BYTES: usize = 1024 * 1024;
/// The longest message, question or answer, in bytes.
pub const MAX_TEXT_BYTES: usize = 8 * 1024;

/// What is wrong with a name or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A container's.
    #[error("a container's id has 4 to 16 letters a to z and digits")]
    Container,
    /// A window's.
    #[error("a window's id has 1 to 20 digits")]
    Window,
}

/// A container: part of a path, and of what people read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContainerId(String);

impl ContainerId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ContainerId {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        let plain = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let fits = (4..=16).contains(&text.len());
        if plain && fits { Ok(Self(text)) } else { Err(NameError::Container) }
    }
}

impl From<ContainerId> for String {
    fn from(id: ContainerId) -> Self {
        id.0
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A window of the user's desktop (`WINDOWID`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WindowId(String);

impl WindowId {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for WindowId {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        let plain = (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if plain { Ok(Self(text)) } else { Err(NameError::Window) }
    }
}

impl From<WindowId> for String {
    fn from(id: WindowId) -> Self {
        id.0
    }
}

impl fmt::Display for WindowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a sender without a session has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderEvent {
    /// Something is done.
    Complete,
    /// Somebody must decide.
    Question,
    /// Anything else.
    Info,
}

impl SenderEvent {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Complete, Self::Question, Self::Info];

    /// The word of a line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Question => "question",
            Self::Info => "info",
        }
    }

    /// The other way round.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.word() == word)
    }
}

/// What the owner asks about containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum ContainerRequest {
    /// Make a directory with one socket, for as long as the process that asks for it lives.
    Open {
        /// Chosen by whoever asks; new.
        id: ContainerId,
        /// The user in the container, where it is not the daemon's own; taken from a daemon of root only.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        uid: Option<u32>,
        /// The window that it was started from.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        window: Option<WindowId>,
    },
    /// Remove it.
    Close {
        /// Which.
        id: ContainerId,
    },
    /// Show them, and the questions that they asked.
    List,
    /// Answer a question.
    Answer {
        /// Which.
        question: String,
        /// The answer.
        text: String,
    },
}

/// What a container says on its own socket, beside hooks and tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum GuestRequest {
    /// Tell somebody.
    Notify {
        /// What kind of thing.
        event: SenderEvent,
        /// What.
        message: String,
    },
    /// Ask somebody.
    Ask {
        /// What.
        question: String,
        /// Reply only with the answer, or after so many seconds.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        wait_s: Option<u64>,
    },
    /// Read the answer to a question of one's own.
    Answer {
        /// Which.
        question: String,
        /// Reply only with the answer, or after so many seconds.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        wait_s: Option<u64>,
    },
}

/// The answer to both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containers {
    /// For `open`: what is to be mounted, and nothing else of the runtime directory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dir: Option<String>,
    /// For `list`: those that are open.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub containers: Vec<ContainerStatus>,
    /// For `list`: all that wait or were answered; for `ask` and `answer`: that one.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub questions: Vec<GuestQuestion>,
}

/// A container that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerStatus {
    /// Which.
    pub id: ContainerId,
    /// The process that it lives as long as.
    pub pid: i32,
    /// Unix milliseconds.
    pub since_ms: i64,
    /// The window that it was started from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub window: Option<WindowId>,
}

/// A question of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestQuestion {
    /// `q-<unix seconds>-<hex>`
    pub id: String,
    /// Who asked.
    pub container: ContainerId,
    /// What.
    pub question: String,
    /// Unix milliseconds.
    pub asked_ms: i64,
    /// What was answered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{Frame, Request};

    #[test]
    fn an_id_can_be_nothing_but_a_name() {
        for text in ["abcd", "k3f9c2ab", "0123456789abcdef"] {
            assert!(ContainerId::try_from(text.to_owned()).is_ok(), "{text}");
        }
        for text in ["", "abc", "0123456789abcdef0", "../x", "ab/cd", "ABCD", "ab cd", "ab\ncd", "äöüß"] {
            assert!(ContainerId::try_from(text.to_owned()).is_err(), "{text}");
        }
        for text in ["", "x", "1 2", "-1", "123456789012345678901", "١٢"] {
            assert!(WindowId::try_from(text.to_owned()).is_err(), "{text}");
        }
        assert!(WindowId::try_from("12345678901234567890".to_owned()).is_ok());
    }

    #[test]
    fn frames_read_as_documented_and_a_bad_id_is_named() {
        let line = r#"{"v":1,"type":"container","verb":"open","id":"k3f9c2ab","window":"77"}"#;
        let frame: Frame = serde_json::from_str(line).unwrap();
        assert!(matches!(&frame.request, Request::Container(ContainerRequest::Open { .. })));
        assert_eq!(serde_json::to_string(&frame).unwrap(), line);
        let bad = serde_json::from_str::<Frame>(&line.replace("k3f9c2ab", "../run")).unwrap_err();
        assert!(bad.to_string().contains("container's id"), "{bad}");
        let line = r#"{"v":1,"type":"guest","verb":"notify","event":"complete","message":"done"}"#;
        let frame: Frame = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&frame).unwrap(), line);
    }
}
