//! What a receiver is told to be like, asks of its driver, and counts.

use std::time::Duration;

use wire::control::{Hash, Offer};

use crate::Budget;

/// What a connection may cost a receiver, and how it behaves.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Bytes of blocks that may be under way.
    pub window_bytes: u64,
    /// Blocks that may be under way.
    pub max_blocks: usize,
    /// Bytes that a block has at least, in objects of more than one: each block costs a receiver something.
    pub least_block_bytes: usize,
    /// Objects that may be offered and not stored.
    pub max_objects: usize,
    /// Bytes that blocks of all connections that share this may hold.
    pub budget: Budget,
    /// Bytes that what is known of objects may take, of all connections that share this: an end that has none left for
    /// blocks goes on with those that it has.
    pub state: Budget,
    /// Objects of all connections that share this.
    pub objects: Budget,
    /// A sender that says nothing for so long while something is to come is lost.
    pub silence: Duration,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        ReceiverConfig {
            window_bytes: 64 << 20,
            max_blocks: 1024,
            least_block_bytes: 4096,
            max_objects: 1024,
            budget: Budget::new(usize::MAX),
            state: Budget::new(usize::MAX),
            objects: Budget::new(usize::MAX),
            silence: Duration::from_secs(10),
        }
    }
}

/// What a driver has to do, or to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// See what there is of this; then [`super::Receiver::accept`] or [`super::Receiver::refuse`].
    Offer(Offer),
    /// What a block is.
    BlockHash {
        /// The request.
        request: u16,
        /// The block.
        block: u32,
        /// Its hash.
        hash: Hash,
    },
    /// The object will not come.
    Withdrawn {
        /// The request.
        request: u16,
        /// Why, for a person.
        detail: String,
    },
    /// The connection has ended.
    Ended {
        /// Why, for a person.
        reason: String,
        /// Nothing was on its way any more.
        complete: bool,
    },
}

/// What was seen on the data channel, and what was refused there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// Symbols of use.
    pub useful: u64,
    /// Symbols of blocks that were complete.
    pub late: u64,
    /// Datagrams with pieces of symbols.
    pub pieces: u64,
    /// Numbers below the highest that did not come.
    pub missing: u64,
    /// Symbols that came ECN-capable, and those that the network had marked for congestion (RFC 3168).
    pub ect: u64,
    /// See `ect`.
    pub ce: u64,
    /// Reports sent.
    pub reports: u64,
    /// Symbols of blocks for which no memory was left.
    pub no_room: u64,
    /// Datagrams that were malformed or of no use.
    pub unexpected: u64,
    /// Datagrams that did not authenticate.
    pub forged: u64,
    /// Datagrams that came a second time or too late.
    pub replayed: u64,
}

impl std::ops::AddAssign for ReceiverCounters {
    fn add_assign(&mut self, more: Self) {
        self.useful += more.useful;
        self.late += more.late;
        self.pieces += more.pieces;
        self.missing += more.missing;
        self.ect += more.ect;
        self.ce += more.ce;
        self.reports += more.reports;
        self.no_room += more.no_room;
        self.unexpected += more.unexpected;
        self.forged += more.forged;
        self.replayed += more.replayed;
    }
}
