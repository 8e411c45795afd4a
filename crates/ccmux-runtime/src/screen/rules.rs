//! The rules: patterns over rows, read from TOML.

use regex::Regex;
use serde::{Deserialize, Deserializer, de};

use super::rows::Row;

/// The rules that are built in, by profile.
const BUILTIN: [(&str, &str); 1] =
    [("claude-code", include_str!("../../../../config/agents/claude-code.toml"))];

/// Why there are no rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// No rules of that name are built in, nor has the user any.
    #[error(
        "there are no screen rules for the profile {0:?}: built in is \"claude-code\", own ones go to ~/.config/ccmux/agents/{0}.toml"
    )]
    NoProfile(String),
    /// It can't be a file's name.
    #[error("{0:?} can't be a profile: use a plain name like claude-code")]
    NoName(String),
    /// The user's file can't be used.
    #[error("{path}: {why}")]
    File {
        /// Which.
        path: std::path::PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The text is no rules file.
    #[error("the screen rules can't be read: {0}")]
    Unreadable(#[from] toml::de::Error),
    /// A rule could never mean anything.
    #[error("the screen rules have an empty {0}: name at least one")]
    Empty(&'static str),
}

/// How to read one agent's screens.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    profile: String,
    /// Versions in which the keys that take a text out of the box are known.
    #[serde(default)]
    take_out_versions: Vec<String>,
    /// Versions that are known to put a stashed draft back.
    #[serde(default)]
    stash_versions: Vec<String>,
    /// The first version that takes the pieces of a text without a pause between them; later ones do, too.
    #[serde(default, deserialize_with = "release")]
    all_at_once_from: Option<Vec<u32>>,
    /// Other versions that do.
    #[serde(default)]
    all_at_once_versions: Vec<String>,
    prompt_box: BoxRules,
    busy: BusyRules,
    facts: FactRules,
    overlay: OverlayRules,
    #[serde(default)]
    dialog: Vec<NamedRule>,
    #[serde(default)]
    shell: Vec<ShellRule>,
}

/// What the prompt box looks like.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BoxRules {
    pub signs: Vec<String>,
    #[serde(default)]
    pub shell_signs: Vec<String>,
    pub rule_glyph: char,
    #[serde(deserialize_with = "pattern")]
    pub hidden_above: Regex,
    #[serde(deserialize_with = "pattern")]
    pub hidden_below: Regex,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct BusyRules {
    #[serde(deserialize_with = "patterns")]
    below: Vec<Regex>,
    #[serde(deserialize_with = "patterns")]
    above: Vec<Regex>,
    #[serde(deserialize_with = "patterns")]
    queued_placeholder: Vec<Regex>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FactRules {
    #[serde(deserialize_with = "patterns")]
    press_enter: Vec<Regex>,
    #[serde(deserialize_with = "patterns")]
    stashed: Vec<Regex>,
    #[serde(deserialize_with = "patterns")]
    vim_normal: Vec<Regex>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverlayRules {
    #[serde(deserialize_with = "patterns")]
    placeholder: Vec<Regex>,
    #[serde(deserialize_with = "patterns")]
    above: Vec<Regex>,
    #[serde(deserialize_with = "patterns")]
    below: Vec<Regex>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedRule {
    name: String,
    #[serde(deserialize_with = "patterns")]
    rows: Vec<Regex>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShellRule {
    /// For people.
    name: String,
    #[serde(default)]
    over_box: bool,
    #[serde(deserialize_with = "patterns")]
    rows: Vec<Regex>,
}

fn is_listed(versions: &[String], version: &str) -> bool {
    versions.iter().any(|known| version == known || version.starts_with(&format!("{known} ")))
}

fn numbers(release: &str) -> Option<Vec<u32>> {
    release.split('.').map(|number| number.parse().ok()).collect()
}

fn release<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Vec<u32>>, D::Error> {
    let text = String::deserialize(value)?;
    let bad = || serde::de::Error::custom(format!("{text:?} is no version: write it as 2.1.197"));
    numbers(&text).map(Some).ok_or_else(bad)
}

impl Rules {
    /// Whether that version is known to put a stashed draft back after the next submit.
    pub fn can_stash(&self, version: &str) -> bool {
        is_listed(&self.stash_versions, version)
    }

    /// Whether it is known of that version which keys take a text out of the prompt box.
    pub fn can_take_out(&self, version: &str) -> bool {
        is_listed(&self.take_out_versions, version)
    }

    /// Whether that version takes the pieces of a text without a pause between them.
    pub fn takes_all_at_once(&self, version: &str) -> bool {
        let release = numbers(version.split(' ').next().unwrap_or_default());
        let is_late = self.all_at_once_from.as_ref().zip(release).is_some_and(|(from, it)| it >= *from);
        is_late || is_listed(&self.all_at_once_versions, version)
    }

    /// The rules built in for `profile`.
    pub fn builtin(profile: &str) -> Result<Self, RulesError> {
        let (_, text) = BUILTIN
            .iter()
            .find(|(name, _)| *name == profile)
            .ok_or_else(|| RulesError::NoProfile(profile.to_owned()))?;
        Self::from_toml(text)
    }

    /// The rules in `text`; what is unknown or no pattern is an error that names it.
    pub fn from_toml(text: &str) -> Result<Self, RulesError> {
        let rules: Self = toml::from_str(text)?;
        let signs = &rules.prompt_box.signs;
        if signs.is_empty() || signs.iter().any(String::is_empty) {
            return Err(RulesError::Empty("prompt_box.signs"));
        }
        Ok(rules)
    }

    /// The profile's name.
    pub fn profile(&self) -> &str {
        &self.profile
    }

    pub(super) fn prompt_box(&self) -> &BoxRules {
        &self.prompt_box
    }

    pub(super) fn busy_below(&self) -> &[Regex] {
        &self.busy.below
    }

    pub(super) fn busy_above(&self) -> &[Regex] {
        &self.busy.above
    }

    pub(super) fn queued_placeholder(&self, text: &str) -> bool {
        self.queued_placeholders().iter().any(|pattern| pattern.is_match(text))
    }

    pub(super) fn queued_placeholders(&self) -> &[Regex] {
        &self.busy.queued_placeholder
    }

    pub(super) fn press_enter(&self) -> &[Regex] {
        &self.facts.press_enter
    }

    pub(super) fn stashed(&self) -> &[Regex] {
        &self.facts.stashed
    }

    pub(super) fn vim_normal(&self) -> &[Regex] {
        &self.facts.vim_normal
    }

    pub(super) fn overlay_below(&self) -> &[Regex] {
        &self.overlay.below
    }

    pub(super) fn overlay_above(&self) -> &[Regex] {
        &self.overlay.above
    }

    pub(super) fn overlay_placeholder(&self, text: &str) -> bool {
        self.overlay_placeholders().iter().any(|pattern| pattern.is_match(text))
    }

    pub(super) fn overlay_placeholders(&self) -> &[Regex] {
        &self.overlay.placeholder
    }

    /// Name and patterns of each dialog, in the file's order.
    pub(super) fn dialogs(&self) -> impl Iterator<Item = (&str, &[Regex])> {
        self.dialog.iter().map(|rule| (rule.name.as_str(), rule.rows.as_slice()))
    }

    /// Name, whether it counts over a box, and patterns of each sign that the agent is gone.
    pub(super) fn shells(&self) -> impl Iterator<Item = (&str, bool, &[Regex])> {
        self.shell.iter().map(|rule| (rule.name.as_str(), rule.over_box, rule.rows.as_slice()))
    }

    /// The first dialog rule that fits a row: rules in the file's order, so that the telling ones come first.
    pub(super) fn dialog(&self, rows: &[Row]) -> Option<&str> {
        let fits = |rule: &&NamedRule| rows.iter().any(|row| any_fits(&rule.rows, row));
        self.dialog.iter().find(fits).map(|rule| rule.name.as_str())
    }

    /// Whether the last row says that the agent is gone.
    pub(super) fn is_gone(&self, rows: &[Row], with_box: bool) -> bool {
        let says = |row: &Row| {
            self.shell.iter().any(|rule| (rule.over_box || !with_box) && any_fits(&rule.rows, row))
        };
        rows.last().is_some_and(says)
    }
}

pub(super) fn any_fits(patterns: &[Regex], row: &Row) -> bool {
    patterns.iter().any(|pattern| pattern.is_match(&row.text))
}

fn pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Regex, D::Error> {
    let text = String::deserialize(deserializer)?;
    Regex::new(&text).map_err(|why| de::Error::custom(format!("{text:?} is no pattern: {why}")))
}

fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Regex>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let compile = |text: &String| {
        Regex::new(text).map_err(|why| de::Error::custom(format!("{text:?} is no pattern: {why}")))
    };
    texts.iter().map(compile).collect()
}
