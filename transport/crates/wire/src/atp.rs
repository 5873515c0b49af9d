//! The bodies of ATP's datagrams, which have the header of [`packet`](crate::packet).
//!
//! ```text
//! initial      in clear                     offset v | acknowledged v | length v, token | length v, payload | zeros
//! refusal      in clear                     code v | length v, reason
//! retry        in clear                     token, to the end
//! handshake    under the handshake's keys   offset v | acknowledged v | length v, payload
//! early, data  under the keys of 0-RTT and of 1-RTT
//!              preamble                     group 8 | ahead 8 | number - floor v
//!              frames, up to the end of the packet
//!
//! frame
//!   0x00 padding         zeros up to the end
//!   0x01 parity          group 8 | number - first v | members 64 | length 16 | XOR of the members' frames, to the end
//!   0x02 ack             largest v | delay µs v | largest + 256 - overdue v, or 0 | repaired v | received v | ect v | ce v
//!                        further ranges v | length - 1 v | (gap - 1 v | length - 1 v) for each further range
//!   0x03 crypto          offset v | length v, bytes
//!   0x04 max data        bytes v
//!   0x05 max stream data stream v | bytes v
//!   0x06 max streams     streams v
//!   0x07 reset           stream v | code v | final size v
//!   0x08 stop            stream v | code v
//!   0x09 token           length v, bytes
//!   0x0a close           code v | length v, reason
//!   0x0b ping
//!   0x0c done
//!   0x10 stream          stream v | offset v | bytes, to the end        0x11: the stream ends with them
//!   0x12 stream          stream v | offset v | length v, bytes          0x13: the same
//! ```
//! `v` is a number of one to eight bytes ([`varint`]); the others are big-endian.
//!
//! Of every packet with frames, `group` names the packets that one parity repairs (0: none does), `ahead` says how many packets
//! the sender is about to send after it, and nothing below `floor` is to be waited for: it has come, or comes in other packets.

use std::ops::RangeInclusive;

use thiserror::Error;

use crate::packet::MAX_NUMBER;
use crate::varint;

/// Members that a group has at most: a parity names them by a bit each.
pub const MAX_MEMBERS: u64 = 64;
/// Bytes of a parity's frame beside the XOR, at most: what a packet that it can repair leaves free.
pub const PARITY_BYTES: usize = 1 + 1 + 2 + 8 + 2;
/// Bytes of a preamble at most.
pub const MAX_PREAMBLE_BYTES: usize = 1 + 1 + 8;
/// Ranges of an acknowledgement at most.
pub const MAX_RANGES: usize = 64;
/// A token's bytes at most.
pub const MAX_TOKEN_BYTES: usize = 256;
/// How far beyond the largest number that came a receiver can ask: as far as a packet's `ahead` reaches.
pub const REACH: u64 = u8::MAX as u64;

/// Why a packet is none of ATP's.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Malformed {
    /// It ends within a field.
    #[error("the packet ends too early")]
    Short,
    /// A frame that this version does not know.
    #[error("unknown type of frame {0}")]
    Frame(u8),
    /// An acknowledgement of packets that cannot be.
    #[error("impossible ranges in an acknowledgement")]
    Ranges,
    /// A parity of packets that cannot be.
    #[error("an impossible parity")]
    Parity,
    /// A stream longer than 2^62 bytes.
    #[error("a stream that is too long")]
    Offset,
    /// A token longer than [`MAX_TOKEN_BYTES`].
    #[error("a token that is too long")]
    Token,
}

type Result<T> = std::result::Result<T, Malformed>;

fn number(bytes: &mut &[u8]) -> Result<u64> {
    varint::take(bytes).ok_or(Malformed::Short)
}

fn byte(bytes: &mut &[u8]) -> Result<u8> {
    let (byte, rest) = bytes.split_first().ok_or(Malformed::Short)?;
    *bytes = rest;
    Ok(*byte)
}

