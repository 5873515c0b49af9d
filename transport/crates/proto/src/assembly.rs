//! An object from its symbols: each block is decoded, checked against its hash, and handed out once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use codec::Progress;
use thiserror::Error;
use wire::control::Hash;

use crate::BlockSet;
use crate::coding::{self, Decoder};
use crate::object::Cut;

/// The blocks of one object that are not whole.
///
/// It takes what a state machine lets through: symbols of blocks that were asked for, indices below the cap, at most one
/// hash of a block.
#[derive(Debug)]
pub struct Assembly {
    cut: Cut,
    decode: bool,
    /// What comes of other blocks is late.
    missing: BlockSet,
    blocks: HashMap<u32, Block>,
    /// Of blocks that are not whole.
    hashes: HashMap<u32, Hash>,
}

#[derive(Debug)]
struct Block {
    decoder: Decoder,
    received: u32,
}

/// What has come of a symbol or of a hash.
#[derive(Debug)]
pub enum Step {
    /// More has to come.
    Pending,
    /// So many symbols of the block are needed in all, as far as it is known: its own number of them was not enough.
    Needs(u16),
    /// The block is there, and is what its sender said it would be.
    Whole(Whole),
}

/// A block that is there.
#[derive(Debug)]
pub struct Whole {
    /// The block.
    pub block: u32,
    /// Where it begins in the object.
    pub offset: u64,
    /// Its length.
    pub bytes: usize,
    decoder: Decoder,
}

impl Whole {
    /// Its bytes; none of an object that is not decoded.
    pub fn source(&self) -> &[u8] {
        self.decoder.source().and_then(|source| source.get(..self.bytes)).unwrap_or_default()
    }

    /// The decoder, for a block to come.
    pub fn into_decoder(self) -> Decoder {
        self.decoder
    }
}

/// Why nothing comes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum Fault {
    /// A block was decoded and has another hash.
    #[error("block {0} is not what its sender said it would be")]
    Corrupt(u32),
    /// A block cannot be decoded.
    #[error("block {block}: {error}")]
    Coding {
        /// The block.
        block: u32,
        /// Why not.
        error: coding::Error,
    },
}

impl Assembly {
    /// Nothing of an object has come. Without `decode` it only finds out which symbols would be enough.
    pub fn new(cut: Cut, decode: bool) -> Self {
        let missing = BlockSet::all(cut.layout().blocks());
        Assembly { cut, decode, missing, blocks: HashMap::new(), hashes: HashMap::new() }
    }

