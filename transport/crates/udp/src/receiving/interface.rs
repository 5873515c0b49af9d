//! Where to receive, what is told of it, and where it goes.

use std::net::SocketAddr;
use std::sync::Arc;

use proto::dfcp::{ReceiverConfig, ReceiverCounters};
use wire::control::{Offer, Run};

use crate::sink::{JobId, Sink};

/// Where to receive.
pub struct ReceiveOptions {
    /// UDP; port 0 takes a free one.
    pub listen: SocketAddr,
    /// TLS, or `None` to believe anyone, for experiments.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// How connections behave.
    pub config: ReceiverConfig,
    /// Whether to decode. If not, it is only found out when there would be enough to do so; nothing comes to a sink, and
    /// objects count as stored that are not: to see what decoding costs the rest.
    pub decode: bool,
    /// Connections at a time, and what they may make it hold. One gets the window of `config`, but at most half of what is
    /// left, and 1 MiB at least. Symbols of blocks that are beyond what may be held count as lost.
    pub limits: crate::Limits,
}

/// Where an offered object goes.
pub struct Taken {
    /// Its blocks that are not there yet, ascending.
    pub missing: Vec<Run>,
    /// Takes the rest.
    pub sink: Box<dyn Sink>,
}

/// What has happened.
#[derive(Debug)]
pub enum ReceiveUpdate {
    /// A sender has connected.
    Connected {
        /// Its address.
        from: SocketAddr,
    },
    /// It would send an object: [`open`](super::Receiving::open), [`take`](super::Receiving::take) or [`refuse`](super::Receiving::refuse) it.
    Offered {
        /// Names it here.
        job: JobId,
        /// Who.
        from: SocketAddr,
        /// What.
        offer: Offer,
    },
    /// A block is with the sink.
    Block {
        /// The object.
        job: JobId,
        /// Its length.
        bytes: usize,
    },
    /// An object is whole.
    Stored {
        /// The object.
        job: JobId,
    },
    /// An object will not come whole.
    Failed {
        /// The object.
        job: JobId,
        /// Why, for a person.
        why: String,
    },
    /// A sender has gone; what became of its objects was told before.
    Disconnected {
        /// Its address.
        from: SocketAddr,
        /// Why, for a person.
        why: String,
    },
}

/// What a receiver did.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceiveStatistics {
    /// Connections that were let in.
    pub connections: u64,
    /// Connections that were turned away.
    pub refused: u64,
    /// Objects that came whole.
    pub stored: u64,
    /// Objects that did not.
    pub failed: u64,
    /// Datagrams for no connection.
    pub strays: u64,
    /// The most bytes that were held for connections at a time.
    pub peak_bytes: u64,
    /// The most objects that were open at a time.
    pub peak_files: u64,
    /// What the connections that have ended counted.
    pub data: ReceiverCounters,
}
