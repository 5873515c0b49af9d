//! The half of the solver that moves payloads, once it is known that they suffice.
//!
//! 1. Each peeled column, in order, gets its row's payload plus the peeled columns of that row: its value if all
//!    inactive columns were zero.
//! 2. Each equation over inactive columns gets its right side in the same way.
//! 3. The inactive columns are sums of those right sides, found through tables of subsets.
//! 4. Each peeled column that depends on inactive ones is corrected: by adding the sum of these, again through
//!    tables, or, where its row is short, by adding up its row once more with the values that are right by now.

use crate::arena::Arena;
use crate::xor::Kernel;
use crate::{MAX_SYMBOL_BYTES, solver::MAX_COLUMNS};

use super::system::System;
use super::tables::Tables;

/// Where things lie in the arena: a slot for the value of each column; as many for payloads; some for tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) columns: usize,
    pub(super) symbol_bytes: usize,
    stride: usize,
}

/// A place in the arena is a number of 32 bits.
const _: () = assert!((3 * MAX_COLUMNS + 65) * (MAX_SYMBOL_BYTES + 1) < u32::MAX as usize);

impl Layout {
    pub(super) fn new(columns: usize, symbol_bytes: usize) -> Self {
        Layout { columns, symbol_bytes, stride: Arena::stride(symbol_bytes) }
    }

    /// Bytes of all values, once they lie close together.
    pub(super) fn values_bytes(&self) -> usize {
        self.columns * self.symbol_bytes
    }

    pub(super) fn bytes(&self) -> usize {
        self.table_slot(self.table_slots()) as usize
    }

    #[inline]
    pub(super) fn value(&self, column: u16) -> u32 {
        u32::from(column) * self.stride as u32
    }

    #[inline]
    pub(super) fn slot(&self, slot: u32) -> u32 {
        (self.columns as u32 + slot) * self.stride as u32
    }

    /// The slot that begins at a place.
    pub(super) fn slot_at(&self, place: u32) -> u32 {
        place / self.stride as u32 - self.columns as u32
    }

    /// All slots for payloads, the first last.
    pub(super) fn free_slots(&self) -> impl Iterator<Item = u32> + use<> {
        (0..self.columns as u32).rev()
    }

    #[inline]
    pub(super) fn table_slot(&self, slot: usize) -> u32 {
        ((2 * self.columns + slot) * self.stride) as u32
    }

    /// Groups of one symbol always fit.
    fn table_slots(&self) -> usize {
        self.columns + 64
    }
}

/// Lists that are kept for the next block.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Room for the longest list of sources there can be.
    sources: Vec<u32>,
    /// Columns that have a value, be it that of all inactive columns zero.
    valued: Vec<bool>,
    places: Vec<u32>,
}

/// The payloads of a system and where they lie.
pub(super) struct Data<'a> {
    pub(super) layout: Layout,
    pub(super) arena: &'a mut Arena,
    /// Where the payload of a row lies, if it has one.
    pub(super) payloads: &'a [Option<u32>],
    pub(super) free: &'a mut Vec<u32>,
    pub(super) kernel: Kernel,
    /// Symbols read so far.
    pub(super) reads: u64,
}

