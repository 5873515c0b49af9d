//! What a connection is told to be like, tells its driver, and counts.

use std::time::Duration;

use thiserror::Error;

use crate::Budget;
use crate::path_mtu;
use crate::protect::Side;

/// A stream of a connection, by its number: even if the client has opened it, odd if the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The `nth` stream that an end opens, from 0.
    pub(crate) fn new(by: Side, nth: u64) -> Self {
        StreamId(2 * nth + u64::from(by == Side::Server))
    }

    /// Who has opened it.
    pub fn opener(self) -> Side {
        if self.0.is_multiple_of(2) { Side::Client } else { Side::Server }
    }

    pub(crate) fn nth(self) -> u64 {
        self.0 / 2
    }
}

/// What a client knows of a server from a connection before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownServer {
    /// Shows the server that the client is where it says; empty: there is none.
    pub token: Vec<u8>,
    /// The round trip.
    pub rtt: Option<Duration>,
}

/// What a connection may cost, and how it behaves. Both ends need not have the same.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    /// Bytes of a datagram's UDP payload; 512 at least.
    pub datagram_bytes: u16,
    /// Bytes that the peer may send before they are read, of all streams together: at the beginning, and at most.
    pub window_bytes: u64,
    /// See `window_bytes`.
    pub max_window_bytes: u64,
    /// The same of one stream, at most: what a stream that nobody reads takes from the others.
    pub max_stream_window_bytes: u64,
    /// Bytes that are written and not acknowledged, at most, of all streams together.
    pub send_bytes: usize,
    /// The same of one stream.
    pub stream_send_bytes: usize,
    /// Streams that the peer may have open at a time.
    pub max_streams: u64,
    /// A peer that has said nothing for so long is gone.
    pub idle: Duration,
    /// Whether the peer is asked for a sign of life also while no stream is open: otherwise a connection that nobody uses ends.
    pub stays_open: bool,
    /// Whoever has not opened the connection within this is given up.
    pub opening: Duration,
    /// Whether data is sent, or taken, before the server has answered (0-RTT). It saves a round trip; but whoever records it can
    /// send it again, and the server then does once more what it asks for. So it is for requests that may be repeated.
    pub early: bool,
    /// Whether parity is sent. Without it, every loss has to be asked for.
    pub parity: bool,
    /// Whether packets are sent ECN-capable (RFC 3168).
    pub ecn: bool,
    /// What connections that share this hold together: what they have received and sent.
    pub budget: Budget,
}

/// What any connection may send before it is told more. Streams that nobody reads leave something to the others.
pub const FIRST_WINDOW_BYTES: u64 = 1 << 20;
/// What any stream may send before it is told more.
pub const FIRST_STREAM_WINDOW_BYTES: u64 = 64 << 10;
/// Streams that any peer may open before it is told more.
pub const FIRST_STREAMS: u64 = 64;

impl Default for ConnectionConfig {
    fn default() -> Self {
        ConnectionConfig {
            datagram_bytes: path_mtu::BASE_BYTES,
            window_bytes: FIRST_WINDOW_BYTES,
            max_window_bytes: 16 << 20,
            max_stream_window_bytes: 4 << 20,
            send_bytes: 4 << 20,
            stream_send_bytes: 1 << 20,
            max_streams: FIRST_STREAMS,
            idle: Duration::from_secs(30),
            stays_open: false,
            opening: Duration::from_secs(10),
            early: false,
            parity: true,
            ecn: true,
            budget: Budget::new(usize::MAX),
        }
    }
}

/// What has happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is through: the peer is who it should be.
    Connected,
    /// The server's token: to be shown when this address connects to it the next time.
    Token(Vec<u8>),
    /// The peer has opened a stream.
    Opened(StreamId),
    /// The peer lets more streams be open than before.
    MayOpen,
    /// A stream has bytes to read, or has ended, or was given up: [`read`](super::Connection::read) tells which.
    Readable(StreamId),
    /// A write that found no room, or too little, may go on.
    Writable(StreamId),
    /// The peer wants no more of a stream, for this reason of its application.
    Stopped(StreamId, u64),
    /// The connection is over.
    Closed(Closed),
}

