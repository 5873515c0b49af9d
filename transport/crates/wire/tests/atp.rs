//! ATP's frames: golden bytes, what is written is read, and nonsense is refused.

use std::ops::RangeInclusive;

use proptest::prelude::*;
use weir_wire::atp::{
    AckCounts, Crypto, Frame, Frames, MAX_RANGES, Malformed, PARITY_BYTES, Parity, Preamble, REACH, emit_ack,
    emit_parity_head, emit_stream_head, stream_head_len,
};
use weir_wire::varint;

fn frames(packet: u64, bytes: &[u8]) -> Vec<Result<Frame<'_>, Malformed>> {
    Frames::new(packet, bytes).collect()
}

fn frame(bytes: &[u8]) -> Result<Frame<'_>, Malformed> {
    frames(1_000, bytes).remove(0)
}

fn ack_of(counts: &AckCounts, ranges: &[RangeInclusive<u64>]) -> Vec<u8> {
    let mut out = Vec::new();
    emit_ack(counts, ranges.iter().cloned(), &mut out);
    out
}

#[test]
fn packets_have_these_bytes() {
    let mut packet = Vec::new();
    Preamble { group: 3, ahead: 7, floor: 0x150 }.emit(0x200, &mut packet);
    let counts = AckCounts { delay_us: 100, overdue: 39, repaired: 2, received: 41, ect: 40, ce: 1 };
    emit_ack(&counts, [38..=40, 5..=30].into_iter(), &mut packet);
    Frame::MaxStreamData { stream: 4, bytes: 0x1_0000 }.emit(&mut packet);
    emit_stream_head(6, 0x1234, 2, false, false, &mut packet);
    packet.extend_from_slice(b"hi");
    emit_stream_head(8, 0, 3, true, true, &mut packet);
    packet.extend_from_slice(b"end");
    let expected = [
        &b"\x03\x07\x40\xb0"[..],
        b"\x02\x28\x40\x64\x41\x02\x02\x29\x28\x01\x01\x02\x06\x19",
        b"\x05\x04\x80\x01\x00\x00",
        b"\x12\x06\x52\x34\x02hi",
        b"\x11\x08\x00end",
    ]
    .concat();
    assert_eq!(packet, expected);
    let (preamble, rest) = Preamble::parse(0x200, &packet).unwrap();
    assert_eq!((preamble, preamble.len(0x200)), (Preamble { group: 3, ahead: 7, floor: 0x150 }, 4));
    let frames: Vec<_> = frames(0x200, rest).into_iter().map(Result::unwrap).collect();
    let Frame::Ack(ack) = frames[0] else { panic!("{:?}", frames[0]) };
    assert_eq!(ack.ranges().collect::<Vec<_>>(), [38..=40, 5..=30]);
    assert_eq!((ack.largest, ack.counts), (40, counts));
    assert_eq!(
        frames[1..],
        [
            Frame::MaxStreamData { stream: 4, bytes: 0x1_0000 },
            Frame::Stream { stream: 6, offset: 0x1234, bytes: b"hi", ends: false },
            Frame::Stream { stream: 8, offset: 0, bytes: b"end", ends: true },
        ]
    );
}

#[test]
fn a_parity_names_its_members() {
    let parity = Parity { group: 9, first: 80, members: 0b10101, length: 0x0102, xor: b"xor" };
    let mut out = Vec::new();
    assert!(emit_parity_head(100, &parity, &mut out));
    assert_eq!(out, b"\x01\x09\x14\0\0\0\0\0\0\0\x15\x01\x02");
    assert!(out.len() <= PARITY_BYTES);
    out.extend_from_slice(parity.xor);
    assert_eq!(frames(100, &out), [Ok(Frame::Parity(parity))]);
    out[2] = 4;
    assert_eq!(frames(100, &out), [Err(Malformed::Parity)], "of itself");
    out[2] = 20;
    assert_eq!(frames(19, &out), [Err(Malformed::Parity)], "of packets before the first");
    let mut far = Vec::new();
    assert!(!emit_parity_head(80 + 0x4000, &parity, &mut far) && far.is_empty());
    assert!(emit_parity_head(80 + 0x3fff, &parity, &mut far));
    assert_eq!(far.len(), PARITY_BYTES);
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(frame(b"\x0d"), Err(Malformed::Frame(0x0d)));
    assert_eq!(frame(b"\x0a\x00\x05ab"), Err(Malformed::Short));
    assert_eq!(frame(b"\x13\x00\xff\xff\xff\xff\xff\xff\xff\xff\x01a"), Err(Malformed::Offset));
    // 10 down to 0 has eleven numbers, not twelve.
    assert!(frame(b"\x02\x0a\x00\x00\x00\x00\x00\x00\x00\x0a").is_ok());
    assert_eq!(frame(b"\x02\x0a\x00\x00\x00\x00\x00\x00\x00\x0b"), Err(Malformed::Ranges));
    assert_eq!(frame(b"\x02\x0a\x00\x00\x00\x00\x00\x00\x40\x40"), Err(Malformed::Ranges), "too many ranges");
    assert!(frames(1, b"\x00\x0c").is_empty(), "padding is the end");
    assert_eq!(Preamble::parse(5, b"\x00\x00\x06"), Err(Malformed::Short), "a floor below 0");
    let token = [&b"\x00\x00\x41\x01"[..], &[7; 257], b"\x00"].concat();
    assert_eq!(Crypto::parse_initial(&token), Err(Malformed::Token));
    assert_eq!(frame(&[&b"\x09\x41\x01"[..], &[7; 257]].concat()), Err(Malformed::Token));
}

