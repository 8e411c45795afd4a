//! Notices to services: every route against a receiver that is as strict as the service's documents.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::Path;

use ccmux_tests::House;
use ccmux_tests::receiver::{CANARY, Receiver};

const SERVICES: [&str; 8] = ["dingtalk", "lark", "gotify", "ntfy", "slack", "teams", "discord", "telegram"];

/// Routes to all services; their secrets stand in files.
fn house_at(receiver: &Receiver, more: &str) -> House {
    let settings = format!(
        r#"
[routes.dingtalk]
type = "dingtalk"
url_file = "~/dingtalk-url"
secret_file = "~/secret"

[routes.lark]
type = "feishu"
url_file = "~/lark-url"
secret_file = "~/secret"

[routes.gotify]
type = "gotify"
url = "{base}/"
token_file = "~/secret"

[routes.ntfy]
type = "ntfy"
url = "{base}"
topic_file = "~/secret"
token_env = "NTFY_TOKEN"

[routes.slack]
type = "webhook"
service = "slack"
url_file = "~/slack-url"

[routes.teams]
type = "webhook"
service = "teams"
url_file = "~/teams-url"

[routes.discord]
type = "webhook"
service = "discord"
url_file = "~/discord-url"

[routes.telegram]
type = "webhook"
service = "telegram"
url_file = "~/telegram-url"
chat = "-100123"

[routes.file]
type = "command"
argv = ["/bin/sh", "-c", "cat >> ~/notices"]
{more}"#,
        base = receiver.url("")
    );
    let url = |path: &str| format!("{}\n", receiver.url(&path.replace("SECRET", CANARY)));
    House::builder()
        .env("NTFY_TOKEN", CANARY)
        .file("home/secret", &format!("{CANARY}\n"), 0o600)
        .file("home/dingtalk-url", &url("/robot/send?access_token=SECRET"), 0o600)
        .file("home/lark-url", &url("/open-apis/bot/v2/hook/SECRET"), 0o600)
        .file("home/slack-url", &url("/slack/SECRET"), 0o600)
        .file("home/teams-url", &url("/teams/SECRET"), 0o600)
        .file("home/discord-url", &url("/discord/SECRET"), 0o600)
        .file("home/telegram-url", &url("/botSECRET/sendMessage"), 0o600)
        .settings(&settings)
        .ready()
}

/// Every file below, but those that the secret was put into.
fn files_with_canary(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() {
            files_with_canary(&path, found);
        } else if kind.is_file() && name != "secret" && !name.ends_with("-url") {
            let bytes = fs::read(&path).unwrap_or_default();
            if bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
}

fn assert_no_canary(house: &House) {
    let mut found = Vec::new();
    files_with_canary(&house.path(""), &mut found);
    assert_eq!(found, Vec::<String>::new(), "the secret stands there");
}

/// Acceptance G3. Field fault 41.
#[test]
fn every_service_takes_what_its_route_sends_and_no_secret_is_in_a_log() {
    let receiver = Receiver::strict();
    let house = house_at(&receiver, "");
    for service in SERVICES {
        assert_eq!(house.ccmux_ok(&["notify", "--test", service]), format!("sent by {service}\n"));
    }
    assert_eq!(receiver.came().len(), SERVICES.len());
    assert_no_canary(&house);
}

/// Acceptance G3. Field fault 41.
#[test]
fn a_refusal_that_comes_with_200_is_one_and_what_it_says_is_not_passed_on() {
    let receiver = Receiver::answering(|request| {
        let body = match request.path.split('/').nth(1).unwrap_or_default() {
            "robot" => r#"{"errcode":310000,"errmsg":"CANARY"}"#,
            "open-apis" => r#"{"code":19021,"msg":"CANARY"}"#,
            "teams" => "Microsoft Teams endpoint returned HTTP error 413 CANARY",
            path if path.starts_with("bot") => r#"{"ok":false,"error_code":400,"description":"CANARY"}"#,
            _ => "<html>CANARY</html>",
        };
        (200, body.replace("CANARY", CANARY))
    });
    let house = house_at(&receiver, "");
    for service in SERVICES {
        let refused = house.ccmux(&["notify", "--test", service]);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(4), "{service}: {why}");
        assert!(why.contains(service) && !why.contains(CANARY), "{why}");
    }
    assert_eq!(receiver.came().len(), SERVICES.len(), "a refusal is not tried again");
    assert_no_canary(&house);
}

/// Field fault 42.
#[test]
fn a_service_that_takes_no_more_is_left_alone_and_the_next_route_is_used() {
    let receiver =
        Receiver::answering(|_| (200, r#"{"errcode":130101,"errmsg":"send too fast"}"#.to_owned()));
    let more = "[attention]\nroutes = [\"dingtalk\", \"file\"]\n[attention.failure]\nafter = 0\n";
    let house = house_at(&receiver, more);
    let notices = || fs::read_to_string(house.home().join("notices")).unwrap_or_default().lines().count();
    house.write("in.t", "error: 529\n");
    house.wait_until("the next route", || notices() == 1);
    let refused = house.ccmux(&["notify", "--test", "dingtalk"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("takes no more for"), "{why}");
    assert_eq!(receiver.came().len(), 1, "it was asked once");
}
