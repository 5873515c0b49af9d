//! What is sent: an object, how it is cut into blocks and blocks into symbols, and the code of these.

use std::sync::Arc;

use codec::solver::Solver;
use wire::control::{Code, Version};

use crate::Budget;
use crate::coding::{Blocks, Decoder, Encoder, Error, Method, Prepared, good_seed, remembers_good_seed};
use crate::spares::Spares;

/// What a driver knows of an object that it has opened.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    /// Its length in bytes.
    pub size: u64,
    /// Tells its content from any other the path may have had.
    pub version: Version,
    /// When it was changed, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its permission bits.
    pub mode: u32,
}

/// A symbol that is of use.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// The request.
    pub request: u16,
    /// The block.
    pub block: u32,
    /// The symbol.
    pub index: u16,
    /// There are as many symbols of the block by now as it has: it may be possible to decode it.
    pub enough: bool,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// Symbols that a block may have (the paper's k).
pub const BLOCK_SYMBOLS: std::ops::RangeInclusive<u16> = 1..=8192;
/// Bytes that a symbol may have: up to a jumbo frame.
pub const SYMBOL_BYTES: std::ops::RangeInclusive<u16> = 16..=8960;
/// Bytes that a block may have.
pub const MAX_BLOCK_BYTES: usize = 8 << 20;
/// Blocks that an object may have: a bit or a byte for each is kept in memory.
pub const MAX_BLOCKS: u64 = 1 << 24;

/// What a decoder has for each column beside the symbols, and k / 16 bytes: rows with the neighbours of a Raptor or LT
/// code, tables of the peeling, equations over the columns that cannot be peeled (a sixth of them, at most).
const COLUMN_BYTES: usize = 192;
/// What a block costs beside its symbols.
const BLOCK_BYTES: usize = 1024;
/// What a code has for each symbol of a block: degrees, pre-code, places of rows; and then its rows, of up to four
/// times as many symbols.
const CODE_BYTES: usize = 80;
const ROWS_BYTES: usize = 136;

/// The most columns of k source symbols and the pre-code over them: R10's of a Raptor code (RFC 5053, section 5.4.2.3),
/// RaptorQ's (RFC 6330, section 5.3.3.3).
fn columns(code: Code, k: usize) -> usize {
    match code {
        Code::Independent | Code::Dealt | Code::Tuned(_) => k,
        Code::Raptor => k + (2 * k).isqrt() + k / 64 + 16,
        Code::RaptorQ => k + k / 16 + 32,
    }
}

/// Shorter symbols are of no use: every path carries them (RFC 8200, section 5, less headers of tunnels).
pub const LEAST_FITTED_BYTES: u16 = 256;

/// How blocks of the same length as those of `block_symbols` symbols of `symbol_bytes` are cut, into symbols and how many of them: what
/// has come of an object over another path counts for all of these. The longest symbols come first.
pub fn cuts(symbol_bytes: u16, block_symbols: u16) -> impl Iterator<Item = (u16, u16)> {
    let block_bytes = u32::from(symbol_bytes) * u32::from(block_symbols);
    let shorter = (LEAST_FITTED_BYTES..symbol_bytes).rev().filter(|bytes| bytes % 16 == 0);
    std::iter::once(symbol_bytes).chain(shorter).filter_map(move |bytes| {
        let symbols = u16::try_from(block_bytes / u32::from(bytes.max(1))).ok()?;
        let whole = u32::from(symbols) * u32::from(bytes) == block_bytes;
        (whole && BLOCK_SYMBOLS.contains(&symbols) && SYMBOL_BYTES.contains(&bytes))
            .then_some((bytes, symbols))
    })
}

/// Cuts an object of `size` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    size: u64,
    symbol_bytes: u16,
    block_symbols: u16,
}

impl Layout {
    /// An object of `size` bytes, or `None` if a parameter is out of bounds, or the object has more than
    /// [`MAX_BLOCKS`] blocks.
    pub fn new(symbol_bytes: u16, block_symbols: u16, size: u64) -> Option<Layout> {
        let layout = Layout { size, symbol_bytes, block_symbols };
        let fits = SYMBOL_BYTES.contains(&symbol_bytes)
            && BLOCK_SYMBOLS.contains(&block_symbols)
            && layout.whole_block_bytes() <= MAX_BLOCK_BYTES as u64
            && size.div_ceil(layout.whole_block_bytes()) <= MAX_BLOCKS;
        fits.then_some(layout)
    }

