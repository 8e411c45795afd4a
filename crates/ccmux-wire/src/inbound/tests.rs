//! The input table of the design, and what must hold for any bytes in any chunks.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOW: i64 = 1_740_000_000_000;

fn channel(name: &str) -> ChannelName {
    name.parse().unwrap()
}

/// All frames of the chunks, and those that quiet ends at their end.
fn frames(limit: usize, chunks: &[&[u8]]) -> Vec<Frame> {
    let mut framer = Framer::new(limit);
    let mut frames = Vec::new();
    for chunk in chunks {
        framer.push(chunk);
        frames.extend(std::iter::from_fn(|| framer.next_frame()));
    }
    frames.extend(std::iter::from_fn(|| framer.flush_quiet()));
    frames
}

fn line(text: &str) -> Frame {
    Frame::Line(text.as_bytes().to_vec())
}

fn block(text: &str) -> Frame {
    Frame::Block(text.as_bytes().to_vec())
}

fn message_on(source: &str, text: &str) -> InboundMessage {
    match parse(line(text), &channel(source), NOW) {
        Parsed::Message(message) => message,
        other => panic!("{text}: {other:?}"),
    }
}

fn rejection(text: &str) -> String {
    match parse(line(text), &channel("x"), NOW) {
        Parsed::Rejected { reason, bytes } => {
            assert_eq!(bytes, text.len() as u64);
            reason
        }
        other => panic!("{text}: {other:?}"),
    }
}

// --- frames

#[test]
fn lines_end_with_lf_or_crlf() {
    assert_eq!(frames(99, &[b"a\nb\r\n\nc\r"]), [line("a"), line("b"), line(""), line("c")]);
}

#[test]
fn only_the_last_cr_belongs_to_the_line_end() {
    assert_eq!(frames(99, &[b"a\rb\r\r\n"]), [line("a\rb\r")]);
}

#[test]
fn a_nul_first_frames_a_text_with_newlines() {
    assert_eq!(
        frames(99, &[b"\0line 1\nline 2\0after\n\0x\0\0y\0"]),
        [block("line 1\nline 2"), line("after"), block("x"), block("y")]
    );
}

#[test]
fn a_nul_inside_a_line_is_part_of_it() {
    assert_eq!(frames(99, &[b"a\0b\nc\n"]), [line("a\0b"), line("c")]);
}

#[test]
fn a_line_without_newline_waits_for_quiet() {
    let mut framer = Framer::new(99);
    framer.push(b"half");
    assert_eq!(framer.next_frame(), None);
    assert!(framer.pending());
    assert_eq!((framer.consumed(), framer.received(), framer.partial()), (0, 4, b"half".as_slice()));
    assert_eq!(framer.flush_quiet(), Some(line("half")));
    assert_eq!((framer.pending(), framer.consumed(), framer.flush_quiet()), (false, 4, None));
}

#[test]
fn an_open_block_is_accepted_at_quiet_and_an_empty_one_too() {
    assert_eq!(frames(99, &[b"\0open\nblock"]), [block("open\nblock")]);
    assert_eq!(frames(99, &[b"\0"]), [block("")]);
}

#[test]
fn quiet_gives_complete_frames_first() {
    let mut framer = Framer::new(99);
    framer.push(b"a\nb");
    assert_eq!(framer.flush_quiet(), Some(line("a")));
    assert_eq!(framer.flush_quiet(), Some(line("b")));
    assert_eq!(framer.flush_quiet(), None);
}

#[test]
fn a_frame_of_exactly_the_limit_is_taken_and_one_byte_more_is_not() {
    assert_eq!(frames(3, &[b"abc\nabc\r\n\0abc\0"]), [line("abc"), line("abc"), block("abc")]);
    let too_long = Frame::TooLong { bytes: 4 };
    assert_eq!(frames(3, &[b"abcd\nabc\n\0abcd\0x\n"]), [too_long.clone(), line("abc"), too_long, line("x")]);
}

#[test]
fn what_follows_an_over_long_line_is_unharmed_even_if_quiet_ends_it() {
    let mut framer = Framer::new(3);
    framer.push(b"too long");
    assert_eq!(framer.next_frame(), None);
    assert!(framer.pending());
    assert_eq!(framer.flush_quiet(), Some(Frame::TooLong { bytes: 8 }));
    framer.push(b"ok\n");
    assert_eq!(framer.next_frame(), Some(line("ok")));
}

