//! What a document looks like around a place, and how a value is written to look the same.
//!
//! Doesn't know the grammar: it is told where things are.

use jsonc_parser::common::Range;
use serde_json::Value;

/// Where nothing shows what the user likes: as Claude Code itself writes.
const UNIT: &str = "  ";

/// How something inside a container is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The line end; `None`: all on one line.
    pub newline: Option<&'static str>,
    /// Before the closing bracket.
    pub outer: String,
    /// Before each child.
    indent: String,
    /// One step further in.
    unit: String,
    /// Between key and value.
    pub colon: &'static str,
    /// Between two children on one line.
    between: &'static str,
}

impl Layout {
    /// Of the last of these containers, each in the one before; with their children.
    pub fn of(text: &str, containers: &[(Range, Vec<Range>)]) -> Self {
        let root = containers.first();
        let unit = root
            .and_then(|(range, children)| children.first().filter(|child| is_on_lines(text, *range, **child)))
            .map(|child| line_indent(text, child.start).to_owned())
            .filter(|unit| !unit.is_empty())
            .unwrap_or_else(|| UNIT.to_owned());
        let on_lines = containers
            .iter()
            .rev()
            .find_map(|(range, children)| children.first().map(|child| is_on_lines(text, *range, *child)));
        let newline = on_lines.unwrap_or(true).then(|| if text.contains("\r\n") { "\r\n" } else { "\n" });
        let (outer, indent) = match containers.last() {
            Some((range, children)) => {
                let outer = line_indent(text, range.start).to_owned();
                let indent = children.first().filter(|child| is_on_lines(text, *range, **child));
                let indent = indent.map(|child| line_indent(text, child.start).to_owned());
                (outer.clone(), indent.unwrap_or(outer + &unit))
            }
            None => (String::new(), unit.clone()),
        };
        let is_tight =
            root.is_some_and(|(_, children)| children.first().is_some_and(|child| tight(text, *child)));
        let (colon, between) = if is_tight { (":", "") } else { (": ", " ") };
        Self { newline, outer, indent, unit, colon, between }
    }

    /// What comes before a child that is not the first.
    pub fn lead(&self) -> String {
        match self.newline {
            Some(newline) => format!("{newline}{}", self.indent),
            None => self.between.to_owned(),
        }
    }

    /// The text of a value.
    pub fn render(&self, value: &Value) -> String {
        let mut text = String::new();
        self.write(value, &self.indent, &mut text);
        text
    }

    fn write(&self, value: &Value, indent: &str, text: &mut String) {
        let deeper = format!("{indent}{}", self.unit);
        match value {
            Value::Array(elements) if !elements.is_empty() => {
                let write = |element: &Value, text: &mut String| self.write(element, &deeper, text);
                self.enclose(('[', ']'), elements.iter(), indent, text, write);
            }
            Value::Object(members) if !members.is_empty() => {
                let write = |(key, value): (&String, &Value), text: &mut String| {
                    text.push_str(&Value::from(key.as_str()).to_string());
                    text.push_str(self.colon);
                    self.write(value, &deeper, text);
                };
                self.enclose(('{', '}'), members.iter(), indent, text, write);
            }
            other => text.push_str(&other.to_string()),
        }
    }

    fn enclose<T>(
        &self,
        (open, close): (char, char),
        items: impl Iterator<Item = T>,
        indent: &str,
        text: &mut String,
        write: impl Fn(T, &mut String),
    ) {
        text.push(open);
        for (number, item) in items.enumerate() {
            text.push_str(if number > 0 { "," } else { "" });
            match self.newline {
                Some(newline) => text.push_str(&format!("{newline}{indent}{}", self.unit)),
                None => text.push_str(if number > 0 { self.between } else { "" }),
            }
            write(item, text);
        }
        if let Some(newline) = self.newline {
            text.push_str(&format!("{newline}{indent}"));
        }
        text.push(close);
    }
}

/// Whether children have lines of their own.
fn is_on_lines(text: &str, container: Range, first_child: Range) -> bool {
    text[container.start..first_child.start].contains('\n')
}

fn line_indent(text: &str, position: usize) -> &str {
    let line = text[..position].rfind('\n').map_or(0, |newline| newline + 1);
    let rest = &text[line..];
    &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()]
}

/// `"key":value`, without a blank.
fn tight(text: &str, member: Range) -> bool {
    let mut escaped = false;
    let end_of_key = text[member.start..member.end].char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        is_end
    });
    let rest = end_of_key.map_or("", |(at, _)| &text[member.start + at + 1..member.end]);
    rest.starts_with(':') && !rest[1..].starts_with([' ', '\t', '\n', '\r'])
}

/// The end of the comments that follow on the same line; the position itself, if none does.
pub fn same_line_comments(text: &str, position: usize) -> usize {
    let mut end = position;
    loop {
        let rest = text[end..].trim_start_matches([' ', '\t']);
        let start = text.len() - rest.len();
        if rest.starts_with("//") {
            return start + rest.find('\n').map_or(rest.len(), |at| rest[..at].trim_end_matches('\r').len());
        }
        match rest.starts_with("/*").then(|| rest.find("*/")).flatten() {
            Some(length) if !rest[..length].contains('\n') => end = start + length + 2,
            _ => return end,
        }
    }
}

/// The comma between two positions that have nothing but blanks and comments between them.
pub fn comma_between(text: &str, from: usize, to: usize) -> Option<usize> {
    let mut at = from;
    while at < to {
        let rest = &text[at..to];
        at += match rest.as_bytes()[0] {
            b',' => return Some(at),
            b'/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    None
}

/// Whether a line may end in a line comment. Said too often, a newline stays that need not.
pub fn end_of_comments(line: &str) -> bool {
    line.contains("//")
}
