//! The inbox as the place where FIFOs' bytes go. What it rejects is told to subscribers here.

use ccmux_policy::AlertKind;
use ccmux_wire::channel::ChannelName;

use crate::inbox::{self, Inbox, InboxError};
use crate::intake::{Ingested, Sink, SinkError};
use crate::turns::Turns;
use crate::workers::speaker::alert;

/// The inbox, and whom to tell.
#[derive(Debug, Clone)]
pub struct InboxSink {
    pub inbox: Inbox,
    pub turns: Turns,
}

impl InboxSink {
    async fn tell(&self, ingested: inbox::Ingested) -> Ingested {
        for rejected in ingested.rejected {
            let what = format!("a message on {} was rejected: {}", rejected.channel, rejected.reason);
            alert(&self.turns, &self.inbox, AlertKind::Rejected, None, Vec::new(), what).await;
        }
        Ingested { pending: ingested.pending }
    }
}

fn sink_error(error: InboxError) -> SinkError {
    SinkError(error.to_string())
}

impl Sink for InboxSink {
    async fn start_offset(&self, channel: &ChannelName) -> Result<u64, SinkError> {
        self.inbox.received(channel).await.map_err(sink_error)
    }

    async fn has_partial(&self, channel: &ChannelName) -> Result<bool, SinkError> {
        self.inbox.has_partial(channel).await.map_err(sink_error)
    }

    async fn ingest(
        &self,
        channel: &ChannelName,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<Ingested, SinkError> {
        let ingested = self.inbox.ingest(channel, offset, bytes).await.map_err(sink_error)?;
        Ok(self.tell(ingested).await)
    }

    async fn flush_quiet(&self, channel: &ChannelName) -> Result<(), SinkError> {
        let ingested = self.inbox.flush_quiet(channel).await.map_err(sink_error)?;
        self.tell(ingested).await;
        Ok(())
    }
}