fn some<'a>(bytes: &mut &'a [u8], length: u64) -> Result<&'a [u8]> {
    let length = usize::try_from(length).map_err(|_| Malformed::Short)?;
    let (some, rest) = bytes.split_at_checked(length).ok_or(Malformed::Short)?;
    *bytes = rest;
    Ok(some)
}

fn counted<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = number(bytes)?;
    some(bytes, length)
}

fn emit_counted(bytes: &[u8], out: &mut Vec<u8>) {
    varint::emit(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A piece of the handshake: of one stream of bytes each way for what is in clear, and one under the handshake's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crypto<'a> {
    /// Where in its stream the payload begins.
    pub offset: u64,
    /// All before it has come of the other direction's stream.
    pub acknowledged: u64,
    /// The piece.
    pub payload: &'a [u8],
}

impl<'a> Crypto<'a> {
    /// Appends the body of an initial; padding may follow.
    pub fn emit_initial(&self, token: &[u8], out: &mut Vec<u8>) {
        varint::emit(self.offset, out);
        varint::emit(self.acknowledged, out);
        emit_counted(token, out);
        emit_counted(self.payload, out);
    }

    /// The body of an initial, and its token.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse_initial(mut body: &'a [u8]) -> Result<(Crypto<'a>, &'a [u8])> {
        let (offset, acknowledged) = (number(&mut body)?, number(&mut body)?);
        let token = counted(&mut body)?;
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Malformed::Token);
        }
        Ok((Crypto { offset, acknowledged, payload: counted(&mut body)? }, token))
    }

    /// Appends the body of a handshake.
    pub fn emit(&self, out: &mut Vec<u8>) {
        varint::emit(self.offset, out);
        varint::emit(self.acknowledged, out);
        emit_counted(self.payload, out);
    }

    /// The body of an opened handshake.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(mut body: &'a [u8]) -> Result<Crypto<'a>> {
        let (offset, acknowledged) = (number(&mut body)?, number(&mut body)?);
        Ok(Crypto { offset, acknowledged, payload: counted(&mut body)? })
    }
}

/// Why there is no connection, or none any more. Anybody can have said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal<'a> {
    /// The protocol's code, or the application's.
    pub code: u64,
    /// In words, as UTF-8 or not.
    pub reason: &'a [u8],
}

impl<'a> Refusal<'a> {
    /// Appends the body.
    pub fn emit(&self, out: &mut Vec<u8>) {
        varint::emit(self.code, out);
        emit_counted(self.reason, out);
    }

    /// The body of a refusal.
    ///
    /// # Errors
    /// [`Malformed::Short`].
    pub fn parse(mut body: &'a [u8]) -> Result<Refusal<'a>> {
        Ok(Refusal { code: number(&mut body)?, reason: counted(&mut body)? })
    }
}

/// What precedes the frames of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble {
    /// The group that the packet belongs to, of which a parity follows; 0: none.
    pub group: u8,
    /// So many packets are about to follow, or more.
    pub ahead: u8,
    /// No number below this is to be waited for.
    pub floor: u64,
}

impl Preamble {
    /// Appends it. `packet` is the packet's number, and the floor is not above it.
    pub fn emit(&self, packet: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.group, self.ahead]);
        varint::emit(packet - self.floor, out);
    }

    /// Bytes that it takes in the packet of this number.
    pub fn len(&self, packet: u64) -> usize {
        2 + varint::len(packet - self.floor)
    }

    /// The preamble of an opened packet with this number, and its frames.
    ///
    /// # Errors
    /// [`Malformed::Short`], also if the floor is below 0.
    pub fn parse(packet: u64, mut body: &[u8]) -> Result<(Preamble, &[u8])> {
        let (group, ahead) = (byte(&mut body)?, byte(&mut body)?);
        let floor = packet.checked_sub(number(&mut body)?).ok_or(Malformed::Short)?;
        Ok((Preamble { group, ahead, floor }, body))
    }
}

