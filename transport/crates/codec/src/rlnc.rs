//! Linear codes over a few numbered packets, for repairing what a window of them lacks: any `n` coded packets of it make up for any `n` that
//! are lost.
//!
//! A coded packet is a sum over GF(256) of the packets from `first` on, `count` of them, with coefficients that its seed and their
//! numbers give. Packets may have different lengths: what is summed is each one's length, its bytes, and zeros up to the longest.
//!
//! Coefficients are those of a Cauchy matrix, 1 / (x + y), x from a packet's number and y from the seed. Every square part of it can be
//! inverted, so that for coded packets of one window, with seeds that differ in their lower seven bits, nothing is left to chance. Windows may
//! also overlap in any way: then an equation more than there are unknowns may be needed, as with random coefficients.
//!
//! The decoder keeps its equations reduced at all times (Gauss and Jordan), so that what can be known is known at once.

use std::collections::VecDeque;

use crate::gf256::{Kernel, inverse};
use crate::spare::{self, Spare};

/// Packets that a coded packet is made of, at most.
pub const MAX_PACKETS: usize = 32;
/// Numbers below the highest that a decoder keeps packets of.
const REMEMBERED: u64 = 8 * MAX_PACKETS as u64;
/// Packets of which the memory is kept for others.
const MOST_SPARE: usize = 8;
/// A length takes so many bytes.
const LENGTH_BYTES: usize = 2;
/// The longest packet.
pub const MAX_BYTES: usize = u16::MAX as usize;

/// The coefficient of a packet in the coded packet of a seed; never zero.
pub fn coefficient(number: u64, seed: u8) -> u8 {
    // The upper bit keeps the two apart, whose sum is inverted.
    inverse((number as u8 & 0x7f) ^ (seed | 0x80))
}

/// A sum of packets, to which they are added one after the other.
#[derive(Clone, Debug, Default)]
struct Sum(Vec<u8>);

impl Sum {
    fn add(&mut self, kernel: &Kernel, packet: &[u8], by: u8) {
        let len = LENGTH_BYTES + packet.len();
        if self.0.len() < len {
            self.0.resize(len, 0);
        }
        let (length, bytes) = self.0.split_at_mut(LENGTH_BYTES);
        // No packet is longer than MAX_BYTES.
        kernel.multiply_add(length, &(packet.len() as u16).to_be_bytes(), by);
        kernel.multiply_add(&mut bytes[..packet.len()], packet, by);
    }

    fn add_sum(&mut self, kernel: &Kernel, other: &Sum, by: u8) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        kernel.multiply_add(&mut self.0[..other.0.len()], &other.0, by);
    }

    /// The packet, if this is the sum of just one. None if it is no packet: its length is not there.
    fn into_packet(self) -> Option<Vec<u8>> {
        let (length, bytes) = self.0.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let packet = bytes.get(..length)?.to_vec();
        bytes[length..].iter().all(|byte| *byte == 0).then_some(packet)
    }
}

/// Appends to `out` the coded packet of a seed: of `packets`, whose numbers go on from `first`. It is two bytes longer than the longest.
///
/// # Panics
/// If there are no packets, more than [`MAX_PACKETS`], or one is longer than [`MAX_BYTES`].
pub fn encode<'a>(
    kernel: &Kernel,
    first: u64,
    packets: impl ExactSizeIterator<Item = &'a [u8]>,
    seed: u8,
    out: &mut Vec<u8>,
) {
    assert!((1..=MAX_PACKETS).contains(&packets.len()), "a coded packet of {} packets", packets.len());
    let mut sum = Sum::default();
    for (number, packet) in (first..).zip(packets) {
        assert!(packet.len() <= MAX_BYTES, "a packet of {} bytes", packet.len());
        sum.add(kernel, packet, coefficient(number, seed));
    }
    out.extend_from_slice(&sum.0);
}

/// A packet that was lost and is here all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Its number.
    pub number: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Why a coded packet is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No packets, or more than [`MAX_PACKETS`].
    #[error("a coded packet of {0} packets")]
    Count(usize),
    /// Some of its packets are not remembered any more, or their numbers are beyond all numbers.
    #[error("a coded packet of packets that are not remembered")]
    Forgotten,
    /// It is shorter than one of its packets, or longer than any.
    #[error("a coded packet of {0} bytes")]
    Length(usize),
    /// It says otherwise than what has come.
    #[error("a coded packet that contradicts what has come")]
    Contradicts,
}

