//! The inbox from outside: channel policies, `ccmux inbox`, receipts, and what befalls the database's file.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::Write;
use std::process::Command;

use ccmux_tests::House;
use ccmux_tests::agent::messages;
use ccmux_wire::inbox::InboxMessage;
use ccmux_wire::receipt::MessageState;
use serde_json::Value;

/// A house whose agent works on something for so long.
fn busy_for(seconds: u32, settings: &str) -> House {
    let house = House::builder().settings(settings).ready();
    house.write("in.work", format!("slow: {seconds}\n"));
    house.wait_for_prompt("slow: ");
    house
}

fn shown(house: &House, id: &str) -> InboxMessage {
    serde_json::from_str(&house.ccmux_ok(&["inbox", "show", id, "--json"])).unwrap()
}

fn state(house: &House, id: &str) -> MessageState {
    shown(house, id).receipt.state
}

fn refusal(house: &House, arguments: &[&str]) -> String {
    let output = house.ccmux(arguments);
    assert_eq!(output.status.code(), Some(4), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Acceptance B5.
#[test]
fn an_answered_receipt_holds_the_answer_and_how_long_each_leg_took() {
    let house = House::builder().ready();
    let said = house.ccmux_ok(&["send", "--json", "--wait", "answered", "--timeout", "30", "say: forty-two"]);
    let receipt: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&receipt["answer"], &receipt["proof"]), (&"forty-two".into(), &"hook".into()));
    let leg = |name: &str| receipt["legs"][name].as_i64().unwrap_or_else(|| panic!("{name}: {receipt}"));
    let at = |name: &str| receipt[name].as_i64().unwrap_or_else(|| panic!("{name}: {receipt}"));
    assert_eq!(leg("queued_ms") + leg("typed_ms") + leg("proved_ms"), at("delivered_at") - at("accepted_at"));
    assert_eq!(leg("answered_ms"), at("answered_at") - at("delivered_at"));
    let id = receipt["id"].as_str().unwrap();
    assert_eq!(serde_json::to_value(shown(&house, id).receipt.legs).unwrap(), receipt["legs"]);
    assert!(house.ccmux_ok(&["inbox", "show", id]).contains("took     waited "));
}

#[test]
fn a_dropped_message_is_never_typed_and_one_that_is_tried_again_is() {
    let house = busy_for(3, "");
    let id = |text| house.send("accepted", text).id;
    let (dropped, kept) = (id("never see this"), id("say: kept"));
    let listed = house.ccmux_ok(&["inbox", "list", "--state", "accepted"]);
    assert!(listed.contains("never see this") && listed.lines().count() == 2, "{listed}");
    house.ccmux_ok(&["inbox", "drop", &dropped]);
    assert_eq!(state(&house, &dropped), MessageState::Failed);
    house.wait_for_prompt("say: kept");
    house.wait_until("the kept one to be answered", || state(&house, &kept) == MessageState::Answered);
    assert!(!house.prompts().iter().any(|prompt| prompt.contains("never see this")));
    let why = refusal(&house, &["inbox", "retry", &kept]);
    assert!(why.contains(&kept) && why.contains("answered"), "{why}");
    house.ccmux_ok(&["inbox", "retry", &dropped]);
    let prompt = house.wait_for_prompt("never see this");
    assert!(!prompt.contains("(redelivered)"), "it was never typed: {prompt}");
}

#[test]
fn an_uncertain_message_whose_text_stands_in_the_box_is_not_tried_again_and_may_be_dropped() {
    let house = House::builder().agent("CCMUX_DEMO_SWALLOW_ENTER", 99).ready();
    let alerts = house.subscribe();
    let id = house.send("accepted", "hello").id;
    alerts.wait_for_alert("uncertain");
    house.wait_until("the uncertain message", || state(&house, &id) == MessageState::Uncertain);
    let why = refusal(&house, &["inbox", "retry", &id]);
    assert!(why.contains("prompt box"), "{why}");
    house.ccmux_ok(&["inbox", "drop", &id]);
    let message = shown(&house, &id);
    assert_eq!(message.receipt.reason.as_deref(), Some("dropped by the user"));
    assert_eq!(message.content.as_deref(), Some("hello"));
}

#[test]
fn an_unknown_name_and_one_of_several_channels_are_told() {
    let house = busy_for(20, "");
    for channel in ["mail", "phone"] {
        house.ccmux_ok(&["send", "--channel", channel, "--id", "job-1", "hi"]);
    }
    assert!(refusal(&house, &["inbox", "show", "job-2"]).contains("job-2"));
    assert!(refusal(&house, &["inbox", "drop", "job-1"]).contains("mail/job-1, phone/job-1"));
    house.ccmux_ok(&["inbox", "drop", "phone/job-1"]);
    assert_eq!(state(&house, "mail/job-1"), MessageState::Accepted);
}

