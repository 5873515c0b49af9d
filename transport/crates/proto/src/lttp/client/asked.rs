//! One request at a client: what has come of each block, and what may still be asked for.

use wire::control::{Fetch, Run};
use wire::packet::Credit;

use crate::object::{Layout, symbol_cap};

/// What a block that lost symbols needs beyond k, in most cases (measured: codec's overhead at 20 % loss).
const LOSSY_SYMBOLS: u16 = 2;

/// A request, from the first credit to its last block.
pub(super) struct Asked {
    /// Not sent yet.
    pub(super) unsent: Option<Fetch>,
    pub(super) symbol_bytes: u16,
    block_symbols: u16,
    layout: Option<Layout>,
    runs: Vec<Run>,
    /// Where the next block to begin is: a run and the offset in it.
    next: (usize, u32),
    active: Vec<Block>,
    /// Blocks that are not complete; `None` until the object is known.
    left: Option<u64>,
}

/// A block that is coming.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) number: u32,
    k: u16,
    /// Symbols that will be enough, as far as that is known.
    target: u16,
    received: u16,
    /// One more than the highest index that came, or was given up.
    top: u16,
    /// The credit: indices below it may be sent.
    want: u16,
    cap: u16,
    /// When the server's numbers are beyond this, what is outstanding is lost.
    due: u64,
    /// Its hash has come.
    hashed: bool,
}

impl Block {
    fn new(number: u32, k: u16) -> Self {
        Block {
            number,
            k,
            target: k,
            received: 0,
            top: 0,
            want: 0,
            cap: symbol_cap(k),
            due: 0,
            hashed: false,
        }
    }

    /// Symbols that may be on their way.
    pub(super) fn outstanding(&self) -> u16 {
        self.want - self.top
    }

    /// Gives up what is on its way. Returns how many symbols that were.
    fn give_up(&mut self) -> u16 {
        let given_up = self.outstanding();
        self.top = self.want;
        given_up
    }

    /// Symbols to ask for, beyond those on their way.
    fn deficit(&self) -> u16 {
        let missing = self.target.saturating_sub(self.received);
        missing.saturating_sub(self.outstanding()).min(self.cap.saturating_sub(self.want))
    }
}

/// What a symbol was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Of use; so many symbols are no longer outstanding. `enough`: there are as many as the block has.
    Useful { arrived: u16, enough: bool },
    /// Of a block that is complete, or was not begun.
    Late,
    /// Beyond the credit or the cap.
    Unasked,
}

impl Asked {
    pub(super) fn new(fetch: Fetch) -> Self {
        let runs =
            if fetch.runs.is_empty() { vec![Run { first: 0, count: u32::MAX }] } else { fetch.runs.clone() };
        Asked {
            symbol_bytes: fetch.symbol_bytes,
            block_symbols: fetch.block_symbols,
            unsent: Some(fetch),
            layout: None,
            runs,
            next: (0, 0),
            active: Vec::new(),
            left: None,
        }
    }

    /// The object has `size` bytes. Returns how many symbols less are outstanding: credit that its size makes void;
    /// `None` if the parameters do not fit the request.
    pub(super) fn begin(&mut self, size: u64) -> Option<u16> {
        let layout = Layout::new(self.symbol_bytes, self.block_symbols, size)
            .filter(|_| self.layout.is_none() && self.unsent.is_none())?;
        for run in &mut self.runs {
            run.count = run.count.min(layout.blocks().saturating_sub(run.first));
        }
        self.left = Some(self.runs.iter().map(|run| u64::from(run.count)).sum());
        self.layout = Some(layout);
        let mut void = 0;
        self.active.retain_mut(|block| {
            let before = block.outstanding();
            let k = layout.k(block.number);
            block.cap = symbol_cap(k);
            (block.k, block.target) = (k, k);
            // The server counts a first credit for no more than k.
            block.want = block.want.min(k).max(block.top);
            void += before - block.outstanding();
            k > 0
        });
        Some(void)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.left == Some(0)
    }

    /// Blocks of it that are coming.
    pub(super) fn outstanding(&self) -> u32 {
        self.active.iter().map(|b| u32::from(b.outstanding())).sum()
    }

    /// A block to give credit to, begun if need be, and how many symbols it lacks.
    pub(super) fn neediest(&mut self, max_blocks: usize) -> Option<(u32, u16)> {
        if self.layout.is_none() && self.unsent.is_none() {
            // The object may be smaller than what the request itself gave credit for.
            return None;
        }
        let lacking = |b: &Block| Some((b.number, Some(b.deficit()).filter(|d| *d > 0)?));
        self.active.iter().find_map(lacking).or_else(|| {
            let begun = self.start(max_blocks)?;
            lacking(begun)
        })
    }

