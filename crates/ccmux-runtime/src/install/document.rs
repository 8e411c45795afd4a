//! A JSON document that somebody else wrote, perhaps with comments: members are put in and taken out by splicing its
//! text, so that whatever is not ours stays as it is to the byte.
//!
//! ```text
//! {                                  {
//!     "theme": "dark", // mine   →       "theme": "dark", // mine
//! }                                      "hooks": {…},
//!                                    }
//! ```
//!
//! What is put in looks like its neighbours: indentation, line ends, one line or many, a comma at the end. It knows no
//! key by name. The grammar is jsonc-parser's: JSON, comments, and a comma before a closing bracket; nothing looser.

mod layout;
#[cfg(test)]
mod tests;

use ccmux_wire::halves::readable;
use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

use layout::{Layout, comma_between, end_of_comments, same_line_comments};

const BYTE_ORDER_MARK: &str = "\u{feff}";

const GRAMMAR: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Why a document can't be read, or changed there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Some other encoding, or no text.
    #[error("it is not UTF-8")]
    NotText,
    /// Not JSON.
    #[error("it is not valid JSON: {0}")]
    Invalid(String),
    /// Something of another kind stands there.
    #[error("`{place}` is not {wanted}")]
    Kind {
        /// Keys with dots; empty for the whole document.
        place: String,
        /// What would fit.
        wanted: &'static str,
    },
    /// Which of the two counts is nobody's guess.
    #[error("`{0}` stands there twice")]
    Twice(String),
}

/// One step into a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// A member of an object.
    Key(&'a str),
    /// An element of an array.
    Index(usize),
}

/// The document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    text: String,
    has_mark: bool,
}

/// A piece of text in place of another one.
type Splice = (std::ops::Range<usize>, String);

impl Document {
    /// Reads it; the root must be an object. Nothing but blanks counts as an empty object.
    ///
    /// # Errors
    /// If it is no text, no JSON, or no object.
    pub fn parse(bytes: &[u8]) -> Result<Self, DocumentError> {
        let text = std::str::from_utf8(bytes).map_err(|_| DocumentError::NotText)?;
        let (text, has_mark) = text.strip_prefix(BYTE_ORDER_MARK).map_or((text, false), |text| (text, true));
        let document = Self { text: text.to_owned(), has_mark };
        document.read(|root| match root {
            Some(Node::Object(_)) | None => Ok(()),
            Some(_) => Err(wrong_kind(&[], "an object")),
        })?;
        Ok(document)
    }