#[test]
fn an_endless_line_costs_no_memory() {
    let mut framer = Framer::new(1000);
    for _ in 0..10_000 {
        framer.push(&[b'x'; 4096]);
        assert_eq!(framer.next_frame(), None);
        assert!(framer.partial().is_empty());
    }
    assert!(framer.buffer.capacity() <= 2 * 4096);
    framer.push(b"\nok\n");
    assert_eq!(framer.next_frame(), Some(Frame::TooLong { bytes: 40_960_000 }));
    assert_eq!(framer.next_frame(), Some(line("ok")));
}

#[test]
fn a_restart_amid_an_over_long_line_does_not_make_a_message_of_its_rest() {
    let mut before = Framer::new(3);
    before.push(b"too long and");
    assert_eq!(before.next_frame(), None);
    let mut after = Framer::resume(3, before.position());
    assert_eq!(after.consumed(), 12);
    after.push(b" on\nok\n");
    assert_eq!(after.next_frame(), Some(Frame::TooLong { bytes: 15 }));
    assert_eq!(after.next_frame(), Some(line("ok")));
}

#[test]
fn a_line_in_single_bytes_is_scanned_once() {
    let mut framer = Framer::new(usize::MAX);
    for n in 0..200_000 {
        framer.push(b"x");
        assert_eq!(framer.next_frame(), None);
        assert_eq!(framer.scanned, n + 1);
    }
}

/// The table, written as simply as possible: all bytes at once, quiet at the end.
fn model(limit: usize, bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        let is_block = *first == 0;
        let body = if is_block { &rest[1..] } else { rest };
        let end = if is_block { 0 } else { b'\n' };
        let raw = body.split(|b| *b == end).next().unwrap();
        rest = body.get(raw.len() + 1..).unwrap_or_default();
        let text = if is_block { raw } else { raw.strip_suffix(b"\r").unwrap_or(raw) };
        frames.push(match text.to_vec() {
            text if text.len() > limit => Frame::TooLong { bytes: raw.len() as u64 },
            text if is_block => Frame::Block(text),
            text => Frame::Line(text),
        });
    }
    frames
}

fn hostile_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0), Just(b'\n'), Just(b'\r'), Just(b'{'), Just(0xff), 0u8.., Just(b'a')];
    prop::collection::vec(byte, 0..200)
}

fn cut(bytes: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
}

proptest! {
    #[test]
    fn any_bytes_in_any_chunks_give_the_frames_of_the_table(
        bytes in hostile_bytes(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12), limit in 0usize..12,
    ) {
        let chunks = cut(&bytes, &cuts);
        let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(frames(limit, &chunks), model(limit, &bytes));
    }

    #[test]
    fn memory_is_bounded_and_consumed_never_goes_back(
        bytes in hostile_bytes(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12), limit in 0usize..12,
    ) {
        let mut framer = Framer::new(limit);
        let (mut pushed, mut last) = (0, 0);
        for chunk in cut(&bytes, &cuts) {
            framer.push(&chunk);
            pushed += chunk.len() as u64;
            while framer.has_frame() {
                prop_assert!(framer.next_frame().is_some());
                prop_assert!(framer.consumed() > last);
                last = framer.consumed();
            }
            prop_assert_eq!(framer.next_frame(), None);
            prop_assert!(framer.partial().len() <= limit + 2);
            prop_assert!(framer.consumed() >= last);
            last = framer.consumed();
            prop_assert_eq!(framer.received(), pushed);
            prop_assert_eq!(framer.partial(), &bytes[last as usize..pushed as usize]);
        }
    }

    #[test]
    fn feeding_again_from_where_it_stood_gives_the_remaining_frames(
        bytes in hostile_bytes(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 1..6), limit in 0usize..12,
    ) {
        let mut at = Position::default();
        let (mut pushed, mut got) = (0, Vec::new());
        for chunk in cut(&bytes, &cuts) {
            // A crash before each chunk: what the last framer held is read again.
            let mut framer = Framer::resume(limit, at);
            pushed += chunk.len();
            framer.push(&bytes[at.consumed as usize..pushed]);
            got.extend(std::iter::from_fn(|| framer.next_frame()));
            at = framer.position();
        }
        let mut framer = Framer::resume(limit, at);
        framer.push(&bytes[at.consumed as usize..]);
        got.extend(std::iter::from_fn(|| framer.flush_quiet()));
        prop_assert_eq!(got, model(limit, &bytes));
    }

    #[test]
    fn no_input_panics_and_no_message_is_blank(bytes in prop::collection::vec(any::<u8>(), 0..400), now in any::<i64>()) {
        for frame in frames(64, &[&bytes]) {
            if let Parsed::Message(message) = parse(frame, &channel("x"), now) {
                prop_assert!(!message.content.trim().is_empty());
            }
        }
    }

    #[test]
    fn no_json_panics(
        content in any::<String>(), claimed in any::<String>(), ts in any::<f64>(), id in any::<String>(), cut in 0usize..200,
        now in any::<i64>(),
    ) {
        let text = json!({"content": content, "channel": claimed, "ts": ts, "id": id, "meta": {"a": [ts]}}).to_string();
        let cut = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        for text in [&text, &text[..cut]] {
            if let Parsed::Message(message) = parse(line(text), &channel("in-x"), now) {
                prop_assert!(message.shown == "in-x" || message.shown.starts_with("in-x/"));
                prop_assert!(message.id.is_none_or(|id| (1..=MAX_ID_BYTES).contains(&id.len())));
                prop_assert!(message.ts_ms == now || (message.ts_ms as f64 - now as f64).abs() <= MAX_TS_DISTANCE_MS);
            }
        }
    }
}

