//! What is refused before a byte of it is read.

use super::*;

/// Opens the path, which must be refused at once.
fn assert_refused(projects: &Projects, path: &Path, word: &str) {
    let begun = Instant::now();
    let refused = open_transcript(path, projects.dir.path()).unwrap_err();
    assert!(begun.elapsed() < Duration::from_millis(200));
    assert!(matches!(refused, TranscriptError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains(word), "{refused}");
}

/// Field fault 26.
#[test]
fn only_regular_files_of_ours_in_the_directory_are_opened() {
    let projects = Projects::new();
    let at = |name: &str| projects.dir.path().join("-home-u-proj").join(name);
    nix::unistd::mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
    assert_refused(&projects, &at("fifo"), "a FIFO");
    fs::create_dir(at("dir")).unwrap();
    assert_refused(&projects, &at("dir"), "a directory");
    symlink("/dev/zero", at("zero")).unwrap();
    assert_refused(&projects, &at("zero"), "a symbolic link");
    assert_refused(&projects, Path::new("/dev/zero"), "not beneath");
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("t.jsonl"), "").unwrap();
    assert_refused(&projects, &outside.path().join("t.jsonl"), "not beneath");
    symlink(outside.path(), at("out")).unwrap();
    assert_refused(&projects, &at("out").join("t.jsonl"), "not beneath");
    assert_refused(
        &projects,
        &at("..").join("..").join(outside.path().file_name().unwrap()).join("t.jsonl"),
        "not",
    );
    symlink(outside.path().join("t.jsonl"), at("link")).unwrap();
    assert_refused(&projects, &at("link"), "a symbolic link");
    let missing = open_transcript(&at("missing"), projects.dir.path());
    assert!(matches!(missing, Err(TranscriptError::Missing { .. })));
    if nix::unistd::geteuid().is_root() {
        fs::write(at("foreign"), "").unwrap();
        std::os::unix::fs::chown(at("foreign"), Some(12345), None).unwrap();
        assert_refused(&projects, &at("foreign"), "belongs to uid 12345");
    }
    fs::write(at("fine"), "").unwrap();
    open_transcript(&at("fine"), projects.dir.path()).unwrap();
}

#[test]
fn a_projects_directory_behind_a_link_is_the_directory() {
    let projects = Projects::new();
    projects.append(&[]);
    let elsewhere = TempDir::new().unwrap();
    let link = elsewhere.path().join("projects");
    symlink(projects.dir.path(), &link).unwrap();
    open_transcript(&link.join("-home-u-proj/session.jsonl"), &link).unwrap();
    open_transcript(&projects.transcript(), &link).unwrap();
}

/// Field fault 26.
#[test]
fn a_sparse_file_of_5_gb_is_given_up_in_bounded_time() {
    let projects = Projects::new();
    File::create(projects.transcript()).unwrap().set_len(5 << 30).unwrap();
    let start = Cursor::start_of(&projects.transcript());
    let begun = Instant::now();
    let request = TurnRequest { catch_up: Duration::from_secs(5), ..request(Some("P"), Some("words")) };
    let read = projects.reader().read_turn(&start, &request).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(the_turn(&read).partial);
    assert_eq!(texts(the_turn(&read)), ["words"]);
}
