//! The choices on a screen, and the keys that lead to each: read from the screen itself, since versions order and mark
//! them differently (the trust dialog marks `No, exit` in some).
//!
//! ```text
//!  ❯ No, exit                    marked: Enter takes it
//!    Yes, I trust this folder    Down, Enter
//! ```

use std::cmp::Ordering;

/// One choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Its text, without a number.
    pub label: String,
    /// Enter takes it.
    pub marked: bool,
    /// What to press.
    pub keys: String,
}

/// The choices of the menu in `rows`; none if no row is marked.
pub fn choices(rows: &[&str]) -> Vec<Choice> {
    let Some((marked, column)) =
        rows.iter().enumerate().find_map(|(at, row)| Some((at, marked_column(row)?)))
    else {
        return Vec::new();
    };
    let mut found: Vec<usize> = beside(rows, column, (0..marked).rev()).collect();
    found.reverse();
    found.push(marked);
    found.extend(beside(rows, column, marked + 1..rows.len()));
    let place = found.iter().position(|at| *at == marked).unwrap_or(0);
    let choice = |(index, at): (usize, &usize)| Choice {
        label: label(rows[*at], column),
        marked: *at == marked,
        keys: keys(place, index),
    };
    found.iter().enumerate().map(choice).collect()
}

/// Where the text of a marked row begins. A prompt box's sign is followed by another kind of blank.
fn marked_column(row: &str) -> Option<usize> {
    let indent = indent(row);
    let rest: Vec<char> = row.chars().skip(indent).collect();
    match rest.as_slice() {
        ['❯' | '>', ' ', text, ..] if !text.is_whitespace() => Some(indent + 2),
        _ => None,
    }
}

/// The rows that begin in that column, as far as they stand together; rows that are indented further belong to them.
fn beside<'a>(
    rows: &'a [&str],
    column: usize,
    order: impl Iterator<Item = usize> + 'a,
) -> impl Iterator<Item = usize> + 'a {
    order
        .take_while(move |at| !rows[*at].trim().is_empty() && indent(rows[*at]) >= column)
        .filter(move |at| indent(rows[*at]) == column)
}

fn indent(row: &str) -> usize {
    row.chars().take_while(|c| *c == ' ').count()
}

/// `2. Not now ✔` → `Not now`.
fn label(row: &str, column: usize) -> String {
    let text: String = row.chars().skip(column).collect();
    let unnumbered = text
        .split_once(". ")
        .filter(|(number, _)| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
    let label = unnumbered.map_or(text.as_str(), |(_, label)| label);
    label.trim().trim_end_matches('✔').trim_end().to_owned()
}

fn keys(marked: usize, wanted: usize) -> String {
    let (key, times) = match wanted.cmp(&marked) {
        Ordering::Equal => return "Enter".to_owned(),
        Ordering::Less => ("Up", marked - wanted),
        Ordering::Greater => ("Down", wanted - marked),
    };
    match times {
        1 => format!("{key}, Enter"),
        times => format!("{key} {times} times, Enter"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(screen: &str) -> Vec<(String, String)> {
        let rows: Vec<&str> = screen.lines().collect();
        choices(&rows).into_iter().map(|choice| (choice.label, choice.keys)).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(label, keys): &(&str, &str)| ((*label).to_owned(), (*keys).to_owned());
        expected.iter().map(owned).collect()
    }

    #[test]
    fn the_keys_start_from_the_marked_choice() {
        let below = " Guide\n\n ❯ No, exit\n   Yes, I trust this folder\n\n Enter to confirm";
        assert_eq!(read(below), pairs(&[("No, exit", "Enter"), ("Yes, I trust this folder", "Down, Enter")]));
        let above = "    1. Yes\n    2. Maybe\n  ❯ 3. No (recommended)\n\n";
        let expected = [("Yes", "Up 2 times, Enter"), ("Maybe", "Up, Enter"), ("No (recommended)", "Enter")];
        assert_eq!(read(above), pairs(&expected));
    }

    #[test]
    fn what_is_indented_further_belongs_to_a_choice() {
        let screen = "text\n❯ 1. Auto\n     for everyone\n  2. Dark\ntext";
        assert_eq!(read(screen), pairs(&[("Auto", "Enter"), ("Dark", "Down, Enter")]));
    }

    #[test]
    fn a_prompt_box_is_no_menu() {
        assert_eq!(read("────\n❯\u{a0}hello\n────\n  ⏵⏵ bypass"), Vec::new());
        assert_eq!(read(""), Vec::new());
    }
}