#[test]
fn an_acknowledgement_takes_no_more_than_its_ranges() {
    let ranges: Vec<_> = (0..MAX_RANGES as u64 + 9).rev().map(|n| 10 * n..=10 * n + 3).collect();
    let ack = ack_of(&AckCounts::default(), &ranges);
    let Ok(Frame::Ack(ack)) = frame(&ack) else { panic!("none") };
    assert_eq!(ack.ranges().collect::<Vec<_>>(), ranges[..MAX_RANGES]);
    assert!(ack_of(&AckCounts::default(), &[]).is_empty());
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        (stream, offset) in (0..1_u64 << 60, 0..1_u64 << 60),
        (bytes, ends, to_end) in (proptest::collection::vec(any::<u8>(), 0..200), any::<bool>(), any::<bool>()),
        counts in (0..1_u64 << 40, 0..1_u64 << 40, 0..1_u64 << 40, 0..1_u64 << 40),
        (largest, steps) in (0..1_u64 << 47, proptest::collection::vec((1..1_000_u64, 2..1_000_u64), 0..20)),
        reach in 0..REACH,
    ) {
        let mut ranges = Vec::new();
        let mut end = Some(largest);
        for (length, gap) in steps {
            let Some(begin) = end.and_then(|end| end.checked_sub(length - 1)) else { break };
            ranges.push(begin..=end.unwrap());
            end = begin.checked_sub(gap);
        }
        let counts = AckCounts {
            delay_us: counts.0,
            overdue: if ranges.is_empty() { 0 } else { largest + 1 + reach },
            repaired: counts.1,
            received: counts.2,
            ect: counts.3,
            ce: counts.0,
        };
        let mut out = ack_of(&counts, &ranges);
        for frame in [Frame::Ping, Frame::Crypto { offset, bytes: &bytes }, Frame::Token(&bytes),
            Frame::Reset { stream, code: offset, size: stream }, Frame::Stop { stream, code: 7 },
            Frame::MaxData(offset), Frame::MaxStreams(stream), Frame::Close { code: stream, reason: &bytes }] {
            frame.emit(&mut out);
        }
        let head = out.len();
        emit_stream_head(stream, offset, bytes.len(), ends, to_end, &mut out);
        prop_assert!(out.len() - head <= stream_head_len(stream, offset, bytes.len()));
        out.extend_from_slice(&bytes);
        let read: Vec<_> = frames(5, &out).into_iter().map(|frame| frame.unwrap()).collect();
        let (acks, others) = read.split_at(usize::from(!ranges.is_empty()));
        for frame in acks {
            let Frame::Ack(ack) = frame else { panic!("{frame:?}") };
            prop_assert_eq!(ack.ranges().collect::<Vec<_>>(), ranges.clone());
            prop_assert_eq!(ack.counts, counts);
        }
        prop_assert_eq!(others[0], Frame::Ping);
        prop_assert_eq!(others[1], Frame::Crypto { offset, bytes: &bytes });
        prop_assert_eq!(others[7], Frame::Close { code: stream, reason: &bytes });
        prop_assert_eq!(others[8], Frame::Stream { stream, offset, bytes: &bytes, ends });
        prop_assert_eq!(others.len(), 9);
        let crypto = Crypto { offset, acknowledged: stream, payload: &bytes };
        let mut out = Vec::new();
        crypto.emit_initial(b"token", &mut out);
        out.extend_from_slice(&[0; 50]);
        prop_assert_eq!(Crypto::parse_initial(&out), Ok((crypto, &b"token"[..])));
        out.clear();
        crypto.emit(&mut out);
        prop_assert_eq!(Crypto::parse(&out), Ok(crypto));
    }

    /// Any bytes: no panic, and what is taken names nothing that cannot be.
    #[test]
    fn any_bytes_are_read_or_refused(packet in 0..1_u64 << 48, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = (Preamble::parse(packet, &bytes), Crypto::parse(&bytes), Crypto::parse_initial(&bytes));
        for first in 0..0x14 {
            let bytes = [&[first], &bytes[..]].concat();
            for frame in Frames::new(packet, &bytes).filter_map(Result::ok) {
                match frame {
                    Frame::Ack(ack) => {
                        let mut below = ack.largest + 1;
                        let mut count = 0;
                        for range in ack.ranges() {
                            prop_assert!(!range.is_empty() && *range.end() < below);
                            below = *range.start();
                            count += 1;
                        }
                        prop_assert!((1..=MAX_RANGES).contains(&count));
                        prop_assert!(ack.counts.overdue <= ack.largest + 1 + REACH);
                    }
                    Frame::Parity(parity) => {
                        let last = parity.first + u64::from(parity.members.ilog2());
                        prop_assert!(last < packet && parity.group != 0);
                    }
                    Frame::Stream { offset, bytes, .. } | Frame::Crypto { offset, bytes } => {
                        prop_assert!(offset + bytes.len() as u64 <= varint::MAX);
                    }
                    _ => {}
                }
            }
        }
    }
}
