//! The storm itself: strokes while writers write, then the calm in which everything must arrive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::clock::unix_ms;
use super::go_on;
use super::journal::{Journals, Transcripts};
use super::ledger::Evidence;
use super::quiet::{Quiet, Stock};
use super::readers::{Heard, Readers};
use super::records;
use super::stage::{Size, Stage};
use super::strokes::{Blow, Faults, Moment, Stroke, Strokes};
use super::writers::{Drained, Plan, Writers};

/// A moment that does not come within that time is not waited for any longer. A batch that the last daemon left in flight
/// is given up after five seconds at the earliest: a storm that never waited for that would see little else.
const MOMENT_LIMIT: Duration = Duration::from_secs(7);
/// The first delivery must come within that time.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How often progress is shown.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Blows that the last daemon lives through.
const LAST_BLOWS: u32 = 8;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long, how hard.
#[derive(Debug, Clone, Copy)]
pub struct Weather {
    pub seed: u64,
    /// Daemon kills until the calm.
    pub kills: u32,
    /// The storm ends then at the latest.
    pub limit: Option<Duration>,
    /// The queue must be empty that long after the last blow.
    pub calm: Duration,
    pub hooks_may_fail: bool,
    /// Look for one double: every blow falls right after Enter, and one message that was taken twice is enough.
    pub until_double: bool,
    pub writers: Plan,
}

/// What was done, and what is known of ccmux beside its messages.
#[derive(Debug, Default)]
pub struct Record {
    pub blows: BTreeMap<&'static str, u32>,
    pub at_start: Size,
    pub at_end: Size,
    pub calm_took: Duration,
    pub starts: u32,
    /// Times that nothing was settled for ten seconds.
    pub standstills: u32,
    pub in_pipe: Drained,
    pub heard: Heard,
    pub pastes: u64,
    pub enters: u64,
    pub prompts: u64,
    pub batches: Vec<(String, i64)>,
}

/// Rages over a stage.
pub struct Storm<'a> {
    stage: &'a mut Stage,
    weather: Weather,
    writers: Writers,
    readers: Readers,
    journals: Journals,
    record: Record,
    drained: Mutex<Drained>,
    kills: Vec<i64>,
    findings: Vec<String>,
    /// The disk was full when this daemon started, or since.
    met_full_disk: bool,
    /// When the disk has room again.
    disk_free_at: Option<Instant>,
    /// When readers read again.
    readers_wake_at: Option<Instant>,
    told: Instant,
    /// Messages whose fate was known then.
    settled: u64,
}

impl<'a> Storm<'a> {
    /// Starts the daemon, the writers and the readers, and waits for the first delivery.
    pub fn begin(stage: &'a mut Stage, weather: Weather) -> anyhow::Result<Self> {
        stage.set_faults(&Faults::default())?;
        stage.start_daemon()?;
        anyhow::ensure!(stage.wait_for_event("daemon.ready", START_LIMIT), "ccmuxd did not get ready");
        let readers = Readers::start(&stage.path("run"));
        let writers = Writers::start(&stage.path("run"), weather.writers)?;
        anyhow::ensure!(
            stage.wait_for_event("turn.published", START_LIMIT),
            "nothing was delivered\n{}",
            stage.picture()
        );
        let record = Record { at_start: stage.settled_size(), starts: 1, ..Record::default() };
        Ok(Self {
            stage,
            weather,
            writers,
            readers,
            journals: Journals::default(),
            record,
            drained: Mutex::default(),
            kills: Vec::new(),
            findings: Vec::new(),
            met_full_disk: false,
            disk_free_at: None,
            readers_wake_at: None,
            told: Instant::now(),
            settled: 0,
        })
    }

    /// Everything, from the first stroke to the evidence.
    pub fn rage(mut self) -> anyhow::Result<(Evidence, Record)> {
        let until = self.weather.limit.map(|limit| Instant::now() + limit);
        let aim = self.weather.until_double.then_some(Moment::Entered);
        let mut strokes = Strokes::new(self.weather.seed, self.weather.hooks_may_fail).aimed_at(aim);
        while self.kills.len() < self.weather.kills as usize
            && until.is_none_or(|until| Instant::now() < until)
        {
            let Some(stroke) = strokes.next() else { break };
            self.strike(stroke)?;
            if self.weather.until_double && self.has_double()? {
                break;
            }
        }
        let mut last = strokes.sparing_the_daemon();
        for stroke in last.by_ref().take(LAST_BLOWS as usize) {
            self.strike(stroke)?;
        }
        self.calm()?;
        self.evidence()
    }

    fn has_double(&self) -> anyhow::Result<bool> {
        let taken = Transcripts::read(&self.stage.path("home/.claude/projects"))?.taken;
        Ok(taken.iter().collect::<BTreeSet<_>>().len() < taken.len())
    }

    fn strike(&mut self, stroke: Stroke) -> anyhow::Result<()> {
        go_on()?;
        if let Some(event) = stroke.moment.event() {
            self.stage.wait_for_event(event, MOMENT_LIMIT);
        }
        thread::sleep(stroke.pause);
        self.relieve()?;
        self.look_after_daemon()?;
        self.deal(stroke.blow)?;
        self.tell()?;
        Ok(())
    }

    fn deal(&mut self, blow: Blow) -> anyhow::Result<()> {
        let (name, hit) = match blow {
            Blow::KillDaemon { down } => ("daemon", self.kill_daemon(down)?),
            Blow::KillAgent(faults) => {
                self.stage.set_faults(&faults)?;
                self.absorb()?;
                ("agent", self.stage.kill_agent())
            }
            Blow::KillTmux(faults) => {
                self.stage.set_faults(&faults)?;
                // A tmux server that is started now would inherit the daemon's limit.
                ("tmux server", !self.stage.disk.is_full() && self.stage.kill_tmux())
            }
            Blow::StallReaders(time) => {
                self.readers.stall(true);
                self.readers_wake_at = Some(Instant::now() + time);
                ("stalled readers", true)
            }
            Blow::FillDisk(time) => ("full disk", self.fill_disk(time)?),
        };
        *self.record.blows.entry(name).or_default() += u32::from(hit);
        Ok(())
    }

