//! The files under whatever may happen to them: torn lines, links, full disks, bells that are none. Real files and FIFOs.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ccmux_notify::bell::{DOORBELL, Rung};
use ccmux_notify::folder::{Folder, FolderError};
use ccmux_notify::listener::{self, Heard, Listening};
use ccmux_notify::note::{Note, NoteKind};
use ccmux_notify::question;
use ccmux_notify::queue::{self, TakeError};
use ccmux_notify::repository::Repository;
use tempfile::TempDir;

/// A place for notes; the repository around it is made by hand.
struct Place {
    dir: TempDir,
    folder: Folder,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["objects", "refs"] {
            fs::create_dir_all(dir.path().join(".git").join(name)).unwrap();
        }
        fs::write(dir.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let folder = Folder::open(&Repository::find(dir.path()).unwrap()).unwrap();
        Self { dir, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path_of(name)
    }

    fn again(&self) -> Result<Folder, FolderError> {
        Folder::open(&Repository::find(self.dir.path()).unwrap())
    }

    fn add(&self, msg: &str) -> String {
        let note = Note::new("a", NoteKind::Status, msg).unwrap();
        queue::add(&self.folder, &note).unwrap();
        note.id
    }

    fn take(&self) -> Vec<Note> {
        self.take_as("x")
    }

    fn take_as(&self, name: &str) -> Vec<Note> {
        let now = Some(Instant::now());
        match listener::listen(&self.folder, name, now, &mut Vec::new(), None).unwrap() {
            Heard::Notes(notes) => notes,
            _ => Vec::new(),
        }
    }
}

fn texts(notes: &[Note]) -> Vec<&str> {
    notes.iter().map(|note| note.msg.as_str()).collect()
}

/// Fails as a full disk or a reader that went would.
struct Broken;

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn notes_are_taken_once_and_in_order() {
    let place = Place::new();
    let ids: Vec<String> = ["one", "two", "three"].map(|msg| place.add(msg)).to_vec();
    let taken = place.take();
    assert_eq!(texts(&taken), ["one", "two", "three"]);
    assert_eq!(taken.iter().map(|note| note.id.clone()).collect::<Vec<_>>(), ids);
    assert_eq!(place.take(), []);
    assert_eq!(fs::metadata(place.path("queue.jsonl")).unwrap().len(), 0);
}

#[test]
fn what_could_not_be_printed_stays() {
    let place = Place::new();
    let id = place.add("keep me");
    let error = listener::listen(&place.folder, "x", None, &mut Broken, None).unwrap_err();
    assert!(matches!(error, TakeError::Output(_)), "{error}");
    assert_eq!(place.take()[0].id, id);
}

#[test]
fn a_torn_line_goes_and_the_old_ones_stay_whole() {
    let place = Place::new();
    place.add("before");
    let mut queue = fs::OpenOptions::new().append(true).open(place.path("queue.jsonl")).unwrap();
    queue.write_all(br#"{"id":"n-1","ts":"x","from":"a","type":"sta"#).unwrap();
    place.add("after");
    assert_eq!(texts(&place.take()), ["before", "after"]);
}

#[test]
fn a_whole_line_without_its_newline_and_a_line_that_is_no_note_are_kept() {
    let place = Place::new();
    let note = Note::new("hand", NoteKind::Status, "by hand").unwrap().to_line();
    fs::write(place.path("queue.jsonl"), format!("rubbish\n\n{}", note.trim_end())).unwrap();
    place.add("after");
    let taken = place.take();
    assert_eq!(texts(&taken), ["a line of the queue is no note: rubbish", "by hand", "after"]);
    assert_eq!(taken[0].kind, NoteKind::Error);
}

#[test]
fn a_note_for_one_name_waits_for_it_and_keeps_nobody_else_from_theirs() {
    let place = Place::new();
    place.add("for all");
    let note = Note { to: Some("worker".into()), ..Note::new("lead", NoteKind::Answer, "for you").unwrap() };
    queue::add(&place.folder, &note).unwrap();
    place.add("for all, too");
    assert_eq!(texts(&place.take_as("lead")), ["for all", "for all, too"]);
    assert_eq!(texts(&place.take_as("lead")), [""; 0]);
    assert_eq!(texts(&place.take_as("worker")), ["for you"]);
    assert_eq!(queue::waiting(&place.folder).unwrap(), []);
}

#[test]
fn whatever_stands_in_the_doorbells_place_a_listener_is_woken() {
    for what in ["nothing", "a file", "/dev/zero", "/nowhere"] {
        let place = Place::new();
        match what {
            "nothing" => {}
            "a file" => fs::write(place.path(DOORBELL), "x").unwrap(),
            target => symlink(target, place.path(DOORBELL)).unwrap(),
        }
        let folder = place.again().unwrap();
        let listening =
            thread::spawn(move || listener::listen(&folder, "x", limit(), &mut Vec::new(), None).unwrap());
        wait_until(|| {
            listener::status(&place.folder).unwrap() != Listening::Nobody && is_fifo(&place.path(DOORBELL))
        });
        place.add("wake up");
        let Heard::Notes(notes) = listening.join().unwrap() else { panic!("{what}: nobody was woken") };
        assert_eq!(texts(&notes), ["wake up"], "{what}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_doorbell_that_is_taken_away_is_hung_again() {
    let place = Place::new();
    let folder = place.again().unwrap();
    let listening =
        thread::spawn(move || listener::listen(&folder, "x", limit(), &mut Vec::new(), None).unwrap());
    for replace in [false, true] {
        wait_until(|| is_fifo(&place.path(DOORBELL)));
        fs::remove_file(place.path(DOORBELL)).unwrap();
        if replace {
            let _ = fs::write(place.path(DOORBELL), "a regular file");
        }
        wait_until(|| is_fifo(&place.path(DOORBELL)));
    }
    place.add("wake up");
    assert!(matches!(listening.join().unwrap(), Heard::Notes(_)));
}

/// Notes of who came after the directory was moved or removed are put in the one that stands in its place.
#[cfg(target_os = "linux")]
#[test]
fn who_listens_goes_on_where_notes_are_put_after_the_directory_was_moved_or_removed() {
    for what in ["mv .ccmux old", "mv .ccmux/notify old", "rm -rf .ccmux", "rm -rf .ccmux; mkdir .ccmux"] {
        let place = Place::new();
        let folder = place.again().unwrap();
        let listening =
            thread::spawn(move || listener::listen(&folder, "x", limit(), &mut Vec::new(), None).unwrap());
        wait_until(|| is_fifo(&place.path(DOORBELL)) && is_fifo(&place.path("doorbell.x")));
        // What is removed while the listener hangs a bell in it anew is not empty.
        wait_until(|| {
            let mut shell = std::process::Command::new("/bin/sh");
            shell.args(["-c", what]).current_dir(place.dir.path()).stderr(std::process::Stdio::null());
            let _ = shell.status().unwrap();
            !place.folder.is_in_place()
        });
        wait_until(|| is_fifo(&place.path(DOORBELL)) && is_fifo(&place.path("doorbell.x")));
        let here = place.again().unwrap();
        wait_until(|| listener::status(&here).unwrap() != Listening::Nobody);
        queue::add(&here, &Note::new("a", NoteKind::Status, "wake up").unwrap()).unwrap();
        let Heard::Notes(notes) = listening.join().unwrap() else { panic!("{what}: nobody was woken") };
        assert_eq!(texts(&notes), ["wake up"], "{what}");
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn who_listens_where_a_directory_can_not_be_made_anew_is_told() {
    let place = Place::new();
    let folder = place.again().unwrap();
    let listening = thread::spawn(move || listener::listen(&folder, "x", limit(), &mut Vec::new(), None));
    wait_until(|| is_fifo(&place.path(DOORBELL)) && is_fifo(&place.path("doorbell.x")));
    let [file, hidden] = ["file", ".ccmux"].map(|name| place.dir.path().join(name));
    fs::write(&file, "x").unwrap();
    let exchange = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
    nix::fcntl::renameat2(nix::fcntl::AT_FDCWD, &file, nix::fcntl::AT_FDCWD, &hidden, exchange).unwrap();
    let error = listening.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("/.ccmux is refused: it is a link, or no directory: remove it"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn who_waits_for_an_answer_is_told_when_its_question_was_moved_away() {
    use std::os::fd::AsFd;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    let place = Place::new();
    let (asked, _) = question::ask(&place.folder, "worker", "Which branch?").unwrap();
    let (folder, id) = (place.again().unwrap(), asked.id.clone());
    let (told, waiting) = mpsc::channel();
    thread::spawn(move || drop(told.send(question::closed(&folder, &id, None))));
    let bell = ccmux_notify::bell::bell_of(&asked.id);
    wait_until(|| is_fifo(&place.path(&bell)));
    ccmux_notify::bell::ring(&place.folder, &bell);
    let heard = fs::File::open(place.path(&bell)).unwrap();
    wait_until(|| {
        let mut rings = [PollFd::new(heard.as_fd(), PollFlags::POLLIN)];
        poll(&mut rings, PollTimeout::ZERO) == Ok(0)
    });
    // It took the ring under the lock: who gets that knows that it has looked, and sleeps.
    drop(place.folder.lock().unwrap());
    fs::rename(place.dir.path().join(".ccmux"), place.dir.path().join("old")).unwrap();
    let error = waiting.recv_timeout(Duration::from_secs(30)).unwrap().unwrap_err().to_string();
    assert!(error.contains(".ccmux/notify was moved or removed"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_listener_moves_with_its_repository() {
    let place = Place::new();
    let app = place.dir.path().join("app");
    fs::create_dir(&app).unwrap();
    fs::rename(place.dir.path().join(".git"), app.join(".git")).unwrap();
    let folder = Folder::open(&Repository::find(&app).unwrap()).unwrap();
    // The second one that it hangs.
    let bell = folder.path_of("doorbell.x");
    let listening =
        thread::spawn(move || listener::listen(&folder, "x", limit(), &mut Vec::new(), None).unwrap());
    wait_until(|| is_fifo(&bell));
    fs::rename(&app, place.dir.path().join("moved")).unwrap();
    let here = Folder::open(&Repository::find(&place.dir.path().join("moved")).unwrap()).unwrap();
    queue::add(&here, &Note::new("a", NoteKind::Status, "wake up").unwrap()).unwrap();
    assert!(matches!(listening.join().unwrap(), Heard::Notes(_)));
}

#[test]
fn ringing_waits_for_nobody() {
    let place = Place::new();
    let note = Note::new("a", NoteKind::Status, "x").unwrap();
    assert_eq!(queue::add(&place.folder, &note).unwrap(), Rung::Nobody);
    // A bell that is held by a process that does not listen, and full.
    nix::unistd::mkfifo(&place.path(DOORBELL), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let both = fs::OpenOptions::new().read(true).write(true).open(place.path(DOORBELL)).unwrap();
    for _ in 0..100 {
        assert_eq!(queue::add(&place.folder, &note).unwrap(), Rung::Heard);
    }
    drop(both);
}

#[test]
fn links_and_files_with_two_names_are_refused_and_what_they_lead_to_is_untouched() {
    let place = Place::new();
    let victim = place.dir.path().join("victim");
    let note = Note::new("a", NoteKind::Status, "x").unwrap();
    for hard in [false, true] {
        fs::write(&victim, "mine\n").unwrap();
        let _ = fs::remove_file(place.path("queue.jsonl"));
        match hard {
            false => symlink(&victim, place.path("queue.jsonl")).unwrap(),
            true => fs::hard_link(&victim, place.path("queue.jsonl")).unwrap(),
        }
        let error = queue::add(&place.folder, &note).unwrap_err();
        assert!(matches!(error, FolderError::Refused { .. }), "{error}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine\n");
    }
    let elsewhere = tempfile::tempdir().unwrap();
    fs::rename(place.dir.path().join(".ccmux"), elsewhere.path().join("moved")).unwrap();
    symlink(elsewhere.path().join("moved"), place.dir.path().join(".ccmux")).unwrap();
    let error = place.again().unwrap_err();
    assert!(matches!(&error, FolderError::Refused { why, .. } if why.contains("a link")), "{error}");
}

#[test]
fn the_place_is_private_and_kept_out_of_git_once() {
    let place = Place::new();
    for _ in 0..3 {
        place.again().unwrap();
    }
    assert_eq!(fs::read_to_string(place.dir.path().join(".git/info/exclude")).unwrap(), "/.ccmux/\n");
    assert_eq!(fs::metadata(place.folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
    fs::write(place.dir.path().join(".git/info/exclude"), "# mine").unwrap();
    place.again().unwrap();
    let exclude = fs::read_to_string(place.dir.path().join(".git/info/exclude")).unwrap();
    assert_eq!(exclude, "# mine\n/.ccmux/\n");
}

#[test]
fn an_exclude_file_that_is_a_fifo_is_not_waited_for() {
    let place = Place::new();
    let exclude = place.dir.path().join(".git/info/exclude");
    fs::remove_file(&exclude).unwrap();
    nix::unistd::mkfifo(&exclude, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (done, opened) = mpsc::channel();
    thread::spawn(move || done.send(place.again().is_ok()));
    assert_eq!(opened.recv_timeout(Duration::from_secs(30)), Ok(true));
}

#[test]
fn a_queue_that_nobody_takes_from_is_full_some_day() {
    let place = Place::new();
    let note = Note::new("a", NoteKind::Status, &"x".repeat(250_000)).unwrap();
    let error = (0..100).find_map(|_| queue::add(&place.folder, &note).err()).expect("it is never full");
    assert!(error.to_string().contains("ccmux notify --clear"), "{error}");
    assert!(fs::metadata(place.path("queue.jsonl")).unwrap().len() < 17 << 20);
    assert_eq!(queue::clear(&place.folder).unwrap().len(), 67);
    place.add("room again");
}

#[test]
fn a_stale_pid_file_is_nobody() {
    let place = Place::new();
    fs::write(place.path("listener.pid"), format!("{}\n", std::process::id())).unwrap();
    assert_eq!(listener::status(&place.folder).unwrap(), Listening::Nobody);
}

#[test]
fn an_answer_wakes_who_waits_and_is_a_note_for_who_does_not() {
    let place = Place::new();
    let (asked, _) = question::ask(&place.folder, "worker", "Which branch?").unwrap();
    assert_eq!(texts(&place.take()), ["Which branch?"]);
    let (folder, id) = (place.again().unwrap(), asked.id.clone());
    let waiting = thread::spawn(move || question::closed(&folder, &id, limit()).unwrap());
    wait_until(|| is_fifo(&place.path(&ccmux_notify::bell::bell_of(&asked.id))));
    question::answer(&place.folder, &asked.id, "lead", "main").unwrap();
    let answered = question::Standing::Answered { by: "lead".into(), answer: "main".into() };
    assert_eq!(waiting.join().unwrap().unwrap().standing, answered);
    let error = question::answer(&place.folder, &asked.id, "other", "dev").unwrap_err().to_string();
    assert!(error.contains("closed already by lead"), "{error}");

    let (asked, _) = question::ask(&place.folder, "worker", "And now?").unwrap();
    question::answer(&place.folder, &asked.id, "lead", "go on").unwrap();
    assert_eq!(texts(&place.take_as("lead")), ["And now?"]);
    let answer = place.take_as("worker").remove(0);
    assert_eq!((answer.kind, answer.question_id), (NoteKind::Answer, Some(asked.id)));
}

#[test]
fn closed_questions_go_some_day_and_open_ones_stay() {
    let place = Place::new();
    let (first, _) = question::ask(&place.folder, "a", "the first").unwrap();
    for _ in 0..6 {
        let (asked, _) = question::ask(&place.folder, "a", &"x".repeat(200_000)).unwrap();
        question::acknowledge(&place.folder, &asked.id, "b").unwrap();
        queue::clear(&place.folder).unwrap();
    }
    let (last, _) = question::ask(&place.folder, "a", "the last").unwrap();
    let left: Vec<String> = question::all(&place.folder).unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!((left.first(), left.last()), (Some(&first.id), Some(&last.id)));
    assert!(left.len() < 5, "{left:?}");
}

#[test]
fn an_answer_or_a_question_that_has_no_room_in_the_queue_is_none() {
    let place = Place::new();
    let (asked, _) = question::ask(&place.folder, "worker", "Which?").unwrap();
    let full = Note::new("a", NoteKind::Status, &"x".repeat(250_000)).unwrap();
    while queue::add(&place.folder, &full).is_ok() {}
    let long = "y".repeat(250_000);
    for _ in 0..2 {
        let error = question::answer(&place.folder, &asked.id, "lead", &long).unwrap_err().to_string();
        assert!(error.contains("is full"), "{error}");
    }
    assert!(question::ask(&place.folder, "worker", &long).is_err());
    let all = question::all(&place.folder).unwrap();
    assert_eq!((all.len(), &all[0].standing), (1, &question::Standing::Open));
    queue::clear(&place.folder).unwrap();
    question::answer(&place.folder, &asked.id, "lead", "main").unwrap();
    assert_eq!(texts(&place.take_as("worker")), ["main"]);
}

#[test]
fn an_answer_that_can_not_be_kept_is_no_note_either() {
    let place = Place::new();
    let (asked, _) = question::ask(&place.folder, "worker", "Which?").unwrap();
    place.take();
    let mut other = fs::OpenOptions::new().append(true).open(place.path("questions.jsonl")).unwrap();
    let open = "{\"id\":\"q-N\",\"ts\":\"\",\"from\":\"a\",\"text\":\"TEXT\"}\n"
        .replace("TEXT", &"x".repeat(250_000));
    for n in 0..68 {
        other.write_all(open.replace("q-N", &format!("q-{n}")).as_bytes()).unwrap();
    }
    assert!(question::answer(&place.folder, &asked.id, "lead", "main").is_err());
    assert_eq!(texts(&place.take_as("worker")), [""; 0]);
}

#[test]
fn a_closed_question_stays_as_long_as_its_asker_waits() {
    let place = Place::new();
    let (asked, _) = question::ask(&place.folder, "worker", "Which?").unwrap();
    // An asker that has not looked yet.
    let bell = place.path(&ccmux_notify::bell::bell_of(&asked.id));
    nix::unistd::mkfifo(&bell, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let held = fs::OpenOptions::new().read(true).write(true).open(&bell).unwrap();
    question::answer(&place.folder, &asked.id, "lead", "main").unwrap();
    let grow = || {
        for _ in 0..6 {
            let (asked, _) = question::ask(&place.folder, "a", &"x".repeat(200_000)).unwrap();
            question::acknowledge(&place.folder, &asked.id, "b").unwrap();
        }
        queue::clear(&place.folder).unwrap();
    };
    grow();
    let found = question::closed(&place.folder, &asked.id, Some(Instant::now())).unwrap().unwrap();
    let answered = question::Standing::Answered { by: "lead".into(), answer: "main".into() };
    assert_eq!(found.standing, answered);
    drop(held);
    grow();
    let error = question::closed(&place.folder, &asked.id, Some(Instant::now())).unwrap_err();
    assert!(error.to_string().contains("tidied away"), "{error}");
}

#[test]
fn where_no_second_file_can_be_made_notes_are_taken_once_all_the_same() {
    let place = Place::new();
    let note = Note { to: Some("worker".into()), ..Note::new("lead", NoteKind::Answer, "for you").unwrap() };
    place.add("before");
    queue::add(&place.folder, &note).unwrap();
    place.add("after");
    fs::create_dir(place.path("queue.jsonl.new")).unwrap();
    assert_eq!(texts(&place.take()), ["before", "after"]);
    assert_eq!(texts(&place.take()), [""; 0]);
    assert_eq!(fs::read_to_string(place.path("queue.jsonl")).unwrap(), note.to_line());
    assert_eq!(texts(&place.take_as("worker")), ["for you"]);
}

/// No file of that process can grow.
#[test]
fn a_listener_without_room_for_its_number_takes_notes() {
    if let Some(dir) = std::env::var_os("CCMUX_TEST_NO_ROOM") {
        let folder = Folder::open(&Repository::find(Path::new(&dir)).unwrap()).unwrap();
        let heard = listener::listen(&folder, "x", limit(), &mut Vec::new(), None).unwrap();
        assert!(matches!(heard, Heard::Notes(_)));
        return;
    }
    let place = Place::new();
    place.add("take me");
    let shell =
        "trap '' XFSZ; ulimit -f 0; exec \"$0\" --exact a_listener_without_room_for_its_number_takes_notes";
    let mut again = std::process::Command::new("/bin/sh");
    again.args(["-c", shell]).arg(std::env::current_exe().unwrap());
    let output = again.env("CCMUX_TEST_NO_ROOM", place.dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    assert_eq!(place.take(), []);
}

#[test]
fn a_directory_in_a_files_place_is_named() {
    for name in [DOORBELL, "queue.jsonl"] {
        let place = Place::new();
        fs::create_dir(place.path(name)).unwrap();
        let now = Some(Instant::now());
        let error = listener::listen(&place.folder, "x", now, &mut Vec::new(), None).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("a directory: remove it"), "{error}");
    }
}

fn limit() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(30))
}

fn is_fifo(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

fn wait_until(mut fact: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !fact() {
        assert!(Instant::now() < end, "waited in vain");
        thread::sleep(Duration::from_millis(5));
    }
}