/// An equation: the sum of some packets that have not come.
#[derive(Clone, Debug)]
struct Equation {
    /// Of the packets from the decoder's lowest on. The first that is not zero is one, and its packet is in no other equation.
    coefficients: Vec<u8>,
    sum: Sum,
}

impl Equation {
    /// The place of the packet that it is solved for; none if it says nothing.
    fn pivot(&self) -> Option<usize> {
        self.coefficients.iter().position(|by| *by != 0)
    }

    /// Takes another one, times what makes its packet at this place vanish from this one.
    fn clear(&mut self, kernel: &Kernel, at: usize, other: &Equation) {
        let by = self.coefficients[at];
        if by != 0 {
            kernel.multiply_add(&mut self.coefficients, &other.coefficients, by);
            self.sum.add_sum(kernel, &other.sum, by);
        }
    }

    /// Makes its first coefficient one.
    fn normalize(&mut self, kernel: &Kernel, pivot: usize) {
        let by = inverse(self.coefficients[pivot]);
        kernel.multiply(&mut self.coefficients, by);
        kernel.multiply(&mut self.sum.0, by);
    }
}

/// Takes what comes of packets and coded packets, and tells what was lost. It holds no more than 256 packets and as many equations.
#[derive(Clone, Debug)]
pub struct Decoder {
    kernel: Kernel,
    /// The number of the first of `known`.
    lowest: u64,
    /// Packets that have come, or are recovered.
    known: VecDeque<Option<Vec<u8>>>,
    /// Bytes of all of them.
    known_bytes: usize,
    equations: Vec<Equation>,
    /// Memory of packets that are not remembered any more.
    spare: Spare,
}

impl Decoder {
    /// One to which nothing has come, of packets whose numbers begin with `first`.
    pub fn new(first: u64) -> Self {
        let (known, equations) = Default::default();
        let spare = Spare::new(MOST_SPARE);
        Decoder { kernel: Kernel::best(), lowest: first, known, known_bytes: 0, equations, spare }
    }

    /// A packet has come. Appends those that are known by that.
    pub fn on_packet(&mut self, number: u64, bytes: &[u8], recovered: &mut Vec<Recovered>) {
        if bytes.len() > MAX_BYTES || !self.reach(number) {
            return;
        }
        let packet = self.spare.copy(bytes);
        self.learn((number - self.lowest) as usize, packet);
        self.recover(recovered);
    }

    /// A coded packet has come, of `count` packets from `first` on. Appends those that are known by that.
    ///
    /// # Errors
    /// [`Refused`]: it is of no use.
    pub fn on_coded(
        &mut self,
        first: u64,
        count: usize,
        seed: u8,
        bytes: &[u8],
        recovered: &mut Vec<Recovered>,
    ) -> Result<(), Refused> {
        if !(1..=MAX_PACKETS).contains(&count) {
            return Err(Refused::Count(count));
        }
        if !(LENGTH_BYTES..=LENGTH_BYTES + MAX_BYTES).contains(&bytes.len()) {
            return Err(Refused::Length(bytes.len()));
        }
        let last = first.checked_add(count as u64 - 1).ok_or(Refused::Forgotten)?;
        if first < self.lowest || !self.reach(last) {
            return Err(Refused::Forgotten);
        }
        let mut equation = Equation { coefficients: vec![0; self.known.len()], sum: Sum(bytes.to_vec()) };
        for number in first..=last {
            let (at, by) = ((number - self.lowest) as usize, coefficient(number, seed));
            match &self.known[at] {
                Some(packet) if LENGTH_BYTES + packet.len() > bytes.len() => {
                    return Err(Refused::Length(bytes.len()));
                }
                Some(packet) => equation.sum.add(&self.kernel, packet, by),
                None => equation.coefficients[at] = by,
            }
        }
        for other in &self.equations {
            if let Some(at) = other.pivot() {
                equation.clear(&self.kernel, at, other);
            }
        }
        self.insert(equation)?;
        self.recover(recovered);
        Ok(())
    }

