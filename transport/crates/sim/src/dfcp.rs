//! Senders and receivers of DFCP as nodes: the endpoints of [`proto::dfcp`] with objects in memory and decoders in line.
//!
//! They do what a driver does and decide nothing. A receiver never keeps a byte that its block's hash does not vouch for.

mod receiver;
mod sender;

pub use receiver::{Received, ReceiverNode};
pub use sender::{Outcome, SenderNode, SenderSetup};

use proto::ecn::Codepoint;
use wire::packet::{Header, Kind};

use crate::{Datagram, NodeId, Output};

/// UDP's part for what nothing else protects.
const CHECKSUM_BYTES: usize = 4;

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    *blake3::hash(bytes).as_bytes().first_chunk().expect("a hash is longer")
}

fn is_signal(datagram: &[u8]) -> bool {
    Header::parse(datagram).is_ok_and(|header| header.kind == Kind::Signal)
}

/// A datagram as it goes over links: a signal with a checksum.
fn datagram(to: NodeId, mut bytes: Vec<u8>, ecn: Codepoint) -> Output {
    if is_signal(&bytes) {
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum);
    }
    Output::Datagram(Datagram { ecn, ..Datagram::new(to, bytes) })
}

/// What arrived of a datagram; a signal that did not arrive whole is as good as lost.
fn arrived(payload: &mut [u8]) -> Option<&mut [u8]> {
    if !is_signal(payload) {
        return Some(payload);
    }
    let (bytes, sum) = payload.split_last_chunk_mut()?;
    (checksum(bytes) == *sum).then_some(bytes)
}