/// What repairs the loss of one packet of a group (ATP, section II-A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity<'a> {
    /// The group.
    pub group: u8,
    /// The number of its first member.
    pub first: u64,
    /// Bit n: packet `first` + n is a member. The lowest bit is set.
    pub members: u64,
    /// XOR of the lengths of the members' frames.
    pub length: u16,
    /// XOR of their frames, shorter ones padded with zeros.
    pub xor: &'a [u8],
}

/// What a receiver counts, and what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckCounts {
    /// How long ago the largest number came, in microseconds.
    pub delay_us: u64,
    /// What has not come of all numbers below this is asked for (ATP's retransmission request); 0: nothing. No more than
    /// [`REACH`] above the number after the largest.
    pub overdue: u64,
    /// Packets that parity has repaired so far.
    pub repaired: u64,
    /// Packets that came, whatever their header bore.
    pub received: u64,
    /// Packets that came with ECT(0) (RFC 3168).
    pub ect: u64,
    /// Those that came with CE.
    pub ce: u64,
}

/// What a receiver has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The largest number that has come.
    pub largest: u64,
    /// The counts.
    pub counts: AckCounts,
    /// Of the first range and the others, checked.
    ranges: &'a [u8],
}

/// Acknowledged numbers, from the largest down.
#[derive(Clone, Debug)]
pub struct Ranges<'a> {
    /// One more than the end of the next range.
    below: u64,
    first: bool,
    rest: &'a [u8],
}

impl Iterator for Ranges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        if !std::mem::replace(&mut self.first, false) {
            self.below = self.below.checked_sub(number(&mut self.rest).ok()? + 1)?;
        }
        let end = self.below.checked_sub(1)?;
        let begin = end.checked_sub(number(&mut self.rest).ok()?)?;
        self.below = begin;
        Some(begin..=end)
    }
}

impl<'a> Ack<'a> {
    /// The numbers that have come, in ranges from the largest down.
    pub fn ranges(&self) -> Ranges<'a> {
        Ranges { below: self.largest + 1, first: true, rest: self.ranges }
    }

    fn parse(bytes: &mut &'a [u8]) -> Result<Ack<'a>> {
        let (largest, delay_us) = (number(bytes)?, number(bytes)?);
        if largest > MAX_NUMBER {
            return Err(Malformed::Ranges);
        }
        let overdue = match number(bytes)? {
            0 => 0,
            short => (largest + 1 + REACH).checked_sub(short - 1).ok_or(Malformed::Ranges)?,
        };
        let (repaired, received) = (number(bytes)?, number(bytes)?);
        let (ect, ce) = (number(bytes)?, number(bytes)?);
        let further = number(bytes)?;
        if further >= MAX_RANGES as u64 {
            return Err(Malformed::Ranges);
        }
        let begin = *bytes;
        let mut below = largest + 1;
        for range in 0..=further {
            let skipped = if range == 0 { 0 } else { number(bytes)? + 1 };
            let taken = number(bytes)? + 1;
            below = below.checked_sub(skipped + taken).ok_or(Malformed::Ranges)?;
        }
        let ranges = &begin[..begin.len() - bytes.len()];
        let counts = AckCounts { delay_us, overdue, repaired, received, ect, ce };
        Ok(Ack { largest, counts, ranges })
    }
}

/// Appends an acknowledgement. The ranges descend and do not touch; of more than [`MAX_RANGES`] the first are sent, and of none
/// nothing is.
pub fn emit_ack(
    counts: &AckCounts,
    ranges: impl Iterator<Item = RangeInclusive<u64>> + Clone,
    out: &mut Vec<u8>,
) {
    let ranges = ranges.take(MAX_RANGES);
    let Some(first) = ranges.clone().next() else { return };
    let largest = *first.end();
    out.push(0x02);
    varint::emit(largest, out);
    varint::emit(counts.delay_us.min(varint::MAX), out);
    varint::emit(if counts.overdue == 0 { 0 } else { largest + 2 + REACH - counts.overdue }, out);
    for count in [counts.repaired, counts.received, counts.ect, counts.ce] {
        varint::emit(count, out);
    }
    varint::emit(ranges.clone().count() as u64 - 1, out);
    varint::emit(first.end() - first.start(), out);
    let mut below = *first.start();
    for range in ranges.skip(1) {
        varint::emit(below - range.end() - 2, out);
        varint::emit(range.end() - range.start(), out);
        below = *range.start();
    }
}

