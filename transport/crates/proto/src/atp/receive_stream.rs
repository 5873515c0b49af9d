//! One direction of a stream: the receiver's end.

use std::collections::VecDeque;

use crate::ranges::RangeSet;

/// Pieces apart from each other that are kept; beyond, what comes out of order is not taken, and comes again.
const MOST_RANGES: usize = 256;

/// Memory that a stream keeps when nothing is in it.
const KEPT_BYTES: usize = 4 << 10;

/// What a sender may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// More than was allowed.
    BeyondMax,
    /// Two different ends, or bytes after the end.
    TwoEnds,
}

/// Whether a piece was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It was, or was here already.
    Yes,
    /// There is no room: it is to come again.
    No,
}

/// Bytes that have come, until they are read.
#[derive(Debug)]
pub(crate) struct ReceiveStream {
    /// From `read` on; what has not come is zeros.
    bytes: VecDeque<u8>,
    /// All before it has been read.
    read: u64,
    /// What has come from there on.
    came: RangeSet,
    /// The largest offset that the sender has used.
    used: u64,
    /// Where it ends.
    end: Option<u64>,
    /// The sender has given it up, for this reason.
    reset: Option<u64>,
    /// Nobody reads it any more.
    stopped: bool,
    /// How much may be sent in all, as the sender knows, and how much beyond what is read may be.
    max: u64,
    window: u64,
}

impl ReceiveStream {
    pub(crate) fn new(window: u64) -> Self {
        ReceiveStream {
            bytes: VecDeque::new(),
            read: 0,
            came: RangeSet::default(),
            used: 0,
            end: None,
            reset: None,
            stopped: false,
            max: window,
            window,
        }
    }

    /// How many more bytes of the stream a piece makes the sender's than were before; it is the connection's to allow them.
    pub(crate) fn new_bytes(&self, end: u64) -> u64 {
        end.saturating_sub(self.used)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes of memory that it would hold after a piece that ends there.
    pub(crate) fn would_hold(&self, end: u64) -> usize {
        let length = end.saturating_sub(self.read) as usize;
        // A VecDeque grows to twice of what it was, at least.
        if self.stopped || length <= self.bytes.capacity() {
            self.bytes.capacity()
        } else {
            length.max(2 * self.bytes.capacity())
        }
    }

    /// A piece has come.
    ///
    /// # Errors
    /// What the sender may not do.
    pub(crate) fn insert(&mut self, offset: u64, bytes: &[u8], ends: bool) -> Result<Taken, Violation> {
        let end = offset + bytes.len() as u64;
        if end > self.max {
            return Err(Violation::BeyondMax);
        }
        if self.end.is_some_and(|known| end > known || ends && end != known) || ends && end < self.used {
            return Err(Violation::TwoEnds);
        }
        if self.came.ranges() >= MOST_RANGES && offset > self.contiguous_end() {
            return Ok(Taken::No);
        }
        self.used = self.used.max(end);
        if ends {
            self.end = Some(end);
        }
        if self.stopped || self.reset.is_some() || end <= self.read {
            return Ok(Taken::Yes);
        }
        let bytes = &bytes[self.read.saturating_sub(offset) as usize..];
        let begin = (offset.max(self.read) - self.read) as usize;
        self.came.insert(self.read + begin as u64..end);
        if begin == self.bytes.len() {
            self.bytes.extend(bytes);
        } else {
            self.bytes.resize(self.bytes.len().max(begin + bytes.len()), 0);
            let (head, tail) = self.bytes.as_mut_slices();
            let cut = head.len();
            let in_head = bytes.len().min(cut.saturating_sub(begin));
            head[begin.min(cut)..begin.min(cut) + in_head].copy_from_slice(&bytes[..in_head]);
            let at = begin.max(cut) - cut;
            tail[at..at + bytes.len() - in_head].copy_from_slice(&bytes[in_head..]);
        }
        Ok(Taken::Yes)
    }

    /// The sender has given the stream up after `size` bytes.
    ///
    /// # Errors
    /// What the sender may not do.
    pub(crate) fn on_reset(&mut self, code: u64, size: u64) -> Result<(), Violation> {
        if size > self.max {
            return Err(Violation::BeyondMax);
        }
        if size < self.used || self.end.is_some_and(|end| end != size) {
            return Err(Violation::TwoEnds);
        }
        self.used = size;
        // What has come whole stays whole.
        if self.end != Some(self.contiguous_end()) {
            (self.reset, self.end) = (Some(code), Some(size));
            (self.bytes, self.came) = Default::default();
        }
        Ok(())
    }

    /// Nobody reads it any more.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        (self.bytes, self.came) = Default::default();
    }

    fn contiguous_end(&self) -> u64 {
        self.came.first().filter(|first| first.start == self.read).map_or(self.read, |first| first.end)
    }

    /// Bytes that can be read.
    pub(crate) fn readable(&self) -> usize {
        (self.contiguous_end() - self.read) as usize
    }

    /// Whether all has been read.
    pub(crate) fn has_ended(&self) -> bool {
        self.end == Some(self.read) && self.reset.is_none()
    }

    /// Whether all of it has come, and somebody may still read it.
    pub(crate) fn is_whole(&self) -> bool {
        !self.stopped && self.reset.is_none() && self.end == Some(self.contiguous_end())
    }

    /// The sender's reason to give it up.
    pub(crate) fn reset(&self) -> Option<u64> {
        self.reset
    }

