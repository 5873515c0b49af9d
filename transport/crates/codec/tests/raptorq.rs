//! Recovery beside the `raptorq` crate (RFC 6330): the same data, the same packets lost.

mod common;

use common::{bytes, coded};
use raptorq::{EncodingPacket, ObjectTransmissionInformation, SourceBlockDecoder, SourceBlockEncoder};
use weir_codec::{Decoder, Draw, Progress, Random, Rows};

const SYMBOL_BYTES: u16 = 64;

/// Their block from their repair packets alone, and how many they took.
fn raptorq_recovers(source: &[u8], k: u16, arrives: &[bool]) -> Option<(Vec<u8>, usize)> {
    let config = ObjectTransmissionInformation::new(source.len() as u64, SYMBOL_BYTES, 1, 1, 1);
    let encoder = SourceBlockEncoder::new(0, &config, source);
    let packets: Vec<EncodingPacket> = encoder.repair_packets(0, arrives.len() as u32);
    let arrived: Vec<EncodingPacket> =
        packets.into_iter().zip(arrives).filter(|(_, arrives)| **arrives).map(|(packet, _)| packet).collect();
    let mut decoder = SourceBlockDecoder::new(0, &config, source.len() as u64);
    arrived.into_iter().enumerate().find_map(|(number, packet)| {
        decoder
            .decode(std::iter::once(packet))
            .filter(|_| number + 1 >= k.into())
            .map(|block| (block, number + 1))
    })
}

fn ours_recovers(source: &[u8], k: u16, arrives: &[bool], seed: u64) -> Option<(Vec<u8>, usize)> {
    let rows = Rows::new(k, Draw::Dealt, seed).unwrap();
    let indices: Vec<u32> =
        (0..).zip(arrives).filter(|(_, arrives)| **arrives).map(|(index, _)| index).collect();
    let mut decoder = Decoder::new(SYMBOL_BYTES.into(), rows.clone()).unwrap();
    let complete = coded(source, SYMBOL_BYTES.into(), &rows, &indices)
        .iter()
        .position(|(index, payload)| decoder.push(*index, payload).unwrap() == Progress::Complete)?;
    Some((decoder.into_source()?, complete + 1))
}

#[test]
fn both_codes_give_the_same_block_after_the_same_losses() {
    for k in [10u16, 64, 128, 256] {
        let mut extra = (0, 0);
        for trial in 0..20 {
            let source = bytes(trial, usize::from(k) * usize::from(SYMBOL_BYTES));
            let mut random = Random::new(trial);
            let loss_percent = random.below(50);
            let arrives: Vec<bool> = (0..3 * k + 60).map(|_| random.below(100) >= loss_percent).collect();
            let (theirs, they_took) = raptorq_recovers(&source, k, &arrives).expect("far more than enough");
            let (ours, we_took) = ours_recovers(&source, k, &arrives, trial).expect("far more than enough");
            assert!(theirs == source && ours == source, "k = {k}, trial {trial}");
            extra.0 += they_took - usize::from(k);
            extra.1 += we_took - usize::from(k);
        }
        // RFC 6330 is close to ideal; ours is to stay within a few symbols of it, at any k.
        assert!(extra.1 <= extra.0 + 20 * 6, "k = {k}: they took {} more in all, we {}", extra.0, extra.1);
    }
}
