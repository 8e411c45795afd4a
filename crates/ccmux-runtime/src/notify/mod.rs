//! How a notice reaches a person: routes, tried one after the other until one takes it.
//!
//! ```text
//! Notice ─► phone: failed, failed, failed ─► desk: taken
//!           3 tries of 5 s at most, 1 s and 2 s between them
//! ```
//!
//! Every notice is on its way by itself. Routes to services have an [`outbox`], the others so many places of their own:
//! one that hangs delays only what goes the same way. It knows nothing of sessions and turns. Texts and secrets are in no log: errors name the route and what
//! failed, in words of ours.
//!
//! | module | what it holds |
//! |---|---|
//! | [`route`] | the closed list of ways, made from `[routes.NAME]` |
//! | [`desktop`] | a bubble on the desktop, and what a click shows |
//! | [`program`] | a program that is given so long, and its children |
//! | [`sound`] | a spoken word, or a file that is played |
//! | [`post`] | an HTTP POST: https or loopback, no redirects |
//! | [`secret`] | what settings only say the place of |
//! | [`webhook`] | the notice as JSON, in a form of the user's, or in a service's |
//! | [`template`] | the notice in a form of the user's |
//! | [`services`] | forms of services, and what their answers mean |
//! | [`replies`] | what buttons of notices answer |
//! | [`pace`], [`outbox`] | no faster than a service takes it; a flood becomes one notice |

pub mod desktop;
pub mod outbox;
pub mod pace;
pub mod post;
pub mod program;
pub mod replies;
pub mod route;
pub mod secret;
pub mod services;
pub mod sound;
pub mod template;
pub mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use outbox::Outbox;
use post::PostError;
use replies::Replies;

pub use route::{Route, RouteError, Ways};

/// One try may take that long; a sound may play on.
pub const TRY_WITHIN: Duration = Duration::from_secs(5);
/// Pauses between the tries of a route; after the last one the next route is used.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// So many notices are on a route's way at once.
const PLACES: usize = 16;
/// Whoever finds none for that long, or whom a service wants to wait for longer, goes another way.
const PLACE_WITHIN: Duration = Duration::from_secs(60);
/// Where there is no other way, a service that takes no more for now is waited for.
const LAST_WITHIN: Duration = Duration::from_secs(900);
/// Whoever tries a route waits for the answer.
const TEST_WITHIN: Duration = Duration::from_secs(3);

/// What a person is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The kind's word.
    pub kind: String,
    /// Whose session.
    pub session: String,
    /// One line.
    pub title: String,
    /// Lines.
    pub body: String,
    /// Seconds since 1970.
    pub ts: i64,
    /// What an answer from afar begins with, where there can be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// How many may be on a route's way.
#[derive(Debug)]
enum Way {
    /// So many at once.
    Places(Semaphore),
    /// One after the other.
    Outbox(Outbox),
}

/// All routes; clones share them.
#[derive(Debug, Clone)]
pub struct Notifier {
    routes: Arc<BTreeMap<String, (Route, Way)>>,
    ways: Ways,
}

impl Notifier {
    /// Routes by their names, and what they need of the daemon.
    pub fn new(routes: BTreeMap<String, Route>, ways: Ways) -> Self {
        let with_way = |route: Route| {
            let way = match route.service() {
                Some(service) => Way::Outbox(Outbox::new(service.limits())),
                None => Way::Places(Semaphore::new(PLACES)),
            };
            (route, way)
        };
        let routes = routes.into_iter().map(|(name, route)| (name, with_way(route)));
        Self { routes: Arc::new(routes.collect()), ways }
    }

    /// Follows what buttons of notices answer from `since_s` on, seconds since 1970. `None`: no route has such buttons.
    pub fn follow_replies(&self, since_s: i64, shutdown: &CancellationToken) -> Option<Replies> {
        let routes = self.routes.iter().filter_map(|(name, (route, _))| match route {
            Route::Ntfy(ntfy) if ntfy.has_replies() => Some((name.clone(), ntfy.clone())),
            _ => None,
        });
        Replies::follow(routes.collect(), since_s, shutdown)
    }

    /// It leads to Claude's inbox.
    pub fn is_claude(&self, name: &str) -> bool {
        matches!(self.routes.get(name), Some((Route::Claude(_), _)))
    }

    /// Tells it by the first route that works, and says which. `None`: no route took it, and the log says why.
    pub async fn deliver(&self, notice: &Notice, names: &[String]) -> Option<String> {
        for (place, name) in names.iter().enumerate() {
            let patience = if place + 1 < names.len() { PLACE_WITHIN } else { LAST_WITHIN };
            match self.by_route(name, notice, patience).await {
                Ok(()) => return Some(name.clone()),
                Err(error) => {
                    tracing::warn!(event = "notice.not_sent", route = name, kind = notice.kind, %error);
                }
            }
        }
        tracing::error!(event = "notice.lost", kind = notice.kind, routes = names.join(" "));
        None
    }

    async fn by_route(&self, name: &str, notice: &Notice, patience: Duration) -> Result<(), RouteError> {
        let deadline = Instant::now() + patience;
        let mut pauses = PAUSES.iter();
        loop {
            let error = match self.try_before(name, notice, deadline).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if error.is_pause() {
                // The outbox waits as long as the service wants, or says at once that it is too long.
                match Instant::now() < deadline && self.opens_before(name, deadline) {
                    true => continue,
                    false => return Err(error),
                }
            }
            match pauses.next().filter(|_| error.may_pass()) {
                Some(pause) => sleep(*pause).await,
                None => return Err(error),
            }
        }
    }

    fn opens_before(&self, name: &str, deadline: Instant) -> bool {
        let way = self.routes.get(name).map(|(_, way)| way);
        matches!(way, Some(Way::Outbox(outbox)) if outbox.opens_before(deadline))
    }

    /// One try, for `ccmux notify --test ROUTE` too.
    ///
    /// # Errors
    /// What failed, with the remedy.
    pub async fn try_once(&self, name: &str, notice: &Notice) -> Result<(), RouteError> {
        self.try_before(name, notice, Instant::now() + TEST_WITHIN).await
    }

    /// The deadline is a service's that takes no more for now; a try itself may take [`TRY_WITHIN`].
    async fn try_before(&self, name: &str, notice: &Notice, deadline: Instant) -> Result<(), RouteError> {
        let (route, way) = self.routes.get(name).ok_or_else(|| self.unknown(name))?;
        let late = |limit: Duration| RouteError::Late { seconds: limit.as_secs() };
        match way {
            Way::Places(places) => {
                let place = timeout(PLACE_WITHIN, places.acquire());
                let _place = place.await.map_err(|_| late(PLACE_WITHIN))?;
                let told = route.tell(notice, &self.ways);
                if route.keeps_time() {
                    return told.await;
                }
                timeout(TRY_WITHIN, told).await.unwrap_or_else(|_| Err(late(TRY_WITHIN)))
            }
            Way::Outbox(outbox) => {
                let post = async |notice: Notice| {
                    let posted = timeout(TRY_WITHIN, route.post(&notice)).await;
                    posted.unwrap_or_else(|_| Err(PostError::Unreachable("no answer in time".to_owned())))
                };
                Ok(outbox.deliver(notice, deadline, post).await?)
            }
        }
    }

    fn unknown(&self, name: &str) -> RouteError {
        let known = match self.routes.is_empty() {
            true => "none".to_owned(),
            false => self.routes.keys().cloned().collect::<Vec<_>>().join(", "),
        };
        RouteError::Unknown { name: name.to_owned(), known }
    }
}

#[cfg(test)]
mod tests;
