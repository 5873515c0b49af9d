//! One block under way.

use crate::Held;
use crate::object::{Layout, symbol_cap};

/// What a block that lost symbols needs beyond k, in most cases (measured: the codec's overhead).
const LOSSY_SYMBOLS: u16 = 3;

/// A block under way.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) request: u16,
    pub(super) number: u32,
    pub(super) bytes: u64,
    k: u16,
    received: u16,
    /// A bit for each index that came.
    seen: Vec<u64>,
    /// One more than the highest index that came.
    top: u16,
    /// Symbols that will be enough, as far as that is known.
    pub(super) target: u16,
    _held: Held,
}

impl Block {
    /// A block of which nothing has come. `held`: what its decoder takes.
    pub(super) fn new(request: u16, number: u32, layout: &Layout, held: Held) -> Self {
        let (bytes, k) = (layout.block_bytes(number) as u64, layout.k(number));
        let seen = vec![0; usize::from(symbol_cap(k)).div_ceil(64)];
        Block { request, number, bytes, k, received: 0, seen, top: 0, target: k, _held: held }
    }

    /// Whether this symbol has come.
    pub(super) fn has(&self, index: u16) -> bool {
        self.seen[usize::from(index / 64)] & 1 << (index % 64) != 0
    }

    /// This symbol has come, for the first time.
    pub(super) fn add(&mut self, index: u16) {
        self.seen[usize::from(index / 64)] |= 1 << (index % 64);
        self.received += 1;
        self.top = self.top.max(index + 1);
    }

    /// Symbols that are still to come.
    pub(super) fn needs(&self) -> u16 {
        let lossy = if self.top > self.received { self.k.saturating_add(LOSSY_SYMBOLS) } else { self.k };
        self.target.max(lossy).saturating_sub(self.received)
    }
}
