//! Takes over an agent that an earlier start left in the pane, before every start.
//!
//! While the recorded process lives, and whatever the terminal says or does not say, no second one is started.

use ccmux_policy::Event;
use ccmux_wire::hook::TOKEN_VARIABLE;
use tokio::time::sleep;

use super::{EXIT_LOOK_PAUSE, Starter};
use crate::agent::process::{has_variable, start_time};
use crate::agent::record::{AgentRecord, is_launched};
use crate::agent::tmux_server::TmuxServer;
use crate::terminal::{Pane, Terminal};

/// How often a process that was left in the pane is asked for its token.
const TOKEN_LOOKS: u32 = 25;

impl<T: Terminal> Starter<T> {
    /// Looks for an agent of an earlier daemon. As long as it is not known whether there is one, each start is such a look:
    /// a terminal that was silent has not said that the agent is gone.
    pub(super) async fn first_look(&mut self) -> Event {
        let record = AgentRecord::read(&self.state_dir);
        self.know_transcript(&record).await;
        if let Some(server) = record.server {
            self.terminal.know_server(server);
        }
        match self.adopt().await {
            Ok(event) => {
                self.is_known = true;
                event
            }
            Err(reason) => {
                tracing::warn!(event = "agent.not_looked_for", %reason);
                Event::AgentStartFailed { reason }
            }
        }
    }

    /// Found, or missing; an error where that can't be told, or the agent lives where it can't be reached.
    pub(super) async fn adopt(&self) -> Result<Event, String> {
        let record = AgentRecord::read(&self.state_dir);
        let pane = self.terminal.find().await.map_err(|error| {
            let lives = record.living().map_or_else(String::new, |pid| format!("; its process {pid} lives"));
            format!("it can't be seen whether it runs already: {error}{lives}")
        })?;
        let alive = pane.filter(|pane| pane.dead.is_none() && start_time(pane.pid).is_some());
        if let Some(pane) = &alive
            && self.is_ours(pane, &record).await
        {
            return Ok(self.adopt_pane(pane, &record));
        }
        match record.living() {
            Some(pid) => Err(unreachable(pid, record.server.as_ref())),
            None => Ok(Event::AgentMissing { session: record.session }),
        }
    }

    /// Only the process that an earlier start left is our agent: anything else in the pane, a shell perhaps, must not get a
    /// byte. It is not ended either: the start fails, and says why.
    async fn is_ours(&self, pane: &Pane, record: &AgentRecord) -> bool {
        // A daemon that died right after the start left no record, but the token is in the agent's environment, and the
        // launcher has said who it is.
        let ours = record.living() == Some(pane.pid) || self.carries_our_token(pane.pid).await;
        if !ours {
            tracing::warn!(event = "agent.not_ours", pid = pane.pid, pane = %pane.id);
        }
        ours
    }

    fn adopt_pane(&self, pane: &Pane, record: &AgentRecord) -> Event {
        let session = record.session.clone();
        // It is followed already: its watchers must not be doubled.
        if self.agent.borrow().as_ref().is_some_and(|agent| agent.pid == pane.pid) {
            return Event::AgentFound { pid: pane.pid, session };
        }
        tracing::info!(event = "agent.adopted", pid = pane.pid);
        self.compare_command(record);
        match self.attend(pane, session.clone(), None) {
            true => Event::AgentFound { pid: pane.pid, session },
            false => Event::AgentMissing { session },
        }
    }

    /// It goes on as it was started: what has changed counts from its next start.
    fn compare_command(&self, record: &AgentRecord) {
        if let Some(command) = record.command.as_ref().filter(|command| **command != self.plan.command) {
            tracing::warn!(
                event = "agent.command_changed",
                runs = shell_words::join(command),
                "agent.command counts from the agent's next start"
            );
        }
    }

    /// The launcher becomes the agent, and has its environment, within moments.
    async fn carries_our_token(&self, pid: i32) -> bool {
        for _ in 0..TOKEN_LOOKS {
            if has_variable(pid, TOKEN_VARIABLE, &self.token) || is_launched(&self.state_dir, pid) {
                return true;
            }
            sleep(EXIT_LOOK_PAUSE).await;
        }
        false
    }

    async fn know_transcript(&self, record: &AgentRecord) {
        if let (Some(session), Some(transcript)) = (&record.session, &record.transcript)
            && let Err(error) = self.turns.set_cursor_to_end(session, transcript).await
        {
            tracing::warn!(event = "transcript.refused", %session, %error);
        }
    }
}

/// What a human can do about an agent that lives and that no pane shows.
fn unreachable(pid: i32, server: Option<&TmuxServer>) -> String {
    let what = format!("its process {pid} lives, and no second one is started beside it");
    match server.filter(|server| server.lives()) {
        Some(server) => format!("{what}: {}", server.remedy()),
        None => format!("{what}, but no pane of tmux shows it: end it (`kill {pid}`)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 44: the advice names what is safe.
    #[test]
    fn an_agent_that_no_pane_shows_is_told_with_its_remedy() {
        assert!(unreachable(7, None).ends_with("end it (`kill 7`)"));
    }
}
