//! Which source symbols a coded symbol is the XOR of.
//!
//! A row derives from (k, draw, seed, index) alone, so a packet carries an index and both ends agree. What is
//! here is wire format: golden vectors in `tests/` hold it still.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use crate::seed::choose_seed;
use crate::{Error, Random, RobustSoliton};

/// How the neighbours of a coded symbol are drawn once its degree is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Draw {
    /// Every row by itself, as in the paper: some source symbols are then drawn late or never.
    Independent,
    /// Neighbours are dealt from a shuffled deck of all source symbols, and the deck is shuffled anew when it is
    /// empty: all source symbols are used equally often. Ours, and a third to a tenth of the overhead.
    #[default]
    Dealt,
}

/// How many coded symbols a block of `k` source symbols has. It bounds the memory that a block can take, whatever
/// indices a peer sends, and a sender that comes to the end of it has nobody listening.
pub const fn max_symbols(k: u16) -> u32 {
    4 * k as u32 + 64
}

/// The rows of a block. Clones share one table, which grows as far as rows are asked for.
#[derive(Clone, Debug)]
pub struct Rows(Arc<Table>);

#[derive(Debug)]
struct Table {
    k: u16,
    draw: Draw,
    seed: u64,
    parts: Box<[OnceLock<Part>]>,
    generator: Mutex<Generator>,
}

impl Rows {
    /// The rows under the paper's robust soliton distribution (c = 0.2, delta = 0.7).
    ///
    /// # Errors
    /// `k` outside the codec's limits.
    pub fn new(k: u16, draw: Draw, seed: u64) -> Result<Self, Error> {
        Self::with_distribution(k, draw, seed, &RobustSoliton::paper(k)?)
    }

    /// The rows under another distribution.
    ///
    /// # Errors
    /// `k` outside the codec's limits, or not the distribution's.
    pub fn with_distribution(
        k: u16,
        draw: Draw,
        seed: u64,
        distribution: &RobustSoliton,
    ) -> Result<Self, Error> {
        if distribution.k() != k {
            return Err(Error::DistributionSymbols { distribution: distribution.k(), block: k });
        }
        let parts = (max_symbols(k) as usize).div_ceil(PART_ROWS);
        Ok(Rows(Arc::new(Table {
            k,
            draw,
            seed,
            parts: (0..parts).map(|_| OnceLock::new()).collect(),
            generator: Mutex::new(Generator::new(k, draw, seed, distribution.clone())),
        })))
    }

    /// The columns of a row: source symbols, each once, in no order.
    ///
    /// # Panics
    /// If `index` is not below [`Rows::max_symbols`]; [`Rows::checked`] is for an index that a peer chose.
    #[inline]
    pub fn row(&self, index: u32) -> &[u16] {
        let (part, row) = (index as usize / PART_ROWS, index as usize % PART_ROWS);
        match self.0.parts[part].get() {
            Some(part) => part.row(row),
            None => self.0.extend(part).row(row),
        }
    }

    /// The same for an index that a peer chose.
    ///
    /// # Errors
    /// An index beyond the last of the block.
    #[inline]
    pub fn checked(&self, index: u32) -> Result<&[u16], Error> {
        if index >= self.max_symbols() {
            return Err(Error::Index { index, last: self.max_symbols() - 1 });
        }
        Ok(self.row(index))
    }

    /// Source symbols of the block.
    pub fn k(&self) -> u16 {
        self.0.k
    }

    /// How neighbours are drawn.
    pub fn draw(&self) -> Draw {
        self.0.draw
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// How many rows there are.
    pub fn max_symbols(&self) -> u32 {
        max_symbols(self.0.k)
    }
}

impl Table {
    /// Makes all parts up to `wanted`. Of dealt rows each depends on those before it.
    #[cold]
    fn extend(&self, wanted: usize) -> &Part {
        let mut generator = self.generator.lock().unwrap_or_else(PoisonError::into_inner);
        while generator.parts <= wanted {
            let next = generator.parts;
            let part = generator.part();
            self.parts[next].get_or_init(|| part);
        }
        self.parts[wanted].get().expect("every part up to the one wanted was made")
    }
}

/// Rows are made so many at once.
const PART_ROWS: usize = 32;

#[derive(Debug)]
struct Part {
    starts: [u32; PART_ROWS + 1],
    columns: Box<[u16]>,
}

impl Part {
    #[inline]
    fn row(&self, row: usize) -> &[u16] {
        &self.columns[self.starts[row] as usize..self.starts[row + 1] as usize]
    }
}

#[derive(Debug)]
struct Generator {
    draw: Draw,
    seed: u64,
    distribution: RobustSoliton,
    random: Random,
    deck: Box<[u16]>,
    /// Cards of the deck that were dealt already; they lie in front.
    dealt: usize,
    /// Parts made.
    parts: usize,
}

impl Generator {
    fn new(k: u16, draw: Draw, seed: u64, distribution: RobustSoliton) -> Self {
        Generator {
            draw,
            seed,
            distribution,
            random: Random::of(seed, u32::MAX),
            deck: (0..k).collect(),
            dealt: 0,
            parts: 0,
        }
    }

    fn part(&mut self) -> Part {
        let mut columns = Vec::with_capacity(PART_ROWS * 8);
        let mut starts = [0; PART_ROWS + 1];
        let first = self.parts * PART_ROWS;
        for row in 0..PART_ROWS {
            match self.draw {
                Draw::Independent => self.independent((first + row) as u32, &mut columns),
                Draw::Dealt => self.dealt(&mut columns),
            }
            starts[row + 1] = columns.len() as u32;
        }
        self.parts += 1;
        Part { starts, columns: columns.into_boxed_slice() }
    }

