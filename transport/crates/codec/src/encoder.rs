//! Coded symbols of one block.

use std::sync::Arc;

use crate::arena::Arena;
use crate::xor::Kernel;
use crate::{Error, MAX_SYMBOL_BYTES, Rows};

/// Makes any coded symbol of a block in any order.
///
/// Symbols of the source lie on cache lines: [`Encoder::new`] copies them there, which pays before the block is encoded once.
#[derive(Debug)]
pub struct Encoder {
    symbols: Arena,
    symbol_bytes: usize,
    stride: usize,
    rows: Rows,
    offsets: Vec<u32>,
    kernel: Kernel,
}

impl Encoder {
    /// An encoder of `source`, which counts as followed by zeros up to `k * symbol_bytes` bytes.
    ///
    /// # Errors
    /// `symbol_bytes` outside the codec's limits; a source longer than the block.
    pub fn new(source: Arc<[u8]>, symbol_bytes: usize, rows: Rows) -> Result<Self, Error> {
        let stride = Encoder::checked_stride(source.len(), symbol_bytes, &rows)?;
        let symbols = Arena::of_source(&source, (symbol_bytes, stride, rows.columns().into()));
        Ok(Encoder::of(symbols, symbol_bytes, stride, rows))
    }

    /// An encoder of a source of `source_bytes` that `read` writes to where it is encoded from, which is made of `memory`.
    ///
    /// # Errors
    /// As [`Encoder::new`], and what `read` returns.
    pub fn read<E: From<Error>>(
        source_bytes: usize,
        symbol_bytes: usize,
        rows: Rows,
        memory: Vec<u8>,
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let stride = Encoder::checked_stride(source_bytes, symbol_bytes, &rows)?;
        let shape = (symbol_bytes, stride, rows.columns().into());
        let symbols = Arena::of_symbols(memory, shape, source_bytes, read)?;
        Ok(Encoder::of(symbols, symbol_bytes, stride, rows))
    }

    /// How many bytes apart the symbols lie.
    ///
    /// # Errors
    /// As [`Encoder::new`].
    fn checked_stride(source_bytes: usize, symbol_bytes: usize, rows: &Rows) -> Result<usize, Error> {
        if symbol_bytes == 0 || symbol_bytes > MAX_SYMBOL_BYTES {
            return Err(Error::SymbolBytes(symbol_bytes));
        }
        let room = usize::from(rows.k()) * symbol_bytes;
        if source_bytes > room {
            return Err(Error::SourceBytes { bytes: source_bytes, room });
        }
        Ok(Arena::stride(symbol_bytes))
    }

    /// An encoder of a block whose source symbols are in place. It makes the symbols of the pre-code.
    fn of(symbols: Arena, symbol_bytes: usize, stride: usize, rows: Rows) -> Self {
        let mut encoder =
            Encoder { symbols, symbol_bytes, stride, rows, offsets: Vec::new(), kernel: Kernel::best() };
        encoder.precode();
        encoder
    }

    /// Its memory, for another one.
    pub fn into_memory(self) -> Vec<u8> {
        self.symbols.into_memory()
    }

    /// Makes the symbols of the pre-code, each of those before it.
    fn precode(&mut self) {
        let Encoder { symbols, symbol_bytes, stride, rows, offsets, kernel } = self;
        for constraint in rows.constraints() {
            let Some((own, before)) = constraint.split_last() else { continue };
            let place = |column: &u16| u32::from(*column) * *stride as u32;
            offsets.clear();
            offsets.extend(before.iter().map(place));
            kernel.gather_within(symbols, place(own), *symbol_bytes, offsets);
        }
    }

    /// Writes the coded symbol `index` to `out`, which is one symbol long.
    ///
    /// # Errors
    /// An index beyond the last of the block; `out` of another length.
    pub fn encode(&mut self, index: u32, out: &mut [u8]) -> Result<(), Error> {
        if out.len() != self.symbol_bytes {
            return Err(Error::PayloadBytes { bytes: out.len(), expected: self.symbol_bytes });
        }
        let row = self.rows.checked(index)?;
        self.offsets.clear();
        self.offsets.extend(row.iter().map(|&column| u32::from(column) * self.stride as u32));
        self.kernel.gather(out, &self.symbols, &self.offsets);
        Ok(())
    }

    /// The rows of the block.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Bytes of a symbol.
    pub fn symbol_bytes(&self) -> usize {
        self.symbol_bytes
    }
}
