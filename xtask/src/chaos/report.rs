//! The figures, as people read them.

use super::ledger::Verdict;
use super::storm::Record;

/// So many violations are shown.
const SHOWN: usize = 25;

/// Descriptors that the last daemon may have more than the first one had.
pub const MORE_DESCRIPTORS: usize = 4;
/// Memory that it may have more: half as much again, and what an allocator keeps.
pub const MORE_RSS_KIB: u64 = 24 * 1024;

/// What the last daemon's size says.
pub fn leaks(record: &Record) -> Vec<String> {
    let (start, end) = (record.at_start, record.at_end);
    let mut leaks = Vec::new();
    if end.descriptors > start.descriptors + MORE_DESCRIPTORS {
        leaks.push(format!(
            "descriptors: {} at the start, {} after the calm",
            start.descriptors, end.descriptors
        ));
    }
    if end.rss_kib > start.rss_kib * 3 / 2 + MORE_RSS_KIB {
        leaks.push(format!("memory: {} KiB at the start, {} KiB after the calm", start.rss_kib, end.rss_kib));
    }
    leaks
}

/// All figures.
pub fn text(record: &Record, verdict: &Verdict) -> String {
    let mut lines = vec![
        format!(
            "blows       {}",
            counts(record.blows.iter().map(|(name, count)| (*name, i64::from(*count))))
        ),
        format!(
            "messages    {} written, {} accepted, {} taken",
            verdict.written, verdict.accepted, verdict.taken
        ),
        format!(
            "faults      {} lost, {} doubled, {} out of order",
            verdict.losses, verdict.doubles, verdict.order_faults
        ),
        format!(
            "uncertain   {}",
            counts(verdict.uncertain.iter().map(|(why, count)| (why.as_str(), *count as i64)))
        ),
        format!(
            "again       {} marked redelivered, {} submitted again, {} lost with an agent that took them",
            verdict.redelivered, verdict.submitted_again, verdict.lost_with_agent
        ),
        format!(
            "batches     {}",
            counts(record.batches.iter().map(|(state, count)| (state.as_str(), *count)))
        ),
        format!(
            "accepted→delivered  p50 {} ms, p99 {} ms; {} of {} proved by hook",
            verdict.percentile(50),
            verdict.percentile(99),
            verdict.by_hook,
            verdict.took.len()
        ),
        format!("terminal    {} prompts, {} pastes, {} Enters", record.prompts, record.pastes, record.enters),
        format!(
            "output.sock {} turns, {} partial; {} lines heard over {} connections, let go {} times",
            verdict.turns,
            verdict.partial_turns,
            record.heard.seqs.len(),
            record.heard.connections,
            record.heard.let_go
        ),
        format!(
            "the daemon  {} starts, nothing settled for 10 s {} times; descriptors {} → {}, memory {} → {} KiB; calm after {:.1} s",
            record.starts,
            record.standstills,
            record.at_start.descriptors,
            record.at_end.descriptors,
            record.at_start.rss_kib,
            record.at_end.rss_kib,
            record.calm_took.as_secs_f64()
        ),
    ];
    if verdict.lost_in_pipe > 0 || record.in_pipe.bytes > 0 {
        lines.push(format!(
            "pipes       {} bytes with {} messages were in pipes that nobody held; {} messages lost so",
            record.in_pipe.bytes,
            record.in_pipe.tokens.len(),
            verdict.lost_in_pipe
        ));
    }
    lines.join("\n")
}

/// The violations, as far as they fit.
pub fn violations(all: &[String]) -> String {
    let mut lines: Vec<String> = all.iter().take(SHOWN).map(|one| format!("  {one}")).collect();
    if all.len() > SHOWN {
        lines.push(format!("  ... and {} more", all.len() - SHOWN));
    }
    lines.join("\n")
}

fn counts<'a>(counts: impl Iterator<Item = (&'a str, i64)>) -> String {
    let all: Vec<String> = counts.map(|(name, count)| format!("{count} {name}")).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::stage::Size;

    #[test]
    fn a_daemon_that_grows_without_end_is_found() {
        let mut record = Record { at_start: Size { descriptors: 30, rss_kib: 20_000 }, ..Record::default() };
        record.at_end = Size { descriptors: 34, rss_kib: 50_000 };
        assert_eq!(leaks(&record), Vec::<String>::new());
        record.at_end = Size { descriptors: 35, rss_kib: 60_000 };
        assert_eq!(leaks(&record).len(), 2);
    }
}
