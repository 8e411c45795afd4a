//! Settings from files, variables and flags: which wins, and what is said of those that can't be used.

use super::*;

fn with_file(text: &str) -> Result<Loaded, SettingsError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.toml");
    std::fs::write(&file, text).unwrap();
    load(&Sources { file: Some(file), ..Sources::default() })
}

fn with_variables(variables: &[(&str, &str)]) -> Result<Loaded, SettingsError> {
    let environment = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    load(&Sources { environment, ..Sources::default() })
}

#[test]
fn later_sources_win_and_origins_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.toml");
    std::fs::write(&file, "idle_threshold = 5\nsilence_timeout = 7.5\n[agent]\ncommand = \"a\"\n").unwrap();
    let environment = BTreeMap::from([("CCMUX_IDLE_THRESHOLD".to_owned(), "2".to_owned())]);
    let flags = vec![("agent.command".to_owned(), "b c".to_owned())];
    let loaded = load(&Sources { file: Some(file.clone()), environment, flags, instance: None }).unwrap();
    assert_eq!(loaded.settings.idle_threshold, 2.0);
    assert_eq!(loaded.settings.silence_timeout, 7.5);
    assert_eq!(loaded.settings.agent.command, "b c");
    assert_eq!(loaded.origins["idle_threshold"], "CCMUX_IDLE_THRESHOLD");
    assert_eq!(loaded.origins["silence_timeout"], file.display().to_string());
    assert_eq!(loaded.origins["agent.command"], "--set agent.command");
    assert_eq!(loaded.origins["backoff.cap"], "default");
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_nearest() {
    let error = with_file("[agent]\ncomand = \"x\"\n").unwrap_err().to_string();
    assert!(error.contains("agent.comand") && error.contains("did you mean `agent.command`"), "{error}");
    let error = with_file("idle_treshold = 3\n").unwrap_err().to_string();
    assert!(error.contains("did you mean `idle_threshold`"), "{error}");
}

#[test]
fn a_value_of_the_wrong_type_names_key_and_origin() {
    let error = with_file("idle_threshold = \"soon\"\n").unwrap_err().to_string();
    assert!(error.contains("idle_threshold") && error.contains("my.toml"), "{error}");
    let error = with_variables(&[("CCMUX_IDLE_THRESHOLD", "soon")]).unwrap_err().to_string();
    assert!(error.contains("CCMUX_IDLE_THRESHOLD") && error.contains("soon"), "{error}");
}

#[test]
fn a_value_that_cannot_be_used_names_its_file_or_variable() {
    let error = with_file("[log]\nlevel = \"loud\"\n").unwrap_err().to_string();
    assert!(error.contains("my.toml: `log.level`: use error"), "{error}");
    let error = with_variables(&[("CCMUX_IDLE_THRESHOLD", "-1")]).unwrap_err().to_string();
    assert!(error.starts_with("CCMUX_IDLE_THRESHOLD: `idle_threshold`: give seconds"), "{error}");
    let error = with_file("[channels.x]\nttl = -1\n").unwrap_err().to_string();
    assert!(error.contains("my.toml: `channels.x.ttl`"), "{error}");
}

