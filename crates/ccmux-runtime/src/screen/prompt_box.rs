//! Where the prompt box is, and what is in it.
//!
//! Only Claude's own frame reaches the left edge and the full width of the screen: whatever a conversation or a dialog
//! quotes is indented. So the last two rules of full width are the box's, or there is no box. One exception: the classic
//! renderer doesn't scroll a long text, the box grows out of the screen, and only its bottom rule is left.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::rows::{Look, Row};
use super::rules::{BoxRules, Rules};

/// A rule begins with at least so many glyphs; a label may follow.
const RULE_START: usize = 3;
/// Columns that the sign, or the indent of a further row, takes.
const INDENT: usize = 2;
/// Columns at the right edge that text never reaches. Measured at 60 to 200 columns.
const MARGIN: usize = 2;

/// The prompt box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptBox {
    /// The visible rows of text, without sign and indent, trailing blanks trimmed. None if it is empty.
    pub rows: Vec<String>,
    /// Rows that are scrolled away above.
    pub hidden_above: u32,
    /// Its top is above the edge of the screen: how many rows are there, nobody can see.
    pub cut_above: bool,
    /// Rows that are scrolled away below: somebody moved the cursor up.
    pub hidden_below: u32,
    /// Columns of text in a row.
    pub width: u16,
    /// It shows a placeholder: it is empty.
    pub placeholder: bool,
    /// What is written into its top rule, e.g. the session's name.
    pub label: String,
}

impl PromptBox {
    /// Nothing was typed into it.
    pub fn is_empty(&self) -> bool {
        let hides = self.cut_above || self.hidden_above > 0 || self.hidden_below > 0;
        self.placeholder || (self.rows.is_empty() && !hides)
    }
}

/// What a text in this box would be taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// A prompt.
    Prompt,
    /// A shell command.
    Shell,
    /// It scrolled out of sight.
    Hidden,
}

/// The box and its place.
pub(super) struct Found {
    pub prompt_box: PromptBox,
    pub sign: Sign,
    pub placeholder_text: Option<String>,
    /// The index of its top rule; 0 if that is above the edge of the screen.
    pub top: usize,
    /// The index of its bottom rule.
    pub bottom: usize,
}

/// The box at the bottom of `rows`: what the last two rules enclose, if it has the shape of a box.
pub(super) fn find(rules: &Rules, rows: &[Row]) -> Option<Found> {
    let rules = rules.prompt_box();
    let is_rule = |row: &Row| is_rule(rules, row);
    let bottom = rows.iter().rposition(is_rule)?;
    let top = rows[..bottom].iter().rposition(is_rule);
    let width = screen_width(rules, rows)?;
    let top_rule = top.map(|top| &rows[top]);
    if !spans(&rows[bottom], width) || top_rule.is_some_and(|rule| !spans(rule, width)) {
        return None;
    }
    let inner = &rows[top.map_or(0, |top| top + 1)..bottom];
    let hidden_above = top_rule.map_or(0, |rule| hidden(&rules.hidden_above, &rule.text));
    let sign = sign(rules, inner.first()?, hidden_above > 0 || top.is_none())?;
    let text = text(rules, inner, sign)?;
    let placeholder_text = placeholder(&text);
    let prompt_box = PromptBox {
        rows: typed_rows(&text, placeholder_text.is_some()),
        hidden_above,
        cut_above: top.is_none() && sign == Sign::Hidden,
        hidden_below: hidden(&rules.hidden_below, &rows[bottom].text),
        width: u16::try_from(width.saturating_sub(INDENT + MARGIN)).unwrap_or(u16::MAX),
        placeholder: placeholder_text.is_some(),
        label: top_rule.map(|rule| label(rules, rule)).unwrap_or_default(),
    };
    // Without a top rule only a text can prove that it is a box.
    let proved = top.is_some() || prompt_box.rows.iter().any(|row| !row.trim().is_empty());
    proved.then_some(Found { prompt_box, sign, placeholder_text, top: top.unwrap_or(0), bottom })
}

