//! Bytes from a FIFO → frames → messages.
//!
//! ```text
//! bytes ─ Framer::push ─► Framer::next_frame ─► Frame ─ parse ─► Parsed::{Message, Rejected, Ignored}
//!                         Framer::flush_quiet (after 2 s without a byte)
//! ```
//!
//! | input | frame |
//! |---|---|
//! | `text\n`, `text\r\n` | [`Frame::Line`] `text` |
//! | `\0line 1\nline 2\0` | [`Frame::Block`] `line 1\nline 2` |
//! | `text`, then quiet | [`Frame::Line`] `text` |
//! | `\0text`, then quiet | [`Frame::Block`] `text` |
//! | more than the limit | one [`Frame::TooLong`] at its end (or at quiet), whatever follows is unharmed |
//!
//! Pure: no clock, no file. Nothing here errs, and no input makes it stall: every byte ends in exactly one frame.
//! What a message's text may hold is not decided here (the runtime sanitises it), nor whether it is new.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::channel::ChannelName;

/// How long a FIFO must be quiet before a line without newline is accepted as it stands, in milliseconds.
pub const QUIET_MS: u64 = 2_000;

/// The longest `id` a sender may give, in bytes.
pub const MAX_ID_BYTES: usize = 256;

/// How far a sender's `ts` may be from now, in milliseconds.
const MAX_TS_DISTANCE_MS: f64 = 24.0 * 3_600_000.0;

/// Capacity that an empty framer may keep, in bytes: there can be hundreds of channels.
const IDLE_CAPACITY: usize = 4 * 1024;

/// One unit of input, without its terminator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A line, without its LF or CRLF.
    Line(Vec<u8>),
    /// A NUL-framed text, without its NULs; it may hold newlines.
    Block(Vec<u8>),
    /// A line or block over the limit; its text is gone.
    TooLong {
        /// How many bytes it had, terminators not counted.
        bytes: u64,
    },
}

/// What ends a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminator {
    /// A line's.
    Newline,
    /// A block's.
    Nul,
}

impl Terminator {
    fn byte(self) -> u8 {
        match self {
            Self::Newline => b'\n',
            Self::Nul => 0,
        }
    }
}

/// An over-long frame on its way past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip {
    /// What will end it.
    pub until: Terminator,
    /// Bytes of it that were dropped so far.
    pub bytes: u64,
}

/// Where a framer stands between two frames: enough to go on after a restart by feeding it from `consumed`.
///
/// An over-long line may be endless, so its bytes are consumed while they are skipped, and `skip` says that they were.
/// A reader that keeps only `consumed` would take the rest of such a line for a message: keep both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Offset of the first byte that is neither part of a returned frame nor skipped.
    pub consumed: u64,
    /// The over-long frame that was being skipped.
    pub skip: Option<Skip>,
}

/// Cuts a stream of bytes into [`Frame`]s, whatever the chunks it comes in.
///
/// Holds at most the limit and two bytes once [`Framer::next_frame`] has returned `None`.
///
/// ```
/// use ccmux_wire::inbound::{Frame, Framer};
/// let mut framer = Framer::new(1024);
/// framer.push(b"one\ntw");
/// assert_eq!(framer.next_frame(), Some(Frame::Line(b"one".to_vec())));
/// assert_eq!(framer.next_frame(), None);
/// assert_eq!(framer.consumed(), 4);
/// assert_eq!(framer.flush_quiet(), Some(Frame::Line(b"tw".to_vec())));
/// assert!(!framer.pending());
/// ```
#[derive(Debug, Clone)]
pub struct Framer {
    limit: usize,
    buffer: Vec<u8>,
    /// Bytes at the buffer's front that were returned already.
    taken: usize,
    /// Bytes behind `taken` that are known to hold no terminator.
    scanned: usize,
    /// Where the stream stands at `buffer[taken]`.
    at: Position,
}

impl Framer {
    /// At the start of a stream; `limit_bytes` is the longest frame, terminators not counted.
    pub fn new(limit_bytes: usize) -> Self {
        Self::resume(limit_bytes, Position::default())
    }

    /// Where an earlier framer stood. The next byte pushed must be the one at `at.consumed`.
    pub fn resume(limit_bytes: usize, at: Position) -> Self {
        Self { limit: limit_bytes, buffer: Vec::new(), taken: 0, scanned: 0, at }
    }