/// A part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Repairs a packet.
    Parity(Parity<'a>),
    /// Tells what has come.
    Ack(Ack<'a>),
    /// What the handshake still says after its end.
    Crypto {
        /// Where in its stream the bytes begin.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// So many bytes of all streams together may be sent since the beginning.
    MaxData(u64),
    /// So many of one stream.
    MaxStreamData {
        /// The stream.
        stream: u64,
        /// How many.
        bytes: u64,
    },
    /// So many streams may be opened since the beginning.
    MaxStreams(u64),
    /// The sender gives a stream up.
    Reset {
        /// The stream.
        stream: u64,
        /// The application's reason.
        code: u64,
        /// How many bytes of it were sent at most.
        size: u64,
    },
    /// The receiver wants no more of a stream.
    Stop {
        /// The stream.
        stream: u64,
        /// The application's reason.
        code: u64,
    },
    /// Shows the next time that the client is where it says.
    Token(&'a [u8]),
    /// The connection ends at once.
    Close {
        /// The application's reason; see the protocol for its own.
        code: u64,
        /// In words, as UTF-8 or not.
        reason: &'a [u8],
    },
    /// Asks for an acknowledgement.
    Ping,
    /// Server to client: the handshake is through.
    Done,
    /// A piece of a stream.
    Stream {
        /// The stream.
        stream: u64,
        /// Where in it the bytes begin.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
        /// It ends with them.
        ends: bool,
    },
}

impl Frame<'_> {
    /// Whether the peer is to acknowledge a packet for it.
    pub fn elicits_ack(&self) -> bool {
        !matches!(self, Frame::Ack(_) | Frame::Close { .. })
    }
}

/// The head of a stream's frame; `length` bytes follow it. With `to_end`, nothing else may follow them in the packet.
pub fn emit_stream_head(
    stream: u64,
    offset: u64,
    length: usize,
    ends: bool,
    to_end: bool,
    out: &mut Vec<u8>,
) {
    out.push(0x10 | u8::from(ends) | u8::from(!to_end) << 1);
    varint::emit(stream, out);
    varint::emit(offset, out);
    if !to_end {
        varint::emit(length as u64, out);
    }
}

/// Bytes of the head of a stream's frame with a length of up to `length` bytes.
pub fn stream_head_len(stream: u64, offset: u64, length: usize) -> usize {
    1 + varint::len(stream) + varint::len(offset) + varint::len(length as u64)
}

/// The head of a parity's frame in the packet of this number; the XOR follows, up to the packet's end. False, and nothing, if the
/// group is too far back.
#[must_use]
pub fn emit_parity_head(packet: u64, parity: &Parity<'_>, out: &mut Vec<u8>) -> bool {
    let Some(back) = packet.checked_sub(parity.first).filter(|back| varint::len(*back) <= 2) else {
        return false;
    };
    out.extend_from_slice(&[0x01, parity.group]);
    varint::emit(back, out);
    out.extend_from_slice(&parity.members.to_be_bytes());
    out.extend_from_slice(&parity.length.to_be_bytes());
    true
}

impl Frame<'_> {
    /// Appends a frame that is neither an acknowledgement nor a parity nor of a stream: for those see [`emit_ack`],
    /// [`emit_parity_head`] and [`emit_stream_head`].
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut numbers = |kind: u8, numbers: &[u64]| {
            out.push(kind);
            for number in numbers {
                varint::emit(*number, out);
            }
        };
        match *self {
            Frame::Crypto { offset, bytes } => {
                numbers(0x03, &[offset]);
                emit_counted(bytes, out);
            }
            Frame::MaxData(bytes) => numbers(0x04, &[bytes]),
            Frame::MaxStreamData { stream, bytes } => numbers(0x05, &[stream, bytes]),
            Frame::MaxStreams(streams) => numbers(0x06, &[streams]),
            Frame::Reset { stream, code, size } => numbers(0x07, &[stream, code, size]),
            Frame::Stop { stream, code } => numbers(0x08, &[stream, code]),
            Frame::Token(token) => {
                numbers(0x09, &[]);
                emit_counted(token, out);
            }
            Frame::Close { code, reason } => {
                numbers(0x0a, &[code]);
                emit_counted(reason, out);
            }
            Frame::Ping => numbers(0x0b, &[]),
            Frame::Done => numbers(0x0c, &[]),
            Frame::Parity(_) | Frame::Ack(_) | Frame::Stream { .. } => {
                unreachable!("it is written by a function of its own")
            }
        }
    }
}

