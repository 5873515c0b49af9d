//! Encoder and decoder: whatever arrives in whatever order, a block comes back as soon as its rows have rank k.

mod common;

use std::sync::Arc;

use common::{DRAWS, Naive, bytes, coded, shuffle};
use proptest::prelude::*;
use weir_codec::{Decoder, Draw, Encoder, Error, Progress, Random, Rows, choose_seed, max_symbols};

/// Which indices arrive: some lost, in any order, some twice.
fn arrivals(k: u16, seed: u64, loss_percent: u32) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut arrivals: Vec<u32> = (0..max_symbols(k)).filter(|_| random.below(100) >= loss_percent).collect();
    let repeated: Vec<u32> = arrivals.iter().copied().filter(|_| random.below(4) == 0).collect();
    arrivals.extend(repeated);
    shuffle(seed, &mut arrivals);
    arrivals
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_set_of_rows_of_rank_k_gives_the_source(
        k in prop_oneof![1u16..20, 20u16..150],
        symbol_bytes in 1usize..200,
        seed: u64,
        draw in proptest::sample::select(&DRAWS[..]),
        loss_percent in 0u32..70,
    ) {
        let rows = Rows::new(k, draw, seed).unwrap();
        let columns = usize::from(rows.columns());
        let source = bytes(seed, usize::from(k) * symbol_bytes);
        let mut naive = Naive::new(columns);
        rows.constraints().for_each(|constraint| naive.push(constraint, &vec![0; symbol_bytes]));
        let mut decoder = Decoder::new(symbol_bytes, rows.clone()).unwrap();
        let mut seen = std::collections::HashSet::new();
        for (index, payload) in coded(&source, symbol_bytes, &rows, &arrivals(k, seed, loss_percent)) {
            let progress = decoder.push(index, &payload).unwrap();
            if !seen.insert(index) {
                prop_assert_eq!(progress, Progress::Duplicate);
                continue;
            }
            naive.push(rows.row(index), &payload);
            let missing = if seen.len() < k.into() { usize::from(k) - seen.len() } else { columns - naive.rank() };
            let expected = if missing == 0 { Progress::Complete } else { Progress::Needs(missing as u32) };
            prop_assert_eq!(progress, expected);
            prop_assert_eq!(decoder.needs() as usize, missing);
            prop_assert_eq!(decoder.source().is_some(), missing == 0);
        }
        if naive.rank() == columns {
            prop_assert_eq!(decoder.source(), Some(&source[..]));
            prop_assert_eq!(&naive.values().unwrap()[..source.len()], &source[..]);
            prop_assert_eq!(decoder.into_source(), Some(source));
        } else {
            prop_assert_eq!(decoder.into_source(), None);
        }
    }
}

#[test]
fn large_blocks_come_back_as_well() {
    for draw in DRAWS {
        for (k, symbol_bytes) in [(700, 33), (2000, 8), (8192, 2)] {
            let rows = Rows::new(k, draw, 5).unwrap();
            let source = bytes(k.into(), usize::from(k) * symbol_bytes);
            let mut decoder = Decoder::new(symbol_bytes, rows.clone()).unwrap();
            let indices: Vec<u32> = (0..max_symbols(k)).filter(|index| index % 5 != 2).collect();
            let mut used = 0;
            for (index, payload) in coded(&source, symbol_bytes, &rows, &indices) {
                used += 1;
                if decoder.push(index, &payload).unwrap() == Progress::Complete {
                    break;
                }
            }
            assert!(decoder.source() == Some(&source[..]), "{draw:?}, k = {k}");
            assert!(draw == Draw::Independent || used < usize::from(k) + 40, "{used} symbols for {k}");
        }
    }
}

#[test]
fn a_source_that_does_not_fill_its_block_counts_as_followed_by_zeros() {
    for len in [0, 1, 99, 100, 101, 250, 699, 700] {
        let rows = Rows::new(7, Draw::Dealt, 2).unwrap();
        let source = bytes(3, len);
        let mut whole = source.clone();
        whole.resize(700, 0);
        let indices: Vec<u32> = (0..max_symbols(7)).collect();
        let symbols = coded(&source, 100, &rows, &indices);
        assert_eq!(symbols, coded(&whole, 100, &rows, &indices), "{len} bytes");
        let mut decoder = Decoder::new(100, rows).unwrap();
        for (index, payload) in symbols {
            decoder.push(index, &payload).unwrap();
        }
        assert_eq!(decoder.into_source(), Some(whole), "{len} bytes");
    }
}

#[test]
fn a_decoder_can_be_used_again_for_blocks_of_any_size() {
    let mut decoder = Decoder::new(65, Rows::new(30, Draw::Dealt, 0).unwrap()).unwrap();
    for (round, k) in [30, 30, 200, 1, 64, 300, 64].into_iter().enumerate() {
        for abandon in [true, false] {
            let rows = Rows::new(k, DRAWS[round % 3], round as u64).unwrap();
            let source = bytes(round as u64, usize::from(k) * 65);
            decoder.reset(rows.clone());
            assert_eq!((decoder.source(), decoder.needs()), (None, k.into()));
            let indices: Vec<u32> = (0..max_symbols(k)).rev().collect();
            let symbols = coded(&source, 65, &rows, &indices);
            let part = if abandon { symbols.len() / 6 } else { symbols.len() };
            for (index, payload) in &symbols[..part] {
                assert_ne!(decoder.push(*index, payload).unwrap(), Progress::Duplicate);
            }
            assert!(abandon || decoder.source() == Some(&source[..]), "round {round}, k = {k}");
        }
    }
}

