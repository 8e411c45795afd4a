//! Waiting for a fact, with a limit: no test sleeps in the hope that something has happened meanwhile.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Generous: only how long a failing test takes.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Longer than a batch takes to be typed: for seeing that nothing happens.
pub const WATCH: Duration = Duration::from_millis(1500);

const STEP: Duration = Duration::from_millis(20);

/// The fact, once `fact` returns it; `None` if it did not within `limit`.
pub fn wait_at_most<T>(limit: Duration, mut fact: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + limit;
    loop {
        if let Some(found) = fact() {
            return Some(found);
        }
        if Instant::now() >= until {
            return None;
        }
        sleep(STEP);
    }
}

/// [`wait_at_most`] that panics with `what` was waited for.
pub fn wait_for<T>(limit: Duration, what: &str, fact: impl FnMut() -> Option<T>) -> T {
    wait_at_most(limit, fact).unwrap_or_else(|| panic!("waited {} s in vain for {what}", limit.as_secs()))
}

/// Runs the same test for many cases at the same time: most of it is waiting.
pub fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| test(case));
        }
    });
}

/// Watches for `window` that nothing of the kind happens; panics with what did.
pub fn stays_quiet(window: Duration, what: &str, mut happened: impl FnMut() -> Option<String>) {
    if let Some(found) = wait_at_most(window, &mut happened) {
        panic!("{what}: {found}");
    }
}
