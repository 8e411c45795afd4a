//! Lines → turns. Pure: no file, no clock.
//!
//! ```text
//! user P "do it"        begins the turn
//! assistant …           its blocks
//! user P [tool_result]  its blocks too
//! assistant …           its blocks; here the text may equal what the Stop hook said: the turn is complete
//! user Q "next"         the turn is over
//! ```
//!
//! Two prompts without an answer between them are one turn: Claude Code writes one line for each text that it had queued
//! and answers them together. Users' words are never blocks of a turn: a block does not say who wrote it.

use ccmux_wire::id::PromptId;
use serde_json::Value;

use super::line::{AssistantLine, Line, UserLine, block_text};

/// A turn bigger than this (in bytes of its lines) is cut, and marked partial.
const MAX_TURN_BYTES: u64 = 128 * 1024 * 1024;

/// What a turn is made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnBody {
    /// The content blocks in file order.
    pub blocks: Vec<Value>,
    /// The prompt that began it.
    pub prompt_id: Option<PromptId>,
    /// The last line that gave a block.
    pub last_uuid: Option<String>,
    /// The text of the model's last message.
    pub last_text: String,
    /// It could not be completed from the transcript.
    pub partial: bool,
}

impl TurnBody {
    /// A turn of which nothing but the hook's words is known.
    pub fn of_words(prompt_id: Option<PromptId>, words: &str) -> Self {
        let mut body = Self { prompt_id, ..Self::default() };
        body.add_words(words);
        body
    }

    fn add_words(&mut self, words: &str) {
        self.blocks.push(serde_json::json!({"type": "text", "text": words}));
        words.clone_into(&mut self.last_text);
        self.partial = true;
    }
}

/// Where the scan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Behind the cursor, before any prompt: these lines may belong to the turn that is looked for, if its prompt was
    /// written before the cursor.
    Before,
    /// In somebody else's turn.
    Elsewhere,
    /// In the turn that is looked for.
    Inside,
}

/// Whether a line was part of the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fed {
    /// Go on with the next line.
    Taken,
    /// The turn was over before this line, which is untouched.
    Over,
}

/// Collects one turn.
#[derive(Debug)]
pub struct TurnScan {
    /// Which prompt's turn; `None`: the next one.
    wanted: Option<PromptId>,
    place: Place,
    body: TurnBody,
    /// Bytes of the lines in `body`.
    bytes: u64,
    last_message: Option<String>,
    /// The model said something, if only that the API failed.
    answered: bool,
    closed: bool,
}

impl TurnScan {
    /// Looks for the turn of that prompt, or the next one. With `continued` the cursor stands in that very turn.
    pub fn new(wanted: Option<PromptId>, continued: bool) -> Self {
        let place = match (&wanted, continued) {
            (_, true) => Place::Inside,
            (Some(_), false) => Place::Before,
            (None, false) => Place::Elsewhere,
        };
        let body = TurnBody { prompt_id: wanted.clone(), ..TurnBody::default() };
        Self { wanted, place, body, bytes: 0, last_message: None, answered: false, closed: false }
    }

    /// Takes the next line, which has that many bytes in the file.
    pub fn feed(&mut self, line: &mut Line, bytes: u64) -> Fed {
        match line {
            Line::User(user) if !user.is_sidechain => self.feed_user(user, bytes),
            Line::Assistant(assistant) if !assistant.is_sidechain => self.feed_assistant(assistant, bytes),
            Line::TurnClosed => {
                self.closed = self.place == Place::Inside;
                Fed::Taken
            }
            _ => Fed::Taken,
        }
    }

    fn feed_user(&mut self, user: &mut UserLine, bytes: u64) -> Fed {
        if self.place == Place::Inside && self.is_over_before(user) {
            return Fed::Over;
        }
        let unanswered_before = self.wanted.is_none() && user.is_prompt() && !self.is_own(user);
        if self.place != Place::Inside || unanswered_before {
            self.enter_or_pass(user);
        }
        if self.place == Place::Inside {
            self.closed |= user.interruption;
            let results = std::mem::take(&mut user.results);
            self.take_blocks(results, user.uuid.as_deref(), bytes);
        }
        Fed::Taken
    }

