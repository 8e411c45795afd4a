//! Identifiers. Each is its own type, so that a batch is never taken for a message.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Declares an identifier that is a row number of a database, thus positive and ordered by acceptance.
macro_rules! row_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// Declares an identifier that another program chose; it is compared, never parsed.
macro_rules! foreign_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is.
            pub fn new(text: impl AsRef<str>) -> Self {
                Self(Arc::from(text.as_ref()))
            }

            /// The text as the other program wrote it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

row_id! {
    /// A message in the inbox: its row number, ordered by acceptance. What users see is [`crate::receipt::Receipt::id`].
    MessageId
}
row_id! {
    /// One prompt made of one or more messages.
    BatchId
}
row_id! {
    /// The sequence number of a line on `output.sock`; monotonic over restarts.
    Seq
}
foreign_id! {
    /// A conversation of Claude Code: `session_id` of its hooks, the stem of its transcript's file name.
    SessionId
}
foreign_id! {
    /// One prompt of a session: `prompt_id` of its hooks, `promptId` of its transcript lines (2.0.76 has none).
    PromptId
}
