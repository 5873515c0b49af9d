//! The two ends of a block's code: of one of ours, or of RaptorQ by the crate `raptorq`, to compare with.

mod peeling;
#[cfg(feature = "raptorq")]
mod rfc6330;

use std::sync::Arc;

pub use codec::soliton::{PAPER_C, PAPER_DELTA};
use codec::{Draw, Family, Progress, Rows, Soliton, choose_seed, remembers_seed};
use thiserror::Error;
use wire::control::{Code, Hash, Tuned};

use crate::spares::Spares;

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
    /// A code that peeling alone does not decode.
    #[error("peeling alone decodes LT codes, not Raptor codes")]
    NotPeeled,
    /// Far more symbols than a block of RaptorQ needs do not restore it.
    #[error("symbols of RaptorQ that do not restore their block, however many come")]
    RaptorQDeficient,
}

/// How blocks are decoded. It is the receiving end's own affair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Peeling with inactivation, or what a code has instead: a block is complete as soon as its symbols determine it.
    #[default]
    Complete,
    /// Peeling alone, by Algorithm 2 of the LTTP paper, which needs a third more symbols and holds up to four times the
    /// block. LT codes only.
    Peeling,
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
        match family(code)? {
            Some(family) => Ok(Blocks::Ours(Rows::new(k, family, seed)?)),
            #[cfg(feature = "raptorq")]
            None => Ok(Blocks::RaptorQ { k: rfc6330::checked(k)? }),
            #[cfg(not(feature = "raptorq"))]
            None => Err(Error::NoRaptorQ),
        }
    }

    pub(crate) fn encoder(&self, source: Arc<[u8]>, symbol_bytes: usize) -> Result<Encoder, Error> {
        let copy = |bytes: &mut [u8]| {
            bytes.copy_from_slice(&source);
            Ok(())
        };
        Ok(self.prepare::<Error>(source.len(), symbol_bytes, &Spares::default(), copy)?.encoder)
    }

    /// Prepares a block of `bytes` that `read` writes, in spare memory if there is some.
    pub(crate) fn prepare<E: From<Error>>(
        &self,
        bytes: usize,
        symbol_bytes: usize,
        spares: &Spares,
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Prepared, E> {
        let mut hash = Hash::default();
        let read = |source: &mut [u8]| -> Result<(), E> {
            read(source)?;
            // At once, while a cache has it.
            hash = *blake3::hash(source).as_bytes();
            Ok(())
        };
        let encoding = match self {
            Blocks::Ours(rows) => {
                let read = |source: &mut [u8]| read(source).map_err(Failed::Read);
                let made = codec::Encoder::read(bytes, symbol_bytes, rows.clone(), spares.take(), read);
                Encoding::Ours(made.map_err(Failed::into)?)
            }
            #[cfg(feature = "raptorq")]
            Blocks::RaptorQ { k } => {
                let mut source = vec![0; bytes];
                read(&mut source)?;
                Encoding::RaptorQ(rfc6330::Encoder::new(source.into(), symbol_bytes, *k)?)
            }
        };
        Ok(Prepared { encoder: Encoder { encoding: Some(encoding), spares: spares.clone() }, hash, bytes })
    }

    pub(crate) fn decoder(
        &self,
        symbol_bytes: usize,
        method: Method,
        spare: Option<Decoder>,
    ) -> Result<Decoder, Error> {
        if method == Method::Peeling {
            return match self {
                Blocks::Ours(rows) if rows.draw() != Draw::Raptor => {
                    let decoder = peeling::Decoder::new(symbol_bytes, rows.clone())?;
                    Ok(Decoder(Decoding::Peeling(Box::new(decoder))))
                }
                _ => Err(Error::NotPeeled),
            };
        }
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

/// Why a block was not prepared.
enum Failed<E> {
    Codec(codec::Error),
    Read(E),
}

impl<E> From<codec::Error> for Failed<E> {
    fn from(error: codec::Error) -> Self {
        Failed::Codec(error)
    }
}

impl<E: From<Error>> Failed<E> {
    fn into(self) -> E {
        match self {
            Failed::Codec(error) => Error::Limits(error).into(),
            Failed::Read(error) => error,
        }
    }
}

/// A block that can be sent: what makes its symbols, and its hash.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) encoder: Encoder,
    pub(crate) hash: Hash,
    pub(crate) bytes: usize,
}

/// A seed of good rows for blocks of k symbols, searched from `start` on; 0 where seeds mean nothing.
pub(crate) fn good_seed(code: Code, k: u16, start: u64) -> u64 {
    family(code).ok().flatten().map_or(0, |family| choose_seed(k, family, start))
}

/// Whether [`good_seed`] needs no search.
pub(crate) fn remembers_good_seed(code: Code, k: u16, start: u64) -> bool {
    family(code).ok().flatten().is_none_or(|family| remembers_seed(k, family, start))
}

/// Which rows there are; `None` if the code is none of ours.
///
/// # Errors
/// Parameters that a peer may not ask for.
fn family(code: Code) -> Result<Option<Family>, Error> {
    Ok(match code {
        Code::Independent => Some(Draw::Independent.into()),
        Code::Dealt => Some(Draw::Dealt.into()),
        Code::Raptor => Some(Draw::Raptor.into()),
        Code::RaptorQ => None,
        Code::Tuned(Tuned { dealt, c_millionths, delta_millionths }) => {
            let draw = if dealt { Draw::Dealt } else { Draw::Independent };
            Some(Family { draw, soliton: Soliton::of_millionths(c_millionths, delta_millionths)? })
        }
    })
}

/// The LT code of these parameters c and delta (LTTP, Eq. 3), with neighbours dealt or chosen independently.
///
/// # Errors
/// Parameters that are not to be had.
pub fn lt_code(dealt: bool, c: f64, delta: f64) -> Result<Code, Error> {
    let soliton = Soliton::new(c, delta)?;
    Ok(match (soliton == Soliton::PAPER, dealt) {
        (true, true) => Code::Dealt,
        (true, false) => Code::Independent,
        (false, dealt) => {
            let (c_millionths, delta_millionths) = (soliton.c_millionths(), soliton.delta_millionths());
            Code::Tuned(Tuned { dealt, c_millionths, delta_millionths })
        }
    })
}

/// Makes the coded symbols of a block.
#[derive(Debug)]
pub struct Encoder {
    /// Until it is dropped.
    encoding: Option<Encoding>,
    /// Where its memory goes then.
    spares: Spares,
}

impl Drop for Encoder {
    fn drop(&mut self) {
        if let Some(Encoding::Ours(encoder)) = self.encoding.take() {
            self.spares.keep(encoder.into_memory());
        }
    }
}

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
        match &mut self.encoding {
            Some(Encoding::Ours(encoder)) => Ok(encoder.encode(index, out)?),
            #[cfg(feature = "raptorq")]
            Some(Encoding::RaptorQ(encoder)) => encoder.encode(index, out),
            None => unreachable!("it has been dropped"),
        }
    }
}

