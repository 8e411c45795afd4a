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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ccmux_wire::status::{ChannelStatus, Direction};
    use tokio::io::AsyncBufReadExt;
    use tokio::sync::watch;

    use super::*;
    use crate::outlet::{OutletSettings, Outlets};

    fn tools(dir: &std::path::Path) -> (Tools, watch::Sender<Vec<ChannelStatus>>, CancellationToken) {
        let (list, channels) = watch::channel(Vec::new());
        let wait = Duration::from_secs(60);
        let settings = OutletSettings { wait, linger: wait, finish: wait };
        let shutdown = CancellationToken::new();
        let outlets = Outlets::new(dir.to_owned(), settings, channels, shutdown.clone());
        (Tools { outlets, tells_news: false }, list, shutdown)
    }

    fn send(channel: &str) -> ToolCall {
        let arguments = serde_json::json!({"channel": channel, "message": "hi"});
        let arguments = arguments.as_object().cloned().unwrap();
        ToolCall { name: "send_to_channel".into(), arguments, token: None }
    }

    #[tokio::test]
    async fn what_claude_can_act_on_is_a_result_and_the_daemons_end_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (tools, _list, shutdown) = tools(dir.path());
        let reply = tool(&tools, send("nowhere")).await;
        assert!(reply.ok && reply.tool.is_some_and(|done| done.is_error));
        let mode = nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR;
        nix::unistd::mkfifo(&dir.path().join("out.deaf"), mode).unwrap();
        let stop = async { shutdown.cancel() };
        let (reply, ()) = tokio::join!(tool(&tools, send("deaf")), stop);
        assert_eq!((reply.ok, reply.code, reply.tool), (false, Some(ErrorCode::Stopping), None));
    }

    #[tokio::test]
    async fn channels_are_told_at_once_and_when_they_change_until_the_client_goes() {
        let dir = tempfile::tempdir().unwrap();
        let (tools, list, shutdown) = tools(dir.path());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let telling = tokio::spawn(tell_channels(BufReader::new(ours), tools.changes(), shutdown));
        let mut lines = BufReader::new(theirs).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), r#"{"channels":[]}"#);
        let phone =
            ChannelStatus { name: "phone".parse().unwrap(), direction: Direction::Out, state: "open".into() };
        list.send_replace(vec![phone]);
        let line = lines.next_line().await.unwrap().unwrap();
        assert_eq!(line, r#"{"channels":[{"name":"phone","direction":"out","state":"open"}]}"#);
        drop(lines);
        telling.await.unwrap();
    }
}
