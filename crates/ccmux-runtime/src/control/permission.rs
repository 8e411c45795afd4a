//! `permission`: what Claude asks and can be answered from afar, by the user's client.

use ccmux_wire::afar::PermissionRequest;
use ccmux_wire::control::{ErrorCode, Reply};

use crate::afar::{Answers, By};

/// Lists, or answers.
pub async fn answer(answers: &Answers, request: PermissionRequest) -> Reply {
    match request {
        PermissionRequest::List => Reply { asks: Some(answers.open_asks()), ..Reply::ok() },
        PermissionRequest::Answer { code, reply } => {
            match answers.answer(code.as_str(), &reply, By::Trusted).await {
                Ok(done) => Reply { done: Some(done.to_owned()), ..Reply::ok() },
                Err(error) => Reply::refused(ErrorCode::Rejected, error.to_string()),
            }
        }
    }
}
