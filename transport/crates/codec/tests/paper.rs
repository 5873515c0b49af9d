//! The decoders of the LTTP paper against its example and against each other.

mod common;

use common::{DRAWS, bytes, coded};
use proptest::prelude::*;
use weir_codec::paper::{ImprovedDecoder, StandardDecoder};
use weir_codec::{Decoder, Draw, Error, Progress, Rows, max_symbols};

type Push<'a> = &'a mut dyn FnMut(u32, &[u8]) -> Result<Progress, Error>;

/// Fig. 3: three source symbols; A and B restore the first two, C and D bring nothing new, E would bring the
/// third, F is the next of degree one.
#[test]
fn in_the_example_of_figure_3_the_standard_decoder_needs_six_symbols_and_the_improved_one_five() {
    let packets: [(&[u16], [u8; 1]); 6] =
        [(&[0, 1], [1 ^ 2]), (&[1], [2]), (&[0], [1]), (&[0, 1], [1 ^ 2]), (&[1, 2], [2 ^ 4]), (&[1], [2])];
    let rows = Rows::new(3, Draw::Independent, 0).unwrap();
    let mut standard = StandardDecoder::new(1, rows.clone()).unwrap();
    let mut improved = ImprovedDecoder::new(1, rows).unwrap();
    let complete = |progress: &Result<Progress, Error>| progress == &Ok(Progress::Complete);
    let needed = |progress: Vec<_>| 1 + progress.iter().position(complete).unwrap();
    assert_eq!(needed(packets.iter().map(|(row, payload)| standard.push_row(row, payload)).collect()), 6);
    assert_eq!(needed(packets.iter().map(|(row, payload)| improved.push_row(row, payload)).collect()), 5);
    assert_eq!(standard.source(), Some(&[1, 2, 4][..]));
    assert_eq!(improved.source(), Some(&[1, 2, 4][..]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn each_decoder_needs_no_more_symbols_than_the_one_before(k in 1u16..120, seed: u64, dealt: bool) {
        let rows = Rows::new(k, DRAWS[usize::from(dealt)], seed).unwrap();
        let source = bytes(seed, usize::from(k) * 3);
        let indices: Vec<u32> = (0..max_symbols(k)).collect();
        let symbols = coded(&source, 3, &rows, &indices);
        let mut standard = StandardDecoder::new(3, rows.clone()).unwrap();
        let mut improved = ImprovedDecoder::new(3, rows.clone()).unwrap();
        let mut ours = Decoder::new(3, rows).unwrap();
        let needed = |push: Push| {
            let done = |(index, payload): &(u32, Vec<u8>)| push(*index, payload) == Ok(Progress::Complete);
            symbols.iter().position(done).unwrap_or(symbols.len())
        };
        let standard_needs = needed(&mut |index, payload| standard.push(index, payload));
        let improved_needs = needed(&mut |index, payload| improved.push(index, payload));
        let ours_needs = needed(&mut |index, payload| ours.push(index, payload));
        prop_assert!(ours_needs <= improved_needs && improved_needs <= standard_needs);
        for restored in [standard.source(), improved.source(), ours.source()].into_iter().flatten() {
            prop_assert_eq!(restored, &source[..]);
        }
    }
}

#[test]
fn what_is_wrong_is_refused() {
    let rows = Rows::new(3, Draw::Independent, 0).unwrap();
    assert_eq!(StandardDecoder::new(0, rows.clone()).unwrap_err(), Error::SymbolBytes(0));
    let mut decoder = ImprovedDecoder::new(2, rows).unwrap();
    assert_eq!(decoder.push_row(&[3], &[0; 2]).unwrap_err(), Error::Column { column: 3, columns: 3 });
    assert_eq!(decoder.push(0, &[0; 3]).unwrap_err(), Error::PayloadBytes { bytes: 3, expected: 2 });
    assert!(matches!(decoder.push(1_000, &[0; 2]), Err(Error::Index { index: 1_000, .. })));
}
