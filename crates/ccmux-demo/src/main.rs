//! `ccmux-demo-agent`: a small terminal agent that behaves like Claude Code where ccmux can see it, without a model.
//!
//! The demo of ccmux runs it, and its tests take it for Claude. Prompts are scripted by words (`say: hello`), faults
//! are switched on by environment variables (see [`faults`]). Imitated: the screen, keys and pastes, hooks, the state
//! file, the transcript, exit codes. Not imitated: MCP, models, most slash commands.
//!
//! ```text
//! terminal -> keys -> agent -> screen -> painter -> terminal
//!                      |  ^
//!        transcript, state file, hooks and tools (processes)
//! ```

mod agent;
mod cli;
mod clock;
mod conversation;
mod dialog;
mod event;
mod faults;
mod hooks;
mod ids;
mod journal;
mod keys;
mod mcp;
mod painter;
mod paths;
mod payload;
mod process;
mod prompt_box;
mod screen;
mod script;
mod session;
mod settings;
mod state_file;
mod style;
mod terminal;
mod transcript;
mod words;
mod wrap;

use std::io::Read;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use agent::Agent;
use cli::{Command, Options};
use event::Event;
use faults::Faults;
use journal::Journal;
use painter::Painter;
use paths::Paths;
use session::Opened;
use settings::Hooks;
use terminal::RawMode;

/// Without anything due the loop looks around that often.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Redraws are at least that far apart, and further where they are slow.
const REDRAW_EVERY: Duration = Duration::from_millis(12);

fn main() -> ExitCode {
    clock::read_local_offset();
    let code = match cli::parse(std::env::args().skip(1)) {
        Ok(Command::Version) => say(&cli::version()),
        Ok(Command::Help) => say(cli::help().trim_end()),
        Ok(Command::Run(options)) => run(&options),
        Err(problem) => Err(problem),
    };
    match code {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            eprintln!("ccmux-demo-agent: {problem}");
            ExitCode::from(1)
        }
    }
}

/// Prints a text; a reader that has gone is no error.
fn say(text: &str) -> Result<u8, String> {
    terminal::write(&format!("{text}\n"));
    Ok(0)
}

fn run(options: &Options) -> Result<u8, String> {
    let faults = Faults::from_lookup(faults::switches()?)?;
    if let Some(code) = faults.exit {
        return Ok(code);
    }
    let paths = Paths::from_environment().map_err(|e| format!("the working directory can't be read: {e}"))?;
    let hooks = hooks_of(options, &paths)?;
    let opened = match Opened::open(&options.conversation, &paths) {
        Ok(opened) => opened,
        Err(problem) => {
            // Claude's own line, so without our name before it.
            eprintln!("{problem}");
            return Ok(1);
        }
    };
    let hooks_tell = ["SessionStart", "UserPromptSubmit"].iter().all(|event| faults.fires(event));
    let journal = Journal::begin(faults.journal.as_deref(), &opened.session, hooks_tell)?;
    let (events, received) = mpsc::channel();
    watch_signals(&events)?;
    let raw = RawMode::enter()?;
    read_terminal(&events);
    let mut painter = Painter::new(faults.classic);
    let mut agent = Agent::new(options, faults, paths, hooks, opened, events, terminal::size());
    agent.keep(journal);
    terminal::write(painter.enter());
    let code = live(&mut agent, &mut painter, &received);
    agent.finish();
    terminal::write(&painter.leave());
    drop(raw);
    Ok(code)
}

fn hooks_of(options: &Options, paths: &Paths) -> Result<Hooks, String> {
    let mut hooks = Hooks::default();
    hooks.add_user_file(&paths.user_settings())?;
    for argument in &options.settings {
        hooks.add_argument(argument)?;
    }
    Ok(hooks)
}

/// The event loop: wait, take in all that has come, draw. Returns the exit code.
fn live(agent: &mut Agent, painter: &mut Painter, received: &Receiver<Event>) -> u8 {
    let mut screen =
        Screen { painter, title: String::new(), drawn: None, next_draw: Instant::now(), due: false };
    loop {
        let now = Instant::now();
        agent.tick(now);
        screen.draw(agent, now);
        if let Some(exit) = agent.exit() {
            return exit.code;
        }
        let mut until = agent.next_deadline(now).unwrap_or(now + LONGEST_WAIT);
        if screen.due {
            until = until.min(screen.next_draw);
        }
        let mut event = match received.recv_timeout(until.saturating_duration_since(now)) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return 129,
        };
        // All that has come is taken in before the next picture: a long paste costs one redraw, not hundreds.
        while let Some(next) = event {
            if matches!(next, Event::Resized) {
                agent.resize(terminal::size());
                screen.forget(agent);
            }
            agent.handle(next, Instant::now());
            event = received.try_recv().ok();
        }
    }
}

/// What was drawn last, and when the next picture may come.
struct Screen<'a> {
    painter: &'a mut Painter,
    title: String,
    drawn: Option<Instant>,
    next_draw: Instant,
    /// Something may have changed since the last picture.
    due: bool,
}

impl Screen<'_> {
    fn draw(&mut self, agent: &mut Agent, now: Instant) {
        self.due = now < self.next_draw;
        if self.due {
            return;
        }
        let Some(view) = agent.view(now) else { return };
        let mut bytes = self.painter.paint(&view.printed, view.frame);
        if let Some(title) = agent.title(now).filter(|title| *title != self.title) {
            bytes.push_str(&format!("\x1b]0;{title}\x07"));
            self.title = title;
        }
        if !bytes.is_empty() {
            terminal::write(&bytes);
        }
        self.drawn = Some(now);
        let after = Instant::now();
        self.next_draw = after + REDRAW_EVERY.max(2 * after.saturating_duration_since(now));
    }

    fn forget(&mut self, agent: &mut Agent) {
        let bytes = self.painter.forget();
        if self.drawn.is_some() {
            terminal::write(bytes);
            agent.reprint();
        }
    }
}

fn read_terminal(events: &Sender<Event>) {
    let events = events.clone();
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut buffer = [0; 64 << 10];
        loop {
            let event = match stdin.read(&mut buffer) {
                Ok(len @ 1..) => Event::Input(buffer[..len].to_vec()),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Ok(_) | Err(_) => Event::InputClosed,
            };
            let last = matches!(event, Event::InputClosed);
            if events.send(event).is_err() || last {
                return;
            }
        }
    });
}

fn watch_signals(events: &Sender<Event>) -> Result<(), String> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM, SIGWINCH])
        .map_err(|e| format!("signals can't be watched: {e}"))?;
    let events = events.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let event = if signal == SIGWINCH { Event::Resized } else { Event::Signal(signal) };
            if events.send(event).is_err() {
                return;
            }
        }
    });
    Ok(())
}