    fn kill_daemon(&mut self, down: Duration) -> anyhow::Result<bool> {
        let grip = (!self.weather.writers.holder).then(|| self.writers.pipes.grip());
        self.stage.kill_daemon()?;
        self.kills.push(unix_ms());
        if let Some(grip) = grip {
            grip.drain(&self.drained);
        }
        thread::sleep(down);
        self.start_daemon()?;
        Ok(true)
    }

    fn start_daemon(&mut self) -> anyhow::Result<()> {
        self.record.starts += 1;
        self.met_full_disk = self.stage.disk.is_full();
        self.stage.start_daemon()
    }

    fn fill_disk(&mut self, time: Duration) -> anyhow::Result<bool> {
        if self.disk_free_at.is_none() {
            self.stage.disk.fill(self.stage.daemon_pid())?;
            self.met_full_disk = true;
            self.disk_free_at = Some(Instant::now() + time);
        }
        Ok(true)
    }

    /// What is over is over.
    fn relieve(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        if self.disk_free_at.take_if(|at| *at <= now).is_some() {
            self.stage.disk.free(self.stage.daemon_pid())?;
        }
        if self.readers_wake_at.take_if(|at| *at <= now).is_some() {
            self.readers.stall(false);
        }
        Ok(())
    }

    /// A daemon that ended by itself is started again, as systemd would: never after the codes that it is told not to.
    fn look_after_daemon(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.stage.ended_by_itself()? else { return Ok(()) };
        let full = self.met_full_disk;
        *self.record.blows.entry("ended by itself").or_default() += 1;
        if !full || matches!(status.code(), Some(2 | 69 | 73 | 78)) {
            self.findings.push(format!("ccmuxd ended by itself: {status} (the disk was full: {full})"));
        }
        thread::sleep(Duration::from_millis(100));
        self.start_daemon()
    }

    fn absorb(&mut self) -> anyhow::Result<()> {
        self.journals.absorb(&self.stage.path("journal"), self.stage.agent())
    }

    fn tell(&mut self) -> anyhow::Result<()> {
        if self.told.elapsed() < TELL_EVERY {
            return Ok(());
        }
        self.told = Instant::now();
        let queue = records::queue(&self.stage.path("state"))?;
        let (kills, written) = (self.kills.len(), self.writers.count());
        println!(
            "  {kills} of {} kills, {written} messages written, {} waiting",
            self.weather.kills, queue.waiting
        );
        // Nothing moved: what it looked like is kept beside the log, for whoever wonders.
        if queue.waiting > 0 && queue.settled() == self.settled {
            self.record.standstills += 1;
            self.stage.take_picture(kills)?;
        }
        self.settled = queue.settled();
        Ok(())
    }

    /// Nothing is done any more; everything must arrive.
    fn calm(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        self.writers.stop();
        self.stage.set_faults(&Faults::default())?;
        if self.disk_free_at.take().is_some() {
            self.stage.disk.free(self.stage.daemon_pid())?;
        }
        self.readers.stall(false);
        let mut quiet = Quiet::since(began);
        while began.elapsed() < self.weather.calm && !quiet.is_all_over(Instant::now()) {
            go_on()?;
            self.look_after_daemon()?;
            let (queue, written) = (records::queue(&self.stage.path("state"))?, self.writers.count());
            quiet.note(Stock { queue, written, heard: self.readers.heard().seqs.len() }, Instant::now());
            thread::sleep(LOOK_EVERY);
        }
        self.record.calm_took = began.elapsed();
        self.record.at_end = self.stage.settled_size();
        if !quiet.is_all_over(Instant::now()) {
            let (limit, picture) = (self.weather.calm.as_secs(), self.stage.picture());
            self.findings
                .push(format!("not all is quiet {limit} s after the last blow: {quiet:?}\n{picture}"));
        }
        Ok(())
    }

    fn evidence(mut self) -> anyhow::Result<(Evidence, Record)> {
        let state = self.stage.path("state");
        let written = self.writers.join();
        self.journals.absorb(&self.stage.path("journal"), None)?;
        let transcripts = Transcripts::read(&self.stage.path("home/.claude/projects"))?;
        let heard = self.readers.stop();
        let drained = self.drained.into_inner().context("a thread panicked")?;
        if written.is_empty() {
            bail!("nothing was written");
        }
        self.findings.extend(self.journals.findings);
        self.findings.extend(transcripts.findings);
        self.findings.extend(heard.findings.iter().cloned());
        self.record.batches = records::batches(&state)?;
        (self.record.pastes, self.record.enters) = (self.journals.pastes, self.journals.enters);
        self.record.prompts = transcripts.prompts;
        let evidence = Evidence {
            holder: self.weather.writers.holder,
            written,
            in_pipe: drained.tokens.clone(),
            kills: self.kills,
            recorded: records::messages(&state)?,
            lives: self.journals.lives,
            killed_agents: self.stage.killed_agents.clone(),
            submitted: self.journals.submitted,
            taken: transcripts.taken,
            finished: transcripts.finished,
            told: records::lines(&state)?,
            heard: heard.seqs.clone(),
            findings: self.findings,
        };
        (self.record.in_pipe, self.record.heard) = (drained, heard);
        Ok((evidence, self.record))
    }
}
