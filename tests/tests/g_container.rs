//! Containers: `ccmux run` for real, on bubblewrap, with hooks and questions from inside; what they may not.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::path::PathBuf;
use std::process::Child;

use ccmux_tests::notices::into_a_file;
use ccmux_tests::{House, container};
use serde_json::{Value, json};

const SETTINGS: &str =
    "[attention]\nroutes = [\"file\"]\n[attention.reply]\nafter = 0\n[attention.question]\nafter = 0\n";

fn house() -> House {
    House::builder().settings(&into_a_file(SETTINGS)).ready()
}

fn dirs(house: &House) -> Vec<PathBuf> {
    let found = fs::read_dir(house.run_dir().join("containers")).into_iter().flatten().flatten();
    found.map(|entry| entry.path()).collect()
}

fn listed(house: &House) -> Value {
    serde_json::from_str(&house.ccmux_ok(&["container", "list", "--json"])).unwrap()
}

fn end(mut child: Child) -> String {
    let _ = child.wait();
    container::text(child.wait_with_output().unwrap())
}

/// Says a line on the container's socket, from inside, and prints what comes.
fn ask_socket(frames: &[&str]) -> String {
    let frames: Vec<String> = frames.iter().map(|frame| format!("{frame:?}")).collect();
    format!(
        "python3 - <<'END'\nimport socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('/run/ccmux/ccmux.sock')\nf = s.makefile('rw')\n\
         for frame in [{}]:\n    f.write(frame + '\\n')\n    f.flush()\n    print(f.readline().strip())\nEND\n",
        frames.join(", ")
    )
}

/// Issue: notify, ask, be answered.
#[test]
fn a_container_tells_asks_and_is_answered() {
    if !container::or_skip() {
        return;
    }
    let house = house();
    container::said(&house, "ccmux container notify --type complete the tests pass");
    let told = house.wait_for_notice_of("the tests pass");
    assert!(told["kind"] == "reply" && told["session"].as_str().unwrap().starts_with("c-"), "{told}");
    let asking = container::spawn(&house, "ccmux container ask --wait 60 Which branch?");
    let told = house.wait_for_notice_of("Which branch?");
    assert_eq!(told["kind"], "question");
    let question = listed(&house)["questions"][0]["id"].as_str().unwrap().to_owned();
    assert!(house.ccmux_ok(&["attention"]).contains("Which branch?"));
    house.ccmux_ok(&["container", "answer", &question, "the", "main", "one"]);
    assert_eq!(end(asking), "the main one\n");
    house.wait_until("nothing to be left", || {
        dirs(&house).is_empty() && house.ccmux_ok(&["attention"]) == "nothing waits for you\n"
    });
    assert_eq!(house.ccmux_ok(&["container", "list"]), "no container is open\n");
}

#[test]
fn a_container_may_use_no_verb_of_the_owner_and_sees_one_socket_only() {
    if !container::or_skip() {
        return;
    }
    let house = house();
    let owners = [
        r#"{"v":1,"type":"send","content":"hello"}"#,
        r#"{"v":1,"type":"status"}"#,
        r#"{"v":1,"type":"why"}"#,
        r#"{"v":1,"type":"screen"}"#,
        r#"{"v":1,"type":"inbox","verb":"list"}"#,
        r#"{"v":1,"type":"subscribe"}"#,
        r#"{"v":1,"type":"reload"}"#,
        r#"{"v":1,"type":"attention"}"#,
        r#"{"v":1,"type":"mute","what":"reply","for_s":60}"#,
        r#"{"v":1,"type":"container","verb":"list"}"#,
        r#"{"v":1,"type":"container","verb":"open","id":"aaaa"}"#,
        r#"{"v":1,"type":"container","verb":"answer","question":"q-1","text":"x"}"#,
    ];
    let said = container::said(&house, &ask_socket(&owners));
    let replies: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replies.len(), owners.len());
    assert!(replies.iter().all(|reply| reply["code"] == "not_allowed"), "{said}");
    let seen = container::said(
        &house,
        "[ -S /run/ccmux/ccmux.sock ] && echo ccmux.sock; touch /run/ccmux/x 2>&1 || true; id -u; env | sort",
    );
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[0], "ccmux.sock");
    assert!(lines[1].contains("Read-only file system") && lines[2] != "0", "{seen}");
    assert!(!seen.contains(house.run_dir().to_str().unwrap()), "{seen}");
    let looked = container::said(&house, &format!("ls {} 2>&1 || true", house.run_dir().display()));
    assert!(looked.contains("No such file"), "{looked}");
}

