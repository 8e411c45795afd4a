//! Patience: what a locked database or a full disk refused is tried again until it is done.
//!
//! ```text
//! order ─► fails ─ 0.2 s ─► fails ─ 0.4 s ─► ... ─ 5 s ─► done        one log line when it begins, one when it is over
//! ```
//!
//! The caller waits meanwhile, so that its later orders come after this one: what the policy decided reaches the database
//! in the order of the decisions. It does not know what is tried, nor why it failed.

use std::fmt::Display;
use std::pin::pin;
use std::time::Duration;

use ccmux_policy::Event;
use rusqlite::ErrorCode;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// The first pause; each is twice the one before,
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// up to this one.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// What is ordered when the daemon stops gets so long.
const AFTER_STOP: Duration = Duration::from_secs(1);

/// Tries until it is done or fails with what does not pass by waiting. `None`: the daemon stopped before.
pub(crate) async fn until_done<T, E: Display, W: Future<Output = Result<T, E>>>(
    what: &'static str,
    may_pass: impl Fn(&E) -> bool,
    stopped: impl Future<Output = ()>,
    mut attempt: impl FnMut() -> W,
) -> Option<Result<T, E>> {
    let mut stopped = pin!(stopped);
    let mut pause = FIRST_PAUSE;
    let mut waited = false;
    loop {
        let done = tokio::select! {
            done = attempt() => done,
            () = &mut stopped => return given_up(what),
        };
        match done {
            Err(error) if may_pass(&error) => {
                if !std::mem::replace(&mut waited, true) {
                    tracing::error!(event = "storage.waits", what, %error);
                }
            }
            done => {
                if waited {
                    tracing::info!(event = "storage.goes_on", what);
                }
                return Some(done);
            }
        }
        tokio::select! {
            () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            () = &mut stopped => return given_up(what),
        }
    }
}

/// Whether waiting can end it: a lock, a full disk. A damaged page or a row that can't be read stays as it is; whoever
/// waited for it would wait for ever.
pub(crate) fn passes(error: &rusqlite::Error) -> bool {
    use ErrorCode::{ConstraintViolation, DatabaseCorrupt, NotADatabase};
    let code = error.sqlite_error_code();
    code.is_some_and(|code| !matches!(code, DatabaseCorrupt | NotADatabase | ConstraintViolation))
}

fn given_up<T>(what: &'static str) -> Option<T> {
    tracing::error!(event = "storage.given_up", what);
    None
}

/// The event loop is gone, and what it ordered at last had its time.
pub(crate) async fn stopped(events: &mpsc::Sender<Event>) {
    events.closed().await;
    sleep(AFTER_STOP).await;
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_it_is_done() {
        let (begin, tries) = (Instant::now(), Cell::new(0));
        let attempt = || {
            tries.set(tries.get() + 1);
            ready(if tries.get() < 9 { Err("locked") } else { Ok(tries.get()) })
        };
        assert_eq!(until_done("test", |_| true, pending(), attempt).await, Some(Ok(9)));
        let waited = 200 + 400 + 800 + 1600 + 3200 + 5000 * 3;
        assert!(begin.elapsed().abs_diff(Duration::from_millis(waited)) < Duration::from_millis(50));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_pass_is_told_at_once() {
        let attempt = || ready(Err::<(), _>("no such batch"));
        let done = until_done("test", |error| *error == "locked", pending(), attempt).await;
        assert_eq!(done, Some(Err("no such batch")));
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_daemon_ends_pauses_and_attempts() {
        let (events, loop_end) = mpsc::channel(1);
        drop(loop_end);
        let begin = Instant::now();
        let refused = until_done("test", |_| true, stopped(&events), || ready(Err::<(), _>("locked"))).await;
        let hanging = until_done("test", |_: &&str| true, stopped(&events), pending::<Result<(), _>>).await;
        assert_eq!((refused, hanging), (None, None));
        assert!(begin.elapsed() < AFTER_STOP * 3);
    }
}