    /// Takes bytes. Ask for frames until there is none before pushing more, or memory grows.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete frame.
    pub fn next_frame(&mut self) -> Option<Frame> {
        if let Some(skip) = self.at.skip {
            return self.skip_on(skip);
        }
        let until = self.open_terminator()?;
        let from = self.scanned.max(head_bytes(until));
        match find(&self.partial()[from..], until.byte()) {
            Some(at) => {
                let frame = self.frame_of(until, from + at);
                self.advance(from + at + 1);
                Some(frame)
            }
            None => {
                self.scanned = self.partial().len();
                self.begin_skip_if_too_long(until);
                None
            }
        }
    }

    /// Whether [`Framer::next_frame`] would return one: to ask before taking what there is no room for.
    pub fn has_frame(&self) -> bool {
        let (from, until) = match (self.at.skip, self.open_terminator()) {
            (Some(skip), _) => (0, skip.until),
            (None, Some(until)) => (self.scanned.max(head_bytes(until)), until),
            (None, None) => return false,
        };
        find(&self.partial()[from..], until.byte()).is_some()
    }

    /// Called when nothing came for [`QUIET_MS`]: the next complete frame, or what there is, as it stands. Call it until
    /// it returns `None`.
    ///
    /// Quiet ends an over-long frame too: whoever writes a big file without a last newline must not swallow the next
    /// writer's line. A NUL that comes after its block was ended by quiet begins a new block.
    pub fn flush_quiet(&mut self) -> Option<Frame> {
        if let Some(frame) = self.next_frame() {
            return Some(frame);
        }
        if let Some(skip) = self.at.skip.take() {
            return Some(Frame::TooLong { bytes: skip.bytes });
        }
        let until = self.open_terminator()?;
        let end = self.partial().len();
        let frame = self.frame_of(until, end);
        self.advance(end);
        Some(frame)
    }

    /// Whether something is held, or skipped, that quiet would end.
    pub fn pending(&self) -> bool {
        self.at.skip.is_some() || !self.partial().is_empty()
    }

    /// Offset of the first byte that is neither part of a returned frame nor skipped. Never goes back.
    pub fn consumed(&self) -> u64 {
        self.at.consumed
    }

    /// Offset behind the last byte pushed: where the stream goes on.
    pub fn received(&self) -> u64 {
        self.at.consumed + self.partial().len() as u64
    }

    /// Where it stands; with [`Framer::partial`] enough for [`Framer::resume`].
    pub fn position(&self) -> Position {
        self.at
    }

    /// The bytes from [`Framer::consumed`] on.
    pub fn partial(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    /// What ends the frame that begins at `consumed`; `None` if no byte of it is there.
    fn open_terminator(&self) -> Option<Terminator> {
        self.partial().first().map(|first| if *first == 0 { Terminator::Nul } else { Terminator::Newline })
    }

    fn frame_of(&self, until: Terminator, end: usize) -> Frame {
        let content = &self.partial()[head_bytes(until)..end];
        let text = match until {
            Terminator::Newline => content.strip_suffix(b"\r").unwrap_or(content),
            Terminator::Nul => content,
        };
        match until {
            _ if text.len() > self.limit => Frame::TooLong { bytes: content.len() as u64 },
            Terminator::Newline => Frame::Line(text.to_vec()),
            Terminator::Nul => Frame::Block(text.to_vec()),
        }
    }

    fn skip_on(&mut self, skip: Skip) -> Option<Frame> {
        match find(self.partial(), skip.until.byte()) {
            Some(at) => {
                self.at.skip = None;
                self.advance(at + 1);
                Some(Frame::TooLong { bytes: skip.bytes + at as u64 })
            }
            None => {
                let dropped = self.partial().len();
                self.at.skip = Some(Skip { bytes: skip.bytes + dropped as u64, ..skip });
                self.advance(dropped);
                None
            }
        }
    }

    /// A CR that may belong to a CRLF does not count, so that chunks don't decide.
    fn begin_skip_if_too_long(&mut self, until: Terminator) {
        let content = &self.partial()[head_bytes(until)..];
        let maybe_crlf = until == Terminator::Newline && content.last() == Some(&b'\r');
        if content.len() > self.limit + usize::from(maybe_crlf) {
            self.at.skip = Some(Skip { until, bytes: content.len() as u64 });
            self.advance(self.partial().len());
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.taken += bytes;
        self.scanned = 0;
        self.at.consumed += bytes as u64;
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.buffer.shrink_to(IDLE_CAPACITY);
            self.taken = 0;
        }
    }
}

fn head_bytes(until: Terminator) -> usize {
    usize::from(until == Terminator::Nul)
}

fn find(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte == wanted)
}

