//! Seeds whose first k rows are independent: without loss, k coded symbols then suffice.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::solver::System;
use crate::{Code, Family, Soliton};

/// So many seeds are tried before the best of them is taken.
const TRIALS: u64 = 256;

/// And fewer where a trial takes longer, as the square of k: 16 of 1,024 symbols, one from 4,096 on, which is no trial.
/// A peer may ask for any k, and must not stop a server for a second by it; of large blocks the few symbols that a
/// better seed saves are a small part.
const TRIALS_BY_K_SQUARED: u64 = 1 << 24;

/// And fewer with parameters c and delta of a peer's own: there are more of these than can be remembered, so that it can
/// have a search for every request.
const TRIALS_OF_OTHERS: u64 = 16;

/// So many answers are remembered: those of every k that there is, with every draw. A process that always starts from the
/// same seed never searches twice, whatever its peers ask for.
const MEMORY: usize = 3 << 13;

/// And so many with other parameters than the paper's. They push no answer of the others out.
const MEMORY_OF_OTHERS: usize = 1 << 12;

type Question = (u16, Family, u64);

/// What is remembered, and how much of it at most.
struct Memory {
    answers: Mutex<HashMap<Question, u64>>,
    most: usize,
}

static PAPERS: LazyLock<Memory> = LazyLock::new(|| Memory { answers: Mutex::default(), most: MEMORY });
static OTHERS: LazyLock<Memory> =
    LazyLock::new(|| Memory { answers: Mutex::default(), most: MEMORY_OF_OTHERS });

impl Memory {
    fn of(family: Family) -> &'static Self {
        if has_papers_parameters(family) { &PAPERS } else { &OTHERS }
    }

    fn answers(&self) -> MutexGuard<'_, HashMap<Question, u64>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_papers_parameters(family: Family) -> bool {
    family.soliton == Soliton::PAPER
}

/// Whether [`choose_seed`] remembers its answer, and takes no time.
pub fn remembers_seed(k: u16, family: impl Into<Family>, start: u64) -> bool {
    let family = family.into();
    Memory::of(family).answers().contains_key(&(k, family, start))
}

/// The first seed from `start` on whose first `k` rows are independent; if a bounded search finds none, the one
/// among those tried whose first `k` rows have the greatest rank. Answers are remembered.
///
/// It says nothing about security: `start` is public, and so is the seed. A `k` outside the codec's limits gives
/// `start`, with which [`Rows::new`](crate::Rows::new) fails.
pub fn choose_seed(k: u16, family: impl Into<Family>, start: u64) -> u64 {
    let family = family.into();
    let (memory, question) = (Memory::of(family), (k, family, start));
    if let Some(&seed) = memory.answers().get(&question) {
        return seed;
    }
    let Ok(code) = Code::new(k, family) else { return start };
    let most = if has_papers_parameters(family) { TRIALS } else { TRIALS_OF_OTHERS };
    let seed = search(&code, start, most);
    let mut answers = memory.answers();
    if answers.len() >= memory.most {
        answers.clear();
    }
    answers.insert(question, seed);
    seed
}

fn search(code: &Code, start: u64, most: u64) -> u64 {
    let k = code.k();
    let (mut best, mut least_missing) = (start, u32::MAX);
    let trials = (TRIALS_BY_K_SQUARED / u64::from(k).pow(2)).clamp(1, most);
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
    use crate::Draw;

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

    #[test]
    fn parameters_of_a_peers_own_are_remembered_apart_and_within_bounds() {
        let kept = choose_seed(8, Draw::Dealt, 77);
        let family = |n: u32| {
            let soliton = Soliton::of_millionths(10_000 + n, 500_000).unwrap();
            Family { draw: Draw::Dealt, soliton }
        };
        for n in 0..MEMORY_OF_OTHERS as u32 + 10 {
            let seed = choose_seed(2, family(n), 1);
            assert!((1..1 + TRIALS_OF_OTHERS).contains(&seed));
            assert!(remembers_seed(2, family(n), 1));
            assert!(OTHERS.answers().len() <= MEMORY_OF_OTHERS);
        }
        assert!(!remembers_seed(2, family(0), 1));
        assert!(remembers_seed(8, Draw::Dealt, 77));
        assert_eq!(choose_seed(8, Draw::Dealt, 77), kept);
    }
}
