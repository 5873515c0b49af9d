//! Rows as they came: their columns one after the other.

/// Sparse rows, numbered from 0.
#[derive(Debug, Default)]
pub(super) struct SparseRows {
    starts: Vec<u32>,
    columns: Vec<u16>,
    /// The row of each entry of `columns`.
    owners: Vec<u16>,
    longest: usize,
}

impl SparseRows {
    pub(super) fn clear(&mut self) {
        self.columns.clear();
        self.owners.clear();
        self.starts.clear();
        self.starts.push(0);
        self.longest = 0;
    }

    #[inline]
    pub(super) fn push(&mut self, columns: &[u16]) {
        let owner = self.len() as u16;
        self.columns.extend_from_slice(columns);
        // Eight at once and then as many as are right: short loops of any length cost more.
        while self.owners.len() < self.columns.len() {
            self.owners.extend_from_slice(&[owner; 8]);
        }
        self.owners.truncate(self.columns.len());
        self.starts.push(self.columns.len() as u32);
        self.longest = self.longest.max(columns.len());
    }

    #[inline]
    pub(super) fn row(&self, row: u16) -> &[u16] {
        let row = usize::from(row);
        &self.columns[self.starts[row] as usize..self.starts[row + 1] as usize]
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// All columns of all rows, each with its row.
    #[inline]
    pub(super) fn entries(&self) -> impl Iterator<Item = (u16, u16)> {
        self.columns.iter().copied().zip(self.owners.iter().copied())
    }

    /// Columns of the longest row.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }
}