    /// The bytes for the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mark = if self.has_mark { BYTE_ORDER_MARK } else { "" };
        [mark, &self.text].concat().into_bytes()
    }

    /// What stands there, without comments; `None`: nothing.
    ///
    /// # Errors
    /// If the way there is not one of objects and arrays.
    pub fn value(&self, path: &[Step<'_>]) -> Result<Option<Value>, DocumentError> {
        self.read(|root| Ok(find(root, path)?.map(to_value)))
    }

    /// Puts a member in, with the objects that are missing on the way there; in the place of one with that key.
    ///
    /// # Errors
    /// If something on the way is no object.
    pub fn set(&mut self, path: &[&str], value: &Value) -> Result<(), DocumentError> {
        let steps: Vec<Step<'_>> = path.iter().copied().map(Step::Key).collect();
        let present = self.read(|root| Ok(find(root, &steps)?.map(Ranged::range)))?;
        match present {
            Some(range) => {
                let text = self.layout(&steps)?.render(value);
                self.splice(vec![(range.start..range.end, text)]);
                Ok(())
            }
            None => self.put(path, value, false),
        }
    }

    /// Puts an element at the end of an array, with what is missing on the way there.
    ///
    /// # Errors
    /// If something on the way is no object, or at its end no array.
    pub fn push(&mut self, path: &[&str], element: &Value) -> Result<(), DocumentError> {
        let steps: Vec<Step<'_>> = path.iter().copied().map(Step::Key).collect();
        match self.value(&steps)? {
            None => self.put(path, &Value::Array(vec![element.clone()]), false),
            Some(Value::Array(_)) => self.put(path, element, true),
            Some(_) => Err(wrong_kind(&steps, "a list")),
        }
    }

    /// Puts a value at the end of the deepest thing on the way that is there. `is_element`: of the array at its end.
    fn put(&mut self, path: &[&str], value: &Value, is_element: bool) -> Result<(), DocumentError> {
        if self.text.trim().is_empty() {
            self.text = format!("{{}}{}", if self.text.is_empty() { "\n" } else { &self.text });
        }
        let mut depth = if is_element { path.len() } else { path.len() - 1 };
        let steps: Vec<Step<'_>> = path.iter().copied().map(Step::Key).collect();
        while depth > 0 && self.value(&steps[..depth])?.is_none() {
            depth -= 1;
        }
        let wrapped = path.iter().skip(depth + 1).rev().fold(value.clone(), |inner, key| {
            Value::Object(std::iter::once(((*key).to_owned(), inner)).collect())
        });
        let layout = self.layout(&[&steps[..depth], &[Step::Index(usize::MAX)]].concat())?;
        let text = match path.get(depth) {
            Some(key) => format!("{}{}{}", Value::from(*key), layout.colon, layout.render(&wrapped)),
            None => layout.render(&wrapped),
        };
        let splices = self.read(|root| {
            let container = find(root, &steps[..depth])?;
            match container {
                Some(Node::Object(_)) if depth < path.len() => {}
                Some(Node::Array(_)) if depth == path.len() => {}
                _ => return Err(wrong_kind(&steps[..depth], "an object")),
            }
            Ok(container.map_or_else(Vec::new, |container| self.insertion(container, &layout, text)))
        })?;
        self.splice(splices);
        Ok(())
    }

    fn insertion(&self, container: &Node<'_>, layout: &Layout, item: String) -> Vec<Splice> {
        let (range, children) = (container.range(), children(container));
        let close = range.end - 1;
        let Some(last) = children.last() else {
            return self.first_insertion(range, layout, item);
        };
        let comma = comma_between(&self.text, last.end, close);
        let from = comma.map_or(last.end, |comma| comma + 1);
        let place = if layout.newline.is_some() { same_line_comments(&self.text, from) } else { from };
        let lead = layout.lead();
        match comma {
            Some(_) => vec![(place..place, format!("{lead}{item},"))],
            None => vec![(last.end..last.end, ",".to_owned()), (place..place, format!("{lead}{item}"))],
        }
    }

    fn first_insertion(&self, container: Range, layout: &Layout, item: String) -> Vec<Splice> {
        let (open, close) = (container.start + 1, container.end - 1);
        let place = same_line_comments(&self.text, open);
        let rest = &self.text[place..close];
        match &layout.newline {
            None => {
                let pad = if place == open { rest } else { " " };
                vec![(place..place, format!("{pad}{item}"))]
            }
            Some(_) if rest.contains('\n') => vec![(place..place, format!("{}{item}", layout.lead()))],
            Some(newline) => {
                vec![(place..close, format!("{}{item}{newline}{}", layout.lead(), layout.outer))]
            }
        }
    }

    /// Takes a member or an element out, with its comma; comments around it stay.
    ///
    /// # Errors
    /// If the way there is not one of objects and arrays.
    pub fn remove(&mut self, path: &[Step<'_>]) -> Result<(), DocumentError> {
        let Some((last, way)) = path.split_last() else { return Ok(()) };
        let splices = self.read(|root| {
            let container = find(root, way)?;
            Ok(container.and_then(|container| {
                let position = position(container, *last)?;
                Some(self.removal(container.range(), &children(container), position))
            }))
        })?;
        self.splice(splices.unwrap_or_default());
        Ok(())
    }

    fn removal(&self, container: Range, children: &[Range], position: usize) -> Vec<Splice> {
        let (open, close) = (container.start + 1, container.end - 1);
        let item = children[position];
        let until = children.get(position + 1).map_or(close, |next| next.start);
        let comma = comma_between(&self.text, item.end, until);
        let end = comma.map_or(item.end, |comma| comma + 1);
        let start = self.text[..item.start].trim_end().len().max(open);
        if self.text[open..start].trim().is_empty() && self.text[end..close].trim().is_empty() {
            return vec![(open..close, String::new())];
        }
        let kept = self.kept_newline(start..item.start, end);
        let mut splices = vec![(start..end, kept)];
        if comma.is_none() && position > 0 {
            let before = children[position - 1].end;
            let comma = comma_between(&self.text, before, item.start);
            splices.extend(comma.map(|comma| (comma..comma + 1, String::new())));
        }
        splices
    }

    /// A line comment before the gap must not swallow what follows it.
    fn kept_newline(&self, gap: std::ops::Range<usize>, end: usize) -> String {
        let line = self.text[..gap.start].rsplit('\n').next().unwrap_or_default();
        let follows = self.text[end..].trim_start_matches([' ', '\t']);
        let ends_line = follows.starts_with(['\n', '\r']);
        match self.text[gap.clone()].find('\n') {
            Some(_) if !ends_line && end_of_comments(line) => self.text[gap].to_owned(),
            _ => String::new(),
        }
    }

    /// How something at that place is to look.
    fn layout(&self, path: &[Step<'_>]) -> Result<Layout, DocumentError> {
        let way = &path[..path.len().saturating_sub(1)];
        self.read(|root| {
            let ranges: Vec<(Range, Vec<Range>)> = (0..=way.len())
                .map(|depth| find(root, &way[..depth]))
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .flatten()
                .map(|node| (node.range(), children(node)))
                .collect();
            Ok(Layout::of(&self.text, &ranges))
        })
    }

    fn read<T>(
        &self,
        look: impl FnOnce(Option<&Node<'_>>) -> Result<T, DocumentError>,
    ) -> Result<T, DocumentError> {
        let text = readable(&self.text);
        let parsed = parse_to_ast(&text, &CollectOptions::default(), &GRAMMAR)
            .map_err(|error| DocumentError::Invalid(error.to_string()))?;
        look(parsed.value.as_ref())
    }

    fn splice(&mut self, mut splices: Vec<Splice>) {
        splices.sort_by_key(|(range, _)| (range.start, range.end));
        // From the end, so that positions stay true.
        for (range, text) in splices.into_iter().rev() {
            self.text.replace_range(range, &text);
        }
    }
}

fn wrong_kind(path: &[Step<'_>], wanted: &'static str) -> DocumentError {
    let words = path.iter().map(|step| match step {
        Step::Key(key) => (*key).to_owned(),
        Step::Index(index) => index.to_string(),
    });
    let place = words.collect::<Vec<_>>().join(".");
    DocumentError::Kind { place: if place.is_empty() { "the file".to_owned() } else { place }, wanted }
}

/// The node there; an error where the way leads through something else.
fn find<'a, 'b>(
    root: Option<&'b Node<'a>>,
    path: &[Step<'_>],
) -> Result<Option<&'b Node<'a>>, DocumentError> {
    let Some(mut node) = root else { return Ok(None) };
    for (depth, step) in path.iter().enumerate() {
        let next = match (node, step) {
            (Node::Object(object), Step::Key(key)) => {
                let mut with_key = object.properties.iter().filter(|prop| prop.name.as_str() == *key);
                let first = with_key.next();
                if with_key.next().is_some() {
                    return Err(DocumentError::Twice((*key).to_owned()));
                }
                first.map(|prop| &prop.value)
            }
            (Node::Array(array), Step::Index(index)) => array.elements.get(*index),
            (_, Step::Key(_)) => return Err(wrong_kind(&path[..depth], "an object")),
            (_, Step::Index(_)) => return Err(wrong_kind(&path[..depth], "a list")),
        };
        let Some(next) = next else { return Ok(None) };
        node = next;
    }
    Ok(Some(node))
}

fn position(container: &Node<'_>, step: Step<'_>) -> Option<usize> {
    match (container, step) {
        (Node::Object(object), Step::Key(key)) => {
            object.properties.iter().position(|prop| prop.name.as_str() == key)
        }
        (Node::Array(array), Step::Index(index)) => Some(index).filter(|index| *index < array.elements.len()),
        _ => None,
    }
}

/// From key to value, or the element.
fn children(container: &Node<'_>) -> Vec<Range> {
    match container {
        Node::Object(object) => object.properties.iter().map(Ranged::range).collect(),
        Node::Array(array) => array.elements.iter().map(Ranged::range).collect(),
        _ => Vec::new(),
    }
}

fn to_value(node: &Node<'_>) -> Value {
    match node {
        Node::StringLit(text) => Value::from(text.value.as_ref()),
        // A number that we can't hold is compared as it stands there.
        Node::NumberLit(number) => serde_json::from_str(number.value).unwrap_or_else(|_| number.value.into()),
        Node::BooleanLit(word) => Value::from(word.value),
        Node::NullKeyword(_) => Value::Null,
        Node::Array(array) => array.elements.iter().map(to_value).collect(),
        Node::Object(object) => {
            let members = object.properties.iter();
            Value::Object(
                members.map(|prop| (prop.name.as_str().to_owned(), to_value(&prop.value))).collect(),
            )
        }
    }
}
