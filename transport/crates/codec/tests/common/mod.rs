//! What the tests share: bytes from a seed, and Gaussian elimination as one would do it by hand.

#![allow(dead_code)] // Each test uses a part of it.

use std::sync::Arc;

use weir_codec::{Draw, Encoder, Random, Rows};

pub const DRAWS: [Draw; 3] = [Draw::Independent, Draw::Dealt, Draw::Raptor];

pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..len).map(|_| random.next() as u8).collect()
}

pub fn shuffle<T>(seed: u64, items: &mut [T]) {
    let mut random = Random::new(seed);
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u32 + 1) as usize);
    }
}

/// Every coded symbol of a block that was asked for.
pub fn coded(source: &[u8], symbol_bytes: usize, rows: &Rows, indices: &[u32]) -> Vec<(u32, Vec<u8>)> {
    let mut encoder = Encoder::new(Arc::from(source), symbol_bytes, rows.clone()).unwrap();
    let symbol = |&index: &u32| {
        let mut payload = vec![0xee; symbol_bytes];
        encoder.encode(index, &mut payload).unwrap();
        (index, payload)
    };
    indices.iter().map(symbol).collect()
}

/// Gauss-Jordan elimination over GF(2), a row and its payload at a time.
pub struct Naive {
    columns: usize,
    pivots: Vec<Option<(Vec<bool>, Vec<u8>)>>,
}

impl Naive {
    pub fn new(columns: usize) -> Self {
        Naive { columns, pivots: vec![None; columns] }
    }

    pub fn push(&mut self, columns: &[u16], payload: &[u8]) {
        let mut row = vec![false; self.columns];
        columns.iter().for_each(|&column| row[usize::from(column)] ^= true);
        let mut payload = payload.to_vec();
        for pivot in 0..self.columns {
            if !row[pivot] {
                continue;
            }
            match &self.pivots[pivot] {
                Some(other) => add(&mut row, &mut payload, other),
                None => {
                    self.pivots[pivot] = Some((row, payload));
                    return;
                }
            }
        }
    }

    pub fn rank(&self) -> usize {
        self.pivots.iter().flatten().count()
    }

    pub fn values(mut self) -> Option<Vec<u8>> {
        for pivot in (0..self.columns).rev() {
            let (mut row, mut payload) = self.pivots[pivot].take()?;
            for other in pivot + 1..self.columns {
                if row[other] {
                    add(&mut row, &mut payload, self.pivots[other].as_ref()?);
                }
            }
            self.pivots[pivot] = Some((row, payload));
        }
        Some(self.pivots.into_iter().flatten().flat_map(|(_, payload)| payload).collect())
    }
}

fn add(row: &mut [bool], payload: &mut [u8], other: &(Vec<bool>, Vec<u8>)) {
    row.iter_mut().zip(&other.0).for_each(|(a, b)| *a ^= b);
    payload.iter_mut().zip(&other.1).for_each(|(a, b)| *a ^= b);
}
