//! `cargo xtask demo --svg FILE`: the demo as a picture, for the README. It is played in a pane of a tmux server of its
//! own; of what the pane holds at the end, the first two chapters are drawn, row by row.
//!
//! ```text
//! "\x1b[32maccepted\x1b[0m committed"  ──►  <tspan x="16" class="green">accepted</tspan><tspan x="88"> committed</tspan>
//! ```
//!
//! Of colours it knows those that the narrator has.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

/// Columns of the pane: wider than any row, so that none is broken.
const PANE_COLUMNS: usize = 480;
/// Columns of the picture; what is longer is cut.
const COLUMNS: usize = 104;
/// What comes after the chapters that are drawn.
const NEXT_CHAPTER: &str = "3. ";
/// The demo ends within a minute; building it was done before.
const LIMIT: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Pixels of a character, a row, and the frame around all.
const CHARACTER: f64 = 8.0;
const ROW: usize = 18;
const FRAME: usize = 16;
/// The bar on top.
const BAR: usize = 30;

const HEAD: &str = r#"<style>
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d8dee9; white-space: pre }
.bold { font-weight: bold; fill: #ffffff } .dim { fill: #7b8494 } .green { fill: #a3be8c } .cyan { fill: #88c0d0 }
</style>"#;

/// Plays the demo of this program and draws it.
pub fn draw(file: &Path, further: &[&str]) -> anyhow::Result<()> {
    let pane = Pane::with_demo(further)?;
    let rows = story(&pane.rows_at_the_end()?);
    ensure!(rows.len() > 10, "the demo said too little: {rows:#?}");
    fs::write(file, svg(&rows)).with_context(|| format!("can't write {}", file.display()))?;
    println!("{}: {} rows", file.display(), rows.len());
    Ok(())
}

/// The tmux server; it goes when this goes.
struct Pane {
    socket: String,
}

impl Pane {
    fn with_demo(further: &[&str]) -> anyhow::Result<Self> {
        let own = env::current_exe().context("can't tell where this program is")?;
        let pane = Self { socket: format!("ccmux-picture-{}", std::process::id()) };
        let mut start = pane.tmux();
        start.args(["new-session", "-d", "-x", &PANE_COLUMNS.to_string(), "-y", "50"]);
        start.args(["-e", "LC_ALL=C.UTF-8"]).arg(own).arg("demo").args(further);
        start.args([";", "set-option", "-w", "remain-on-exit", "on"]);
        ensure!(start.status().context("can't start tmux")?.success(), "tmux started nothing");
        Ok(pane)
    }

    /// With their colours, once the demo has ended.
    fn rows_at_the_end(&self) -> anyhow::Result<Vec<String>> {
        let until = Instant::now() + LIMIT;
        while self.said(&["display-message", "-p", "#{pane_dead} #{pane_dead_status}"])?.trim() != "1 0" {
            ensure!(
                Instant::now() < until,
                "the demo did not end well: {}",
                self.said(&["capture-pane", "-p"])?
            );
            thread::sleep(LOOK_EVERY);
        }
        let all = self.said(&["capture-pane", "-p", "-e", "-S", "-"])?;
        Ok(all.lines().map(str::to_owned).collect())
    }

    fn said(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.tmux().args(arguments).output().context("can't start tmux")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &self.socket, "-f", "/dev/null"]).env_remove("TMUX").env("LC_ALL", "C.UTF-8");
        tmux
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").output();
    }
}

/// The first chapters; not how it was built.
fn story(rows: &[String]) -> Vec<String> {
    let plain: Vec<String> =
        rows.iter().map(|row| runs(row).into_iter().map(|run| run.text).collect()).collect();
    let first = plain.iter().position(|row| row.starts_with("1. ")).unwrap_or(0);
    let last = plain.iter().position(|row| row.starts_with(NEXT_CHAPTER)).unwrap_or(rows.len());
    let mut rows = rows[first..last.max(first)].to_vec();
    while rows.last().is_some_and(|row| row.trim().is_empty()) {
        rows.pop();
    }
    rows
}

/// Characters that look alike.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Run {
    class: &'static str,
    text: String,
}

