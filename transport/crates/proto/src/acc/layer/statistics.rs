//! What there is to know of a layer, for people and for metrics.

use std::time::Duration;

use super::super::packet::{FlowKey, Pair};
use super::super::{ReceiverCounters, SenderCounters};

/// What has become of datagrams and packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that are none of the layer's.
    pub malformed: u64,
    /// Of a session that there is not, or not any more.
    pub unknown: u64,
    /// Not made by the peer, changed on the way, or replayed.
    pub forged: u64,
    /// Probes and answers that had another key, or that nobody has asked for.
    pub refused: u64,
    /// Packets for hosts that are no peers.
    pub strayed: u64,
    /// Packets that were carried without a number, as their peer had too many flows.
    pub unnumbered: u64,
    /// Flows that were forgotten for others.
    pub evicted: u64,
}

/// A peer, for people and for metrics.
#[derive(Clone, Debug)]
pub struct PeerStatistics {
    /// Which.
    pub pair: Pair,
    /// Whether it is one at present.
    pub up: bool,
    /// The round trip.
    pub rtt: Option<Duration>,
    /// Shares of packets lost: what we send, as it reports.
    pub loss: f64,
    /// Packets of TCP sent to it, with a number and without.
    pub sent: u64,
    /// And those that came.
    pub came: u64,
    /// What senders have done, all flows.
    pub sender: SenderCounters,
    /// What receivers have done, all flows.
    pub receiver: ReceiverCounters,
    /// What of its packets we have missed (d), all flows.
    pub lost: u64,
    /// Flows to it.
    pub flows: Vec<FlowStatistics>,
    /// Bytes that are held of what it has sent.
    pub held_bytes: usize,
}

/// A flow that is sent.
#[derive(Clone, Copy, Debug)]
pub struct FlowStatistics {
    /// Which.
    pub key: FlowKey,
    /// The loss rate p.
    pub loss: f64,
    /// Q.
    pub queue: f64,
    /// What its sender has done.
    pub sender: SenderCounters,
}
