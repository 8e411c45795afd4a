//! `permission`: what Claude asks and can be answered from afar, by the user's client.

use ccmux_wire::afar::PermissionRequest;
use ccmux_wire::control::{ErrorCode, Reply};

use crate::afar::{Answers, By};

/// Why nothing is listed although Claude asks.
const NO_CHANNEL: &str = "permission.channel is empty, so that Claude is answered at the terminal only";

/// Lists, or answers.
pub async fn answer(answers: &Answers, request: PermissionRequest) -> Reply {
    match request {
        PermissionRequest::List => {
            let done = (!answers.are_told()).then(|| NO_CHANNEL.to_owned());
            Reply { asks: Some(answers.open_asks()), done, ..Reply::ok() }
        }
        PermissionRequest::Answer { code, reply } => {
            match answers.answer(code.as_str(), &reply, By::Trusted).await {
                Ok(done) => Reply { done: Some(done.to_owned()), ..Reply::ok() },
                Err(error) => Reply::refused(ErrorCode::Rejected, error.to_string()),
            }
        }
    }
}
