//! When lines are forgotten: at start, once a day, and when the database has grown by a part of what it may have.
//!
//! It waits for these three and nothing else; how lines are deleted is the store's business.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::store::{Keep, Store, StoreError};
use super::{Turns, TurnsError, blocking, unix_seconds};
use crate::inbox::{passes, until_done};

/// Lines grow old by the day.
const DAY: Duration = Duration::from_secs(86_400);

/// Between two steps others get to the database.
const PAUSE: Duration = Duration::from_millis(20);

/// The database is looked at when it has grown by this part of what it may have,
const PARTS: u64 = 64;
/// but not more often than that.
const LEAST_GROWTH: u64 = 256 * 1024;

/// The task.
#[derive(Debug)]
pub struct Keeper {
    /// Whose lines.
    pub turns: Turns,
    /// What is kept.
    pub keep: watch::Receiver<Keep>,
    /// Ends it.
    pub shutdown: CancellationToken,
}

impl Keeper {
    /// Runs until shutdown.
    pub async fn run(self) {
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            () = self.keep_watch() => {}
        }
    }

    async fn keep_watch(&self) {
        let mut changes = self.keep.clone();
        loop {
            let bytes = changes.borrow_and_update().bytes;
            let growth = bytes.map_or(u64::MAX, |bytes| (bytes / PARTS).max(LEAST_GROWTH));
            let before = self.turns.broadcast().published_bytes();
            self.sweep().await;
            tokio::select! {
                () = sleep(DAY) => {}
                () = self.turns.broadcast().published(before.saturating_add(growth)) => {}
                Ok(()) = changes.changed() => {}
            }
        }
    }

    async fn sweep(&self) {
        let keep = *self.keep.borrow();
        let mut lines = 0;
        while let Some(forgotten) = self.step(move |store| store.forget(keep, unix_seconds())).await
            && forgotten > 0
        {
            lines += forgotten;
            sleep(PAUSE).await;
        }
        while let Some(true) = self.step(Store::shrink).await {
            sleep(PAUSE).await;
        }
        if lines > 0 {
            tracing::info!(event = "turns.forgotten", lines);
        }
    }

    /// A locked database is waited for; what is wrong with it otherwise is told, and the next sweep tries again.
    async fn step<T: Send + 'static>(
        &self,
        step: impl Fn(&Store) -> Result<T, StoreError> + Clone + Send + 'static,
    ) -> Option<T> {
        let attempt = || {
            let (store, step) = (Arc::clone(&self.turns.0.store), step.clone());
            blocking(move || Ok(step(&store)?))
        };
        match until_done("forget", may_pass, self.shutdown.cancelled(), attempt).await? {
            Ok(done) => Some(done),
            Err(error) => {
                tracing::error!(event = "turns.not_forgotten", %error);
                None
            }
        }
    }
}

fn may_pass(error: &TurnsError) -> bool {
    matches!(error, TurnsError::Store(StoreError::Sqlite { source, .. }) if passes(source))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Instant;

    use ccmux_wire::id::Seq;
    use ccmux_wire::output::Alert;
    use tempfile::TempDir;

    use super::*;
    use crate::turns::TurnsSettings;
    use crate::turns::store::FILE_NAME;

    fn open(dir: &Path) -> Turns {
        let settings = TurnsSettings { projects_dir: dir.join("projects"), subscriber_bytes: 1 << 20 };
        Turns::open(dir, settings).unwrap().turns
    }

    async fn publish(turns: &Turns, bytes: usize) -> Seq {
        let message = "x".repeat(bytes);
        turns.alert(Alert { kind: "stuck".into(), message, ..Alert::default() }, None).await.unwrap()
    }

    fn oldest(turns: &Turns) -> u64 {
        turns.0.store.since(Seq(0), 1, 1).unwrap()[0].seq().0
    }

    async fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !holds() {
            assert!(begin.elapsed() < Duration::from_secs(20), "not {what}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_that_grows_too_big_is_cut_at_start_and_while_it_grows() {
        let dir = TempDir::new().unwrap();
        let turns = open(dir.path());
        for _ in 0..40 {
            publish(&turns, 100_000).await;
        }
        let shutdown = CancellationToken::new();
        let keep = Keep { seconds: None, bytes: Some(1 << 20) };
        let keep = watch::channel(keep).1;
        let keeper = Keeper { turns: turns.clone(), keep, shutdown: shutdown.clone() };
        let keeper = tokio::spawn(keeper.run());
        until("cut at start", || oldest(&turns) > 25).await;
        for _ in 0..40 {
            publish(&turns, 100_000).await;
        }
        until("cut while it grows", || oldest(&turns) > 60).await;
        assert_eq!(turns.broadcast().last_seq(), Seq(80));
        let file = dir.path().join(FILE_NAME);
        until("small", || file.metadata().unwrap().len() < 3 << 20).await;
        shutdown.cancel();
        keeper.await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_turn_does_not_wait_for_the_forgetting_of_many() {
        let dir = TempDir::new().unwrap();
        let turns = open(dir.path());
        {
            let other = rusqlite::Connection::open(dir.path().join(FILE_NAME)).unwrap();
            let sql = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
                       INSERT INTO lines (ts, kind, json) SELECT 1, 'alert', '{}' || char(10) FROM n";
            other.execute_batch(sql).unwrap();
        }
        let shutdown = CancellationToken::new();
        let keep = watch::channel(Keep { seconds: Some(60), bytes: None }).1;
        let keeper = Keeper { turns: turns.clone(), keep, shutdown: shutdown.clone() };
        let keeper = tokio::spawn(keeper.run());
        let mut slowest = Duration::ZERO;
        while oldest(&turns) < 20_000 {
            let begin = Instant::now();
            publish(&turns, 10).await;
            slowest = slowest.max(begin.elapsed());
        }
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
        shutdown.cancel();
        keeper.await.unwrap();
    }
}