    /// Bytes of the object.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of a symbol.
    pub fn symbol_bytes(&self) -> usize {
        usize::from(self.symbol_bytes)
    }

    fn whole_block_bytes(&self) -> u64 {
        u64::from(self.symbol_bytes) * u64::from(self.block_symbols)
    }

    /// How many blocks there are; none in an empty object.
    pub fn blocks(&self) -> u32 {
        self.size.div_ceil(self.whole_block_bytes()) as u32
    }

    /// Where `block` begins in the object.
    pub fn offset(&self, block: u32) -> u64 {
        u64::from(block) * self.whole_block_bytes()
    }

    /// Bytes of `block`.
    pub fn block_bytes(&self, block: u32) -> usize {
        self.whole_block_bytes().min(self.size.saturating_sub(self.offset(block))) as usize
    }

    /// Symbols of `block`: k.
    pub fn k(&self, block: u32) -> u16 {
        self.block_bytes(block).div_ceil(self.symbol_bytes()) as u16
    }

    /// The most memory that decoding `block` takes, in bytes.
    pub fn decoder_bytes(&self, code: Code, block: u32) -> usize {
        let k = usize::from(self.k(block));
        let columns = columns(code, k);
        Solver::memory_bytes(columns, self.symbol_bytes()) + columns * (COLUMN_BYTES + k / 16) + BLOCK_BYTES
    }

    /// The most memory that encoding `block` takes, in bytes.
    pub fn encoder_bytes(&self, code: Code, block: u32) -> usize {
        // A third of what the solver has is for the values of its columns.
        let columns = columns(code, self.k(block).into());
        Solver::memory_bytes(columns, self.symbol_bytes()) / 3 + BLOCK_BYTES
    }

    /// The most memory that an object's codes take, in bytes, before a block is begun.
    pub fn code_bytes(&self) -> usize {
        CODE_BYTES * self.code_symbols()
    }

    /// The most memory that they take beside that once a block is begun.
    pub fn rows_bytes(&self) -> usize {
        ROWS_BYTES * self.code_symbols()
    }

    fn code_symbols(&self) -> usize {
        usize::from(self.whole_k()) + usize::from(self.last_k().unwrap_or(0))
    }

    /// k of every block but the last.
    pub fn whole_k(&self) -> u16 {
        self.block_symbols
    }

    /// k of the last block if it is another.
    pub fn last_k(&self) -> Option<u16> {
        let last = self.k(self.blocks().checked_sub(1)?);
        (last != self.block_symbols).then_some(last)
    }
}

/// The most symbols of a block that a server sends: a client that has not decoded by then never will
/// (of a block without loss k suffice, of one that loses half 2k).
pub fn symbol_cap(k: u16) -> u16 {
    k.saturating_mul(4).saturating_add(64)
}

/// An object's layout, and the code of its blocks.
#[derive(Clone, Debug)]
pub struct Cut {
    layout: Layout,
    whole: Blocks,
    last: Option<Blocks>,
    method: Method,
    spares: Spares,
}

impl Cut {
    /// The code, with the seeds that [`Cut::choose`] has found at the sending end.
    ///
    /// # Errors
    /// k outside the codec's limits, which no layout has; parameters c and delta out of bounds; RaptorQ in a program without
    /// it.
    pub fn new(layout: Layout, code: Code, seed: u64, last_seed: u64) -> Result<Self, Error> {
        let whole = Blocks::new(code, layout.whole_k(), seed)?;
        let last = layout.last_k().map(|k| Blocks::new(code, k, last_seed)).transpose()?;
        Ok(Cut { layout, whole, last, method: Method::default(), spares: Spares::default() })
    }

    /// The same, decoded by this method.
    #[must_use]
    pub fn decoded_by(self, method: Method) -> Self {
        Cut { method, ..self }
    }