/// The frames of a packet, in turn. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    packet: u64,
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    /// Those of the packet with this number.
    pub fn new(packet: u64, frames: &'a [u8]) -> Self {
        Frames { packet, rest: frames }
    }

    fn parse(&mut self, kind: u8) -> Result<Frame<'a>> {
        let rest = &mut self.rest;
        Ok(match kind {
            0x01 => Frame::Parity(parity(self.packet, rest)?),
            0x02 => Frame::Ack(Ack::parse(rest)?),
            0x03 => {
                let (offset, bytes) = (number(rest)?, counted(rest)?);
                within(offset, bytes)?;
                Frame::Crypto { offset, bytes }
            }
            0x04 => Frame::MaxData(number(rest)?),
            0x05 => Frame::MaxStreamData { stream: number(rest)?, bytes: number(rest)? },
            0x06 => Frame::MaxStreams(number(rest)?),
            0x07 => Frame::Reset { stream: number(rest)?, code: number(rest)?, size: number(rest)? },
            0x08 => Frame::Stop { stream: number(rest)?, code: number(rest)? },
            0x09 => {
                let token = counted(rest)?;
                if token.len() > MAX_TOKEN_BYTES {
                    return Err(Malformed::Token);
                }
                Frame::Token(token)
            }
            0x0a => Frame::Close { code: number(rest)?, reason: counted(rest)? },
            0x0b => Frame::Ping,
            0x0c => Frame::Done,
            0x10..=0x13 => {
                let (stream, offset) = (number(rest)?, number(rest)?);
                let bytes = if kind & 2 == 0 { std::mem::take(rest) } else { counted(rest)? };
                within(offset, bytes)?;
                Frame::Stream { stream, offset, bytes, ends: kind & 1 == 1 }
            }
            other => return Err(Malformed::Frame(other)),
        })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, rest) = self.rest.split_first()?;
        if *kind == 0 {
            return None;
        }
        self.rest = rest;
        let frame = self.parse(*kind);
        if frame.is_err() {
            self.rest = &[];
        }
        Some(frame)
    }
}

fn within(offset: u64, bytes: &[u8]) -> Result<()> {
    let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= varint::MAX);
    end.map(|_| ()).ok_or(Malformed::Offset)
}

fn parity<'a>(packet: u64, bytes: &mut &'a [u8]) -> Result<Parity<'a>> {
    let group = byte(bytes)?;
    let first = packet.checked_sub(number(bytes)?).ok_or(Malformed::Parity)?;
    let (members, rest) = bytes.split_first_chunk().ok_or(Malformed::Short)?;
    let (length, xor) = rest.split_first_chunk().ok_or(Malformed::Short)?;
    *bytes = &[];
    let members = u64::from_be_bytes(*members);
    let last = first + u64::from(members.checked_ilog2().ok_or(Malformed::Parity)?);
    if group == 0 || members & 1 == 0 || last >= packet {
        return Err(Malformed::Parity);
    }
    Ok(Parity { group, first, members, length: u16::from_be_bytes(*length), xor })
}
