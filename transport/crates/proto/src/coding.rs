//! The two ends of a block's code: of one of ours, or of RaptorQ by the crate `raptorq`, to compare with.

#[cfg(feature = "raptorq")]
mod rfc6330;

use std::sync::Arc;

use codec::{Draw, Progress, Rows, choose_seed, remembers_seed};
use thiserror::Error;
use wire::control::Code;

/// Source symbols that a block of RaptorQ may have. What a peer can make of the work grows faster than the block.
const MOST_RAPTORQ_SYMBOLS: u16 = 2048;

/// Why there is no code, or nothing comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum Error {
    /// Something is outside the limits.
    #[error(transparent)]
    Limits(#[from] codec::Error),
    /// The feature `raptorq` is off.
    #[error("this program was built without RaptorQ")]
    NoRaptorQ,
    /// More symbols than a block of RaptorQ may have here.
    #[error("a block of RaptorQ has at most {MOST_RAPTORQ_SYMBOLS} source symbols here, not {0}")]
    RaptorQSymbols(u16),
    /// Far more symbols than a block of RaptorQ needs do not restore it.
    #[error("symbols of RaptorQ that do not restore their block, however many come")]
    RaptorQDeficient,
}

/// What the blocks of k symbols of an object have in common.
#[derive(Clone, Debug)]
pub(crate) enum Blocks {
    /// The rows that belong to k and a seed.
    Ours(Rows),
    #[cfg(feature = "raptorq")]
    RaptorQ { k: u16 },
}

impl Blocks {
    pub(crate) fn new(code: Code, k: u16, seed: u64) -> Result<Self, Error> {
        match draw(code) {
            Some(draw) => Ok(Blocks::Ours(Rows::new(k, draw, seed)?)),
            #[cfg(feature = "raptorq")]
            None => Ok(Blocks::RaptorQ { k: rfc6330::checked(k)? }),
            #[cfg(not(feature = "raptorq"))]
            None => Err(Error::NoRaptorQ),
        }
    }

    pub(crate) fn encoder(&self, source: Arc<[u8]>, symbol_bytes: usize) -> Result<Encoder, Error> {
        Ok(Encoder(match self {
            Blocks::Ours(rows) => Encoding::Ours(codec::Encoder::new(source, symbol_bytes, rows.clone())?),
            #[cfg(feature = "raptorq")]
            Blocks::RaptorQ { k } => Encoding::RaptorQ(rfc6330::Encoder::new(source, symbol_bytes, *k)?),
        }))
    }

    pub(crate) fn decoder(&self, symbol_bytes: usize, spare: Option<Decoder>) -> Result<Decoder, Error> {
        let spare = spare.filter(|spare| spare.symbol_bytes() == symbol_bytes);
        Ok(Decoder(match (self, spare) {
            (Blocks::Ours(rows), Some(Decoder(Decoding::Ours(mut decoder)))) => {
                decoder.reset(rows.clone());
                Decoding::Ours(decoder)
            }
            (Blocks::Ours(rows), _) => {
                Decoding::Ours(Box::new(codec::Decoder::new(symbol_bytes, rows.clone())?))
            }
            #[cfg(feature = "raptorq")]
            (Blocks::RaptorQ { k }, Some(Decoder(Decoding::RaptorQ(mut decoder)))) => {
                decoder.reset(*k)?;
                Decoding::RaptorQ(decoder)
            }
            #[cfg(feature = "raptorq")]
            (Blocks::RaptorQ { k }, _) => Decoding::RaptorQ(rfc6330::Decoder::new(symbol_bytes, *k)?),
        }))
    }
}

/// A seed of good rows for blocks of k symbols, searched from `start` on; 0 where seeds mean nothing.
pub(crate) fn good_seed(code: Code, k: u16, start: u64) -> u64 {
    draw(code).map_or(0, |draw| choose_seed(k, draw, start))
}

/// Whether [`good_seed`] needs no search.
pub(crate) fn remembers_good_seed(code: Code, k: u16, start: u64) -> bool {
    draw(code).is_none_or(|draw| remembers_seed(k, draw, start))
}

