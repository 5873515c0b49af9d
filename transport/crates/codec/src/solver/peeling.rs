//! Peeling with inactivation: the part of solving that looks at rows alone and settles nearly all columns.

use super::rows::SparseRows;

/// In a column's score, what a row with two unknown columns adds. The rest of the score is the column's weight.
const PAIR: i16 = 1 << 8;

/// What peeling found, and its tables, kept for the next block.
#[derive(Debug, Default)]
pub(super) struct Peeling {
    /// Which row yields which column. A row's other columns are inactive or come earlier in this order.
    pub(super) order: Vec<(u16, u16)>,
    /// Columns that no row yields.
    pub(super) inactive: Vec<u16>,
    /// Rows that yield no column, each with the inactive columns that the sum of its columns depends on.
    pub(super) spare: Vec<(u16, u64)>,
    /// Per column, the inactive columns that it depends on. As those of `spare` they are right if one word holds
    /// all inactive columns, which is so for blocks of up to some 450 symbols.
    pub(super) masks: Vec<u64>,

    rows: Vec<Row>,
    /// Which rows a column is in: `members[starts[column]..starts[column + 1]]`.
    starts: Vec<u32>,
    members: Vec<u16>,
    /// Per column: 0 when it is known, else how much making it inactive promises. Small numbers, since finding
    /// the greatest takes time.
    scores: Vec<i16>,
    /// Rows that have one unknown column, or had.
    ready: Stack,
    /// Rows that have two, or had, and are not in the scores.
    pairs: Stack,
}

/// What is known of a row: how many of its columns are unknown; the sum of their numbers and that of their squares,
/// from which one or two of them follow without a look at the row (modulo 2^16 and 2^32, which is enough for these);
/// the inactive columns that the sum of the known ones depends on.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    unknown: u16,
    sum: u16,
    squares: u32,
    mask: u64,
}

impl Row {
    /// The two columns of a row that are unknown, if it has no others.
    #[inline]
    fn pair(&self) -> [u16; 2] {
        let sum = u32::from(self.sum);
        let difference = f64::from((2 * self.squares).wrapping_sub(sum * sum)).sqrt() as u32;
        [(sum + difference) / 2, (sum - difference) / 2].map(|column| column as u16)
    }
}

/// The square of a column's number. There are at most 2^14 columns.
#[inline]
fn square(column: u16) -> u32 {
    u32::from(column) * u32::from(column)
}

/// A stack that a row is pushed to at most once.
#[derive(Debug, Default)]
struct Stack {
    rows: Vec<u16>,
    len: usize,
}

impl Stack {
    fn reset(&mut self, rows: usize) {
        // One more, for a push that comes to nothing when all are on it.
        self.rows.resize(self.rows.len().max(rows + 1), 0);
        self.len = 0;
    }

    /// Without a branch, which would be mispredicted.
    #[inline]
    fn push_if(&mut self, condition: bool, row: u16) {
        self.rows[self.len] = row;
        self.len += usize::from(condition);
    }

    #[inline]
    fn pop(&mut self) -> Option<u16> {
        self.len = self.len.checked_sub(1)?;
        Some(self.rows[self.len])
    }
}

