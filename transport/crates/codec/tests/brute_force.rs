//! The codes and both decoders against what they are defined to be, written down a second time: degrees by Eq. 1-3 of the
//! LTTP paper with plain floats, rank by Gaussian elimination, Algorithm 2 by peeling until nothing changes.

mod common;

use common::{Naive, bytes, coded};
use weir_codec::overhead::{Strategy, extra_symbols};
use weir_codec::paper::ImprovedDecoder;
use weir_codec::{Decoder, Draw, Family, Progress, Random, Rows, Soliton, max_symbols};

/// The paper's parameters, and some that it tries.
const PARAMETERS: [(f64, f64); 5] = [(0.2, 0.7), (0.05, 0.5), (0.1, 0.1), (1.0, 0.9), (2.0, 0.5)];

fn soliton(c: f64, delta: f64) -> Soliton {
    Soliton::new(c, delta).unwrap()
}

/// All rows again and again, until none has exactly one column that is not known.
fn peel(k: usize, rows: &[&[u16]]) -> usize {
    let mut known = vec![false; k];
    loop {
        let before = known.iter().filter(|k| **k).count();
        for row in rows {
            let unknown: Vec<u16> =
                row.iter().copied().filter(|column| !known[usize::from(*column)]).collect();
            if let [column] = unknown[..] {
                known[usize::from(column)] = true;
            }
        }
        let now = known.iter().filter(|k| **k).count();
        if now == before {
            return now;
        }
    }
}

#[test]
fn decoders_are_done_with_exactly_the_symbols_that_rank_and_peeling_need() {
    for draw in [Draw::Independent, Draw::Dealt] {
        for (c, delta) in PARAMETERS {
            for (k, seed) in [(1, 1), (5, 2), (33, 3), (64, 4), (100, 5), (100, 6)] {
                let rows = Rows::new(k, Family { draw, soliton: soliton(c, delta) }, seed).unwrap();
                let source = bytes(seed, usize::from(k) * 2);
                let mut random = Random::new(seed);
                let arrive: Vec<u32> =
                    (0..max_symbols(k)).filter(|_| !random.bits().is_multiple_of(4)).collect();
                let symbols = coded(&source, 2, &rows, &arrive);
                let mut elimination = Naive::new(k.into());
                let mut by_rank = Decoder::new(2, rows.clone()).unwrap();
                let mut by_peeling = ImprovedDecoder::new(2, rows.clone()).unwrap();
                let mut taken = Vec::new();
                for (index, payload) in &symbols {
                    taken.push(rows.row(*index));
                    elimination.push(rows.row(*index), payload);
                    let whole = elimination.rank() == usize::from(k);
                    let what = (draw, c, delta, k, taken.len());
                    let done = by_rank.push(*index, payload) == Ok(Progress::Complete);
                    assert_eq!(done, whole, "{what:?} by rank");
                    let done = by_peeling.push(*index, payload) == Ok(Progress::Complete);
                    assert_eq!(by_peeling.restored(), peel(k.into(), &taken), "{what:?} by peeling");
                    assert_eq!(done, by_peeling.restored() == usize::from(k));
                    if done {
                        assert!(whole, "{what:?}: peeling needs no fewer than rank");
                        break;
                    }
                }
                for restored in [by_rank.source(), by_peeling.source()].into_iter().flatten() {
                    assert_eq!(restored, source);
                }
            }
        }
    }
}

/// Eq. 1-3, as they stand.
fn degrees(k: usize, c: f64, delta: f64) -> Vec<f64> {
    let size = k as f64;
    let r = c * size.sqrt() * (size / delta).ln();
    let spike = ((size / r).round() as usize).clamp(1, k);
    let weight = |i: usize| {
        let rho = if i == 1 { 1.0 / size } else { 1.0 / (i * (i - 1)) as f64 };
        let tau = match i.cmp(&spike) {
            std::cmp::Ordering::Less => r / (i as f64 * size),
            std::cmp::Ordering::Equal => (r * (r / delta).ln() / size).max(0.0),
            std::cmp::Ordering::Greater => 0.0,
        };
        rho + tau
    };
    let weights: Vec<f64> = (1..=k).map(weight).collect();
    let beta: f64 = weights.iter().sum();
    weights.iter().map(|w| w / beta).collect()
}

/// Symbols beyond k that a block of random rows needs, by rank and by peeling: mean and standard error of both, in
/// percent of k.
fn brute_force(k: usize, c: f64, delta: f64, trials: u64) -> [(f64, f64); 2] {
    let pmf = degrees(k, c, delta);
    let mut random = Random::new(99);
    let mut fraction = || f64::from(random.bits()) / 4_294_967_296.0;
    let (mut by_rank, mut by_peeling) = (Vec::new(), Vec::new());
    for _ in 0..trials {
        let mut elimination = Naive::new(k);
        let mut rows: Vec<Vec<u16>> = Vec::new();
        let mut ranked = None;
        while rows.len() < max_symbols(k as u16) as usize {
            let mut left = fraction();
            let degree = 1 + pmf
                .iter()
                .take_while(|p| {
                    left -= **p;
                    left >= 0.0
                })
                .count();
            let mut columns: Vec<u16> = (0..k as u16).collect();
            let row: Vec<u16> = (0..degree.min(k))
                .map(|_| columns.swap_remove((fraction() * columns.len() as f64) as usize))
                .collect();
            elimination.push(&row, &[]);
            let whole = elimination.rank() == k;
            rows.push(row);
            ranked = ranked.or(whole.then_some(rows.len()));
            let all: Vec<&[u16]> = rows.iter().map(Vec::as_slice).collect();
            if whole && peel(k, &all) == k {
                break;
            }
        }
        by_rank.push(percent(ranked.unwrap_or(rows.len()) - k, k));
        by_peeling.push(percent(rows.len() - k, k));
    }
    [statistics(&by_rank), statistics(&by_peeling)]
}

fn percent(extra: usize, k: usize) -> f64 {
    100.0 * extra as f64 / k as f64
}

fn statistics(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

#[test]
fn the_overhead_is_that_of_rows_drawn_by_the_equations() {
    for (c, delta) in PARAMETERS {
        let k = 64;
        let expected = brute_force(k, c, delta, 250);
        let family = Family { draw: Draw::Independent, soliton: soliton(c, delta) };
        for (strategy, (mean, error)) in [Strategy::Rank, Strategy::Improved].into_iter().zip(expected) {
            let extra = extra_symbols(k as u16, family, strategy, 0.0, 0..600).unwrap();
            let extra: Vec<f64> = extra.iter().map(|n| percent(*n as usize, k)).collect();
            let (ours, our_error) = statistics(&extra);
            println!("c {c}, delta {delta}, {strategy:?}: {ours:.1} %, by brute force {mean:.1} %");
            assert!((ours - mean).abs() < 4.0 * error.hypot(our_error), "c {c}, delta {delta}, {strategy:?}");
        }
    }
}
