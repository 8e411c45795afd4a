//! Events of OpenCode's plugin: one a line, not answered, as long as its process lives.
//!
//! It knows no event, only lines; what it can't read it leaves out. The end of the connection is told, unless the daemon
//! itself ends: then the process is still there, and comes again.

use ccmux_policy::attention::opencode::Origin;
use ccmux_wire::hook;
use ccmux_wire::opencode::{MAX_EVENT_BYTES, OpencodeEvent, OpencodeHello};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::attention::opencode::{News, Said};
use crate::attention::{Ears, Heard};
use crate::spots::Spot;

/// Reads until the process or the daemon ends. The kernel's word for the process counts, where it has one.
pub(super) async fn follow(
    mut stream: BufReader<UnixStream>,
    hello: OpencodeHello,
    ears: Ears,
    shutdown: CancellationToken,
) {
    let peer = stream.get_ref().peer_cred().ok().and_then(|peer| u32::try_from(peer.pid()?).ok());
    let origin = Origin::Process(peer.filter(|pid| *pid != 0).unwrap_or(hello.pid));
    ears.tell(Heard::Opencode(News::Opened { origin, spot: spot_of(&hello) }));
    tracing::info!(event = "opencode.connected", pid = hello.pid);
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = read(&mut stream, origin, &ears) => {
            ears.tell(Heard::Opencode(News::Closed(origin)));
            tracing::info!(event = "opencode.gone", pid = hello.pid);
        }
    }
}

/// `None`: it is in no pane of tmux.
fn spot_of(hello: &OpencodeHello) -> Option<Spot> {
    let said = hook::Spot { tmux: hello.tmux.clone(), pane: hello.pane.clone(), window: None };
    Some(Spot::of(&said)).filter(|spot| spot.pane.is_some())
}

async fn read(stream: &mut BufReader<UnixStream>, origin: Origin, ears: &Ears) {
    if stream.get_mut().write_all(b"{\"ok\":true}\n").await.is_err() {
        return;
    }
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = MAX_EVENT_BYTES as u64 + 1;
        match (&mut *stream).take(limit).read_until(b'\n', &mut line).await {
            Ok(read) if read > 0 && line.len() <= MAX_EVENT_BYTES => {}
            _ => return,
        }
        let event = ccmux_wire::halves::from_slice::<OpencodeEvent>(&line);
        match event.ok().as_ref().and_then(Said::of) {
            Some(said) => ears.tell(Heard::Opencode(News::Said { origin, said: Box::new(said) })),
            None => tracing::debug!(event = "opencode.ignored", bytes = line.len()),
        }
    }
}
