//! Rows 2 and 3: a text arrives in the pane. Measured by `examples/typing.rs` of ccmux-runtime, since only the daemon's own
//! code types as the daemon does.

use serde_json::Value;

use super::Bench;
use super::figure::{Figure, Goal};

pub fn measure(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let found = bench.example("typing", &[&bench.rounds(100, 25).to_string()])?;
    let small = &found["small"];
    let big = &found["big"];
    Ok(vec![
        Figure::new(
            "2 65 B arrive in the pane, with Enter",
            "ms",
            Goal::OfBaseline(0.6),
            "at most 0.6 of two tmux processes",
        )
        .ours(ms(&small["ours"]))
        .baseline(ms(&small["two"]))
        .limit(ms(&small["one"]))
        .cpu_ms(small["ours"]["cpu_ms"].as_f64())
        .note("ours is two guarded processes: Enter waits for a look at what was pasted (ADR 2)"),
        Figure::new("3 28 KB arrive, exact", "ms", Goal::OfLimit(5.0), "at most 5 times one command list")
            .ours(ms(&big["ours"]))
            .baseline(ms(&big["old"]))
            .limit(ms(&big["once"]))
            .cpu_ms(big["ours"]["cpu_ms"].as_f64())
            .note("the baseline was run for a tenth of the text"),
    ])
}

fn ms(way: &Value) -> f64 {
    way["ms"].as_f64().unwrap_or(f64::NAN)
}
