//! The solver under all codes: rows of columns with payloads in, values of the columns out.
//!
//! A row says that the XOR of the values of its columns is its payload. LT rows come from [`crate::Rows`]; the
//! constraints of a pre-code are rows with a payload of zeros over columns beyond the source symbols; a parity
//! symbol is a row over the symbols it protects. It never moves a payload before the system is solvable, but for
//! the one copy on arrival.
//!
//! How it solves. Rows are collected until there are as many as columns, for fewer never suffice. Then, on the
//! rows alone, it *peels*: a row with one unknown column yields that column, which may leave other rows with one.
//! Where that stops, a column is made *inactive*: counted as known, its value to be found later. In the end each
//! column is a row's payload plus others that were peeled before it, plus a set of the few inactive columns. The
//! rows that peeled nothing are equations over the inactive columns alone. If those do not suffice, a row that
//! comes later costs no more than its reduction to such an equation. When they do, the payloads move.

mod dense;
mod peeling;
mod rows;
mod system;
mod tables;
mod values;

use crate::arena::{Arena, LINE_BYTES};
use crate::xor::Kernel;
use crate::{Error, MAX_SYMBOL_BYTES};

pub(crate) use system::System;
use system::Taken;
use values::Layout;

/// Most columns of a system: those of a block and of a pre-code over it.
pub const MAX_COLUMNS: usize = 16_384;

/// Most columns of a row, repeated ones counted each time.
pub const MAX_ROW: usize = u16::MAX as usize;

/// What a symbol brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// At least so many more symbols are needed.
    Needs(u32),
    /// It came before and was not used.
    Duplicate,
    /// All is known.
    Complete,
}

/// A system of equations over symbols.
///
/// It holds at most as many payloads as there are columns: once there are as many rows, only a row that is
/// independent of the others is kept.
#[derive(Debug)]
pub struct Solver {
    system: System,
    layout: Layout,
    arena: Arena,
    /// Where in the arena the payload of a row lies, if it has one.
    payloads: Vec<Option<u32>>,
    /// Slots that nothing lies in.
    free: Vec<u32>,
    kernel: Kernel,
    solved: bool,
    reads: u64,
    scratch: values::Scratch,
}

impl Solver {
    /// A system of so many columns over symbols of so many bytes.
    ///
    /// # Errors
    /// Either outside the limits.
    pub fn new(columns: usize, symbol_bytes: usize) -> Result<Self, Error> {
        if columns == 0 || columns > MAX_COLUMNS {
            return Err(Error::Columns(columns));
        }
        if symbol_bytes == 0 || symbol_bytes > MAX_SYMBOL_BYTES {
            return Err(Error::SymbolBytes(symbol_bytes));
        }
        let layout = Layout::new(columns, symbol_bytes);
        Ok(Solver {
            system: System::new(columns),
            layout,
            arena: Arena::new(layout.bytes()),
            payloads: Vec::with_capacity(columns),
            free: layout.free_slots().collect(),
            kernel: Kernel::best(),
            solved: false,
            reads: 0,
            scratch: values::Scratch::default(),
        })
    }

    /// Takes a row. `None` is a payload of zeros. A column that is in the row twice cancels out.
    ///
    /// # Errors
    /// Too long a row; a column that the system does not have; a payload that is not one symbol long. Nothing changes then.
    pub fn push(&mut self, columns: &[u16], payload: Option<&[u8]>) -> Result<Progress, Error> {
        if columns.len() > MAX_ROW {
            return Err(Error::RowColumns(columns.len()));
        }
        let last = columns.iter().fold(0, |last, &column| last.max(column));
        if usize::from(last) >= self.layout.columns {
            return Err(Error::Column { column: last, columns: self.layout.columns });
        }
        if let Some(payload) = payload.filter(|payload| payload.len() != self.layout.symbol_bytes) {
            return Err(Error::PayloadBytes { bytes: payload.len(), expected: self.layout.symbol_bytes });
        }
        self.take(columns, payload)
    }

