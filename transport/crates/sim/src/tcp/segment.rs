//! What the models say to each other, for nodes around them to read and change: numbers of whole segments, the time stamps
//! option, the flags of ECN (RFC 3168), selective acknowledgements, and TCP's checksum over all of it.

use crate::Time;

const CWR: u8 = 1;
const ECE: u8 = 2;

/// What a source sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number: the n-th has the bytes from n times the MSS on.
    pub number: u64,
    /// When it was sent.
    pub stamp: Time,
    /// The source has reduced its window for a mark.
    pub cwr: bool,
    /// Its bytes, if the source carries any.
    pub bytes: Vec<u8>,
}

/// What a sink answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// All segments below have arrived.
    pub next: u64,
    /// The time stamp that it answers.
    pub stamp: Time,
    /// A mark has come, and no [`Segment::cwr`] since.
    pub ece: bool,
    /// Segments beyond a gap that have arrived, ascending.
    pub beyond: Vec<u64>,
    /// For nodes between source and sink: the models neither read nor write it.
    pub options: Vec<u8>,
}

impl Segment {
    /// As the payload of a datagram.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = head(self.number, self.stamp, if self.cwr { CWR } else { 0 });
        out.extend_from_slice(&self.bytes);
        sealed(out)
    }

    /// Of the payload of a datagram; `None` if it is none, or has been changed on the way.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (number, stamp, flags, rest) = opened(payload)?;
        Some(Segment { number, stamp, cwr: flags & CWR != 0, bytes: rest.to_vec() })
    }
}

impl Ack {
    /// As the payload of a datagram.
    ///
    /// # Panics
    /// If it names more than 65,535 segments.
    pub fn emit(&self) -> Vec<u8> {
        let mut out = head(self.next, self.stamp, if self.ece { ECE } else { 0 });
        let count =
            u16::try_from(self.beyond.len()).expect("no more segments than an acknowledgement may name");
        out.extend_from_slice(&count.to_be_bytes());
        out.extend(self.beyond.iter().flat_map(|number| number.to_be_bytes()));
        out.extend_from_slice(&self.options);
        sealed(out)
    }

    /// Of the payload of a datagram; `None` if it is none, or has been changed on the way.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (next, stamp, flags, rest) = opened(payload)?;
        let (count, rest) = rest.split_first_chunk()?;
        let (beyond, options) = rest.split_at_checked(8 * usize::from(u16::from_be_bytes(*count)))?;
        let beyond = beyond.chunks_exact(8).map(|n| u64::from_be_bytes(n.try_into().unwrap_or_default()));
        let ece = flags & ECE != 0;
        Some(Ack { next, stamp, ece, beyond: beyond.collect(), options: options.to_vec() })
    }
}

/// Number 64, time stamp 64, flags 8; the checksum of 16 goes to the end.
fn head(number: u64, stamp: Time, flags: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&stamp.as_nanos().to_be_bytes());
    out.push(flags);
    out
}

fn sealed(mut out: Vec<u8>) -> Vec<u8> {
    let sum = checksum(&out);
    out.extend_from_slice(&sum.to_be_bytes());
    out
}

fn opened(payload: &[u8]) -> Option<(u64, Time, u8, &[u8])> {
    let (content, sum) = payload.split_last_chunk()?;
    if checksum(content) != u16::from_be_bytes(*sum) {
        return None;
    }
    let (number, rest) = content.split_first_chunk()?;
    let (stamp, rest) = rest.split_first_chunk()?;
    let (flags, rest) = rest.split_first()?;
    Some((u64::from_be_bytes(*number), Time::from_nanos(u64::from_be_bytes(*stamp)), *flags, rest))
}

/// The Internet checksum (RFC 1071): it notices every change of one byte.
fn checksum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |b| u64::from(*b)));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_emitted_is_parsed_and_what_has_been_changed_is_not() {
        let stamp = Time::from_nanos(0x0102_0304_0506);
        let segment = Segment { number: 7, stamp, cwr: true, bytes: b"seven".to_vec() };
        assert_eq!(Segment::parse(&segment.emit()), Some(segment.clone()));
        let ack = Ack { next: 9, stamp, ece: true, beyond: vec![11, 12], options: b"d = 3".to_vec() };
        assert_eq!(Ack::parse(&ack.emit()), Some(ack.clone()));
        for payload in [segment.emit(), ack.emit()] {
            for place in 0..payload.len() {
                for change in [1, 0x80, 0xff] {
                    let mut changed = payload.clone();
                    changed[place] ^= change;
                    assert_eq!(Segment::parse(&changed), None, "{place}");
                    assert_eq!(Ack::parse(&changed), None, "{place}");
                }
            }
        }
        assert_eq!(Segment::parse(&[]), None);
        assert_eq!(Ack::parse(&[0xff]), None);
    }
}
