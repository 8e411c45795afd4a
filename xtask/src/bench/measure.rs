//! Measuring: contestants take turns, so that what else the machine does falls on all of them; medians and hundredths; what
//! it costs the processor.
//!
//! ```text
//! round 0   ours  python  noop      warms caches up, does not count
//! round 1   ours  python  noop
//! round 2   ...
//! ```

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// How often a fact is looked for: what a measured time may be too long.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// One time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    pub ms: f64,
    /// Of the processor, where it is known.
    pub cpu_ms: Option<f64>,
}

/// All times of one contestant.
#[derive(Debug, Clone, Default)]
pub struct Series {
    samples: Vec<Sample>,
}

impl Series {
    pub fn push(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// Without what it cost.
    pub fn push_ms(&mut self, ms: f64) {
        self.push(Sample { ms, cpu_ms: None });
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The time that 99 of 100 stay below.
    pub fn p99(&self) -> f64 {
        self.quantile(0.99)
    }

    fn quantile(&self, part: f64) -> f64 {
        let mut sorted: Vec<f64> = self.samples.iter().map(|sample| sample.ms).collect();
        sorted.sort_by(f64::total_cmp);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        // a place in a short list
        let place = ((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1));
        sorted.get(place).copied().unwrap_or(f64::NAN)
    }

    /// The processor's milliseconds for each time, on average: they are counted in coarse steps.
    pub fn cpu_ms(&self) -> Option<f64> {
        let known: Vec<f64> = self.samples.iter().filter_map(|sample| sample.cpu_ms).collect();
        #[allow(clippy::cast_precision_loss)]
        let count = known.len() as f64;
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / count)
    }
}

/// A way of doing the same thing.
pub struct Contestant<'a> {
    pub name: &'a str,
    run: Box<dyn FnMut() -> anyhow::Result<Sample> + 'a>,
}

impl<'a> Contestant<'a> {
    pub fn new(name: &'a str, run: impl FnMut() -> anyhow::Result<Sample> + 'a) -> Self {
        Self { name, run: Box::new(run) }
    }
}

/// What everybody took, in the order of the contestants.
pub fn take_turns(rounds: usize, contestants: &mut [Contestant<'_>]) -> anyhow::Result<Vec<Series>> {
    let mut all = vec![Series::default(); contestants.len()];
    for round in 0..=rounds {
        for (contestant, series) in contestants.iter_mut().zip(&mut all) {
            let sample = (contestant.run)().with_context(|| contestant.name.to_owned())?;
            if round > 0 {
                series.push(sample);
            }
        }
    }
    Ok(all)
}

/// From exec to exit. Nothing else may be waited for meanwhile in this process.
pub fn exec(command: &mut Command) -> anyhow::Result<Sample> {
    let (start, before) = (Instant::now(), children_ms()?);
    let status = command.status().with_context(|| format!("can't start {:?}", command.get_program()))?;
    let ms = ms_since(start);
    ensure!(status.success(), "{:?}: {status}", command.get_program());
    Ok(Sample { ms, cpu_ms: Some(children_ms()? - before) })
}

pub fn ms_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

/// What the children that were waited for have had of the processor.
pub fn children_ms() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    #[allow(clippy::cast_precision_loss)]
    Ok(us as f64 / 1e3)
}

/// Looks until there is the fact, all the time; fails after `limit`.
pub fn wait_for<T>(limit: Duration, what: &str, fact: impl FnMut() -> Option<T>) -> anyhow::Result<T> {
    look_every(LOOK_EVERY, limit, what, fact)
}

/// Looks seldom, where looking would take from what is measured.
pub fn look_every<T>(
    pause: Duration,
    limit: Duration,
    what: &str,
    mut fact: impl FnMut() -> Option<T>,
) -> anyhow::Result<T> {
    let until = Instant::now() + limit;
    loop {
        if let Some(found) = fact() {
            return Ok(found);
        }
        ensure!(Instant::now() < until, "waited {} s in vain for {what}", limit.as_secs());
        sleep_no_longer(pause);
    }
}

/// Linux lets a sleeper sleep up to 50 µs longer than it asked for, which is as long as the shortest pause here: a fact would
/// be found half of that too late, and what it is compared with is not. For the sleep alone, since children inherit it.
fn sleep_no_longer(pause: Duration) {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_timerslack(1);
    thread::sleep(pause);
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_timerslack(0);
}

/// A process that goes on, as /proc tells of it.
#[derive(Debug, Clone)]
pub struct Process {
    proc: PathBuf,
}

impl Process {
    pub fn of(pid: u32) -> Self {
        Self { proc: PathBuf::from(format!("/proc/{pid}")) }
    }

    fn threads(&self) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(self.proc.join("task")).into_iter().flatten().flatten().map(|entry| entry.path())
    }

    /// The processor's milliseconds that its threads have had. (Those that have ended are not in it.)
    pub fn cpu_ms(&self) -> f64 {
        let of = |thread: PathBuf| {
            let text = fs::read_to_string(thread.join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<f64>().ok()
        };
        self.threads().filter_map(of).sum::<f64>() / 1e6
    }

    /// How often its threads were switched to.
    pub fn wake_ups(&self) -> u64 {
        let text = self.threads().filter_map(|thread| fs::read_to_string(thread.join("status")).ok());
        let texts: Vec<String> = text.collect();
        let lines = texts.iter().flat_map(|text| text.lines()).filter(|line| line.contains("ctxt_switches"));
        lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
    }

    /// Resident memory.
    pub fn mib(&self) -> f64 {
        let status = fs::read_to_string(self.proc.join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
        kib.unwrap_or(f64::NAN) / 1024.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(times: &[f64]) -> Series {
        let samples = times.iter().map(|ms| Sample { ms: *ms, cpu_ms: Some(*ms / 2.0) });
        Series { samples: samples.collect() }
    }

    #[test]
    fn the_median_ignores_one_that_was_disturbed() {
        assert_eq!(series(&[3.0, 1.0, 900.0, 2.0, 2.5]).median(), 2.5);
        assert_eq!(series(&[2.0, 4.0]).cpu_ms(), Some(1.5));
        assert!(series(&[]).median().is_nan());
    }

    #[test]
    fn one_of_a_hundred_is_above_the_hundredth() {
        let times: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(series(&times).p99(), 199.0);
    }

    #[test]
    fn contestants_take_turns_and_the_first_round_does_not_count() {
        let order = std::cell::RefCell::new(String::new());
        let run = |name: char| {
            let order = &order;
            move || {
                order.borrow_mut().push(name);
                Ok(Sample { ms: order.borrow().len() as f64, cpu_ms: None })
            }
        };
        let all =
            take_turns(2, &mut [Contestant::new("a", run('a')), Contestant::new("b", run('b'))]).unwrap();
        assert_eq!(*order.borrow(), "ababab");
        assert_eq!(all[0].samples.iter().map(|sample| sample.ms).collect::<Vec<_>>(), [3.0, 5.0]);
        assert_eq!(all[1].cpu_ms(), None);
    }

    #[test]
    fn a_program_that_fails_is_no_sample() {
        assert!(exec(&mut Command::new("false")).is_err());
        let sample = exec(Command::new("sleep").arg("0.05")).unwrap();
        assert!(sample.ms >= 50.0 && sample.cpu_ms.unwrap() < sample.ms, "{sample:?}");
    }

    #[test]
    fn this_process_has_memory_and_was_awake() {
        let this = Process::of(std::process::id());
        assert!(this.mib() > 0.5 && this.wake_ups() > 0 && this.cpu_ms() > 0.0, "{this:?}");
    }
}
