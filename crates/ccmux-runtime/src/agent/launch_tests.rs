//! Launch files and the launcher, with real processes.

use super::*;

use std::os::unix::fs::symlink;
use std::process::Output;

fn launch(argv: &[&str], cwd: &Path) -> LaunchFile {
    LaunchFile {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: BTreeMap::from([
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("A".to_owned(), "ä\n;b".to_owned()),
        ]),
        cwd: cwd.to_owned(),
        descriptors: None,
    }
}

/// `run_launch` in a process of its own: this test binary, told to run only [`the_launcher_of_these_tests`].
fn launcher(file: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command
        .args(["--exact", "agent::launch::tests::the_launcher_of_these_tests", "--nocapture", "-q"])
        .env("LAUNCH_FILE", file)
        .env("TERM", "tmux-256color")
        .env("TMUX_PANE", "%7")
        .env("LEFT_BY_AN_OLD_SERVER", "1");
    command
}

fn in_a_process(file: &Path) -> Output {
    launcher(file).output().expect("it runs")
}

#[test]
fn the_launcher_of_these_tests() {
    let file = std::env::var_os("LAUNCH_FILE").unwrap_or_else(|| "/nonexistent/launch-file".into());
    let error = run_launch(Path::new(&file));
    if std::env::var_os("LAUNCH_FILE").is_some() {
        eprintln!("ccmuxd: {error}");
        std::process::exit(error.exit_code().into());
    }
    assert!(matches!(error, LaunchError::Read { .. }), "{error}");
}

#[test]
fn the_program_gets_the_descriptors_that_the_daemon_was_given() {
    let dir = tempfile::tempdir().expect("a directory");
    let limited = LaunchFile { descriptors: Some(123), ..launch(&["sh", "-c", "ulimit -S -n"], dir.path()) };
    let file = write(dir.path(), &limited).expect("written");
    let printed = String::from_utf8(in_a_process(&file).stdout).expect("text");
    assert!(printed.lines().any(|line| line == "123"), "{printed}");
}

#[test]
fn the_program_gets_exactly_the_environment_and_what_the_pane_says() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = write(dir.path(), &launch(&["env", "-0"], dir.path())).expect("written");
    let output = in_a_process(&file);
    let printed = String::from_utf8(output.stdout).expect("text");
    let (_, printed) = printed.split_once("running 1 test\n").unwrap_or(("", &printed));
    let mut lines: Vec<&str> =
        printed.split('\0').filter(|line| !line.is_empty()).map(str::trim_start).collect();
    lines.sort_unstable();
    let pwd = format!("PWD={}", dir.path().display());
    let expected = ["A=ä\n;b", "PATH=/usr/bin:/bin", &pwd, "TERM=tmux-256color", "TMUX_PANE=%7"];
    // The harness of this test runs in tmux or not, with colours or not: those two are the pane's own.
    lines.retain(|line| !["TMUX=", "COLORTERM=", "TERM_PROGRAM"].iter().any(|own| line.starts_with(own)));
    assert_eq!(lines, expected);
    assert!(!file.exists(), "the file is gone before the program runs");
}

#[cfg(target_os = "linux")]
#[test]
fn the_program_is_the_same_process_with_no_signal_ignored_or_blocked() {
    let dir = tempfile::tempdir().expect("a directory");
    let argv = ["grep", "-E", "^(Pid|SigBlk|SigIgn):", "/proc/self/status"];
    let file = write(dir.path(), &launch(&argv, dir.path())).expect("written");
    let child = launcher(&file).stdout(std::process::Stdio::piped()).spawn().expect("it runs");
    let pid = child.id();
    let printed = String::from_utf8(child.wait_with_output().expect("it ends").stdout).expect("text");
    assert!(printed.contains(&format!("Pid:\t{pid}\n")), "{printed}");
    let sets: Vec<&str> =
        printed.lines().filter_map(|line| line.strip_prefix("Sig")?.split('\t').nth(1)).collect();
    assert_eq!(sets.len(), 2, "{printed}");
    for set in sets {
        // 32 and 33 are the C library's own: nobody can set them.
        let signals = u64::from_str_radix(set, 16).expect("a mask") & 0x7fff_ffff;
        assert_eq!(signals, 0, "{printed}");
    }
}

