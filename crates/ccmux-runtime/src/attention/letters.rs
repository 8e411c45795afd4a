//! Notices leave: kept first, then on their way, crossed out once a route took them or none did, or once what
//! they tell of is over.
//!
//! Doesn't know what is due, nor how a route works.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ccmux_policy::Now;
use ccmux_policy::attention::{Key, Kind};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::attendant::{Attendant, Letter};
use super::book::{Book, Page};
use super::guests;
use crate::terminal::Terminal;

/// A notice that is on its way when the daemon ends may take so long; it is less than the daemon has.
const FINISHES_WITHIN: Duration = Duration::from_secs(1);
/// What could not be told for a day is no news.
const LETTER_SECONDS: i64 = 86_400;

impl<T: Terminal> Attendant<T> {
    /// Forgotten and begun again on the same page: what is kept is written last.
    pub(super) async fn write(&self, mut page: Page) -> (Vec<Letter>, Vec<i64>) {
        page.forget.retain(|key| !page.keep.iter().any(|(row, _)| row.key == *key));
        let letters = page.letters.clone();
        let Some(book) = self.setting.book.clone() else { return (letters, Vec::new()) };
        let write = move || book.lock().unwrap_or_else(PoisonError::into_inner).write(&page);
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(numbers)) => (letters, numbers),
            Ok(Err(error)) => {
                tracing::error!(event = "attention.not_kept", %error);
                (letters, Vec::new())
            }
            Err(_) => (letters, Vec::new()),
        }
    }

    /// Claude is told nothing of its own session: it would answer, and be told of its answer's end, for ever.
    pub(super) fn write_letter(&mut self, key: &Key, mut routes: Vec<String>, waited_ms: u64) {
        if self.own_session().as_ref() == Some(&key.session) {
            routes.retain(|name| !self.setting.notifier.is_claude(name));
        }
        let Some(text) = self.texts.get(key).filter(|_| !routes.is_empty()) else { return };
        let now = self.setting.clock.now();
        let mut notice = text.notice(key, waited_ms / 1000, now.wall, now.utc_offset_s);
        notice.code = self.setting.afar.code_of(&key.session, &key.subject).map(|code| code.to_string());
        self.page.letters.push(Letter { key: Some(key.clone()), notice, routes });
    }

    /// An earlier daemon did not bring it there. What is over by now, or old, is told to nobody.
    pub(super) fn send_again(&mut self, number: i64, letter: Letter, now: Now) {
        let is_old = now.wall.0 / 1000 - letter.notice.ts >= LETTER_SECONDS;
        let is_over = letter.key.as_ref().is_some_and(|key| ends_with_item(key) && !self.engine.holds(key));
        match self.setting.book.clone().filter(|_| is_old || is_over) {
            Some(book) => drop(self.tasks.spawn(cross_out(book, number))),
            None => self.send(Some(number), letter),
        }
    }

    /// The item is over: what was not told of it yet need not be.
    pub(super) fn call_back(&mut self, key: &Key) {
        if ends_with_item(key) {
            self.page.letters.retain(|letter| letter.key.as_ref() != Some(key));
        }
        if let Some(over) = self.on_way.remove(key) {
            over.cancel();
        }
    }

    /// Tries the routes, on a task of its own.
    pub(super) fn send(&mut self, number: Option<i64>, letter: Letter) {
        let over = match letter.key.clone().filter(ends_with_item) {
            Some(key) => self.on_way.entry(key).or_default().clone(),
            None => CancellationToken::new(),
        };
        let (notifier, shutdown) = (self.setting.notifier.clone(), self.setting.shutdown.clone());
        let book = self.setting.book.clone();
        self.tasks.spawn(async move {
            let route = tokio::select! {
                biased;
                () = over.cancelled() => None,
                route = notifier.deliver(&letter.notice, &letter.routes) => route,
                () = finishing(shutdown) => return,
            };
            if let Some((number, book)) = number.zip(book) {
                cross_out(book, number).await;
            }
            if let Some(route) = route {
                tracing::info!(event = "notice.sent", route, kind = letter.notice.kind);
            }
        });
    }
}

/// What somebody answered needs no notice any more; anything else is told although it is over.
fn ends_with_item(key: &Key) -> bool {
    (key.kind == Kind::Reply || key.kind.is_dialog()) && !guests::is_over_when_told(key)
}

/// A notice is on its way when the daemon ends: it may arrive, or it would be sent twice.
async fn finishing(shutdown: CancellationToken) {
    shutdown.cancelled().await;
    sleep(FINISHES_WITHIN).await;
}

async fn cross_out(book: Arc<Mutex<Book>>, letter: i64) {
    let cross_out = move || book.lock().unwrap_or_else(PoisonError::into_inner).arrived(letter);
    if let Ok(Err(error)) = tokio::task::spawn_blocking(cross_out).await {
        tracing::error!(event = "attention.not_kept", %error);
    }
}
