//! A set of numbers that mostly follow each other.

use std::ops::Range;

/// Ranges, ascending, none empty, none that touch: what it costs depends on how scattered the numbers are, not on how many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet(Vec<Range<u64>>);

impl RangeSet {
    /// Adds numbers. Returns how many of them are new.
    pub fn insert(&mut self, new: Range<u64>) -> u64 {
        if new.is_empty() {
            return 0;
        }
        let begin = self.0.partition_point(|range| range.end < new.start);
        let end = begin + self.0[begin..].partition_point(|range| range.start <= new.end);
        let touched = &self.0[begin..end];
        let known: u64 = touched.iter().map(|range| overlap(range, &new)).sum();
        let fresh = new.end - new.start - known;
        match touched {
            [] => self.0.insert(begin, new),
            [first, ..] => {
                let start = first.start.min(new.start);
                let stop = self.0[end - 1].end.max(new.end);
                self.0[begin] = start..stop;
                self.0.drain(begin + 1..end);
            }
        }
        fresh
    }

    /// Takes numbers out.
    pub fn remove(&mut self, gone: Range<u64>) {
        if gone.is_empty() {
            return;
        }
        let begin = self.0.partition_point(|range| range.end <= gone.start);
        let end = begin + self.0[begin..].partition_point(|range| range.start < gone.end);
        if begin == end {
            return;
        }
        let (before, after) = (self.0[begin].start..gone.start, gone.end..self.0[end - 1].end);
        let left = [before, after].into_iter().filter(|range| !range.is_empty());
        self.0.splice(begin..end, left);
    }

    /// Whether a number is in it.
    pub fn contains(&self, number: u64) -> bool {
        let at = self.0.partition_point(|range| range.end <= number);
        self.0.get(at).is_some_and(|range| range.start <= number)
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> std::slice::Iter<'_, Range<u64>> {
        self.0.iter()
    }

    /// What is not in it of `within`, in ranges, ascending.
    pub fn gaps(&self, within: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.0.partition_point(|range| range.end <= within.start);
        let mut ranges = self.0[first..].iter();
        let mut from = within.start;
        std::iter::from_fn(move || {
            while from < within.end {
                let (begin, end) = match ranges.next() {
                    Some(range) => (range.start.clamp(from, within.end), range.end),
                    None => (within.end, within.end),
                };
                let gap = std::mem::replace(&mut from, end)..begin;
                if !gap.is_empty() {
                    return Some(gap);
                }
            }
            None
        })
    }

    /// The first range.
    pub fn first(&self) -> Option<&Range<u64>> {
        self.0.first()
    }

    /// How many ranges there are.
    pub fn ranges(&self) -> usize {
        self.0.len()
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> u64 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_set_of_its_numbers(
            changes in proptest::collection::vec((any::<bool>(), 0..60_u64, 0..12_u64), 0..40),
            (from, length) in (0..60_u64, 0..30_u64),
        ) {
            let (mut ranges, mut set) = (RangeSet::default(), BTreeSet::new());
            for (adds, start, length) in changes {
                let change = start..start + length;
                if adds {
                    let fresh = change.clone().filter(|n| set.insert(*n)).count() as u64;
                    prop_assert_eq!(ranges.insert(change), fresh);
                } else {
                    set.retain(|n| !change.contains(n));
                    ranges.remove(change);
                }
                prop_assert_eq!(ranges.iter().cloned().flatten().collect::<Vec<_>>(), set.iter().copied().collect::<Vec<_>>());
                prop_assert!(ranges.iter().all(|range| !range.is_empty()));
                prop_assert!(ranges.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
            prop_assert!((0..80).all(|n| ranges.contains(n) == set.contains(&n)));
            let missing: Vec<u64> = (from..from + length).filter(|n| !set.contains(n)).collect();
            prop_assert_eq!(ranges.gaps(from..from + length).flatten().collect::<Vec<_>>(), missing);
        }
    }
}
