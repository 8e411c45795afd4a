//! The bottom of the pane: spinner, hint, prompt box between rules, footer. And how it joins the conversation.
//!
//! Knows looks and sizes (FINDINGS 6-10, and the scrolled box as seen in 2.1.332); does not write to a terminal.
//!
//! ```text
//! ✻ Churning… (3s · ↓ 12 tokens)          <- only while busy
//!                            draft stashed
//! ─── ↑ 87 more ──────────────────────────
//!   row 88
//!   row 89
//! ────────────────────────────────────────
//!   ⏵⏵ bypass permissions on (shift+tab to cycle)
//! ```

use unicode_segmentation::UnicodeSegmentation;

use crate::dialog::Block;
use crate::prompt_box::PromptBox;
use crate::style::{DIM, GREY, INVERSE, MODE, RESET, RULE, SPINNER, rule};
use crate::wrap;

/// Columns and rows of the pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

impl Size {
    /// Columns of the text in the prompt box.
    pub fn text_width(self) -> usize {
        self.columns.saturating_sub(4).max(2)
    }

    /// Rows that the text in the box may have before it scrolls.
    pub fn box_rows(self) -> usize {
        (self.rows / 2).saturating_sub(5).max(3)
    }
}

/// Everything about the bottom that is not the text in the box.
#[derive(Debug, Clone, Default)]
pub struct Looks {
    /// The spinner's text, while busy.
    pub spinner: Option<(char, String)>,
    /// Right-aligned above the box.
    pub hint: Option<String>,
    /// Dim text in the empty box.
    pub placeholder: Option<String>,
    /// `!` where the text is a shell command, else `❯`.
    pub shell: bool,
    pub footer: Footer,
}

/// The line below the box.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Footer {
    #[default]
    Bypass,
    Manual,
    Said(String),
    /// The mode, and that Esc interrupts.
    Interruptible {
        manual: bool,
    },
}

/// What a renderer draws.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frame {
    pub rows: Vec<String>,
    /// Row and column of the cursor, which is hidden but placed (FINDINGS 10).
    pub cursor: (usize, usize),
}

/// The prompt box and what surrounds it.
pub fn prompt_block(prompt: &mut PromptBox, looks: &Looks, size: Size) -> Block {
    let mut block = Block::default();
    if let Some((glyph, text)) = &looks.spinner {
        block
            .rows
            .push(format!("{SPINNER}{glyph} {}{RESET}", wrap::fit(text, size.columns.saturating_sub(2))));
    }
    block.rows.push(hint_row(looks.hint.as_deref(), size.columns));
    let view = BoxView::of(prompt, size);
    let above = (view.top > 0).then(|| format!("↑ {} more", view.top));
    let below = (view.below > 0).then(|| format!("↓ {} more", view.below));
    block.rows.push(rule(size.columns, RULE, above.as_deref()));
    block.cursor = (block.rows.len() + view.cursor.0, 2 + view.cursor.1);
    block.rows.extend(box_rows(prompt, looks, &view, size));
    block.rows.push(rule(size.columns, RULE, below.as_deref()));
    block.rows.push(footer_row(&looks.footer, size.columns));
    block
}

/// Which rows of the text are to be seen.
#[derive(Debug, PartialEq, Eq)]
struct BoxView {
    top: usize,
    shown: usize,
    below: usize,
    /// Row (of those shown) and column.
    cursor: (usize, usize),
}

impl BoxView {
    /// The cursor's row is kept in the middle as far as there is text around it.
    fn of(prompt: &mut PromptBox, size: Size) -> Self {
        let (row, column) = prompt.cursor_at(size.text_width());
        let total = prompt.rows(size.text_width()).len().max(1);
        let shown = total.min(size.box_rows());
        let top = row.saturating_sub(shown / 2).min(total - shown);
        Self { top, shown, below: total - shown - top, cursor: (row - top, column) }
    }
}

