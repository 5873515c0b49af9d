//! The robust soliton distribution of degrees (LTTP, Eq. 1-3; Luby, FOCS 2002, definitions 9-11).
//!
//! Degrees are part of the wire format, so the sampler compares integers, and the thresholds come from nothing
//! but the four IEEE operations and the square root, which give the same bits on every machine.

use crate::{Error, MAX_SOURCE_SYMBOLS};

/// The factor c that the paper settles on (section V.B).
pub const PAPER_C: f64 = 0.2;
/// The failure probability delta that the paper settles on (section V.B).
pub const PAPER_DELTA: f64 = 0.7;

const GUIDE_BITS: u32 = 8;

/// How many source symbols a coded symbol is made of.
#[derive(Clone, Debug)]
pub struct RobustSoliton {
    pmf: Box<[f64]>,
    /// `thresholds[d - 1]` is the last of the 2^32 draws that give a degree of at most `d`.
    thresholds: Box<[u32]>,
    /// Where the search begins for draws with the same leading bits; one entry more than there are such groups.
    guide: Box<[u16]>,
}

impl RobustSoliton {
    /// The distribution over the degrees 1 to `k` with R = c sqrt(k) ln(k / delta).
    ///
    /// k / R is rounded to the nearest degree; a spike that would be negative (R < delta, tiny blocks) is zero.
    ///
    /// # Errors
    /// `k` outside the codec's limits, `c` not positive and finite, `delta` not in (0, 1].
    pub fn new(k: u16, c: f64, delta: f64) -> Result<Self, Error> {
        if k == 0 || k > MAX_SOURCE_SYMBOLS {
            return Err(Error::SourceSymbols(k));
        }
        if !(c > 0.0 && c.is_finite() && delta > 0.0 && delta <= 1.0) {
            return Err(Error::Distribution { c, delta });
        }
        let mut pmf = weights(k, c, delta);
        let beta: f64 = pmf.iter().sum();
        pmf.iter_mut().for_each(|p| *p /= beta);
        let thresholds = thresholds(&pmf);
        let guide = guide(&thresholds);
        Ok(RobustSoliton { pmf, thresholds, guide })
    }

    /// The distribution with the parameters of the paper.
    ///
    /// # Errors
    /// `k` outside the codec's limits.
    pub fn paper(k: u16) -> Result<Self, Error> {
        Self::new(k, PAPER_C, PAPER_DELTA)
    }

    /// Source symbols of a block.
    pub fn k(&self) -> u16 {
        self.pmf.len() as u16
    }

    /// The probability of each degree, from degree 1 on.
    pub fn pmf(&self) -> &[f64] {
        &self.pmf
    }

    /// The mean degree.
    pub fn mean(&self) -> f64 {
        self.pmf.iter().zip(1u32..).map(|(p, degree)| p * f64::from(degree)).sum()
    }

    /// The degree that 32 random bits stand for: 1 to `k`.
    #[inline]
    pub fn degree(&self, bits: u32) -> u16 {
        let group = (bits >> (32 - GUIDE_BITS)) as usize;
        let (first, last) = (self.guide[group] as usize, self.guide[group + 1] as usize);
        let below = self.thresholds[first..last].partition_point(|&threshold| threshold < bits);
        (first + below) as u16 + 1
    }
}

/// The sum of rho (Eq. 2) and tau (Eq. 3), not yet divided by beta.
fn weights(k: u16, c: f64, delta: f64) -> Box<[f64]> {
    let k_real = f64::from(k);
    let r = c * ln(k_real / delta) * k_real.sqrt();
    let spike = if r > 0.0 { (k_real / r).round().clamp(1.0, k_real) } else { k_real };
    let rho = |i: f64| if i == 1.0 { 1.0 / k_real } else { 1.0 / (i * (i - 1.0)) };
    let tau = |i: f64| {
        if i < spike {
            r / (i * k_real)
        } else if i == spike && r > delta {
            r * ln(r / delta) / k_real
        } else {
            0.0
        }
    };
    (1..=k).map(f64::from).map(|i| rho(i) + tau(i)).collect()
}

fn thresholds(pmf: &[f64]) -> Box<[u32]> {
    let mut sum = 0.0;
    let mut thresholds: Box<[u32]> = pmf
        .iter()
        .map(|p| {
            sum += p;
            // A cast of a float saturates.
            (sum * 4_294_967_296.0).ceil() as u64
        })
        .map(|draws| draws.clamp(1, 1 << 32))
        .map(|draws| (draws - 1) as u32)
        .collect();
    if let Some(last) = thresholds.last_mut() {
        *last = u32::MAX;
    }
    thresholds
}

fn guide(thresholds: &[u32]) -> Box<[u16]> {
    let first_at_least = |bits: u32| thresholds.partition_point(|&threshold| threshold < bits) as u16;
    let groups = 1u32 << GUIDE_BITS;
    let last = thresholds.len() as u16 - 1;
    (0..groups).map(|group| first_at_least(group << (32 - GUIDE_BITS))).chain([last]).collect()
}

