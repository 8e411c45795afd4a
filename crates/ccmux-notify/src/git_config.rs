//! The one setting of git's that says where a git directory's files are checked out: `core.worktree`.
//!
//! ```text
//! [core]
//!     worktree = "../../../a#b"     ─►   ../../../a#b
//! ```
//!
//! Knows no files. What another file would add (`include`) is not looked at: git writes this setting where it looks for it.

use std::str::Lines;

/// What `core.worktree` is in a configuration file; of several the last one counts.
pub fn core_worktree(config: &str) -> Option<String> {
    let (mut lines, mut is_core, mut found) = (config.lines(), false, None);
    while let Some(line) = lines.next() {
        let mut line = line.trim_start();
        if let Some((section, rest)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            is_core = section.trim().eq_ignore_ascii_case("core");
            line = rest.trim_start();
        }
        let Some((key, begins)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) else {
            continue;
        };
        // Of other keys, too: a value may go on in the next line.
        let value = value(begins, &mut lines);
        if is_core && key.trim().eq_ignore_ascii_case("worktree") {
            found = Some(value);
        }
    }
    found
}

/// Without quotes, comments, and what surrounds it.
fn value(begins: &str, lines: &mut Lines<'_>) -> String {
    let (mut value, mut ends, mut is_quoted) = (String::new(), 0, false);
    let mut rest = begins.trim_start().chars();
    while let Some(next) = rest.next() {
        match next {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            '\\' => match rest.next() {
                None => rest = lines.next().unwrap_or_default().chars(),
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some('b') => value.push('\u{8}'),
                Some(other) => value.push(other),
            },
            other => value.push(other),
        }
        if is_quoted || !next.is_whitespace() {
            ends = value.len();
        }
    }
    value.truncate(ends);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_git_reads_it() {
        for (config, worktree) in [
            ("[core]\n\tbare = false\n\tworktree = ../../../su b\n[remote \"o\"]\n", Some("../../../su b")),
            ("[core]\n\tworktree = \"../a#b \" ; x\n", Some("../a#b ")),
            ("[ CORE ] WorkTree=/x # y", Some("/x")),
            ("[core]\r\nworktree = /x  \r\n", Some("/x")),
            ("[core]\nworktree = a\\\n  b\\\\\\\"\\t\n", Some("a  b\\\"\t")),
            ("[core]\nworktree = a\n[x]\n[core]\nworktree = b\n", Some("b")),
            ("[core]\neditor = a\\\nworktree = b\n", None),
            ("[core]\n#worktree = a\n;worktree = a\nworktree\n", None),
            (
                "[core \"sub\"]\nworktree = a\n[branch \"core]\"]\nworktree = a\n[submodule]\nworktree = a",
                None,
            ),
            ("worktree = a", None),
            ("", None),
        ] {
            assert_eq!(core_worktree(config).as_deref(), worktree, "{config}");
        }
    }
}
