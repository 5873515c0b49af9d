//! Models of TCP with a window of whole segments, as traffic to compete with.
//!
//! [`NewReno`] is the TCP of RFC 5681 and 6582: one loss repaired a round trip, and many a timeout where
//! windows are small. [`Sack`] knows what has arrived and probes for a lost tail (RFC 6675, 8985), as hosts
//! do now: it hardly meets a timeout where the other spends half of its time in them. Kept in both: slow
//! start, congestion avoidance, the retransmission timeout with its backoff and minimum (RFC 6298), delayed
//! acknowledgements, time stamps for the round trip, ECN (RFC 3168). Left out: connections' beginning and end,
//! receive windows, sequence numbers within a segment.
//!
//! A source carries the bytes that it is given (`write`, `end`), and the [`Sink`] has them in order; one that is given
//! none sends segments of which only the size counts. [`Segment`] and [`Ack`] are what they say to each other: a
//! [`crate::Wrapped`] node can read and change it.

mod newreno;
mod sack;
mod segment;
mod supply;

pub use newreno::NewReno;
pub use sack::Sack;
pub use segment::{Ack, Segment};

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Datagram, Node, NodeId, Output, Time};

/// Ethernet, IPv4 and TCP with the time stamps option.
const OVERHEAD_BYTES: u32 = 14 + 20 + 32;
/// How long an acknowledgement waits for a second segment.
const DELAYED_ACK: Duration = Duration::from_millis(40);
const LONGEST_RTO: Duration = Duration::from_secs(60);
/// Segments beyond a gap that an acknowledgement names, at most.
const SACKED: usize = 256;

/// How a source sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpConfig {
    /// Payload of a segment.
    pub mss_bytes: u32,
    /// Initial window, segments.
    pub initial_window: u32,
    /// The retransmission timeout is at least this.
    pub least_rto: Duration,
    /// When it begins.
    pub begin: Time,
    /// Segments to send in all, of a source that is given no bytes; none: for ever.
    pub segments: Option<u64>,
    /// New segments are sent as ECN-capable, and marks heeded.
    pub ecn: bool,
}

impl Default for TcpConfig {
    /// As in Linux: MSS 1448, ten segments at first, 200 ms.
    fn default() -> Self {
        TcpConfig {
            mss_bytes: 1448,
            initial_window: 10,
            least_rto: Duration::from_millis(200),
            begin: Time::ZERO,
            segments: None,
            ecn: false,
        }
    }
}

/// What happened to a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Reductions of the window for marks.
    pub reductions: u64,
}

/// Acknowledges what a source sends, and has its bytes in order.
pub struct Sink {
    /// Segments per acknowledgement, 1 or 2 (b in the throughput equation).
    per_ack: u32,
    next: u64,
    ahead: BTreeMap<u64, Vec<u8>>,
    received: Vec<u8>,
    ece: bool,
    /// Segments in order not acknowledged yet, the first one's time stamp, and until when that may wait.
    pending: u32,
    stamp: Time,
    ack_by: Option<Time>,
    due: bool,
    from: Option<NodeId>,
}

impl Sink {
    /// A sink that acknowledges every `per_ack`-th segment.
    pub fn new(per_ack: u32) -> Self {
        Sink {
            per_ack,
            next: 0,
            ahead: BTreeMap::new(),
            received: Vec::new(),
            ece: false,
            pending: 0,
            stamp: Time::ZERO,
            ack_by: None,
            due: false,
            from: None,
        }
    }

    /// The bytes that have arrived in order.
    pub fn received(&self) -> &[u8] {
        &self.received
    }
}

impl Node for Sink {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        let Some(Segment { number, stamp, cwr, bytes }) = Segment::parse(&datagram.payload) else { return };
        self.from = Some(datagram.from);
        // A mark on the segment that says so counts anew (RFC 3168 section 6.1.3).
        self.ece = datagram.ecn.is_ce() || (self.ece && !cwr);
        if self.pending == 0 {
            self.stamp = stamp;
        }
        let in_order = number == self.next && self.ahead.is_empty();
        if number >= self.next {
            self.ahead.entry(number).or_insert(bytes);
        }
        while let Some(bytes) = self.ahead.remove(&self.next) {
            self.received.extend_from_slice(&bytes);
            self.next += 1;
        }
        self.pending += 1;
        self.ack_by.get_or_insert(now + DELAYED_ACK);
        // Out of order, and filling a gap: at once (RFC 5681 section 4.2).
        self.due |= !in_order || self.pending >= self.per_ack;
    }

    fn handle_timeout(&mut self, now: Time) {
        self.due |= self.ack_by.is_some_and(|at| at <= now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.ack_by
    }

    fn poll_transmit(&mut self, _now: Time) -> Option<Output> {
        let to = self.from?;
        if !std::mem::take(&mut self.due) {
            return None;
        }
        self.pending = 0;
        self.ack_by = None;
        let beyond = self.ahead.keys().take(SACKED).copied().collect();
        let ack = Ack { next: self.next, stamp: self.stamp, ece: self.ece, beyond, options: Vec::new() };
        Some(Output::Datagram(Datagram::new(to, ack.emit()).sized(OVERHEAD_BYTES)))
    }
}

/// The round trip and the retransmission timeout (RFC 6298, with a clock of nanoseconds).
#[derive(Clone, Debug)]
struct Rto {
    least: Duration,
    /// Smoothed round trip and its deviation, seconds.
    rtt: Option<(f64, f64)>,
    timeout: Duration,
}

impl Rto {
    fn new(least: Duration) -> Self {
        Rto { least, rtt: None, timeout: Duration::from_secs(1) }
    }

    fn measure(&mut self, sample: Duration) {
        let sample = sample.as_secs_f64();
        let (mean, deviation) = self.rtt.map_or((sample, sample / 2.0), |(mean, deviation)| {
            (0.875 * mean + 0.125 * sample, 0.75 * deviation + 0.25 * (mean - sample).abs())
        });
        self.rtt = Some((mean, deviation));
        self.timeout = Duration::from_secs_f64(mean + 4.0 * deviation).clamp(self.least, LONGEST_RTO);
    }

    fn back_off(&mut self) {
        self.timeout = (2 * self.timeout).min(LONGEST_RTO);
    }
}