/// Why a connection is over.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Closed {
    /// This end has closed it.
    #[error("closed by this side")]
    Locally,
    /// The peer has.
    #[error("closed by the other side: {reason} ({code})")]
    ByPeer {
        /// Its application's code.
        code: u64,
        /// In words; nothing else than what the peer has sent.
        reason: String,
    },
    /// The peer has not let it be opened, or somebody says so who need not be the peer.
    #[error("refused: {reason} ({code})")]
    Refused {
        /// A code of the protocol or of the peer's application.
        code: u64,
        /// In words; nothing else than what was sent.
        reason: String,
    },
    /// TLS has failed.
    #[error("{0}")]
    Tls(String),
    /// The peer has not answered.
    #[error("no connection within {} s", .0.as_secs_f64())]
    Unanswered(Duration),
    /// The peer says nothing any more.
    #[error("the other side has not been heard for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The peer does what the protocol does not allow.
    #[error("the other side breaks the protocol: {0}")]
    Violation(&'static str),
}

/// Why nothing can be written.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WriteError {
    /// There is no such stream, or it was finished or given up by this end.
    #[error("the stream is not open for writing")]
    NotOpen,
    /// The peer wants no more of it.
    #[error("the other side wants no more of the stream ({0})")]
    Stopped(u64),
    /// The connection is over.
    #[error("the connection is over")]
    Closed,
}

/// What a read has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes, more than none.
    Bytes(usize),
    /// Nothing has come that could be read.
    Nothing,
    /// The stream has ended, and all of it has been read.
    End,
    /// The peer has given it up, for this reason of its application.
    Reset(u64),
    /// There is no such stream, or the connection is over.
    NotOpen,
}

/// What has been counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets sent that are to be acknowledged, parity among them.
    pub sent: u64,
    /// Bytes of their datagrams.
    pub sent_bytes: u64,
    /// Those with parity.
    pub parity: u64,
    /// Bytes of their datagrams.
    pub parity_bytes: u64,
    /// Packets that the peer had to ask for.
    pub requested: u64,
    /// Packets that this end had to wait for in vain.
    pub timed_out: u64,
    /// Timeouts of this end, the last resort.
    pub timeouts: u64,
    /// Packets of the peer's that parity has repaired.
    pub repaired: u64,
    /// How often this end has asked for what was missing.
    pub requests: u64,
    /// Packets of this end's that the peer's parity has repaired, as it says.
    pub repaired_at_peer: u64,
    /// Packets that bore a mark of congestion when they came to the peer, as it says.
    pub ce: u64,
    /// Datagrams that were malformed or of another connection.
    pub unexpected: u64,
    /// Datagrams that did not authenticate.
    pub forged: u64,
    /// Datagrams that came a second time, or too late.
    pub replayed: u64,
}

impl std::ops::Add for Counters {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Counters {
            sent: self.sent + more.sent,
            sent_bytes: self.sent_bytes + more.sent_bytes,
            parity: self.parity + more.parity,
            parity_bytes: self.parity_bytes + more.parity_bytes,
            requested: self.requested + more.requested,
            timed_out: self.timed_out + more.timed_out,
            timeouts: self.timeouts + more.timeouts,
            repaired: self.repaired + more.repaired,
            requests: self.requests + more.requests,
            repaired_at_peer: self.repaired_at_peer + more.repaired_at_peer,
            ce: self.ce + more.ce,
            unexpected: self.unexpected + more.unexpected,
            forged: self.forged + more.forged,
            replayed: self.replayed + more.replayed,
        }
    }
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, more: Self) {
        *self = *self + more;
    }
}
