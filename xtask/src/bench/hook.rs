//! Row 1: a hook from exec to exit, its frame delivered and answered.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::Bench;
use super::baselines::Baselines;
use super::ear::Ear;
use super::figure::{Figure, Goal};
use super::measure::{Contestant, Sample, exec, take_turns};

/// A Stop hook's input as Claude Code writes it.
const INPUT: &str = r#"{"session_id":"92fecf1f-2f3e-4c55-9d4c-000000000000","transcript_path":"/home/x/.claude/projects/-home-x/92fecf1f.jsonl","cwd":"/home/x","prompt_id":"10f1e6a3-0000-4000-8000-000000000000","permission_mode":"bypassPermissions","hook_event_name":"Stop","stop_hook_active":false,"last_assistant_message":"It is done: the build is green, and the three tests that failed pass now.","background_tasks":[]}"#;

pub fn measure(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let ear = Ear::new()?;
    fs::write(ear.path("input"), INPUT).context("can't write the input")?;
    let hook = |program: &Path, script: &str| -> anyhow::Result<Sample> {
        let mut command = Command::new(program);
        if !script.is_empty() {
            command.arg(Baselines::source(script));
        }
        exec(with_input(&mut command, &ear)?)
    };
    let ours = bench.binary("ccmux-hook");
    let (python, node) = (Baselines::python(), Baselines::node());
    let bash = Baselines::has(&["bash", "jq", "nc"]).then(|| "bash".into());
    let noop = bench.baselines.compiled("noop");
    let programs = [
        ("ours", Some(ours), ""),
        ("python", python, "hook.py"),
        ("noop", noop, ""),
        ("node", node, "hook.js"),
        ("bash", bash, "hook.sh"),
    ];
    let there =
        programs.iter().filter_map(|(name, program, script)| Some((*name, program.clone()?, *script)));
    let mut contestants: Vec<Contestant<'_>> =
        there.map(|(name, program, script)| Contestant::new(name, move || hook(&program, script))).collect();
    let rounds = bench.rounds(300, 40);
    let all = take_turns(rounds, &mut contestants)?;
    ensure!(ear.heard() >= rounds as u64, "the frames were not delivered");
    let of =
        |name: &str| contestants.iter().position(|contestant| contestant.name == name).map(|at| &all[at]);
    let median = |name: &str| of(name).map(super::measure::Series::median);
    let ours = of("ours").context("ours")?;
    let others: Vec<String> =
        ["node", "bash"].iter().filter_map(|name| Some(format!("{name} {:.1} ms", median(name)?))).collect();
    let figure = |name, goal, words| {
        let figure = Figure::new(name, "ms", goal, words).ours(ours.median()).cpu_ms(ours.cpu_ms());
        figure.baseline(median("python")).limit(median("noop"))
    };
    Ok(vec![
        figure(
            "1 hook, beside Python",
            Goal::OfBaseline(1.0 / 40.0),
            "at most 1/40 of Python doing the same",
        )
        .note(others.join(", ")),
        figure(
            "1 hook, beside a process that does nothing",
            Goal::OfLimit(1.5),
            "at most 1.5 times the no-op",
        ),
    ])
}

fn with_input<'a>(command: &'a mut Command, ear: &Ear) -> anyhow::Result<&'a mut Command> {
    let input = File::open(ear.path("input")).context("the input")?;
    command.stdin(input).stdout(Stdio::null()).stderr(Stdio::inherit());
    Ok(command
        .env("CCMUX_RUNTIME_DIR", ear.dir())
        .env("CCMUX_SESSION_TOKEN", "0123456789abcdef0123456789abcdef"))
}