#[test]
fn the_program_starts_in_its_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = write(dir.path(), &launch(&["pwd", "-P"], dir.path())).expect("written");
    let printed = String::from_utf8(in_a_process(&file).stdout).expect("text");
    let place = dir.path().canonicalize().expect("a path");
    assert_eq!(printed.lines().last(), place.to_str());
}

#[test]
fn a_program_that_is_not_there_is_127_and_one_that_cannot_run_is_126() {
    let dir = tempfile::tempdir().expect("a directory");
    let plain = dir.path().join("plain");
    fs::write(&plain, "x").expect("written");
    let plain = plain.to_string_lossy().into_owned();
    let cases = [
        (launch(&["no-such-agent"], dir.path()), 127, "no-such-agent"),
        (launch(&["/no/such/agent"], dir.path()), 127, "/no/such/agent"),
        (launch(&[&plain], dir.path()), 126, "plain"),
        (launch(&["true"], &dir.path().join("gone")), 126, "agent.cwd"),
    ];
    for (launch, code, named) in cases {
        let file = write(dir.path(), &launch).expect("written");
        let output = in_a_process(&file);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(named) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_file_that_is_not_the_daemons_is_refused_and_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = write(dir.path(), &launch(&["true"], dir.path())).expect("written");
    let link = dir.path().join("link");
    symlink(&file, &link).expect("a link");
    assert!(matches!(run_launch(&link), LaunchError::Read { .. }));

    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("a mode");
    let error = run_launch(&file).to_string();
    assert!(error.contains("0640"), "{error}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");

    let second = dir.path().join("second");
    fs::hard_link(&file, &second).expect("a link");
    assert!(run_launch(&file).to_string().contains("2 links"));
    fs::remove_file(second).expect("removed");
    assert!(file.exists());

    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).expect("a fifo");
    assert!(run_launch(&fifo).to_string().contains("not a regular file"));
}

#[test]
fn a_file_that_nobody_read_goes_with_the_next_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let old = write(dir.path(), &launch(&["true"], dir.path())).expect("written");
    let new = write(dir.path(), &launch(&["true"], dir.path())).expect("written");
    assert!(!old.exists() && new.exists());
    assert_eq!(fs::metadata(&new).expect("there").permissions().mode() & 0o7777, 0o600);
}

#[test]
fn marks_of_a_parent_agent_and_words_for_the_daemon_are_scrubbed_and_the_users_settings_stay() {
    let keep = [
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_DISABLE_MOUSE",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CONFIG_DIR",
        "HOME",
        "HTTPS_PROXY",
        "LANG",
        "TMUX_TMPDIR",
    ];
    let names =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/hooks/_env_names.json"))
            .expect("the fixture");
    let names: BTreeMap<String, Vec<String>> = serde_json::from_str(&names).expect("names");
    let mut scrub: Vec<String> = names.into_values().flatten().collect();
    scrub.retain(|name| !keep.contains(&name.as_str()));
    let ours =
        ["NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_FDNAMES", "TMUX", "TMUX_PANE", "TERM"];
    scrub.extend(ours.map(str::to_owned));
    scrub.extend(["CCMUX_MCP_PORT", "CLAUDE_CODE_MESSAGING_TOKEN"].map(str::to_owned));
    let all = keep.iter().map(|name| (*name).to_owned()).chain(scrub);
    let left = scrubbed_environment(all.map(|name| (name.into(), "x".into())));
    assert_eq!(left.into_keys().collect::<Vec<_>>(), keep);
}
