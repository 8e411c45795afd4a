//! The examples of the documents, run as they stand.
//!
//! Every block that begins with ```` ```sh example ```` is run by `bash -euo pipefail` in a house of its own whose daemon
//! is ready; a block ```` ```output ```` right behind it is what the example prints: `…` stands for anything within a
//! line, a line of only `…` for any lines. A block ```` ```toml settings ```` before an example holds the settings of its
//! daemon.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::process::Output;

use ccmux_tests::{House, binaries};

/// An example and what it prints.
#[derive(Debug, PartialEq)]
struct Example {
    /// Of its first line.
    line: usize,
    script: String,
    settings: String,
    output: Option<String>,
}

/// Blocks between fences: `(number of the first line, info string, text)`, and whether only blank lines stand between
/// this block and the one before it.
fn blocks(markdown: &str) -> Vec<(usize, String, String, bool)> {
    let mut found: Vec<(usize, String, String, bool)> = Vec::new();
    let mut open: Option<(usize, String, String, bool)> = None;
    let mut only_blank = false;
    for (number, line) in markdown.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some((number + 2, info.trim().to_owned(), String::new(), only_blank))
            }
            (Some(_), Some("")) => {
                found.extend(open.take());
                only_blank = true;
            }
            (Some((_, _, text, _)), _) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => only_blank &= line.trim().is_empty(),
        }
    }
    assert!(open.is_none(), "a fence is not closed: {open:?}");
    found
}

fn examples(markdown: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let (mut follows_example, mut settings) = (false, String::new());
    for (line, info, text, is_next) in blocks(markdown) {
        match info.as_str() {
            "toml settings" => settings = text,
            "sh example" => {
                let settings = std::mem::take(&mut settings);
                found.push(Example { line, script: text, settings, output: None });
            }
            "output" if follows_example && is_next => found.last_mut().unwrap().output = Some(text),
            _ => {}
        }
        follows_example = info == "sh example";
    }
    found
}

/// Whether a text is what a pattern with `…` says.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<&str>, Vec<&str>) = (pattern.lines().collect(), text.lines().collect());
    lines_match(&pattern, &text)
}

fn lines_match(pattern: &[&str], text: &[&str]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((&"…", rest)) => (0..=text.len()).any(|skipped| lines_match(rest, &text[skipped..])),
        Some((first, rest)) => text
            .split_first()
            .is_some_and(|(line, more)| line_matches(first, line) && lines_match(rest, more)),
    }
}

fn line_matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn run(house: &House, script: &str) -> Output {
    let folder = house.path("example");
    fs::create_dir_all(&folder).unwrap();
    let mut bash = house.command("bash");
    bash.args(["-euo", "pipefail", "-c", script]).current_dir(folder);
    house.run_to_end(bash)
}

fn check(file: &str) {
    let path = binaries::repository().join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let examples = examples(&text);
    assert!(!examples.is_empty(), "{file} has no example: ```sh example");
    let mut wrong = Vec::new();
    for example in &examples {
        let house = House::builder().settings(&example.settings).ready();
        let output = run(&house, &example.script);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let as_said = example.output.as_ref().is_none_or(|pattern| matches(pattern, &printed));
        if !output.status.success() || !as_said {
            let said = String::from_utf8_lossy(&output.stderr);
            let expected = example.output.as_deref().unwrap_or("(anything)\n");
            let place = format!("{file}:{}: {}", example.line, output.status);
            wrong.push(format!(
                "{place}\n{}--- expected\n{expected}--- printed\n{printed}--- stderr\n{said}",
                example.script
            ));
        }
    }
    println!("{}: {} examples", file, examples.len());
    assert!(
        wrong.is_empty(),
        "{} of {} examples are wrong\n\n{}",
        wrong.len(),
        examples.len(),
        wrong.join("\n\n")
    );
}

#[test]
fn examples_of_the_protocol_are_true() {
    check("docs/PROTOCOL.md");
}

#[test]
fn examples_for_adapters_are_true() {
    check("docs/ADAPTERS.md");
}

#[test]
fn examples_of_the_configuration_are_true() {
    check("docs/CONFIGURATION.md");
}

#[test]
fn examples_elsewhere_are_true() {
    let docs = fs::read_dir(binaries::repository().join("docs"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap());
    let others = docs.filter(|name| {
        name.ends_with(".md") && !["PROTOCOL.md", "ADAPTERS.md", "CONFIGURATION.md"].contains(&name.as_str())
    });
    let files: Vec<String> =
        others.map(|name| format!("docs/{name}")).chain(["README.md".to_owned()]).collect();
    assert!(files.len() > 1, "{files:?}");
    for file in files {
        let text = fs::read_to_string(binaries::repository().join(&file)).unwrap_or_default();
        if !examples(&text).is_empty() {
            check(&file);
        }
    }
}

#[test]
fn blocks_are_found_with_their_output() {
    let text = "a\n```sh example\necho a\n```\n```output\na\n```\n\n```sh\nrm x\n```\n```sh example\ntrue\n```\nwords\n```output\nb\n```\n";
    let found = examples(text);
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[0],
        Example { line: 3, script: "echo a\n".into(), settings: String::new(), output: Some("a\n".into()) }
    );
    assert_eq!(found[1].output, None, "an output behind words belongs to nobody");
}

#[test]
fn an_ellipsis_stands_for_anything_in_a_line_or_for_lines() {
    for (pattern, text, expected) in [
        ("a\n", "a\n", true),
        ("a\n", "a\nb\n", false),
        ("a…c\n", "abbbc\n", true),
        ("a…c\n", "abbb\n", false),
        ("…\nz\n", "x\ny\nz\n", true),
        ("…\nz\n", "z\n", true),
        ("a\n…\n", "a\n", true),
        ("a\n…\n", "b\n", false),
        ("…x…y\n", "1x2y\n", true),
        ("…x…y\n", "1y2x\n", false),
        ("", "", true),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern:?} {text:?}");
    }
}
