//! Sums of subsets of a few symbols, each read where it lies in a table of all of them ("four Russians").

use super::values::{Data, Layout};

/// Most symbols of a group.
const MAX_GROUP: usize = 8;

/// For each group of symbols a table of the sums of its subsets, which is a part of the layout's room for tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    layout: Layout,
    group: usize,
    groups: usize,
}

impl Tables {
    /// Tables for groups of so many of the symbols at `places`.
    pub(super) fn build(places: &[u32], group: usize, data: &mut Data) -> Self {
        for (number, members) in places.chunks(group).enumerate() {
            data.sum_subsets(data.layout.table_slot(number * sums(group)), members);
        }
        Tables { layout: data.layout, group, groups: places.len().div_ceil(group) }
    }

    /// Most sources that a sum has.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// Writes to `sources` what the sum of the symbols of a mask is the sum of, and says how many they are. There
    /// is room for one per group and one more.
    #[inline]
    pub(super) fn sources(&self, mask: &[u64], sources: &mut [u32]) -> usize {
        let (mut count, mut bit, mut table) = (0, 0, 0);
        for _ in 0..self.groups {
            let (word, shift) = (bit / 64, bit % 64);
            let mut subset = mask[word] >> shift;
            if shift + self.group > 64 && word + 1 < mask.len() {
                subset |= mask[word + 1] << (64 - shift);
            }
            let subset = subset as usize & sums(self.group);
            // Of an empty subset it is some slot, and is overwritten.
            sources[count] = self.layout.table_slot((table + subset).saturating_sub(1));
            count += usize::from(subset != 0);
            bit += self.group;
            table += sums(self.group);
        }
        count
    }

    /// The size of groups of `symbols` that costs least: what building the tables costs, and what `uses` says is
    /// read if a sum has so many parts at most. No tables larger than `room` symbols.
    pub(super) fn best_group(symbols: usize, room: usize, uses: impl Fn(usize) -> usize) -> usize {
        let cost = |group: usize| {
            let groups = symbols.div_ceil(group);
            let sums = groups * sums(group);
            if sums > room { usize::MAX } else { sums + uses(groups) }
        };
        (1..=MAX_GROUP).map(|group| (cost(group), group)).min().map_or(1, |(_, group)| group)
    }
}

/// Subsets of a group that are not empty.
#[inline]
fn sums(group: usize) -> usize {
    (1 << group) - 1
}
