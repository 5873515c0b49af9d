//! Clients and servers of LTTP as nodes: the state machines of [`proto::lttp`] with objects in memory, decoders in
//! line, and control messages in their wire form over the network's pipes.
//!
//! They do what a driver does and decide nothing. A client never keeps a byte that its block's hash does not vouch
//! for.

mod client;
mod server;

pub use client::{ClientNode, Fetched, Outcome};
pub use server::{Served, ServerNode};

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use proto::channel::{Channel, Security};
use proto::protect::SECRET_BYTES;

use crate::NodeId;

/// The secret that TLS would give both ends; none: nothing is protected.
pub type Secret = Option<[u8; SECRET_BYTES]>;

/// Where a node's datagrams come from.
pub fn address(node: NodeId) -> SocketAddr {
    let [_, b, c, d] = (node.0 as u32).to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, b, c, d)), 4860)
}

/// What protects a connection, known to both ends beforehand.
pub(crate) fn security(secret: Secret) -> Security {
    secret.map_or(Security::Clear, Security::Known)
}

/// What a channel's stream is to carry.
fn said(channel: &mut Channel) -> Option<Vec<u8>> {
    let mut said = Vec::new();
    loop {
        let bytes = channel.outgoing();
        if bytes.is_empty() {
            return (!said.is_empty()).then_some(said);
        }
        said.extend_from_slice(bytes);
        let count = bytes.len();
        channel.written(count);
    }
}