fn box_rows(prompt: &mut PromptBox, looks: &Looks, view: &BoxView, size: Size) -> Vec<String> {
    let ranges = prompt.rows(size.text_width())[view.top..view.top + view.shown].to_vec();
    let (text, cursor) = (prompt.text(), prompt.cursor());
    let mut rows = Vec::new();
    for (at, range) in ranges.into_iter().enumerate() {
        let head = match (view.top + at, looks.shell) {
            (0, true) => format!("{MODE}!{RESET}\u{a0}"),
            (0, false) if looks.spinner.is_some() => format!("{GREY}❯\u{a0}{RESET}"),
            (0, false) => "❯\u{a0}".to_owned(),
            _ => "  ".to_owned(),
        };
        let row = &text[range.clone()];
        let body = match (&looks.placeholder, at == view.cursor.0) {
            (Some(placeholder), _) if text.is_empty() => placeholder_text(placeholder, size.text_width()),
            (_, true) => with_cursor(row, cursor.min(range.end).saturating_sub(range.start)),
            (_, false) => row.to_owned(),
        };
        rows.push(format!("{head}{body}"));
    }
    rows
}

/// The cell under the cursor is inverse, as Claude draws its cursor itself.
fn with_cursor(row: &str, at: usize) -> String {
    let (before, rest) = row.split_at(at.min(row.len()));
    let under = rest.graphemes(true).next().unwrap_or(" ");
    let after = rest.get(under.len()..).unwrap_or_default();
    format!("{before}{INVERSE}{under}{RESET}{after}")
}

fn placeholder_text(placeholder: &str, width: usize) -> String {
    let shown = wrap::fit(placeholder, width);
    let first = shown.graphemes(true).next().unwrap_or(" ");
    format!("{INVERSE}{first}{RESET}{DIM}{}{RESET}", shown.get(first.len()..).unwrap_or_default())
}

fn hint_row(hint: Option<&str>, width: usize) -> String {
    let Some(hint) = hint else { return String::new() };
    let hint = wrap::fit(hint, width.saturating_sub(4));
    let indent = width.saturating_sub(wrap::columns(hint) + 2);
    format!("{}{GREY}{hint}{RESET}", " ".repeat(indent))
}

/// A pane that is too narrow loses the words on shift+tab first, then the end (so in 2.1.332: below 32 columns
/// nothing tells any more that Esc interrupts).
fn footer_row(footer: &Footer, width: usize) -> String {
    let room = width.saturating_sub(4);
    let (mode, rest) = match footer {
        Footer::Bypass => (BYPASS, CYCLE.to_owned()),
        Footer::Interruptible { manual: false } => {
            let whole = format!("{CYCLE} · {INTERRUPT}");
            let fits = wrap::columns(BYPASS) + wrap::columns(&whole) <= room;
            (BYPASS, if fits { whole } else { format!(" · {INTERRUPT}") })
        }
        Footer::Manual => ("", format!("{MANUAL} · ? for shortcuts")),
        Footer::Interruptible { manual: true } => ("", format!("{MANUAL} · {INTERRUPT}")),
        Footer::Said(text) => ("", text.clone()),
    };
    let mode = wrap::fit(mode, room);
    let left = room - wrap::columns(mode);
    let rest = if wrap::columns(&rest) <= left {
        rest
    } else {
        format!("{}…", wrap::fit(&rest, left.saturating_sub(1)))
    };
    format!("  {MODE}{mode}{GREY}{}{RESET}", wrap::fit(&rest, left))
}

const BYPASS: &str = "⏵⏵ bypass permissions on";
const CYCLE: &str = " (shift+tab to cycle)";
const MANUAL: &str = "⏸ manual mode on";
const INTERRUPT: &str = "esc to interrupt";

/// Fullscreen: the conversation from the top, its end where it is long, and the block at the bottom of the pane.
pub fn full_frame(mut body: Vec<String>, block: Block, size: Size) -> Frame {
    let block = fitted(block, size);
    let room = size.rows - block.rows.len();
    body.drain(..body.len().saturating_sub(room));
    body.resize(room, String::new());
    let cursor = (room + block.cursor.0, block.cursor.1);
    body.extend(block.rows);
    Frame { rows: body, cursor }
}

/// Classic: only what can still change, the block right below it.
pub fn live_frame(mut live: Vec<String>, block: Block, size: Size) -> Frame {
    let block = fitted(block, size);
    let room = size.rows - block.rows.len();
    live.drain(..live.len().saturating_sub(room));
    let cursor = (live.len() + block.cursor.0, block.cursor.1);
    live.extend(block.rows);
    Frame { rows: live, cursor }
}

