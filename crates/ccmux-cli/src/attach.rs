//! `ccmux attach`: becomes tmux, attached to the agent's session.
//!
//! Which session and server that is, the variables say; else the daemon, which may have it from its settings file;
//! else, with the daemon down, the names that an instance has by default.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use ccmux_wire::paths::{InstanceName, instance_name};
use ccmux_wire::status::TmuxStatus;

use crate::arguments::AttachOptions;
use crate::failure::Failure;
use crate::status;

pub fn run(dir: &Path, instance: Option<&InstanceName>, options: &AttachOptions) -> Result<(), Failure> {
    let told = status::ask(dir).ok().and_then(|answer| answer.reply.status?.tmux);
    let place = place(told, instance, &|name| env::var(name).ok().filter(|value| !value.is_empty()));
    let mut tmux = Command::new("tmux");
    tmux.args(tmux_arguments(&place, options.read_only));
    let error = tmux.exec();
    Err(Failure::Failed(format!("can't start tmux: {error}: install tmux 3.2 or newer")))
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

fn tmux_arguments(place: &TmuxStatus, read_only: bool) -> Vec<String> {
    let mut arguments = Vec::new();
    if let Some(socket) = &place.socket {
        arguments.extend(["-L".to_owned(), socket.clone()]);
    }
    arguments.extend(["attach-session".to_owned(), "-t".to_owned(), format!("={}", place.session)]);
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
        tmux_arguments(&place(told, instance.as_ref(), &variable), read_only).join(" ")
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
