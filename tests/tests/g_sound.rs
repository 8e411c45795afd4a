//! Notices that are heard: programs that record what they are given, and a real voice.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::thread;

use ccmux_tests::{House, HouseBuilder, binaries};

/// Writes down its arguments, one a line.
const RECORDS: &str = "#!/bin/sh\nfor word; do echo \"$word\"; done >> ~/\"${0##*/}.heard\"\n";
const FAILS: &str = "#!/bin/sh\nexit 1\n";

/// Programs of the home folder come before all others.
fn house_with(programs: &[(&str, &str)], settings: &str) -> HouseBuilder {
    let path = std::env::var("PATH").unwrap();
    let house = House::builder().settings(settings);
    let house = house.env("PATH", format!("{{dir}}/home:{}:{path}", binaries::folder().display()));
    programs.iter().fold(house, |house, (name, text)| house.file(&format!("home/{name}"), text, 0o755))
}

fn heard(house: &House, program: &str) -> Vec<String> {
    let text = fs::read_to_string(house.home().join(format!("{program}.heard"))).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Acceptance G3.
#[test]
fn each_kind_has_its_word_or_its_file_and_no_text_from_outside_is_spoken() {
    let settings = "[routes.voice]\ntype = \"sound\"\n[attention]\nroutes = [\"voice\"]\n\
                    [attention.reply]\nafter = 60\n[attention.permission]\nafter = 0\n";
    let house = house_with(&[("spd-say", RECORDS)], settings).ready();
    house.write("in.t", "perm: echo $(reboot)\n");
    house.wait_until("the word", || heard(&house, "spd-say") == ["--wait", "--", "needs input"]);
    house.ccmux_ok(&["notify", "--test", "voice"]);
    assert_eq!(heard(&house, "spd-say")[3..], ["--wait", "--", "info"]);
    let settings = "[routes.a]\ntype = \"sound\"\nfile = \"~/a b.wav\"\n\
                    [routes.b]\ntype = \"sound\"\ntexts = { message = \"-x $(reboot)\" }\n\
                    [routes.c]\ntype = \"sound\"\nfile = \"~/a b.wav\"\nfiles = { message = \"/b.wav\" }\n";
    let house = house_with(&[("spd-say", RECORDS), ("paplay", RECORDS)], settings).ready();
    for route in ["a", "b", "c"] {
        house.ccmux_ok(&["notify", "--test", route]);
    }
    let file = house.home().join("a b.wav").display().to_string();
    assert_eq!(heard(&house, "paplay"), ["--", &file, "--", "/b.wav"]);
    assert_eq!(heard(&house, "spd-say"), ["--wait", "--", "-x $(reboot)"]);
}

#[test]
fn a_program_that_fails_is_followed_by_the_next_and_none_at_all_names_them() {
    let settings = "[routes.voice]\ntype = \"sound\"\n[routes.file]\ntype = \"sound\"\nfile = \"/x.wav\"\n";
    let programs = [("spd-say", FAILS), ("espeak-ng", RECORDS), ("say", RECORDS)];
    let house = house_with(&programs, settings).ready();
    house.ccmux_ok(&["notify", "--test", "voice"]);
    assert_eq!(
        (heard(&house, "espeak-ng"), heard(&house, "say").len()),
        (vec!["--".into(), "info".into()], 0)
    );
    let silent = house_with(&[], settings).ready();
    silent.stop();
    // tmux and the agent are there; what makes sounds is not.
    let only = silent.path("only");
    fs::create_dir(&only).unwrap();
    let tmux = binaries::in_path("tmux").expect("tmux must be installed");
    std::os::unix::fs::symlink(tmux, only.join("tmux")).unwrap();
    silent.start_with(&[("PATH", only.to_str().unwrap())]);
    for (route, names) in [("voice", "spd-say, espeak-ng, say"), ("file", "paplay, aplay, afplay")] {
        let why = String::from_utf8_lossy(&silent.ccmux(&["notify", "--test", route]).stderr).into_owned();
        assert!(why.contains(names), "{why}");
    }
}

#[test]
fn a_voice_that_hangs_is_ended_and_the_next_one_speaks() {
    let hangs = "#!/bin/sh\nsleep 600 & echo $! > ~/hangs; wait\n";
    let programs = [("spd-say", hangs), ("espeak-ng", RECORDS)];
    let house = house_with(&programs, "[routes.voice]\ntype = \"sound\"\n").ready();
    house.ccmux_ok(&["notify", "--test", "voice"]);
    assert_eq!(heard(&house, "espeak-ng"), ["--", "info"]);
    wait_until_gone(&house, "hangs");
}

#[test]
fn a_long_sound_is_played_to_its_end_once() {
    let long = format!("{RECORDS}sleep 6; echo end >> ~/paplay.heard\n");
    let settings = "[routes.file]\ntype = \"sound\"\nfile = \"/x.wav\"\n";
    let house = house_with(&[("paplay", &long), ("aplay", RECORDS)], settings).ready();
    house.ccmux_ok(&["notify", "--test", "file"]);
    assert_eq!(
        (heard(&house, "paplay").join(" "), heard(&house, "aplay").len()),
        ("-- /x.wav end".into(), 0)
    );
}

#[test]
fn the_next_sound_takes_the_place_of_one_that_plays_on() {
    let first_plays_on = "#!/bin/sh\n[ -e ~/plays ] && exit 0\necho $$ > ~/plays; exec sleep 600\n";
    let settings = "[routes.file]\ntype = \"sound\"\nfile = \"/x.wav\"\n";
    let house = house_with(&[("paplay", first_plays_on)], settings).ready();
    thread::scope(|scope| {
        let first = scope.spawn(|| house.ccmux_ok(&["notify", "--test", "file"]));
        let plays = || fs::read_to_string(house.home().join("plays"));
        house.wait_until("the first sound", || plays().is_ok_and(|pid| pid.ends_with('\n')));
        house.wait_until("the place of the first sound", || {
            house.ccmux_ok(&["notify", "--test", "file"]);
            first.is_finished()
        });
    });
    wait_until_gone(&house, "plays");
}

/// The process whose number is in that file of the home folder has ended.
fn wait_until_gone(house: &House, file: &str) {
    let pid = fs::read_to_string(house.home().join(file)).unwrap();
    let state = || fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    house.wait_until("its end", || state().is_empty() || state().contains(") Z "));
}

/// Acceptance G3.
#[test]
fn a_real_voice_says_it() {
    let Some(espeak) = binaries::in_path("espeak-ng") else {
        assert!(std::env::var_os("CI").is_none(), "espeak-ng is not installed");
        return println!("skipped: espeak-ng is not installed");
    };
    // The machine may have no loudspeaker: what would be heard goes into a file.
    let voice = format!("#!/bin/sh\nexec '{}' -w ~/said.wav \"$@\"\n", espeak.display());
    let settings = "[routes.voice]\ntype = \"sound\"\n";
    let house = house_with(&[("spd-say", FAILS), ("espeak-ng", &voice)], settings).ready();
    house.ccmux_ok(&["notify", "--test", "voice"]);
    let wave = fs::read(house.home().join("said.wav")).unwrap();
    assert!(wave.starts_with(b"RIFF") && wave.len() > 10_000, "{} bytes", wave.len());
    let is_loud = |sample: &[u8]| i16::from_le_bytes([sample[0], sample[1]]).unsigned_abs() > 1000;
    assert!(wave[44..].chunks_exact(2).filter(|sample| is_loud(sample)).count() > 1000, "it is silent");
}