fn label(rules: &BoxRules, rule: &Row) -> String {
    rule.text.trim_matches(|c| c == rules.rule_glyph || c == ' ').to_owned()
}

fn is_rule(rules: &BoxRules, row: &Row) -> bool {
    let glyph = rules.rule_glyph;
    row.text.chars().take_while(|c| *c == glyph).count() >= RULE_START && row.text.ends_with(glyph)
}

/// The columns of the screen: those of the widest rule. Other rows say little: terminals and tables disagree about emoji.
fn screen_width(rules: &BoxRules, rows: &[Row]) -> Option<usize> {
    rows.iter().filter(|row| is_rule(rules, row)).map(|row| row.text.width()).max()
}

/// Whether a rule reaches from edge to edge. A label may hold characters about whose width opinions differ.
fn spans(rule: &Row, width: usize) -> bool {
    let shown = rule.text.width();
    let doubtful = rule.text.chars().filter(|c| c.width() != Some(1)).count();
    shown.abs_diff(width) <= doubtful
}

fn hidden(pattern: &regex::Regex, rule: &str) -> u32 {
    pattern.captures(rule).and_then(|found| found.get(1)?.as_str().parse().ok()).unwrap_or(0)
}

fn sign(rules: &BoxRules, first: &Row, may_hide: bool) -> Option<Sign> {
    let begins = |signs: &[String]| signs.iter().any(|sign| first.text.starts_with(sign.as_str()));
    if begins(&rules.signs) {
        Some(Sign::Prompt)
    } else if begins(&rules.shell_signs) {
        Some(Sign::Shell)
    } else {
        may_hide.then_some(Sign::Hidden)
    }
}

/// The rows without sign and indent; `None` if one of them is not indented: then this is no box.
fn text(rules: &BoxRules, inner: &[Row], sign: Sign) -> Option<Vec<Row>> {
    let signed = usize::from(sign != Sign::Hidden);
    let signs = || rules.signs.iter().chain(&rules.shell_signs);
    let first = inner.iter().take(signed).map(|row| {
        let length = signs().filter(|s| row.text.starts_with(s.as_str())).map(|s| s.chars().count()).max()?;
        Some(cut(row, length))
    });
    let further = inner.iter().skip(signed).map(|row| {
        let indent = row.text.chars().take(INDENT);
        indent.clone().all(|c| c == ' ').then(|| cut(row, indent.count()))
    });
    first.chain(further).collect()
}

fn cut(row: &Row, chars: usize) -> Row {
    Row { text: row.text.chars().skip(chars).collect(), looks: row.looks[chars..].to_vec() }
}

/// The placeholder: one row whose first character is the cursor or dim, and all others dim.
fn placeholder(text: &[Row]) -> Option<String> {
    let [row] = text else { return None };
    let dim = row.looks.iter().filter(|look| look.dim).count();
    let others = row.looks.get(1..)?;
    let lit = |(look, c): (&Look, char)| !look.dim && c != ' ';
    let plain = others.iter().zip(row.text.chars().skip(1)).any(lit);
    let first = row.looks.first()?;
    (dim > 0 && !plain && (first.inverse || first.dim)).then(|| row.text.clone())
}

/// What was typed in a row: a dim tail is a hint of Claude's.
fn typed(row: &Row) -> String {
    let lit = row.looks.iter().rposition(|look| !look.dim).map_or(0, |last| last + 1);
    let dim_tail = lit < row.looks.len();
    // The hint's first character stands under the cursor.
    let lit = if dim_tail && lit > 0 && row.looks[lit - 1].inverse { lit - 1 } else { lit };
    row.text.chars().take(lit).collect::<String>().trim_end_matches(' ').to_owned()
}

/// The rows of what was typed: none under a placeholder, and one blank row is an empty box.
fn typed_rows(text: &[Row], placeholder: bool) -> Vec<String> {
    let rows: Vec<String> = text.iter().map(typed).collect();
    let blank = rows.len() == 1 && rows[0].trim().is_empty();
    if placeholder || blank { Vec::new() } else { rows }
}