/// How rows are drawn; `None` if the code is none of ours.
fn draw(code: Code) -> Option<Draw> {
    match code {
        Code::Independent => Some(Draw::Independent),
        Code::Dealt => Some(Draw::Dealt),
        Code::Raptor => Some(Draw::Raptor),
        Code::RaptorQ => None,
    }
}

/// Makes the coded symbols of a block.
#[derive(Debug)]
pub struct Encoder(Encoding);

#[derive(Debug)]
enum Encoding {
    Ours(codec::Encoder),
    #[cfg(feature = "raptorq")]
    RaptorQ(rfc6330::Encoder),
}

impl Encoder {
    /// Writes the coded symbol `index` to `out`, which is one symbol long.
    ///
    /// # Errors
    /// An index beyond the last of the block; `out` of another length.
    pub fn encode(&mut self, index: u32, out: &mut [u8]) -> Result<(), Error> {
        match &mut self.0 {
            Encoding::Ours(encoder) => Ok(encoder.encode(index, out)?),
            #[cfg(feature = "raptorq")]
            Encoding::RaptorQ(encoder) => encoder.encode(index, out),
        }
    }
}

/// Takes the coded symbols of a block in any order, until the block is there.
#[derive(Debug)]
pub struct Decoder(Decoding);

#[derive(Debug)]
enum Decoding {
    Ours(Box<codec::Decoder>),
    #[cfg(feature = "raptorq")]
    RaptorQ(rfc6330::Decoder),
}

impl Decoder {
    /// Takes the coded symbol `index`.
    ///
    /// # Errors
    /// An index beyond the last of the block; a payload that is not one symbol long. Nothing changes then.
    pub fn push(&mut self, index: u32, payload: &[u8]) -> Result<Progress, Error> {
        match &mut self.0 {
            Decoding::Ours(decoder) => Ok(decoder.push(index, payload)?),
            #[cfg(feature = "raptorq")]
            Decoding::RaptorQ(decoder) => decoder.push(index, payload),
        }
    }

    /// The block, `k * symbol_bytes` bytes, once it is complete.
    pub fn source(&self) -> Option<&[u8]> {
        match &self.0 {
            Decoding::Ours(decoder) => decoder.source(),
            #[cfg(feature = "raptorq")]
            Decoding::RaptorQ(decoder) => decoder.source(),
        }
    }

