//! Memory of blocks that are done, for blocks to come: the system would have to clear it anew for each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Budget, Held};

/// Bytes that are kept of one object.
const MOST_BYTES: usize = 8 << 20;

type Kept = Vec<(Vec<u8>, Held)>;

/// Memory of blocks of one object; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Spares {
    kept: Arc<Mutex<Kept>>,
    budget: Budget,
}

impl Spares {
    /// What is kept is held of this budget.
    pub(crate) fn of(budget: &Budget) -> Self {
        Spares { kept: Arc::default(), budget: budget.part(MOST_BYTES) }
    }

    /// Some, with bytes of another block in it; or none.
    pub(crate) fn take(&self) -> Vec<u8> {
        self.lock().pop().map(|(memory, _)| memory).unwrap_or_default()
    }

    pub(crate) fn keep(&self, memory: Vec<u8>) {
        if let Some(held) = self.budget.take(memory.capacity()) {
            self.lock().push((memory, held));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics that has it.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Spares {
    fn default() -> Self {
        Spares::of(&Budget::new(MOST_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_not_hoarded() {
        let budget = Budget::new(100 << 20);
        let spares = Spares::of(&budget);
        assert!(spares.take().is_empty());
        for _ in 0..100 {
            spares.clone().keep(vec![7; 1 << 20]);
        }
        assert_eq!(budget.taken(), MOST_BYTES);
        assert_eq!(spares.take(), vec![7; 1 << 20]);
        assert_eq!(budget.taken(), MOST_BYTES - (1 << 20));
        drop(spares);
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn whoever_may_hold_nothing_more_keeps_nothing() {
        let budget = Budget::new(10);
        let held = budget.take(5);
        let spares = Spares::of(&budget);
        spares.keep(vec![7; 6]);
        assert!(spares.take().is_empty());
        drop(held);
        spares.keep(vec![7; 6]);
        assert_eq!(spares.take(), [7; 6]);
    }
}
