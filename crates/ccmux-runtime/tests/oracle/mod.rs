//! What must hold for any text and any bytes, as checks that panic. Tests ask with random input, fuzz targets with input
//! that they grow; both know ccmux from outside only, and the lists here are not those of the sanitiser.

use ccmux_policy::UnixMs;
use ccmux_runtime::prompt::{Part, compose, pieces, same_prompt, sanitise};
use ccmux_wire::channel::ChannelName;
use ccmux_wire::inbound::{Frame, Framer, InboundMessage, Parsed, parse};
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// A limit that random input reaches.
const LIMIT_BYTES: usize = 4096;
/// 14:30 of some day.
const NOW: UnixMs = UnixMs(1_740_061_800_000);

/// `raw`, sanitised: holds nothing that could be a key or that Claude would change, and stays what it is.
pub fn text_is_no_key(raw: &str) {
    let text = sanitise(raw);
    assert_eq!(text.chars().find(|c| is_forbidden(*c)), None, "{raw:?} became {text:?}");
    assert!(!text.ends_with(['\\', '\n']), "{raw:?} became {text:?}, which Enter would not send");
    assert!(is_nfc(&text), "{raw:?} became {text:?}, which Claude composes");
    assert_eq!(sanitise(&text), text, "a second pass of {raw:?}");
    let part = Part { at_wall: NOW, label: "telegram", content: &text, redelivered: false };
    is_fit_for_a_pane(&compose(&[part], &|_| 0));
}

/// A stream of bytes on `in`, whole and in chunks of `size`: the same frames.
pub fn chunks_change_nothing(bytes: &[u8], size: usize) {
    let whole = frames([bytes].into_iter());
    assert_eq!(frames(bytes.chunks(size)), whole, "in chunks of {size}");
}

/// A stream of bytes, as one prompt: as many heads as messages, and nothing forbidden.
pub fn a_prompt_has_one_head_a_message(bytes: &[u8]) {
    let messages = messages(bytes);
    let contents: Vec<(String, String)> = messages
        .iter()
        .map(|message| (message.shown.clone(), sanitise(&message.content)))
        .filter(|(_, content)| !content.trim().is_empty())
        .collect();
    let part = |(label, content)| Part { at_wall: NOW, label, content, redelivered: false };
    let parts: Vec<Part<'_>> =
        contents.iter().map(|(label, content)| part((label.as_str(), content.as_str()))).collect();
    let prompt = compose(&parts, &|_| 0);
    assert_eq!(heads(&prompt), parts.len(), "{prompt:?}");
    is_fit_for_a_pane(&prompt);
}

/// The whole prompt: safe, cut into pieces that Claude takes as typed, and known again in what Claude reports.
fn is_fit_for_a_pane(prompt: &str) {
    assert_eq!(prompt.chars().find(|c| is_forbidden(*c)), None, "{prompt:?}");
    let pieces = pieces(prompt);
    assert_eq!(pieces.concat(), prompt);
    for piece in &pieces {
        assert!(!piece.is_empty() && piece.matches('\n').count() <= 2, "{piece:?}");
        assert!(piece.encode_utf16().count() <= 780, "{piece:?}");
    }
    assert!(same_prompt(prompt, &as_claude_reports(prompt)), "{prompt:?}");
}

/// What Claude is known to do to a pasted text.
fn as_claude_reports(prompt: &str) -> String {
    prompt.nfc().collect::<String>().trim_end().replace("</", "<\\/")
}

/// Lines that begin like a message, whatever ends a line.
fn heads(prompt: &str) -> usize {
    let lines = prompt.split(['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}']);
    lines.filter(|line| is_head(line)).count()
}

/// `^\[\d\d:\d\d `
fn is_head(line: &str) -> bool {
    let head: Vec<char> = line.chars().take(7).collect();
    let digit = |at: usize| head[at].is_ascii_digit();
    head.len() == 7 && [head[0], head[3], head[6]] == ['[', ':', ' '] && [1, 2, 4, 5].into_iter().all(digit)
}

/// By what it does: a key, an end of a line, an order to the terminal, or something that nobody sees. Joiners and the two
/// styles of an emoji are judged by their neighbours, elsewhere.
fn is_forbidden(c: char) -> bool {
    let acts = c != '\n' && c.is_control();
    let ends_line = matches!(c, '\u{2028}' | '\u{2029}');
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}');
    let hides = matches!(c, '\u{ad}' | '\u{34f}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{feff}'
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{fe00}'..='\u{fe0d}' | '\u{fff9}'..='\u{fffb}');
    let tags = matches!(c, '\u{e0000}'..='\u{e0fff}');
    let is_no_character = matches!(c, '\u{fdd0}'..='\u{fdef}') || (c as u32) & 0xfffe == 0xfffe;
    acts || ends_line || turns || hides || tags || is_no_character
}

fn frames<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<Frame> {
    let mut framer = Framer::new(LIMIT_BYTES);
    let mut found = Vec::new();
    for chunk in chunks {
        framer.push(chunk);
        found.extend(std::iter::from_fn(|| framer.next_frame()));
    }
    found.extend(std::iter::from_fn(|| framer.flush_quiet()));
    found
}

fn messages(bytes: &[u8]) -> Vec<InboundMessage> {
    let of = |frame| match parse(frame, &ChannelName::default_channel(), NOW.0) {
        Parsed::Message(message) => Some(message),
        Parsed::Rejected { .. } | Parsed::Ignored => None,
    };
    frames([bytes].into_iter()).into_iter().filter_map(of).collect()
}
