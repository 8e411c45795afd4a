//! The notices that wait for one service. They go one after the other, no faster than it takes them; a flood becomes one
//! notice that lists them.
//!
//! ```text
//! deliver ─┐                 ┌─ few: the oldest ────────┐
//! deliver ─┼─► waiting ─► one of them has the turn      ├─► service ─► all of them are told
//! deliver ─┘                 └─ many: merged into one ──┘
//! ```
//!
//! There is no task: whoever waits first does the work for those behind. Doesn't know how something is sent.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::Notice;
use super::pace::{Limit, Pace};
use super::post::PostError;

/// Those who wait go singly if the last one can go within that time.
const SINGLY_WITHIN: Duration = Duration::from_secs(10);
/// A service that says no more than "too much" is left alone for that long.
const HELD_FOR: Duration = Duration::from_secs(30);
/// So many notices are listed in a merged one.
const MAX_LISTED: usize = 20;

type Told = Result<(), Arc<PostError>>;

#[derive(Debug)]
struct Waiting {
    notice: Notice,
    told: oneshot::Sender<Told>,
}

/// Who waits, and when the next may go.
#[derive(Debug)]
pub struct Outbox {
    waiting: Mutex<VecDeque<Waiting>>,
    pace: Mutex<Pace>,
    turn: tokio::sync::Mutex<()>,
    /// So many times in a row it took nothing.
    refusals: AtomicU32,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outbox {
    /// Empty.
    pub fn new(limits: &'static [Limit]) -> Self {
        let (waiting, pace) = (Mutex::default(), Mutex::new(Pace::new(limits)));
        Self { waiting, pace, turn: tokio::sync::Mutex::default(), refusals: AtomicU32::new(0) }
    }

    /// Sends it, alone or with others that wait, before the deadline.
    ///
    /// # Errors
    /// What the service said; and at once, if it takes nothing before the deadline.
    pub async fn deliver<F: Future<Output = Result<(), PostError>>>(
        &self,
        notice: &Notice,
        deadline: Instant,
        send: impl Fn(Notice) -> F,
    ) -> Told {
        loop {
            self.open_before(deadline)?;
            let (told, mut mine) = oneshot::channel();
            locked(&self.waiting).push_back(Waiting { notice: notice.clone(), told });
            let answered = loop {
                tokio::select! {
                    biased;
                    answered = &mut mine => break answered,
                    () = sleep_until(deadline) => return Err(self.too_late()),
                    turn = self.turn.lock() => {
                        self.lead(deadline, &send).await?;
                        drop(turn);
                    }
                }
            };
            // Whoever had it was called off: nobody knows whether it went.
            let Ok(told) = answered else { continue };
            return told;
        }
    }

    /// Waits for the service, and sends what waits.
    async fn lead<F: Future<Output = Result<(), PostError>>>(
        &self,
        deadline: Instant,
        send: &impl Fn(Notice) -> F,
    ) -> Told {
        self.open_before(deadline)?;
        let next = locked(&self.pace).next_at(Instant::now());
        sleep_until(next).await;
        let (notice, told) = self.take();
        let Some(notice) = notice else { return Ok(()) };
        locked(&self.pace).went(Instant::now());
        let sent = send(notice).await.map_err(Arc::new);
        self.learn(&sent);
        told.into_iter().for_each(|waiting| drop(waiting.send(sent.clone())));
        Ok(())
    }

    /// A service that takes nothing time and again is asked ever less often, whatever it says.
    fn learn(&self, sent: &Told) {
        let Some(PostError::Limited { wait }) = sent.as_ref().err().map(|error| &**error) else {
            return self.refusals.store(0, Ordering::Relaxed);
        };
        let refusals = self.refusals.fetch_add(1, Ordering::Relaxed).min(8);
        let least = Duration::from_secs(1 << refusals);
        locked(&self.pace).hold(Instant::now() + wait.unwrap_or(HELD_FOR).max(least));
    }

    /// The oldest one, or all in one. One that can be answered goes alone, since its buttons are its own.
    fn take(&self) -> (Option<Notice>, Vec<oneshot::Sender<Told>>) {
        let mut waiting = locked(&self.waiting);
        waiting.retain(|waiting| !waiting.told.is_closed());
        let answerable = waiting.iter().position(|waiting| waiting.notice.code.is_some());
        let count = waiting.len();
        let singly = locked(&self.pace).last_of(count, Instant::now(), SINGLY_WITHIN).is_some();
        let taken: Vec<Waiting> = match answerable {
            Some(place) => waiting.remove(place).into_iter().collect(),
            None if singly => waiting.pop_front().into_iter().collect(),
            None => waiting.drain(..).collect(),
        };
        let (notices, told): (Vec<_>, Vec<_>) =
            taken.into_iter().map(|waiting| (waiting.notice, waiting.told)).unzip();
        (merged(notices), told)
    }

    /// The service takes another one by then.
    pub fn opens_before(&self, deadline: Instant) -> bool {
        let now = Instant::now();
        locked(&self.pace).next_at(now) <= deadline.max(now)
    }

    fn open_before(&self, deadline: Instant) -> Told {
        if self.opens_before(deadline) { Ok(()) } else { Err(self.too_late()) }
    }

    fn too_late(&self) -> Arc<PostError> {
        let now = Instant::now();
        let wait = locked(&self.pace).next_at(now).saturating_duration_since(now);
        Arc::new(PostError::Limited { wait: (!wait.is_zero()).then_some(wait) })
    }
}

/// Several in one: a line for each.
fn merged(mut notices: Vec<Notice>) -> Option<Notice> {
    if notices.len() < 2 {
        return notices.pop();
    }
    let same = |word: fn(&Notice) -> &str| notices.iter().all(|notice| word(notice) == word(&notices[0]));
    let kind = if same(|notice| &notice.kind) { notices[0].kind.clone() } else { "message".to_owned() };
    let session =
        if same(|notice| &notice.session) { notices[0].session.clone() } else { "ccmux".to_owned() };
    let line = |notice: &Notice| match notice.body.lines().next() {
        Some(first) => format!("{}: {first}", notice.title),
        None => notice.title.clone(),
    };
    let mut lines: Vec<String> = notices.iter().take(MAX_LISTED).map(line).collect();
    if let Some(more) = notices.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        lines.push(format!("and {more} more: ccmux attention"));
    }
    let ts = notices.last().map_or(0, |notice| notice.ts);
    let title = format!("ccmux - {} notices", notices.len());
    Some(Notice { kind, session, title, body: lines.join("\n"), ts, code: None })
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    use super::*;

