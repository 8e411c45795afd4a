//! How a notice reaches a person: routes, tried one after the other until one takes it.
//!
//! ```text
//! Notice ─► phone: failed, failed, failed ─► desk: taken
//!           3 tries of 5 s at most, 1 s and 2 s between them
//! ```
//!
//! Every notice is on its way by itself, and every route has places of its own: one that hangs delays only what goes the
//! same way. It knows nothing of sessions and turns. Texts and secrets are in no log: errors name the route and what
//! failed, in words of ours.
//!
//! | module | what it holds |
//! |---|---|
//! | [`route`] | the closed list of ways, made from `[routes.NAME]` |
//! | [`desktop`] | a bubble on the desktop, and what a click shows |
//! | [`program`] | a program that is given so long, and its children |
//! | [`webhook`] | an HTTP POST: https or loopback, no redirects |
//! | [`sound`] | a spoken word, or a file that is played |
//! | [`template`] | the notice in somebody else's form |

pub mod desktop;
pub mod program;
pub mod route;
pub mod sound;
pub mod template;
pub mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

pub use route::{Route, RouteError, Ways};

/// One try may take that long.
pub const TRY_WITHIN: Duration = Duration::from_secs(5);
/// Pauses between the tries of a route; after the last one the next route is used.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// So many notices are on a route's way at once.
const PLACES: usize = 16;
/// Whoever finds none for that long goes another way.
const PLACE_WITHIN: Duration = Duration::from_secs(60);

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
}

/// All routes; clones share them.
#[derive(Debug, Clone)]
pub struct Notifier {
    routes: Arc<BTreeMap<String, (Route, Semaphore)>>,
    ways: Ways,
}

impl Notifier {
    /// Routes by their names, and what they need of the daemon.
    pub fn new(routes: BTreeMap<String, Route>, ways: Ways) -> Self {
        let routes = routes.into_iter().map(|(name, route)| (name, (route, Semaphore::new(PLACES))));
        Self { routes: Arc::new(routes.collect()), ways }
    }

    /// Tells it by the first route that works, and says which. `None`: no route took it, and the log says why.
    pub async fn deliver(&self, notice: &Notice, names: &[String]) -> Option<String> {
        for name in names {
            match self.by_route(name, notice).await {
                Ok(()) => return Some(name.clone()),
                Err(error) => {
                    tracing::warn!(event = "notice.not_sent", route = name, kind = notice.kind, %error);
                }
            }
        }
        tracing::error!(event = "notice.lost", kind = notice.kind, routes = names.join(" "));
        None
    }

    async fn by_route(&self, name: &str, notice: &Notice) -> Result<(), RouteError> {
        let mut pauses = PAUSES.iter();
        loop {
            let error = match self.try_once(name, notice).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match pauses.next().filter(|_| error.may_pass()) {
                Some(pause) => sleep(*pause).await,
                None => return Err(error),
            }
        }
    }

    /// One try, for `ccmux notify --test ROUTE` too.
    ///
    /// # Errors
    /// What failed, with the remedy.
    pub async fn try_once(&self, name: &str, notice: &Notice) -> Result<(), RouteError> {
        let (route, places) = self.routes.get(name).ok_or_else(|| RouteError::Unknown {
            name: name.to_owned(),
            known: match self.routes.is_empty() {
                true => "none".to_owned(),
                false => self.routes.keys().cloned().collect::<Vec<_>>().join(", "),
            },
        })?;
        let late = |limit: Duration| RouteError::Late { seconds: limit.as_secs() };
        let _place = timeout(PLACE_WITHIN, places.acquire()).await.map_err(|_| late(PLACE_WITHIN))?;
        timeout(TRY_WITHIN, route.tell(notice, &self.ways)).await.unwrap_or_else(|_| Err(late(TRY_WITHIN)))
    }
}

#[cfg(test)]
mod tests;
