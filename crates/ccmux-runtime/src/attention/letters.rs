//! Notices leave: kept first, then on their way, crossed out once a route took them or none did.
//!
//! Doesn't know what is due, nor how a route works.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::attendant::{Attendant, Letter};
use super::book::{Book, Page};
use crate::terminal::Terminal;

/// A notice that is on its way when the daemon ends may take so long; it is less than the daemon has.
const FINISHES_WITHIN: Duration = Duration::from_secs(1);

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

    /// Tries the routes, on a task of its own.
    pub(super) fn send(&self, number: Option<i64>, letter: Letter) {
        let (notifier, shutdown) = (self.setting.notifier.clone(), self.setting.shutdown.clone());
        let book = self.setting.book.clone();
        self.tasks.spawn(async move {
            let route = tokio::select! {
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