    fn start(&mut self, max_blocks: usize) -> Option<&Block> {
        // Before the object is known nobody knows whether there is a second block.
        let most = if self.layout.is_some() { max_blocks } else { 1 };
        if self.active.len() >= most {
            return None;
        }
        while self.runs.get(self.next.0).is_some_and(|run| self.next.1 >= run.count) {
            self.next = (self.next.0 + 1, 0);
        }
        // Of an object that is not known yet, a run may end where no block can be.
        let number = self.runs.get(self.next.0)?.first.checked_add(self.next.1)?;
        self.next.1 += 1;
        let k = self.layout.map_or(self.block_symbols, |layout| layout.k(number));
        self.active.push(Block::new(number, k));
        self.active.last()
    }

    /// Begins, without credit, all the blocks that a server sends unasked in the paper's mode.
    pub(super) fn start_all(&mut self, max_blocks: usize) {
        while self.start(max_blocks).is_some() {}
    }

    /// Gives credit for `symbols` more; they are lost if they have not come when the server's numbers are beyond
    /// `due`.
    pub(super) fn give(&mut self, block: u32, symbols: u16, due: u64) {
        if let Some(block) = self.find(block) {
            block.want += symbols;
            block.due = due;
        }
    }

    /// The server's numbers are beyond `due`: gives up what should have come by then. Returns how many symbols that
    /// were.
    pub(super) fn overdue(&mut self, block: u32, due: u64) -> u16 {
        self.find(block).filter(|block| block.due == due).map_or(0, Block::give_up)
    }

    /// Whether it is the server's turn to send something: the object's parameters, or symbols.
    pub(super) fn is_owed(&self, by_credit: bool) -> bool {
        !by_credit || self.layout.is_none() || self.active.iter().any(|b| b.received < b.target)
    }

    /// Blocks that credit has been given for.
    pub(super) fn credited(&self) -> impl Iterator<Item = u32> + '_ {
        self.active.iter().filter(|b| b.want > 0).map(|b| b.number)
    }

    /// The hash of a block has come. Whether that is of use: the block is coming, and its hash is not known.
    pub(super) fn hash_is_new(&mut self, block: u32) -> bool {
        self.find(block).is_some_and(|block| !std::mem::replace(&mut block.hashed, true))
    }

    /// The credit of a block as the server is to know it.
    pub(super) fn credit(&self, request: u16, block: u32) -> Credit {
        let want = self.active.iter().find(|b| b.number == block).map_or(0, |b| b.want);
        Credit { request, block, want }
    }

    /// The credit that a request carries.
    pub(super) fn first_credit(&self) -> u16 {
        self.active.first().map_or(0, |b| b.want)
    }

    /// Whether all symbols below `credit` may come, or only those up to the cap.
    pub(super) fn take(&mut self, block: u32, index: u16, by_credit: bool) -> Taken {
        let Some(block) = self.find(block) else { return Taken::Late };
        let limit = if by_credit { block.want } else { block.cap };
        if index >= limit || block.received >= block.cap {
            return Taken::Unasked;
        }
        let before = if by_credit { block.outstanding() } else { 0 };
        block.received = block.received.saturating_add(1);
        block.top = block.top.max(index + 1);
        block.want = block.want.max(block.top);
        if by_credit && block.received < block.top {
            // The seed is chosen so that the first k suffice; of a block that loses any, a few more are needed.
            block.target = block.target.max(block.k + LOSSY_SYMBOLS);
        }
        let arrived = if by_credit { before - block.outstanding() } else { 0 };
        Taken::Useful { arrived, enough: block.received >= block.k }
    }

    /// `symbols` in all are needed of a block.
    pub(super) fn needs(&mut self, block: u32, symbols: u16) {
        if let Some(block) = self.find(block) {
            block.target = block.target.max(symbols);
        }
    }

    /// A block is complete. Returns the symbols of it that are outstanding, `None` if it was none of those coming.
    pub(super) fn complete(&mut self, block: u32) -> Option<u16> {
        let position = self.active.iter().position(|b| b.number == block)?;
        let outstanding = self.active.remove(position).outstanding();
        self.left = self.left.map(|n| n.saturating_sub(1));
        Some(outstanding)
    }

    /// Gives up what is on its way. Returns the blocks that something was on its way of, and how many symbols.
    pub(super) fn give_up(&mut self) -> Vec<(u32, u16)> {
        let all = self.active.iter_mut().map(|block| (block.number, block.give_up()));
        all.filter(|(_, given_up)| *given_up > 0).collect()
    }

    fn find(&mut self, number: u32) -> Option<&mut Block> {
        self.active.iter_mut().find(|b| b.number == number)
    }
}
