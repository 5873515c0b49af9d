//! Seeds whose first k rows are independent: without loss, k coded symbols then suffice.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::solver::System;
use crate::{Draw, RobustSoliton, Rows};

/// So many seeds are tried before the best of them is taken.
const TRIALS: u64 = 256;

/// And fewer where a trial takes longer, as the square of k: 16 of 1,024 symbols, one from 4,096 on, which is no trial.
/// A peer may ask for any k, and must not stop a server for a second by it; of large blocks the few symbols that a
/// better seed saves are a small part.
const TRIALS_BY_K_SQUARED: u64 = 1 << 24;

/// So many answers are remembered.
const MEMORY: usize = 4096;

type Question = (u16, Draw, u64);

static ANSWERS: LazyLock<Mutex<HashMap<Question, u64>>> = LazyLock::new(Mutex::default);

/// The first seed from `start` on whose first `k` rows are independent; if a bounded search finds none, the one
/// among those tried whose first `k` rows have the greatest rank. Answers are remembered.
///
/// It says nothing about security: `start` is public, and so is the seed. A `k` outside the codec's limits gives
/// `start`, with which [`Rows::new`] fails.
pub fn choose_seed(k: u16, draw: Draw, start: u64) -> u64 {
    let question = (k, draw, start);
    let answers = || ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&seed) = answers().get(&question) {
        return seed;
    }
    let Ok(distribution) = RobustSoliton::paper(k) else { return start };
    let seed = search(k, draw, start, &distribution);
    let mut answers = answers();
    if answers.len() >= MEMORY {
        answers.clear();
    }
    answers.insert(question, seed);
    seed
}

fn search(k: u16, draw: Draw, start: u64, distribution: &RobustSoliton) -> u64 {
    let mut system = System::new(k.into());
    let (mut best, mut least_missing) = (start, u32::MAX);
    let trials = (TRIALS_BY_K_SQUARED / u64::from(k).pow(2)).clamp(1, TRIALS);
    if trials == 1 {
        return start;
    }
    for seed in (0..trials).map(|trial| start.wrapping_add(trial)) {
        let Ok(rows) = Rows::with_distribution(k, draw, seed, distribution) else { break };
        system.reset(k.into());
        for index in 0..u32::from(k) {
            system.push(rows.row(index));
        }
        if system.needs() < least_missing {
            (best, least_missing) = (seed, system.needs());
        }
        if least_missing == 0 {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_k_rows_of_a_chosen_seed_are_independent() {
        for k in [1, 2, 8, 64, 128, 256, 500] {
            let seed = choose_seed(k, Draw::Dealt, 1000);
            assert!((1000..1000 + TRIALS).contains(&seed));
            let rows = Rows::new(k, Draw::Dealt, seed).unwrap();
            let mut system = System::new(k.into());
            (0..u32::from(k)).for_each(|index| {
                system.push(rows.row(index));
            });
            assert_eq!(system.needs(), 0, "k = {k}, seed {seed}");
            assert_eq!(choose_seed(k, Draw::Dealt, 1000), seed);
            assert_eq!(choose_seed(k, Draw::Dealt, seed), seed);
        }
    }

    #[test]
    fn a_search_that_finds_none_gives_the_best_and_never_fails() {
        // Independent draws leave some source symbol out nearly always.
        let seed = choose_seed(256, Draw::Independent, u64::MAX - 3);
        assert!(seed.wrapping_sub(u64::MAX - 3) < TRIALS);
        assert_eq!(choose_seed(0, Draw::Dealt, 5), 5);
        assert_eq!(choose_seed(u16::MAX, Draw::Dealt, 5), 5);
    }
}
