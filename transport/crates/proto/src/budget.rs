//! What may be held at a time, by one and by all of them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes that may be held. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shares>);

#[derive(Debug)]
struct Shares {
    most: usize,
    taken: AtomicUsize,
    peak: AtomicUsize,
    of: Option<Budget>,
}

/// Bytes that are held, until this is dropped.
#[derive(Debug)]
pub struct Held {
    of: Budget,
    bytes: usize,
}

impl Budget {
    /// So many bytes.
    pub fn new(most: usize) -> Self {
        Budget(Arc::new(Shares { most, taken: AtomicUsize::new(0), peak: AtomicUsize::new(0), of: None }))
    }

    /// A part of it: what is held of the part is held of the whole.
    pub fn part(&self, most: usize) -> Self {
        let of = Some(self.clone());
        Budget(Arc::new(Shares { most, taken: AtomicUsize::new(0), peak: AtomicUsize::new(0), of }))
    }

    /// Holds so many bytes, if there are as many left.
    pub fn take(&self, bytes: usize) -> Option<Held> {
        self.try_take(bytes).then(|| Held { of: self.clone(), bytes })
    }

    fn try_take(&self, bytes: usize) -> bool {
        let Shares { most, taken, peak, of } = &*self.0;
        let more = |taken: usize| taken.checked_add(bytes).filter(|taken| taken <= most);
        let Ok(before) = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) else { return false };
        if of.as_ref().is_some_and(|whole| !whole.try_take(bytes)) {
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

    /// Bytes that may be held.
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
