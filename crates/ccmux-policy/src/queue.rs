//! Which messages make the next batch: order of arrival, a limit in bytes, and no channel waits behind a flood.

use std::collections::{BTreeMap, VecDeque};

use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::MessageId;

use crate::event::Message;

/// A batch that failed that often is split: its messages go one by one.
pub const SPLIT_AFTER_FAILURES: u32 = 5;

/// Messages that wait, per channel in order of arrival.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    channels: BTreeMap<ChannelName, VecDeque<Message>>,
    messages: u64,
    bytes: u64,
}

impl Queue {
    /// Takes a message in, at the place its id says: a message that comes back goes before later ones.
    pub fn insert(&mut self, message: Message) {
        self.messages += 1;
        self.bytes += message.bytes;
        let line = self.channels.entry(message.channel.clone()).or_default();
        let place = line.partition_point(|waiting| waiting.id < message.id);
        line.insert(place, message);
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// How many wait.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// How many bytes wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes the next batch out: channel by channel in turn, each one's oldest, until `limit` bytes; shown in order of
    /// arrival. A bigger message goes alone, and so does one whose batch failed [`SPLIT_AFTER_FAILURES`] times.
    pub fn take_batch(&mut self, limit: u64) -> Vec<Message> {
        let mut batch: Vec<Message> = Vec::new();
        let mut bytes = 0;
        let mut round: VecDeque<ChannelName> = self.channels_by_age();
        while let Some(channel) = round.pop_front() {
            let Some(head) = self.channels.get(&channel).and_then(VecDeque::front) else {
                continue;
            };
            let alone = head.failures >= SPLIT_AFTER_FAILURES;
            if !batch.is_empty() && (alone || bytes + head.bytes + 1 > limit) {
                continue;
            }
            bytes += head.bytes + 1;
            batch.extend(self.pop(&channel));
            if alone || bytes >= limit {
                break;
            }
            round.push_back(channel);
        }
        batch.sort_by_key(|message| message.id);
        batch
    }

    fn channels_by_age(&self) -> VecDeque<ChannelName> {
        let mut heads: Vec<(MessageId, &ChannelName)> = self
            .channels
            .iter()
            .filter_map(|(name, line)| line.front().map(|head| (head.id, name)))
            .collect();
        heads.sort();
        heads.into_iter().map(|(_, name)| name.clone()).collect()
    }

    fn pop(&mut self, channel: &ChannelName) -> Option<Message> {
        let line = self.channels.get_mut(channel)?;
        let message = line.pop_front()?;
        if line.is_empty() {
            self.channels.remove(channel);
        }
        self.messages -= 1;
        self.bytes -= message.bytes;
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: u64, channel: &str, bytes: u64) -> Message {
        Message { id: MessageId(id), channel: channel.parse().unwrap(), bytes, rows: 1, failures: 0 }
    }

    fn queue(messages: &[(u64, &str, u64)]) -> Queue {
        let mut queue = Queue::default();
        messages.iter().for_each(|(id, channel, bytes)| queue.insert(message(*id, channel, *bytes)));
        queue
    }

    fn ids(batch: &[Message]) -> Vec<u64> {
        batch.iter().map(|message| message.id.0).collect()
    }

    #[test]
    fn all_that_waits_goes_in_one_batch_in_order_of_arrival() {
        let mut queue = queue(&[(1, "b", 10), (2, "a", 10), (3, "b", 10)]);
        assert_eq!(ids(&queue.take_batch(1000)), [1, 2, 3]);
        assert!(queue.is_empty());
        assert_eq!((queue.messages(), queue.bytes()), (0, 0));
    }

    #[test]
    fn a_message_bigger_than_the_limit_goes_alone() {
        let mut queue = queue(&[(1, "a", 5000), (2, "a", 10), (3, "a", 10)]);
        assert_eq!(ids(&queue.take_batch(100)), [1]);
        assert_eq!(ids(&queue.take_batch(100)), [2, 3]);
    }

    #[test]
    fn a_flooder_delays_another_channel_by_at_most_one_batch() {
        let mut flood: Vec<(u64, &str, u64)> = (1..=100).map(|id| (id, "flood", 50)).collect();
        flood.push((101, "quiet", 50));
        let mut queue = queue(&flood);
        let first = ids(&queue.take_batch(200));
        assert!(first.contains(&101), "{first:?}");
        assert_eq!(first[0], 1, "the oldest goes first");
    }

    #[test]
    fn a_message_that_comes_back_goes_before_later_ones_of_its_channel() {
        let mut queue = queue(&[(2, "a", 10), (3, "a", 10)]);
        queue.insert(message(1, "a", 10));
        assert_eq!(ids(&queue.take_batch(1000)), [1, 2, 3]);
    }

    /// Field fault 7.
    #[test]
    fn the_messages_of_a_batch_that_failed_five_times_go_one_by_one() {
        let mut queue = queue(&[(3, "a", 10)]);
        for id in [1, 2] {
            queue.insert(Message { failures: SPLIT_AFTER_FAILURES, ..message(id, "a", 10) });
        }
        assert_eq!(ids(&queue.take_batch(1000)), [1]);
        assert_eq!(ids(&queue.take_batch(1000)), [2]);
        assert_eq!(ids(&queue.take_batch(1000)), [3]);
    }

    #[test]
    fn a_batch_keeps_the_order_within_each_channel_even_when_a_big_message_is_left_behind() {
        let mut queue = queue(&[(1, "a", 60), (2, "b", 60), (3, "a", 10), (4, "b", 10)]);
        let first = ids(&queue.take_batch(100));
        let second = ids(&queue.take_batch(100));
        assert_eq!(first, [1, 3], "b's oldest does not fit, so nothing of b goes");
        assert_eq!(second, [2, 4]);
    }
}
