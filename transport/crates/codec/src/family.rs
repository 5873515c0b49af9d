//! Which codes there are, for any number of source symbols.

use crate::rows::Draw;
use crate::soliton::{PAPER_C, PAPER_DELTA};
use crate::{Error, RobustSoliton};

/// The parameters c and delta of the robust soliton distribution (LTTP, Eq. 3). They are kept as millionths, so that both
/// ends of a transfer have the same degrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Soliton {
    c_millionths: u32,
    delta_millionths: u32,
}

impl Soliton {
    /// What the paper settles on (section V.B).
    pub const PAPER: Soliton =
        Soliton { c_millionths: millionths(PAPER_C), delta_millionths: millionths(PAPER_DELTA) };

    /// The least and the greatest c. The paper tries 0.1 to 10. Less than 0.01 is the ideal soliton distribution; with more
    /// than 2, blocks of 1,024 symbols are as hard to solve as those whose symbols were chosen to be.
    pub const C: std::ops::RangeInclusive<f64> = 0.01..=2.0;
    /// The least and the greatest delta. The paper tries 0.1 to 0.9; the less it is, the longer the rows.
    pub const DELTA: std::ops::RangeInclusive<f64> = 0.1..=1.0;

    /// The parameters c and delta, rounded to millionths.
    ///
    /// # Errors
    /// One that is outside [`Soliton::C`] or [`Soliton::DELTA`].
    pub fn new(c: f64, delta: f64) -> Result<Self, Error> {
        if !(Self::C.contains(&c) && Self::DELTA.contains(&delta)) {
            return Err(Error::Soliton { c, delta });
        }
        Ok(Soliton { c_millionths: millionths(c), delta_millionths: millionths(delta) })
    }

    /// The same of what a peer has sent.
    ///
    /// # Errors
    /// As [`Soliton::new`].
    pub fn of_millionths(c: u32, delta: u32) -> Result<Self, Error> {
        Self::new(f64::from(c) / MILLION, f64::from(delta) / MILLION)
    }

    /// c in millionths.
    pub const fn c_millionths(self) -> u32 {
        self.c_millionths
    }

    /// delta in millionths.
    pub const fn delta_millionths(self) -> u32 {
        self.delta_millionths
    }

    /// The distribution over degrees of blocks of `k` source symbols.
    ///
    /// # Errors
    /// `k` outside the codec's limits.
    pub fn distribution(self, k: u16) -> Result<RobustSoliton, Error> {
        let parameter = |millionths| f64::from(millionths) / MILLION;
        RobustSoliton::new(k, parameter(self.c_millionths), parameter(self.delta_millionths))
    }
}

impl Default for Soliton {
    fn default() -> Self {
        Self::PAPER
    }
}

const MILLION: f64 = 1e6;

const fn millionths(x: f64) -> u32 {
    (x * MILLION + 0.5) as u32
}

/// A code for every number of source symbols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Family {
    /// Of which columns rows are, and how these are drawn.
    pub draw: Draw,
    /// How many they are, in an LT code. A Raptor code has degrees of its own.
    pub soliton: Soliton,
}

impl From<Draw> for Family {
    /// With the paper's parameters.
    fn from(draw: Draw) -> Self {
        Family { draw, soliton: Soliton::PAPER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millionths_are_the_numbers_that_they_stand_for() {
        assert_eq!(Soliton::new(PAPER_C, PAPER_DELTA), Ok(Soliton::PAPER));
        assert_eq!(Soliton::of_millionths(200_000, 700_000), Ok(Soliton::PAPER));
        for k in [1, 64, 8192] {
            let (ours, papers) = (Soliton::PAPER.distribution(k).unwrap(), RobustSoliton::paper(k).unwrap());
            assert_eq!(ours.pmf(), papers.pmf());
        }
        let odd = Soliton::new(0.123_456_7, 0.987_654_3).unwrap();
        assert_eq!((odd.c_millionths(), odd.delta_millionths()), (123_457, 987_654));
    }

    #[test]
    fn parameters_out_of_bounds_are_refused_by_name() {
        for (c, delta) in [(0.009, 0.5), (2.1, 0.5), (0.2, 0.0), (0.2, 1.1), (f64::NAN, 0.5), (0.2, f64::NAN)]
        {
            let error = Soliton::new(c, delta).unwrap_err();
            assert!(error.to_string().contains("c is 0.01 to 2 and delta 0.1 to 1"), "{error}");
        }
        for (c, delta) in [(0, 500_000), (u32::MAX, 500_000), (200_000, 0), (200_000, u32::MAX)] {
            assert!(Soliton::of_millionths(c, delta).is_err());
        }
    }
}
