//! What the user's client asks about waiting: `attention`, `mute`, `test_route`; and where hooks are told to the
//! attendant.

use std::sync::Arc;
use std::time::Duration;

use ccmux_policy::UnixMs;
use ccmux_policy::attention::{Kind, Mute, Muted};
use ccmux_policy::event::Origin;
use ccmux_wire::attention::{MuteRequest, Standing};
use ccmux_wire::control::{ErrorCode, Reply};
use ccmux_wire::hook::HookFrame;
use ccmux_wire::id::SessionId;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::hooks::{HookFront, session_of};
use crate::attention::fact::Fact;
use crate::attention::{Ears, Heard};
use crate::clock::unix_ms;
use crate::notify::{Notice, Notifier};
use crate::spots::{Spot, Spots};

/// Whoever watches is answered by then, be it with the same.
const WATCHED_FOR: Duration = Duration::from_secs(60);

/// A session's id is no longer.
const MAX_ID_BYTES: usize = 64;
/// More connections of OpenCode's plugin than that are hung up on.
pub const MAX_OPENCODES: usize = 256;

/// Answers for the attendant.
#[derive(Debug)]
pub struct AttentionDesk {
    /// The attendant.
    pub ears: Ears,
    /// Says when something changed.
    pub changed: watch::Receiver<u64>,
    /// The ways to people.
    pub notifier: Notifier,
    /// Where foreign sessions can be seen.
    pub spots: Spots,
    /// Places for connections of OpenCode's plugin: they last as long as their processes.
    pub opencodes: Arc<Semaphore>,
}

impl AttentionDesk {
    /// Tells what a hook means for whoever waits. Never waits itself.
    pub(super) fn hook(&self, frame: &HookFrame, origin: Origin, front: &HookFront) {
        let Some(session) = session_of(&frame.payload) else { return };
        let own = origin == Origin::Own;
        if let Some(spot) = frame.spot.as_ref().filter(|_| !own) {
            self.spots.put(&session, Spot::of(spot));
        }
        let prompt = frame.payload.get("prompt").and_then(|prompt| prompt.as_str());
        let ours = own && prompt.is_some_and(|prompt| front.on_the_way.batch_of(prompt).is_some());
        if let Some(fact) = Fact::of(frame, ours) {
            self.ears.tell(Heard::Hook { session, own, fact });
        }
    }

    /// What waits; with `unlike`, once it is something else.
    pub(super) async fn standing(&self, unlike: Option<Standing>) -> Reply {
        let (mut changed, deadline) = (self.changed.clone(), Instant::now() + WATCHED_FOR);
        loop {
            changed.mark_unchanged();
            let Some(standing) = self.ask().await else {
                return Reply::refused(ErrorCode::Internal, "the daemon is stopping");
            };
            let is_new = unlike.as_ref().is_none_or(|known| known.timeless() != standing.timeless());
            if is_new || !matches!(timeout_at(deadline, changed.changed()).await, Ok(Ok(()))) {
                return Reply { attention: Some(Box::new(standing)), ..Reply::ok() };
            }
        }
    }

    async fn ask(&self) -> Option<Standing> {
        let (answer, answered) = oneshot::channel();
        self.ears.tell(Heard::Asked(answer));
        answered.await.ok()
    }

    /// Says nothing about it for a while.
    pub(super) async fn mute(&self, request: MuteRequest) -> Reply {
        let what = match Kind::from_word(&request.what) {
            Some(kind) => Muted::Kind(kind),
            None => Muted::Session(SessionId::new(&request.what)),
        };
        let until = until_of(request.for_s);
        let (answer, answered) = oneshot::channel();
        let is_short = (1..=MAX_ID_BYTES).contains(&request.what.len());
        if is_short {
            self.ears.tell(Heard::Mute(Mute { what, until }, answer));
        }
        match is_short && answered.await != Ok(false) {
            true => self.standing(None).await,
            false => Reply::refused(ErrorCode::Rejected, nothing_of_that_name(&request.what)),
        }
    }

    /// One try of a route, now.
    pub(super) async fn test(&self, route: &str) -> Reply {
        let notice = Notice {
            kind: "message".to_owned(),
            session: "ccmux".to_owned(),
            title: "ccmux - Test".to_owned(),
            body: format!("This is how notices look that come by {route}."),
            ts: unix_ms().0 / 1000,
            code: None,
        };
        match self.notifier.try_once(route, &notice).await {
            Ok(()) => Reply::ok(),
            Err(error) => Reply::refused(ErrorCode::Rejected, format!("{route}: {error}")),
        }
    }
}

fn nothing_of_that_name(what: &str) -> String {
    let kinds = Kind::ALL.map(Kind::word).join(", ");
    let what: String = what.chars().take(MAX_ID_BYTES).collect();
    format!(
        "{what:?} is neither a kind ({kinds}) nor a session that is known, as `ccmux attention` shows them"
    )
}

/// 0 is an end, whatever clock is asked.
fn until_of(for_s: u64) -> UnixMs {
    let for_ms = i64::try_from(for_s.saturating_mul(1000)).unwrap_or(i64::MAX);
    if for_s == 0 { UnixMs(0) } else { UnixMs(unix_ms().0.saturating_add(for_ms)) }
}
