//! Transcripts of any bytes, cut anywhere, growing in any pieces: the same turns, and no panic.

use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

use ccmux_wire::id::PromptId;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::lines::LineReader;
use super::scan::{Fed, TurnScan};
use super::*;

/// One line as Claude Code writes it, or as nobody does.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let prompt = (0..4u8, prop::option::of(prop::bool::ANY), "[a-z ]{0,8}").prop_map(|(id, typed, text)| {
        let source = typed.map(|typed| if typed { "typed" } else { "queued" });
        json!({"type":"user","promptId":format!("P{id}"),"uuid":text,"promptSource":source,"message":{"content":text}})
    });
    let content = prop_oneof![
        "[a-z]{0,6}".prop_map(|text| json!({"type":"text","text":text})),
        Just(json!({"type":"tool_use","id":"t","name":"Bash","input":{}})),
        Just(json!({"type":"thinking","thinking":"hm"})),
        Just(json!("no block")),
    ];
    let says = (content, 0..3u8, prop::bool::weighted(0.1), prop::bool::weighted(0.1)).prop_map(
        |(block, message, side, failed)| {
            json!({"type":"assistant","uuid":"a","isSidechain":side,"isApiErrorMessage":failed,
                   "message":{"id":format!("m{message}"),"content":[block]}})
        },
    );
    let other = prop::sample::select(vec![
        json!({"type":"user","promptId":"P1","message":{"content":[{"type":"tool_result","content":"x"}]}}),
        json!({"type":"user","message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}}),
        json!({"type":"user","isMeta":true,"message":{"content":"Stop hook feedback:\nmore"}}),
        json!({"type":"system","subtype":"stop_hook_summary"}),
        json!({"type":"system","subtype":"turn_duration"}),
        json!({"type":"attachment","attachment":{"type":"queued_command","prompt":"joined"}}),
        json!({"type":"queue-operation","operation":"enqueue","content":7}),
        json!({"type":["user"],"message":{}}),
        json!([]),
        json!(null),
    ]);
    prop_oneof![
        4 => prompt.prop_map(bytes_of),
        8 => says.prop_map(bytes_of),
        4 => other.prop_map(bytes_of),
        1 => prop::collection::vec(any::<u8>().prop_filter("no newline", |byte| *byte != b'\n'), 0..40),
    ]
}

fn bytes_of(line: Value) -> Vec<u8> {
    line.to_string().into_bytes()
}

fn transcript() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(line(), 0..40)
        .prop_map(|lines| lines.into_iter().flat_map(|line| line.into_iter().chain(*b"\n")).collect())
}

/// What a reader gives out that sees the file grow piece by piece, and reads on where it was.
fn turns_in_pieces(pieces: &[&[u8]]) -> Vec<TurnBody> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut lines = LineReader::new(File::open(file.path()).unwrap(), 0);
    let (mut turns, mut scan) = (Vec::new(), TurnScan::before_any_prompt());
    for piece in pieces {
        file.write_all(piece).unwrap();
        while let lines::Next::Line { bytes, .. } = lines.next_line().unwrap() {
            let (mut line, length) = (line::parse_line(bytes), bytes.len() as u64);
            if scan.feed(&mut line, length) == Fed::Over {
                turns.extend(std::mem::replace(&mut scan, TurnScan::begun_by(&line)).finish());
                scan.feed(&mut line, length);
            }
        }
    }
    turns.extend(scan.finish());
    turns
}

/// Every turn as orders without a prompt give it, each from the cursor that the one before left.
fn turns_by_orders(bytes: &[u8], cuts: &[usize]) -> Vec<TurnBody> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("t.jsonl");
    let reader = TranscriptReader { projects_dir: dir.path().to_owned() };
    let (mut cursor, mut turns) = (Cursor::start_of(&path), Vec::new());
    for &until in cuts.iter().chain([&bytes.len()]) {
        fs::write(&path, &bytes[..until]).unwrap();
        let request = TurnRequest {
            wait: Duration::ZERO,
            quiet: Duration::ZERO,
            continues: true,
            ..TurnRequest::new(None, None)
        };
        let read = reader.read_turn(&cursor, &request).unwrap();
        cursor = read.cursor;
        turns.extend(read.turns);
    }
    turns
}

fn blocks(turns: &[TurnBody]) -> Vec<Value> {
    turns.iter().flat_map(|turn| turn.blocks.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        let turns = turns_in(&bytes);
        prop_assert!(turns.iter().all(|turn| !turn.blocks.is_empty()));
    }

    #[test]
    fn a_transcript_cut_anywhere_gives_a_beginning_of_its_turns(bytes in transcript(), cut in any::<prop::sample::Index>()) {
        let whole = turns_in(&bytes);
        let cut = cut.index(bytes.len() + 1);
        let begun = turns_in(&bytes[..cut]);
        let complete = begun.len().saturating_sub(1);
        prop_assert_eq!(&begun[..complete], &whole[..complete.min(whole.len())]);
        let held: usize = begun.iter().flat_map(|turn| &turn.blocks).map(|block| block.to_string().len()).sum();
        prop_assert!(held <= cut, "{} bytes of {}", held, cut);
    }

    #[test]
    fn a_transcript_that_grows_in_pieces_gives_the_same_turns(
        bytes in transcript(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        ends.sort_unstable();
        let starts = [0].into_iter().chain(ends.iter().copied());
        let pieces: Vec<&[u8]> = starts.zip(ends.iter().copied().chain([bytes.len()])).map(|(a, b)| &bytes[a..b]).collect();
        prop_assert_eq!(turns_in_pieces(&pieces), turns_in(&bytes));
    }

    #[test]
    fn a_cursor_neither_loses_nor_doubles_a_block(bytes in prompts_and_answers(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4)) {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        ends.sort_unstable();
        prop_assert_eq!(blocks(&turns_by_orders(&bytes, &ends)), blocks(&turns_in(&bytes)));
    }
}

/// Turns of distinct prompts, each answered.
fn prompts_and_answers() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(1..4usize, 1..8).prop_map(|answers| {
        let mut bytes = Vec::new();
        for (turn, blocks) in answers.into_iter().enumerate() {
            let prompt = json!({"type":"user","promptId":format!("P{turn}"),"message":{"content":"go"}});
            bytes.extend(format!("{prompt}\n").into_bytes());
            for block in 0..blocks {
                let text = format!("{turn}.{block}");
                let line = json!({"type":"assistant","uuid":text,"message":{"id":text,"content":[{"type":"text","text":text}]}});
                bytes.extend(format!("{line}\n").into_bytes());
            }
        }
        bytes
    })
}

/// What the fuzzer found, or might.
#[test]
fn prompts_without_end_are_held_in_bounded_memory() {
    let many = (0..5000).map(|n| {
        format!(
            "{}\n",
            json!({"type":"user","promptId":format!("{n}"),"promptSource":"queued","message":{"content":"x"}})
        )
    });
    let answer = json!({"type":"assistant","message":{"content":[{"type":"text","text":"y"}]}});
    let bytes: String = many.chain([format!("{answer}\n")]).collect();
    let turns = turns_in(bytes.as_bytes());
    assert_eq!((turns.len(), turns[0].prompt_id.clone()), (1, Some(PromptId::new("4999"))));
}
