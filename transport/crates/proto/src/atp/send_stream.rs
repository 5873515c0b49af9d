//! One direction of a stream: the sender's end.

use std::collections::VecDeque;
use std::ops::Range;

use crate::ranges::RangeSet;

/// What the receiver knows of a stream's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// It is to be told.
    Not,
    /// It has been told, and that has not been lost.
    Sent,
    Acknowledged,
}

/// What is to be sent of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: Range<u64>,
    /// The stream ends with them.
    pub(crate) ends: bool,
    /// They were sent before, and have been lost.
    pub(crate) again: bool,
}

/// Bytes that were written, until they are acknowledged.
#[derive(Debug)]
pub(crate) struct SendStream {
    /// From `base` on.
    written: VecDeque<u8>,
    /// All before it has been acknowledged.
    base: u64,
    /// What has been beyond.
    acknowledged: RangeSet,
    /// What has been lost and is to be sent again.
    lost: RangeSet,
    /// Nothing was sent from here on.
    next: u64,
    /// It ends with what is written.
    finished: bool,
    /// It ends before that: the application's reason.
    reset: Option<u64>,
    /// The end or the reset, once there is one.
    told: Told,
    /// How much the receiver lets be sent.
    max: u64,
    /// What it wants no more of, and why.
    stopped: Option<u64>,
}

impl SendStream {
    pub(crate) fn new(max: u64) -> Self {
        SendStream {
            written: VecDeque::new(),
            base: 0,
            acknowledged: RangeSet::default(),
            lost: RangeSet::default(),
            next: 0,
            finished: false,
            reset: None,
            told: Told::Not,
            max,
            stopped: None,
        }
    }

    /// Where it ends, as far as it is written.
    fn written_end(&self) -> u64 {
        self.base + self.written.len() as u64
    }

