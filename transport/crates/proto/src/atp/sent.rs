//! Packets that are on their way, and what is in them: so that what is lost can be sent again.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use super::interface::StreamId;
use crate::Time;

/// What a packet carries that may have to be sent again, in another packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A piece of a stream.
    Stream { stream: StreamId, bytes: Range<u64>, ends: bool },
    /// A piece of what TLS says after the handshake.
    Crypto(Range<u64>),
    /// The handshake is through.
    Done,
    /// The token to begin with the next time.
    Token,
    /// How much may be sent in all.
    MaxData,
    /// How much of a stream.
    MaxStreamData(StreamId),
    /// How many streams.
    MaxStreams,
    /// A stream that was given up.
    Reset(StreamId),
    /// A stream that is not wanted any more.
    Stop(StreamId),
}

/// A packet that is to be acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Time,
    /// Of its datagram.
    pub(crate) bytes: u32,
    /// The window kept more from being sent after it.
    pub(crate) limited: bool,
    pub(crate) content: Vec<Content>,
}

/// The packets that were sent, and are neither acknowledged nor lost.
#[derive(Debug, Default)]
pub(crate) struct SentPackets {
    /// The number of the first in `packets`.
    first: u64,
    packets: VecDeque<Option<Sent>>,
    in_flight: u64,
    spare: Vec<Vec<Content>>,
}

impl SentPackets {
    /// A packet was sent; none lower will be. `sent`: if it is to be acknowledged.
    pub(crate) fn push(&mut self, number: u64, sent: Sent) {
        if self.packets.is_empty() {
            self.first = number;
        }
        self.in_flight += u64::from(sent.bytes);
        while self.first + (self.packets.len() as u64) < number {
            self.packets.push_back(None);
        }
        self.packets.push_back(Some(sent));
    }

    /// An empty list, with memory if there is some.
    pub(crate) fn content(&mut self) -> Vec<Content> {
        self.spare.pop().unwrap_or_default()
    }

    /// The memory of a list is of no use any more.
    pub(crate) fn recycle(&mut self, mut content: Vec<Content>) {
        if self.spare.len() < 64 {
            content.clear();
            self.spare.push(content);
        }
    }

    /// Bytes on their way.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The lowest number on its way.
    pub(crate) fn first(&self) -> Option<u64> {
        (!self.packets.is_empty()).then_some(self.first)
    }

    /// When the one was sent that has been on its way for longest.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.packets.front()?.as_ref().map(|sent| sent.at)
    }

    /// Takes out the packets of a range that were sent until then.
    pub(crate) fn take(&mut self, range: RangeInclusive<u64>, until: Time, mut each: impl FnMut(u64, Sent)) {
        let begin = range.start().saturating_sub(self.first).min(self.packets.len() as u64);
        let end = (range.end() + 1).saturating_sub(self.first).min(self.packets.len() as u64);
        for at in begin..end {
            if let Some(sent) = self.packets[at as usize].take_if(|sent| sent.at <= until) {
                self.in_flight -= u64::from(sent.bytes);
                each(self.first + at, sent);
            }
        }
        while self.packets.front().is_some_and(Option::is_none) {
            self.packets.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(at: u64) -> Sent {
        Sent { at: Time::from_nanos(at), bytes: 100, limited: false, content: vec![Content::MaxData] }
    }

    fn taken(packets: &mut SentPackets, range: RangeInclusive<u64>) -> Vec<u64> {
        let mut numbers = Vec::new();
        packets.take(range, Time::from_nanos(1_000), |number, _| numbers.push(number));
        numbers
    }

    #[test]
    fn each_packet_is_taken_once() {
        let mut packets = SentPackets::default();
        for number in [5, 6, 9, 10] {
            packets.push(number, sent(number));
        }
        assert_eq!((packets.first(), packets.in_flight()), (Some(5), 400));
        assert_eq!(taken(&mut packets, 6..=9), [6, 9]);
        assert_eq!(taken(&mut packets, 0..=9), [5]);
        assert_eq!((packets.first(), packets.oldest()), (Some(10), Some(Time::from_nanos(10))));
        assert_eq!(taken(&mut packets, 0..=u64::MAX - 1), [10]);
        assert_eq!((packets.first(), packets.in_flight(), packets.oldest()), (None, 0, None));
        packets.push(20, sent(20));
        assert_eq!(packets.first(), Some(20));
    }

    #[test]
    fn young_packets_are_left() {
        let mut packets = SentPackets::default();
        for number in 0..5 {
            packets.push(number, sent(10 * number));
        }
        let mut numbers = Vec::new();
        packets.take(1..=4, Time::from_nanos(20), |number, _| numbers.push(number));
        assert_eq!((numbers, packets.first()), (vec![1, 2], Some(0)));
        packets.take(0..=2, Time::from_nanos(20), |_, _| {});
        assert_eq!((packets.first(), packets.in_flight()), (Some(3), 200));
    }
}
