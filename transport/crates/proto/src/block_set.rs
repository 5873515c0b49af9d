//! A set of the blocks of an object: those still to be sent, or to come.

use wire::control::Run;

/// Blocks as runs, ascending, none empty: what it costs depends on how scattered they are, not on how many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockSet(Vec<Run>);

impl BlockSet {
    /// All of so many blocks.
    pub fn all(blocks: u32) -> Self {
        BlockSet((blocks > 0).then_some(Run { first: 0, count: blocks }).into_iter().collect())
    }

    /// What a peer asks for of `blocks` blocks: all, if it names none.
    ///
    /// # Errors
    /// What is wrong with it, for a person.
    pub fn within(runs: &[Run], blocks: u32) -> Result<Self, String> {
        if blocks == 0 || runs.is_empty() {
            return Ok(BlockSet::all(blocks));
        }
        let mut end = 0;
        let mut wanted = Vec::with_capacity(runs.len());
        for run in runs {
            let count = run.count.min(blocks.saturating_sub(run.first));
            if run.first < end || count == 0 {
                return Err(format!("blocks from {} on: not ascending, empty, or beyond the end", run.first));
            }
            end = run.first + count;
            wanted.push(Run { first: run.first, count });
        }
        Ok(BlockSet(wanted))
    }

    /// The runs.
    pub fn runs(&self) -> &[Run] {
        &self.0
    }

    /// Whether it has no block.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest block.
    pub fn first(&self) -> Option<u32> {
        self.0.first().map(|run| run.first)
    }

    /// Whether it has this block.
    pub fn contains(&self, block: u32) -> bool {
        self.position(block).is_some()
    }

    /// How many blocks it has.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|run| u64::from(run.count)).sum()
    }

    /// Those of `blocks` blocks that it has not.
    pub fn complement(&self, blocks: u32) -> Self {
        let ends = self.0.iter().map(|run| (run.first, run.first + run.count));
        let mut first = 0;
        let mut gaps = Vec::new();
        for (begin, end) in ends.chain([(blocks, blocks)]) {
            if begin > first {
                gaps.push(Run { first, count: begin - first });
            }
            first = end;
        }
        BlockSet(gaps)
    }

    /// Takes a block out. Whether it was in it.
    pub fn remove(&mut self, block: u32) -> bool {
        let Some(at) = self.position(block) else { return false };
        let Run { first, count } = self.0[at];
        let before = Run { first, count: block - first };
        let after = Run { first: block + 1, count: count - (block - first) - 1 };
        self.0.splice(at..=at, [before, after].into_iter().filter(|run| run.count > 0));
        true
    }

    fn position(&self, block: u32) -> Option<usize> {
        let at = self.0.partition_point(|run| run.first <= block).checked_sub(1)?;
        (block - self.0[at].first < self.0[at].count).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn blocks(set: &BlockSet) -> BTreeSet<u32> {
        set.runs().iter().flat_map(|run| run.first..run.first + run.count).collect()
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(count in 0_u32..60, removed in prop::collection::vec(0_u32..70, 0..80)) {
            let mut set = BlockSet::all(count);
            let mut model: BTreeSet<u32> = (0..count).collect();
            for block in removed {
                prop_assert_eq!(set.contains(block), model.contains(&block));
                prop_assert_eq!(set.remove(block), model.remove(&block));
                prop_assert_eq!(&blocks(&set), &model);
                prop_assert_eq!(set.len(), model.len() as u64);
                prop_assert_eq!(set.is_empty(), model.is_empty());
                prop_assert_eq!(set.first(), model.first().copied());
                let others: BTreeSet<u32> = (0..count).filter(|b| !model.contains(b)).collect();
                prop_assert_eq!(&blocks(&set.complement(count)), &others);
                prop_assert_eq!(set.complement(count).complement(count), set.clone());
            }
        }
    }

    #[test]
    fn one_of_many_blocks_costs_one_run() {
        assert_eq!(BlockSet::all(u32::MAX).runs().len(), 1);
        assert_eq!(BlockSet::default().complement(u32::MAX), BlockSet::all(u32::MAX));
    }
}
