//! Rows of a capture: text, and which of its characters are dim or inverse. No other attribute means anything here.

/// One row, trailing blanks trimmed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// Its text without SGR sequences.
    pub text: String,
    /// One for each `char` of the text.
    pub looks: Vec<Look>,
}

impl Row {
    /// A row without attributes.
    pub(super) fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), looks: vec![Look::default(); text.chars().count()] }
    }
}

/// How a character looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// SGR 2: a placeholder or a hint.
    pub dim: bool,
    /// SGR 7: the cursor.
    pub inverse: bool,
}

/// The rows of `ansi`, empty ones at the end left out. tmux carries attributes over from row to row.
pub(super) fn parse(ansi: &str) -> Vec<Row> {
    let mut look = Look::default();
    let mut rows: Vec<Row> = ansi.split('\n').map(|line| row(line, &mut look)).collect();
    while rows.last().is_some_and(|row| row.text.is_empty()) {
        rows.pop();
    }
    rows
}

fn row(line: &str, look: &mut Look) -> Row {
    let mut row = Row::default();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        match escape(rest) {
            Some((sequence, after)) => {
                apply(sequence, look);
                rest = after;
            }
            None => {
                row.text.push(c);
                row.looks.push(*look);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    trim(&mut row);
    row
}

/// The control sequence that `text` begins with, and what comes after it.
fn escape(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_prefix('\x1b')?;
    let Some(csi) = body.strip_prefix('[') else {
        // OSC 8 or charset switches: only the escape character itself is left out.
        return Some(("", body));
    };
    let end = csi.find(|c: char| ('@'..='~').contains(&c))?;
    Some((&csi[..=end], &csi[end + 1..]))
}

fn apply(sequence: &str, look: &mut Look) {
    let Some(parameters) = sequence.strip_suffix('m') else {
        return;
    };
    let mut numbers = parameters.split(';');
    while let Some(number) = numbers.next() {
        match number {
            "" | "0" => *look = Look::default(),
            "2" => look.dim = true,
            "22" => look.dim = false,
            "7" => look.inverse = true,
            "27" => look.inverse = false,
            // A colour's own parameters are not attributes: 38;5;N and 38;2;R;G;B.
            "38" | "48" | "58" => skip_colour(&mut numbers),
            _ => {}
        }
    }
}

fn skip_colour<'a>(numbers: &mut impl Iterator<Item = &'a str>) {
    let parameters = match numbers.next() {
        Some("5") => 1,
        Some("2") => 3,
        _ => 0,
    };
    numbers.take(parameters).for_each(drop);
}

/// U+00A0 stays: it is part of the prompt's sign.
fn trim(row: &mut Row) {
    row.text.truncate(row.text.trim_end_matches(' ').len());
    row.looks.truncate(row.text.chars().count());
}
