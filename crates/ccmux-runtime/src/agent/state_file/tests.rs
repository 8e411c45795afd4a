//! Real directories, and the files as they were seen in the field.

use std::fs;

use tempfile::TempDir;
use tokio::time::timeout;

use super::*;

const LIMIT: Duration = Duration::from_secs(10);
/// As in the fixtures.
const PID: i32 = 15400;
const STARTED: u64 = 55271;

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions").join(name);
    fs::read_to_string(path).unwrap()
}

struct Watching {
    home: TempDir,
    news: mpsc::Receiver<StateFile>,
    shutdown: CancellationToken,
}

impl Watching {
    fn start(start_time: u64) -> Self {
        let home = tempfile::tempdir().unwrap();
        let (tx, news) = mpsc::channel(16);
        let shutdown = CancellationToken::new();
        let watcher = StateFileWatcher { dir: home.path().join(".claude/sessions"), pid: PID, start_time };
        tokio::spawn(watcher.run(tx, shutdown.clone()));
        Self { home, news, shutdown }
    }

    async fn with_dir() -> Self {
        let mut watching = Self::start(STARTED);
        assert_eq!(watching.next().await.state, FileState::Absent, "what is not there is told once");
        fs::create_dir_all(watching.dir()).unwrap();
        watching
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join(".claude/sessions")
    }

    fn write(&self, text: &str) {
        fs::write(self.dir().join(format!("{PID}.json")), text).unwrap();
    }

    async fn next(&mut self) -> StateFile {
        timeout(LIMIT, self.news.recv()).await.expect("no news").expect("the watcher ended")
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

#[tokio::test]
async fn every_word_is_understood_and_only_changes_are_told() {
    let mut watching = Watching::with_dir().await;
    let seen = [
        ("idle.json", FileState::Idle),
        ("busy.json", FileState::Busy),
        ("shell.json", FileState::Shell),
        ("waiting-dialog-open.json", FileState::Waiting("dialog open".into())),
        ("waiting-input-needed.json", FileState::Waiting("input needed".into())),
        ("waiting-permission-prompt.json", FileState::Waiting("permission prompt".into())),
    ];
    for (file, state) in seen {
        watching.write(&fixture(file));
        let told = watching.next().await;
        assert_eq!(told.state, state, "{file}");
        assert_eq!(told.session, Some(SessionId::new("46aa6aa9-6855-4ddc-a5c2-b1ef170284a2")));
        assert_eq!(told.version.as_deref(), Some("2.1.332"));
        watching.write(&fixture(file).replace("1795819591353", "1795819591999"));
    }
}

#[tokio::test]
async fn a_removed_file_is_absence() {
    let mut watching = Watching::with_dir().await;
    watching.write(&fixture("idle.json"));
    assert_eq!(watching.next().await.state, FileState::Idle);
    fs::remove_file(watching.dir().join(format!("{PID}.json"))).unwrap();
    assert_eq!(watching.next().await.state, FileState::Absent);
}

#[tokio::test]
async fn directories_may_come_one_by_one_and_go() {
    let mut watching = Watching::start(STARTED);
    assert_eq!(watching.next().await.state, FileState::Absent);
    for _ in 0..3 {
        fs::create_dir(watching.home.path().join(".claude")).unwrap();
        fs::create_dir(watching.dir()).unwrap();
        watching.write(&fixture("busy.json"));
        assert_eq!(watching.next().await.state, FileState::Busy);
        fs::remove_dir_all(watching.home.path().join(".claude")).unwrap();
        assert_eq!(watching.next().await.state, FileState::Absent);
    }
}

#[tokio::test]
async fn a_file_written_in_two_halves_is_read_when_it_is_whole() {
    let mut watching = Watching::with_dir().await;
    watching.write(&fixture("idle.json"));
    assert_eq!(watching.next().await.state, FileState::Idle);
    let text = fixture("busy.json");
    watching.write(&text[..text.len() / 2]);
    watching.write(&text);
    assert_eq!(watching.next().await.state, FileState::Busy, "the torn one was not told");
}

#[tokio::test]
async fn a_file_renamed_into_place_is_seen() {
    let mut watching = Watching::with_dir().await;
    let new = watching.home.path().join("new");
    fs::write(&new, fixture("idle.json")).unwrap();
    fs::rename(&new, watching.dir().join(format!("{PID}.json"))).unwrap();
    assert_eq!(watching.next().await.state, FileState::Idle);
}

fn judged(text: &str) -> Reading {
    StateFileWatcher { dir: PathBuf::new(), pid: PID, start_time: STARTED }.judge(text.as_bytes())
}

#[test]
fn what_is_not_ours_or_not_understood_is_absence() {
    let idle = fixture("idle.json");
    let strange = [
        idle.replace("\"procStart\": \"55271\"", "\"procStart\": \"55272\""),
        idle.replace("\"procStart\": \"55271\", ", ""),
        idle.replace("\"pid\": 15400", "\"pid\": 15401"),
        idle.replace("\"status\": \"idle\"", "\"status\": [1]"),
        "[]".to_owned(),
        "7".to_owned(),
    ];
    for text in strange {
        assert_ne!(text, idle);
        assert_eq!(judged(&text), Reading::Said(StateFile::absent()), "{text}");
    }
    let Reading::Said(said) = judged(&idle.replace("\"idle\"", "\"dreaming\"")) else { panic!("torn") };
    assert_eq!((said.state, said.session.is_some()), (FileState::Absent, true), "a new word says nothing");
}

#[test]
fn half_a_file_is_torn_at_every_byte() {
    let text = fixture("waiting-dialog-open.json");
    let text = text.trim_end();
    for length in 0..text.len() {
        assert_eq!(judged(&text[..length]), Reading::Torn, "{length}");
    }
    assert!(matches!(judged(text), Reading::Said(_)));
}

#[test]
fn links_fifos_and_giants_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let watcher = StateFileWatcher { dir: dir.path().to_owned(), pid: PID, start_time: STARTED };
    let (path, other) = (dir.path().join(format!("{PID}.json")), dir.path().join("other"));
    let absent = || assert_eq!(watcher.read(), Reading::Said(StateFile::absent()));
    fs::write(&other, fixture("idle.json")).unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    absent();
    fs::remove_file(&path).unwrap();
    fs::hard_link(&other, &path).unwrap();
    absent();
    fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    absent();
    fs::remove_file(&path).unwrap();
    fs::write(&path, fixture("idle.json") + &" ".repeat(LIMIT_BYTES as usize)).unwrap();
    absent();
    fs::write(&path, fixture("idle.json")).unwrap();
    assert!(matches!(watcher.read(), Reading::Said(said) if said.state == FileState::Idle));
}
