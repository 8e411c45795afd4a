//! One figure: what ccmux takes, beside a baseline and a limit, and the goal.
//!
//! ```text
//! ratio = ours / baseline, or / limit where the goal speaks of the limit
//! met   = null where what the goal speaks of is missing
//! ```
//!
//! It knows no clock and no process.

use serde_json::{Value, json};

/// What a goal is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// At most so many times the baseline.
    OfBaseline(f64),
    /// At most so many times the limit.
    OfLimit(f64),
    /// At least so many times the baseline: of figures where more is better.
    AtLeastOfBaseline(f64),
    /// At most that, whatever else there is.
    AtMost(f64),
}

/// A line of the report.
#[derive(Debug, Clone)]
pub struct Figure {
    name: String,
    unit: &'static str,
    ours: Option<f64>,
    baseline: Option<f64>,
    limit: Option<f64>,
    goal: Goal,
    /// The goal in words.
    words: String,
    /// Milliseconds of the processor for each time.
    cpu_ms: Option<f64>,
    notes: Vec<String>,
}

impl Figure {
    /// A figure of which nothing is known yet. The name begins with the row's number in docs/PERFORMANCE.md.
    pub fn new(name: &str, unit: &'static str, goal: Goal, words: &str) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            ours: None,
            baseline: None,
            limit: None,
            goal,
            words: words.to_owned(),
            cpu_ms: None,
            notes: Vec::new(),
        }
    }

    /// A figure that can't be measured here, and why.
    pub fn missing(name: &str, why: &str) -> Self {
        Self::new(name, "", Goal::AtMost(0.0), "not measured").note(why)
    }

    pub fn ours(mut self, value: f64) -> Self {
        self.ours = Some(value);
        self
    }

    pub fn baseline(mut self, value: impl Into<Option<f64>>) -> Self {
        self.baseline = value.into();
        self
    }

    pub fn limit(mut self, value: impl Into<Option<f64>>) -> Self {
        self.limit = value.into();
        self
    }

    pub fn cpu_ms(mut self, value: impl Into<Option<f64>>) -> Self {
        self.cpu_ms = value.into();
        self
    }

    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// What the goal speaks of.
    fn reference(&self) -> Option<f64> {
        match self.goal {
            Goal::OfBaseline(_) | Goal::AtLeastOfBaseline(_) => self.baseline,
            Goal::OfLimit(_) => self.limit,
            Goal::AtMost(_) => self.baseline.or(self.limit),
        }
    }

    /// Ours as a part of what the goal speaks of.
    pub fn ratio(&self) -> Option<f64> {
        let reference = self.reference().filter(|value| *value > 0.0)?;
        Some(self.ours? / reference)
    }

    /// `None` where something is missing.
    pub fn met(&self) -> Option<bool> {
        match self.goal {
            Goal::OfBaseline(times) | Goal::OfLimit(times) => Some(self.ratio()? <= times),
            Goal::AtLeastOfBaseline(times) => Some(self.ratio()? >= times),
            Goal::AtMost(most) => Some(self.ours? <= most),
        }
    }

    /// As `--json` prints it.
    pub fn to_json(&self) -> Value {
        let short = |value: Option<f64>| value.map(|value| rounded(value, 4));
        json!({
            "name": self.name, "ours": short(self.ours), "baseline": short(self.baseline), "limit": short(self.limit),
            "ratio": short(self.ratio()), "goal": self.words, "met": self.met(), "unit": self.unit,
            "cpu_ms": short(self.cpu_ms), "note": self.notes.join("; "),
        })
    }

    /// A row of a Markdown table.
    pub fn to_row(&self) -> String {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| rounded(value, 3).to_string());
        let met = match self.met() {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "not measured",
        };
        let (ours, unit) = (number(self.ours), self.unit);
        let cells = [
            self.name.clone(),
            if self.ours.is_some() { format!("{ours} {unit}").trim_end().to_owned() } else { ours },
            number(self.baseline),
            number(self.limit),
            number(self.ratio()),
            number(self.cpu_ms),
            self.words.clone(),
            met.to_owned(),
        ];
        let notes = self.notes.iter().map(|note| format!("\n  {note}")).collect::<String>();
        format!("| {} |{notes}", cells.join(" | "))
    }
}

/// The head that belongs to [`Figure::to_row`].
pub const HEAD: &str =
    "| what | ours | baseline | limit | ratio | CPU ms | goal | met |\n|---|---|---|---|---|---|---|---|";

/// With so many digits that mean something.
fn rounded(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    #[allow(clippy::cast_possible_truncation)] // the exponent of a double
    let exponent = value.abs().log10().floor() as i32;
    let factor = 10_f64.powi(digits - 1 - exponent);
    (value * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(goal: Goal) -> Figure {
        Figure::new("1 hook", "ms", goal, "at most that").ours(2.0)
    }

    #[test]
    fn a_goal_is_held_against_what_it_speaks_of() {
        let of_baseline = figure(Goal::OfBaseline(0.025)).baseline(84.0).limit(1.0);
        assert_eq!((of_baseline.met(), of_baseline.ratio()), (Some(true), Some(2.0 / 84.0)));
        let of_limit = figure(Goal::OfLimit(1.5)).baseline(84.0).limit(1.0);
        assert_eq!((of_limit.met(), of_limit.ratio()), (Some(false), Some(2.0)));
        assert_eq!(figure(Goal::AtLeastOfBaseline(0.5)).baseline(4.0).met(), Some(true));
        assert_eq!(figure(Goal::AtLeastOfBaseline(0.6)).baseline(4.0).met(), Some(false));
        assert_eq!(figure(Goal::AtMost(2.0)).met(), Some(true));
    }

    #[test]
    fn without_a_baseline_nobody_knows_whether_the_goal_is_met() {
        assert_eq!(figure(Goal::OfBaseline(1.0)).limit(1.0).met(), None);
        assert_eq!(figure(Goal::OfLimit(1.0)).baseline(1.0).met(), None);
        assert_eq!(Figure::missing("7 restart", "no tmux").met(), None);
        assert_eq!(
            figure(Goal::OfBaseline(1.0)).baseline(0.0).ratio(),
            None,
            "nothing can be a part of nothing"
        );
    }

    #[test]
    fn json_has_null_for_what_is_missing() {
        let json = figure(Goal::OfBaseline(1.0)).note("python3 is missing").to_json();
        for key in ["baseline", "limit", "ratio", "met", "cpu_ms"] {
            assert!(json.get(key).is_some_and(Value::is_null), "{key}: {json}");
        }
        assert_eq!(
            (&json["name"], &json["ours"], &json["goal"]),
            (&json!("1 hook"), &json!(2.0), &json!("at most that"))
        );
        assert_eq!(json["note"], "python3 is missing");
    }

    #[test]
    fn a_row_tells_what_is_not_met() {
        let row = figure(Goal::OfLimit(1.5)).limit(1.0).cpu_ms(0.12345).to_row();
        assert_eq!(row, "| 1 hook | 2 ms | - | 1 | 2 | 0.123 | at most that | **no** |");
    }

    #[test]
    fn figures_have_as_many_digits_as_mean_something() {
        assert_eq!(rounded(1234.567, 3), 1230.0);
        assert_eq!(rounded(0.012_345, 3), 0.0123);
        assert_eq!(rounded(0.0, 3), 0.0);
    }
}
