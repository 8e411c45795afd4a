//! What is said to systemd, heard by the test instead.

use std::sync::mpsc::TryRecvError;

use super::*;

impl Systemd {
    /// One whose words the test hears.
    pub(crate) fn heard(watchdog: Option<Duration>) -> (Self, Heard) {
        let (words, said) = channel();
        (Self { words: Some(words), watchdog }, Heard(said))
    }
}

/// What was said, as text.
pub(crate) struct Heard(Receiver<Word>);

impl Heard {
    pub(crate) fn so_far(&self) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            match self.0.try_recv() {
                Ok(word) => said.push(text(&word)),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return said,
            }
        }
    }
}

fn text(word: &Word) -> String {
    match word {
        Word::Keep { name, .. } => format!("keep {name}"),
        Word::LetGo { name } => format!("let go {name}"),
        Word::Status(text) => format!("status {text}"),
        other => format!("{other:?}").to_lowercase(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_is_hungry_twice_in_its_time_and_never_without_one() {
    let (systemd, heard) = Systemd::heard(Some(Duration::from_secs(30)));
    let mut watchdog = Watchdog::new(systemd);
    let begin = tokio::time::Instant::now();
    for _ in 0..3 {
        watchdog.is_hungry().await;
        watchdog.feed();
    }
    assert_eq!(begin.elapsed().as_secs(), 30);
    assert_eq!(heard.so_far(), ["alive"; 3]);
    let (systemd, heard) = Systemd::heard(None);
    let mut unwatched = Watchdog::new(systemd);
    unwatched.feed();
    let day = Duration::from_secs(86_400);
    assert!(tokio::time::timeout(day, unwatched.is_hungry()).await.is_err());
    assert!(heard.so_far().is_empty());
}

#[test]
fn only_both_variables_mean_that_systemd_started_us() {
    let environment = |names: &[&str]| -> Vec<(OsString, OsString)> {
        names.iter().map(|name| (OsString::from(name), OsString::from("x"))).collect()
    };
    assert!(started_us(&environment(&["PATH", "NOTIFY_SOCKET", "INVOCATION_ID"])));
    assert!(!started_us(&environment(&["NOTIFY_SOCKET"])));
    assert!(!started_us(&environment(&["INVOCATION_ID"])));
}

#[test]
fn without_systemd_nothing_is_said_and_nobody_waits() {
    let nobody = Systemd::default();
    nobody.ready();
    nobody.last_words();
}
