//! An event of Claude Code that comes twice, because our hook stands in the generated settings and, since
//! `ccmux install --user`, in the user's own.
//!
//! ```text
//! Stop, session s, prompt p  ─► an event
//! Stop, session s, prompt p  ─► the same one again: no event
//! ```
//!
//! The same: the same event of the same session, prompt and tool use, with everything else in it equal, within a second.
//! What bears no number of Claude's (2.0.76 has none) may truly have happened twice; it is let through, as what comes
//! later is, and whoever acts on it must bear it.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ccmux_policy::event::Origin;
use ccmux_wire::hook::HookFrame;

/// Claude starts all hooks of an event at once.
const WITHIN: Duration = Duration::from_secs(1);
/// More are not remembered.
const MOST: usize = 1024;

/// Remembers what came in the last second. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Doubles(Arc<Mutex<VecDeque<(Instant, u64)>>>);

impl Doubles {
    /// Whether this event came already; remembers that it came.
    pub fn is_one(&self, frame: &HookFrame, origin: Origin, now: Instant) -> bool {
        let Some(key) = key_of(frame, origin) else { return false };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while seen.front().is_some_and(|(at, _)| now.duration_since(*at) > WITHIN || seen.len() >= MOST) {
            seen.pop_front();
        }
        let is_double = seen.iter().any(|(_, known)| *known == key);
        if !is_double {
            seen.push_back((now, key));
        }
        is_double
    }
}

fn key_of(frame: &HookFrame, origin: Origin) -> Option<u64> {
    let is_numbered = ["prompt_id", "tool_use_id"].iter().any(|name| frame.payload.get(name).is_some());
    is_numbered.then(|| {
        let mut hasher = DefaultHasher::new();
        (&frame.event, frame.claude_pid, origin == Origin::Own).hash(&mut hasher);
        frame.payload.hash(&mut hasher);
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stop(prompt: Option<&str>, text: &str) -> HookFrame {
        let mut payload = json!({"session_id": "s", "last_assistant_message": text});
        if let Some(prompt) = prompt {
            payload["prompt_id"] = prompt.into();
        }
        HookFrame {
            event: "Stop".into(),
            token: None,
            claude_pid: Some(7),
            marks: Default::default(),
            spot: None,
            payload,
        }
    }

    #[test]
    fn the_same_event_within_a_second_is_one() {
        let (doubles, now) = (Doubles::default(), Instant::now());
        let is_one =
            |frame: &HookFrame, ms: u64| doubles.is_one(frame, Origin::Own, now + Duration::from_millis(ms));
        assert!(!is_one(&stop(Some("p"), "a"), 0));
        assert!(is_one(&stop(Some("p"), "a"), 300));
        assert!(is_one(&stop(Some("p"), "a"), 900), "four times is once");
        assert!(!is_one(&stop(Some("p"), "b"), 900), "a turn that a Stop hook made go on ends twice");
        assert!(!is_one(&stop(Some("q"), "a"), 900));
        assert!(!is_one(&HookFrame { event: "StopFailure".into(), ..stop(Some("p"), "a") }, 900));
        assert!(!doubles.is_one(&stop(Some("p"), "a"), Origin::Foreign, now));
        assert!(!is_one(&stop(Some("p"), "a"), 5000));
    }

    #[test]
    fn what_bears_no_number_may_have_happened_twice() {
        let (doubles, now) = (Doubles::default(), Instant::now());
        assert!(!doubles.is_one(&stop(None, "a"), Origin::Own, now));
        assert!(!doubles.is_one(&stop(None, "a"), Origin::Own, now));
    }

    #[test]
    fn only_so_many_are_remembered() {
        let (doubles, now) = (Doubles::default(), Instant::now());
        for n in 0..3 * MOST {
            assert!(!doubles.is_one(&stop(Some(&n.to_string()), ""), Origin::Foreign, now));
        }
        assert!(doubles.0.lock().unwrap().len() <= MOST);
    }
}
