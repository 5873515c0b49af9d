//! The row interface under all codes: constraints, intermediate columns, parity.

mod common;

use common::{Naive, bytes};
use proptest::prelude::*;
use weir_codec::solver::{MAX_COLUMNS, Progress, Solver};
use weir_codec::{Error, Random};

const SYMBOL_BYTES: usize = 24;
// An interpreter takes seconds for what a processor does in microseconds.
const MOST_COLUMNS: u16 = if cfg!(miri) { 16 } else { 80 };
const REPEATED: usize = if cfg!(miri) { 100 } else { 100_000 };

fn sum(values: &[u8], columns: &[u16]) -> Vec<u8> {
    let mut sum = vec![0; SYMBOL_BYTES];
    for &column in columns {
        let from = usize::from(column) * SYMBOL_BYTES;
        sum.iter_mut().zip(&values[from..]).for_each(|(sum, byte)| *sum ^= byte);
    }
    sum
}

fn some_columns(random: &mut Random, below: u16, most: u32) -> Vec<u16> {
    let mut columns: Vec<u16> = (0..=random.below(most)).map(|_| random.below(below.into()) as u16).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

proptest! {
    /// As in Raptor codes: the last columns are sums of source symbols, said by rows whose payload is zero.
    #[test]
    fn constraints_count_like_symbols(seed: u64, k in 2..MOST_COLUMNS, extra in 1..MOST_COLUMNS * 3 / 8, first: bool) {
        let mut random = Random::new(seed);
        let columns = k + extra;
        let mut values = bytes(seed, usize::from(k) * SYMBOL_BYTES);
        let constraints: Vec<Vec<u16>> = (k..columns).map(|column| {
            let mut row = some_columns(&mut random, k, 9);
            values.extend(sum(&values, &row));
            row.push(column);
            row
        }).collect();

        let mut solver = Solver::new(columns.into(), SYMBOL_BYTES).unwrap();
        let mut naive = Naive::new(columns.into());
        let mut early = constraints.iter().filter(|_| first);
        let mut late = constraints.iter().filter(|_| !first);
        let mut progress = Progress::Needs(columns.into());
        for _ in 0..4 * usize::from(columns) {
            let (row, payload) = match early.next() {
                Some(row) => (row.clone(), None),
                None => {
                    let row = some_columns(&mut random, columns, 6);
                    let payload = sum(&values, &row);
                    (row, Some(payload))
                }
            };
            let rows = std::iter::once((row, payload)).chain(late.next().map(|row| (row.clone(), None)));
            for (row, payload) in rows {
                naive.push(&row, payload.as_deref().unwrap_or(&[0; SYMBOL_BYTES]));
                progress = solver.push(&row, payload.as_deref()).unwrap();
                prop_assert_eq!(progress == Progress::Complete, naive.rank() == columns.into());
            }
        }
        prop_assert_eq!(progress == Progress::Complete, solver.values().is_some());
        if let Some(solved) = solver.values() {
            prop_assert_eq!(solved, &values[..]);
        }
    }

    #[test]
    fn a_column_that_is_in_a_row_twice_cancels_out(seed: u64, k in 1..MOST_COLUMNS / 2) {
        let mut random = Random::new(seed);
        let values = bytes(seed, usize::from(k) * SYMBOL_BYTES);
        let mut solver = Solver::new(k.into(), SYMBOL_BYTES).unwrap();
        let mut naive = Naive::new(k.into());
        for _ in 0..4 * k {
            let row: Vec<u16> = (0..random.below(7)).map(|_| random.below(k.into()) as u16).collect();
            let payload = sum(&values, &row);
            naive.push(&row, &payload);
            let progress = solver.push(&row, Some(&payload)).unwrap();
            prop_assert_eq!(progress == Progress::Complete, naive.rank() == k.into());
        }
        if let Some(solved) = solver.into_values() {
            prop_assert_eq!(solved, values);
        }
    }
}

#[test]
fn a_parity_symbol_replaces_any_symbol_it_protects() {
    let values = bytes(1, 5 * SYMBOL_BYTES);
    for lost in 0..5 {
        let mut solver = Solver::new(5, SYMBOL_BYTES).unwrap();
        for column in (0..5).filter(|&column| column != lost) {
            solver.push(&[column], Some(&sum(&values, &[column]))).unwrap();
        }
        let parity = [0, 1, 2, 3, 4];
        assert_eq!(solver.push(&parity, Some(&sum(&values, &parity))).unwrap(), Progress::Complete);
        assert_eq!(solver.values(), Some(&values[..]));
    }
}

#[test]
fn a_dense_system_is_solved_too() {
    // Nothing peels here: nearly all columns become inactive, in more than one word of them.
    let (columns, mut random) = (150u16, Random::new(3));
    let values = bytes(2, usize::from(columns) * SYMBOL_BYTES);
    let mut solver = Solver::new(columns.into(), SYMBOL_BYTES).unwrap();
    let mut rows = 0;
    while solver.values().is_none() {
        let row: Vec<u16> = (0..columns).filter(|_| random.below(2) == 0).collect();
        solver.push(&row, Some(&sum(&values, &row))).unwrap();
        rows += 1;
        assert!(rows < 200);
    }
    assert!(solver.inactive_columns() > 128);
    assert_eq!(solver.values(), Some(&values[..]));
}

#[test]
fn rows_that_depend_on_others_are_not_kept_however_many_come() {
    let mut solver = Solver::new(4, SYMBOL_BYTES).unwrap();
    let payload = [7; SYMBOL_BYTES];
    for _ in 0..4 {
        solver.push(&[0, 1], Some(&payload)).unwrap();
    }
    for _ in 0..REPEATED {
        assert_eq!(solver.push(&[0, 1], Some(&payload)).unwrap(), Progress::Needs(3));
    }
    assert_eq!(solver.push(&[], Some(&payload)).unwrap(), Progress::Needs(3));
    for (row, needs) in [([1, 2], 2), ([2, 3], 1)] {
        assert_eq!(solver.push(&row, Some(&payload)).unwrap(), Progress::Needs(needs));
    }
    assert_eq!(solver.push(&[3], None).unwrap(), Progress::Complete);
    let expected = [payload, [0; SYMBOL_BYTES], payload, [0; SYMBOL_BYTES]].concat();
    assert_eq!(solver.push(&[0], Some(&payload)).unwrap(), Progress::Complete);
    assert_eq!(solver.values(), Some(&expected[..]));
}

#[test]
fn what_is_outside_the_limits_is_refused() {
    assert_eq!(Solver::new(0, 8).unwrap_err(), Error::Columns(0));
    assert_eq!(Solver::new(MAX_COLUMNS + 1, 8).unwrap_err(), Error::Columns(MAX_COLUMNS + 1));
    assert_eq!(Solver::new(8, 0).unwrap_err(), Error::SymbolBytes(0));
    let mut solver = Solver::new(8, 4).unwrap();
    assert_eq!(solver.push(&[1, 8], None).unwrap_err(), Error::Column { column: 8, columns: 8 });
    let error = solver.push(&[1], Some(&[0; 5])).unwrap_err();
    assert_eq!(error, Error::PayloadBytes { bytes: 5, expected: 4 });
    assert_eq!(solver.push(&[1], None).unwrap(), Progress::Needs(7));
    assert_eq!((solver.columns(), solver.symbol_bytes()), (8, 4));
}