#[test]
fn containers_at_once_do_not_mix() {
    if !container::or_skip() {
        return;
    }
    let house = house();
    let asking = |name: &str| {
        container::spawn(
            &house,
            &format!("ccmux container ask --wait 60 question of {name}; echo done {name}"),
        )
    };
    let both = [asking("one"), asking("two")];
    house.wait_until("two questions", || {
        listed(&house)["questions"].as_array().is_some_and(|all| all.len() == 2)
    });
    let standing = listed(&house);
    let questions = standing["questions"].as_array().unwrap();
    assert_ne!(questions[0]["container"], questions[1]["container"]);
    let of = |name: &str| {
        let question =
            questions.iter().find(|question| question["question"].as_str().unwrap().contains(name));
        question.unwrap()["id"].as_str().unwrap().to_owned()
    };
    let frame = format!(r#"{{"v":1,"type":"guest","verb":"answer","question":"{}"}}"#, of("one"));
    let spied = container::said(&house, &ask_socket(&[&frame]));
    assert!(spied.contains("there is no question") && !spied.contains("question of one"), "{spied}");
    house.ccmux_ok(&["container", "answer", &of("two"), "second"]);
    house.ccmux_ok(&["container", "answer", &of("one"), "first"]);
    let again = house.ccmux(&["container", "answer", &of("one"), "third"]);
    assert_eq!(again.status.code(), Some(4), "the first answer counts, or the container has gone");
    let [one, two] = both.map(end);
    assert_eq!((one.as_str(), two.as_str()), ("first\ndone one\n", "second\ndone two\n"));
}

#[test]
fn a_hook_from_inside_is_the_containers_and_never_the_owned_sessions() {
    if !container::or_skip() {
        return;
    }
    let house = house();
    house.send("answered", "say: hello");
    house.wait_ready();
    let own = house.status().session.unwrap().to_string();
    house.wait_for_notice_of("Task: ");
    assert!(house.ccmux_ok(&["attention"]).contains(&own));
    for event in ["UserPromptSubmit", "Stop", "SessionEnd"] {
        let payload = json!({"session_id": own, "hook_event_name": event, "prompt": "from inside", "background_tasks": []});
        container::said(&house, &format!("echo '{payload}' | ccmux-hook"));
        assert!(house.ccmux_ok(&["attention"]).contains(&own), "the owned session still waits after {event}");
    }
    let stop = json!({"session_id": own, "hook_event_name": "Stop", "background_tasks": []});
    let prompt = json!({"session_id": own, "hook_event_name": "UserPromptSubmit", "prompt": "task inside"});
    let script = format!(
        "echo '{prompt}' | ccmux-hook; echo '{stop}' | ccmux-hook; until [ -e end ]; do sleep 0.1; done"
    );
    let inside = container::spawn(&house, &script);
    let told = house.wait_for_notice_of("Task: task inside");
    let session = told["session"].as_str().unwrap();
    assert!(session.starts_with("c-") && session != own, "{told}");
    assert_eq!(house.status().session.unwrap().as_str(), own);
    fs::write(house.proj().join("end"), "").unwrap();
    end(inside);
    house.wait_until("its session to be over", || !house.ccmux_ok(&["attention"]).contains(session));
}

#[test]
fn tools_work_from_inside() {
    if !container::or_skip() {
        return;
    }
    let house = house();
    let phone = house.adapter("phone");
    let call = r#"{"v":1,"type":"tool","name":"send_to_channel","arguments":{"channel":"phone","message":"from inside"}}"#;
    house.wait_until("the channel", || house.ccmux_ok(&["channels"]).contains("phone"));
    let said = container::said(&house, &ask_socket(&[call]));
    assert!(said.contains("sent to phone"), "{said}");
    assert_eq!(house.wait_for_lines(&phone, 1), ["from inside"]);
}

#[test]
fn a_container_outlives_the_daemon_and_its_directory_does_not_outlive_it() {
    if !container::or_skip() {
        return;
    }
    let house = house();
    let script = "ccmux container notify before it; until [ -e go ]; do sleep 0.1; done; \
                  ccmux container notify after the restart; until [ -e end ]; do sleep 0.1; done";
    let running = container::spawn(&house, script);
    // A daemon that is killed before it answered starts no container.
    house.wait_for_notice_of("before it");
    let before = dirs(&house);
    assert_eq!(before.len(), 1, "{before:?}");
    house.kill9();
    house.start();
    house.wait_until("its socket", || before[0].join("ccmux.sock").exists());
    fs::write(house.proj().join("go"), "").unwrap();
    house.wait_for_notice_of("after the restart");
    house.stop();
    assert_eq!(dirs(&house), before, "the mount stays where it is");
    fs::write(house.proj().join("end"), "").unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    house.start();
    house.wait_until("the directory to go", || dirs(&house).is_empty());
}

#[test]
fn a_question_is_answered_by_the_next_daemon() {
    if !container::or_skip() {
        return;
    }
    let house = house();
    let asking = container::spawn(&house, "ccmux container ask --wait 120 Now or later?");
    house.wait_until("the question", || {
        listed(&house)["questions"].as_array().is_some_and(|all| all.len() == 1)
    });
    house.kill9();
    house.start();
    let question = listed(&house)["questions"][0]["id"].as_str().unwrap().to_owned();
    house.ccmux_ok(&["container", "answer", &question, "later"]);
    assert_eq!(end(asking), "later\n");
}

#[test]
fn who_is_killed_leaves_nothing_behind() {
    if !container::or_skip() {
        return;
    }
    let house = house();
    let mut running = container::spawn(&house, "sleep 600");
    house.wait_until("its directory", || dirs(&house).len() == 1);
    running.kill().unwrap();
    running.wait().unwrap();
    house.wait_until("the directory to go", || dirs(&house).is_empty());
    assert!(listed(&house)["containers"].as_array().is_none());
}

#[test]
fn signals_and_exit_codes_are_passed_on() {
    if !container::or_skip() {
        return;
    }
    let house = house();
    assert_eq!(house.run_to_end(container::run(&house, "exit 7")).status.code(), Some(7));
    let child = container::spawn(&house, "trap 'exit 9' TERM; echo up; while :; do sleep 0.1; done");
    house.wait_until("its directory", || dirs(&house).len() == 1);
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.code().is_some_and(|code| code != 0), "{output:?}");
    house.wait_until("the directory to go", || dirs(&house).is_empty());
}

