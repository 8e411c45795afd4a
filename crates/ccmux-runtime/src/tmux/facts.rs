//! What tmux is asked to print about panes and clients, and how it is read.
//!
//! Every line of ours starts with the nonce and a letter: `P` a pane, `C` a client, `A` activity, `S` "the screen
//! follows". Fields are
//! separated by a blank; the one field that may hold anything, the title, is the last.

use std::collections::BTreeSet;
use std::str::FromStr;

use ccmux_policy::UnixMs;
use ccmux_policy::event::ExitStatus;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::client::{Nonce, args};
use crate::terminal::{Activity, Pane};

/// The pane's option that says whose it is.
pub(super) const MARK: &str = "@ccmux_pane";

/// `list-panes` for the pane that carries our mark: one line for each session that shows it.
pub(super) fn list_pane(nonce: &Nonce, session: &str) -> Vec<String> {
    let ours = format!("#{{==:#{{{MARK}}},{session}}}");
    let facts = format!(
        "{}P #{{pid}} #{{pane_id}} #{{pane_pid}} #{{pane_dead}} c#{{pane_dead_status}} s#{{pane_dead_signal}} #{{pane_in_mode}} \
         #{{pane_width}} #{{pane_height}} #{{cursor_x}} #{{cursor_y}} #{{session_id}} #{{pane_title}}",
        nonce.as_str()
    );
    args(&["list-panes", "-a", "-f", &ours, "-F", &facts])
}

/// `list-clients`: all of them; those that count are picked by [`Facts::active_at`].
pub(super) fn list_clients(nonce: &Nonce) -> Vec<String> {
    let facts = format!(
        "{}C #{{client_activity}} #{{client_control_mode}} #{{client_readonly}} #{{session_id}}",
        nonce.as_str()
    );
    args(&["list-clients", "-F", &facts])
}

/// A format: when keys last came from each session that shows the pane. tmux notes it before it hands on the key, so what
/// is typed behind a look shows here although the agent has not drawn it.
///
/// `pane` is a condition that holds for it alone, without its id: where tmux expands times, too, `%3` is one.
pub(super) fn activity(pane: &str) -> String {
    format!("#{{S:#{{W:#{{P:#{{?{pane},#{{session_activity}} ,}}}}}}}}")
}

/// `capture-pane` behind lines with the activity, and that the screen follows.
pub(super) fn screen(nonce: &Nonce, session: &str, pane: &str) -> Vec<String> {
    let ours = format!("#{{==:#{{{MARK}}},{session}}}");
    let (activity, head) =
        (format!("{}A {}", nonce.as_str(), activity(&ours)), format!("{}S", nonce.as_str()));
    let list = ["display-message", "-p", &activity, ";", "display-message", "-p", &head, ";"];
    let capture = ["capture-pane", "-p", "-e", "-t", pane];
    [args(&list), args(&capture)].concat()
}

/// What was printed.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Our pane.
    pub(super) pane: Option<Pane>,
    /// The tmux server.
    pub(super) server: Option<Pid>,
    /// The visible rows.
    pub(super) screen: Option<String>,
    /// Of those who see our pane.
    pub(super) activity: Option<Activity>,
    /// The sessions that show our pane: more than one if the user groups sessions or links the window.
    sessions: BTreeSet<String>,
    clients: Vec<ClientFacts>,
}

#[derive(Debug)]
struct ClientFacts {
    active_at_s: i64,
    session: String,
}

impl Facts {
    /// Reads the output of [`list_pane`], [`list_clients`] and [`screen`], in this order.
    pub(super) fn read(nonce: &Nonce, output: &str) -> Self {
        let mut facts = Self::default();
        let mut rest = output;
        while let Some((line, behind)) = rest.split_once('\n') {
            if nonce.strip(line, "S").is_some() {
                facts.screen = Some(behind.strip_suffix('\n').unwrap_or(behind).to_owned());
                break;
            }
            facts.read_line(nonce, line);
            rest = behind;
        }
        facts
    }

    fn read_line(&mut self, nonce: &Nonce, line: &str) {
        if let Some((server, pane, session)) = nonce.strip(line, "P ").and_then(read_pane) {
            self.server = Some(server);
            self.sessions.insert(session);
            // Two panes with our mark can't be made by us; the first is as good as any and stays the same.
            self.pane.get_or_insert(pane);
        } else if let Some(client) = nonce.strip(line, "C ").and_then(read_client) {
            self.clients.push(client);
        } else if let Some(activity) = nonce.strip(line, "A ").and_then(Activity::new) {
            self.activity = Some(activity);
        }
    }