#[test]
fn what_is_older_than_its_channels_ttl_is_told_and_not_sent() {
    let house = busy_for(5, "[channels.alarm]\nttl = 1.5\n");
    let alerts = house.subscribe();
    let arguments = ["--channel", "alarm", "--wait", "delivered", "--timeout", "30", "say: fire"];
    let waiting = house.send_in_background(&arguments);
    house.write("in.phone", "say: still here\n");
    let alert = alerts.wait_for_alert("expired");
    let ended = waiting.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("ttl"), "{ended:?}");
    let id = alert["alert"]["messages"][0].as_str().unwrap();
    assert_eq!(state(&house, id), MessageState::Expired);
    house.wait_for_prompt("say: still here");
    assert!(!house.prompts().iter().any(|prompt| prompt.contains("fire")));
}

#[test]
fn a_channels_policy_says_who_may_write_how_long_and_in_which_format() {
    let house = House::builder()
        .settings(
            "[channels.boss]\nallowed = [\"ann\"]\n[channels.short]\nmax_bytes = 10\n[channels.raw]\nformat = \"text\"\n\
             [channels.free]\nmentions = true\n",
        )
        .ready();
    fs::write(house.proj().join("notes"), "").unwrap();
    let alerts = house.subscribe();
    house.write("in.boss", "{\"content\":\"no\",\"meta\":{\"sender\":\"bob\"}}\n");
    assert!(alerts.wait_for_alert("rejected").to_string().contains("channels.boss.allowed"));
    house.write("in.boss", "{\"content\":\"yes\",\"meta\":{\"sender\":\"ann\"}}\n");
    house.wait_for_prompt("boss] yes");
    assert!(refusal(&house, &["send", "-c", "short", "12345678901"]).contains("channels.short.max_bytes"));
    assert!(refusal(&house, &["send", "-c", "boss", "x"]).contains("channels.boss.allowed"));
    house.write("in.raw", "{\"content\":\"as it is\"}\n");
    house.wait_for_prompt("raw] {\"content\":\"as it is\"}");
    house.write("in.tame", "see @notes\n");
    house.wait_for_prompt("see \u{ff20}notes");
    house.write("in.free", "see @notes now\n");
    house.wait_for_prompt("see @notes now");
}

/// Field fault 8.
#[test]
fn a_flooder_delays_another_channels_message_by_at_most_one_batch() {
    let house = busy_for(4, "[limits]\nbatch_bytes = 600\n");
    let line = format!("{}\n", "x".repeat(500));
    house.write("in.flood", line.repeat(40));
    house.wait_until("the flood", || house.status().queue.messages >= 40);
    house.write("in.quiet", "may I\n");
    house.wait_for_prompt("may I");
    let prompts = house.prompts();
    let place = prompts.iter().position(|prompt| prompt.contains("may I")).unwrap();
    assert!(place <= 2, "behind the work and at most one of the flood's: {place}");
}

#[test]
fn a_higher_priority_goes_first() {
    let house = busy_for(4, "[limits]\nbatch_bytes = 600\n[channels.urgent]\npriority = 9\n");
    let line = format!("{}\n", "x".repeat(500));
    house.write("in.plain", line.repeat(3));
    house.wait_until("the plain ones", || house.status().queue.messages >= 3);
    house.write("in.urgent", line.repeat(3));
    let found = house.wait_for_prompts(7);
    let order: Vec<String> = found[1..].iter().map(|prompt| messages(prompt)[0].0.clone()).collect();
    assert_eq!(order, ["urgent", "urgent", "urgent", "plain", "plain", "plain"]);
}

#[test]
fn a_removed_database_is_noticed_put_back_and_nothing_of_it_is_lost() {
    let house = busy_for(3, "");
    let alerts = house.subscribe();
    let before = house.send("accepted", "say: before").id;
    fs::remove_file(house.state_dir().join("inbox.db")).unwrap();
    house.send("accepted", "say: after");
    let alert = alerts.wait_for_alert("damaged");
    assert!(alert["alert"]["message"].as_str().unwrap().contains("written there again"), "{alert}");
    house.wait_for_prompt("say: after");
    house.stop();
    house.start();
    house.wait_until("the old message", || state(&house, &before) == MessageState::Answered);
}

