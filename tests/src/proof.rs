//! What ccmux claims of a delivery, held against what the agent's own transcript says, with times.
//!
//! ```text
//! batch.delivered  09:00:06.120      in the log: the claim
//! type=user        09:00:06.118      in the transcript: the witness
//! ```

use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::agent::messages;
use crate::house::House;

/// The hook, on which a claim rests, comes that long before the transcript's line at most. Far below the 5 s after which a
/// second Enter is pressed: an Enter that was taken for a success is found out.
const HOOK_LEADS_BY: time::Duration = time::Duration::SECOND;

impl House {
    /// Every batch that was called delivered stands in the transcript, and none was called so before the agent took it.
    ///
    /// # Panics
    /// If a claim is false.
    pub fn claims_are_true(&self) {
        let claims = || self.log_events("batch.delivered");
        // Prompts of a human have no head.
        let ours =
            |line: &Value| line["message"]["content"].as_str().is_some_and(|text| text.starts_with('['));
        let prompts = || self.prompt_lines().into_iter().filter(ours).collect::<Vec<_>>();
        self.wait_until("a claim for each prompt", || claims().len() == prompts().len());
        let claims: Vec<OffsetDateTime> = claims().iter().map(time_of).collect();
        let taken: Vec<OffsetDateTime> = prompts().iter().map(time_of).collect();
        for (claim, taken) in claims.iter().zip(&taken) {
            assert!(*claim + HOOK_LEADS_BY >= *taken, "delivered at {claim}, taken at {taken}");
        }
    }

    /// Exactly these texts arrived on a channel, each once and in order; `(redelivered)` may stand before them.
    ///
    /// # Panics
    /// If not.
    pub fn arrived_once(&self, channel: &str, texts: &[String]) {
        self.wait_for_messages(texts.len());
        self.wait_until("an empty queue", || self.status().queue.messages == 0);
        let found = self.prompts().into_iter().filter(|prompt| prompt.starts_with('['));
        let found: Vec<String> = found
            .flat_map(|prompt| messages(&prompt))
            .filter(|(name, _)| name == channel)
            .map(|(_, text)| text.strip_prefix("(redelivered) ").unwrap_or(&text).to_owned())
            .collect();
        assert_eq!(found, texts);
    }
}

/// The time in a line of the log or of a transcript.
///
/// # Panics
/// If there is none.
pub fn time_of(line: &Value) -> OffsetDateTime {
    let text = line["timestamp"].as_str().unwrap_or_else(|| panic!("no time: {line}"));
    OffsetDateTime::parse(text, &Rfc3339).unwrap_or_else(|error| panic!("{text}: {error}"))
}
