//! Hears the hooks of the probe, on a `control.sock` of its own, and answers as the daemon would.

use std::io;
use std::path::Path;

use ccmux_wire::control::{Frame, Request};
use ccmux_wire::hook::{HookFrame, HookReply, MAX_FRAME_BYTES};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// The socket.
#[derive(Debug)]
pub(super) struct Ear(UnixListener);

impl Ear {
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        UnixListener::bind(dir.join("control.sock")).map(Self)
    }

    /// The next hook. What can't be read as one is passed over.
    pub(super) async fn next(&self) -> io::Result<HookFrame> {
        loop {
            let (stream, _) = self.0.accept().await?;
            if let Ok(frame) = hear(stream).await {
                return Ok(frame);
            }
        }
    }
}

async fn hear(stream: UnixStream) -> io::Result<HookFrame> {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    (&mut stream).take(MAX_FRAME_BYTES as u64).read_until(b'\n', &mut line).await?;
    let frame: Frame = serde_json::from_slice(&line)?;
    let mut reply = serde_json::to_vec(&HookReply::ok())?;
    reply.push(b'\n');
    stream.get_mut().write_all(&reply).await?;
    match frame.request {
        Request::Hook(frame) => Ok(frame),
        _ => Err(io::Error::other("no hook")),
    }
}
