//! RaptorQ (RFC 6330), of the crate `raptorq`: the first k symbols of a block are its source, the others repair it.
//!
//! The crate takes what it is given for right, and its rows follow from no seed: a peer can look for symbols that are of no
//! use together, and that are hard to see through. So everything is checked here, and bounded.

use std::sync::Arc;

use codec::{MAX_SYMBOL_BYTES, Progress, max_symbols};
use raptorq::{
    EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder, SourceBlockEncoder,
};

use super::{Error, MOST_RAPTORQ_SYMBOLS};

/// Of k + 2 symbols that come by chance, one set in a million may not suffice (RFC 6330, section 5.8): symbols of which
/// so many more do not restore their block were chosen.
const MOST_MORE: u32 = 15;

/// k, if a block may have so many symbols.
pub(super) fn checked(k: u16) -> Result<u16, Error> {
    match k {
        0 => Err(codec::Error::SourceSymbols(0).into()),
        1..=MOST_RAPTORQ_SYMBOLS => Ok(k),
        _ => Err(Error::RaptorQSymbols(k)),
    }
}

/// A block by itself, in one piece.
fn transmission(k: u16, symbol_bytes: usize) -> Result<ObjectTransmissionInformation, Error> {
    let size = u16::try_from(symbol_bytes).ok().filter(|bytes| *bytes > 0);
    let size = size.ok_or(codec::Error::SymbolBytes(symbol_bytes))?;
    const { assert!(MAX_SYMBOL_BYTES <= u16::MAX as usize) };
    Ok(ObjectTransmissionInformation::new(u64::from(k) * u64::from(size), size, 1, 1, 1))
}

fn check(k: u16, index: u32, bytes: usize, expected: usize) -> Result<(), Error> {
    if bytes != expected {
        return Err(codec::Error::PayloadBytes { bytes, expected }.into());
    }
    let last = max_symbols(k) - 1;
    if index > last { Err(codec::Error::Index { index, last }.into()) } else { Ok(()) }
}

#[derive(Debug)]
pub(super) struct Encoder {
    k: u16,
    symbol_bytes: usize,
    source: Arc<[u8]>,
    transmission: ObjectTransmissionInformation,
    /// Made for the first symbol that is none of the source.
    repair: Option<SourceBlockEncoder>,
}

impl Encoder {
    pub(super) fn new(source: Arc<[u8]>, symbol_bytes: usize, k: u16) -> Result<Self, Error> {
        let transmission = transmission(k, symbol_bytes)?;
        let room = usize::from(k) * symbol_bytes;
        if source.len() > room {
            return Err(codec::Error::SourceBytes { bytes: source.len(), room }.into());
        }
        Ok(Encoder { k, symbol_bytes, source, transmission, repair: None })
    }

    pub(super) fn encode(&mut self, index: u32, out: &mut [u8]) -> Result<(), Error> {
        check(self.k, index, out.len(), self.symbol_bytes)?;
        let Some(repair_index) = index.checked_sub(self.k.into()) else {
            let rest = self.source.get(index as usize * self.symbol_bytes..).unwrap_or_default();
            let some = &rest[..rest.len().min(out.len())];
            out[..some.len()].copy_from_slice(some);
            out[some.len()..].fill(0);
            return Ok(());
        };
        let repair = self.repair.get_or_insert_with(|| {
            let mut whole = self.source.to_vec();
            whole.resize(usize::from(self.k) * self.symbol_bytes, 0);
            SourceBlockEncoder::new(0, &self.transmission, &whole)
        });
        for packet in repair.repair_packets(repair_index, 1) {
            out.copy_from_slice(packet.data());
        }
        Ok(())
    }
}

/// It holds the symbols that came, at most k + 15, and then the block in their place.
#[derive(Debug)]
pub(super) struct Decoder {
    k: u16,
    symbol_bytes: usize,
    transmission: ObjectTransmissionInformation,
    /// One bit for every index there is: those that came.
    seen: Vec<u64>,
    indices: Vec<u32>,
    /// Of the symbols that came, one after the other; of the block, once it is complete.
    bytes: Vec<u8>,
    complete: bool,
    /// So many symbols beyond k come before the next attempt to decode.
    more: u32,
}