/// How the frames of a channel are read: its policy's `format`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A line that begins with `{` is JSON, anything else is text.
    #[default]
    Auto,
    /// Everything is text, whatever it begins with.
    Text,
    /// Every line and every block is a JSON object; anything else is rejected.
    Json,
}

/// A message as a writer to a FIFO meant it.
#[derive(Debug, Clone, PartialEq)]
pub struct InboundMessage {
    /// The channel it belongs to: ids are unique in it, policies are its.
    pub channel: ChannelName,
    /// The channel as Claude is shown it: its name, or `name/claimed`.
    pub shown: String,
    /// The text, not sanitised; valid UTF-8, CRLF turned to LF, not blank.
    pub content: String,
    /// When it was sent, Unix milliseconds: as the sender said if that is within 24 h of now, else now.
    pub ts_ms: i64,
    /// The sender's id, at most [`MAX_ID_BYTES`]: the same id on the same channel is accepted once.
    pub id: Option<String>,
    /// A JSON object of the sender's, kept and not shown.
    pub meta: Option<Value>,
    /// What was wrong with the line although it was taken. Holds no text of the message.
    pub warnings: Vec<String>,
}

/// What a frame turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed {
    /// A message.
    Message(InboundMessage),
    /// Something that was meant as a message but can't be one; to be logged and alerted.
    Rejected {
        /// Why, for people. Holds no text of the message.
        reason: String,
        /// Bytes of the frame.
        bytes: u64,
    },
    /// Empty or blank.
    Ignored,
}

/// [`parse_as`] in the format of a channel without a policy.
pub fn parse(frame: Frame, source: &ChannelName, now_unix_ms: i64) -> Parsed {
    parse_as(Format::Auto, &frame, source, now_unix_ms)
}

/// Reads one frame that came in on the FIFO of `source`, whose format is known.
///
/// As [`Format::Auto`] a line that begins with `{` is JSON. A block never is: whoever frames with NULs wants the text taken as it is, and
/// JSON has `\n` for newlines. JSON nested deeper than 128 levels counts as broken.
///
/// ```
/// use ccmux_wire::channel::ChannelName;
/// use ccmux_wire::inbound::{Frame, Parsed, parse};
/// let source: ChannelName = "telegram".parse().unwrap();
/// let line = br#"{"content":"hi","channel":"bob"}"#;
/// let Parsed::Message(message) = parse(Frame::Line(line.to_vec()), &source, 0) else { panic!() };
/// assert_eq!((message.shown.as_str(), message.content.as_str()), ("telegram/bob", "hi"));
/// ```
pub fn parse_as(format: Format, frame: &Frame, source: &ChannelName, now_unix_ms: i64) -> Parsed {
    let (bytes, is_line) = match frame {
        Frame::TooLong { bytes } => {
            return Parsed::Rejected {
                reason: format!("{bytes} bytes are more than a message may have"),
                bytes: *bytes,
            };
        }
        Frame::Line(bytes) => (bytes, true),
        Frame::Block(bytes) => (bytes, false),
    };
    let text = String::from_utf8_lossy(bytes);
    if text.trim().is_empty() {
        return Parsed::Ignored;
    }
    let mut plain = InboundMessage {
        channel: source.clone(),
        shown: source.to_string(),
        content: text.replace("\r\n", "\n"),
        ts_ms: now_unix_ms,
        id: None,
        meta: None,
        warnings: Vec::new(),
    };
    let is_json = match format {
        Format::Text => false,
        Format::Auto => is_line && text.starts_with('{'),
        Format::Json => true,
    };
    match is_json.then(|| serde_json::from_str(&plain.content)) {
        None => Parsed::Message(plain),
        Some(Ok(object)) => take_object(plain, object, bytes.len()),
        Some(Err(error)) if format == Format::Json => Parsed::Rejected {
            reason: format!("no JSON object, and the channel's format is json: {}", what_is_wrong(&error)),
            bytes: bytes.len() as u64,
        },
        Some(Err(error)) => {
            plain.warnings.push(format!("broken JSON, taken as plain text: {}", what_is_wrong(&error)));
            Parsed::Message(plain)
        }
    }
}

