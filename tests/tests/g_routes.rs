//! Notices to services: every route against a receiver that is as strict as the service's documents.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use ccmux_tests::House;
use ccmux_tests::receiver::{CANARY, Receiver};
use serde_json::{Value, json};

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

/// A server of ntfy's kind with a phone at it: notices come, and what a button publishes goes to whoever follows.
struct Phone {
    port: u16,
    notices: Arc<Mutex<Vec<Value>>>,
    followers: Arc<Mutex<Vec<(String, TcpStream)>>>,
}

impl Phone {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let phone = Self { port, notices: Arc::default(), followers: Arc::default() };
        let (notices, followers) = (Arc::clone(&phone.notices), Arc::clone(&phone.followers));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serve(stream, &notices, &followers);
            }
        });
        phone
    }

    /// Somebody presses a button: its request, as the app makes it.
    fn press(&self, button: &Value) {
        assert_eq!((&button["action"], &button["method"]), (&json!("http"), &json!("POST")), "{button}");
        assert_eq!(button["url"], format!("http://127.0.0.1:{}/my-replies", self.port));
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let message = json!({"id": "pressed1", "time": time, "event": "message", "topic": "my-replies",
                             "message": button["body"]});
        let mut followers = self.followers.lock().unwrap();
        let (_, stream) = followers.last_mut().expect("a follower");
        // The same twice, as after a broken stream.
        stream.write_all(format!("{message}\n{message}\n").as_bytes()).unwrap();
    }
}

fn serve(stream: TcpStream, notices: &Mutex<Vec<Value>>, followers: &Mutex<Vec<(String, TcpStream)>>) {
    let (mut reader, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|count| count > 0) {}
    if head.starts_with("GET ") {
        let mut stream = reader.into_inner();
        let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n";
        let open = json!({"id": "open1", "time": 1, "event": "open", "topic": "my-replies"});
        stream.write_all(format!("{answer}{open}\n").as_bytes()).unwrap();
        followers.lock().unwrap().push((head, stream));
        return;
    }
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    notices.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    let answer = json!({"id": "hwQ2YpKdmg", "time": 1, "event": "message", "topic": "t"}).to_string();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", answer.len());
    reader.get_mut().write_all(format!("{head}{answer}").as_bytes()).unwrap();
}

/// Acceptance G3.
#[test]
fn a_button_on_the_phone_answers_a_permission() {
    let phone = Phone::start();
    let settings = format!(
        "[permission]\nchannel = \"phone\"\n[attention]\nroutes = [\"ntfy\"]\n[routes.ntfy]\ntype = \"ntfy\"\n\
         url = \"http://127.0.0.1:{}\"\ntopic = \"my-notices\"\nreply_topic_file = \"~/reply-topic\"\n",
        phone.port
    );
    let house = House::builder().file("home/reply-topic", "my-replies\n", 0o600).settings(&settings).ready();
    house.wait_until("a follower", || !phone.followers.lock().unwrap().is_empty());
    let asked = phone.followers.lock().unwrap()[0].0.clone();
    assert!(asked.starts_with("GET /my-replies/json?since="), "{asked}");
    house.write("in.t", "perm: echo pressed\n");
    let notice = house.wait_for("a notice", || phone.notices.lock().unwrap().first().cloned());
    assert_eq!((&notice["topic"], &notice["message"]), (&json!("my-notices"), &json!("Tool: Bash")));
    assert_eq!(notice["actions"][1]["label"], "Deny", "{notice}");
    let allow = &notice["actions"][0];
    assert!(allow["label"] == "Allow" && allow["body"].as_str().unwrap().starts_with("y "), "{notice}");
    phone.press(allow);
    house.wait_until("the tool's result", || {
        house.transcript().iter().any(|line| {
            line["type"] == "user"
                && line["message"]["content"].to_string().contains("pressed")
                && line["message"]["content"].to_string().contains("tool_result")
        })
    });
    house.wait_until("the log to tell", || house.log_events("reply.taken").len() == 1);
    assert_eq!(house.log_events("reply.refused").len(), 0, "the second one is none");
}