/// The natural logarithm of a positive, normal number, by the same operations everywhere: the one of the
/// standard library may differ in its last bit from machine to machine.
fn ln(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits((bits & MANTISSA) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)); the argument is at most 0.172, fifteen terms are below one unit.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let series = (0..15).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    2.0 * t * series + f64::from(exponent) * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_one() {
        for x in [1e-3, 0.5, 0.7, 1.0, 1.41, 1.42, 2.0, 3.7, 64.0 / 0.7, 8192.0 / 0.7, 1e9] {
            let error = (ln(x) - x.ln()).abs();
            assert!(error <= 4.0 * f64::EPSILON * x.ln().abs().max(1.0), "ln {x}: off by {error}");
        }
    }

    /// Eq. 1-3 computed in Python with `math`: (k, degree, probability).
    #[test]
    fn probabilities_are_those_of_the_equations() {
        for &(k, degree, expected) in EXPECTED {
            let p = RobustSoliton::paper(k).unwrap().pmf()[degree - 1];
            assert!((p - expected).abs() < 1e-12, "k = {k}, degree {degree}: {p} instead of {expected}");
        }
    }

    #[test]
    fn means_and_spikes_are_those_of_the_equations() {
        for (k, mean, spike) in [(64, 5.11, 9), (128, 6.02, 11), (256, 7.10, 14)] {
            let soliton = RobustSoliton::paper(k).unwrap();
            assert!((soliton.mean() - mean).abs() < 0.005, "k = {k}: mean {}", soliton.mean());
            let pmf = soliton.pmf();
            assert!(pmf[spike - 1] > 5.0 * pmf[spike - 2], "k = {k}: the spike is at k / R");
        }
    }

    #[test]
    fn every_draw_gives_the_degree_whose_share_it_falls_into() {
        for k in [1, 2, 3, 64, 1000, 8192] {
            let soliton = RobustSoliton::paper(k).unwrap();
            for draw in (0..=u32::MAX).step_by(65_521).chain([0, 1, u32::MAX - 1, u32::MAX]) {
                let naive = soliton.thresholds.iter().position(|&t| draw <= t).unwrap() as u16 + 1;
                assert_eq!(soliton.degree(draw), naive, "k = {k}, draw {draw}");
            }
        }
    }

    #[test]
    fn the_share_of_draws_of_a_degree_is_its_probability() {
        let soliton = RobustSoliton::paper(256).unwrap();
        let mut before = -1.0;
        for (&threshold, &p) in soliton.thresholds.iter().zip(soliton.pmf()) {
            let share = (f64::from(threshold) - before) / 4_294_967_296.0;
            assert!((share - p).abs() <= 1.0 / 4_294_967_296.0);
            before = f64::from(threshold);
        }
    }

    #[test]
    fn odd_parameters_give_a_distribution_or_an_error() {
        for k in [1, 2, 5, 100] {
            for c in [1e-9, 0.1, 10.0, 1e6] {
                let sum: f64 = RobustSoliton::new(k, c, 0.5).unwrap().pmf().iter().sum();
                assert!((sum - 1.0).abs() < 1e-9, "k = {k}, c = {c}: the sum is {sum}");
            }
        }
        assert_eq!(RobustSoliton::new(0, 0.2, 0.7).unwrap_err(), Error::SourceSymbols(0));
        assert_eq!(RobustSoliton::new(8193, 0.2, 0.7).unwrap_err(), Error::SourceSymbols(8193));
        for (c, delta) in [(0.0, 0.7), (-1.0, 0.7), (0.2, 0.0), (0.2, 1.5), (f64::INFINITY, 0.7)] {
            assert_eq!(RobustSoliton::new(8, c, delta).unwrap_err(), Error::Distribution { c, delta });
        }
        assert!(matches!(RobustSoliton::new(8, f64::NAN, 0.7), Err(Error::Distribution { .. })));
    }

    #[rustfmt::skip]
    const EXPECTED: &[(u16, usize, f64)] = &[
        (64, 1, 0.08183922118356535),
        (64, 2, 0.3543504985411609),
        (64, 3, 0.1300983385578099),
        (64, 8, 0.020357771476241907),
        (64, 9, 0.17664852250793198),
        (64, 10, 0.007075688475753159),
        (64, 64, 0.00015793947490520444),
        (128, 1, 0.06530132459951846),
        (128, 2, 0.3569623216230648),
        (128, 3, 0.12901978293668068),
        (128, 10, 0.013283078647086293),
        (128, 11, 0.17590594214225658),
        (128, 12, 0.004952504461152841),
        (128, 128, 4.021472618554226e-05),
        (256, 1, 0.052567854590192),
        (256, 2, 0.3633263615528456),
        (256, 3, 0.12942951793721222),
        (256, 13, 0.008178339441019842),
        (256, 14, 0.16822372857791074),
        (256, 15, 0.0032225158980386144),
        (256, 256, 1.0366549304352159e-05),
        (1024, 1, 0.034278733367038516),
        (1024, 2, 0.3851504675814844),
        (1024, 3, 0.13397669903949194),
        (1024, 21, 0.0033522068037348655),
        (1024, 22, 0.14251746567285664),
        (1024, 23, 0.001456011217567166),
        (1024, 1024, 7.032984291844089e-07),
        (8192, 1, 0.01727220099774547),
        (8192, 2, 0.4233496679293752),
        (8192, 3, 0.14397837934433516),
        (8192, 47, 0.0007490248127592416),
        (8192, 48, 0.09463529133710384),
        (8192, 49, 0.00035269064440964697),
        (8192, 8192, 1.2362445426053105e-08),
    ];
}
