//! LTTP: many servers answer one client with LT-coded symbols (Jiang et al., "LTTP: An LT-Code Based Transport
//! Protocol for Many-to-One Communication in Data Centers").
//!
//! [`Client`] is one machine for all servers of a fetch, since what it lets be under way is shared by them;
//! [`Server`] is one connection at a server. [`ClientEndpoint`] and [`ServerEndpoint`] put the control channels around them. A
//! driver brings these the bytes of streams, datagrams and the time, and carries out what they ask for. They never wait, and
//! hold no file and no socket.
//!
//! As in the paper: a control channel for each pair, requests, decoding parameters, symbols under TFRC, a
//! terminating signal, no retransmission. Beyond it, each an option: credits, by which the client keeps the sum of
//! what is under way within what its link holds ([`wire::control::Pacing::Client`]); many blocks at once; a first
//! rate from the control channel's round trip; protected datagrams; proof of the address; caps.

mod client;
mod endpoint;
mod server;
mod window;

use std::time::Duration;

use wire::control::Pacing;

use crate::tfrc;

pub use client::{Client, ClientConfig, ClientEvent, Lost, ServerId, ServerReport};
pub use endpoint::{ClientEndpoint, ServerEndpoint};
pub use server::{Server, ServerConfig, ServerCounters, ServerEvent, Transmit};

/// The retransmission timeout in TFRC's equation, at both ends alike. Where the client limits what is under way, losses are
/// those of flows that it knows nothing of, and it is to be fair to them. The paper's mode makes its own, in bursts of
/// which no TCP would have survived, and has TFRC by the letter.
fn least_rto(pacing: Pacing) -> Duration {
    match pacing {
        Pacing::Client { .. } => tfrc::LINUX_RTO,
        Pacing::Tfrc => Duration::ZERO,
    }
}