impl Decoder {
    pub(super) fn new(symbol_bytes: usize, k: u16) -> Result<Self, Error> {
        Ok(Decoder {
            k,
            symbol_bytes,
            transmission: transmission(k, symbol_bytes)?,
            seen: vec![0; max_symbols(k).div_ceil(64) as usize],
            indices: Vec::new(),
            bytes: Vec::new(),
            complete: false,
            more: 0,
        })
    }

    pub(super) fn push(&mut self, index: u32, payload: &[u8]) -> Result<Progress, Error> {
        check(self.k, index, payload.len(), self.symbol_bytes)?;
        let (word, bit) = (index as usize / 64, 1 << (index % 64));
        if self.complete || self.seen[word] & bit != 0 {
            return Ok(Progress::Duplicate);
        }
        if self.more > MOST_MORE {
            return Err(Error::RaptorQDeficient);
        }
        self.seen[word] |= bit;
        self.indices.push(index);
        self.bytes.extend_from_slice(payload);
        let (received, enough) = (self.indices.len() as u32, u32::from(self.k) + self.more);
        if received < enough {
            return Ok(Progress::Needs(enough - received));
        }
        if let Some(block) = self.decode() {
            (self.bytes, self.complete) = (block, true);
            return Ok(Progress::Complete);
        }
        // Each attempt begins anew, so the next ones come after 1, 2, 4 and 8 symbols.
        let further = self.more + 1;
        self.more += further;
        if self.more > MOST_MORE { Err(Error::RaptorQDeficient) } else { Ok(Progress::Needs(further)) }
    }

    fn decode(&self) -> Option<Vec<u8>> {
        let mut decoder = SourceBlockDecoder::new(0, &self.transmission, self.transmission.transfer_length());
        let symbols = self.indices.iter().zip(self.bytes.chunks_exact(self.symbol_bytes));
        decoder.decode(
            symbols.map(|(index, payload)| EncodingPacket::new(PayloadId::new(0, *index), payload.to_vec())),
        )
    }

    pub(super) fn source(&self) -> Option<&[u8]> {
        self.complete.then_some(&self.bytes)
    }

    pub(super) fn symbol_bytes(&self) -> usize {
        self.symbol_bytes
    }

    /// Begins another block of symbols of the same size in the same memory, if that suffices.
    pub(super) fn reset(&mut self, k: u16) -> Result<(), Error> {
        (self.k, self.transmission) = (k, transmission(k, self.symbol_bytes)?);
        self.seen.clear();
        self.seen.resize(max_symbols(k).div_ceil(64) as usize, 0);
        self.indices.clear();
        self.bytes.clear();
        (self.complete, self.more) = (false, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symbols in which one of the source's has no part.
    fn without(one: usize, k: u16) -> Vec<u32> {
        let mut source = vec![0; 16 * usize::from(k)];
        source[16 * one] = 1;
        let mut encoder = Encoder::new(source.into(), 16, k).unwrap();
        let mut symbol = [0; 16];
        let has_none = |index: &u32| {
            encoder.encode(*index, &mut symbol).unwrap();
            symbol == [0; 16]
        };
        (0..max_symbols(k)).filter(has_none).collect()
    }

    #[test]
    fn who_sends_symbols_that_never_suffice_has_few_attempts() {
        let k = MOST_RAPTORQ_SYMBOLS;
        let most = usize::from(k) + MOST_MORE as usize;
        let useless = (0..20).map(|one| without(one, k)).find(|useless| useless.len() >= most);
        let mut decoder = Decoder::new(16, k).unwrap();
        let mut said: Vec<_> = useless.unwrap().iter().map(|index| decoder.push(*index, &[0; 16])).collect();
        let after: Vec<_> = said.drain(usize::from(k) - 1..).take(MOST_MORE as usize + 1).collect();
        let needs = |n| Ok(Progress::Needs(n));
        assert!(said.into_iter().zip((1..k).rev()).all(|(said, left)| said == needs(left.into())));
        assert_eq!(after[..4], [needs(1), needs(2), needs(1), needs(4)]);
        assert_eq!(after.last(), Some(&Err(Error::RaptorQDeficient)));
        assert!(after[..MOST_MORE as usize].iter().all(Result::is_ok));
        assert_eq!(decoder.push(max_symbols(k) - 1, &[0; 16]), Err(Error::RaptorQDeficient));
    }

    #[test]
    fn blocks_are_bounded() {
        assert_eq!(checked(MOST_RAPTORQ_SYMBOLS), Ok(2048));
        assert_eq!(checked(2049), Err(Error::RaptorQSymbols(2049)));
    }
}