/// serde_json quotes a value that is of another type.
fn what_is_wrong(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Data => "it is another kind of value".to_owned(),
        _ => error.to_string(),
    }
}

/// `plain` is the frame taken as text.
fn take_object(mut plain: InboundMessage, mut object: Map<String, Value>, bytes: usize) -> Parsed {
    let rejected = |reason: &str| Parsed::Rejected { reason: reason.to_owned(), bytes: bytes as u64 };
    match object.remove("content") {
        Some(Value::String(content)) if content.trim().is_empty() => {
            return rejected("the JSON object's `content` is empty");
        }
        Some(Value::String(content)) => plain.content = content.replace("\r\n", "\n"),
        Some(_) => return rejected("the JSON object's `content` is no string"),
        None => return rejected("the JSON object has no `content`"),
    }
    for key in ["channel", "ts", "id", "meta"] {
        if let Some(value) = object.remove(key).filter(|value| !value.is_null()) {
            take_field(&mut plain, key, value);
        }
    }
    Parsed::Message(plain)
}

fn take_field(message: &mut InboundMessage, key: &str, value: Value) {
    let taken = match (key, value) {
        ("channel", value) => claim_channel(message, &value),
        ("ts", value) => take_ts(message, &value),
        ("id", Value::String(id)) => take_id(message, id),
        ("id", Value::Number(id)) => take_id(message, id.to_string()),
        ("meta", meta @ Value::Object(_)) => {
            message.meta = Some(meta);
            Ok(())
        }
        ("meta", _) => Err("is no object"),
        _ => Err("is neither a string nor a number"),
    };
    if let Err(why) = taken {
        message.warnings.push(format!("`{key}` {why}: ignored"));
    }
}

/// On `in` a writer may choose the channel; elsewhere the FIFO is the channel, and a claim is only shown beside it.
fn claim_channel(message: &mut InboundMessage, value: &Value) -> Result<(), &'static str> {
    let claimed = value.as_str().ok_or("is no string")?;
    let claimed: ChannelName = claimed.parse().map_err(|_| "is no valid channel name")?;
    if message.channel == ChannelName::default_channel() {
        message.shown = claimed.to_string();
        message.channel = claimed;
    } else if message.channel != claimed {
        message.shown = format!("{}/{claimed}", message.channel);
    }
    Ok(())
}

fn take_ts(message: &mut InboundMessage, value: &Value) -> Result<(), &'static str> {
    let ts = value.as_f64().ok_or("is no number")?;
    message.ts_ms = sent_at_ms(ts, message.ts_ms).ok_or("is not within 24 h of now")?;
    Ok(())
}

/// A sender's `ts`, Unix seconds or milliseconds, in milliseconds: whichever lies within 24 h of now.
///
/// ```
/// use ccmux_wire::inbound::sent_at_ms;
/// let now = 1_740_000_000_000;
/// assert_eq!(sent_at_ms(1_740_000_001.5, now), Some(1_740_000_001_500));
/// assert_eq!(sent_at_ms(1_740_000_001_500.0, now), Some(1_740_000_001_500));
/// assert_eq!(sent_at_ms(1.0, now), None);
/// ```
pub fn sent_at_ms(ts: f64, now_unix_ms: i64) -> Option<i64> {
    let now = now_unix_ms as f64;
    let near = [ts * 1000.0, ts].into_iter().find(|ms| (ms - now).abs() <= MAX_TS_DISTANCE_MS);
    near.map(|ms| ms.round() as i64)
}

/// A longer id is not cut: two ids with one beginning would make one message of two.
fn take_id(message: &mut InboundMessage, id: String) -> Result<(), &'static str> {
    match id.len() {
        0 => Err("is empty"),
        1..=MAX_ID_BYTES => {
            message.id = Some(id);
            Ok(())
        }
        _ => Err("has more than 256 bytes"),
    }
}

#[cfg(test)]
mod tests;
