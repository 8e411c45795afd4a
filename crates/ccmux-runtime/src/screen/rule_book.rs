//! The screen rules in force: built in, or the user's own file in their place; read again on demand.
//!
//! ```text
//! ~/.config/ccmux/agents/claude-code.toml     if it is there, it alone counts
//! config/agents/claude-code.toml              built in otherwise
//! ```
//!
//! A file that can't be read, or is broken, changes nothing: the rules in force stay. Clones are the same book. It does
//! not know who reads screens, nor when.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use super::rules::{Rules, RulesError};
use crate::plain_file::read_text;

/// Far more than any rules need.
const FILE_BYTES: u64 = 1024 * 1024;

/// Where rules come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RulesOrigin {
    /// The binary.
    BuiltIn,
    /// The user's file.
    File(PathBuf),
}

impl fmt::Display for RulesOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// One profile's rules.
#[derive(Debug, Clone)]
pub struct RuleBook {
    profile: String,
    own: Option<PathBuf>,
    rules: Arc<RwLock<Arc<Rules>>>,
}

impl RuleBook {
    /// The rules of `profile`; own ones are looked for in `folder`.
    ///
    /// # Errors
    /// If there are none, or the user's file is broken.
    pub fn open(profile: &str, folder: Option<&Path>) -> Result<Self, RulesError> {
        if profile.is_empty() || profile.contains(['/', '\0']) || profile.starts_with('.') {
            return Err(RulesError::NoName(profile.to_owned()));
        }
        let own = folder.map(|folder| folder.join(format!("{profile}.toml")));
        let (rules, _) = read(profile, own.as_deref())?;
        Ok(Self { profile: profile.to_owned(), own, rules: Arc::new(RwLock::new(Arc::new(rules))) })
    }

    /// The rules in force.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Which profile's they are.
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// Reads them again. Blocks.
    ///
    /// # Errors
    /// What is wrong with the user's file; the rules in force stay.
    pub fn reread(&self) -> Result<RulesOrigin, RulesError> {
        let (rules, origin) = read(&self.profile, self.own.as_deref())?;
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        Ok(origin)
    }
}

fn read(profile: &str, own: Option<&Path>) -> Result<(Rules, RulesOrigin), RulesError> {
    let Some(path) = own.filter(|path| path.symlink_metadata().is_ok()) else {
        return Ok((Rules::builtin(profile)?, RulesOrigin::BuiltIn));
    };
    let refused = |why: String| RulesError::File { path: path.to_owned(), why };
    let text = read_text(path, FILE_BYTES).map_err(|error| refused(error.to_string()))?;
    let rules = Rules::from_toml(&text).map_err(|error| refused(error.to_string()))?;
    match rules.profile() {
        named if named == profile => Ok((rules, RulesOrigin::File(path.to_owned()))),
        named => Err(refused(format!("it is for the profile {named:?}, not {profile:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use ccmux_policy::screen::ScreenClass;

    use super::*;
    use crate::screen::classify;

    const BUILT_IN: &str = include_str!("../../../../config/agents/claude-code.toml");

    fn ready(sign: &str) -> String {
        let rule = "─".repeat(60);
        format!("{rule}\n{sign}\u{a0}\n{rule}\n  status")
    }

    fn class(book: &RuleBook, screen: &str) -> ScreenClass {
        classify(&book.rules(), screen).class
    }

    #[test]
    fn an_own_file_takes_the_place_of_the_built_in_rules_and_gives_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let book = RuleBook::open("claude-code", Some(folder.path())).unwrap();
        let screen = ready("➤");
        assert_eq!(class(&book, &screen), ScreenClass::Unknown);
        let own = folder.path().join("claude-code.toml");
        std::fs::write(&own, BUILT_IN.replace(r#"signs = ["❯\u00a0""#, r#"signs = ["➤\u00a0""#)).unwrap();
        assert_eq!(class(&book, &screen), ScreenClass::Unknown, "not before it is asked for");
        assert_eq!(book.reread().unwrap(), RulesOrigin::File(own.clone()));
        assert_eq!(class(&book, &screen), ScreenClass::Ready);
        std::fs::remove_file(own).unwrap();
        assert_eq!(book.reread().unwrap(), RulesOrigin::BuiltIn);
        assert_eq!(class(&book, &screen), ScreenClass::Unknown);
    }

    #[test]
    fn a_broken_file_is_named_and_the_old_rules_stay() {
        let folder = tempfile::tempdir().unwrap();
        let book = RuleBook::open("claude-code", Some(folder.path())).unwrap();
        let own = folder.path().join("claude-code.toml");
        for (text, why) in [
            ("profile = ".to_owned(), "claude-code.toml"),
            (BUILT_IN.replace("'^Pane is dead\\b'", "'('"), "is no pattern"),
            (BUILT_IN.replace("profile = \"claude-code\"", "profile = \"other\""), "\"other\""),
        ] {
            std::fs::write(&own, text).unwrap();
            let said = book.reread().unwrap_err().to_string();
            assert!(said.contains(why) && said.contains("claude-code.toml"), "{said}");
            assert_eq!(class(&book, &ready("❯")), ScreenClass::Ready, "{said}");
            assert!(RuleBook::open("claude-code", Some(folder.path())).is_err(), "a start refuses it");
        }
        std::fs::remove_file(&own).unwrap();
        nix::unistd::mkfifo(&own, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(book.reread().unwrap_err().to_string().contains("it is a FIFO"), "and nothing hangs");
    }

    /// Builds for tests have more of the library than the shipped one: what that has is looked at, too.
    #[test]
    fn a_pattern_may_leave_upper_and_lower_case_aside() {
        let folder = tempfile::tempdir().unwrap();
        let own = BUILT_IN.replace("'^Pane is dead\\b'", "'(?i)^pane is dead\\b'");
        assert_ne!(own, BUILT_IN);
        std::fs::write(folder.path().join("claude-code.toml"), own).unwrap();
        RuleBook::open("claude-code", Some(folder.path())).unwrap();
        let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
        let workspace = std::fs::read_to_string(workspace).unwrap();
        let regex = workspace.lines().find(|line| line.starts_with("regex = ")).unwrap();
        assert!(regex.contains("unicode-case"), "{regex}");
    }

    #[test]
    fn a_profile_without_rules_is_told_where_they_would_be() {
        let folder = tempfile::tempdir().unwrap();
        let why = RuleBook::open("emacs", Some(folder.path())).unwrap_err().to_string();
        assert!(why.contains("\"emacs\"") && why.contains("agents/emacs.toml"), "{why}");
        assert!(RuleBook::open("../x", Some(folder.path())).is_err());
        let own = BUILT_IN.replace("profile = \"claude-code\"", "profile = \"emacs\"");
        std::fs::write(folder.path().join("emacs.toml"), own).unwrap();
        assert_eq!(RuleBook::open("emacs", Some(folder.path())).unwrap().profile(), "emacs");
    }
}
