//! Row 6: turns to a hundred subscribers. Measured by `examples/broadcast.rs` of ccmux-runtime, beside a bare loop of writes
//! in the same process.

use super::Bench;
use super::figure::{Figure, Goal};

/// As many as the goal speaks of.
const SUBSCRIBERS: &str = "100";

pub fn measure(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let found = bench.example("broadcast", &[SUBSCRIBERS, "--json"])?;
    let number = |key: &str| found[key].as_f64().unwrap_or(f64::NAN);
    Ok(vec![
        Figure::new(
            "6 broadcast of 4 KB to 100",
            "lines/s",
            Goal::AtLeastOfBaseline(0.5),
            "at least 0.5 of the loop",
        )
        .ours(number("ours_per_s"))
        .baseline(number("bare_per_s"))
        .limit(number("bare_per_s")),
        Figure::new(
            "6 the others' p99 beside one that stalled",
            "ms",
            Goal::OfBaseline(2.0),
            "at most 2 times that without, none missing",
        )
        .ours(number("p99_stalled_ms"))
        .baseline(number("p99_ms")),
        Figure::new("6 memory of a subscriber", "KiB", Goal::AtMost(4.0), "at most 4 KiB")
            .ours(number("kib_each")),
    ])
}