    const ONE_WITHIN_20: &[Limit] = &[Limit::new(1, 20_000)];

    fn notice(title: &str) -> Notice {
        let [kind, session, body] = ["reply", "s1", "a\nb"].map(str::to_owned);
        Notice { kind, session, title: title.to_owned(), body, ts: 7, code: None }
    }

    #[derive(Clone)]
    struct Service {
        outbox: Arc<Outbox>,
        start: Instant,
        came: Arc<Mutex<Vec<(u64, Notice)>>>,
        answers: Arc<Mutex<VecDeque<Result<(), PostError>>>>,
    }

    impl Service {
        fn new(limits: &'static [Limit]) -> Self {
            let (came, answers) = (Arc::default(), Arc::default());
            Self { outbox: Arc::new(Outbox::new(limits)), start: Instant::now(), came, answers }
        }

        async fn takes(&self, notice: Notice) -> Result<(), PostError> {
            sleep(Duration::from_millis(10)).await;
            locked(&self.came).push((self.start.elapsed().as_secs(), notice));
            locked(&self.answers).pop_front().unwrap_or(Ok(()))
        }

        fn deliver(&self, notice: Notice, seconds: u64) -> JoinHandle<Told> {
            let service = self.clone();
            let deadline = Instant::now() + Duration::from_secs(seconds);
            tokio::spawn(async move {
                service.outbox.deliver(&notice, deadline, |notice| service.takes(notice)).await
            })
        }

        async fn all_of(&self, notices: impl IntoIterator<Item = Notice>) {
            let all: Vec<_> = notices.into_iter().map(|notice| self.deliver(notice, 60)).collect();
            for told in all {
                told.await.unwrap().unwrap();
            }
        }

        fn titles(&self) -> Vec<(u64, String)> {
            locked(&self.came).iter().map(|(at, notice)| (*at, notice.title.clone())).collect()
        }
    }

    fn own(at: u64, title: &str) -> (u64, String) {
        (at, title.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_merged_and_everybody_is_told() {
        let service = Service::new(ONE_WITHIN_20);
        service.all_of((0..31).map(|n| notice(&format!("n{n}")))).await;
        assert_eq!(service.titles(), [own(0, "n0"), own(20, "ccmux - 30 notices")]);
        let body = locked(&service.came)[1].1.body.clone();
        assert_eq!(body.lines().count(), MAX_LISTED + 1);
        assert!(body.starts_with("n1: a\n") && body.ends_with("and 10 more: ccmux attention"), "{body}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_go_singly_and_one_with_a_code_is_never_merged() {
        const ONE_WITHIN_2: &[Limit] = &[Limit::new(1, 2_000)];
        let service = Service::new(ONE_WITHIN_2);
        service.all_of(["a", "b", "c"].map(notice)).await;
        assert_eq!(service.titles(), [own(0, "a"), own(2, "b"), own(4, "c")]);
        let service = Service::new(ONE_WITHIN_20);
        let coded = Notice { code: Some("bcdfg".into()), ..notice("coded") };
        service.all_of([notice("d"), notice("e"), coded, notice("f")]).await;
        assert_eq!(service.titles(), [own(0, "d"), own(20, "coded"), own(40, "ccmux - 2 notices")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_wants_a_pause_has_it_and_nobody_waits_beyond_his_deadline() {
        let service = Service::new(&[]);
        let wait = Some(Duration::from_secs(40));
        locked(&service.answers).push_back(Err(PostError::Limited { wait }));
        let refused = service.deliver(notice("a"), 60).await.unwrap().unwrap_err();
        assert!(matches!(*refused, PostError::Limited { .. }), "{refused}");
        let hasty = service.deliver(notice("b"), 5).await.unwrap().unwrap_err();
        assert_eq!(hasty.to_string(), "it takes no more for 40 s");
        assert_eq!(service.start.elapsed().as_secs(), 0, "at once");
        service.all_of([notice("c")]).await;
        assert_eq!(service.titles(), [own(0, "a"), own(40, "c")]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_called_off_takes_nobody_with_him() {
        let service = Service::new(&[]);
        let outbox = Arc::clone(&service.outbox);
        let deadline = Instant::now() + Duration::from_secs(60);
        let hangs =
            tokio::spawn(
                async move { outbox.deliver(&notice("a"), deadline, |_| std::future::pending()).await },
            );
        sleep(Duration::from_secs(1)).await;
        let second = service.deliver(notice("b"), 60);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(service.titles(), [], "one after the other");
        hangs.abort();
        second.await.unwrap().unwrap();
        assert_eq!(service.titles(), [own(2, "b")]);
    }
}
