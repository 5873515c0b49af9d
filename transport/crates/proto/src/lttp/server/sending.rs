//! One request at a server: which symbol of which block comes next.

use std::collections::VecDeque;
use std::time::Duration;

use wire::control::{self, Fetch, Pacing, Refusal, Run};

use super::ServerConfig;
use crate::coding::{Encoder, Prepared};
use crate::object::{Cut, Layout, symbol_cap};
use crate::{BlockSet, Budget, Held, Time};

/// Blocks that the paper's mode has in the air at a time.
const OPEN_BLOCKS: usize = 8;
/// Beyond its first pass a block is given this share of its symbols each time that its client was heard since the last
/// ones, and two at least.
const EXTRA_SHARE: u16 = 2;
const EXTRA_SYMBOLS: u16 = 2;
/// While nothing is heard of the client, one symbol is sent after so long: of any block that is fewer than it may have
/// until the silence ends the connection.
const PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// A terminating signal takes so long at least: hosts wait for processors.
const LEAST_PATIENCE: Duration = Duration::from_millis(1);
/// Runs that what is not complete may fall into: those asked for, and gaps between blocks that are under way.
const MOST_RUNS: usize = control::MAX_RUNS + 1024;
/// A terminating signal may come so long after the last symbol that a block may have.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// What a request costs beside its path, the copies of that, and its codes, and each run of blocks.
const REQUEST_BYTES: usize = 1024;
const COPIES_OF_A_PATH: usize = 2;
const RUN_BYTES: usize = 24;

/// Why no more requests are taken.
pub(super) const NO_ROOM: &str = "there is no room for more requests, of all clients together";

/// What a request costs before its object is known.
pub(super) fn least_bytes(fetch: &Fetch) -> usize {
    REQUEST_BYTES + COPIES_OF_A_PATH * fetch.path.len() + RUN_BYTES * fetch.runs.len()
}

/// A request, from its arrival to its last terminating signal.
pub(super) struct Request {
    pub(super) fetch: Fetch,
    cut: Option<Cut>,
    /// Blocks begun and not complete, in the order in which they were begun.
    active: Vec<Block>,
    /// Blocks begun and not asked for yet.
    unloaded: VecDeque<u32>,
    /// What is wanted and not complete, ascending; `None` until the object is known.
    wanted: Option<BlockSet>,
    /// Of what is wanted, what the paper's mode has not begun.
    unbegun: VecDeque<Run>,
    /// What it costs, but for blocks, and its file.
    held: Held,
    _of_files: Held,
}

struct Block {
    number: u32,
    k: u16,
    encoder: Option<Encoder>,
    /// The next symbol.
    next: u16,
    /// Symbols below this may be sent.
    want: u16,
    /// And never one at or above this.
    cap: u16,
    /// The paper's mode: its terminating signal may still be on its way until then.
    patience: Time,
    /// When it was last given symbols beyond its first pass.
    given: Time,
    /// Its bytes, of what the connection may hold.
    _held: Held,
}

impl Block {
    /// When it may be given more, if its client was `heard` last then.
    fn given_at(&self, heard: Time) -> Time {
        if heard > self.given { Time::ZERO } else { self.given + PROBE_INTERVAL }
    }

    fn has_more(&self) -> bool {
        self.encoder.is_some() && self.next < self.want
    }
}

/// One symbol to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) block: u32,
    pub(super) index: u16,
}

impl Request {
    /// `costs`: what [`least_bytes`] says, and a file.
    pub(super) fn new(fetch: Fetch, (held, of_files): (Held, Held)) -> Self {
        Request {
            fetch,
            cut: None,
            active: Vec::new(),
            unloaded: VecDeque::new(),
            wanted: None,
            unbegun: VecDeque::new(),
            held,
            _of_files: of_files,
        }
    }

    /// Holds what it costs as it is now. False: there is not as much left.
    fn hold(&mut self) -> bool {
        let codes = self.cut.as_ref().map_or(0, |cut| cut.layout().code_bytes() + cut.layout().rows_bytes());
        let runs = self.wanted.as_ref().map_or(0, |wanted| wanted.runs().len());
        self.held.resize(least_bytes(&self.fetch) + codes + RUN_BYTES * runs)
    }

