//! What may be held at a time, by one and by all of them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many times as much as it holds a [`Budget::share`] leaves free.
const LEFT_FREE: usize = 7;

/// A number of bytes, or of whatever is counted, that may be held. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shares>);

#[derive(Debug)]
struct Shares {
    most: usize,
    taken: AtomicUsize,
    peak: AtomicUsize,
    of: Option<Budget>,
    /// How many times as much as this has taken stays free of what it is of.
    leaves: usize,
}

/// What is held, until this is dropped.
#[derive(Debug)]
pub struct Held {
    of: Budget,
    bytes: usize,
}

impl Budget {
    /// So many bytes.
    pub fn new(most: usize) -> Self {
        Self::of(most, None, 0)
    }

    fn of(most: usize, of: Option<Budget>, leaves: usize) -> Self {
        let (taken, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Budget(Arc::new(Shares { most, taken, peak, of, leaves }))
    }

    /// A part of it: what is held of the part is held of the whole.
    pub fn part(&self, most: usize) -> Self {
        Self::of(most, Some(self.clone()), 0)
    }

    /// A part for one of many that do not trust each other: it takes nothing that would leave less than seven times as much
    /// as it has for the others. One alone gets an eighth, the next one an eighth of the rest, and there is always some
    /// left (dynamic thresholds: Choudhury and Hahne, IEEE/ACM Trans. Networking 6(2), 1998, with alpha = 1/7).
    pub fn share(&self) -> Self {
        Self::of(self.0.most / (LEFT_FREE + 1), Some(self.clone()), LEFT_FREE)
    }

    /// Holds so many bytes, if there are as many left.
    pub fn take(&self, bytes: usize) -> Option<Held> {
        self.try_take(bytes, 0).then(|| Held { of: self.clone(), bytes })
    }

    /// Takes bytes, if at least `free` are left then.
    fn try_take(&self, bytes: usize, free: usize) -> bool {
        let Shares { most, taken, peak, of, leaves } = &*self.0;
        let more = |taken: usize| {
            let taken = taken.checked_add(bytes)?;
            most.checked_sub(taken).filter(|left| *left >= free).map(|_| taken)
        };
        let Ok(before) = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) else { return false };
        let free = leaves.saturating_mul(before + bytes);
        if of.as_ref().is_some_and(|whole| !whole.try_take(bytes, free)) {
            taken.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        peak.fetch_max(before + bytes, Ordering::Relaxed);
        true
    }

    /// Bytes that are held.
    pub fn taken(&self) -> usize {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// The most that was held at a time.
    pub fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// Bytes that may be held, if nobody else holds any of what it is of.
    pub fn most(&self) -> usize {
        self.0.most
    }

    fn give_back(&self, bytes: usize) {
        self.0.taken.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.0.of {
            whole.give_back(bytes);
        }
    }
}

impl Held {
    /// Holds so many bytes instead; false, and as many as before, if there are not as many left.
    #[must_use]
    pub fn resize(&mut self, bytes: usize) -> bool {
        match bytes.checked_sub(self.bytes) {
            Some(more) if !self.of.try_take(more, 0) => return false,
            Some(_) => {}
            None => self.of.give_back(self.bytes - bytes),
        }
        self.bytes = bytes;
        true
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_held_of_the_whole() {
        let whole = Budget::new(100);
        let (one, other) = (whole.part(60), whole.part(60));
        let held = one.take(60).unwrap();
        assert!(one.take(1).is_none(), "the part is taken");
        assert!(other.take(41).is_none(), "and the rest of the whole is less");
        assert_eq!((one.taken(), other.taken(), whole.taken()), (60, 0, 60));
        let more = other.take(40).unwrap();
        drop(held);
        assert_eq!((one.taken(), other.taken(), whole.taken()), (0, 40, 40));
        drop(more);
        assert_eq!((whole.taken(), whole.peak()), (0, 100));
        assert!(whole.take(usize::MAX).is_none());
        assert!(whole.take(100).is_some());
    }

    #[test]
    fn whoever_shares_it_leaves_some_to_the_next() {
        let whole = Budget::new(1 << 18);
        let mut held = Vec::new();
        for n in 0..5 {
            let share = whole.share();
            let left = whole.most() - whole.taken();
            assert!(share.take(left / 8 + 1).is_none());
            held.push(share.take(left / 8).unwrap());
            assert!(share.take(1).is_none(), "{n}");
            assert_eq!(whole.taken() + 7 * left / 8, whole.most());
        }
        let first = held.remove(0);
        let share = whole.share();
        let left = whole.most() - whole.taken();
        assert!(share.take(left / 8 + 1).is_none());
        drop(first);
        assert!(share.take(left / 8 + 1).is_some(), "what one gives back is for all");
    }

    #[test]
    fn what_is_held_grows_and_shrinks_within_the_budget() {
        let whole = Budget::new(100);
        let part = whole.part(60);
        let mut held = part.take(10).unwrap();
        assert!(held.resize(60) && !held.resize(61));
        assert_eq!((held.bytes(), part.taken(), whole.taken()), (60, 60, 60));
        assert!(held.resize(5));
        assert_eq!((part.taken(), whole.taken(), whole.peak()), (5, 5, 60));
        drop(held);
        assert_eq!((part.taken(), whole.taken()), (0, 0));
    }

    #[test]
    fn threads_never_hold_more_than_there_is() {
        let whole = Budget::new(1_000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let part = whole.part(400);
                let whole = whole.clone();
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for n in 0..20_000 {
                        held.extend(part.take(n % 90));
                        assert!(whole.taken() <= 1_000 && part.taken() <= 400);
                        if n % 3 == 0 {
                            held.pop();
                        }
                    }
                });
            }
        });
        assert_eq!(whole.taken(), 0);
    }
}
