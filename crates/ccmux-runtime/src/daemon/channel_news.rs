//! Tells subscribers of channels that come, go, or can't be.
//!
//! It follows the list of channels and compares what it last knew with what there is: a FIFO that is deleted and made
//! again at once is no news, and a flood of changes is told as fast as it can be. What was there when the daemon had
//! looked for the first time is no news either, unless it was refused. It looks into no directory.

use ccmux_policy::AlertKind;
use ccmux_wire::status::{ChannelStatus, Direction};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::workers::herald::{Alerts, News};

/// The task.
#[derive(Debug)]
pub struct ChannelNews {
    /// The list.
    pub channels: watch::Receiver<Vec<ChannelStatus>>,
    /// Cancelled once the list is complete for the first time.
    pub first_look: CancellationToken,
    /// Whom to tell.
    pub alerts: Alerts,
    /// Ends it.
    pub shutdown: CancellationToken,
}

impl ChannelNews {
    /// Runs until shutdown, or until nobody keeps the list.
    pub async fn run(self) {
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&self) {
        let mut channels = self.channels.clone();
        self.first_look.cancelled().await;
        let mut known: Vec<ChannelStatus> = channels.borrow_and_update().clone();
        self.tell(&[], known.iter().filter(|channel| is_refused(channel)));
        while channels.changed().await.is_ok() {
            let now = channels.borrow_and_update().clone();
            self.tell(&known, &now);
            known = now;
        }
    }

    fn tell<'a>(&self, before: &[ChannelStatus], now: impl IntoIterator<Item = &'a ChannelStatus>) {
        news(before, &now.into_iter().cloned().collect::<Vec<_>>())
            .into_iter()
            .for_each(|news| self.alerts.raise(news));
    }
}

/// What changed, in words.
fn news(before: &[ChannelStatus], now: &[ChannelStatus]) -> Vec<News> {
    let gone = before.iter().filter(|channel| is_open(channel));
    let gone = gone.filter(|channel| !same(now, channel).is_some_and(|now| is_open(now) || is_refused(now)));
    let closed = gone.map(|channel| one(AlertKind::ChannelClosed, channel, "its FIFO is gone"));
    let changed = now.iter().filter(|channel| same(before, channel) != Some(channel));
    let come = changed.filter_map(|channel| match same(before, channel) {
        _ if is_refused(channel) => Some(one(AlertKind::ChannelRefused, channel, &channel.state)),
        Some(before) if is_open(before) => None,
        _ if is_open(channel) => Some(one(AlertKind::ChannelOpened, channel, "open")),
        _ => None,
    });
    closed.chain(come).collect()
}

fn one(kind: AlertKind, channel: &ChannelStatus, what: &str) -> News {
    let way = match channel.direction {
        Direction::In => "in",
        Direction::Out => "out",
    };
    News::of_channel(kind, channel.name.clone(), format!("channel {} ({way}): {what}", channel.name))
}

/// The entry of the same channel.
fn same<'a>(list: &'a [ChannelStatus], channel: &ChannelStatus) -> Option<&'a ChannelStatus> {
    list.iter().find(|other| other.name == channel.name && other.direction == channel.direction)
}

fn is_refused(channel: &ChannelStatus) -> bool {
    channel.state.starts_with("refused: ")
}

/// A stalled channel is read again as soon as the inbox takes it: it stays open.
fn is_open(channel: &ChannelStatus) -> bool {
    channel.state == "open" || channel.state.starts_with("stalled: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(states: &[(&str, &str)]) -> Vec<ChannelStatus> {
        let entry = |(name, state): &(&str, &str)| ChannelStatus {
            name: name.parse().unwrap(),
            direction: Direction::In,
            state: (*state).to_owned(),
        };
        states.iter().map(entry).collect()
    }

    fn told(before: &[(&str, &str)], now: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        news(&list(before), &list(now)).into_iter().map(|news| (news.kind.word(), news.message)).collect()
    }

    const FILE: (&str, &str) = ("a", "a regular file: adopted once nobody writes to it");

    #[test]
    fn what_comes_goes_or_is_refused_is_told() {
        for (before, now, kind) in [
            (&[][..], &[("a", "open")][..], "channel_opened"),
            (&[FILE], &[("a", "open")], "channel_opened"),
            (&[("a", "refused: a symlink")], &[("a", "open")], "channel_opened"),
            (&[("a", "open")], &[], "channel_closed"),
            (&[("a", "stalled: full")], &[], "channel_closed"),
            (&[("a", "open")], &[FILE], "channel_closed"),
            (&[], &[("a", "refused: a symlink")], "channel_refused"),
            (&[("a", "open")], &[("a", "refused: a symlink")], "channel_refused"),
            (&[("a", "refused: a symlink")], &[("a", "refused: a device")], "channel_refused"),
        ] {
            let told = told(before, now);
            assert_eq!(told.len(), 1, "{before:?} {now:?}: {told:?}");
            assert_eq!(told[0].0, kind, "{before:?} {now:?}");
        }
        assert_eq!(told(&[], &[("a", "open")])[0].1, "channel a (in): open");
    }

    #[test]
    fn what_stays_as_it_is_or_only_stalls_is_no_news() {
        for (before, now) in [
            (&[("a", "open")][..], &[("a", "open")][..]),
            (&[("a", "open")], &[("a", "stalled: the inbox is full")]),
            (&[("a", "stalled: the inbox is full")], &[("a", "open")]),
            (&[], &[FILE]),
            (&[FILE], &[]),
            (&[("a", "refused: a symlink")], &[]),
        ] {
            assert_eq!(told(before, now), [], "{before:?} {now:?}");
        }
    }

    #[test]
    fn the_two_directions_of_a_name_are_two_channels() {
        let mut now = list(&[("a", "open"), ("a", "open")]);
        now[1].direction = Direction::Out;
        let told = news(&now[..1], &now);
        assert_eq!((told.len(), told[0].message.as_str()), (1, "channel a (out): open"));
    }
}
