//! Any body of ATP's is read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::atp::{Crypto, Frame, Frames, MAX_MEMBERS, MAX_RANGES, Preamble, REACH, Refusal};
use wire::packet::MAX_NUMBER;
use wire::varint;

fuzz_target!(|bytes: &[u8]| {
    let Some((number, body)) = bytes.split_first_chunk() else { return };
    let packet = u64::from_be_bytes(*number) & MAX_NUMBER;
    let mut again = Vec::new();
    if let Ok(crypto) = Crypto::parse(body) {
        crypto.emit(&mut again);
        assert_eq!(Crypto::parse(&again), Ok(crypto));
    }
    again.clear();
    if let Ok((crypto, token)) = Crypto::parse_initial(body) {
        crypto.emit_initial(token, &mut again);
        assert_eq!(Crypto::parse_initial(&again), Ok((crypto, token)));
    }
    again.clear();
    if let Ok(refusal) = Refusal::parse(body) {
        refusal.emit(&mut again);
        assert_eq!(Refusal::parse(&again), Ok(refusal));
    }
    let Ok((preamble, frames)) = Preamble::parse(packet, body) else { return };
    assert!(preamble.floor <= packet);
    for frame in Frames::new(packet, frames).filter_map(Result::ok) {
        match frame {
            Frame::Ack(ack) => {
                let ranges: Vec<_> = ack.ranges().collect();
                assert!((1..=MAX_RANGES).contains(&ranges.len()));
                assert!(ranges.windows(2).all(|pair| pair[1].end() < pair[0].start()));
                assert!(ranges.iter().all(|range| range.start() <= range.end()));
                assert_eq!(*ranges[0].end(), ack.largest);
                assert!(ack.counts.overdue <= ack.largest + 1 + REACH);
            }
            Frame::Parity(parity) => {
                assert!(parity.group > 0 && parity.first < packet && parity.members & 1 == 1);
                assert!(u64::from(parity.members.ilog2()) < MAX_MEMBERS);
            }
            Frame::Stream { offset, bytes, .. } | Frame::Crypto { offset, bytes } => {
                assert!(offset + bytes.len() as u64 <= varint::MAX);
            }
            _ => {}
        }
    }
});
