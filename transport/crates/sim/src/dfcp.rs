//! Senders and receivers of DFCP as nodes: the state machines of [`proto::dfcp`] with objects in memory, decoders in line,
//! and control messages in clear over their own signalling.
//!
//! They do what a driver does and decide nothing. A receiver never keeps a byte that its block's hash does not vouch for.

mod receiver;
mod sender;

pub use receiver::{Received, ReceiverNode};
pub use sender::{Outcome, SenderNode, SenderSetup};

use proto::dfcp::Signalling;
use serde::Serialize;
use wire::control;
use wire::packet::{Header, Kind};

use crate::{Datagram, NodeId, Output, Time};

/// UDP's part for what nothing else protects.
const CHECKSUM_BYTES: usize = 4;

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    *blake3::hash(bytes).as_bytes().first_chunk().expect("a hash is longer")
}

/// A signal as it goes over links.
fn signal_datagram(to: NodeId, mut bytes: Vec<u8>) -> Output {
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum);
    Output::Datagram(Datagram::new(to, bytes))
}

/// The signal that a datagram is, if it is one that arrived whole.
fn as_signal(datagram: &[u8]) -> Option<(Header, &[u8])> {
    let header = Header::parse(datagram).ok().filter(|header| header.kind == Kind::Signal)?;
    let (bytes, sum) = datagram.split_last_chunk()?;
    (checksum(bytes) == *sum).then_some((header, bytes))
}

fn write<M: Serialize>(signalling: &mut Signalling, message: &M) {
    let mut bytes = Vec::new();
    control::emit(message, &mut bytes).expect("a message of ours fits its frame");
    signalling.write(&bytes);
}

/// The signals that are to be sent now.
fn signals(signalling: &mut Signalling, now: Time, to: NodeId, output: &mut impl Extend<Output>) {
    let mut buffer = Vec::new();
    while signalling.poll_transmit(now, &mut buffer) {
        output.extend([signal_datagram(to, std::mem::take(&mut buffer))]);
    }
}
