//! `ccmux attach`: becomes tmux, attached to the agent's session.
//!
//! Which session and server that is, the variables say; else the daemon, which may have it from its settings file;
//! else, with the daemon down, the names that an instance has by default.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::{env, io};

use ccmux_wire::paths::{InstanceName, instance_name};
use ccmux_wire::status::TmuxStatus;

use crate::arguments::AttachOptions;
use crate::failure::Failure;
use crate::status;

pub fn run(dir: &Path, instance: Option<&InstanceName>, options: &AttachOptions) -> Result<(), Failure> {
    let answer = status::ask(dir).ok();
    let daemon_runs = answer.is_some();
    let told = answer.and_then(|answer| answer.reply.status?.tmux);
    let place = place(told, instance, &|name| env::var(name).ok().filter(|value| !value.is_empty()));
    if !is_there(&place)? {
        let remedy = if daemon_runs { "`ccmux why` says what became of the agent" } else { "start ccmuxd" };
        return Err(Failure::Failed(format!("there is no tmux session `{}`: {remedy}", place.session)));
    }
    let error = tmux(&place).args(attach_arguments(&place, options.read_only)).exec();
    Err(not_started(&error))
}

/// tmux itself would say `no sessions`, and to somebody who never started one that says little.
fn is_there(place: &TmuxStatus) -> Result<bool, Failure> {
    let mut asked = tmux(place);
    asked.args(["has-session", "-t", &format!("={}", place.session)]);
    Ok(asked.output().map_err(|error| not_started(&error))?.status.success())
}

fn not_started(error: &io::Error) -> Failure {
    Failure::Failed(format!("can't start tmux: {error}: install tmux 3.2 or newer"))
}

fn tmux(place: &TmuxStatus) -> Command {
    let mut tmux = Command::new("tmux");
    tmux.args(place.socket.iter().flat_map(|socket| ["-L", socket]));
    tmux
}

fn place(
    told: Option<TmuxStatus>,
    instance: Option<&InstanceName>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> TmuxStatus {
    let told = told.unwrap_or_else(|| TmuxStatus { socket: None, session: instance_name(instance) });
    TmuxStatus {
        socket: variable("CCMUX_TMUX_SOCKET").or(told.socket),
        session: variable("CCMUX_TMUX_SESSION").unwrap_or(told.session),
    }
}

fn attach_arguments(place: &TmuxStatus, read_only: bool) -> Vec<String> {
    let mut arguments = vec!["attach-session".to_owned(), "-t".to_owned(), format!("={}", place.session)];
    if read_only {
        arguments.push("-r".to_owned());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(
        told: Option<TmuxStatus>,
        instance: Option<&str>,
        variables: &[(&str, &str)],
        read_only: bool,
    ) -> String {
        let instance = instance.map(|name| name.parse().unwrap());
        let variable =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let place = place(told, instance.as_ref(), &variable);
        let server =
            tmux(&place).get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
        [server, attach_arguments(&place, read_only)].concat().join(" ")
    }

    #[test]
    fn without_a_daemon_the_names_are_those_of_the_instance() {
        assert_eq!(line(None, None, &[], false), "attach-session -t =ccmux");
        assert_eq!(line(None, Some("work"), &[], true), "attach-session -t =ccmux-work -r");
    }

    #[test]
    fn the_daemon_knows_better_and_the_variables_know_best() {
        let told = Some(TmuxStatus { socket: Some("s".into()), session: "mine".into() });
        assert_eq!(line(told.clone(), None, &[], false), "-L s attach-session -t =mine");
        let variables = [("CCMUX_TMUX_SOCKET", "other"), ("CCMUX_TMUX_SESSION", "its")];
        assert_eq!(line(told, None, &variables, false), "-L other attach-session -t =its");
    }
}
