//! Lines → one turn. Pure: no file, no clock.
//!
//! ```text
//! user P "do it"        begins the turn: TurnScan::begun_by
//! assistant …           its blocks
//! user P [tool_result]  its blocks too
//! assistant …           its blocks; here the text may equal what the Stop hook said: the turn is complete
//! user Q "next"         the turn is over: Fed::Over
//! ```
//!
//! Prompts without an answer between them are one turn where Claude Code says that it had queued them, or does not say:
//! it writes one line for each, answers them together, and its Stop names the last one. Users' words are never blocks of
//! a turn: a block does not say who wrote it. A turn that ends with the API's failure is none.

use ccmux_wire::id::PromptId;
use ccmux_wire::output::TurnSource;
use serde_json::Value;

use super::line::{AssistantLine, Line, UserLine, block_text, parse_line};
use super::lines::{LineReader, Next};

/// A turn bigger than this (in bytes of its lines) is cut, and marked partial.
const MAX_TURN_BYTES: u64 = 128 * 1024 * 1024;

/// So many prompts that are answered together are remembered.
const MAX_PROMPTS: usize = 1024;

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
    /// Where it comes from, if not from the transcript.
    pub source: Option<TurnSource>,
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

/// The API's failure in a turn, as Claude Code reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiFailure {
    /// The prompt that began the turn.
    pub prompt: Option<PromptId>,
    /// Claude Code's word for it; absent in old versions.
    pub error: Option<String>,
    /// Claude Code's sentence.
    pub text: String,
    /// When it was written, as the line says.
    pub written_at: Option<String>,
}

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fed {
    /// It was looked at.
    Taken,
    /// It was not: it begins another turn.
    Over,
}

/// One turn being read.
#[derive(Debug, Default)]
pub struct TurnScan {
    /// Its prompts; several if they are answered together. None: it began before the cursor.
    prompts: Vec<PromptId>,
    /// A prompt was seen, or is known to stand before the cursor.
    begun: bool,
    body: TurnBody,
    /// Bytes of the lines in `body`.
    bytes: u64,
    last_message: Option<String>,
    /// The model said something, if only that the API failed.
    answered: bool,
    failed: bool,
    failure: ApiFailure,
    goes_on: bool,
    closed: bool,
}

impl TurnScan {
    /// Behind the cursor, before any prompt: what comes belongs to a turn that began before it.
    pub fn before_any_prompt() -> Self {
        Self::default()
    }

    /// Behind the cursor, in the turn of that prompt: a part of it was read.
    pub fn continuing(prompt: PromptId) -> Self {
        let body = TurnBody { prompt_id: Some(prompt.clone()), ..TurnBody::default() };
        Self { prompts: vec![prompt], begun: true, answered: true, body, ..Self::default() }
    }

    /// The turn that a line begins, which [`Self::feed`] did not take.
    pub fn begun_by(line: &Line) -> Self {
        let mut scan = Self { begun: true, ..Self::default() };
        if let Line::User(user) = line {
            scan.add_prompt(user);
        }
        scan
    }

    /// A prompt was seen; without one nobody knows whose turn this is.
    pub fn is_begun(&self) -> bool {
        self.begun
    }

    /// That prompt began it, alone or together with others.
    pub fn is_of(&self, prompt: &PromptId) -> bool {
        self.prompts.contains(prompt) || self.body.prompt_id.as_ref() == Some(prompt)
    }

    /// Takes the next line, which has that many bytes in the file, unless it begins another turn.
    pub fn feed(&mut self, line: &mut Line, bytes: u64) -> Fed {
        match line {
            Line::User(user) if !user.is_sidechain => self.feed_user(user, bytes),
            Line::Assistant(assistant) if !assistant.is_sidechain => {
                self.feed_assistant(assistant, bytes);
                Fed::Taken
            }
            Line::TurnClosed => {
                self.closed = !self.goes_on;
                Fed::Taken
            }
            _ => Fed::Taken,
        }
    }

    fn feed_user(&mut self, user: &mut UserLine, bytes: u64) -> Fed {
        if user.is_prompt() && !self.is_own(user) {
            if !self.is_joined_by(user) {
                return Fed::Over;
            }
            self.add_prompt(user);
        }
        self.closed |= user.interruption;
        self.goes_on |= user.goes_on;
        let results = std::mem::take(&mut user.results);
        self.take_blocks(results, user.uuid.as_deref(), bytes);
        Fed::Taken
    }

