//! What a server is told to be like, asks of its driver, and counts.

use std::net::SocketAddr;
use std::time::Duration;

use wire::control::Fetch;

use crate::Budget;
use crate::ecn::Codepoint;
use crate::pacer::{Burst, MakeUp};

/// What a connection may cost a server, and how it behaves.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// TFRC's first rate, in bytes/s; without one it follows from the round trip of the handshake.
    pub start_bytes_per_s: Option<f64>,
    /// A client that has not said hello within this is let go.
    pub opening: Duration,
    /// A connection whose client says nothing for so long while it has requests is ended.
    pub silence: Duration,
    /// TFRC's nofeedback timer is at least so long: a process that the system lets wait is no network without feedback.
    pub least_timeout: Duration,
    /// A datagram is sent after this at the latest, however low TFRC's rate is. RFC 5348 has 64 s (t_mbi), which in a rack is
    /// thousands of round trips of all the others.
    pub longest_gap: Duration,
    /// What goes at once.
    pub burst: Burst,
    /// So much time unused by a late driver is made up for (RFC 5348, section 4.6).
    pub make_up: MakeUp,
    /// Whether symbols are sent ECN-capable (RFC 3168): TFRC heeds marks.
    pub ecn: bool,
    /// Requests open at a time.
    pub max_requests: usize,
    /// Blocks of a request held at a time.
    pub max_blocks: usize,
    /// Bytes of blocks of all requests held at a time.
    pub max_held_bytes: usize,
    /// And of blocks of all connections that share this.
    pub budget: Budget,
    /// Bytes that what is known of requests may take, of all connections that share this.
    pub state: Budget,
    /// Files open for requests of all connections that share this.
    pub files: Budget,
    /// Where the search for seeds begins: random, and the same for all connections of a process.
    pub seed: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            start_bytes_per_s: None,
            opening: Duration::from_secs(10),
            silence: Duration::from_secs(10),
            least_timeout: Duration::from_millis(5),
            longest_gap: Duration::from_millis(100),
            burst: Burst {
                lasts: Duration::from_micros(100),
                small_lasts: Duration::from_micros(100),
                small_bytes: 0,
                datagrams: 64,
            },
            make_up: MakeUp {
                at_once: Duration::from_millis(1),
                most: Duration::from_millis(1),
                pace: f64::INFINITY,
            },
            ecn: true,
            max_requests: 256,
            max_blocks: 64,
            max_held_bytes: 64 << 20,
            budget: Budget::new(usize::MAX),
            state: Budget::new(usize::MAX),
            files: Budget::new(usize::MAX),
            seed: 0,
        }
    }
}

/// What a driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// Open this; then [`accept`](super::Server::accept) or [`refuse`](super::Server::refuse).
    Open(Fetch),
    /// Read this; then [`provide`](super::Server::provide) or [`refuse`](super::Server::refuse).
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
    /// Answer with [`wire::control::Server::Listing`].
    List {
        /// The question.
        request: u16,
        /// Below what.
        path: String,
    },
    /// Close what was opened for it.
    Close {
        /// The request.
        request: u16,
        /// All its blocks were complete.
        complete: bool,
    },
    /// Close the connection.
    Ended {
        /// Why, for a person.
        reason: String,
    },
}

/// What was seen on the data channel, and what was refused there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// Symbols sent.
    pub symbols: u64,
    /// Datagrams with pieces of those for which a path was too narrow.
    pub pieces: u64,
    /// Datagrams with symbols, or pieces of them, that were sent ECN-capable.
    pub ect: u64,
    /// Those that the network marked for congestion, as clients report.
    pub ce: u64,
    /// Connections whose paths clear marks, and such as drop what is ECN-capable.
    pub ecn_cleared: u64,
    /// See `ecn_cleared`.
    pub ecn_dropped: u64,
    /// Feedback that was taken.
    pub feedback: u64,
    /// Datagrams that were malformed, of no use, or from another address.
    pub unexpected: u64,
    /// Datagrams that did not authenticate.
    pub forged: u64,
    /// Datagrams that came a second time or too late.
    pub replayed: u64,
}

impl std::ops::AddAssign for ServerCounters {
    fn add_assign(&mut self, more: Self) {
        self.symbols += more.symbols;
        self.pieces += more.pieces;
        self.ect += more.ect;
        self.ce += more.ce;
        self.ecn_cleared += more.ecn_cleared;
        self.ecn_dropped += more.ecn_dropped;
        self.feedback += more.feedback;
        self.unexpected += more.unexpected;
        self.forged += more.forged;
        self.replayed += more.replayed;
    }
}

/// Datagrams of one size for one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub to: SocketAddr,
    /// Bytes of each of them.
    pub segment_bytes: usize,
    /// What their IP headers are to bear.
    pub ecn: Codepoint,
}
