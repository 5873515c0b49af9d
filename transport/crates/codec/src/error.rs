//! What can be wrong with what a caller, or through it a peer, asks for.

use crate::solver::{MAX_COLUMNS, MAX_ROW};
use crate::{MAX_SOURCE_SYMBOLS, MAX_SYMBOL_BYTES, Soliton};

/// A request outside the limits of the codec. Every limit is checked before memory is taken.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The number of source symbols of a block.
    #[error("a block has 1 to {MAX_SOURCE_SYMBOLS} source symbols, not {0}")]
    SourceSymbols(u16),
    /// The size of a symbol.
    #[error("a symbol has 1 to {MAX_SYMBOL_BYTES} bytes, not {0}")]
    SymbolBytes(usize),
    /// The source does not fit its block.
    #[error("{bytes} bytes of source do not fit a block of {room} bytes")]
    SourceBytes {
        /// Bytes of the source.
        bytes: usize,
        /// Bytes of the block: symbols times their size.
        room: usize,
    },
    /// A payload, or the room for one, that is not one symbol long.
    #[error("a payload of {bytes} bytes where symbols have {expected}")]
    PayloadBytes {
        /// Bytes given.
        bytes: usize,
        /// Bytes of a symbol.
        expected: usize,
    },
    /// The index of a coded symbol beyond the last of its block.
    #[error("coded symbol {index} of a block whose last is {last}")]
    Index {
        /// The index given.
        index: u32,
        /// The greatest index there is.
        last: u32,
    },
    /// Parameters of the robust soliton distribution.
    #[error("the robust soliton distribution wants c > 0 and 0 < delta <= 1, not c = {c}, delta = {delta}")]
    Distribution {
        /// The factor c of Eq. 3.
        c: f64,
        /// The failure probability delta of Eq. 3.
        delta: f64,
    },
    /// Parameters of a code's degrees that are not to be had: see [`crate::Soliton`].
    #[error("of the robust soliton distribution c is {} to {} and delta {} to {}, not c = {c}, delta = {delta}",
        Soliton::C.start(), Soliton::C.end(), Soliton::DELTA.start(), Soliton::DELTA.end())]
    Soliton {
        /// The factor c of Eq. 3.
        c: f64,
        /// The failure probability delta of Eq. 3.
        delta: f64,
    },
    /// A probability of loss.
    #[error("symbols are lost with a probability of at least 0 and below 1, not {0}")]
    Loss(f64),
    /// Rows of which fewer columns can be peeled than of rows that come by chance, so that it takes far longer to solve them.
    #[error("rows chosen so that a system of {0} columns is hard to solve")]
    Inactive(usize),
    /// The number of columns of a system of equations.
    #[error("a system has 1 to {MAX_COLUMNS} columns, not {0}")]
    Columns(usize),
    /// A row that is too long.
    #[error("a row has at most {MAX_ROW} columns, not {0}")]
    RowColumns(usize),
    /// A row with a column that the system does not have.
    #[error("column {column} in a system of {columns}")]
    Column {
        /// The column given.
        column: u16,
        /// Columns of the system.
        columns: usize,
    },
}