    /// The object has `size` bytes. Returns the seeds of its whole blocks and of its last one.
    ///
    /// # Errors
    /// What is wrong with the request.
    pub(super) fn begin(
        &mut self,
        config: &ServerConfig,
        size: u64,
        room: &Budget,
    ) -> Result<(u64, u64), (Refusal, String)> {
        let bad = |detail| (Refusal::BadParameters, detail);
        let Fetch { symbol_bytes, block_symbols, code, .. } = self.fetch;
        let layout = Layout::new(symbol_bytes, block_symbols, size)
            .ok_or_else(|| bad("the object has too many blocks".into()))?;
        let most = config.max_held_bytes.min(config.budget.most());
        if layout.blocks() > 0 && layout.encoder_bytes(code, 0) > most {
            let takes = layout.encoder_bytes(code, 0);
            let bytes = layout.block_bytes(0);
            return Err(bad(format!("blocks of {bytes} bytes, which take {takes}: {most} may be held here")));
        }
        let wanted = BlockSet::within(&self.fetch.runs, layout.blocks()).map_err(bad)?;
        let (cut, seed, last_seed) =
            Cut::choose(layout, code, config.seed).map_err(|e| bad(e.to_string()))?;
        self.cut = Some(cut.with_spares_of(room));
        if !self.hold() {
            return Err((Refusal::Busy, NO_ROOM.into()));
        }
        match self.fetch.pacing {
            Pacing::Tfrc => {
                self.unbegun = wanted.runs().to_vec().into();
                self.wanted = Some(wanted);
            }
            Pacing::Client { first } => {
                let begin = wanted.first().filter(|_| first > 0);
                self.wanted = Some(wanted);
                if let Some(block) = begin {
                    // Credit given before the object's size was known counts for no more than it needs.
                    self.credit(block, first.min(layout.k(block)), config.max_blocks, room);
                }
            }
        }
        Ok((seed, last_seed))
    }

    pub(super) fn is_complete(&self) -> bool {
        self.wanted.as_ref().is_some_and(BlockSet::is_empty)
    }