    fn is_own(&self, user: &UserLine) -> bool {
        user.prompt_id.as_ref().is_some_and(|prompt| self.is_of(prompt))
    }

    /// Another prompt is answered together with this one.
    fn is_joined_by(&self, user: &UserLine) -> bool {
        let unanswered = self.begun && !self.answered && !self.closed && self.body.blocks.is_empty();
        unanswered && user.from_queue != Some(false)
    }

    /// The Stop hook names the last of several.
    fn add_prompt(&mut self, user: &UserLine) {
        if let Some(prompt) = user.prompt_id.clone().filter(|_| self.prompts.len() < MAX_PROMPTS) {
            self.prompts.push(prompt);
        }
        self.body.prompt_id.clone_from(&user.prompt_id);
    }

    fn feed_assistant(&mut self, assistant: &mut AssistantLine, bytes: u64) {
        (self.answered, self.closed, self.goes_on) = (true, false, false);
        self.failed = assistant.api_error;
        if assistant.api_error {
            self.failure = ApiFailure {
                prompt: self.body.prompt_id.clone(),
                error: assistant.error.clone(),
                text: assistant.text(),
                written_at: assistant.written_at.clone(),
            };
            return;
        }
        self.remember_text(assistant);
        let blocks = std::mem::take(&mut assistant.blocks);
        self.take_blocks(blocks, assistant.uuid.as_deref(), bytes);
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

    /// How the API failed, if the turn ended by that.
    pub fn failure(&self) -> Option<&ApiFailure> {
        self.failed.then_some(&self.failure)
    }

    /// Bytes of the lines that it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The model's last message so far is this text.
    pub fn says(&self, text: &str) -> bool {
        same_words(&self.body.last_text, text)
    }

    /// The transcript itself says that the turn ended.
    pub fn is_closed(&self) -> bool {
        self.begun && (self.closed || self.failed)
    }

    /// The turn as it is; `None` if there is nothing to show.
    pub fn finish(self) -> Option<TurnBody> {
        (!self.failed && !self.body.blocks.is_empty()).then_some(self.body)
    }

    /// The turn of that prompt, which ended. What its Stop hook said is its last text: if the transcript does not have
    /// it, the turn is partial, and gets it.
    pub fn finish_as(mut self, prompt: Option<PromptId>, last_message: Option<&str>) -> Option<TurnBody> {
        self.body.prompt_id = prompt.or(self.body.prompt_id);
        let missing = last_message.filter(|text| !text.trim().is_empty() && !self.says(text));
        if let Some(words) = missing.filter(|_| !self.failed) {
            self.body.add_words(words);
        }
        self.finish()
    }
}

/// The turns that a whole transcript holds, whatever bytes it is made of: what property tests and the fuzzer call.
pub fn turns_in(transcript: &[u8]) -> Vec<TurnBody> {
    let mut lines = LineReader::new(transcript, 0);
    let (mut turns, mut scan) = (Vec::new(), TurnScan::before_any_prompt());
    // A slice can't fail to be read.
    while let Ok(next) = lines.next_line() {
        let (mut line, length) = match next {
            Next::Line { bytes, .. } => (parse_line(bytes), bytes.len() as u64),
            Next::TooLong | Next::StillLong => continue,
            Next::End { .. } => break,
        };
        if scan.feed(&mut line, length) == Fed::Over {
            turns.extend(std::mem::replace(&mut scan, TurnScan::begun_by(&line)).finish());
            scan.feed(&mut line, length);
        }
    }
    turns.extend(scan.finish());
    turns
}

/// Equal but for white space: hooks and transcripts trim differently.
pub fn same_words(one: &str, other: &str) -> bool {
    one == other || words(one).eq(words(other))
}

fn words(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().filter(|c| !c.is_whitespace())
}

/// All text blocks of a turn, with newlines between them.
pub fn text_of(blocks: &[Value]) -> String {
    blocks.iter().filter_map(block_text).collect::<Vec<_>>().join("\n")
}
