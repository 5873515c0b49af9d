//! ATP, "Another Transport Protocol": reliable streams of bytes over datagrams, whose short flows are spared the timeout.
//!
//! A [`Connection`] carries streams both ways. As in the paper (section II): a packet with the XOR of those before it repairs the loss of
//! one of them; parity is dense at the beginning, rarer as the window grows without loss, and denser again when it shrinks; the
//! last packet of a stream is parity; a receiver asks for what is missing, and a sender's timeout is the last resort; the window grows by
//! a packet in each round trip without congestion, and at the beginning with everything that is acknowledged; it shrinks a little when
//! parity has repaired a loss, and more when something had to be asked for or waited for.
//!
//! Beyond the paper: groups that take turns, so that a burst of losses falls on several of them; each packet tells how many are about to
//! follow, so that a receiver misses a lost end, too; ECN; flow control; sealed packets.

mod after;
mod connection;
mod endpoint;
mod interface;
mod opening;
mod parity;
mod receive_stream;
mod received;
mod rtt;
mod send_stream;
mod sent;
mod streams;
mod window;

pub use connection::{CODE_REFUSED, CODE_TLS, CODE_VIOLATION, Connection, MOST_CODE};
pub use endpoint::{ALPN, ConnectError, ConnectionId, Endpoint, EndpointConfig, EndpointCounters, Transmit};
pub use interface::{
    Closed, ConnectionConfig, Counters, Event, FIRST_STREAM_WINDOW_BYTES, FIRST_STREAMS, FIRST_WINDOW_BYTES,
    KnownServer, Read, StreamId, WriteError,
};
