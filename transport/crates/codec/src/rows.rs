//! Which source symbols a coded symbol is the XOR of.
//!
//! A row derives from (k, family, seed, index) alone, so a packet carries an index and both ends agree. What is
//! here is wire format: golden vectors in `tests/` hold it still.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::precode::Precode;
pub use crate::seed::choose_seed;
use crate::{Error, Family, MAX_SOURCE_SYMBOLS, Random, RobustSoliton};

/// Of which columns the rows of a block are, and how they are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Draw {
    /// An LT code, every row by itself, as in the LTTP paper: some source symbols are then drawn late or never.
    Independent,
    /// An LT code whose neighbours are dealt from a shuffled deck of all source symbols, and the deck is shuffled anew
    /// when it is empty: all source symbols are used equally often. Ours, and a third to a tenth of the overhead.
    #[default]
    Dealt,
    /// A Raptor code: a pre-code, and over all its symbols rows of few columns, dealt as well.
    Raptor,
}

/// How many columns a row has.
#[derive(Clone, Debug)]
enum Degrees {
    Soliton(RobustSoliton),
    /// Those of R10.
    Raptor,
}

/// R10's degrees, each with the first of the 2^20 draws that is too great for it (RFC 5053, section 5.4.4.2).
const RAPTOR_DEGREES: [(u32, u16); 7] =
    [(10_241, 1), (491_582, 2), (712_794, 3), (831_695, 4), (948_446, 10), (1_032_189, 11), (1_048_576, 40)];

impl Degrees {
    /// The degree that 32 random bits stand for, at most `columns`.
    #[inline]
    fn degree(&self, bits: u32, columns: usize) -> usize {
        match self {
            Degrees::Soliton(soliton) => soliton.degree(bits).into(),
            Degrees::Raptor => {
                let below = |&&(end, _): &&(u32, u16)| bits >> 12 < end;
                let degree = RAPTOR_DEGREES.iter().find(below).map_or(1, |(_, degree)| *degree);
                usize::from(degree).min(columns)
            }
        }
    }
}

/// What the rows of all blocks of so many source symbols have in common, whatever their seeds.
#[derive(Clone, Debug)]
pub struct Code {
    family: Family,
    degrees: Degrees,
    precode: Arc<Precode>,
    k: u16,
}

impl Code {
    /// The code of a family for blocks of `k` source symbols; a [`Draw`] alone stands for the LTTP paper's robust soliton
    /// distribution (c = 0.2, delta = 0.7).
    ///
    /// # Errors
    /// `k` outside the codec's limits.
    pub fn new(k: u16, family: impl Into<Family>) -> Result<Self, Error> {
        let family = family.into();
        if k == 0 || k > MAX_SOURCE_SYMBOLS {
            return Err(Error::SourceSymbols(k));
        }
        let (degrees, precode) = match family.draw {
            Draw::Independent | Draw::Dealt => {
                (Degrees::Soliton(family.soliton.distribution(k)?), Precode::none(k))
            }
            Draw::Raptor => (Degrees::Raptor, Precode::r10(k)),
        };
        Ok(Code { family, degrees, precode: Arc::new(precode), k })
    }

    /// Source symbols of a block.
    pub fn k(&self) -> u16 {
        self.k
    }

    /// The rows of `seed`.
    pub fn rows(&self, seed: u64) -> Rows {
        let parts = (max_symbols(self.k) as usize).div_ceil(PART_ROWS);
        Rows(Arc::new(Table {
            seed,
            parts: (0..parts).map(|_| OnceLock::new()).collect(),
            generator: Mutex::new(Generator::new(self, seed)),
            code: self.clone(),
        }))
    }
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
    code: Code,
    seed: u64,
    parts: Box<[OnceLock<Part>]>,
    generator: Mutex<Generator>,
}

impl Rows {
    /// The rows of a block: [`Code::new`] and [`Code::rows`].
    ///
    /// # Errors
    /// `k` outside the codec's limits.
    pub fn new(k: u16, family: impl Into<Family>, seed: u64) -> Result<Self, Error> {
        Ok(Code::new(k, family)?.rows(seed))
    }

