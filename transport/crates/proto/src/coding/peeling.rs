//! Algorithm 2 of the LTTP paper as a decoder of symbols from a peer.

use codec::paper::ImprovedDecoder;
use codec::{Error, Progress, Rows};

/// Takes every index once, and so never holds more than the symbols that a block may have.
#[derive(Debug)]
pub(super) struct Decoder {
    peeling: ImprovedDecoder,
    /// One bit for every index there is: those that came.
    seen: Vec<u64>,
    received: u32,
}

impl Decoder {
    pub(super) fn new(symbol_bytes: usize, rows: Rows) -> Result<Self, Error> {
        let seen = vec![0; rows.max_symbols().div_ceil(64) as usize];
        Ok(Decoder { peeling: ImprovedDecoder::new(symbol_bytes, rows)?, seen, received: 0 })
    }

    pub(super) fn push(&mut self, index: u32, payload: &[u8]) -> Result<Progress, Error> {
        let (word, bit) = (index as usize / 64, 1 << (index % 64));
        if self.seen.get(word).is_some_and(|seen| seen & bit != 0) && payload.len() == self.symbol_bytes() {
            return Ok(Progress::Duplicate);
        }
        let progress = self.peeling.push(index, payload)?;
        self.seen[word] |= bit;
        self.received += 1;
        Ok(match progress {
            Progress::Needs(_) => Progress::Needs(self.needs()),
            progress => progress,
        })
    }

    /// How many more symbols to ask for. Nobody knows how many it takes; to ask for one at a time would take a round trip
    /// for each. A quarter of what is not restored yet is seldom too much: most of it comes with the last few symbols.
    fn needs(&self) -> u32 {
        let k = u32::from(self.peeling.rows().k());
        let unrestored = k.saturating_sub(self.peeling.restored() as u32);
        unrestored.div_ceil(4).max(k.saturating_sub(self.received)).max(1)
    }

    pub(super) fn source(&self) -> Option<&[u8]> {
        self.peeling.source()
    }

    pub(super) fn symbol_bytes(&self) -> usize {
        self.peeling.symbol_bytes()
    }
}
