//! One notice over D-Bus (`org.freedesktop.Notifications`), on a connection of its own, which stays open until somebody
//! clicks the bubble or it is closed. While it stays nothing is polled.

use std::collections::HashMap;
use std::path::Path;

use tokio::time::timeout;
use tokio_stream::StreamExt;

use zbus::{Connection, MatchRule, MessageStream, Variant, message};

use super::focus::Focus;
use super::{CLICKED_WITHIN, DesktopError, keep_open, text};
use crate::notify::{Notice, TRY_WITHIN};

const NAME: &str = "org.freedesktop.Notifications";
const PATH: &str = "/org/freedesktop/Notifications";

/// Where the session bus is.
pub(super) fn address(environment: impl Fn(&str) -> Option<String>) -> Result<String, DesktopError> {
    let variable = |name| environment(name).filter(|value| !value.is_empty());
    if let Some(address) = variable("DBUS_SESSION_BUS_ADDRESS") {
        return Ok(address);
    }
    let dir = variable("XDG_RUNTIME_DIR").unwrap_or_else(|| format!("/run/user/{}", nix::unistd::geteuid()));
    let path = format!("{dir}/bus");
    match Path::new(&path).exists() {
        true => Ok(format!("unix:path={path}")),
        false => Err(DesktopError::NoBus { path }),
    }
}

pub(super) async fn show(notice: &Notice, focus: &Focus) -> Result<(), DesktopError> {
    let address = address(|name| std::env::var(name).ok())?;
    let broken = |error: zbus::Error| DesktopError::Bus { address: address.clone(), why: error.to_string() };
    let builder = zbus::connection::Builder::address(address.as_str()).method_timeout(TRY_WITHIN);
    let bus = builder.build().await.map_err(broken)?;
    let features = features(&bus).await?;
    let can = |feature: &str| features.iter().any(|known| known == feature);
    // Before the bubble is there, so that no click is missed.
    let clicks = if can("actions") { Some(signals(&bus).await.map_err(broken)?) } else { None };
    let bubble = send(&bus, notice, clicks.is_some(), can("body-markup")).await?;
    if let Some(clicks) = clicks {
        listen(bus, clicks, bubble, focus.clone(), notice.session.clone());
    }
    Ok(())
}

/// What the server can do. Without one this is the call that tells.
async fn features(bus: &Connection) -> Result<Vec<String>, DesktopError> {
    let answer = bus.call_method(Some(NAME), PATH, Some(NAME), "GetCapabilities", &()).await;
    let answer = answer.and_then(|answer| answer.body().deserialize::<Vec<String>>());
    answer.map_err(|error| no_server(&error))
}

fn no_server(error: &zbus::Error) -> DesktopError {
    DesktopError::NoServer { why: error.to_string() }
}

async fn signals(bus: &Connection) -> zbus::Result<MessageStream> {
    let rule = MatchRule::builder().msg_type(message::Type::Signal).interface(NAME).path(PATH).build()?;
    MessageStream::for_match_rule(rule, bus, None).await
}

/// Returns the bubble's number.
async fn send(bus: &Connection, notice: &Notice, clickable: bool, markup: bool) -> Result<u32, DesktopError> {
    let body = text::body(&notice.body);
    let body = if markup { text::escaped(&body) } else { body };
    let actions: &[&str] = if clickable { &["default", "Show"] } else { &[] };
    let hints = HashMap::from([("urgency", Variant::U8(urgency(&notice.kind)))]);
    let until_seen = -1;
    let call = ("ccmux", 0_u32, "", text::title(&notice.title), body, actions, hints, until_seen);
    let answer = bus.call_method(Some(NAME), PATH, Some(NAME), "Notify", &call).await;
    let number = answer.and_then(|answer| answer.body().deserialize::<u32>());
    number.map_err(|error| no_server(&error))
}

/// 0 low, 1 normal, 2 critical: that one stays until it is seen.
fn urgency(kind: &str) -> u8 {
    match kind {
        "failure" | "stuck" => 2,
        "subagent_reply" => 0,
        _ => 1,
    }
}

/// Waits for a click in a task of its own.
fn listen(bus: Connection, clicks: MessageStream, bubble: u32, focus: Focus, session: String) {
    let listening = tokio::spawn(async move {
        if timeout(CLICKED_WITHIN, is_clicked(clicks, bubble)).await == Ok(true) {
            focus.show(&session).await;
        }
        drop(bus);
    });
    keep_open(listening.abort_handle());
}

/// `false`: it was closed, or the bus is gone. Signals about bubbles of others are passed over.
async fn is_clicked(mut clicks: MessageStream, bubble: u32) -> bool {
    while let Some(Ok(signal)) = clicks.next().await {
        if let Some(clicked) = click_of(&signal, bubble) {
            return clicked;
        }
    }
    false
}

/// Whether this one was clicked, or closed.
fn click_of(signal: &zbus::Message, bubble: u32) -> Option<bool> {
    let (header, body) = (signal.header(), signal.body());
    let (number, clicked) = match header.member()?.as_str() {
        "ActionInvoked" => (body.deserialize::<(u32, &str)>().ok()?.0, true),
        "NotificationClosed" => (body.deserialize::<(u32, u32)>().ok()?.0, false),
        _ => return None,
    };
    (number == bubble).then_some(clicked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bus_is_where_the_environment_says_or_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display().to_string();
        let in_dir = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| path.clone());
        let missing = address(in_dir).unwrap_err();
        assert!(!missing.may_pass(), "no second try");
        let said = missing.to_string();
        assert!(said.contains("DBUS_SESSION_BUS_ADDRESS") && said.contains(&format!("{path}/bus")), "{said}");
        std::fs::write(dir.path().join("bus"), "").unwrap();
        assert_eq!(address(in_dir).unwrap(), format!("unix:path={path}/bus"));
        let both = |name: &str| match name {
            "DBUS_SESSION_BUS_ADDRESS" => Some("unix:abstract=x".to_owned()),
            other => in_dir(other),
        };
        assert_eq!(address(both).unwrap(), "unix:abstract=x");
    }

    #[test]
    fn what_stops_the_work_is_urgent() {
        let urgencies = ["failure", "stuck", "permission", "reply", "subagent_reply"].map(urgency);
        assert_eq!(urgencies, [2, 2, 1, 1, 0]);
    }
}
