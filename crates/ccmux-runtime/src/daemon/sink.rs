//! The inbox as the place where FIFOs' bytes go. What it rejects is told to subscribers here.

use std::time::Duration;

use ccmux_policy::AlertKind;
use ccmux_wire::channel::ChannelName;
use tokio::time::Instant;

use crate::inbox::{self, Inbox, InboxError};
use crate::intake::{Ingested, Sink, SinkError};
use crate::workers::herald::{Alerts, News};

/// Bytes that hold what can't be messages wait so long, all together, until that is told.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

/// The inbox, and whom to tell.
#[derive(Debug, Clone)]
pub struct InboxSink {
    pub inbox: Inbox,
    pub alerts: Alerts,
}

impl InboxSink {
    /// A flood of them waits for the herald, but a database that refuses holds up no channel for long.
    async fn tell(&self, ingested: inbox::Ingested) -> Ingested {
        let deadline = Instant::now() + TOLD_WITHIN;
        for rejected in ingested.rejected {
            let what = format!("a message on {} was rejected: {}", rejected.channel, rejected.reason);
            let news = News::of_channel(AlertKind::Rejected, rejected.channel, what);
            self.alerts.raise_until(deadline, news).await;
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
