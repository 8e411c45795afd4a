//! The clock: plausible, steady, and not behind what was stored by it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::finding::Finding;
use super::patient::Patient;
use super::room::latest_message_ms;
use crate::clock::unix_ms;

/// 2025-01-01: a clock before that was never set.
const SET_SINCE_MS: i64 = 1_735_689_600_000;
/// So long the two clocks are compared.
const WATCHED: Duration = Duration::from_millis(300);
/// More than that is a jump.
const JUMP_MS: i64 = 150;
/// Time services move clocks by little.
const BACK_MS: i64 = 60_000;

pub(super) fn clock(patient: &Patient) -> Vec<Finding> {
    let (begin, wall) = (Instant::now(), unix_ms().0);
    sleep(WATCHED);
    let elapsed = i64::try_from(begin.elapsed().as_millis()).unwrap_or(i64::MAX);
    let now = unix_ms().0;
    vec![judge(now, now - wall - elapsed, latest_message_ms(&patient.state_dir))]
}

fn judge(now_ms: i64, jump_ms: i64, latest_ms: Option<i64>) -> Finding {
    let check = "clock";
    let remedy = "set the clock, and let a time service keep it (timedatectl set-ntp true)";
    if now_ms < SET_SINCE_MS {
        return Finding::failure(check, "the wall clock was never set: it shows a time before 2025", remedy);
    }
    if jump_ms.abs() > JUMP_MS {
        let what = format!("the wall clock jumped by {jump_ms} ms while it was watched");
        return Finding::warning(check, what, "find out who sets it; two time services fight, perhaps");
    }
    if let Some(ahead_ms) = latest_ms.map(|latest| latest - now_ms).filter(|ahead| *ahead > BACK_MS) {
        let what = format!("a message was stored {} s in the future: the clock went back", ahead_ms / 1000);
        return Finding::warning(check, what, remedy);
    }
    Finding::ok(check, "the wall clock is steady")
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

    #[test]
    fn a_clock_that_was_never_set_jumps_or_went_back_is_told() {
        let now = SET_SINCE_MS + 1;
        for (finding, state) in [
            (judge(now, 1, Some(now - 5)), Health::Ok),
            (judge(SET_SINCE_MS - 1, 0, None), Health::Failure),
            (judge(now, -151, None), Health::Warning),
            (judge(now, 0, Some(now + 61_000)), Health::Warning),
        ] {
            assert_eq!(finding.state, state, "{}", finding.detail);
        }
    }
}