    /// When somebody who can type into our pane's session was last active.
    pub(super) fn active_at(&self) -> Option<UnixMs> {
        let here = self.clients.iter().filter(|client| self.sessions.contains(&client.session));
        here.map(|client| client.active_at_s).max().map(|seconds| UnixMs(seconds * 1000))
    }
}

fn read_pane(fields: &str) -> Option<(Pid, Pane, String)> {
    let mut fields = fields.splitn(13, ' ');
    let mut next = || fields.next();
    let server = next()?.parse().ok().filter(|pid| *pid > 1).map(Pid::from_raw)?;
    let (id, pid, dead, code, signal) = (next()?, next()?, next()?, next()?, next()?);
    let (in_mode, width, height) = (next()?, next()?, next()?);
    let (cursor_x, cursor_y, session, title) = (next()?, next()?, next()?, next()?);
    let pane = Pane {
        id: id.to_owned(),
        pid: pid.parse().ok()?,
        dead: (dead == "1").then(|| read_exit(code, signal)),
        in_mode: in_mode != "0",
        width: width.parse().ok()?,
        height: height.parse().ok()?,
        cursor: (cursor_x.parse().ok()?, cursor_y.parse().ok()?),
        title: title.to_owned(),
    };
    Some((server, pane, session.to_owned()))
}

/// `c0 s` → code 0; `c s9` or `c sKILL` (systems differ) → signal 9; neither, right after the end: not known yet.
fn read_exit(code: &str, signal: &str) -> ExitStatus {
    let (code, signal) = (code.trim_start_matches('c'), signal.trim_start_matches('s'));
    match (code.parse(), read_signal(signal)) {
        (_, Some(signal)) => ExitStatus::Signal(signal),
        (Ok(code), None) => ExitStatus::Code(code),
        (Err(_), None) => ExitStatus::Unknown,
    }
}

fn read_signal(text: &str) -> Option<i32> {
    text.parse().ok().or_else(|| Signal::from_str(&format!("SIG{text}")).ok().map(|signal| signal as i32))
}

/// `None` for clients that can't type.
fn read_client(fields: &str) -> Option<ClientFacts> {
    let mut fields = fields.split(' ');
    let (active, control, read_only) = (fields.next()?, fields.next()?, fields.next()?);
    if control == "1" || read_only == "1" {
        return None;
    }
    Some(ClientFacts { active_at_s: active.parse().ok()?, session: fields.next()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(nonce: &Nonce, lines: &[&str]) -> Facts {
        Facts::read(nonce, &lines.join("\n").replace('@', nonce.as_str()))
    }

    #[test]
    fn a_title_or_a_screen_can_not_look_like_a_fact() {
        let nonce = Nonce::random();
        let facts = read(
            &nonce,
            &[
                "@P 9 %3 77 0 c s 0 160 48 2 44 $1 ✳ a  title",
                "C 9 0 0 $1",
                "S",
                "@C 5 0 0 $1",
                "@S",
                "C 7 0 0 $1",
                "",
                "x",
                "",
            ],
        );
        let pane = facts.pane.as_ref().expect("a pane");
        assert_eq!((pane.pid, pane.title.as_str(), &pane.dead), (77, "✳ a  title", &None));
        assert_eq!(facts.screen.as_deref(), Some("C 7 0 0 $1\n\nx"));
        assert_eq!(facts.active_at(), Some(UnixMs(5000)));
    }

    #[test]
    fn only_clients_that_can_type_and_see_the_pane_count() {
        let nonce = Nonce::random();
        let pane = "@P 9 %3 77 0 c s 0 160 48 2 44 $1 t";
        let facts = read(
            &nonce,
            &[pane, "@C 90 1 0 $1", "@C 80 0 1 $1", "@C 70 0 0 $2", "@C 60 0 0 $1", "@C 50 0 0 $1", ""],
        );
        assert_eq!(facts.active_at(), Some(UnixMs(60_000)));
        assert_eq!(read(&nonce, &[pane, "@C 90 1 0 $1", ""]).active_at(), None);
    }

    #[test]
    fn an_end_is_a_code_a_signal_or_not_known_yet() {
        assert_eq!(read_exit("c143", "s"), ExitStatus::Code(143));
        assert_eq!(read_exit("c", "s9"), ExitStatus::Signal(9));
        assert_eq!(read_exit("c", "sKILL"), ExitStatus::Signal(9));
        assert_eq!(read_exit("c", "s"), ExitStatus::Unknown);
    }
}
