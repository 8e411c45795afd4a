//! The agent's process: found, started, ended.

use ccmux_wire::id::SessionId;

use super::Supervisor;
use super::stash::Stash;
use crate::effect::{AlertKind, Effect};
use crate::event::ExitStatus;
use crate::evidence::Evidence;
use crate::flight::Flight;
use crate::hold::Cause;
use crate::lifecycle::Exit;
use crate::now::Now;
use crate::settings::PolicySettings;

/// So many starts that resume nothing are enough.
const VAIN_RESUMES: u32 = 3;

impl Supervisor {
    pub(super) fn agent_found(&mut self, pid: i32, session: Option<SessionId>, now: Now) {
        // The state file may have named a later one already: what ended in the one before it is still to be published.
        let named = std::mem::replace(&mut self.session, session);
        if named.is_some() && named != self.session {
            let left = self.session.as_ref().and_then(|_| self.turns.left());
            self.publish(left, true);
            self.session = named;
        }
        self.agent_runs(pid, now);
    }

    pub(super) fn agent_missing(&mut self, session: Option<SessionId>, now: Now) {
        self.session = session;
        self.lifecycle.missing(now.mono);
        self.lose_agent(true, now);
    }

    pub(super) fn agent_started(&mut self, pid: i32, now: Now) {
        if self.hold.held().is_some_and(|held| held.cause == Cause::Refused) {
            self.lift_hold("the agent was started anew: messages go in again");
        }
        self.agent_runs(pid, now);
    }

    fn agent_runs(&mut self, pid: i32, now: Now) {
        (self.too_big, self.dialog_since, self.told_dialog) = (None, None, false);
        self.start_error = None;
        self.lifecycle.running(pid, now.mono);
        self.evidence = Evidence::default();
        self.turns.not_idle();
        self.flight.iter_mut().for_each(Flight::agent_started);
        self.box_seen = false;
        (self.hooks_heard, self.unhooked_since) = (false, None);
        (self.unknown_since, self.told_unknown) = (None, false);
        self.outdate(now);
        if self.lifecycle.restarts() > 0 && !self.lifecycle.is_degraded() {
            self.alert(AlertKind::AgentRestarted, format!("the agent runs again (pid {pid})"));
        }
    }

    /// An agent that was not to be started again may be now.
    pub(super) fn settings_reread(&mut self, settings: PolicySettings, now: Now) {
        self.settings = settings;
        if self.settings.restart_on_exit && self.lifecycle.is_ended() {
            self.lifecycle.missing(now.mono);
        }
    }

    pub(super) fn agent_start_failed(&mut self, reason: &str, now: Now) {
        self.start_error = Some(reason.to_owned());
        let exit = self.lifecycle.start_failed(&self.settings, now.mono);
        self.tell_exit(format!("the agent could not be started: {reason}"), exit);
    }

    pub(super) fn agent_exited(&mut self, pid: i32, status: ExitStatus, now: Now) {
        let Some(exit) = self.lifecycle.exited(pid, status, &self.settings, now.mono) else {
            return;
        };
        (self.last_exit, self.start_error) = (Some(status), None);
        self.tell_exit(format!("the agent (pid {pid}) ended {}", status.words()), exit);
        self.note_vain_resume(status);
        self.lose_agent(status.is_from_outside(), now);
    }

    /// An agent that kept ending has run for a minute.
    pub(super) fn note_health(&mut self, now: Now) {
        if self.lifecycle.note_health(now.mono) {
            self.alert(AlertKind::AgentRestarted, "the agent runs again, and has for a minute".to_owned());
        }
    }

    /// A conversation that can't be resumed ends the agent before its box is there (F 37). After some of that the next
    /// start is a fresh one, since otherwise there would be none for ever. If that ends, too, it was not the conversation.
    fn note_vain_resume(&mut self, status: ExitStatus) {
        let set_aside = self.set_aside.take().filter(|_| self.session.is_none() && !self.box_seen);
        if set_aside.is_some() {
            self.session = set_aside;
            return;
        }
        let in_vain = self.session.is_some() && !self.box_seen && status == ExitStatus::Code(1);
        self.vain_resumes = if in_vain { self.vain_resumes + 1 } else { 0 };
        if self.vain_resumes < VAIN_RESUMES {
            return;
        }
        self.vain_resumes = 0;
        self.set_aside = self.session.take();
        if let Some(session) = &self.set_aside {
            let what = format!(
                "the agent ended {VAIN_RESUMES} times while it was to resume {session}: a fresh conversation is tried"
            );
            self.alert(AlertKind::AgentExited, what);
        }
    }

    /// At a turn's end: how big is it by now?
    pub(super) fn measure_agent(&mut self) {
        if let (1.., Some(pid)) = (self.settings.max_rss, self.lifecycle.pid()) {
            self.effects.push_back(Effect::MeasureAgent { pid });
        }
    }

    pub(super) fn agent_measured(&mut self, pid: i32, bytes: u64) {
        let is_it = self.lifecycle.pid() == Some(pid) && bytes > self.settings.max_rss;
        self.too_big = is_it.then_some(bytes);
    }

    /// A background shell would end with it, and a draft that was put away would be gone.
    pub(super) fn may_end_agent(&self, now: Now) -> bool {
        let stashed = self.evidence.fresh_look(now).is_some_and(|seen| seen.stashed);
        let is_free = !stashed && self.stash == Stash::None && !self.evidence.background_shell();
        self.too_big.is_some() && is_free
    }

    pub(super) fn end_agent(&mut self) {
        if let (Some(pid), Some(bytes)) = (self.lifecycle.pid(), self.too_big.take()) {
            self.lifecycle.ends_by_order();
            let what = format!(
                "the agent (pid {pid}) takes {} MiB and is started anew (agent.max_rss)",
                bytes >> 20
            );
            self.alert(AlertKind::AgentExited, what);
            self.effects.push_back(Effect::EndAgent { pid });
        }
    }

    /// Once it is degraded the end of each further minute is no news: log and status have it.
    pub(super) fn tell_exit(&mut self, what: String, exit: Exit) {
        if exit.pause_ms.is_some() && self.lifecycle.is_degraded() && !exit.degraded_now {
            return;
        }
        let then = match exit.pause_ms {
            Some(ms) => format!("{what}; it is started again in {} s", ms as f64 / 1000.0),
            None => format!("{what}; it is not started again (agent.restart_on_exit = false)"),
        };
        self.alert(AlertKind::AgentExited, then);
        if exit.degraded_now {
            self.alert(AlertKind::Degraded, "the agent ended ten times within 60 s of its start".to_owned());
        }
    }

    pub(super) fn lose_agent(&mut self, ended: bool, now: Now) {
        self.evidence = Evidence::default();
        self.box_seen = false;
        for flight in self.flight.iter_mut().chain(&mut self.found) {
            flight.agent_exited(ended, now.mono);
        }
        if let Some(look) = &mut self.pending_look {
            look.outdated = true;
        }
    }
}
