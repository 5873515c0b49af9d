//! The pre-code of a Raptor code (Shokrollahi, IEEE Trans. IT 52(6), 2006; DFCP, section 4.4): symbols that follow
//! from the source symbols, over which the LT code then works as well.
//!
//! It is that of R10 (RFC 5053, section 5.4.2.3): S LDPC symbols, to three of which each source symbol is added, and H
//! half symbols, each the sum of about half of all symbols before them. What is sent is the LT code of all of them,
//! never the source symbols themselves as in RFC 5053: so the first k columns are the source, and encoding needs no
//! equations to be solved.

/// The sums that are zero. The constraint numbered i says what column k + i is, of columns before it.
#[derive(Debug)]
pub(crate) struct Precode {
    k: u16,
    constraints: Box<[Box<[u16]>]>,
}

impl Precode {
    /// None at all, as under an LT code.
    pub(crate) fn none(k: u16) -> Self {
        Precode { k, constraints: Box::default() }
    }

    /// That of R10 over `k` source symbols, at least one.
    pub(crate) fn r10(k: u16) -> Self {
        let (ldpc, half) = (ldpc_symbols(k), half_symbols(k));
        let mut constraints = vec![Vec::new(); usize::from(ldpc + half)];
        for column in 0..k {
            let step = 1 + (column / ldpc) % (ldpc - 1).max(1);
            for turn in 0..3 {
                let symbol = (u32::from(column % ldpc) + turn * u32::from(step)) % u32::from(ldpc);
                constraints[symbol as usize].push(column);
            }
        }
        // Each column before the half symbols is in as many of them as its word of the Gray code has bits.
        let weight = half.div_ceil(2).into();
        let words = (0u32..).map(|n| n ^ (n >> 1)).filter(|word| word.count_ones() == weight);
        for (column, word) in (0..k + ldpc).zip(words) {
            for symbol in (0..half).filter(|symbol| word >> symbol & 1 == 1) {
                constraints[usize::from(ldpc + symbol)].push(column);
            }
        }
        for (constraint, own) in constraints.iter_mut().zip(k..) {
            constraint.push(own);
        }
        Precode { k, constraints: constraints.into_iter().map(Vec::into_boxed_slice).collect() }
    }

    /// Source symbols and those of the pre-code.
    pub(crate) fn columns(&self) -> u16 {
        self.k + self.constraints.len() as u16
    }

    /// The columns of each constraint, that which it defines last.
    pub(crate) fn constraints(&self) -> impl ExactSizeIterator<Item = &[u16]> {
        self.constraints.iter().map(|columns| &**columns)
    }
}

/// The smallest prime of at least k / 100 + X, where X (X - 1) >= 2 k.
fn ldpc_symbols(k: u16) -> u16 {
    let x = (1u32..).find(|x| x * (x - 1) >= 2 * u32::from(k)).unwrap_or(u32::MAX) as u16;
    let is_prime = |n: &u16| {
        *n > 1 && (2..*n).take_while(|d| u32::from(*d).pow(2) <= u32::from(*n)).all(|d| !n.is_multiple_of(d))
    };
    (k.div_ceil(100) + x..).find(is_prime).unwrap_or(u16::MAX)
}

/// The smallest number whose subsets of half its size suffice for all symbols before the half symbols.
fn half_symbols(k: u16) -> u16 {
    let words = u64::from(k + ldpc_symbols(k));
    (1..64).find(|half| choose(*half, half.div_ceil(2)) >= words).unwrap_or(64)
}

fn choose(n: u16, m: u16) -> u64 {
    (0..u64::from(m)).fold(1, |product, i| product * (u64::from(n) - i) / (i + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_as_many_symbols_as_the_standard_says() {
        // S and H by section 5.4.2.3 of RFC 5053, by hand.
        for (k, ldpc, half) in [(4, 5, 5), (64, 13, 9), (256, 29, 11), (1024, 59, 13), (8192, 211, 16)] {
            assert_eq!((ldpc_symbols(k), half_symbols(k)), (ldpc, half), "k = {k}");
            assert_eq!(Precode::r10(k).columns(), k + ldpc + half);
        }
    }

    #[test]
    fn each_constraint_defines_the_next_column() {
        for k in [1, 2, 3, 5, 64, 1000, 8192] {
            let precode = Precode::r10(k);
            for (constraint, own) in precode.constraints().zip(k..) {
                let (last, before) = constraint.split_last().unwrap();
                assert_eq!(*last, own);
                assert!(before.iter().all(|column| *column < own), "k = {k}");
            }
        }
    }

    #[test]
    fn each_source_symbol_is_in_three_ldpc_symbols_and_half_of_the_half_symbols() {
        for k in [64u16, 257, 8192] {
            let precode = Precode::r10(k);
            let (ldpc, half) = (usize::from(ldpc_symbols(k)), half_symbols(k));
            let mut uses = vec![(0, 0); k.into()];
            for (number, constraint) in precode.constraints().enumerate() {
                for column in constraint.iter().filter(|column| **column < k) {
                    let (of_ldpc, of_half) = &mut uses[usize::from(*column)];
                    *(if number < ldpc { of_ldpc } else { of_half }) += 1;
                }
            }
            assert!(uses.iter().all(|uses| *uses == (3, half.div_ceil(2))), "k = {k}");
        }
    }
}
