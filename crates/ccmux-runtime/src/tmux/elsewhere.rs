//! A pane of any tmux server of the user: when somebody was active at it, and how it is shown to them.
//!
//! ```text
//! list-panes, list-clients ─► the sessions that show the pane, the clients there ─► select-window, select-pane
//!                                                     none there: switch-client of the one that was active last
//! ```
//!
//! It starts no server, types nothing and changes no option. It does not know whose pane it is.

use std::path::{Path, PathBuf};

use ccmux_policy::UnixMs;

use super::Tmux;
use super::client::{Client, Nonce, args};
use crate::terminal::TerminalError;

/// A pane, and how its server is reached.
#[derive(Debug, Clone)]
pub struct Elsewhere {
    client: Client,
    nonce: Nonce,
    pane: String,
}

/// What was shown to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The process of the client that shows the pane now; `None`: nobody is attached.
    pub client: Option<i32>,
}

/// Where the pane is, and who could look at it.
#[derive(Debug, Default)]
struct View {
    /// Sessions that hold the pane, with the window there.
    homes: Vec<(String, String)>,
    watchers: Vec<Watcher>,
}

/// A client that can type.
#[derive(Debug)]
struct Watcher {
    active_at_s: i64,
    session: String,
    /// What it shows.
    pane: String,
    pid: i32,
    name: String,
}

impl Tmux {
    /// Our own pane, for whoever wants to see it.
    pub async fn own_pane(&self) -> Result<Elsewhere, TerminalError> {
        let pane = self.known_pane().await?;
        Ok(Elsewhere { client: self.client.clone(), nonce: self.nonce.clone(), pane })
    }
}

impl Elsewhere {
    /// A pane of the server that listens there.
    pub fn new(socket: &Path, pane: String) -> Self {
        Self { client: Client::at(PathBuf::from("tmux"), socket), nonce: Nonce::random(), pane }
    }

    /// When somebody who can type was last active where the pane is shown. (To the second; tmux counts mouse and focus.)
    ///
    /// # Errors
    /// Without the server, or the pane.
    pub async fn active_at(&self) -> Result<Option<UnixMs>, TerminalError> {
        let view = self.view().await?;
        let here = view.watchers.iter().filter(|watcher| watcher.pane == self.pane);
        Ok(here.map(|watcher| UnixMs(watcher.active_at_s * 1000)).max())
    }

    /// Shows the pane to whoever is attached where it is, else to whoever was active last; with nobody attached it is
    /// what the next one sees.
    ///
    /// # Errors
    /// Without the server, or the pane.
    pub async fn show(&self) -> Result<Shown, TerminalError> {
        let view = self.view().await?;
        let Some((home, window, watcher)) = view.choose() else {
            return Err(TerminalError::NoPane(self.pane.clone()));
        };
        let mut list = Vec::new();
        if let Some(watcher) = watcher.filter(|watcher| watcher.session != *home) {
            list.extend(args(&["switch-client", "-c", &watcher.name, "-t", home, ";"]));
        }
        let target = format!("{home}:{window}");
        list.extend(args(&["select-window", "-t", &target, ";", "select-pane", "-t", &self.pane]));
        self.client.run("show the pane", &list).await?.done("show the pane")?;
        Ok(Shown { client: watcher.map(|watcher| watcher.pid) })
    }

    async fn view(&self) -> Result<View, TerminalError> {
        let word = self.nonce.as_str();
        let panes = format!("{word}P #{{session_id}} #{{window_id}}");
        let clients = format!(
            "{word}C #{{client_activity}} #{{client_control_mode}} #{{client_readonly}} #{{session_id}} #{{pane_id}} \
             #{{client_pid}} #{{client_name}}"
        );
        let ours = format!("#{{==:#{{pane_id}},{}}}", self.pane);
        let list =
            args(&["list-panes", "-a", "-f", &ours, "-F", &panes, ";", "list-clients", "-F", &clients]);
        let reply = self.client.run("list clients", &list).await?.done("list clients")?;
        let view = View::read(&self.nonce, &reply.stdout);
        if view.homes.is_empty() { Err(TerminalError::NoPane(self.pane.clone())) } else { Ok(view) }
    }
}

impl View {
    fn read(nonce: &Nonce, output: &str) -> Self {
        let mut view = Self::default();
        for line in output.lines() {
            if let Some((session, window)) = nonce.strip(line, "P ").and_then(|rest| rest.split_once(' ')) {
                view.homes.push((session.to_owned(), window.to_owned()));
            } else if let Some(fields) = nonce.strip(line, "C ") {
                view.watchers.extend(read_watcher(fields));
            }
        }
        view
    }

    /// The session and window to show, and by which client.
    fn choose(&self) -> Option<(&String, &String, Option<&Watcher>)> {
        let home_of = |watcher: &Watcher| self.homes.iter().find(|(session, _)| *session == watcher.session);
        let there = self.watchers.iter().filter(|watcher| home_of(watcher).is_some());
        let latest = there.max_by_key(|watcher| watcher.active_at_s);
        let watcher = latest.or_else(|| self.watchers.iter().max_by_key(|watcher| watcher.active_at_s));
        let (session, window) = watcher.and_then(home_of).or_else(|| self.homes.first())?;
        Some((session, window, watcher))
    }
}

/// `None` for clients that can't type.
fn read_watcher(fields: &str) -> Option<Watcher> {
    let mut fields = fields.splitn(7, ' ');
    let mut next = || fields.next();
    let (active, control, read_only) = (next()?, next()?, next()?);
    if control == "1" || read_only == "1" {
        return None;
    }
    let (session, pane, pid, name) = (next()?, next()?, next()?, next()?);
    Some(Watcher {
        active_at_s: active.parse().ok()?,
        session: session.to_owned(),
        pane: pane.to_owned(),
        pid: pid.parse().ok()?,
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(lines: &str) -> View {
        let nonce = Nonce::random();
        View::read(&nonce, &lines.replace('@', nonce.as_str()).replace('!', "@"))
    }

    fn chosen(lines: &str) -> Option<(String, String, Option<i32>)> {
        let view = view(lines);
        let (session, window, watcher) = view.choose()?;
        Some((session.clone(), window.clone(), watcher.map(|watcher| watcher.pid)))
    }

    #[test]
    fn whoever_is_at_the_session_is_shown_the_pane_before_whoever_is_elsewhere() {
        let homes = "@P $1 !2\n@P $3 !2\n";
        let here = "@C 50 0 0 $3 %9 70 /dev/pts/1\n";
        let elsewhere = "@C 90 0 0 $2 %1 71 /dev/pts/2\n@C 80 0 0 $2 %1 72 /dev/pts/3\n";
        let cannot_type = "@C 99 1 0 $1 %1 73 client-4\n@C 99 0 1 $1 %1 74 /dev/pts/5\n";
        let at = |session: &str, client| Some((session.to_owned(), "@2".to_owned(), client));
        assert_eq!(chosen(&format!("{homes}{here}{elsewhere}{cannot_type}")), at("$3", Some(70)));
        assert_eq!(chosen(&format!("{homes}{elsewhere}{cannot_type}")), at("$1", Some(71)));
        assert_eq!(chosen(&format!("{homes}{cannot_type}")), at("$1", None));
        assert_eq!(chosen(here), None, "there is no such pane");
    }
}