    /// Packets below this number are of no interest any more.
    pub fn forget_below(&mut self, number: u64) {
        while self.lowest < number {
            let Some(first) = self.known.pop_front() else {
                self.lowest = number;
                break;
            };
            if let Some(bytes) = first {
                self.known_bytes -= bytes.len();
                self.spare.give(bytes);
            }
            self.lowest += 1;
            // It is the first of all, so that only what is solved for it knows it.
            self.equations.retain_mut(|equation| equation.coefficients.remove(0) == 0);
        }
        if self.known.is_empty() {
            // It may be idle for long.
            self.spare.free();
        }
        spare::shrink(&mut self.known);
    }

    /// Nothing may come for long: frees what is kept for that.
    pub fn rest(&mut self) {
        self.spare.free();
    }

    /// Bytes that it holds.
    pub fn held_bytes(&self) -> usize {
        let equations = self.equations.iter().map(|one| one.coefficients.len() + one.sum.0.len());
        self.known_bytes + equations.sum::<usize>()
    }

    /// Makes room for what is known of a packet. Whether there is: not if its number is too low.
    fn reach(&mut self, number: u64) -> bool {
        if number < self.lowest {
            return false;
        }
        self.forget_below(number.saturating_sub(REMEMBERED - 1));
        let len = (number - self.lowest) as usize + 1;
        if self.known.len() < len {
            self.known.resize(len, None);
            self.equations.iter_mut().for_each(|equation| equation.coefficients.resize(len, 0));
        }
        true
    }

    /// Adds an equation in which no packet is that others are solved for, and solves it for its first.
    fn insert(&mut self, mut equation: Equation) -> Result<(), Refused> {
        let Some(pivot) = equation.pivot() else {
            let is_zero = equation.sum.0.iter().all(|byte| *byte == 0);
            return if is_zero { Ok(()) } else { Err(Refused::Contradicts) };
        };
        equation.normalize(&self.kernel, pivot);
        for other in &mut self.equations {
            other.clear(&self.kernel, pivot, &equation);
        }
        self.equations.push(equation);
        Ok(())
    }

    /// A packet is known, and put into what equations say.
    fn learn(&mut self, at: usize, bytes: Vec<u8>) {
        if self.known[at].is_some() {
            return;
        }
        let mut unsolved = None;
        let mut n = 0;
        while let Some(equation) = self.equations.get_mut(n) {
            let is_pivot = equation.pivot() == Some(at);
            let by = std::mem::take(&mut equation.coefficients[at]);
            if by != 0 {
                equation.sum.add(&self.kernel, &bytes, by);
            }
            if is_pivot {
                unsolved = Some(self.equations.swap_remove(n));
            } else {
                n += 1;
            }
        }
        self.known_bytes += bytes.len();
        self.known[at] = Some(bytes);
        if let Some(equation) = unsolved {
            // If it contradicts what has come, it is of no use, nor of harm.
            let _ = self.insert(equation);
        }
    }

