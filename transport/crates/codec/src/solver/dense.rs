//! Equations over the inactive columns: few columns, any of them in any row, one bit each.
//!
//! Nearly always a word or two hold them all, so the loops over words are compiled for these widths too: `W` is
//! the number of words, or 0 if only `words` tells it.

/// An echelon form that grows by a row at a time and remembers which rows it was made of.
#[derive(Debug, Default)]
pub(super) struct Dense {
    unknowns: usize,
    words: usize,
    /// The equation whose lowest unknown is this one.
    leading: Vec<Option<u16>>,
    /// Rows of the sparse system that were independent, in order of arrival.
    accepted: Vec<u16>,
    /// Per accepted row: its reduced equation, and then which accepted rows that is the sum of.
    equations: Vec<u64>,
    scratch: Vec<u64>,
}

/// Calls a method compiled for the number of words.
macro_rules! by_words {
    ($words:expr, $object:ident . $method:ident ( $($argument:expr),* )) => {
        match $words {
            1 => $object.$method::<1>($($argument),*),
            2 => $object.$method::<2>($($argument),*),
            3 => $object.$method::<3>($($argument),*),
            _ => $object.$method::<0>($($argument),*),
        }
    };
}
pub(super) use by_words;

/// The words that `W` stands for.
#[inline]
pub(super) fn width<const W: usize>(words: usize) -> usize {
    if W == 0 { words } else { W }
}

impl Dense {
    pub(super) fn reset(&mut self, unknowns: usize) {
        self.unknowns = unknowns;
        self.words = unknowns.div_ceil(64);
        self.leading.clear();
        self.leading.resize(unknowns, None);
        self.accepted.clear();
        self.equations.clear();
    }

    pub(super) fn rank(&self) -> usize {
        self.accepted.len()
    }

    /// Rows that were independent, in order of arrival.
    pub(super) fn accepted(&self) -> &[u16] {
        &self.accepted
    }

    /// Takes the equation of a row, and says whether it is independent of those before.
    pub(super) fn push(&mut self, row: u16, equation: &[u64]) -> bool {
        by_words!(self.words, self.push_words(row, equation))
    }

    #[inline]
    fn push_words<const W: usize>(&mut self, row: u16, equation: &[u64]) -> bool {
        let words = width::<W>(self.words);
        self.scratch.clear();
        self.scratch.extend_from_slice(equation);
        self.scratch.resize(2 * words, 0);
        let mut word = 0;
        // Equations are added until the lowest unknown is one that leads none, or nothing is left.
        let lowest = loop {
            if word == words {
                return false;
            }
            let bits = self.scratch[word];
            if bits == 0 {
                word += 1;
                continue;
            }
            let lowest = word * 64 + bits.trailing_zeros() as usize;
            let Some(leader) = self.leading[lowest] else { break lowest };
            let from = usize::from(leader) * 2 * words;
            add(&mut self.scratch[..2 * words], &self.equations[from..from + 2 * words]);
        };
        let number = self.accepted.len();
        self.scratch[words + number / 64] |= 1 << (number % 64);
        self.leading[lowest] = Some(number as u16);
        self.accepted.push(row);
        self.equations.extend_from_slice(&self.scratch);
        true
    }

    /// Of full rank: for each unknown, which accepted rows it is the sum of; and the words per unknown.
    pub(super) fn solution(&mut self) -> (&[u64], usize) {
        by_words!(self.words, self.solve_words());
        (&self.scratch, self.words)
    }

    fn solve_words<const W: usize>(&mut self) {
        let words = width::<W>(self.words);
        self.scratch.clear();
        self.scratch.resize(self.unknowns * words, 0);
        for unknown in (0..self.unknowns).rev() {
            let Some(number) = self.leading[unknown].map(usize::from) else { continue };
            let (before, solved) = self.scratch.split_at_mut((unknown + 1) * words);
            let this = &mut before[unknown * words..][..words];
            let (equation, origin) = self.equations[number * 2 * words..][..2 * words].split_at(words);
            this.copy_from_slice(origin);
            for other in ones(equation).skip(1) {
                add(this, &solved[(other - unknown - 1) * words..][..words]);
            }
        }
    }
}

#[inline]
pub(super) fn add(sum: &mut [u64], other: &[u64]) {
    for (sum, other) in sum.iter_mut().zip(other) {
        *sum ^= other;
    }
}

/// The numbers of the bits that are set, the lowest first.
#[inline]
fn ones(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(at, &word)| {
        let mut left = word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(at * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_that_are_set_are_found() {
        assert_eq!(ones(&[0b1001, 0, 1 << 63]).collect::<Vec<_>>(), [0, 3, 191]);
        assert_eq!(ones(&[]).count(), 0);
    }

    #[test]
    fn rows_give_the_unknowns_they_are_solved_for() {
        for unknowns in [1, 5, 64, 65, 130, 200, 700] {
            let mut random = crate::Random::new(unknowns as u64);
            let mut dense = Dense::default();
            dense.reset(unknowns);
            let mut rows = Vec::new();
            while dense.rank() < unknowns {
                let mut row = vec![0; unknowns.div_ceil(64)];
                for unknown in 0..unknowns {
                    row[unknown / 64] |= (random.next() & 1) << (unknown % 64);
                }
                if dense.push(rows.len() as u16, &row) {
                    rows.push(row);
                }
            }
            let (solution, words) = dense.solution();
            for unknown in 0..unknowns {
                let mut sum = vec![0; words];
                for row in ones(&solution[unknown * words..][..words]) {
                    add(&mut sum, &rows[row]);
                }
                assert_eq!(ones(&sum).collect::<Vec<_>>(), [unknown], "of {unknowns}");
            }
        }
    }

    #[test]
    fn a_row_that_is_a_sum_of_others_is_not_taken() {
        let mut dense = Dense::default();
        dense.reset(3);
        assert!(dense.push(7, &[0b011]));
        assert!(dense.push(8, &[0b110]));
        assert!(!dense.push(9, &[0b101]));
        assert!(!dense.push(10, &[0]));
        assert!(dense.push(11, &[0b111]));
        assert_eq!(dense.accepted(), [7, 8, 11]);
    }
}
