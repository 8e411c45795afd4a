//! The page: Prometheus' text format, version 0.0.4. [`FAMILIES`] lists what is on it.
//!
//! ```text
//! # HELP ccmux_messages_total Messages by what became of them.
//! # TYPE ccmux_messages_total counter
//! ccmux_messages_total{state="delivered",channel="phone"} 12
//! ```

use std::fmt::Write;
use std::sync::Arc;

use ccmux_wire::status::{Direction, StateWord, Status};

use super::histogram::Histogram;
use super::{ByName, Counts, Metrics};

/// What `Content-Type` says.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Name, type and meaning of everything on the page, in its order.
pub const FAMILIES: [(&str, &str, &str); 19] = [
    ("ccmux_build_info", "gauge", "Always 1; the label is the daemon's version."),
    ("ccmux_state", "gauge", "1 for the state that ccmux status shows, 0 for the others."),
    ("ccmux_agent_up", "gauge", "1 while the agent runs."),
    ("ccmux_agent_restarts_total", "counter", "How often the agent was started again."),
    ("ccmux_degraded", "gauge", "1 for each part that does not work: agent, mcp, disk."),
    ("ccmux_queue_messages", "gauge", "Messages that wait or are on their way."),
    ("ccmux_queue_bytes", "gauge", "Their bytes."),
    ("ccmux_channels", "gauge", "FIFOs by direction, and whether they are open."),
    ("ccmux_subscribers", "gauge", "Who reads turns and alerts now."),
    ("ccmux_last_seq", "gauge", "Number of the last line on output.sock."),
    ("ccmux_turns_published_total", "counter", "Turns that were published."),
    (
        "ccmux_turns_partial_total",
        "counter",
        "Those of them that could not be completed from the transcript.",
    ),
    (
        "ccmux_messages_total",
        "counter",
        "Messages by the state that they came to, or rejected, and by channel.",
    ),
    (
        "ccmux_message_leg_seconds",
        "histogram",
        "How long messages took: queued until typed, typed until Enter, proved until taken, answered until the turn's end.",
    ),
    ("ccmux_turn_publish_seconds", "histogram", "From a turn's Stop hook until it is published."),
    ("ccmux_hooks_total", "counter", "Hooks that spoke, by event."),
    ("ccmux_alerts_total", "counter", "Alerts by kind."),
    ("ccmux_receipts_missed_total", "counter", "Changes of messages that came too fast to be counted above."),
    ("ccmux_start_time_seconds", "gauge", "When the daemon was started, in seconds since 1970."),
];

const STATES: [StateWord; 11] = [
    StateWord::Starting,
    StateWord::Ready,
    StateWord::Busy,
    StateWord::Dialog,
    StateWord::Draft,
    StateWord::Human,
    StateWord::CopyMode,
    StateWord::Unknown,
    StateWord::Down,
    StateWord::Degraded,
    StateWord::Held,
];

/// Makes the page whenever somebody asks.
#[derive(Clone)]
pub struct Page(Arc<dyn Fn() -> String + Send + Sync>);

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Page")
    }
}

/// Nothing is on it.
impl Default for Page {
    fn default() -> Self {
        Self(Arc::new(String::new))
    }
}

impl Page {
    /// A page of what was counted, and of how things stand when it is asked for.
    pub fn new(
        metrics: Metrics,
        started_s: i64,
        status: impl Fn() -> Status + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move || {
            let (status, counts) = (status(), metrics.counts().clone());
            text(&counts, &status, started_s)
        }))
    }

    /// Its text now.
    pub fn text(&self) -> String {
        (self.0)()
    }
}

/// A page that grows family by family.
struct Sheet {
    text: String,
    families: std::slice::Iter<'static, (&'static str, &'static str, &'static str)>,
    name: &'static str,
}

impl Sheet {
    /// Begins the next family of the list.
    fn family(&mut self) -> &mut Self {
        if let Some((name, kind, help)) = self.families.next() {
            self.name = name;
            let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        }
        self
    }

    fn one(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.line("", labels, value);
    }

    fn line(&mut self, ending: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{}{ending}{labels} {value}", self.name);
    }

    fn names(&mut self, fixed: &[(&str, &str)], label: &str, counts: &ByName) {
        for (name, count) in &counts.0 {
            self.one(&[fixed, &[(label, name)]].concat(), count);
        }
    }

    fn histogram(&mut self, labels: &[(&str, &str)], times: &Histogram) {
        for (bound, count) in times.cumulated() {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            self.line("_bucket", &[labels, &[("le", &bound)]].concat(), count);
        }
        self.line("_sum", labels, times.sum_s());
        self.line("_count", labels, times.count());
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn text(counts: &Counts, status: &Status, started_s: i64) -> String {
    let mut sheet = Sheet { text: String::new(), families: FAMILIES.iter(), name: "" };
    of_now(&mut sheet, status);
    of_the_past(&mut sheet, counts);
    sheet.family().one(&[], started_s);
    sheet.text
}

fn of_now(sheet: &mut Sheet, status: &Status) {
    sheet.family().one(&[("version", &status.daemon_version)], 1);
    sheet.family();
    for state in STATES {
        sheet.one(&[("state", state.word())], u8::from(state == status.state));
    }
    sheet.family().one(&[], u8::from(status.agent.pid.is_some()));
    sheet.family().one(&[], status.agent.restarts);
    sheet.family();
    for part in ["agent", "mcp", "disk"] {
        sheet.one(&[("part", part)], u8::from(status.degraded.iter().any(|degraded| degraded == part)));
    }
    sheet.family().one(&[], status.queue.messages);
    sheet.family().one(&[], status.queue.bytes);
    sheet.family();
    for (direction, word) in [(Direction::In, "in"), (Direction::Out, "out")] {
        let of = status.channels.iter().filter(|channel| channel.direction == direction);
        let (open, other): (Vec<_>, Vec<_>) = of.partition(|channel| channel.state == "open");
        sheet.one(&[("direction", word), ("open", "yes")], open.len());
        sheet.one(&[("direction", word), ("open", "no")], other.len());
    }
    sheet.family().one(&[], status.subscribers);
    sheet.family().one(&[], status.last_seq.map_or(0, |seq| seq.0));
    sheet.family().one(&[], status.turns.published);
    sheet.family().one(&[], status.turns.partial);
}

fn of_the_past(sheet: &mut Sheet, counts: &Counts) {
    sheet.family();
    for (state, channels) in &counts.messages {
        sheet.names(&[("state", state)], "channel", channels);
    }
    sheet.family();
    for (leg, times) in &counts.legs {
        sheet.histogram(&[("leg", leg)], times);
    }
    sheet.family().histogram(&[], &counts.stop_to_published);
    sheet.family().names(&[], "event", &counts.hooks);
    sheet.family();
    for (kind, count) in &counts.alerts {
        sheet.one(&[("kind", kind)], count);
    }
    sheet.family().one(&[], counts.missed);
}