/// Takes the coded symbols of a block in any order, until the block is there.
#[derive(Debug)]
pub struct Decoder(Decoding);

#[derive(Debug)]
enum Decoding {
    Ours(Box<codec::Decoder>),
    Peeling(Box<peeling::Decoder>),
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
            Decoding::Peeling(decoder) => Ok(decoder.push(index, payload)?),
            #[cfg(feature = "raptorq")]
            Decoding::RaptorQ(decoder) => decoder.push(index, payload),
        }
    }

    /// The block, `k * symbol_bytes` bytes, once it is complete.
    pub fn source(&self) -> Option<&[u8]> {
        match &self.0 {
            Decoding::Ours(decoder) => decoder.source(),
            Decoding::Peeling(decoder) => decoder.source(),
            #[cfg(feature = "raptorq")]
            Decoding::RaptorQ(decoder) => decoder.source(),
        }
    }

    fn symbol_bytes(&self) -> usize {
        match &self.0 {
            Decoding::Ours(decoder) => decoder.symbol_bytes(),
            Decoding::Peeling(decoder) => decoder.symbol_bytes(),
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
        let tuned = lt_code(true, 0.05, 0.5).unwrap();
        let mut codes = vec![Code::Independent, Code::Dealt, Code::Raptor, tuned];
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
                let mut decoder = blocks.decoder(symbol_bytes, Method::Complete, None).unwrap();
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
    fn peeling_restores_blocks_of_lt_codes_whatever_their_parameters() {
        let mut random = Random::new(3);
        for (dealt, c, delta) in [(true, 0.2, 0.7), (false, 0.2, 0.7), (false, 0.05, 0.5), (true, 1.0, 0.1)] {
            let code = lt_code(dealt, c, delta).unwrap();
            for k in [1_u16, 2, 37, 256] {
                let source: Arc<[u8]> = (0..usize::from(k) * 16).map(|_| random.next() as u8).collect();
                let blocks = Blocks::new(code, k, good_seed(code, k, 1)).unwrap();
                assert!(remembers_good_seed(code, k, 1));
                let mut encoder = blocks.encoder(source.clone(), 16).unwrap();
                let mut decoder = blocks.decoder(16, Method::Peeling, None).unwrap();
                let mut symbol = [0; 16];
                let mut received = 0;
                for index in (0..codec::max_symbols(k)).filter(|_| !random.bits().is_multiple_of(8)) {
                    encoder.encode(index, &mut symbol).unwrap();
                    received += 1;
                    match decoder.push(index, &symbol).unwrap() {
                        Progress::Needs(more) => {
                            assert!(more >= 1 && received + more >= u32::from(k));
                            assert!(more <= u32::from(k).max(1), "{more} more after {received} of {k}");
                        }
                        Progress::Complete => break,
                        Progress::Duplicate => panic!("it came once"),
                    }
                    assert_eq!(decoder.push(index, &symbol), Ok(Progress::Duplicate));
                }
                assert_eq!(decoder.source(), Some(&source[..]), "{code:?}, {k} symbols");
            }
        }
    }

    #[test]
    fn peeling_alone_is_refused_for_what_it_does_not_decode() {
        for code in codes().into_iter().filter(|code| matches!(code, Code::Raptor | Code::RaptorQ)) {
            let blocks = Blocks::new(code, 8, 1).unwrap();
            assert_eq!(blocks.decoder(16, Method::Peeling, None).unwrap_err(), Error::NotPeeled);
        }
    }

    #[test]
    fn parameters_that_a_peer_may_not_ask_for_are_errors() {
        for (c_millionths, delta_millionths) in [(0, 700_000), (200_000, 0), (u32::MAX, 1), (1, u32::MAX)] {
            let code = Code::Tuned(Tuned { dealt: true, c_millionths, delta_millionths });
            let error = Blocks::new(code, 8, 1).unwrap_err();
            assert!(error.to_string().contains("c is 0.01 to 2"), "{error}");
            assert_eq!(good_seed(code, 8, 5), 0);
            assert!(remembers_good_seed(code, 8, 5), "there is nothing to search");
        }
        assert_eq!(lt_code(true, 0.2, 0.7), Ok(Code::Dealt));
        assert_eq!(lt_code(false, 0.2, 0.7), Ok(Code::Independent));
        assert!(lt_code(true, 20.0, 0.7).is_err());
    }

    #[test]
    fn a_decoder_counts_what_is_missing_and_takes_no_symbol_twice() {
        for code in codes() {
            let blocks = Blocks::new(code, 8, 1).unwrap();
            let mut encoder = blocks.encoder(vec![7; 8 * 16].into(), 16).unwrap();
            let mut decoder = blocks.decoder(16, Method::Complete, None).unwrap();
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
                assert!(blocks.decoder(bytes, Method::Complete, None).is_err());
                assert!(blocks.encoder(vec![1].into(), bytes).is_err());
            }
            assert!(blocks.encoder(vec![1; 8 * 16 + 1].into(), 16).is_err());
            let mut encoder = blocks.encoder(vec![1; 8 * 16].into(), 16).unwrap();
            let mut decoder = blocks.decoder(16, Method::Complete, None).unwrap();
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
                let mut decoder = blocks.decoder(symbol_bytes, Method::Complete, spare.take()).unwrap();
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
                let mut decoder = Blocks::new(code, k, 1).unwrap().decoder(16, Method::Complete, None).unwrap();
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