/// A pane that is too low shows the rows around the cursor.
fn fitted(mut block: Block, size: Size) -> Block {
    let surplus = block.rows.len().saturating_sub(size.rows.max(1));
    // The rule above the cursor stays, if there is a row for it.
    let above = surplus.min(block.cursor.0.saturating_sub(usize::from(size.rows > 1)));
    block.rows.drain(..above);
    block.rows.truncate(size.rows.max(1));
    block.cursor.0 = block.cursor.0.saturating_sub(above);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(row: &str) -> String {
        let mut text = row.to_owned();
        while let Some(at) = text.find('\x1b') {
            let end = text[at..].find('m').map_or(text.len(), |m| at + m + 1);
            text.replace_range(at..end, "");
        }
        text
    }

    fn block(text: &str, looks: &Looks, size: Size) -> Vec<String> {
        let mut prompt = PromptBox::default();
        prompt.insert(text);
        prompt_block(&mut prompt, looks, size)
            .rows
            .iter()
            .map(|row| plain(row).trim_end().to_owned())
            .collect()
    }

    const SIZE: Size = Size { columns: 40, rows: 24 };

    #[test]
    fn an_empty_box_stands_between_rules() {
        let rows = block("", &Looks::default(), SIZE);
        let line = "─".repeat(40);
        assert_eq!(rows, ["", &line, "❯", &line, "  ⏵⏵ bypass permissions on (shift+tab…"]);
    }

    #[test]
    fn a_long_text_scrolls_and_the_rule_says_how_much_is_above() {
        let text: Vec<String> = (1..=20).map(|n| format!("line {n}")).collect();
        let rows = block(&text.join("\n"), &Looks::default(), SIZE);
        assert_eq!(rows[1], format!("─── ↑ 13 more {}", "─".repeat(26)));
        assert_eq!(rows[2..9], (14..=20).map(|n| format!("  line {n}")).collect::<Vec<_>>());
        assert!(!rows.concat().contains('❯'));
    }

    #[test]
    fn the_view_follows_the_cursor_as_in_the_real_box() {
        let mut prompt = PromptBox::default();
        prompt.insert(&vec!["x"; 102].join("\n"));
        let size = Size { columns: 120, rows: 40 };
        prompt.vertical(-13, size.text_width());
        let view = BoxView::of(&mut prompt, size);
        assert_eq!((view.top, view.shown, view.below, view.cursor.0), (81, 15, 6, 7));
        prompt.vertical(-100, size.text_width());
        assert_eq!(BoxView::of(&mut prompt, size).below, 87);
    }

    #[test]
    fn a_narrow_footer_loses_the_words_on_shift_tab_first() {
        let at =
            |width| plain(&footer_row(&Footer::Interruptible { manual: false }, width)).trim_end().to_owned();
        assert_eq!(at(100), "  ⏵⏵ bypass permissions on (shift+tab to cycle) · esc to interrupt");
        assert_eq!(at(60), "  ⏵⏵ bypass permissions on · esc to interrupt");
        assert_eq!(at(40), "  ⏵⏵ bypass permissions on · esc to i…");
    }

    #[test]
    fn a_placeholder_is_dim_behind_an_inverse_cell() {
        let looks = Looks { placeholder: Some("Try it".into()), ..Looks::default() };
        let rows = prompt_block(&mut PromptBox::default(), &looks, SIZE).rows;
        assert_eq!(rows[2], "❯\u{a0}\x1b[7mT\x1b[0m\x1b[2mry it\x1b[0m");
    }

    #[test]
    fn any_size_has_a_frame_with_the_cursor_inside() {
        for columns in 1..50 {
            for rows in 1..30 {
                let size = Size { columns, rows };
                let mut prompt = PromptBox::default();
                prompt.insert(&"wörd 字 ".repeat(30));
                let looks = Looks { spinner: Some(('✻', "Churning…".into())), ..Looks::default() };
                let frame = full_frame(vec!["x".into(); 50], prompt_block(&mut prompt, &looks, size), size);
                assert_eq!(frame.rows.len(), rows);
                assert!(frame.cursor.0 < rows, "{size:?}");
            }
        }
    }
}
