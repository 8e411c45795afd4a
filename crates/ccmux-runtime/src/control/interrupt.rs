//! `interrupt`: Esc, by order of the user's client. The typist looks first, and says why not.

use ccmux_wire::control::{ErrorCode, Reply};
use tokio::sync::{mpsc, oneshot};

/// Where the typist waits for it.
pub type Interrupts = mpsc::Receiver<oneshot::Sender<Result<(), String>>>;

/// Asks the typist.
#[derive(Debug, Clone)]
pub struct InterruptDesk(mpsc::Sender<oneshot::Sender<Result<(), String>>>);

impl InterruptDesk {
    /// A desk, and where the typist hears of it.
    pub fn new() -> (Self, Interrupts) {
        let (desk, asked) = mpsc::channel(1);
        (Self(desk), asked)
    }

    /// Esc is pressed once a look says that it may be.
    pub async fn ask(&self) -> Reply {
        let (answer, answered) = oneshot::channel();
        let stopping = || Reply::refused(ErrorCode::Stopping, "the daemon is stopping");
        if self.0.send(answer).await.is_err() {
            return stopping();
        }
        match answered.await {
            Ok(Ok(())) => Reply { done: Some("interrupted".to_owned()), ..Reply::ok() },
            Ok(Err(why)) => Reply::refused(ErrorCode::Rejected, why),
            Err(_gone) => stopping(),
        }
    }
}