#[test]
fn what_is_wanted_is_said_in_plain_words() {
    for (text, words) in [
        ("idle_threshold = \"soon\"", "found string \"soon\"; give a number, such as 2 or 0.5"),
        ("stop_agent_on_exit = \"yes\"", "give true or false, without quotes"),
        ("tmux_session = 3", "found 3; give a text in quotes"),
        ("[mcp]\nport = \"x\"", "give a whole number from 0 to 65535"),
        ("[mcp]\nport = 70000", "found 70000; give a whole number from 0 to 65535"),
        ("[channels.x]\npriority = 3000000000", "give a whole number from -2147483648 to 2147483647"),
        ("[routes.x]\ntype = \"pigeon\"", "there is no `pigeon`; give one of command, webhook"),
        ("[routes.x]\ntype = \"ntfy\"\nsize = 9", "there is no key `size` here; give one of url, "),
        ("[attention.reply]\nsteps = [{ after = 1 }]", "the key `routes` is missing"),
        ("[retention]\ndays = -1", "`retention.days`: found -1; give a whole number, not below 0"),
        ("agent = 3", "agent"),
    ] {
        let error = with_file(&format!("{text}\n")).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn broken_toml_is_one_line_with_the_file() {
    let error = with_file("idle_threshold = = 3\n").unwrap_err().to_string();
    assert!(error.contains("my.toml") && !error.contains('\n'), "{error}");
}

#[test]
fn other_variables_are_ignored_and_a_near_miss_warns() {
    let loaded = with_variables(&[("CCMUX_SESSION_TOKEN", "x"), ("CCMUX_IDLE_TRESHOLD", "1")]).unwrap();
    assert_eq!(loaded.settings.idle_threshold, 30.0);
    assert_eq!(loaded.warnings.len(), 1);
    assert!(loaded.warnings[0].contains("CCMUX_IDLE_THRESHOLD"), "{:?}", loaded.warnings);
}

#[test]
fn a_variable_does_not_move_an_instance() {
    let environment = |name: &str| BTreeMap::from([(name.to_owned(), "/elsewhere".to_owned())]);
    let instance = Some("work".parse().unwrap());
    let sources = Sources { instance, environment: environment("CCMUX_STATE_DIR"), ..Sources::default() };
    let loaded = load(&sources).unwrap();
    assert_eq!(loaded.settings.state_dir, "~/.local/state/ccmux-work");
    assert!(loaded.warnings[0].contains("--set state_dir="), "{:?}", loaded.warnings);
    let flags = vec![("state_dir".to_owned(), "/there".to_owned())];
    assert_eq!(load(&Sources { flags, ..sources }).unwrap().settings.state_dir, "/there");
    let others = Sources { environment: environment("CCMUX_AGENT_CWD"), ..Sources::default() };
    assert_eq!(load(&others).unwrap().settings.agent.cwd, "/elsewhere");
}

#[test]
fn a_settings_file_that_cannot_be_read_is_an_error_and_one_that_is_not_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().display().to_string();
    let sources = Sources { environment: BTreeMap::from([("HOME".to_owned(), home)]), ..Sources::default() };
    load(&sources).unwrap();
    std::fs::write(folder.path().join(".config"), "no folder").unwrap();
    load(&sources).unwrap();
    std::fs::remove_file(folder.path().join(".config")).unwrap();
    std::fs::create_dir_all(folder.path().join(".config/ccmux/ccmux.toml")).unwrap();
    let error = load(&sources).unwrap_err().to_string();
    assert!(error.contains(".config/ccmux/ccmux.toml: "), "{error}");
    std::fs::remove_dir(folder.path().join(".config/ccmux/ccmux.toml")).unwrap();
    std::os::unix::fs::symlink("/dev/null", folder.path().join(".config/ccmux/ccmux.toml")).unwrap();
    load(&sources).unwrap();
}

/// A secret may stand there.
#[test]
fn an_error_of_the_form_says_where_and_why_and_shows_no_line() {
    let error = with_file("[log]\nlevel = \"info\"\ntoken = \"sesame").unwrap_err().to_string();
    assert!(error.contains("line 3, column ") && error.contains("string"), "{error}");
    assert!(!error.contains("sesame") && !error.contains('|'), "{error}");
}

#[test]
fn a_named_file_must_exist() {
    let error = load(&Sources { file: Some("/nowhere/x.toml".into()), ..Sources::default() }).unwrap_err();
    assert!(error.to_string().contains("/nowhere/x.toml"));
}

#[test]
fn a_channels_policy_has_defaults_and_names_of_its_own() {
    let text = "[channels.phone]\npriority = 3\nttl = 1.5\n[channels.\"a.b\"]\nallowed = [\"ann\"]\nformat = \"json\"\n";
    let settings = with_file(text).unwrap().settings;
    let phone = &settings.channels[&"phone".parse().unwrap()];
    assert_eq!((phone.priority, phone.ttl, phone.wait), (3, 1.5, None));
    let other = &settings.channels[&"a.b".parse().unwrap()];
    assert_eq!((other.allowed.as_slice(), other.priority), (["ann".to_owned()].as_slice(), 0));
    assert!(with_file("[agent]\ncwd = \"/x\"\n").unwrap().settings.channels.is_empty());
}

#[test]
fn what_is_wrong_with_a_channels_policy_is_named() {
    let error = |text: &str| with_file(text).unwrap_err().to_string();
    let unknown = error("[channels.phone]\npriorty = 3\n");
    assert!(
        unknown.contains("channels.phone.priorty") && unknown.contains("`channels.NAME.priority`"),
        "{unknown}"
    );
    let name = error("[channels.\"a b\"]\nttl = 3\n");
    assert!(name.contains("a b") && name.contains("channel name"), "{name}");
    let dotted = error("[channels.a.b]\nttl = 3\n");
    assert!(dotted.contains("channels.a.b"), "{dotted}");
    let kind = error("[channels.phone]\nformat = \"xml\"\n");
    assert!(kind.contains("channels.phone.format"), "{kind}");
    let value = error("[channels.phone]\nttl = -3\n");
    assert!(value.contains("channels.phone.ttl"), "{value}");
    assert!(error("channels = 3\n").contains("channels"));
}

#[test]
fn a_key_within_agent_env_is_free() {
    let loaded = with_file("[agent.env]\nANYTHING = \"1\"\n").unwrap();
    assert_eq!(loaded.settings.agent.env["ANYTHING"], "1");
}

#[test]
fn the_reminders_variables_count_by_both_names_and_the_newer_one_wins() {
    let threshold =
        |variables: &[(&str, &str)]| with_variables(variables).unwrap().settings.attention.reply.after;
    assert_eq!(threshold(&[]), 15.0);
    assert_eq!(threshold(&[("CCMUX_NOTIFICATION_THRESHOLD", "4")]), 4.0);
    assert_eq!(threshold(&[("CLAUDE_NOTIFICATION_THRESHOLD", "5")]), 5.0);
    let both = [("CLAUDE_NOTIFICATION_THRESHOLD", "5"), ("CCMUX_NOTIFICATION_THRESHOLD", "4")];
    assert_eq!(threshold(&both), 4.0);
    assert!(!with_variables(&[("CLAUDE_NOTIFICATION_ENABLED", "0")]).unwrap().settings.attention.enabled);
}

#[test]
fn a_route_has_the_keys_of_its_type() {
    let text = "[routes.a]\ntype = \"command\"\nargv = [\"x\"]\n[attention.reply]\nroutes = [\"a\"]\n";
    let settings = with_file(text).unwrap().settings;
    assert_eq!(settings.attention.reply.routes, ["a"]);
    assert_eq!(settings.attention.reply.after, 15.0, "what is not said keeps its default");
    let error = |text: &str| with_file(text).unwrap_err().to_string();
    let unknown = error("[routes.a]\ntype = \"command\"\nargv = [\"x\"]\nurl = \"y\"\n");
    assert!(unknown.contains("routes.a") && unknown.contains("url"), "{unknown}");
    let pigeon = error("[routes.a]\ntype = \"pigeon\"\n");
    assert!(pigeon.contains("routes.a") && pigeon.contains("pigeon"), "{pigeon}");
    let kind = error("[attention.reply]\nafterr = 3\n");
    assert!(kind.contains("attention.reply.after"), "{kind}");
}