impl Peeling {
    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.inactive.clear();
        self.spare.clear();
    }

    /// Whether it came to an end with at most so many inactive columns.
    #[must_use]
    pub(super) fn run(&mut self, rows: &SparseRows, columns: usize, most_inactive: usize) -> bool {
        self.clear();
        self.index(rows, columns);
        self.prepare();
        loop {
            self.peel();
            let Some(column) = self.most_promising() else { break };
            if self.inactive.len() == most_inactive {
                return false;
            }
            let mask = 1u64.checked_shl(self.inactive.len() as u32).unwrap_or(0);
            self.inactive.push(column);
            self.settle(column, mask);
        }
        self.gather_spare();
        true
    }

    /// A counting sort of all entries by their columns. It goes through entries, not through rows: where a short
    /// row ends is a guess that a processor gets wrong.
    fn index(&mut self, rows: &SparseRows, columns: usize) {
        self.rows.clear();
        let row = |len: usize| Row { unknown: len as u16, ..Row::default() };
        self.rows.extend((0..rows.len() as u16).map(|number| row(rows.row(number).len())));
        self.starts.clear();
        self.starts.resize(columns + 1, 0);
        for (column, row) in rows.entries() {
            self.starts[usize::from(column)] += 1;
            let row = &mut self.rows[usize::from(row)];
            row.sum = row.sum.wrapping_add(column);
            row.squares = row.squares.wrapping_add(square(column));
        }
        let mut end = 0;
        for start in &mut self.starts {
            end += *start;
            *start = end;
        }
        self.members.resize(self.members.len().max(end as usize), 0);
        for (column, row) in rows.entries() {
            let place = &mut self.starts[usize::from(column)];
            *place -= 1;
            self.members[*place as usize] = row;
        }
    }

    fn prepare(&mut self) {
        self.ready.reset(self.rows.len());
        self.pairs.reset(self.rows.len());
        for (row, &Row { unknown, .. }) in (0..).zip(&self.rows) {
            self.ready.push_if(unknown == 1, row);
            self.pairs.push_if(unknown == 2, row);
        }
        let weights = self.starts.windows(2).map(|ends| ends[1] - ends[0]);
        self.scores.clear();
        self.scores.extend(weights.map(|weight| 1 + weight.min(PAIR as u32 - 2) as i16));
        self.masks.resize(self.masks.len().max(self.scores.len()), 0);
    }

    fn peel(&mut self) {
        while let Some(row) = self.ready.pop() {
            let Row { unknown, sum, mask, .. } = self.rows[usize::from(row)];
            if unknown == 1 {
                self.order.push((row, sum));
                self.settle(sum, mask);
            }
        }
    }

    /// Counts a column as known.
    #[inline]
    fn settle(&mut self, column: u16, mask: u64) {
        let at = usize::from(column);
        self.scores[at] = 0;
        self.masks[at] = mask;
        for &number in &self.members[self.starts[at] as usize..self.starts[at + 1] as usize] {
            let row = &mut self.rows[usize::from(number)];
            row.unknown -= 1;
            row.sum = row.sum.wrapping_sub(column);
            row.squares = row.squares.wrapping_sub(square(column));
            row.mask ^= mask;
            let unknown = row.unknown;
            self.ready.push_if(unknown == 1, number);
            self.pairs.push_if(unknown == 2, number);
        }
    }

    /// The unknown column that shares most rows with just one other unknown column, each of which it would settle;
    /// among equals the one in most rows.
    fn most_promising(&mut self) -> Option<u16> {
        while let Some(row) = self.pairs.pop() {
            let row = self.rows[usize::from(row)];
            if row.unknown == 2 {
                for column in row.pair() {
                    let score = &mut self.scores[usize::from(column)];
                    *score = score.saturating_add(PAIR);
                }
            }
        }
        const STRETCH: usize = 64;
        let greatest = |scores: &[i16]| scores.iter().fold(0, |greatest, &score| greatest.max(score));
        let (mut best, mut first) = (0, 0);
        for (number, stretch) in self.scores.chunks(STRETCH).enumerate() {
            let here = greatest(stretch);
            if here > best {
                (best, first) = (here, number * STRETCH);
            }
        }
        let at = self.scores[first..].iter().position(|&score| score == best)?;
        (best > 0).then_some((first + at) as u16)
    }

    fn gather_spare(&mut self) {
        // Every count is 0 by now; those that yielded a column are marked.
        for &(row, _) in &self.order {
            self.rows[usize::from(row)].unknown = 1;
        }
        let spare = (0..).zip(&self.rows).filter(|(_, row)| row.unknown == 0);
        self.spare.extend(spare.map(|(number, row)| (number, row.mask)));
    }
}