    /// A prompt that is not this turn's own begins another turn, unless it was answered together with this one.
    fn is_over_before(&self, user: &UserLine) -> bool {
        let another = user.is_prompt() && !self.is_own(user);
        another && (self.answered || self.closed || user.from_queue == Some(false))
    }

    fn is_own(&self, user: &UserLine) -> bool {
        user.prompt_id.is_some() && user.prompt_id == self.body.prompt_id
    }

    fn enter_or_pass(&mut self, user: &UserLine) {
        let begins = match &self.wanted {
            Some(wanted) => user.prompt_id.as_ref() == Some(wanted),
            None => user.is_prompt(),
        };
        if begins {
            let prompt_id = user.prompt_id.clone();
            *self = Self::new(self.wanted.take(), true);
            self.body.prompt_id = prompt_id;
        } else if user.is_prompt() {
            *self = Self::new(self.wanted.take(), false);
            self.place = Place::Elsewhere;
        }
    }

    fn feed_assistant(&mut self, assistant: &mut AssistantLine, bytes: u64) -> Fed {
        if self.place == Place::Elsewhere {
            return Fed::Taken;
        }
        (self.answered, self.closed) = (true, false);
        self.remember_text(assistant);
        if !assistant.api_error {
            let blocks = std::mem::take(&mut assistant.blocks);
            self.take_blocks(blocks, assistant.uuid.as_deref(), bytes);
        }
        Fed::Taken
    }

    /// The lines of one message share its id; its text is that of all of them.
    fn remember_text(&mut self, assistant: &AssistantLine) {
        let text = assistant.text();
        if text.is_empty() {
            return;
        }
        if assistant.message_id.is_none() || assistant.message_id != self.last_message {
            self.body.last_text.clear();
            self.last_message.clone_from(&assistant.message_id);
        }
        self.body.last_text.push_str(&text);
    }

    fn take_blocks(&mut self, blocks: Vec<Value>, uuid: Option<&str>, bytes: u64) {
        if blocks.is_empty() {
            return;
        }
        self.body.last_uuid = uuid.map(str::to_owned);
        if self.bytes + bytes > MAX_TURN_BYTES {
            self.body.partial = true;
            return;
        }
        self.bytes += bytes;
        self.body.blocks.extend(blocks);
    }

    /// The model's last message so far is this text.
    pub fn says(&self, text: &str) -> bool {
        self.place == Place::Inside && same_words(&self.body.last_text, text)
    }

    /// The transcript itself says that the turn ended.
    pub fn is_closed(&self) -> bool {
        self.place == Place::Inside && self.closed
    }

    /// Ends the scan. `last_message` is what the Stop hook said: a turn that does not end with it is partial, and gets it.
    pub fn finish(mut self, last_message: Option<&str>) -> Option<TurnBody> {
        let fits = last_message.is_some_and(|text| same_words(&self.body.last_text, text));
        if self.place == Place::Elsewhere || (self.place == Place::Before && !fits) {
            self = Self::new(self.wanted.take(), true);
        }
        if let Some(text) = last_message.filter(|text| !fits && !text.trim().is_empty()) {
            self.body.add_words(text);
        }
        (!self.body.blocks.is_empty()).then_some(self.body)
    }
}

/// Equal but for white space: hooks and transcripts trim differently.
pub fn same_words(one: &str, other: &str) -> bool {
    let words = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    one == other || words(one) == words(other)
}

/// All text blocks of a turn, with newlines between them.
pub fn text_of(blocks: &[Value]) -> String {
    blocks.iter().filter_map(block_text).collect::<Vec<_>>().join("\n")
}