    /// A symbol has come. The decoder of a new block is made of a `spare` one, if it fits.
    ///
    /// # Errors
    /// [`Fault`]: nothing comes of the object any more.
    pub fn symbol(
        &mut self,
        block: u32,
        index: u16,
        payload: &[u8],
        spare: impl FnOnce() -> Option<Decoder>,
    ) -> Result<Step, Fault> {
        if !self.missing.contains(block) {
            return Ok(Step::Pending);
        }
        let fault = |error| Fault::Coding { block, error };
        let Block { decoder, received } = match self.blocks.entry(block) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                // Which columns can be solved for does not depend on what is in the symbols.
                let symbol_bytes = if self.decode { self.cut.layout().symbol_bytes() } else { 1 };
                let decoder = self.cut.decoder(block, symbol_bytes, spare()).map_err(fault)?;
                new.insert(Block { decoder, received: 0 })
            }
        };
        let payload = if self.decode { payload } else { payload.get(..1).unwrap_or_default() };
        *received += 1;
        match decoder.push(index.into(), payload).map_err(fault)? {
            Progress::Needs(more) if *received >= u32::from(self.cut.layout().k(block)) => {
                Ok(Step::Needs((*received + more).min(u16::MAX.into()) as u16))
            }
            Progress::Needs(_) | Progress::Duplicate => Ok(Step::Pending),
            Progress::Complete => self.verify(block),
        }
    }

    /// What a block has to be.
    ///
    /// # Errors
    /// [`Fault`]: nothing comes of the object any more.
    pub fn hash(&mut self, block: u32, hash: Hash) -> Result<Step, Fault> {
        if !self.missing.contains(block) {
            return Ok(Step::Pending);
        }
        self.hashes.insert(block, hash);
        self.verify(block)
    }

    /// Hands a block out, once it is decoded and its hash is known.
    fn verify(&mut self, block: u32) -> Result<Step, Fault> {
        let decoded = self.blocks.get(&block).is_some_and(|block| block.decoder.source().is_some());
        let hash = self.hashes.get(&block).copied();
        if !decoded || self.decode && hash.is_none() {
            return Ok(Step::Pending);
        }
        let Some(Block { decoder, .. }) = self.blocks.remove(&block) else { return Ok(Step::Pending) };
        self.hashes.remove(&block);
        self.missing.remove(block);
        let layout = self.cut.layout();
        let whole = Whole { block, offset: layout.offset(block), bytes: layout.block_bytes(block), decoder };
        // Here, where it has just been written: a cache has it.
        let genuine = hash.is_none_or(|hash| !self.decode || blake3::hash(whole.source()) == hash);
        if genuine { Ok(Step::Whole(whole)) } else { Err(Fault::Corrupt(block)) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use wire::control::Code;

    use super::*;
    use crate::object::Layout;

    const SYMBOL_BYTES: u16 = 16;
    const BLOCK_SYMBOLS: u16 = 20;

    /// An object of so many bytes, how it is cut, and its blocks.
    fn object(bytes: usize) -> (Vec<u8>, Cut) {
        let object = (0..bytes).map(|n| (n * 7 + n / 256) as u8).collect();
        let layout = Layout::new(SYMBOL_BYTES, BLOCK_SYMBOLS, bytes as u64).unwrap();
        (object, Cut::choose(layout, Code::Dealt, 1).unwrap().0)
    }

    fn block<'a>(object: &'a [u8], cut: &Cut, block: u32) -> &'a [u8] {
        let begin = cut.layout().offset(block) as usize;
        &object[begin..begin + cut.layout().block_bytes(block)]
    }

    fn hash(object: &[u8], cut: &Cut, number: u32) -> Hash {
        *blake3::hash(block(object, cut, number)).as_bytes()
    }

    fn symbols(object: &[u8], cut: &Cut, number: u32) -> Vec<Vec<u8>> {
        let source: Arc<[u8]> = block(object, cut, number).into();
        let mut encoder = cut.encoder(number, source).unwrap();
        let encode = |index| {
            let mut symbol = vec![0; SYMBOL_BYTES.into()];
            encoder.encode(index, &mut symbol).unwrap();
            symbol
        };
        (0..2 * u32::from(BLOCK_SYMBOLS)).map(encode).collect()
    }

    proptest! {
        /// Symbols and hashes in any order, any of them again and again, until nothing is missing.
        #[test]
        fn each_block_is_handed_out_once_as_it_was(
            bytes in 1_usize..2000,
            order in prop::collection::vec((any::<prop::sample::Index>(), 0_u16..80), 1..600),
        ) {
            let (object, cut) = object(bytes);
            let blocks = cut.layout().blocks();
            let sent: Vec<_> = (0..blocks).map(|number| symbols(&object, &cut, number)).collect();
            let mut assembly = Assembly::new(cut.clone(), true);
            let mut got = vec![false; blocks as usize];
            let mut spare = None;
            let all = (0..blocks).flat_map(|number| (0..80).map(move |index| (number, index)));
            let order = order.iter().map(|(number, index)| (number.index(blocks as usize) as u32, *index));
            for (number, index) in order.chain(all) {
                let step = match sent[number as usize].get(usize::from(index)) {
                    Some(symbol) => assembly.symbol(number, index, symbol, || spare.take()).unwrap(),
                    None => assembly.hash(number, hash(&object, &cut, number)).unwrap(),
                };
                if let Step::Whole(whole) = step {
                    prop_assert_eq!(whole.block, number);
                    prop_assert_eq!(whole.offset, cut.layout().offset(number));
                    prop_assert_eq!(whole.source(), block(&object, &cut, number));
                    prop_assert!(!std::mem::replace(&mut got[number as usize], true), "twice");
                    spare = Some(whole.into_decoder());
                }
            }
            prop_assert!(got.iter().all(|got| *got));
        }
    }

    #[test]
    fn a_block_that_is_another_is_not_handed_out() {
        let (object, cut) = object(300);
        let mut assembly = Assembly::new(cut.clone(), true);
        assembly.hash(0, [1; 32]).unwrap();
        let mut steps = symbols(&object, &cut, 0).into_iter().zip(0..);
        let fault = steps.find_map(|(symbol, index)| assembly.symbol(0, index, &symbol, || None).err());
        assert_eq!(fault, Some(Fault::Corrupt(0)));
    }

    #[test]
    fn it_tells_what_is_needed_beyond_a_block_s_own_symbols() {
        let (object, cut) = object(usize::from(SYMBOL_BYTES * BLOCK_SYMBOLS));
        let mut assembly = Assembly::new(cut.clone(), true);
        assembly.hash(0, hash(&object, &cut, 0)).unwrap();
        let mut received = 0;
        for (index, symbol) in symbols(&object, &cut, 0).iter().enumerate().skip(usize::from(BLOCK_SYMBOLS)) {
            received += 1;
            match assembly.symbol(0, index as u16, symbol, || None).unwrap() {
                Step::Pending => assert!(received < BLOCK_SYMBOLS, "{received} came, and nothing is said"),
                Step::Needs(symbols) => assert!(received >= BLOCK_SYMBOLS && symbols > received),
                Step::Whole(_) => return assert!(received >= BLOCK_SYMBOLS),
            }
        }
    }

    #[test]
    fn without_decoding_the_same_symbols_are_enough() {
        let (object, cut) = object(900);
        let mut ends = Vec::new();
        for decode in [true, false] {
            let mut assembly = Assembly::new(cut.clone(), decode);
            assembly.hash(1, hash(&object, &cut, 1)).unwrap();
            let whole = |(symbol, index): (Vec<u8>, u16)| {
                let step = assembly.symbol(1, index, &symbol, || None).unwrap();
                matches!(step, Step::Whole(_)).then_some(index)
            };
            ends.push(symbols(&object, &cut, 1).into_iter().zip(0..).find_map(whole).unwrap());
        }
        assert_eq!(ends[0], ends[1]);
    }
}