    fn symbol_bytes(&self) -> usize {
        match &self.0 {
            Decoding::Ours(decoder) => decoder.symbol_bytes(),
            #[cfg(feature = "raptorq")]
            Decoding::RaptorQ(decoder) => decoder.symbol_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use codec::Random;
    use proptest::prelude::*;

    use super::*;

    fn codes() -> Vec<Code> {
        let mut codes = vec![Code::Independent, Code::Dealt, Code::Raptor];
        if cfg!(feature = "raptorq") {
            codes.push(Code::RaptorQ);
        }
        codes
    }

    #[test]
    fn a_block_comes_back_from_any_half_of_its_symbols_whatever_the_code() {
        let mut random = Random::new(3);
        for code in codes() {
            for (k, symbol_bytes, length) in
                [(1, 16, 3), (2, 32, 64), (37, 16, 37 * 16 - 5), (300, 64, 19_200)]
            {
                let source: Arc<[u8]> = (0..length).map(|_| random.next() as u8).collect();
                let blocks = Blocks::new(code, k, good_seed(code, k, 1)).unwrap();
                let mut encoder = blocks.encoder(source.clone(), symbol_bytes).unwrap();
                let mut decoder = blocks.decoder(symbol_bytes, None).unwrap();
                let mut symbol = vec![0; symbol_bytes];
                for index in (0..codec::max_symbols(k)).filter(|_| random.bits().is_multiple_of(2)) {
                    encoder.encode(index, &mut symbol).unwrap();
                    if decoder.push(index, &symbol).unwrap() == Progress::Complete {
                        break;
                    }
                    assert!(decoder.source().is_none());
                    symbol.fill(0);
                }
                let found = decoder.source().unwrap_or_else(|| panic!("{code:?}, {k} symbols"));
                assert_eq!(found.len(), usize::from(k) * symbol_bytes);
                assert_eq!(found[..length], source[..], "{code:?}, {k} symbols");
                assert!(found[length..].iter().all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn a_decoder_counts_what_is_missing_and_takes_no_symbol_twice() {
        for code in codes() {
            let blocks = Blocks::new(code, 8, 1).unwrap();
            let mut encoder = blocks.encoder(vec![7; 8 * 16].into(), 16).unwrap();
            let mut decoder = blocks.decoder(16, None).unwrap();
            let mut symbol = [0; 16];
            encoder.encode(1, &mut symbol).unwrap();
            assert_eq!(decoder.push(1, &symbol), Ok(Progress::Needs(7)), "{code:?}");
            assert_eq!(decoder.push(1, &symbol), Ok(Progress::Duplicate), "{code:?}");
        }
    }

    #[test]
    fn what_a_peer_may_not_ask_for_is_an_error_whatever_the_code() {
        for code in codes() {
            assert!(matches!(Blocks::new(code, 0, 1), Err(Error::Limits(codec::Error::SourceSymbols(0)))));
            assert!(Blocks::new(code, 8193, 1).is_err(), "{code:?}");
            let blocks = Blocks::new(code, 8, 1).unwrap();
            for bytes in [0, 65_536] {
                assert!(blocks.decoder(bytes, None).is_err());
                assert!(blocks.encoder(vec![1].into(), bytes).is_err());
            }
            assert!(blocks.encoder(vec![1; 8 * 16 + 1].into(), 16).is_err());
            let mut encoder = blocks.encoder(vec![1; 8 * 16].into(), 16).unwrap();
            let mut decoder = blocks.decoder(16, None).unwrap();
            for (index, bytes) in [(codec::max_symbols(8), 16), (u32::MAX, 16), (0, 15), (0, 17), (9, 17)] {
                assert!(encoder.encode(index, &mut vec![0; bytes]).is_err(), "{code:?}: {index}, {bytes}");
                assert!(decoder.push(index, &vec![0; bytes]).is_err(), "{code:?}: {index}, {bytes}");
            }
        }
    }

    #[test]
    fn a_spare_decoder_is_used_again_if_it_fits() {
        for code in codes() {
            let (small, large) = (Blocks::new(code, 8, 1).unwrap(), Blocks::new(code, 40, 1).unwrap());
            let mut spare = None;
            for (blocks, symbol_bytes, length) in [(&large, 16, 640), (&small, 16, 128), (&large, 32, 1280)] {
                let source: Arc<[u8]> = (0..length).map(|n| n as u8).collect();
                let mut encoder = blocks.encoder(source.clone(), symbol_bytes).unwrap();
                let mut decoder = blocks.decoder(symbol_bytes, spare.take()).unwrap();
                let mut symbol = vec![0; symbol_bytes];
                for index in 0.. {
                    encoder.encode(index, &mut symbol).unwrap();
                    if decoder.push(index, &symbol).unwrap() == Progress::Complete {
                        break;
                    }
                }
                assert_eq!(decoder.source(), Some(&source[..]));
                spare = Some(decoder);
            }
        }
    }

    proptest! {
        /// Any of a block's symbols with any bytes, again and again.
        #[test]
        fn no_symbols_harm_a_decoder(
            k in 1_u16..40,
            symbols in prop::collection::vec((0_u32..400, prop::collection::vec(any::<u8>(), 15..18)), 0..300),
        ) {
            for code in codes() {
                let mut decoder = Blocks::new(code, k, 1).unwrap().decoder(16, None).unwrap();
                let mut received = 0;
                for (index, payload) in &symbols {
                    match decoder.push(*index, payload) {
                        Ok(Progress::Needs(more)) => {
                            received += 1;
                            prop_assert!(more >= 1 && (received >= u32::from(k) || received + more >= k.into()));
                        }
                        Ok(Progress::Complete) => prop_assert_eq!(decoder.source().unwrap().len(), usize::from(k) * 16),
                        Ok(Progress::Duplicate) => {}
                        Err(_) => prop_assert!(*index >= codec::max_symbols(k) || payload.len() != 16),
                    }
                }
            }
        }
    }

    #[test]
    #[cfg(not(feature = "raptorq"))]
    fn a_program_without_raptorq_says_so() {
        assert!(matches!(Blocks::new(Code::RaptorQ, 8, 1), Err(Error::NoRaptorQ)));
    }
}