    /// Takes the packets of which equations are about nothing else.
    fn recover(&mut self, recovered: &mut Vec<Recovered>) {
        let is_solved = |one: &Equation| one.coefficients.iter().filter(|by| **by != 0).count() == 1;
        while let Some(n) = self.equations.iter().position(is_solved) {
            let equation = self.equations.swap_remove(n);
            if let (Some(at), Some(bytes)) = (equation.pivot(), equation.sum.into_packet()) {
                self.learn(at, bytes.clone());
                recovered.push(Recovered { number: self.lowest + at as u64, bytes });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Random;
    use crate::gf256::multiply;

    fn packets(random: &mut Random, count: usize) -> Vec<Vec<u8>> {
        (0..count)
            .map(|_| {
                let len = random.below(90) as usize;
                (0..len).map(|_| random.bits() as u8).collect()
            })
            .collect()
    }

    fn coded(first: u64, packets: &[Vec<u8>], seed: u8) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&Kernel::best(), first, packets.iter().map(Vec::as_slice), seed, &mut out);
        out
    }

    #[test]
    fn a_coded_packet_is_the_sum_that_it_says() {
        let sent = [vec![1, 2, 3], vec![], vec![9]];
        let expected = |at: usize, column: u64| {
            let rows = [[0, 3, 1, 2, 3], [0, 0, 0, 0, 0], [0, 1, 9, 0, 0]];
            multiply(rows[column as usize][at], coefficient(7 + column, 4))
        };
        let sums: Vec<u8> =
            (0..5).map(|at| (0..3).fold(0, |sum, column| sum ^ expected(at, column))).collect();
        assert_eq!(coded(7, &sent, 4), sums);
    }

    #[test]
    fn what_is_of_no_use_is_refused_and_does_no_harm() {
        let sent = packets(&mut Random::new(3), 4);
        let mut decoder = Decoder::new(100);
        let mut recovered = Vec::new();
        let mut refused = |first, count, bytes: &[u8]| {
            decoder.on_coded(first, count, 1, bytes, &mut recovered).unwrap_err()
        };
        assert_eq!(refused(100, 0, &[0; 9]), Refused::Count(0));
        assert_eq!(refused(100, 33, &[0; 9]), Refused::Count(33));
        assert_eq!(refused(100, 1, &[0]), Refused::Length(1));
        assert_eq!(refused(99, 1, &[0; 9]), Refused::Forgotten);
        assert_eq!(refused(u64::MAX, 2, &[0; 9]), Refused::Forgotten);
        for (number, packet) in (100..).zip(&sent) {
            decoder.on_packet(number, packet, &mut recovered);
        }
        let longest = sent.iter().map(Vec::len).max().unwrap();
        assert_eq!(
            decoder.on_coded(100, 4, 1, &vec![0; longest + 1], &mut recovered),
            Err(Refused::Length(longest + 1))
        );
        let mut wrong = coded(100, &sent, 1);
        assert_eq!(decoder.on_coded(100, 4, 1, &wrong, &mut recovered), Ok(()), "it says nothing new");
        wrong[0] ^= 1;
        assert_eq!(decoder.on_coded(100, 4, 1, &wrong, &mut recovered), Err(Refused::Contradicts));
        decoder.on_packet(99, b"too old", &mut recovered);
        assert_eq!(recovered, []);
    }

    #[test]
    fn a_number_that_is_far_ahead_costs_neither_time_nor_memory() {
        let mut decoder = Decoder::new(0);
        let mut recovered = Vec::new();
        for number in [0, 40, 1 << 40, u64::MAX] {
            decoder.on_packet(number, &[1; 100], &mut recovered);
        }
        assert!(decoder.held_bytes() < REMEMBERED as usize * 100);
        assert_eq!(decoder.known.len(), REMEMBERED as usize);
    }

    /// What is lost of a run of packets and coded packets, and what of it overlaps.
    #[derive(Clone, Debug)]
    struct Run {
        seed: u64,
        first: u64,
        count: usize,
        lost: Vec<usize>,
        shuffle: u64,
    }

    fn run() -> impl Strategy<Value = Run> {
        (any::<u64>(), prop_oneof![0..300_u64, any::<u64>().prop_map(|first| first >> 1)], 1..=MAX_PACKETS)
            .prop_flat_map(|(seed, first, count)| {
                let lost = proptest::collection::btree_set(0..count, 0..=count);
                (lost, any::<u64>()).prop_map(move |(lost, shuffle)| Run {
                    seed,
                    first,
                    count,
                    lost: lost.into_iter().collect(),
                    shuffle,
                })
            })
    }

    proptest! {
        /// As many coded packets as packets are lost bring them all back, in whatever order all of that comes, and one less brings none
        /// of them: each is of all.
        #[test]
        fn any_coded_packets_make_up_for_as_many_lost_ones(run in run()) {
            let mut random = Random::new(run.seed);
            let sent = packets(&mut random, run.count);
            let mut coming: Vec<(usize, Option<u8>)> =
                (0..run.count).filter(|n| !run.lost.contains(n)).map(|n| (n, None)).collect();
            let seed = random.bits() as u8;
            coming.extend((0..run.lost.len()).map(|n| (0, Some(seed.wrapping_add(n as u8)))));
            coming.sort_by_key(|(n, coded)| (*n as u64 + coded.map_or(0, |seed| 100 + u64::from(seed))).wrapping_mul(run.shuffle | 1));
            let mut decoder = Decoder::new(run.first);
            let mut recovered = Vec::new();
            for (at, (n, seed)) in coming.iter().enumerate() {
                match seed {
                    None => decoder.on_packet(run.first + *n as u64, &sent[*n], &mut recovered),
                    Some(seed) => {
                        let bytes = coded(run.first, &sent, *seed);
                        prop_assert_eq!(decoder.on_coded(run.first, run.count, *seed, &bytes, &mut recovered), Ok(()));
                    }
                }
                // All but the last leave something open.
                prop_assert!(recovered.is_empty() || at + 1 == coming.len());
            }
            recovered.sort_by_key(|one| one.number);
            let expected: Vec<Recovered> = run
                .lost
                .iter()
                .map(|n| Recovered { number: run.first + *n as u64, bytes: sent[*n].clone() })
                .collect();
            prop_assert_eq!(recovered, expected);
            prop_assert!(decoder.equations.is_empty());
        }

        /// Windows that move on and overlap: what is recovered is what was sent, once each, and what a solver of all equations at once
        /// would know is known.
        #[test]
        fn what_can_be_known_of_windows_that_overlap_is_known(seed in any::<u64>(), loss in 0.0..0.6_f64) {
            let mut random = Random::new(seed);
            let sent = packets(&mut random, 150);
            let is_lost = |random: &mut Random| f64::from(random.bits()) < loss * f64::from(u32::MAX);
            let mut decoder = Decoder::new(0);
            let mut here = std::collections::BTreeSet::new();
            let mut equations: Vec<(u64, usize, u8)> = Vec::new();
            let mut recovered = Vec::new();
            for number in 0..sent.len() {
                if !is_lost(&mut random) {
                    here.insert(number as u64);
                    decoder.on_packet(number as u64, &sent[number], &mut recovered);
                }
                if random.below(3) == 0 {
                    let count = 1 + random.below(MAX_PACKETS.min(number + 1) as u32) as usize;
                    let (first, seed) = (number + 1 - count, random.bits() as u8);
                    let bytes = coded(first as u64, &sent[first..=number], seed);
                    if !is_lost(&mut random) {
                        prop_assert_eq!(decoder.on_coded(first as u64, count, seed, &bytes, &mut recovered), Ok(()));
                        equations.push((first as u64, count, seed));
                    }
                }
                for Recovered { number, bytes } in recovered.drain(..) {
                    prop_assert_eq!(&bytes, &sent[number as usize]);
                    prop_assert!(here.insert(number), "{} was here", number);
                }
            }
            // Of the last windows, which nothing was forgotten of, all is known that follows from them.
            let unknown: Vec<u64> = (decoder.lowest..sent.len() as u64).filter(|number| !here.contains(number)).collect();
            let rows: Vec<Vec<u8>> = equations
                .iter()
                .filter(|(first, ..)| *first >= decoder.lowest)
                .map(|(first, count, seed)| {
                    let is_in = |number: &u64| (*first..first + *count as u64).contains(number);
                    unknown.iter().map(|number| if is_in(number) { coefficient(*number, *seed) } else { 0 }).collect()
                })
                .collect();
            for (at, number) in unknown.iter().enumerate() {
                prop_assert!(!follows(&rows, at), "{} could be known", number);
            }
        }
    }

    /// Whether the unknown at this place follows from equations: whether the rank is the same with it alone as one more.
    fn follows(rows: &[Vec<u8>], at: usize) -> bool {
        let unit = (0..rows.first().map_or(0, Vec::len)).map(|n| u8::from(n == at)).collect();
        let with: Vec<Vec<u8>> = rows.iter().cloned().chain([unit]).collect();
        !rows.is_empty() && rank(with) == rank(rows.to_vec())
    }

    fn rank(mut rows: Vec<Vec<u8>>) -> usize {
        let mut rank = 0;
        for column in 0..rows.first().map_or(0, Vec::len) {
            let Some(found) = (rank..rows.len()).find(|row| rows[*row][column] != 0) else { continue };
            rows.swap(rank, found);
            for row in rank + 1..rows.len() {
                let by = multiply(rows[row][column], inverse(rows[rank][column]));
                let pivot = rows[rank].clone();
                rows[row].iter_mut().zip(pivot).for_each(|(a, b)| *a ^= multiply(b, by));
            }
            rank += 1;
        }
        rank
    }
}