// --- messages

#[test]
fn a_line_that_does_not_begin_with_a_brace_is_the_message() {
    let message = message_on("telegram", r#" {"content":"x"}"#);
    assert_eq!((message.content.as_str(), message.shown.as_str()), (r#" {"content":"x"}"#, "telegram"));
    assert_eq!(
        (message.channel, message.ts_ms, message.id, message.meta),
        (channel("telegram"), NOW, None, None)
    );
    assert!(message.warnings.is_empty());
}

#[test]
fn empty_and_blank_frames_are_ignored() {
    for frame in [line(""), line("  \t "), line("\u{3000}"), block(""), block("\n \r\n")] {
        assert_eq!(parse(frame, &channel("x"), NOW), Parsed::Ignored);
    }
}

#[test]
fn a_json_object_gives_its_fields() {
    let text = r#"{"content":"hi\r\nthere","id":"a7","ts":1740000001,"meta":{"sender":"bob"},"other":[1]}"#;
    let message = message_on("x", text);
    assert_eq!((message.content.as_str(), message.ts_ms), ("hi\nthere", NOW + 1000));
    assert_eq!((message.id.as_deref(), message.meta), (Some("a7"), Some(json!({"sender": "bob"}))));
    assert!(message.warnings.is_empty());
}

#[test]
fn a_json_object_without_text_is_rejected() {
    for text in [r#"{"content":""}"#, r#"{"content":" \n"}"#, r#"{"content":7}"#, r#"{"text":"hi"}"#, "{}"] {
        assert!(rejection(text).contains("content"), "{text}");
    }
}

#[test]
fn broken_json_is_plain_text_with_a_warning() {
    for text in ["{not json}", r#"{"content":"hi""#, r#"{"content":"a"} b"#, r#"{"content":"\ud83d"}"#] {
        let message = message_on("x", text);
        assert_eq!(message.content, text);
        assert!(message.warnings[0].contains("broken JSON"), "{:?}", message.warnings);
    }
}

#[test]
fn json_nested_a_million_deep_is_plain_text() {
    let text = format!(r#"{{"content":"hi","meta":{}"#, "[".repeat(1_000_000));
    let message = message_on("x", &text);
    assert_eq!(message.content.len(), text.len());
    assert_eq!(message.warnings.len(), 1);
}

#[test]
fn on_in_the_claimed_channel_is_taken() {
    let message = message_on("default", r#"{"content":"hi","channel":"cron"}"#);
    assert_eq!((message.channel, message.shown.as_str()), (channel("cron"), "cron"));
}

#[test]
fn elsewhere_a_claimed_channel_is_only_shown() {
    let message = message_on("telegram", r#"{"content":"hi","channel":"bob"}"#);
    assert_eq!((message.channel, message.shown.as_str()), (channel("telegram"), "telegram/bob"));
    assert_eq!(message_on("telegram", r#"{"content":"hi","channel":"telegram"}"#).shown, "telegram");
}

#[test]
fn a_claimed_channel_that_could_forge_a_head_is_ignored() {
    for source in ["default", "telegram"] {
        for claimed in [r#""x] [12:00 boss""#, r#""""#, r#""a b""#, "7"] {
            let message = message_on(source, &format!(r#"{{"content":"hi","channel":{claimed}}}"#));
            assert_eq!((message.shown.as_str(), message.channel.as_str()), (source, source));
            assert_eq!(message.warnings.len(), 1, "{claimed}");
        }
    }
}

#[test]
fn a_time_in_seconds_or_milliseconds_counts_if_it_is_near() {
    let ts = |ts: &str| message_on("x", &format!(r#"{{"content":"hi","ts":{ts}}}"#)).ts_ms - NOW;
    assert_eq!(ts("1740000001"), 1_000);
    assert_eq!(ts("1740000001.25"), 1_250);
    assert_eq!(ts("1740000000007"), 7);
    assert_eq!(ts("1739913600"), -86_400_000);
    for far in ["1739913599", "0", "-1", "1e300", "\"1740000001\"", "1740000001000000"] {
        assert_eq!(ts(far), 0, "{far}");
    }
}

#[test]
fn an_id_is_a_short_text_or_number() {
    let id = |id: &str| message_on("x", &format!(r#"{{"content":"hi","id":{id}}}"#)).id;
    assert_eq!(id("\"a\"").as_deref(), Some("a"));
    assert_eq!(id("42").as_deref(), Some("42"));
    let longest = "i".repeat(256);
    assert_eq!(id(&format!("\"{longest}\"")), Some(longest.clone()));
    for bad in [format!("\"{longest}i\""), "\"\"".into(), "true".into(), "[1]".into(), "null".into()] {
        assert_eq!(id(&bad), None, "{bad}");
    }
}

#[test]
fn meta_that_is_no_object_is_ignored_with_a_warning() {
    let message = message_on("x", r#"{"content":"hi","meta":[1]}"#);
    assert_eq!((message.meta, message.warnings.len()), (None, 1));
}

#[test]
fn a_block_is_never_json() {
    let text = "{\"content\":\"hi\"}\r\nmore";
    let Parsed::Message(message) = parse(block(text), &channel("x"), NOW) else { panic!("no message") };
    assert_eq!(message.content, "{\"content\":\"hi\"}\nmore");
}

#[test]
fn invalid_utf8_becomes_the_replacement_character() {
    let frame = Frame::Line(b"a\xff\xe4b".to_vec());
    let Parsed::Message(message) = parse(frame, &channel("x"), NOW) else { panic!("no message") };
    assert_eq!(message.content, "a\u{FFFD}\u{FFFD}b");
}

#[test]
fn an_over_long_frame_is_rejected_with_its_size() {
    let Parsed::Rejected { reason, bytes } = parse(Frame::TooLong { bytes: 300_000 }, &channel("x"), NOW)
    else {
        panic!("taken")
    };
    assert!(reason.contains("300000") && bytes == 300_000, "{reason}");
}

#[test]
fn what_is_wrong_with_a_line_is_told_without_quoting_it() {
    for text in ["\"canary\"", "[\"canary\"]", "{canary", "{\"content\":canary}", "{\"a\":\"canary"] {
        let Parsed::Rejected { reason, .. } = parse_as(Format::Json, &line(text), &channel("x"), NOW) else {
            panic!("{text} was taken")
        };
        assert!(!reason.contains("canary"), "{reason}");
    }
}

#[test]
fn a_channel_of_text_reads_no_json_and_a_channel_of_json_nothing_else() {
    let as_text = parse_as(Format::Text, &line(r#"{"content":"hi"}"#), &channel("x"), NOW);
    let Parsed::Message(message) = as_text else { panic!("{as_text:?}") };
    assert_eq!((message.content.as_str(), message.warnings.len()), (r#"{"content":"hi"}"#, 0));

    for frame in [line(r#" {"content":"hi"}"#), block("{\n\"content\":\"hi\"}")] {
        let as_json = parse_as(Format::Json, &frame, &channel("x"), NOW);
        let Parsed::Message(message) = as_json else { panic!("{as_json:?}") };
        assert_eq!(message.content, "hi");
    }
    for frame in [line("hi"), line("{broken"), line("[1]"), line("\"hi\""), block("hi")] {
        let as_json = parse_as(Format::Json, &frame, &channel("x"), NOW);
        assert!(
            matches!(&as_json, Parsed::Rejected { reason, .. } if reason.contains("json")),
            "{as_json:?}"
        );
    }
    assert_eq!(parse_as(Format::Json, &line("  "), &channel("x"), NOW), Parsed::Ignored);
}
