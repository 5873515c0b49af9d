//! What a sender is told to be like, asks of its driver, and counts.

use std::time::Duration;

use wire::control::{Code, Refusal};

use crate::dfcp::{Guide, RateConfig};
use crate::ecn;
use crate::pacer::{Burst, MakeUp};

/// How a sender behaves. The paper's parameters (section 4.6) are among it.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Bytes of a symbol.
    pub symbol_bytes: u16,
    /// Whether an object has shorter symbols, and more of them in its blocks, where the path does not carry such when it is
    /// offered. If not, or if the path comes to carry less, its symbols go in pieces.
    pub fitted: bool,
    /// Symbols of a block.
    pub block_symbols: u16,
    /// The code of the blocks.
    pub code: Code,
    /// Symbols sent in vain, as a part of those needed: the paper's redundancy. With acknowledgements none are needed.
    pub redundancy: f64,
    /// Blocks of the sliding window; `None`: as many as the path holds, and those that wait for a few more symbols.
    pub window_blocks: Option<usize>,
    /// Whether the sender stops when it expects to have sent enough (the paper's section 4.5), or goes on until the
    /// acknowledgement comes.
    pub early_stop: bool,
    /// Whether acknowledgements are waited for. If not, every block is sent once and whatever came of it is all.
    pub acknowledgements: bool,
    /// Whether blocks are encoded. If not, bytes of the first one are sent instead of every symbol: to see what coding costs
    /// the rest, with a receiver that does not decode.
    pub encode: bool,
    /// Whose rate is used.
    pub rate: RateConfig,
    /// What goes at once.
    pub burst: Burst,
    /// What time unused by a late driver is made up for. Most of it at little more than the rate: a machine may stop for so long that
    /// the rest at once would be more than a shallow buffer takes.
    pub make_up: MakeUp,
    /// TFRC's nofeedback timer is at least so long.
    pub least_timeout: Duration,
    /// Whether symbols are sent ECN-capable (RFC 3168) while their rate is TFRC's, which heeds marks.
    pub ecn: bool,
    /// Objects that may be offered and not stored.
    pub max_objects: usize,
    /// Bytes of blocks held at a time; one block may always be held.
    pub max_held_bytes: usize,
    /// A receiver that says nothing for so long while something is to come is lost.
    pub silence: Duration,
    /// Where the search for seeds begins: random.
    pub seed: u64,
}

impl Default for SenderConfig {
    fn default() -> Self {
        SenderConfig {
            symbol_bytes: 1024,
            fitted: true,
            block_symbols: 512,
            code: Code::Raptor,
            redundancy: 0.0,
            window_blocks: None,
            early_stop: true,
            acknowledgements: true,
            encode: true,
            rate: RateConfig {
                floor_bps: 0.0,
                ceiling_bps: f64::INFINITY,
                expiry: Some(Duration::from_secs(5)),
                fallback: true,
                longest_gap: Duration::from_millis(100),
            },
            burst: Burst {
                lasts: Duration::from_micros(100),
                small_lasts: Duration::from_millis(1),
                small_bytes: 12 << 10,
                datagrams: 64,
            },
            // Little more than one burst goes at once.
            make_up: MakeUp {
                at_once: Duration::from_micros(250),
                most: Duration::from_millis(4),
                pace: 1.25,
            },
            least_timeout: Duration::from_millis(5),
            ecn: true,
            max_objects: 256,
            max_held_bytes: 64 << 20,
            silence: Duration::from_secs(10),
            seed: 0,
        }
    }
}

/// What a driver has to do, or to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// The receiver has answered, and is who it should be. Only an endpoint says so.
    Open,
    /// The receiver takes the object; of so many bytes something is missing there.
    Accepted {
        /// The request.
        request: u16,
        /// Bytes to be sent.
        bytes: u64,
    },
    /// Read this; then [`super::Sender::provide`] or [`super::Sender::withdraw`].
    Load {
        /// The request.
        request: u16,
        /// The block.
        block: u32,
        /// Where it begins in the object.
        offset: u64,
        /// Its length.
        bytes: usize,
    },
    /// A block is with the receiver.
    Delivered {
        /// The request.
        request: u16,
        /// The block.
        block: u32,
        /// Its length.
        bytes: usize,
    },
    /// The object is where it belongs.
    Stored {
        /// The request.
        request: u16,
    },
    /// The object will not get there.
    Refused {
        /// The request.
        request: u16,
        /// Why.
        why: Refusal,
        /// The same for a person.
        detail: String,
    },
    /// Somebody else's rate is used from now on.
    Guided(Guide),
    /// The connection has ended.
    Ended {
        /// Why, for a person.
        reason: String,
    },
}

/// Datagrams of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Bytes of each of them.
    pub segment_bytes: usize,
    /// What their IP headers are to bear.
    pub ecn: ecn::Codepoint,
}

/// What was sent and seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Symbols sent.
    pub symbols: u64,
    /// Those of them beyond a block's first pass.
    pub repairs: u64,
    /// Datagrams with pieces of symbols that the path did not carry whole.
    pub pieces: u64,
    /// Datagrams of both kinds that were sent ECN-capable.
    pub ect: u64,
    /// Those that the network marked for congestion, as the receiver reports.
    pub ce: u64,
    /// Whether marks pass, and are used.
    pub ecn: ecn::State,
    /// Reports that were taken.
    pub reports: u64,
    /// Datagrams that were malformed or of no use.
    pub unexpected: u64,
    /// Datagrams that did not authenticate.
    pub forged: u64,
    /// Datagrams that came a second time or too late.
    pub replayed: u64,
}

impl std::ops::AddAssign for SenderCounters {
    /// What is known of the path is what was found out last.
    fn add_assign(&mut self, more: Self) {
        self.symbols += more.symbols;
        self.repairs += more.repairs;
        self.pieces += more.pieces;
        self.ect += more.ect;
        self.ce += more.ce;
        self.ecn = more.ecn;
        self.reports += more.reports;
        self.unexpected += more.unexpected;
        self.forged += more.forged;
        self.replayed += more.replayed;
    }
}