/// Acceptance A7.
#[test]
fn a_database_of_a_newer_ccmux_is_refused_with_73_and_left_alone() {
    let house = House::builder().ready();
    house.stop();
    let file = house.state_dir().join("inbox.db");
    let mut bytes = fs::read(&file).unwrap();
    // The header's user_version.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&file, &bytes).unwrap();
    let refused = house.run_daemon(&[]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(73), "{why}");
    assert!(why.contains("inbox.db") && why.contains("newer ccmux"), "{why}");
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

#[test]
fn files_whose_names_are_no_channels_names_are_shown() {
    let house = House::builder().ready();
    let mode = nix::sys::stat::Mode::S_IRWXU;
    nix::unistd::mkfifo(&house.run_dir().join("in.bad name"), mode).unwrap();
    house.wait_until("the refused file", || house.ccmux_ok(&["channels"]).contains("in.bad name  refused: "));
    fs::remove_file(house.run_dir().join("in.bad name")).unwrap();
    house.wait_until("it to go", || !house.ccmux_ok(&["channels"]).contains("in.bad name"));
}

/// Sets a limit of the running daemon.
fn limit(house: &House, which: &str) {
    let pid = house.daemon_pid().to_string();
    let done = Command::new("prlimit").args(["--pid", &pid, which]).status();
    assert!(done.unwrap().success(), "{which}");
}

fn is_full(house: &House) -> bool {
    house.status().degraded.contains(&"disk".to_owned())
}

/// Writes 2 MiB of messages to a daemon that has no room for them, makes room, and looks at what came.
fn a_full_disk_is_waited_for(house: &House, make_room: impl FnOnce()) {
    const MESSAGES: usize = 2_000;
    let mut fifo = house.open_fifo("in.flood");
    let flood = std::thread::spawn(move || {
        for n in 0..MESSAGES {
            fifo.write_all(format!("{n:05} {}\n", "x".repeat(1_000)).as_bytes()).unwrap();
        }
    });
    house.wait_until("status to say that the disk is full", || is_full(house));
    assert!(!flood.is_finished(), "the writer waits");
    make_room();
    flood.join().unwrap();
    house.wait_until("the disk to be well", || !is_full(house));
    house.send("accepted", "the end");
    house.stop();
    let expected: Vec<String> = (0..MESSAGES).map(|n| format!("{n:05}")).collect();
    let stored = house.stored_on("flood");
    let came: Vec<&str> = stored.iter().map(|content| &content[..5]).collect();
    assert_eq!(came.len(), MESSAGES);
    assert!(came == expected, "out of order");
}

#[test]
fn a_limit_on_files_makes_writers_wait_and_nothing_is_lost() {
    let house = busy_for(600, "");
    limit(&house, "--fsize=150000:unlimited");
    a_full_disk_is_waited_for(&house, || limit(&house, "--fsize=unlimited:unlimited"));
}

/// A small file system at the state directory, where one may be mounted.
struct Tiny(std::path::PathBuf);

impl Tiny {
    fn mount(at: std::path::PathBuf) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let options = "size=3m,mode=0700";
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&at).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(at))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_makes_writers_wait_and_nothing_is_lost() {
    let house = House::builder().build();
    let Some(tiny) = Tiny::mount(house.state_dir()) else {
        println!("no tmpfs may be mounted here: only the limit on files was tested");
        return;
    };
    house.start();
    house.wait_ready();
    house.write("in.work", "slow: 600\n");
    house.wait_for_prompt("slow: ");
    a_full_disk_is_waited_for(&house, || {
        let bigger = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&tiny.0).status();
        assert!(bigger.unwrap().success());
    });
    drop(house);
    drop(tiny);
}

#[test]
fn a_daemon_without_descriptors_goes_on_and_takes_what_it_could_not() {
    let house = House::builder().ready();
    let mut known = house.open_fifo("in.known");
    let open = fs::read_dir(format!("/proc/{}/fd", house.daemon_pid())).unwrap().count();
    limit(&house, &format!("--nofile={}:", open + 1));
    for n in 0..5 {
        house.fifo(&format!("in.c{n}"));
    }
    house.wait_until("a log line about it", || {
        !house.log_events("channel.stalled").is_empty() || !house.log_events("channel.refused").is_empty()
    });
    known.write_all(b"known\n").unwrap();
    assert!(house.exit_status().is_none());
    limit(&house, "--nofile=4096:");
    house.write("in.another", "another\n");
    for n in 0..5 {
        house.write(&format!("in.c{n}"), format!("from c{n}\n"));
    }
    let found = house.wait_for_messages(7);
    assert_eq!(found.len(), 7, "{found:?}");
}

#[test]
fn the_daemon_may_open_as_many_files_as_the_system_allows() {
    let own = std::process::id().to_string();
    assert!(Command::new("prlimit").args(["--pid", &own, "--nofile=1000:"]).status().unwrap().success());
    let house = House::builder().ready();
    let limits = fs::read_to_string(format!("/proc/{}/limits", house.daemon_pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let words: Vec<&str> = files.split_whitespace().collect();
    assert!(words[3] == words[4] && words[3] != "1000", "{files}");
}
