//! Seeds whose first k rows are independent: without loss, k coded symbols then suffice.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::solver::System;
use crate::{Code, Draw};

/// So many seeds are tried before the best of them is taken.
const TRIALS: u64 = 256;

/// And fewer where a trial takes longer, as the square of k: 16 of 1,024 symbols, one from 4,096 on, which is no trial.
/// A peer may ask for any k, and must not stop a server for a second by it; of large blocks the few symbols that a
/// better seed saves are a small part.
const TRIALS_BY_K_SQUARED: u64 = 1 << 24;

/// So many answers are remembered: those of every k that there is, with every draw. A process that always starts from the
/// same seed never searches twice, whatever its peers ask for.
const MEMORY: usize = 3 << 13;

type Question = (u16, Draw, u64);

static ANSWERS: LazyLock<Mutex<HashMap<Question, u64>>> = LazyLock::new(Mutex::default);

fn answers() -> MutexGuard<'static, HashMap<Question, u64>> {
    ANSWERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether [`choose_seed`] remembers its answer, and takes no time.
pub fn remembers_seed(k: u16, draw: Draw, start: u64) -> bool {
    answers().contains_key(&(k, draw, start))
}

/// The first seed from `start` on whose first `k` rows are independent; if a bounded search finds none, the one
/// among those tried whose first `k` rows have the greatest rank. Answers are remembered.
///
/// It says nothing about security: `start` is public, and so is the seed. A `k` outside the codec's limits gives
/// `start`, with which [`Rows::new`] fails.
pub fn choose_seed(k: u16, draw: Draw, start: u64) -> u64 {
    let question = (k, draw, start);
    if let Some(&seed) = answers().get(&question) {
        return seed;
    }
    let Ok(code) = Code::new(k, draw) else { return start };
    let seed = search(&code, start);
    let mut answers = answers();
    if answers.len() >= MEMORY {
        answers.clear();
    }
    answers.insert(question, seed);
    seed
}

fn search(code: &Code, start: u64) -> u64 {
    let k = code.k();
    let (mut best, mut least_missing) = (start, u32::MAX);
    let trials = (TRIALS_BY_K_SQUARED / u64::from(k).pow(2)).clamp(1, TRIALS);
    if trials == 1 {
        return start;
    }
    let mut system = System::new(k.into());
    for seed in (0..trials).map(|trial| start.wrapping_add(trial)) {
        let rows = code.rows(seed);
        system.reset(rows.columns().into());
        for row in rows.constraints().chain((0..k.into()).map(|index| rows.row(index))) {
            system.push(row);
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
        for (k, draw) in
            [1, 2, 8, 64, 128, 256, 500].into_iter().flat_map(|k| [(k, Draw::Dealt), (k, Draw::Raptor)])
        {
            let seed = choose_seed(k, draw, 1000);
            assert!(remembers_seed(k, draw, 1000) && !remembers_seed(k, draw, 999));
            assert!((1000..1000 + TRIALS).contains(&seed));
            let rows = Code::new(k, draw).unwrap().rows(seed);
            let mut system = System::new(rows.columns().into());
            for row in rows.constraints().chain((0..k.into()).map(|index| rows.row(index))) {
                system.push(row);
            }
            assert_eq!(system.needs(), 0, "k = {k}, {draw:?}, seed {seed}");
            assert_eq!(choose_seed(k, draw, 1000), seed);
            assert_eq!(choose_seed(k, draw, seed), seed);
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