impl Data<'_> {
    /// Computes the values of all columns of a system of full rank.
    pub(super) fn solve(&mut self, system: &mut System, scratch: &mut Scratch) {
        scratch.valued.clear();
        scratch.valued.resize(self.layout.columns, false);
        let longest = system.longest_row() + 1;
        scratch.sources.resize(longest.max(scratch.sources.len()), 0);

        self.peeled_columns(system, scratch);
        if !system.inactive().is_empty() {
            self.right_sides(system, scratch);
            self.inactive_columns(system, scratch);
            self.corrections(system, scratch);
        }
        self.close_ranks();
    }

    #[inline]
    pub(super) fn sum(&mut self, out: u32, sources: &[u32]) {
        self.reads += sources.len() as u64;
        let len = self.layout.symbol_bytes;
        debug_assert!(sources.iter().chain([&out]).all(|&place| place as usize + len <= self.arena.len()));
        // SAFETY: all places are the layout's, of columns that were checked on arrival and of slots that it has;
        // the arena is as large as the layout.
        unsafe { self.kernel.gather_within_unchecked(self.arena, out, len, sources) };
    }

    /// Writes the sums of all subsets of a few symbols to slots from `out` on.
    pub(super) fn sum_subsets(&mut self, out: u32, members: &[u32]) {
        self.reads += (1 << members.len()) - 1;
        let Layout { symbol_bytes, stride, .. } = self.layout;
        self.kernel.subsets_within(self.arena, members, out, stride, symbol_bytes);
    }

    /// Moves the values together, which lay where they are quick to read.
    fn close_ranks(&mut self) {
        let Layout { columns, symbol_bytes, stride } = self.layout;
        if stride > symbol_bytes {
            for column in 1..columns {
                self.arena
                    .copy_within(column * stride..column * stride + symbol_bytes, column * symbol_bytes);
            }
        }
    }

    fn peeled_columns(&mut self, system: &System, Scratch { sources, valued, .. }: &mut Scratch) {
        for &(row, column) in system.order() {
            // Its other columns were peeled before or are inactive; neither it nor these have a value.
            let count = self.list(row, system.row(row), sources, |other| valued[usize::from(other)]);
            self.sum(self.layout.value(column), &sources[..count]);
            valued[usize::from(column)] = true;
        }
    }

    fn right_sides(&mut self, system: &System, Scratch { sources, valued, places, .. }: &mut Scratch) {
        places.clear();
        for &row in system.equations() {
            let count = self.list(row, system.row(row), sources, |other| valued[usize::from(other)]);
            // The right side takes the place of the payload. Rows without one were given no slot of their own.
            let payload = self.payloads[usize::from(row)];
            let place = payload.or_else(|| self.free.pop().map(|slot| self.layout.slot(slot)));
            let place = place.expect("a slot for every row that is kept");
            self.sum(place, &sources[..count]);
            places.push(place);
        }
    }

    fn inactive_columns(&mut self, system: &mut System, Scratch { sources, places, .. }: &mut Scratch) {
        let count = places.len();
        let group = Tables::best_group(count, self.layout.table_slots(), |parts| count * parts);
        let tables = Tables::build(places, group, self);
        places.clear();
        places.extend(system.inactive().iter().map(|&column| self.layout.value(column)));
        sources.resize(sources.len().max(tables.groups() + 1), 0);
        let (solution, words) = system.solution();
        for (&place, origin) in places.iter().zip(solution.chunks(words)) {
            let count = tables.sources(origin, sources);
            self.sum(place, &sources[..count]);
        }
    }

    fn corrections(&mut self, system: &System, Scratch { sources, places, .. }: &mut Scratch) {
        let lengths = RowLengths::of(system);
        let group =
            Tables::best_group(places.len(), self.layout.table_slots(), |parts| lengths.reads(parts + 1));
        let tables = Tables::build(places, group, self);
        sources.resize(sources.len().max(tables.groups() + 2), 0);
        for &(row, column) in system.order() {
            let mask = system.mask(column);
            let inactive = mask.iter().map(|word| word.count_ones() as usize).sum::<usize>();
            if inactive == 0 {
                continue;
            }
            let value = self.layout.value(column);
            let columns = system.row(row);
            let mut count = columns.len();
            if inactive.div_ceil(group) + 1 < columns.len() {
                sources[0] = value;
                count = 1 + tables.sources(mask, &mut sources[1..]);
            }
            if count >= columns.len() {
                count = self.list(row, columns, sources, |other| other != column);
            }
            self.sum(value, &sources[..count]);
        }
    }

    /// Writes to `sources` where the payload of a row lies and the values of those of its columns that are wanted,
    /// and says how many they are.
    #[inline]
    fn list(&self, row: u16, columns: &[u16], sources: &mut [u32], wanted: impl Fn(u16) -> bool) -> usize {
        let sources = &mut sources[..columns.len() + 1];
        let payload = self.payloads[usize::from(row)];
        sources[0] = payload.unwrap_or(0);
        let mut count = usize::from(payload.is_some());
        for &column in columns {
            sources[count] = self.layout.value(column);
            count += usize::from(wanted(column));
        }
        count
    }
}

/// How many rows of each length yield columns that have to be corrected.
struct RowLengths([usize; RowLengths::LONG + 1]);

impl RowLengths {
    const LONG: usize = 15;

    fn of(system: &System) -> Self {
        let mut lengths = [0; Self::LONG + 1];
        for &(row, column) in system.order() {
            let depends = system.mask(column).iter().any(|&word| word != 0);
            lengths[system.row(row).len().min(Self::LONG)] += usize::from(depends);
        }
        RowLengths(lengths)
    }

    /// What all corrections read if one through tables is so many reads and one through its row as many as that
    /// row is long.
    fn reads(&self, through_tables: usize) -> usize {
        self.0.iter().enumerate().map(|(length, &rows)| rows * length.min(through_tables)).sum()
    }
}