#[test]
fn the_engines_words_are_shown_and_a_hint_follows() {
    if !container::or_skip() {
        return;
    }
    let house = house();
    let fails = container::run_with(&house, &["--image", "any", "--engine-arg=--stand-in-fails"], "true");
    let output = house.run_to_end(fails);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr.starts_with("Error: the stand-in was told to fail\nccmux: podman could not start"),
        "{stderr}"
    );
    let mut none = container::run(&house, "true");
    none.env("PATH", "/nowhere");
    let output = house.run_to_end(none);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && stderr.contains("--engine docker"), "{stderr}");
    assert!(dirs(&house).is_empty());
}

#[test]
fn the_first_run_makes_the_image_and_shows_it() {
    if !container::or_skip() {
        return;
    }
    let house = house();
    for (run, builds) in [(1, true), (2, false)] {
        let output = house.run_to_end(container::run_with(&house, &[], "echo ran"));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            stderr.contains("is made, once") && stderr.contains("STEP 1/6"),
            builds,
            "run {run}: {stderr}"
        );
        assert_eq!(container::text(output), "ran\n");
    }
    let built = fs::read_to_string(house.home().join("stand-in-image")).unwrap();
    assert!(built.contains("USER 1000:1000"), "{built}");
}

#[test]
fn a_dry_run_needs_neither_daemon_nor_engine_and_says_one_line() {
    let house = House::builder().build();
    let mut command = house.command(house.bin("ccmux"));
    command.env("PATH", "/nowhere").current_dir(house.proj()).args([
        "run",
        "--dry-run",
        "--",
        "-p",
        "it's; $(x)",
    ]);
    let output = house.run_to_end(command);
    let line = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    assert!(line.starts_with("podman run ") && line.lines().count() == 1, "{line}");
    assert!(line.contains(&format!("source={}/containers/", house.run_dir().display())), "{line}");
    let mut shell = house.command("bash");
    shell.args(["-c", &format!("podman() {{ printf '%s\\n' \"${{@: -1}}\"; }}; {line}")]);
    assert_eq!(container::text(house.run_to_end(shell)), "it's; $(x)\n");
    let mut home = house.command(house.bin("ccmux"));
    home.args(["run", "--dry-run"]);
    assert_eq!(house.run_to_end(home).status.code(), Some(4), "the home folder is no project");
}

