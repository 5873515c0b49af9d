//! What a client is told to be like, tells its driver, and counts.

use std::time::Duration;

use wire::control::{self, Code, Entry, Omitted, Parameters, Refusal};

use crate::coding::Method;

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Bytes of a symbol.
    pub symbol_bytes: u16,
    /// Symbols of a block.
    pub block_symbols: u16,
    /// The code of the blocks.
    pub code: Code,
    /// How they are decoded.
    pub method: Method,
    /// Whether this client keeps what is under way within a window, or leaves all to TFRC as the paper does.
    pub credits: bool,
    /// The least window in bytes on the wire: what a shallow buffer holds, less than which stalls empty it.
    pub window_floor_bytes: usize,
    /// The greatest window; the same as the floor to fix it.
    pub window_ceiling_bytes: usize,
    /// What all servers together may send, in bit/s of whole Ethernet frames; with credits only.
    pub max_bps: Option<f64>,
    /// Blocks of a request that may come at a time.
    pub max_blocks: usize,
    /// A server that says nothing for so long while something is to come, or while it is connected to, is lost.
    pub silence: Duration,
}

impl Default for ClientConfig {
    fn default() -> Self {
        ClientConfig {
            symbol_bytes: 1024,
            block_symbols: 256,
            code: Code::Dealt,
            method: Method::Complete,
            credits: true,
            window_floor_bytes: 40 << 10,
            window_ceiling_bytes: 16 << 20,
            max_bps: None,
            max_blocks: 32,
            silence: Duration::from_secs(10),
        }
    }
}

/// A server within its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId(pub usize);

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// Data can flow from this server.
    Ready {
        /// Which.
        server: ServerId,
    },
    /// What decoding needs.
    Parameters {
        /// Whose.
        server: ServerId,
        /// The parameters.
        parameters: Parameters,
    },
    /// What a block is.
    BlockHash {
        /// Whose.
        server: ServerId,
        /// The request.
        request: u16,
        /// The block.
        block: u32,
        /// Its hash.
        hash: control::Hash,
    },
    /// Files of a server.
    Listing {
        /// Whose.
        server: ServerId,
        /// The question.
        request: u16,
        /// Files and directories.
        entries: Vec<Entry>,
        /// What is there as well, and cannot be fetched.
        omitted: Vec<Omitted>,
        /// Nothing follows.
        last: bool,
    },
    /// A question about files has no answer.
    Unlisted {
        /// Whose.
        server: ServerId,
        /// The question.
        request: u16,
        /// Why, for a person.
        detail: String,
    },
    /// A request has ended without success.
    Refused {
        /// By which.
        server: ServerId,
        /// The request.
        request: u16,
        /// Why.
        why: Refusal,
        /// The same for a person.
        detail: String,
    },
    /// A server is gone, with all its requests.
    Lost {
        /// Which.
        server: ServerId,
        /// How.
        reason: Lost,
    },
}

/// How a server was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Its control channel could not be opened, for this reason.
    #[error("{0}")]
    Unopened(String),
    /// Its control channel did not open for so long.
    #[error("it did not answer within {} s", .0.as_secs_f64())]
    Unanswered(Duration),
    /// It does not speak this version.
    #[error("it speaks version {0} of LTTP, not {ours}", ours = wire::VERSION)]
    Version(u8),
    /// It said goodbye.
    #[error("it ended the connection: {0}")]
    Bye(String),
    /// Its datagrams do not arrive, or ours do not.
    #[error("its control channel answers, but no datagram passes (a firewall, perhaps)")]
    NoData,
    /// It stopped in the middle.
    #[error("nothing was heard of it for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// It broke the protocol.
    #[error("it broke the protocol: {0}")]
    Protocol(&'static str),
}

/// A server's account.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerReport {
    /// Symbols that were of use.
    pub useful: u64,
    /// Symbols of blocks that were complete.
    pub late: u64,
    /// Datagrams with pieces of symbols for which the path was too narrow.
    pub pieces: u64,
    /// Numbers that never came.
    pub missing: u64,
    /// Symbols that came ECN-capable, and those that the network had marked for congestion (RFC 3168).
    pub ect: u64,
    /// See `ect`.
    pub ce: u64,
    /// Symbols that credit was given for, and that were given up.
    pub given_up: u64,
    /// Datagrams malformed, unknown or never asked for.
    pub unexpected: u64,
    /// Datagrams that did not authenticate.
    pub forged: u64,
    /// Datagrams that came a second time or too late.
    pub replayed: u64,
    /// TFRC's loss event rate.
    pub loss_event_rate: f64,
}
