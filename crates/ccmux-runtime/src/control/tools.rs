//! What `ccmux mcp` asks: a tool to be done, and the channels that there are.
//!
//! It knows no MCP: the bridge speaks that with Claude.

use std::convert::Infallible;
use std::io;

use ccmux_wire::control::{ErrorCode, Reply};
use ccmux_wire::tools::{ChannelsLine, ToolCall, ToolDone};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::mcp::Tools;
use crate::mcp::tools::{ChannelChanges, ToolError};

/// Does it. What Claude can act on is a result, also when it is an error.
pub async fn tool(tools: &Tools, call: ToolCall) -> Reply {
    match tools.call(&call.name, &call.arguments).await {
        Ok(text) => done(text, false),
        Err(ToolError::Failed(text)) => done(text, true),
        Err(ToolError::Stopping(text)) => Reply::refused(ErrorCode::Stopping, text),
    }
}

fn done(text: String, is_error: bool) -> Reply {
    Reply { tool: Some(ToolDone { text, is_error }), ..Reply::ok() }
}

/// Tells the channels now and whenever they are others, until the daemon stops or the client goes.
pub async fn tell_channels(
    mut stream: BufReader<UnixStream>,
    mut changes: ChannelChanges,
    shutdown: CancellationToken,
) {
    let telling = async {
        loop {
            stream.get_mut().write_all(&line(&changes)).await?;
            tokio::select! {
                next = changes.next() => if next.is_none() { return io::Result::Ok(()) },
                gone = hung_up(&mut stream) => match gone? {},
            }
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        // Whoever went needs no word.
        _gone = telling => {}
    }
}

fn line(changes: &ChannelChanges) -> Vec<u8> {
    let line = ChannelsLine { channels: changes.now().to_vec() };
    // Made of names and words: there is nothing in it that JSON can't say.
    let mut line = serde_json::to_vec(&line).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Whatever else the client says is not listened to.
async fn hung_up(stream: &mut BufReader<UnixStream>) -> io::Result<Infallible> {
    let mut ignored = [0; 256];
    loop {
        if stream.read(&mut ignored).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