#[test]
fn with_enforce_questions_a_prompt_brings_the_instruction() {
    if !container::or_skip() {
        return;
    }
    let prompt = "echo '{\"session_id\":\"s\",\"hook_event_name\":\"UserPromptSubmit\",\"prompt\":\"x\"}' | ccmux-hook";
    let house = House::builder().settings("enforce_questions = true\n").ready();
    let printed: Value = serde_json::from_str(&container::said(&house, prompt)).unwrap();
    let context = printed["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(context.contains("AskUserQuestion"), "{printed}");
    let plain = House::builder().ready();
    assert_eq!(container::said(&plain, prompt), "");
}

#[test]
fn with_enforce_questions_the_owned_session_is_told_too_and_foreign_ones_are_not() {
    let house = House::builder().settings("enforce_questions = true\n").ready();
    let token = fs::read_to_string(house.state_dir().join("session.token")).unwrap();
    let agent = house.status().agent.pid.unwrap().to_string();
    let printed = |token: &str| {
        let payload = json!({"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "x"});
        let mut shell = house.command("bash");
        let hook = house.path("hook/ccmux-hook");
        shell.args(["-c", &format!("echo '{payload}' | {}", hook.display())]);
        shell.env("CCMUX_SESSION_TOKEN", token).env("CLAUDE_PID", &agent);
        container::text(house.run_to_end(shell))
    };
    assert!(printed(token.trim()).contains("AskUserQuestion"));
    assert_eq!(printed("another"), "");
}

/// As on macOS: no socket, no program of ours.
#[test]
fn by_tcp_a_turns_end_is_told_with_the_token() {
    if !container::or_skip() {
        return;
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let house = House::builder()
        .settings(&into_a_file(&format!("{SETTINGS}[tcp]\nlisten = \"{free}\"\ntoken_file = \"~/token\"\n")))
        .file("home/token", "0123456789abcdef0123\n", 0o644)
        .build();
    let token = house.home().join("token");
    fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    house.start();
    house.wait_until("the port", || std::net::TcpStream::connect(free).is_ok());
    // The agent is another user here; elsewhere it has the user's own number.
    let readable = house.home().join("readable");
    fs::copy(&token, &readable).unwrap();
    fs::set_permissions(&readable, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let (to, file) = (free.to_string(), readable.display().to_string());
    let agent = house.path("tcp-agent");
    let script = "#!/bin/bash\nls /run/ccmux /opt/ccmux\ncommand=$(python3 -c 'import json, sys; \
                  print(json.load(open(sys.argv[1]))[\"hooks\"][\"Stop\"][0][\"hooks\"][0][\"command\"])' \"$2\")\nbash -c \"$command\"\n";
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let options = ["--image", "any", "--tcp", &to, "--token-file", &file];
    let mut command = container::run_agent(&house, &options, &agent, &["-p"]);
    command.env("WINDOWID", "4711");
    let seen = container::text(house.run_to_end(command));
    assert_eq!(seen, "/opt/ccmux:\ntold\n\n/run/ccmux:\ntoken\n");
    let told = house.wait_for_notice_of("Claude has finished its turn");
    assert_eq!((told["kind"].as_str(), told["session"].as_str()), (Some("reply"), Some("w-4711")));
}