    /// Whether what is wanted lies in more runs than a client leaves that works through what it asked for, or than there is
    /// room for.
    pub(super) fn is_scattered(&mut self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.runs().len() > MOST_RUNS) || !self.hold()
    }

    fn wants(&self, block: u32) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.contains(block))
    }

    /// Symbols of `block` below `want` may be sent. It is begun only if it fits the `room` that there is.
    pub(super) fn credit(&mut self, block: u32, want: u16, max_blocks: usize, room: &Budget) {
        let Some(cut) = &self.cut else { return };
        if self.fetch.pacing == Pacing::Tfrc || !self.wants(block) {
            return;
        }
        let bytes = cut.layout().encoder_bytes(self.fetch.code, block);
        let want = want.min(symbol_cap(cut.layout().k(block)));
        if let Some(active) = self.active.iter_mut().find(|b| b.number == block) {
            active.want = active.want.max(want);
        } else if self.active.len() < max_blocks
            && let Some(held) = room.take(bytes)
        {
            self.start(block, want, held);
        }
    }

    fn start(&mut self, number: u32, want: u16, held: Held) {
        let Some(cut) = &self.cut else { return };
        let k = cut.layout().k(number);
        let cap = symbol_cap(k);
        self.active.push(Block {
            number,
            k,
            encoder: None,
            next: 0,
            want,
            cap,
            patience: Time::ZERO,
            given: Time::ZERO,
            _held: held,
        });
        self.unloaded.push_back(number);
    }

    /// Whether blocks wait for room to be begun by themselves.
    pub(super) fn waits_for_room(&self) -> bool {
        self.active.len() < OPEN_BLOCKS && self.unbegun.iter().any(|run| run.count > 0)
    }

    /// Blocks to load now, each named once, with its offset and its length in bytes.
    pub(super) fn loads(&mut self, room: &Budget) -> Vec<(u32, u64, usize)> {
        // The paper's mode begins by itself what it may have in the air.
        while self.active.len() < OPEN_BLOCKS {
            let (Some(run), Some(cut)) = (self.unbegun.front().copied(), &self.cut) else { break };
            if run.count == 0 {
                self.unbegun.pop_front();
                continue;
            }
            let block = run.first;
            let bytes = cut.layout().encoder_bytes(self.fetch.code, block);
            let (wanted, k) = (self.wants(block), cut.layout().k(block));
            let held = if wanted { room.take(bytes) } else { None };
            if wanted && held.is_none() {
                break;
            }
            self.unbegun[0] = Run { first: block + 1, count: run.count - 1 };
            if let Some(held) = held {
                self.start(block, (k + k / 32 + EXTRA_SYMBOLS).min(symbol_cap(k)), held);
            }
        }
        let Some(layout) = self.cut.as_ref().map(Cut::layout) else { return Vec::new() };
        self.unloaded.drain(..).map(|b| (b, layout.offset(b), layout.block_bytes(b))).collect()
    }

    /// How the object is cut, once it is known.
    pub(super) fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// A block that was loaded. Whether it is still needed.
    pub(super) fn provide(&mut self, block: u32, prepared: Prepared) -> bool {
        let layout = self.cut.as_ref().map(Cut::layout);
        let fits = layout.is_some_and(|layout| layout.block_bytes(block) == prepared.bytes);
        let Some(active) = self.active.iter_mut().find(|b| fits && b.number == block) else { return false };
        active.encoder = Some(prepared.encoder);
        true
    }

    /// The terminating signal of `block`. Whether it was wanted until now.
    pub(super) fn complete(&mut self, block: u32) -> bool {
        if !self.wanted.as_mut().is_some_and(|wanted| wanted.remove(block)) {
            return false;
        }
        self.active.retain(|b| b.number != block);
        self.unloaded.retain(|b| *b != block);
        true
    }

    /// When there is a symbol to send, if the client was `heard` last then: [`Time::ZERO`] if there is one now, `None`
    /// if one takes another credit, or bytes.
    pub(super) fn ready_at(&self, heard: Time) -> Option<Time> {
        self.active.iter().filter_map(|b| self.block_ready_at(b, heard)).min()
    }

    fn block_ready_at(&self, block: &Block, heard: Time) -> Option<Time> {
        if block.has_more() {
            return Some(Time::ZERO);
        }
        self.is_open(block).then(|| block.given_at(heard))
    }

    /// The paper's mode sends of it until its terminating signal comes.
    fn is_open(&self, block: &Block) -> bool {
        self.fetch.pacing == Pacing::Tfrc && block.encoder.is_some() && block.next < block.cap
    }

    /// The next symbol, which counts as sent.
    pub(super) fn step(&mut self, now: Time, rtt: Duration, heard: Time) -> Option<Step> {
        let position = match self.fetch.pacing {
            Pacing::Client { .. } => self.active.iter().position(Block::has_more),
            Pacing::Tfrc => self.open_position(now, heard),
        }?;
        let block = &mut self.active[position];
        let step = Step { block: block.number, index: block.next };
        block.next += 1;
        if block.next >= block.cap {
            block.patience = now + LAST_PATIENCE.max(4 * rtt);
        } else if block.next >= block.want {
            block.patience = now + rtt.max(LEAST_PATIENCE);
        }
        Some(step)
    }

    /// The paper's mode: a block that has waited in vain for its terminating signal, else the next of a first pass, else
    /// whichever waits longest. Beyond its first pass a block is given symbols only as its client is heard, and while
    /// nothing is heard, probes: a client that is not scheduled for a moment would else be sent all that a block may
    /// have.
    fn open_position(&mut self, now: Time, heard: Time) -> Option<usize> {
        let spent = |b: &Block| !b.has_more() && self.is_open(b) && b.given_at(heard) <= now;
        let blocks = || self.active.iter().enumerate();
        let waited = blocks().find(|(_, b)| spent(b) && b.patience <= now);
        let next = waited
            .or_else(|| blocks().find(|(_, b)| b.has_more()))
            .or_else(|| blocks().filter(|(_, b)| spent(b)).min_by_key(|(_, b)| b.patience));
        let position = next?.0;
        let block = &mut self.active[position];
        if !block.has_more() {
            let share = (block.k / EXTRA_SHARE).max(EXTRA_SYMBOLS);
            let more = if heard > block.given { share } else { 1 };
            block.want = block.next.saturating_add(more).min(block.cap);
            block.given = now;
        }
        Some(position)
    }

    /// Encodes a symbol of [`Request::step`] into `out`.
    pub(super) fn encode(&mut self, step: Step, out: &mut [u8]) {
        let active = self.active.iter_mut().find(|b| b.number == step.block);
        if let Some(encoder) = active.and_then(|b| b.encoder.as_mut()) {
            encoder
                .encode(step.index.into(), out)
                .expect("the index is below the cap, the length is the symbol's");
        }
    }

    /// A block that has had all its symbols, and has waited for its terminating signal since.
    pub(super) fn exhausted(&self, now: Time) -> Option<u32> {
        let spent = |b: &&Block| b.next >= b.cap && b.patience <= now;
        self.active.iter().find(spent).map(|b| b.number)
    }

    /// When a block will be [`Request::exhausted`].
    pub(super) fn exhausted_at(&self) -> Option<Time> {
        self.active.iter().filter(|b| b.next >= b.cap).map(|b| b.patience).min()
    }
}
