//! A block from its coded symbols.

use crate::rows::max_symbols;
use crate::solver::{Progress, Solver};
use crate::{Error, Rows};

/// Takes coded symbols in any order, with any of them lost or repeated, until the block is there.
///
/// It holds at most as many payloads as there are columns, whatever arrives: see [`Solver`]. Nor does it take long, whatever
/// arrives: symbols that a sender has chosen from the longest rows of a block of 8,192 would take 40 times as long to decode
/// as those that come by chance, and are refused.
#[derive(Debug)]
pub struct Decoder {
    rows: Rows,
    solver: Solver,
    /// One bit for every index there is: those that came.
    seen: Vec<u64>,
}

impl Decoder {
    /// A decoder of one block.
    ///
    /// # Errors
    /// `symbol_bytes` outside the codec's limits.
    pub fn new(symbol_bytes: usize, rows: Rows) -> Result<Self, Error> {
        let mut solver = Solver::new(rows.columns().into(), symbol_bytes)?;
        begin(&mut solver, &rows);
        let seen = vec![0; bitmap_words(&rows)];
        Ok(Decoder { rows, solver, seen })
    }

    /// Takes the coded symbol `index`.
    ///
    /// # Errors
    /// An index beyond the last of the block; a payload that is not one symbol long. Nothing changes then.
    /// [`Error::Inactive`]: the symbols were chosen, and nothing comes of this block any more.
    pub fn push(&mut self, index: u32, payload: &[u8]) -> Result<Progress, Error> {
        let row = self.rows.checked(index)?;
        let expected = self.solver.symbol_bytes();
        if payload.len() != expected {
            return Err(Error::PayloadBytes { bytes: payload.len(), expected });
        }
        let (word, bit) = (index as usize / 64, 1 << (index % 64));
        if self.seen[word] & bit != 0 {
            return Ok(Progress::Duplicate);
        }
        self.seen[word] |= bit;
        self.solver.take(row, Some(payload))
    }

    /// How many more symbols are needed at least; 0 when the block is complete.
    pub fn needs(&self) -> u32 {
        self.solver.needs()
    }

    /// The block, `k * symbol_bytes` bytes, once it is complete.
    pub fn source(&self) -> Option<&[u8]> {
        self.solver.values().map(|values| &values[..self.source_bytes()])
    }

    /// The block, `k * symbol_bytes` bytes, if it is complete.
    pub fn into_source(self) -> Option<Vec<u8>> {
        let bytes = self.source_bytes();
        self.solver.into_values().map(|mut values| {
            values.truncate(bytes);
            values
        })
    }

    fn source_bytes(&self) -> usize {
        usize::from(self.rows.k()) * self.solver.symbol_bytes()
    }

    /// Begins another block of symbols of the same size in the same memory, if that suffices.
    pub fn reset(&mut self, rows: Rows) {
        self.solver.reset(rows.columns().into());
        begin(&mut self.solver, &rows);
        self.seen.clear();
        self.seen.resize(bitmap_words(&rows), 0);
        self.rows = rows;
    }

    /// Bytes of a symbol.
    pub fn symbol_bytes(&self) -> usize {
        self.solver.symbol_bytes()
    }

    /// The rows of the block.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Source symbols that could not be peeled; 0 until k symbols arrived.
    pub fn inactive_columns(&self) -> usize {
        self.solver.inactive_columns()
    }

    /// How many symbols were read to restore the block: the work that was done.
    pub fn symbols_read(&self) -> u64 {
        self.solver.symbols_read()
    }

    /// The most memory that a decoder of such a block takes, in bytes. Pages are taken as symbols arrive.
    pub fn memory_bytes(rows: &Rows, symbol_bytes: usize) -> usize {
        Solver::memory_bytes(rows.columns().into(), symbol_bytes) + max_symbols(rows.k()) as usize / 8
    }
}

/// What is known of a block before any symbol of it has come.
fn begin(solver: &mut Solver, rows: &Rows) {
    solver.limit_inactive(most_inactive(rows.columns().into()));
    for constraint in rows.constraints() {
        // These are too few to solve anything, and all right.
        let _ = solver.take(constraint, None);
    }
}

/// Where symbols came by chance there were never more than 50 inactive columns in blocks of 256, 142 of 1,024, or 807 of
/// 8,192, in 10,000, 2,000 and 100 blocks of each code.
const fn most_inactive(columns: usize) -> usize {
    columns / 6 + 64
}

fn bitmap_words(rows: &Rows) -> usize {
    rows.max_symbols().div_ceil(64) as usize
}