/// A row with SGR sequences, cut where its look changes.
fn runs(row: &str) -> Vec<Run> {
    let mut runs = vec![Run::default()];
    let mut parts = row.split("\x1b[");
    let first = parts.next().unwrap_or_default();
    runs.push(Run { class: "", text: first.to_owned() });
    for part in parts {
        let (codes, text) = part.split_once('m').unwrap_or(("", part));
        let class = codes.split(';').fold(runs.last().map_or("", |run| run.class), class_after);
        runs.push(Run { class, text: text.to_owned() });
    }
    runs.retain(|run| !run.text.is_empty());
    runs
}

/// No longer than the picture is wide; a sign at the end says that something is missing.
fn cut(runs: Vec<Run>) -> Vec<Run> {
    let mut room = COLUMNS;
    let mut kept = Vec::new();
    for mut run in runs {
        let length = run.text.chars().count();
        if length > room {
            run.text = run.text.chars().take(room.saturating_sub(1)).chain(['…']).collect();
        }
        room = room.saturating_sub(length);
        kept.push(run);
        if room == 0 {
            break;
        }
    }
    kept
}

fn class_after(before: &'static str, code: &str) -> &'static str {
    match code {
        "1" => "bold",
        "2" => "dim",
        "32" => "green",
        "36" => "cyan",
        "" | "0" | "22" | "39" => "",
        _ => before,
    }
}

fn svg(rows: &[String]) -> String {
    let (width, height) = (f64::from(COLUMNS as u32) * CHARACTER, rows.len() * ROW);
    let (width, height) = (width + 2.0 * FRAME as f64, height + BAR + 2 * FRAME);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"The demo of ccmux in a terminal\">\n{HEAD}\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#20242c\"/>\n"
    );
    for (at, colour) in [(20, "#bf616a"), (40, "#ebcb8b"), (60, "#a3be8c")] {
        let _ = writeln!(svg, "<circle cx=\"{at}\" cy=\"18\" r=\"6\" fill=\"{colour}\"/>");
    }
    for (number, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
        let _ = writeln!(svg, "<text y=\"{}\">{}</text>", BAR + FRAME + ROW * number + 12, spans(row));
    }
    svg + "</svg>\n"
}

/// Each run at its own column, so that every font gives the same picture.
fn spans(row: &str) -> String {
    let mut column = 0;
    let mut spans = String::new();
    for run in cut(runs(row)) {
        let x = FRAME as f64 + column as f64 * CHARACTER;
        column += run.text.chars().count();
        let class = if run.class.is_empty() { String::new() } else { format!(" class=\"{}\"", run.class) };
        let _ = write!(spans, "<tspan x=\"{x}\"{class}>{}</tspan>", escaped(&run.text));
    }
    spans
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_cut_where_its_look_changes() {
        let run = |class, text: &str| Run { class, text: text.into() };
        let row = "  \x1b[2m0.1 s\x1b[0m \x1b[32maccepted\x1b[39m a < b";
        let expected =
            [run("", "  "), run("dim", "0.1 s"), run("", " "), run("green", "accepted"), run("", " a < b")];
        assert_eq!(runs(row), expected);
        let spans = spans(row);
        assert!(spans.contains("<tspan x=\"80\" class=\"green\">accepted</tspan>"), "{spans}");
        assert!(spans.ends_with("<tspan x=\"144\"> a &lt; b</tspan>"), "{spans}");
    }

    #[test]
    fn a_row_that_is_too_long_is_cut_and_says_so() {
        let row = format!("ab\x1b[2m{}\x1b[0mcd", "x".repeat(COLUMNS));
        let kept: String = cut(runs(&row)).into_iter().map(|run| run.text).collect();
        assert!(kept.starts_with("abxx") && kept.ends_with("x…"), "{kept}");
        assert_eq!(kept.chars().count(), COLUMNS);
        assert_eq!(cut(runs("short")), runs("short"));
    }

    #[test]
    fn the_story_alone_is_drawn() {
        let rows = ["$ cargo build", "\x1b[1m1. ccmuxd starts\x1b[0m", "  ready", "", "3. Three lines", "x"];
        let told = story(&rows.map(str::to_owned));
        assert_eq!(told, ["\x1b[1m1. ccmuxd starts\x1b[0m", "  ready"]);
    }
}
