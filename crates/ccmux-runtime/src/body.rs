//! What the log says of a body: how long it is, and a short hash by which two lines are seen to be about the same text.
//!
//! ```text
//! {"event":"message.accepted","id":"1","channel":"telegram","bytes":26,"body":"9f86d081"}
//! {"event":"body","body":"9f86d081","bytes":2,"text":"hi"}                   only where log.bodies = true
//! ```
//!
//! The text is an event of its own under a target of its own, [`TARGET`], which the log's filter leaves out: whoever logs
//! need not know the setting, and forgetting to look at it is not possible. It knows nothing of messages or turns.

use sha2::{Digest, Sha256};

/// The target of the texts. It is in the log only if `log.bodies` is set.
pub const TARGET: &str = "ccmux_bodies";

/// So many bytes of the hash are told: enough to find a text again, too few to prove that it is another one.
const TOLD: usize = 4;

/// What the log calls a body: 8 hex digits of its SHA-256. The text itself is told beside it where it may be.
///
/// ```
/// assert_eq!(ccmux_runtime::body::logged("test"), "9f86d081");
/// ```
pub fn logged(body: impl AsRef<[u8]>) -> String {
    let bytes = body.as_ref();
    let hash: String = Sha256::digest(bytes).iter().take(TOLD).map(|byte| format!("{byte:02x}")).collect();
    tracing::info!(
        target: TARGET,
        event = "body",
        body = hash,
        bytes = bytes.len(),
        text = %String::from_utf8_lossy(bytes)
    );
    hash
}
