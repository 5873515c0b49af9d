//! The symbolic half of the solver: which rows are independent, and how each column follows from them.

use super::dense::{Dense, add, by_words, width};
use super::peeling::Peeling;
use super::rows::SparseRows;

/// A system of rows without payloads. Rows that are kept are numbered in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct System {
    columns: usize,
    most_inactive: usize,
    rows: SparseRows,
    peeled: bool,
    /// There were more inactive columns than there may be.
    given_up: bool,
    peeling: Peeling,
    dense: Dense,
    /// Per column: the inactive columns it depends on, `words` words each.
    masks: Vec<u64>,
    words: usize,
    /// Rows that were collected and proved to depend on others.
    redundant: Vec<u16>,
    equation: Vec<u64>,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Kept.
    Kept,
    /// Kept, and now that there are as many rows as columns it is known which of them are redundant.
    Last,
    /// It depends on those that are kept.
    Dropped,
    /// It does not matter: too few columns can be peeled.
    GivenUp,
}

impl System {
    pub(crate) fn new(columns: usize) -> Self {
        let mut system = System::default();
        system.reset(columns);
        system
    }

    /// Begins anew, without a limit of inactive columns.
    pub(crate) fn reset(&mut self, columns: usize) {
        (self.columns, self.most_inactive) = (columns, columns);
        self.rows.clear();
        (self.peeled, self.given_up) = (false, false);
        self.peeling.clear();
        self.dense.reset(0);
        self.redundant.clear();
    }

    /// Gives up if more columns than these are inactive.
    pub(super) fn limit_inactive(&mut self, most: usize) {
        self.most_inactive = most;
    }

    /// Takes a row whose columns are all below the system's number of them.
    #[inline]
    pub(crate) fn push(&mut self, columns: &[u16]) -> Taken {
        if self.peeled {
            return if self.given_up { Taken::GivenUp } else { self.push_dense(columns) };
        }
        self.rows.push(columns);
        if self.rows.len() < self.columns {
            return Taken::Kept;
        }
        self.peel();
        if self.given_up { Taken::GivenUp } else { Taken::Last }
    }

    /// How many more rows are needed at least.
    #[inline]
    pub(crate) fn needs(&self) -> u32 {
        let missing = if self.peeled {
            self.peeling.inactive.len() - self.dense.rank()
        } else {
            self.columns - self.rows.len()
        };
        missing as u32
    }

    /// Of the rows collected, those that depend on others.
    pub(crate) fn redundant(&self) -> &[u16] {
        &self.redundant
    }

    /// Which row yields which column, in order.
    pub(super) fn order(&self) -> &[(u16, u16)] {
        &self.peeling.order
    }

    /// Columns that no row yields.
    pub(super) fn inactive(&self) -> &[u16] {
        &self.peeling.inactive
    }

    /// Rows that together give the inactive columns.
    pub(super) fn equations(&self) -> &[u16] {
        self.dense.accepted()
    }

    /// For each inactive column, which of [`System::equations`] it is the sum of, and the words per column.
    pub(super) fn solution(&mut self) -> (&[u64], usize) {
        self.dense.solution()
    }

    /// The columns of a row.
    #[inline]
    pub(super) fn row(&self, row: u16) -> &[u16] {
        self.rows.row(row)
    }

    /// Columns of the longest row.
    pub(super) fn longest_row(&self) -> usize {
        self.rows.longest()
    }

    /// The inactive columns that a column depends on.
    #[inline]
    pub(super) fn mask(&self, column: u16) -> &[u64] {
        &self.masks[usize::from(column) * self.words..][..self.words]
    }

    #[inline(never)]
    fn peel(&mut self) {
        self.peeled = true;
        self.given_up = !self.peeling.run(&self.rows, self.columns, self.most_inactive);
        if self.given_up {
            return;
        }
        self.words = self.peeling.inactive.len().div_ceil(64);
        self.dense.reset(self.peeling.inactive.len());
        if self.words > 1 {
            by_words!(self.words, self.trace_inactive());
        } else {
            std::mem::swap(&mut self.masks, &mut self.peeling.masks);
        }
        for spare in 0..self.peeling.spare.len() {
            let (row, mask) = self.peeling.spare[spare];
            let independent = if self.words > 1 {
                by_words!(self.words, self.reduce_to_equation(Columns::Of(row)));
                self.dense.push(row, &self.equation)
            } else {
                self.dense.push(row, &[mask][..self.words])
            };
            if !independent {
                self.redundant.push(row);
            }
        }
    }

    fn push_dense(&mut self, columns: &[u16]) -> Taken {
        by_words!(self.words, self.reduce_to_equation(Columns::These(columns)));
        let row = self.rows.len() as u16;
        if !self.dense.push(row, &self.equation) {
            return Taken::Dropped;
        }
        self.rows.push(columns);
        Taken::Kept
    }

    /// Fills the masks, in the order of peeling.
    fn trace_inactive<const W: usize>(&mut self) {
        let words = width::<W>(self.words);
        self.masks.clear();
        self.masks.resize(self.columns * words, 0);
        for (number, &column) in self.peeling.inactive.iter().enumerate() {
            self.masks[usize::from(column) * words + number / 64] |= 1 << (number % 64);
        }
        for order in 0..self.peeling.order.len() {
            let (row, column) = self.peeling.order[order];
            self.reduce_to_equation::<W>(Columns::Of(row));
            self.masks[usize::from(column) * words..][..words].copy_from_slice(&self.equation[..words]);
        }
    }

    /// The sum of the masks of a row's columns.
    #[inline]
    fn reduce_to_equation<const W: usize>(&mut self, columns: Columns) {
        let words = width::<W>(self.words);
        let columns = match columns {
            Columns::Of(row) => self.rows.row(row),
            Columns::These(columns) => columns,
        };
        let mask = |column: u16| &self.masks[usize::from(column) * words..][..words];
        if W == 0 {
            self.equation.clear();
            self.equation.resize(words, 0);
            columns.iter().for_each(|&column| add(&mut self.equation, mask(column)));
        } else {
            let mut sum = [0; W];
            columns.iter().for_each(|&column| add(&mut sum, mask(column)));
            self.equation.clear();
            self.equation.extend_from_slice(&sum);
        }
    }
}

/// Columns of a row that is kept, or of one that may not be.
enum Columns<'a> {
    Of(u16),
    These(&'a [u16]),
}