#[test]
fn without_loss_a_chosen_seed_needs_no_symbol_more_than_the_block_has() {
    for k in [16, 64, 100, 256] {
        let draw = if k % 3 == 1 { Draw::Dealt } else { Draw::Raptor };
        let rows = Rows::new(k, draw, choose_seed(k, draw, 77)).unwrap();
        let source = bytes(k.into(), usize::from(k) * 40);
        let indices: Vec<u32> = (0..k.into()).collect();
        let mut decoder = Decoder::new(40, rows.clone()).unwrap();
        let symbols = coded(&source, 40, &rows, &indices);
        let last = symbols.iter().map(|(index, payload)| decoder.push(*index, payload).unwrap()).last();
        assert_eq!(last, Some(Progress::Complete), "k = {k}");
        assert_eq!(decoder.into_source(), Some(source));
    }
}

#[test]
fn what_is_wrong_is_refused_and_changes_nothing() {
    let rows = Rows::new(10, Draw::Dealt, 1).unwrap();
    assert_eq!(Decoder::new(0, rows.clone()).unwrap_err(), Error::SymbolBytes(0));
    assert_eq!(Decoder::new(65_536, rows.clone()).unwrap_err(), Error::SymbolBytes(65_536));
    let empty = || Arc::<[u8]>::from(&[][..]);
    assert_eq!(Encoder::new(empty(), 0, rows.clone()).unwrap_err(), Error::SymbolBytes(0));
    assert_eq!(Encoder::new(empty(), 65_536, rows.clone()).unwrap_err(), Error::SymbolBytes(65_536));
    let long = Arc::<[u8]>::from(&[0; 81][..]);
    let error = Encoder::new(long, 8, rows.clone()).unwrap_err();
    assert_eq!(error, Error::SourceBytes { bytes: 81, room: 80 });

    let mut encoder = Encoder::new(Arc::from(&[1; 80][..]), 8, rows.clone()).unwrap();
    let last = max_symbols(10) - 1;
    let beyond = Error::Index { index: last + 1, last };
    assert_eq!(encoder.encode(last + 1, &mut [0; 8]).unwrap_err(), beyond);
    let short = Error::PayloadBytes { bytes: 7, expected: 8 };
    assert_eq!(encoder.encode(0, &mut [0; 7]).unwrap_err(), short);

    let mut decoder = Decoder::new(8, rows).unwrap();
    assert_eq!(decoder.push(last + 1, &[0; 8]).unwrap_err(), beyond);
    assert_eq!(decoder.push(u32::MAX, &[0; 8]).unwrap_err(), Error::Index { index: u32::MAX, last });
    assert_eq!(decoder.push(0, &[0; 7]).unwrap_err(), short);
    assert_eq!(decoder.push(0, &[]).unwrap_err(), Error::PayloadBytes { bytes: 0, expected: 8 });
    assert_eq!(decoder.push(0, &[0; 8]).unwrap(), Progress::Needs(9), "the refused ones did not count");
}

#[test]
fn symbols_after_the_last_that_was_needed_change_nothing() {
    let rows = Rows::new(20, Draw::Dealt, 1).unwrap();
    let source = bytes(1, 20 * 16);
    let mut decoder = Decoder::new(16, rows.clone()).unwrap();
    let indices: Vec<u32> = (0..max_symbols(20)).collect();
    let symbols = coded(&source, 16, &rows, &indices);
    let complete = symbols
        .iter()
        .filter(|(index, payload)| decoder.push(*index, payload).unwrap() == Progress::Complete)
        .count();
    assert!(complete > 60);
    assert_eq!(decoder.push(0, &[0; 16]).unwrap(), Progress::Duplicate);
    assert_eq!(decoder.source(), Some(&source[..]));
}

#[test]
fn the_memory_of_a_decoder_has_a_bound_that_can_be_asked_for() {
    for draw in DRAWS {
        let bytes = Decoder::memory_bytes(&Rows::new(256, draw, 0).unwrap(), 1024);
        assert!((2 * 256 * 1024..4 * 256 * 1024).contains(&bytes), "{draw:?}: {bytes}");
    }
}

#[test]
fn decoders_can_go_to_another_thread() {
    fn sendable<T: Send>() {}
    sendable::<Decoder>();
    sendable::<Encoder>();
    sendable::<Rows>();
}

#[test]
fn symbols_that_were_chosen_to_be_hard_to_decode_are_refused() {
    for draw in DRAWS {
        let rows = Rows::new(2048, draw, 1).unwrap();
        let mut longest: Vec<u32> = (0..rows.max_symbols()).collect();
        longest.sort_by_key(|index| std::cmp::Reverse(rows.row(*index).len()));
        let mut decoder = Decoder::new(1, rows.clone()).unwrap();
        let refused = longest.iter().find_map(|index| decoder.push(*index, &[0]).err());
        assert_eq!(refused, Some(Error::Inactive(rows.columns().into())));
        assert_eq!(decoder.source(), None);
        // It can be used again.
        decoder.reset(rows);
        assert!((0..4096).any(|index| decoder.push(index, &[0]).unwrap() == Progress::Complete));
    }
}

#[test]
fn what_comes_by_chance_is_far_from_being_refused() {
    for (k, draw) in [8, 64, 200, 400, 800, 2000, 8192].into_iter().flat_map(|k| DRAWS.map(|draw| (k, draw)))
    {
        let rows = Rows::new(k, draw, 5).unwrap();
        let most = usize::from(rows.columns()) / 6 + 64;
        for loss_percent in [0, 10, 60] {
            let mut decoder = Decoder::new(1, rows.clone()).unwrap();
            let mut came = arrivals(k, u64::from(loss_percent), loss_percent).into_iter();
            assert!(came.any(|index| decoder.push(index, &[0]).unwrap() == Progress::Complete));
            assert!(decoder.inactive_columns() <= most * 3 / 4, "k = {k}, {draw:?}");
        }
    }
}
