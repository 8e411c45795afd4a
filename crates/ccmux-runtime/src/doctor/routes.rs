//! Whether the routes of notices have what they need: a bus, a program, a file. Nothing is sent: that is
//! `ccmux notify --test`.

use std::collections::BTreeMap;
use std::path::Path;

use super::finding::Finding;
use super::patient::Patient;
use crate::notify::desktop;
use crate::notify::sound::Sound;
use crate::program::find;
use crate::settings::expand;
use crate::settings::routes::RouteSettings;
use crate::settings::services::Secret;

pub(super) fn routes(patient: &Patient) -> Vec<Finding> {
    let check = "routes";
    let routes = &patient.setting.settings.routes;
    if routes.is_empty() {
        return vec![Finding::ok(check, "there are none: nobody is told of what waits")];
    }
    let environment = environment_of_the_daemon(patient);
    let lacks: Vec<String> = routes
        .iter()
        .filter_map(|(name, route)| {
            let lack = lack_of(route, &environment, &patient.setting.home)?;
            Some(format!("{name}: {lack}"))
        })
        .collect();
    vec![match lacks.is_empty() {
        true => {
            let names: Vec<&str> = routes.keys().map(String::as_str).collect();
            Finding::ok(check, format!("{}: what they need is there", names.join(", ")))
        }
        false => {
            let remedy = "see to that, start the daemon again, then try it: ccmux notify --test NAME";
            Finding::warning(check, lacks.join("; "), remedy)
        }
    }]
}

/// Without a daemon, what one would get that is started here.
fn environment_of_the_daemon(patient: &Patient) -> BTreeMap<String, String> {
    let running = patient.status().and_then(|status| patient.variables_of(status.daemon_pid));
    running.unwrap_or_else(|| {
        let here = patient.setting.environment.iter();
        here.filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
            .collect()
    })
}

/// What it has not got.
fn lack_of(route: &RouteSettings, environment: &BTreeMap<String, String>, home: &Path) -> Option<String> {
    let is_there = |program: &str| is_program(program, environment);
    match route {
        RouteSettings::Desktop {} => {
            desktop::check(|name| environment.get(name).cloned()).err().map(|error| error.to_string())
        }
        RouteSettings::Sound(settings) => Sound::new(settings, home).lack(is_there),
        RouteSettings::Command { argv } => {
            let program = expand(argv.first()?, home).display().to_string();
            (!is_there(&program)).then(|| format!("there is no program {program}"))
        }
        _ => secret_that_lacks(&route.secrets(), environment, home),
    }
}

fn secret_that_lacks(
    secrets: &[Secret],
    environment: &BTreeMap<String, String>,
    home: &Path,
) -> Option<String> {
    let files = secrets.iter().filter_map(|secret| secret.file.as_deref());
    let mut files = files.map(|file| expand(file, home)).filter(|file| !file.is_file());
    let variables = secrets.iter().filter_map(|secret| secret.variable.as_deref());
    let mut variables = variables.filter(|name| !environment.contains_key(*name));
    match (files.next(), variables.next()) {
        (Some(file), _) => Some(format!("there is no file {}", file.display())),
        (None, Some(name)) => Some(format!("the daemon has no variable {name}")),
        (None, None) => None,
    }
}

fn is_program(program: &str, environment: &BTreeMap<String, String>) -> bool {
    find(program, environment.get("PATH").map_or("", String::as_str)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::routes::{SoundSettings, WebhookSettings};
    use crate::settings::services::{NtfySettings, RobotSettings};

    #[test]
    fn what_a_route_lacks_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display().to_string();
        let mut environment = BTreeMap::from([("PATH", &path), ("XDG_RUNTIME_DIR", &path)])
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect::<BTreeMap<_, _>>();
        let voice = RouteSettings::Sound(SoundSettings::default());
        let hook = WebhookSettings { url_file: Some("~/url".into()), ..WebhookSettings::default() };
        let hook = RouteSettings::Webhook(hook);
        let ntfy = NtfySettings { reply_topic_file: Some("~/topic".into()), ..NtfySettings::default() };
        let robot = RobotSettings { secret_env: Some("ROBOT_SECRET".into()), ..RobotSettings::default() };
        let command = RouteSettings::Command { argv: vec!["tell-me".into()] };
        let all = [
            (RouteSettings::Desktop {}, "DBUS_SESSION_BUS_ADDRESS"),
            (voice, "spd-say"),
            (hook, "/url"),
            (RouteSettings::Ntfy(ntfy), "/topic"),
            (RouteSettings::Lark(robot.clone()), "ROBOT_SECRET"),
            (RouteSettings::DingTalk(robot), "ROBOT_SECRET"),
            (command, "tell-me"),
        ];
        for (route, word) in &all {
            let lacks = lack_of(route, &environment, dir.path()).unwrap();
            assert!(lacks.contains(word), "{lacks}");
        }
        for file in ["bus", "espeak-ng", "url", "topic", "tell-me"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        assert!(
            lack_of(&all[6].0, &environment, dir.path()).is_some(),
            "a file that can't be run is no program"
        );
        for program in ["espeak-ng", "tell-me"] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(dir.path().join(program), mode).unwrap();
        }
        environment.insert("ROBOT_SECRET".into(), "SEC".into());
        assert!(all.iter().all(|(route, _)| lack_of(route, &environment, dir.path()).is_none()));
    }
}
