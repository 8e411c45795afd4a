//! Which messages make the next batch: order of arrival, a limit in bytes, and no channel waits behind a flood.
//!
//! Channels take turns. A channel that waited and got nothing into a batch was passed over once more; whoever was passed
//! over most comes first in the next batch, and a channel's priority counts as that many times. So a flooder delays
//! another channel by one batch, and one of priority n by n batches more: nobody waits for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ccmux_wire::channel::ChannelName;
use ccmux_wire::id::MessageId;

use crate::event::Message;
use crate::now::{Mono, Now};

/// A batch that failed that often is split: its messages go one by one.
pub const SPLIT_AFTER_FAILURES: u32 = 5;

/// Messages that wait, per channel in order of arrival.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    channels: BTreeMap<ChannelName, Line>,
    messages: u64,
    bytes: u64,
    /// Nothing expires before.
    expires: Option<Mono>,
    /// Messages that the pane is too small for, and with them the later ones of their channels.
    too_big: BTreeSet<MessageId>,
}

/// One channel's.
#[derive(Debug, Clone, Default)]
struct Line {
    waiting: VecDeque<Waiting>,
    passed_over: i64,
}

#[derive(Debug, Clone)]
struct Waiting {
    message: Message,
    expires: Option<Mono>,
}

impl Queue {
    /// Takes a message in, at the place its id says: a message that comes back goes before later ones.
    pub fn insert(&mut self, message: Message, now: Now) {
        self.messages += 1;
        self.bytes += message.bytes;
        let left = message.expires_at.map(|at| at.0.saturating_sub(now.wall.0).max(0).unsigned_abs());
        let line = &mut self.channels.entry(message.channel.clone()).or_default().waiting;
        let place = line.partition_point(|waiting| waiting.message.id < message.id);
        let expires = left.map(|left| now.mono + left);
        line.insert(place, Waiting { message, expires });
        self.expires = self.expires.into_iter().chain(expires).min();
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

    /// When messages may be too old to be sent: not before.
    pub fn expires_at(&self) -> Option<Mono> {
        self.expires
    }

    /// Takes out what is too old by now.
    pub fn take_expired(&mut self, now: Mono) -> Vec<Message> {
        if self.expires.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for line in self.channels.values_mut() {
            line.waiting.retain(|waiting| {
                let is_old = waiting.expires.is_some_and(|at| at <= now);
                taken.extend(is_old.then(|| waiting.message.clone()));
                !is_old
            });
        }
        self.channels.retain(|_, line| !line.waiting.is_empty());
        let left = self.channels.values().flat_map(|line| &line.waiting);
        self.expires = left.filter_map(|waiting| waiting.expires).min();
        self.messages -= taken.len() as u64;
        self.bytes -= taken.iter().map(|message| message.bytes).sum::<u64>();
        taken
    }

    /// Takes a message out, if it waits. Many are dropped one by one: no other one is looked at.
    pub fn remove(&mut self, id: MessageId) {
        for line in self.channels.values_mut() {
            let place = line.waiting.binary_search_by_key(&id, |waiting| waiting.message.id);
            let removed = place.ok().and_then(|place| line.waiting.remove(place));
            self.bytes -= removed.as_ref().map_or(0, |removed| removed.message.bytes);
            self.messages -= u64::from(removed.is_some());
        }
        self.channels.retain(|_, line| !line.waiting.is_empty());
    }

    /// Takes the next batch out: channel by channel in turn, each one's oldest, until `limit` bytes; shown in order of
    /// arrival. A bigger message goes alone, and so does one whose batch failed [`SPLIT_AFTER_FAILURES`] times.
    pub fn take_batch(&mut self, limit: u64) -> Vec<Message> {
        let mut batch: Vec<Message> = Vec::new();
        let mut bytes = 0;
        let mut round = self.channels_in_turn();
        self.channels.values_mut().for_each(|line| line.passed_over += 1);
        while let Some(channel) = round.pop_front() {
            let Some(head) = self.head(&channel) else { continue };
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

    /// Who waited longest comes first: passed over most, then oldest.
    fn channels_in_turn(&self) -> VecDeque<ChannelName> {
        let rank = |line: &Line| {
            line.waiting
                .front()
                .map(|head| (-(line.passed_over + i64::from(head.message.priority)), head.message.id))
        };
        let mut ranked: Vec<_> =
            self.channels.iter().filter_map(|(name, line)| Some((rank(line)?, name))).collect();
        ranked.sort();
        ranked.into_iter().map(|(_, name)| name.clone()).collect()
    }

    /// Each channel's oldest.
    pub fn heads(&self) -> impl Iterator<Item = &Message> {
        self.channels.values().filter_map(|line| line.waiting.front()).map(|head| &head.message)
    }

    /// Holds a message back until [`Self::let_go`]; its channel keeps its order and waits behind it.
    pub fn hold(&mut self, id: MessageId) {
        self.too_big.insert(id);
    }

    /// Nothing is held back any more.
    pub fn let_go(&mut self) {
        self.too_big.clear();
    }

    /// Whether some message could make a batch.
    pub fn has_free(&self) -> bool {
        self.heads().any(|head| !self.too_big.contains(&head.id))
    }

    fn head(&self, channel: &ChannelName) -> Option<&Message> {
        let head = self.channels.get(channel)?.waiting.front().map(|head| &head.message);
        head.filter(|head| !self.too_big.contains(&head.id))
    }

    fn pop(&mut self, channel: &ChannelName) -> Option<Message> {
        let line = self.channels.get_mut(channel)?;
        let message = line.waiting.pop_front()?.message;
        line.passed_over = 0;
        if line.waiting.is_empty() {
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
        let channel = channel.parse().unwrap();
        Message { id: MessageId(id), channel, bytes, rows: 1, failures: 0, priority: 0, expires_at: None }
    }

    fn queue(messages: &[(u64, &str, u64)]) -> Queue {
        let mut queue = Queue::default();
        messages
            .iter()
            .for_each(|(id, channel, bytes)| queue.insert(message(*id, channel, *bytes), Now::default()));
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
    fn a_message_is_taken_out_wherever_it_waits_and_one_that_does_not_wait_changes_nothing() {
        let mut queue = queue(&[(1, "a", 10), (2, "b", 20), (3, "a", 30), (5, "a", 40)]);
        [3, 2, 4, 3].into_iter().for_each(|id| queue.remove(MessageId(id)));
        assert_eq!((queue.messages(), queue.bytes()), (2, 50));
        assert_eq!(queue.heads().count(), 1, "a channel of which nothing waits is none");
        assert_eq!(ids(&queue.take_batch(1000)), [1, 5]);
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
        queue.insert(message(1, "a", 10), Now::default());
        assert_eq!(ids(&queue.take_batch(1000)), [1, 2, 3]);
    }

    /// Field fault 7.
    #[test]
    fn the_messages_of_a_batch_that_failed_five_times_go_one_by_one() {
        let mut queue = queue(&[(3, "a", 10)]);
        for id in [1, 2] {
            queue.insert(Message { failures: SPLIT_AFTER_FAILURES, ..message(id, "a", 10) }, Now::default());
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

    /// Batches until the channel got something in, the one it got into counted.
    fn batches_until(queue: &mut Queue, channel: &str, limit: u64) -> usize {
        let has = |batch: Vec<Message>| batch.iter().any(|message| message.channel.as_str() == channel);
        1 + (0..1_000).take_while(|_| !has(queue.take_batch(limit))).count()
    }

    #[test]
    fn a_flooder_whose_messages_fill_a_batch_each_delays_another_channel_by_one_batch() {
        for size in [50, 150, 5_000] {
            let mut flood: Vec<(u64, &str, u64)> = (1..=100).map(|id| (id, "flood", size)).collect();
            flood.push((101, "quiet", 150));
            assert!(batches_until(&mut queue(&flood), "quiet", 200) <= 2, "{size}");
        }
    }

    #[test]
    fn channels_that_were_passed_over_take_turns() {
        let names = ["flood", "b", "c", "d"];
        let mut all = queue(&[]);
        for id in 1..=80 {
            all.insert(message(id, names[id as usize % 4], 5_000), Now::default());
        }
        for round in 0..20 {
            let mut got: Vec<String> =
                (0..4).flat_map(|_| all.take_batch(200)).map(|message| message.channel.to_string()).collect();
            got.sort();
            assert_eq!(got, ["b", "c", "d", "flood"], "round {round}");
        }
    }

    #[test]
    fn a_higher_priority_goes_first_and_starves_nobody() {
        let urgent = |id| Message { priority: 3, ..message(id, "urgent", 150) };
        let mut queue = queue(&[(200, "plain", 150)]);
        (2..100).for_each(|id| queue.insert(urgent(id), Now::default()));
        assert_eq!(ids(&queue.take_batch(200)), [2]);
        let waited = 1 + batches_until(&mut queue, "plain", 200);
        assert_eq!(waited, 5, "behind three batches for the priority and one for the turn");
    }

    #[test]
    fn what_is_too_old_is_taken_out_and_the_next_end_is_known() {
        let now = Now { mono: Mono(1_000), wall: crate::now::UnixMs(50_000), utc_offset_s: 0 };
        let until = |id, wall| Message { expires_at: Some(crate::now::UnixMs(wall)), ..message(id, "a", 10) };
        let mut queue = queue(&[(3, "a", 10)]);
        queue.insert(until(1, 50_500), now);
        queue.insert(until(2, 49_000), now);
        assert_eq!(queue.expires_at(), Some(Mono(1_000)), "it was too old when it came");
        assert_eq!(ids(&queue.take_expired(Mono(1_000))), [2]);
        assert_eq!((queue.expires_at(), queue.messages(), queue.bytes()), (Some(Mono(1_500)), 2, 20));
        assert_eq!(ids(&queue.take_expired(Mono(1_500))), [1]);
        assert_eq!(queue.expires_at(), None);
        queue.remove(MessageId(3));
        queue.remove(MessageId(3));
        assert!(queue.is_empty() && queue.bytes() == 0);
    }
}