    /// Bytes that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.written.len()
    }

    /// All before has been acknowledged.
    pub(crate) fn first_offset(&self) -> u64 {
        self.base
    }

    /// Where the next piece begins that is sent for the first time.
    pub(crate) fn next_offset(&self) -> u64 {
        self.next
    }

    /// Writes bytes. Nothing may follow the end.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        debug_assert!(self.is_open(), "written after the end");
        self.written.extend(bytes);
    }

    /// Whether more may be written.
    pub(crate) fn is_open(&self) -> bool {
        !self.finished && self.reset.is_none()
    }

    /// The receiver's reason to want no more.
    pub(crate) fn stopped(&self) -> Option<u64> {
        self.stopped
    }

    /// It ends with what is written.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
    }

    /// Whether the receiver has got all, or knows that it does not get it.
    pub(crate) fn is_over(&self) -> bool {
        self.told == Told::Acknowledged && self.written.is_empty()
    }

    /// It is given up. What has been written need not arrive any more.
    pub(crate) fn reset(&mut self, code: u64) {
        if self.reset.is_none() && !self.is_over() {
            (self.reset, self.told) = (Some(code), Told::Not);
            (self.written, self.acknowledged, self.lost) = Default::default();
            self.base = self.next;
        }
    }

    /// The receiver wants no more of it.
    pub(crate) fn on_stop(&mut self, code: u64) {
        self.stopped.get_or_insert(code);
        self.reset(code);
    }

    /// The receiver lets so much be sent in all.
    pub(crate) fn on_max(&mut self, bytes: u64) {
        self.max = self.max.max(bytes);
    }

    /// The reset that is to be told: its code, and how much was sent.
    pub(crate) fn take_reset(&mut self) -> Option<(u64, u64)> {
        let code = self.reset.filter(|_| self.told == Told::Not)?;
        self.told = Told::Sent;
        Some((code, self.next))
    }

    /// The reset has come, or has been lost.
    pub(crate) fn on_reset_settled(&mut self, acknowledged: bool) {
        self.told = match self.told {
            Told::Sent if !acknowledged => Told::Not,
            _ if acknowledged => Told::Acknowledged,
            told => told,
        };
    }

    /// Whether a piece is to be sent; `credit`: bytes that may be sent for the first time, of all streams.
    pub(crate) fn is_pending(&self, credit: u64) -> bool {
        let tells = self.told == Told::Not && self.ends_with(self.next);
        tells || self.pending_bytes(credit) > 0
    }

    /// Bytes that can be sent for the first time.
    pub(crate) fn sendable(&self, credit: u64) -> u64 {
        let by_stream = self.written_end().min(self.max).saturating_sub(self.next);
        by_stream.min(credit)
    }

    /// Bytes that are to be sent, again or for the first time.
    pub(crate) fn pending_bytes(&self, credit: u64) -> u64 {
        self.sendable(credit) + self.lost.iter().map(|range| range.end - range.start).sum::<u64>()
    }

    /// Takes what is to be sent next, of no more than `most` bytes: what was lost first.
    pub(crate) fn take(&mut self, most: usize, credit: u64) -> Option<Piece> {
        if let Some(first) = self.lost.first() {
            let bytes = first.start..first.end.min(first.start + most as u64);
            if bytes.is_empty() {
                return None;
            }
            self.lost.remove(bytes.clone());
            let ends = self.tells_end(bytes.end);
            return Some(Piece { bytes, ends, again: true });
        }
        let length = self.sendable(credit).min(most as u64);
        let bytes = self.next..self.next + length;
        let told = self.told;
        let ends = self.tells_end(bytes.end);
        self.next = bytes.end;
        (length > 0 || ends && told == Told::Not).then_some(Piece { bytes, ends, again: false })
    }

    fn ends_with(&self, end: u64) -> bool {
        self.finished && self.reset.is_none() && end == self.written_end()
    }

    fn tells_end(&mut self, end: u64) -> bool {
        let ends = self.ends_with(end);
        if ends && self.told == Told::Not {
            self.told = Told::Sent;
        }
        ends
    }

    /// Appends bytes that were taken.
    pub(crate) fn copy(&self, bytes: Range<u64>, out: &mut Vec<u8>) {
        let range = (bytes.start - self.base) as usize..(bytes.end - self.base) as usize;
        let (head, tail) = self.written.as_slices();
        let cut = head.len();
        out.extend_from_slice(&head[range.start.min(cut)..range.end.min(cut)]);
        out.extend_from_slice(&tail[range.start.max(cut) - cut..range.end.max(cut) - cut]);
    }

    /// A piece has come. Returns how many bytes are held no more.
    pub(crate) fn on_acknowledged(&mut self, bytes: Range<u64>, ends: bool) -> usize {
        if self.reset.is_some() {
            return 0;
        }
        self.lost.remove(bytes.clone());
        self.acknowledged.insert(bytes.start.max(self.base)..bytes.end.max(self.base));
        let before = self.base;
        if let Some(first) = self.acknowledged.first().filter(|first| first.start == self.base) {
            self.base = first.end;
            self.acknowledged.remove(before..self.base);
            self.written.drain(..(self.base - before) as usize);
        }
        if ends {
            self.told = Told::Acknowledged;
        }
        (self.base - before) as usize
    }

    /// A piece has been lost.
    pub(crate) fn on_lost(&mut self, bytes: Range<u64>, ends: bool) {
        if self.reset.is_some() {
            return;
        }
        if ends && self.told == Told::Sent {
            self.told = Told::Not;
        }
        let from = bytes.start.max(self.base);
        let gone: Vec<_> = self.acknowledged.gaps(from..bytes.end.max(from)).collect();
        for gap in gone {
            self.lost.insert(gap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(stream: &SendStream, piece: &Piece) -> Vec<u8> {
        let mut out = Vec::new();
        stream.copy(piece.bytes.clone(), &mut out);
        out
    }

    fn piece(bytes: Range<u64>, ends: bool, again: bool) -> Option<Piece> {
        Some(Piece { bytes, ends, again })
    }

    #[test]
    fn what_is_lost_is_sent_again_before_what_is_new() {
        let mut stream = SendStream::new(100);
        stream.write(b"0123456789");
        assert_eq!(stream.take(4, 100), piece(0..4, false, false));
        assert_eq!(stream.take(4, 100), piece(4..8, false, false));
        stream.on_lost(0..4, false);
        assert_eq!(stream.on_acknowledged(4..8, false), 0);
        let again = stream.take(3, 100);
        assert_eq!(again, piece(0..3, false, true));
        assert_eq!(copied(&stream, &again.unwrap()), b"012");
        assert_eq!(stream.on_acknowledged(0..3, false), 3);
        assert_eq!(stream.take(3, 100), piece(3..4, false, true));
        assert_eq!(stream.on_acknowledged(3..4, false), 5);
        stream.finish();
        assert_eq!(stream.take(9, 100), piece(8..10, true, false));
        assert_eq!(stream.take(9, 100), None);
        stream.on_lost(8..10, true);
        assert_eq!(stream.take(9, 100), piece(8..10, true, true));
        stream.on_acknowledged(8..10, true);
        assert!(stream.is_over());
    }

    #[test]
    fn an_end_without_bytes_is_told_until_it_is_known() {
        let mut stream = SendStream::new(0);
        assert!(!stream.is_pending(0));
        stream.finish();
        assert!(stream.is_pending(0));
        assert_eq!(stream.take(9, 0), piece(0..0, true, false));
        assert!(!stream.is_pending(0));
        stream.on_lost(0..0, true);
        assert_eq!(stream.take(9, 0), piece(0..0, true, false));
        stream.on_acknowledged(0..0, true);
        stream.on_lost(0..0, true);
        assert!(!stream.is_pending(0) && stream.is_over());
    }

    #[test]
    fn no_more_is_sent_than_the_receiver_lets() {
        let mut stream = SendStream::new(4);
        stream.write(b"0123456789");
        assert_eq!(stream.take(9, 3), piece(0..3, false, false));
        assert_eq!(stream.take(9, 9), piece(3..4, false, false));
        assert!(!stream.is_pending(9));
        stream.on_lost(0..4, false);
        assert_eq!(stream.take(9, 0), piece(0..4, false, true), "it needs no credit again");
        stream.on_max(3);
        assert_eq!(stream.take(9, 9), None);
        stream.on_max(20);
        assert_eq!(stream.take(9, 9), piece(4..10, false, false));
    }

    #[test]
    fn after_a_reset_nothing_else_is_sent() {
        let mut stream = SendStream::new(100);
        stream.write(b"0123456789");
        stream.take(4, 100);
        stream.on_stop(7);
        assert_eq!((stream.stopped(), stream.is_open(), stream.held_bytes()), (Some(7), false, 0));
        assert_eq!(stream.take_reset(), Some((7, 4)));
        stream.on_lost(0..4, false);
        assert!(!stream.is_pending(100));
        stream.on_reset_settled(false);
        assert_eq!(stream.take_reset(), Some((7, 4)));
        assert_eq!(stream.on_acknowledged(0..4, false), 0);
        assert!(!stream.is_over());
        stream.on_reset_settled(true);
        assert!(stream.is_over());
    }
}