    /// Deals a hand from a whole deck and puts the deck back as it was.
    fn independent(&mut self, index: u32, columns: &mut Vec<u16>) {
        let mut random = Random::of(self.seed, index);
        let degree = self.distribution.degree(random.bits()) as usize;
        let k = self.deck.len();
        for dealt in 0..degree {
            let card = dealt + random.below((k - dealt) as u32) as usize;
            self.deck.swap(dealt, card);
            columns.push(self.deck[dealt]);
        }
        // A swap displaced only the cards at these two places.
        let hand = &columns[columns.len() - degree..];
        for &card in hand {
            self.deck[card as usize] = card;
        }
        for (place, card) in self.deck.iter_mut().zip(0..).take(degree) {
            *place = card;
        }
    }

    /// Deals a hand from what is left of the deck. The cards that a hand took from the end of a deck stay out of
    /// the next deck until the hand is complete, so that none is in it twice.
    fn dealt(&mut self, columns: &mut Vec<u16>) {
        let degree = self.distribution.degree(self.random.bits()) as usize;
        let mut held = 0;
        for in_hand in 0..degree {
            if self.dealt == self.deck.len() {
                self.dealt = 0;
                held = in_hand;
            }
            let left = self.deck.len() - held - self.dealt;
            let card = self.dealt + self.random.below(left as u32) as usize;
            self.deck.swap(self.dealt, card);
            columns.push(self.deck[self.dealt]);
            self.dealt += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(rows: &Rows) -> Vec<Vec<u16>> {
        (0..rows.max_symbols()).map(|index| rows.row(index).to_vec()).collect()
    }

    #[test]
    fn a_row_has_each_column_once_and_none_beyond_k() {
        for draw in [Draw::Independent, Draw::Dealt] {
            for k in [1, 2, 3, 5, 64, 257, 2000] {
                for row in all(&Rows::new(k, draw, 7).unwrap()) {
                    let mut sorted = row.clone();
                    sorted.sort_unstable();
                    sorted.dedup();
                    assert_eq!(sorted.len(), row.len(), "k = {k}, {draw:?}");
                    assert!(!row.is_empty() && row.iter().all(|&column| column < k));
                }
            }
        }
    }

    #[test]
    fn rows_are_the_same_in_whatever_order_they_are_asked_for() {
        for draw in [Draw::Independent, Draw::Dealt] {
            let rows = Rows::new(100, draw, 1).unwrap();
            let backwards = Rows::new(100, draw, 1).unwrap();
            let last = backwards.row(rows.max_symbols() - 1).to_vec();
            assert_eq!(all(&rows), all(&backwards));
            assert_eq!(rows.clone().row(rows.max_symbols() - 1), last);
        }
    }

    #[test]
    fn other_seeds_give_other_rows() {
        for draw in [Draw::Independent, Draw::Dealt] {
            assert_ne!(all(&Rows::new(64, draw, 1).unwrap()), all(&Rows::new(64, draw, 2).unwrap()));
        }
    }

    #[test]
    fn threads_that_ask_at_once_get_the_same_table() {
        let rows = Rows::new(500, Draw::Dealt, 9).unwrap();
        let tables: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| all(&rows))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(tables.iter().all(|table| *table == all(&Rows::new(500, Draw::Dealt, 9).unwrap())));
    }

    #[test]
    fn dealt_rows_use_every_source_symbol_equally_often() {
        let k = 97;
        let rows = Rows::new(k, Draw::Dealt, 4).unwrap();
        let mut used = vec![0u32; usize::from(k)];
        for index in 0..rows.max_symbols() {
            for &column in rows.row(index) {
                used[usize::from(column)] += 1;
            }
            let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
            assert!(most - least <= 1, "row {index}: {least} and {most}");
        }
    }

    #[test]
    fn independent_rows_use_each_source_symbol_as_often_as_chance_has_it() {
        let rows = Rows::new(64, Draw::Independent, 4).unwrap();
        let mut used = [0u32; 64];
        for seed in 0..200 {
            for row in all(&Rows::new(64, Draw::Independent, seed).unwrap()) {
                row.iter().for_each(|&column| used[usize::from(column)] += 1);
            }
        }
        let mean = used.iter().sum::<u32>() as f64 / 64.0;
        assert!(used.iter().all(|&n| (f64::from(n) - mean).abs() < 6.0 * mean.sqrt()), "{used:?}");
        assert_eq!(rows.k(), 64);
    }

    #[test]
    fn what_is_outside_the_limits_is_refused() {
        assert_eq!(Rows::new(0, Draw::Dealt, 0).unwrap_err(), Error::SourceSymbols(0));
        assert_eq!(Rows::new(8193, Draw::Dealt, 0).unwrap_err(), Error::SourceSymbols(8193));
        let other = RobustSoliton::paper(65).unwrap();
        let error = Rows::with_distribution(64, Draw::Dealt, 0, &other).unwrap_err();
        assert_eq!(error, Error::DistributionSymbols { distribution: 65, block: 64 });
        let rows = Rows::new(64, Draw::Dealt, 0).unwrap();
        assert_eq!(rows.checked(320).unwrap_err(), Error::Index { index: 320, last: 319 });
        assert_eq!(rows.checked(319).unwrap(), rows.row(319));
    }
}
