//! Words that don't belong: paths of the machine where somebody wrote it, and work left for later.

use super::Finding;
use super::tree::{TextFile, Tree};

/// Absolute paths of places that only the author has. In two parts, so that this file may hold them.
const PLACES: [(&str, &str); 3] = [("/work", "/"), ("/farm", "/"), ("..", "/shared")];

/// In Rust only.
const CODE: [(&str, &str, &str); 3] = [
    ("todo", "!(", "write it, or leave it out"),
    ("unimplemented", "!(", "write it, or leave it out"),
    ("#[igno", "re", "make the test run, or remove it"),
];

/// Looks at every line of every text.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.texts.iter().filter(|file| !file.path.starts_with(".ci/"));
    files.flat_map(|file| file.text.lines().enumerate().flat_map(move |line| in_line(file, line))).collect()
}

fn in_line(file: &TextFile, (number, line): (usize, &str)) -> Vec<Finding> {
    let found =
        |word: &str, remedy: &str| Finding::error(&file.path, number + 1, format!("`{word}`"), remedy);
    let mut findings = Vec::new();
    for (first, second) in PLACES {
        let place = [first, second].concat();
        if names_place(line, &place) {
            findings.push(found(&place, "name nothing of your own machine"));
        }
    }
    for (first, second, remedy) in CODE {
        let word = [first, second].concat();
        if file.path.ends_with(".rs") && line.contains(&word) {
            findings.push(found(&word, remedy));
        }
    }
    findings
}

/// Whether the place stands there as a path of its own, not inside a longer one below the home folder.
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "~.-_$}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, line: &str) -> usize {
        check(&Tree::of(&[(path, line)])).len()
    }

    #[test]
    fn places_of_one_machine_are_found_in_every_text() {
        for (first, second) in PLACES {
            let place = [first, second].concat();
            assert_eq!(found("README.md", &format!("see {place}x")), 1, "{place}");
            assert_eq!(found(".ci/run", &format!("see {place}x")), 0, "{place}");
        }
    }

    #[test]
    fn a_place_inside_a_longer_path_is_somebody_elses() {
        assert_eq!(found("README.md", &["~/work", "/x /home/u/work", "/y"].concat()), 0);
    }

    #[test]
    fn work_left_for_later_is_found_in_code_alone() {
        for (first, second, _) in CODE {
            let word = [first, second].concat();
            assert_eq!(found("crates/a/src/b.rs", &word), 1, "{word}");
            assert_eq!(found("docs/CONTRIBUTING.md", &word), 0, "{word}");
        }
    }
}