    /// The same, whose memory for blocks to come is held of this budget.
    pub(crate) fn with_spares_of(self, budget: &Budget) -> Self {
        Cut { spares: Spares::of(budget), ..self }
    }

    /// A code with good seeds, searched from `start` on; returns those of the whole blocks and of the last one as well.
    ///
    /// # Errors
    /// As [`Cut::new`].
    pub fn choose(layout: Layout, code: Code, start: u64) -> Result<(Self, u64, u64), Error> {
        let choose = |k| good_seed(code, k, start);
        let (seed, last_seed) = (choose(layout.whole_k()), layout.last_k().map_or(0, choose));
        Ok((Cut::new(layout, code, seed, last_seed)?, seed, last_seed))
    }

    /// Whether [`Cut::choose`] has been asked this before, and takes no time.
    pub fn is_chosen(layout: Layout, code: Code, start: u64) -> bool {
        let remembers = |k| remembers_good_seed(code, k, start);
        remembers(layout.whole_k()) && layout.last_k().is_none_or(remembers)
    }

    /// How the object is cut.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What makes the symbols of `block`, which is `source`.
    ///
    /// # Errors
    /// More bytes than the block has.
    pub fn encoder(&self, block: u32, source: Arc<[u8]>) -> Result<Encoder, Error> {
        self.code(block).encoder(source, self.layout.symbol_bytes())
    }

    /// Prepares `block`, which is `source`.
    ///
    /// # Errors
    /// `source` is not as long as the block, for a person.
    pub(crate) fn prepare_copy(&self, block: u32, source: &[u8]) -> Result<Prepared, String> {
        if source.len() != self.layout.block_bytes(block) {
            return Err(format!("block {block} has {} bytes now", source.len()));
        }
        let copy = |bytes: &mut [u8]| {
            bytes.copy_from_slice(source);
            Ok(())
        };
        self.prepare::<Error>(block, copy).map_err(|e| e.to_string())
    }

    /// Prepares `block`, whose bytes `read` writes to where they are encoded from. That takes as long as reading and hashing
    /// them: threads of their own may do it.
    ///
    /// # Errors
    /// What `read` returns.
    pub fn prepare<E: From<Error>>(
        &self,
        block: u32,
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Prepared, E> {
        let (bytes, symbol_bytes) = (self.layout.block_bytes(block), self.layout.symbol_bytes());
        self.code(block).prepare(bytes, symbol_bytes, &self.spares, read)
    }

    /// What restores `block` from symbols, or from as many bytes of each as `symbol_bytes`; made of `spare` if it fits.
    ///
    /// # Errors
    /// `symbol_bytes` outside the codec's limits; a code that the method does not decode.
    pub fn decoder(&self, block: u32, symbol_bytes: usize, spare: Option<Decoder>) -> Result<Decoder, Error> {
        self.code(block).decoder(symbol_bytes, self.method, spare)
    }

    fn code(&self, block: u32) -> &Blocks {
        let last = block + 1 == self.layout.blocks();
        self.last.as_ref().filter(|_| last).unwrap_or(&self.whole)
    }
}

#[cfg(test)]
mod tests {
    use codec::Draw;

    use super::*;

    #[test]
    fn what_a_block_takes_is_counted_whatever_the_code_and_the_symbols() {
        for k in (1..100).chain([128, 256, 500, 512, 1_024, 2_048, 4_095, 8_192]) {
            for symbol_bytes in [16, 33, 64, 65, 1_000] {
                let layout = Layout::new(symbol_bytes, k, u64::from(k) * u64::from(symbol_bytes)).unwrap();
                for (code, draw) in [(Code::Independent, Draw::Independent), (Code::Raptor, Draw::Raptor)] {
                    let rows = codec::Rows::new(k, draw, 1).unwrap();
                    let decoder = codec::Decoder::memory_bytes(&rows, symbol_bytes.into());
                    assert!(layout.decoder_bytes(code, 0) >= decoder, "{k} {symbol_bytes} {code:?}");
                    let encoder = usize::from(rows.columns()) * usize::from(symbol_bytes);
                    assert!(layout.encoder_bytes(code, 0) >= encoder, "{k} {symbol_bytes} {code:?}");
                }
            }
        }
    }
}
