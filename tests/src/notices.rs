//! Notices that end in a file of the house: the route that puts them there, and what tests wait for in it.
//!
//! It knows no kind and no text: what a notice must say is for the test to tell.
//!
//! ```ignore
//! let house = House::builder().settings(&into_a_file("[attention]\nroutes = [\"file\"]\n")).ready();
//! assert_eq!(house.wait_for_notices(1)[0]["kind"], "reply");
//! ```

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::House;
use crate::patience::stays_quiet;

/// Settings with the route `file`, which `more` must name in its `[attention]`.
pub fn into_a_file(more: &str) -> String {
    let argv = r#"argv = ["/bin/sh", "-c", "cat >> ~/notices"]"#;
    format!("[routes.file]\ntype = \"command\"\n{argv}\n{more}")
}

impl House {
    /// All that came so far, the oldest first.
    pub fn notices(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.home().join("notices")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub fn wait_for_notices(&self, count: usize) -> Vec<Value> {
        self.wait_until(&format!("{count} notices"), || self.notices().len() >= count);
        self.notices()
    }

    /// The first one whose body has these words.
    pub fn wait_for_notice_of(&self, words: &str) -> Value {
        let says = |notice: &Value| notice["body"].as_str().is_some_and(|body| body.contains(words));
        self.wait_for(&format!("a notice of {words:?}"), || self.notices().into_iter().find(says))
    }

    pub fn no_more_notices_than(&self, count: usize, during: Duration) {
        stays_quiet(during, "a notice too many", || {
            Some(self.notices()).filter(|notices| notices.len() > count).map(|notices| format!("{notices:?}"))
        });
    }
}
