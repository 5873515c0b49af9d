//! Datagrams that are to be sent, in bursts of one size as a system sends them by one call.

use std::net::{IpAddr, SocketAddr};

use crate::ecn::Codepoint;

/// Bytes of a burst at most: what a datagram of UDP may have.
const MOST_BYTES: usize = 65_000;
/// Datagrams of a burst at most, as Linux takes them (`UDP_MAX_SEGMENTS`).
const MOST_DATAGRAMS: usize = 64;
/// Bursts of which the memory is kept.
const MOST_SPARE: usize = 16;

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Our address.
    pub from: IpAddr,
    /// The peer.
    pub to: SocketAddr,
}

/// Datagrams of one size, of which the last may be shorter.
#[derive(Clone, Debug)]
pub struct Burst {
    /// Their addresses.
    pub way: Way,
    /// Their mark.
    pub ecn: Codepoint,
    /// The size.
    pub segment_bytes: usize,
    /// All of them.
    pub bytes: Vec<u8>,
}

impl Burst {
    fn takes(&self, way: Way, ecn: Codepoint) -> bool {
        (self.way, self.ecn) == (way, ecn)
            && self.bytes.len().is_multiple_of(self.segment_bytes)
            && self.bytes.len() + self.segment_bytes <= MOST_BYTES
            && self.bytes.len() / self.segment_bytes < MOST_DATAGRAMS
    }
}

/// Bursts, in the order in which they are to be sent.
#[derive(Debug, Default)]
pub struct Outbox {
    bursts: Vec<Burst>,
    spare: Vec<Vec<u8>>,
}

impl Outbox {
    /// Appends a datagram, which `write` appends to what it is given.
    pub fn write(&mut self, way: Way, ecn: Codepoint, write: impl FnOnce(&mut Vec<u8>)) {
        let goes_on = self.bursts.last_mut().filter(|burst| burst.takes(way, ecn));
        let Some(burst) = goes_on else {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            write(&mut bytes);
            return self.push(way, ecn, bytes);
        };
        let begin = burst.bytes.len();
        write(&mut burst.bytes);
        if burst.bytes.len() - begin > burst.segment_bytes {
            let longer = burst.bytes.split_off(begin);
            self.push(way, ecn, longer);
        }
    }

    fn push(&mut self, way: Way, ecn: Codepoint, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.bursts.push(Burst { way, ecn, segment_bytes: bytes.len(), bytes });
        }
    }

    /// Gives all bursts to `send` and is empty.
    pub fn drain(&mut self, mut send: impl FnMut(&Burst)) {
        for burst in self.bursts.drain(..) {
            send(&burst);
            if self.spare.len() < MOST_SPARE {
                self.spare.push(burst.bytes);
            }
        }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.bursts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn datagrams_keep_their_borders_and_their_order(
            sent in proptest::collection::vec((0..2_u8, 0..2_u8, prop_oneof![1..4_usize, 700..702_usize]), 0..300),
        ) {
            let way = |n: u8| Way { from: [10, 0, 0, 1].into(), to: SocketAddr::new([10, 0, 0, n].into(), 9) };
            let mut outbox = Outbox::default();
            for (n, (to, ecn, len)) in sent.iter().enumerate() {
                outbox.write(way(*to), Codepoint::from_bits(*ecn), |out| out.extend(vec![n as u8; *len]));
            }
            let mut came = Vec::new();
            outbox.drain(|burst| {
                assert!(burst.bytes.len() <= MOST_BYTES);
                let datagrams = burst.bytes.chunks(burst.segment_bytes);
                assert!(datagrams.len() <= MOST_DATAGRAMS);
                came.extend(datagrams.map(|one| (burst.way, burst.ecn, one.to_vec())));
            });
            prop_assert!(outbox.is_empty());
            let expected: Vec<_> = sent
                .iter()
                .enumerate()
                .map(|(n, (to, ecn, len))| (way(*to), Codepoint::from_bits(*ecn), vec![n as u8; *len]))
                .collect();
            prop_assert_eq!(came, expected);
        }
    }
}
