//! Memory over a long time: messages flow at the same pace, 100,000 an hour, through FIFOs, the inbox, the demo agent and
//! `output.sock`, and the daemon's size is noted all the while.
//!
//! ```text
//! MiB │   ╭─────────────────╮   the last quarter beside the second: flat,
//!     │  ╱                      or it grows
//!     └──┴────┴────┴────┴────   the first quarter warms up
//! ```

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::Bench;
use super::figure::{Figure, Goal};
use super::measure::{Process, Series};

/// The pace of the goal: 100,000 messages an hour.
const PER_S: f64 = 100_000.0 / 3600.0;
const STEP: Duration = Duration::from_millis(200);
const CHANNELS: usize = 4;
/// How long the queue may take to empty at the end.
const CALM: Duration = Duration::from_secs(60);

pub fn measure(bench: &Bench, minutes: f64) -> anyhow::Result<Vec<Figure>> {
    let house = bench.house().ready();
    let daemon = Process::of(house.daemon_pid().unsigned_abs());
    let mut fifos: Vec<_> = (0..CHANNELS).map(|n| house.open_fifo(&format!("in.soak{n}"))).collect();
    let turns = house.subscribe();
    let (start, length) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
    let (mut sent, mut sizes, mut told) = (0_u64, Vec::new(), 0);
    while start.elapsed() < length {
        thread::sleep(STEP);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some 100,000
        let due = (start.elapsed().as_secs_f64() * PER_S) as u64;
        while sent < due {
            let at = usize::try_from(sent)? % CHANNELS;
            writeln!(fifos[at], "say: message {sent} of the soak, as long as people write")
                .context("a FIFO")?;
            sent += 1;
        }
        sizes.push(daemon.mib());
        let minute = start.elapsed().as_secs() / 60;
        if minute > told {
            told = minute;
            eprintln!("  {minute} min: {sent} messages, {:.1} MiB", daemon.mib());
        }
    }
    let until = Instant::now() + CALM;
    while house.status().queue.messages > 0 && Instant::now() < until {
        thread::sleep(STEP);
    }
    ensure!(house.status().queue.messages == 0, "the queue did not empty");
    let alerts = turns.alerts().len();
    let (early, late) = quarters(&sizes);
    Ok(vec![
        Figure::new(
            "soak: memory, last quarter beside the second",
            "MiB",
            Goal::OfBaseline(1.05),
            "flat: at most 1.05 times",
        )
        .ours(late)
        .baseline(early)
        .note(format!("{sent} messages in {minutes} min, {} turns, {alerts} alerts", turns.turns().len())),
    ])
}

/// The medians of the second and the last quarter.
fn quarters(sizes: &[f64]) -> (f64, f64) {
    let quarter = sizes.len() / 4;
    let median = |part: &[f64]| {
        let mut series = Series::default();
        part.iter().for_each(|mib| series.push_ms(*mib));
        series.median()
    };
    (median(&sizes[quarter..2 * quarter]), median(&sizes[sizes.len() - quarter..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_shows_in_the_last_quarter() {
        let grows: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(quarters(&grows), (37.0, 87.0));
        assert_eq!(quarters(&[9.0, 10.0, 10.0, 10.0]), (10.0, 10.0), "warming up is no growth");
    }
}