    /// The columns of a row, each once, in no order: numbers below [`Rows::columns`], of which the first k are the source
    /// symbols.
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
        self.0.code.k
    }

    /// Columns of all rows: those of the source symbols, and then those of the pre-code if there is one.
    pub fn columns(&self) -> u16 {
        self.0.code.precode.columns()
    }

    /// The pre-code: rows whose sum is zero. That numbered i has column k + i last, and else columns before it.
    pub fn constraints(&self) -> impl ExactSizeIterator<Item = &[u16]> {
        self.0.code.precode.constraints()
    }

    /// How neighbours are drawn.
    pub fn draw(&self) -> Draw {
        self.0.code.family.draw
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// How many rows there are.
    pub fn max_symbols(&self) -> u32 {
        max_symbols(self.0.code.k)
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
    degrees: Degrees,
    random: Random,
    deck: Box<[u16]>,
    /// Cards of the deck that were dealt already; they lie in front.
    dealt: usize,
    /// Parts made.
    parts: usize,
}

impl Generator {
    fn new(code: &Code, seed: u64) -> Self {
        Generator {
            draw: code.family.draw,
            seed,
            degrees: code.degrees.clone(),
            random: Random::of(seed, u32::MAX),
            deck: (0..code.precode.columns()).collect(),
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
                Draw::Dealt | Draw::Raptor => self.dealt(&mut columns),
            }
            starts[row + 1] = columns.len() as u32;
        }
        self.parts += 1;
        Part { starts, columns: columns.into_boxed_slice() }
    }

    /// Deals a hand from a whole deck and puts the deck back as it was.
    fn independent(&mut self, index: u32, columns: &mut Vec<u16>) {
        let mut random = Random::of(self.seed, index);
        let k = self.deck.len();
        let degree = self.degrees.degree(random.bits(), k);
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
        let degree = self.degrees.degree(self.random.bits(), self.deck.len());
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

    const DRAWS: [Draw; 3] = [Draw::Independent, Draw::Dealt, Draw::Raptor];

    fn all(rows: &Rows) -> Vec<Vec<u16>> {
        (0..rows.max_symbols()).map(|index| rows.row(index).to_vec()).collect()
    }

    #[test]
    fn a_row_has_each_column_once_and_none_beyond_k() {
        for draw in DRAWS {
            for k in [1, 2, 3, 5, 64, 257, 2000] {
                let rows = Rows::new(k, draw, 7).unwrap();
                for row in all(&rows) {
                    let mut sorted = row.clone();
                    sorted.sort_unstable();
                    sorted.dedup();
                    assert_eq!(sorted.len(), row.len(), "k = {k}, {draw:?}");
                    assert!(!row.is_empty() && row.iter().all(|&column| column < rows.columns()));
                }
            }
        }
    }

    #[test]
    fn rows_are_the_same_in_whatever_order_they_are_asked_for() {
        for draw in DRAWS {
            let rows = Rows::new(100, draw, 1).unwrap();
            let backwards = Rows::new(100, draw, 1).unwrap();
            let last = backwards.row(rows.max_symbols() - 1).to_vec();
            assert_eq!(all(&rows), all(&backwards));
            assert_eq!(rows.clone().row(rows.max_symbols() - 1), last);
        }
    }

    #[test]
    fn other_seeds_give_other_rows() {
        for draw in DRAWS {
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
    fn raptor_degrees_are_those_of_the_standard() {
        let degrees = Degrees::Raptor;
        for (draw, degree) in [(0, 1), (10_240, 1), (10_241, 2), (491_582, 3), (831_695, 10), (1_048_575, 40)]
        {
            assert_eq!(degrees.degree(draw << 12, 1000), degree, "draw {draw}");
        }
        assert_eq!(degrees.degree(u32::MAX, 8), 8);
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
        let rows = Rows::new(64, Draw::Dealt, 0).unwrap();
        assert_eq!(rows.checked(320).unwrap_err(), Error::Index { index: 320, last: 319 });
        assert_eq!(rows.checked(319).unwrap(), rows.row(319));
    }
}