    /// [`Solver::push`] of what is known to be right. It fails, with [`Error::Inactive`], from the row on with which
    /// [`Solver::limit_inactive`] was passed.
    #[inline]
    pub(crate) fn take(&mut self, columns: &[u16], payload: Option<&[u8]>) -> Result<Progress, Error> {
        if self.solved {
            return Ok(Progress::Complete);
        }
        let taken = self.system.push(columns);
        if taken == Taken::GivenUp {
            return Err(Error::Inactive(self.layout.columns));
        }
        if taken != Taken::Dropped {
            let place = payload.map(|payload| self.store(payload));
            self.payloads.push(place);
        }
        if taken == Taken::Last {
            self.release_redundant();
        }
        match self.system.needs() {
            0 => {
                self.solve();
                Ok(Progress::Complete)
            }
            missing => Ok(Progress::Needs(missing)),
        }
    }

    /// How many more rows are needed at least; 0 when all is known.
    pub fn needs(&self) -> u32 {
        self.system.needs()
    }

    /// The values of all columns, one after the other, once all are known.
    pub fn values(&self) -> Option<&[u8]> {
        self.solved.then(|| &self.arena[..self.layout.values_bytes()])
    }

    /// The values of all columns, one after the other, if all are known.
    pub fn into_values(self) -> Option<Vec<u8>> {
        self.solved.then(|| self.arena.into_front(self.layout.values_bytes()))
    }

    /// Forgets all rows and begins a system of so many columns over symbols of the same size, in the same memory
    /// if that suffices. A number of columns outside the limits is brought to the nearest within.
    pub fn reset(&mut self, columns: usize) {
        let columns = columns.clamp(1, MAX_COLUMNS);
        self.layout = Layout::new(columns, self.layout.symbol_bytes);
        if self.arena.len() < self.layout.bytes() {
            self.arena = Arena::new(self.layout.bytes());
        }
        self.system.reset(columns);
        self.payloads.clear();
        self.free.clear();
        self.free.extend(self.layout.free_slots());
        self.solved = false;
    }

    /// Until the next reset, gives up a system in which more columns than these cannot be peeled: the work to solve it
    /// grows with their square.
    pub(crate) fn limit_inactive(&mut self, most: usize) {
        self.system.limit_inactive(most);
    }

    /// Columns of the system.
    pub fn columns(&self) -> usize {
        self.layout.columns
    }

    /// Bytes of a symbol.
    pub fn symbol_bytes(&self) -> usize {
        self.layout.symbol_bytes
    }

    /// Columns that could not be peeled; 0 until there are as many rows as columns.
    pub fn inactive_columns(&self) -> usize {
        self.system.inactive().len()
    }

    /// How many symbols were read to find the values, each of which costs as much as an XOR: the work that was done.
    pub fn symbols_read(&self) -> u64 {
        self.reads
    }

    /// The most memory for symbols that such a system takes, in bytes.
    pub fn memory_bytes(columns: usize, symbol_bytes: usize) -> usize {
        Layout::new(columns, symbol_bytes).bytes() + LINE_BYTES
    }

    fn store(&mut self, payload: &[u8]) -> u32 {
        // A payload is kept only while the rows kept are fewer than the columns, so a slot is free.
        let slot = self.free.pop().expect("a slot for every column");
        let place = self.layout.slot(slot);
        self.arena[place as usize..][..payload.len()].copy_from_slice(payload);
        place
    }

    fn release_redundant(&mut self) {
        for &row in self.system.redundant() {
            let place = self.payloads[usize::from(row)].take();
            self.free.extend(place.map(|place| self.layout.slot_at(place)));
        }
    }

    #[inline(never)]
    fn solve(&mut self) {
        let mut data = values::Data {
            layout: self.layout,
            arena: &mut self.arena,
            payloads: &self.payloads,
            free: &mut self.free,
            kernel: self.kernel,
            reads: 0,
        };
        data.solve(&mut self.system, &mut self.scratch);
        self.reads = data.reads;
        self.solved = true;
    }
}