    /// Whether nothing more is to come that anybody waits for.
    pub(crate) fn is_over(&self) -> bool {
        self.reset.is_some() || self.has_ended() || self.stopped && self.end == Some(self.used)
    }

    /// Whether a reader has something to learn: bytes, the end, or a reset.
    pub(crate) fn is_readable(&self) -> bool {
        !self.stopped && (self.readable() > 0 || self.end == Some(self.read) || self.reset.is_some())
    }

    /// Reads bytes in order. Returns how many.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> usize {
        let count = self.readable().min(out.len());
        let (head, tail) = self.bytes.as_slices();
        let in_head = count.min(head.len());
        out[..in_head].copy_from_slice(&head[..in_head]);
        out[in_head..count].copy_from_slice(&tail[..count - in_head]);
        self.bytes.drain(..count);
        // Many streams of which little is left must not hold what they once had.
        if self.bytes.capacity() > 4 * self.bytes.len() + KEPT_BYTES {
            self.bytes.shrink_to(2 * self.bytes.len());
        }
        let from = self.read;
        self.read += count as u64;
        self.came.remove(from..self.read);
        count
    }

    /// Bytes that are of no interest any more, from the first on.
    pub(crate) fn consumed(&self) -> u64 {
        if self.stopped || self.reset.is_some() { self.used } else { self.read }
    }

    /// Whether it is worth telling the sender how much more it may send: when half of the window is used.
    pub(crate) fn wants_max(&self) -> bool {
        self.end.is_none() && !self.stopped && self.read + self.window - self.max >= self.window.div_ceil(2)
    }

    /// Allows the sender as much as there is room for. Returns how much that is in all.
    pub(crate) fn take_max(&mut self) -> u64 {
        self.max = self.max.max(self.read + self.window);
        self.max
    }

    /// So much may be sent beyond what is read, or more.
    pub(crate) fn widen(&mut self, window: u64) {
        self.window = self.window.max(window);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes in whatever order, more than once and in other pieces: what is read is what was written, once.
        #[test]
        fn bytes_are_read_once_and_in_order(
            pieces in proptest::collection::vec((0..300_u64, 0..60_usize, 0..50_usize), 0..60),
        ) {
            let written: Vec<u8> = (0..300_u64).map(|n| (n * 7 % 251) as u8).collect();
            let mut stream = ReceiveStream::new(1_000);
            let mut read = Vec::new();
            let all = (0..300).step_by(50).map(|offset| (offset, 50, 1000));
            for (offset, length, reads) in pieces.into_iter().chain(all) {
                let end = written.len().min(offset as usize + length);
                let before = stream.would_hold(end as u64);
                let taken = stream.insert(offset, &written[offset as usize..end], end == written.len());
                prop_assert_eq!(taken, Ok(Taken::Yes));
                prop_assert!(stream.held_bytes() <= before.max(8));
                let mut out = vec![0; reads];
                let count = stream.read(&mut out);
                read.extend_from_slice(&out[..count]);
            }
            prop_assert_eq!(read, written);
            prop_assert!(stream.has_ended() && stream.is_over());
        }
    }

    #[test]
    fn a_sender_is_kept_to_what_it_was_allowed() {
        let mut stream = ReceiveStream::new(8);
        assert_eq!(stream.insert(0, b"012345678", false), Err(Violation::BeyondMax));
        assert_eq!(stream.insert(6, b"67", false), Ok(Taken::Yes));
        assert_eq!(stream.insert(0, b"012345", false), Ok(Taken::Yes));
        assert_eq!(stream.read(&mut [0; 3]), 3);
        assert!(!stream.wants_max());
        assert_eq!(stream.read(&mut [0; 3]), 3);
        assert!(stream.wants_max());
        assert_eq!(stream.take_max(), 14);
        assert!(!stream.wants_max());
        stream.widen(100);
        assert_eq!(stream.take_max(), 106);
    }

    #[test]
    fn a_stream_has_one_end() {
        let mut stream = ReceiveStream::new(100);
        assert_eq!(stream.insert(0, b"0123", true), Ok(Taken::Yes));
        assert_eq!(stream.insert(0, b"01", true), Err(Violation::TwoEnds));
        assert_eq!(stream.insert(4, b"4", false), Err(Violation::TwoEnds));
        assert_eq!(stream.on_reset(1, 5), Err(Violation::TwoEnds));
        assert_eq!(stream.on_reset(1, 4), Ok(()));
        assert_eq!((stream.reset(), stream.readable()), (None, 4), "all of it has come");
        let mut stream = ReceiveStream::new(100);
        stream.insert(2, b"23", false).unwrap();
        assert_eq!(stream.insert(0, b"01", true), Err(Violation::TwoEnds), "bytes after it have come");
        assert_eq!(stream.on_reset(7, 9), Ok(()));
        assert_eq!((stream.reset(), stream.is_over(), stream.held_bytes()), (Some(7), true, 0));
    }

    #[test]
    fn pieces_without_number_cost_nothing() {
        let mut stream = ReceiveStream::new(10_000);
        let taken = (0..1_000).map(|n| stream.insert(2 * n + 1, b"x", false).unwrap());
        assert_eq!(taken.filter(|taken| *taken == Taken::Yes).count(), MOST_RANGES);
        assert_eq!(stream.insert(0, b"y", false), Ok(Taken::Yes), "what can be read is always taken");
    }
}
