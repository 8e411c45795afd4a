//! Command lines that are taken, and what is said of those that are not.

use clap::CommandFactory;

use super::*;

#[test]
fn the_types_make_a_sound_command_line() {
    Arguments::command().debug_assert();
}

#[test]
fn only_the_said_command_hears_of_its_options() {
    let mut command = Arguments::command();
    let options = |command: &clap::Command, name: &str| {
        command
            .find_subcommand(name)
            .map(|found| found.get_arguments().filter(|arg| !arg.is_global_set()).count())
    };
    assert_eq!(options(&command, "notify"), Some(0));
    let _ = command.try_get_matches_from_mut(["ccmux", "notify", "x"]);
    assert!(options(&command, "notify") > Some(5));
    assert_eq!(options(&command, "send"), Some(0));
}

#[test]
fn options_may_stand_after_the_words() {
    let arguments =
        Arguments::try_parse_from(["ccmux", "send", "hello", "you", "--wait", "answered"]).unwrap();
    let Command::Send(Late(options)) = arguments.command else { panic!("{arguments:?}") };
    assert_eq!((options.text, options.wait), (vec!["hello".to_owned(), "you".to_owned()], Wait::Answered));
}

#[test]
fn a_time_has_a_unit() {
    for (text, seconds) in [("0", 0), ("30s", 30), ("20m", 1200), ("1h", 3600), ("2d", 172_800)] {
        assert_eq!(parse_time(text), Ok(Seconds(seconds)), "{text}");
    }
    for text in ["", "h", "1hh", "-1h", "1.5h", "1w"] {
        assert!(parse_time(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_wrong_with_an_argument_is_said_in_the_words_of_the_user() {
    for (line, words) in [
        (&["ccmux", "tail", "--since", "x"][..], "give the `seq` of a line"),
        (&["ccmux", "-i", "a/b", "status"], "an instance is named as a channel is: `/` is not allowed"),
        (&["ccmux", "adapter", "cron"], "<--file <CRONTAB>|--at <TIME> <TEXT>>"),
        (&["ccmux", "adapter", "cron", "-f", "x", "--at", "@daily", "y"], "cannot be used with"),
        (&["ccmux", "adapter", "cron", "-f", "x", "--catch-up", "-1h"], "unexpected argument"),
        (&["ccmux", "adapter", "cron", "-f", "x", "--catch-up=1.5h"], "give a whole number and s, m, h or d"),
        (&["ccmux", "adapter", "cron", "-f", "x", "--catch-up", "99999999999d"], "at most 31d"),
    ] {
        let error = Arguments::try_parse_from(line).unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().contains(words), "{line:?}: {error}");
    }
    let twice = ["ccmux", "adapter", "cron", "--at", "@daily", "x", "--at", "@hourly", "y"];
    Arguments::try_parse_from(twice).unwrap();
}

#[test]
fn a_bad_channel_or_instance_is_a_matter_of_usage() {
    for line in [["ccmux", "send", "-c", "a/b", "x"], ["ccmux", "-i", "../x", "send", "x"]] {
        assert_eq!(Arguments::try_parse_from(line).unwrap_err().exit_code(), 2);
    }
}
