//! The agent's process: found, started, ended.

use ccmux_wire::id::SessionId;

use super::Supervisor;
use crate::effect::AlertKind;
use crate::event::ExitStatus;
use crate::evidence::Evidence;
use crate::flight::Flight;
use crate::lifecycle::Exit;
use crate::now::Now;

impl Supervisor {
    pub(super) fn agent_found(&mut self, pid: i32, session: Option<SessionId>, now: Now) {
        // The state file may have named a later one already.
        self.session = self.session.take().or(session);
        self.agent_started(pid, now);
    }

    pub(super) fn agent_missing(&mut self, session: Option<SessionId>, now: Now) {
        self.session = session;
        self.lifecycle.missing(now.mono);
        self.lose_agent(now);
    }

    pub(super) fn agent_started(&mut self, pid: i32, now: Now) {
        self.lifecycle.running(pid, now.mono);
        self.evidence = Evidence::default();
        self.turns.not_idle();
        self.flight.iter_mut().for_each(Flight::agent_started);
        self.box_seen = false;
        (self.hooks_heard, self.unhooked_since) = (false, None);
        (self.unknown_since, self.told_unknown) = (None, false);
        self.outdate(now);
        if self.lifecycle.restarts() > 0 {
            self.alert(AlertKind::AgentRestarted, format!("the agent runs again (pid {pid})"));
        }
    }

    pub(super) fn agent_start_failed(&mut self, reason: &str, now: Now) {
        let exit = self.lifecycle.start_failed(&self.settings, now.mono);
        self.tell_exit(format!("the agent could not be started: {reason}"), exit);
    }

    pub(super) fn agent_exited(&mut self, pid: i32, status: ExitStatus, now: Now) {
        let Some(exit) = self.lifecycle.exited(pid, status, &self.settings, now.mono) else {
            return;
        };
        let how = match status {
            ExitStatus::Code(code) => format!("with code {code}"),
            ExitStatus::Signal(signal) => format!("by signal {signal}"),
            ExitStatus::Unknown => "in an unknown way".to_owned(),
        };
        self.tell_exit(format!("the agent (pid {pid}) ended {how}"), exit);
        self.lose_agent(now);
    }

    pub(super) fn tell_exit(&mut self, what: String, exit: Exit) {
        let then = match exit.pause_ms {
            Some(ms) => format!("{what}; it is started again in {} s", ms as f64 / 1000.0),
            None => format!("{what}; it is not started again (agent.restart_on_exit = false)"),
        };
        self.alert(AlertKind::AgentExited, then);
        if exit.degraded_now {
            self.alert(AlertKind::Degraded, "the agent ended ten times within 60 s of its start".to_owned());
        }
    }

    pub(super) fn lose_agent(&mut self, now: Now) {
        self.evidence = Evidence::default();
        self.box_seen = false;
        for flight in self.flight.iter_mut().chain(&mut self.found) {
            flight.agent_exited(now.mono);
        }
        if let Some(look) = &mut self.pending_look {
            look.outdated = true;
        }
    }
}
