//! Who told that somebody is asked, kept with the item: a restarted daemon still knows whose end is its end.
//!
//! ```text
//! item kept ─► daemon restarts ─► Teller::is_gone ─► News::Closed(origin) ─► the item is over
//! ```
//!
//! A process is its number and its start: a later one with that number is another. A server's stream says by itself what
//! is still asked. It knows no item.

use std::future::pending;

use ccmux_policy::attention::opencode::Origin;
use ccmux_wire::id::SessionId;
use serde::{Deserialize, Serialize};

use crate::agent::process::{AgentProcess, ProcessError, start_time};

/// Of a process or a server, the session that asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Teller {
    /// Which.
    pub origin: Origin,
    /// When the process was started; `None`: it can't be seen from here.
    started: Option<u64>,
    /// The session, perhaps a sub-agent's.
    pub about: SessionId,
}

impl Teller {
    /// As it is now.
    pub fn of(origin: Origin, about: &SessionId) -> Self {
        let started = match origin {
            Origin::Process(pid) => i32::try_from(pid).ok().and_then(start_time),
            Origin::Stream(_) => None,
        };
        Self { origin, started, about: about.clone() }
    }

    /// Returns when the process has ended; never, where that can't be known.
    pub async fn is_gone(&self) {
        let (Origin::Process(pid), Some(started)) = (self.origin, self.started) else {
            return pending().await;
        };
        match i32::try_from(pid).map(AgentProcess::open) {
            Ok(Ok(process)) if process.start_time() == started => process.exited().await,
            Ok(Err(ProcessError::Io { .. })) => pending().await,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    fn child() -> (Child, Teller) {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let teller = Teller::of(Origin::Process(child.id()), &SessionId::new("s"));
        (child, teller)
    }

    #[tokio::test]
    async fn a_process_that_ends_later_or_ended_before_is_gone() {
        let (mut child, teller) = child();
        let mut gone = Box::pin(teller.is_gone());
        assert!(is_pending(&mut gone).await);
        child.kill().unwrap();
        child.wait().unwrap();
        timeout(Duration::from_secs(10), gone).await.unwrap();
        timeout(Duration::from_secs(10), teller.is_gone()).await.unwrap();
    }

    #[tokio::test]
    async fn a_later_process_of_the_same_number_is_another() {
        let (mut child, teller) = child();
        let earlier = Teller { started: teller.started.map(|started| started - 1), ..teller };
        timeout(Duration::from_secs(10), earlier.is_gone()).await.unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn nobody_knows_the_end_of_a_stream_or_of_a_process_out_of_sight() {
        let session = SessionId::new("s");
        let unseen = Teller { origin: Origin::Process(u32::MAX), started: None, about: session.clone() };
        for teller in [Teller::of(Origin::Stream(0), &session), unseen] {
            assert!(is_pending(&mut Box::pin(teller.is_gone())).await);
        }
    }

    async fn is_pending(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        tokio::select! {
            biased;
            () = future => false,
            () = tokio::task::yield_now() => true,
        }
    }
}
