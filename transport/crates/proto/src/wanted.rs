//! Which blocks of an object are still to be sent.

use wire::control::Run;

/// Runs of blocks, ascending, none empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted(Vec<Run>);

impl Wanted {
    /// What a peer asks for of `blocks` blocks: all, if it names none.
    ///
    /// # Errors
    /// What is wrong with it, for a person.
    pub(crate) fn within(runs: &[Run], blocks: u32) -> Result<Self, String> {
        if blocks == 0 {
            return Ok(Wanted::default());
        }
        if runs.is_empty() {
            return Ok(Wanted(vec![Run { first: 0, count: blocks }]));
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
        Ok(Wanted(wanted))
    }

    /// How many runs there are.
    pub(crate) fn runs(&self) -> &[Run] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest block.
    pub(crate) fn first(&self) -> Option<u32> {
        self.0.first().map(|run| run.first)
    }

    pub(crate) fn contains(&self, block: u32) -> bool {
        self.position(block).is_some()
    }

    /// Whether `block` was wanted until now.
    pub(crate) fn remove(&mut self, block: u32) -> bool {
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
