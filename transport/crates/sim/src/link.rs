//! A link: a drop-tail queue, a transmitter with a rate, a delay, faults.

use std::collections::VecDeque;
use std::time::Duration;

use crate::faults::{FaultState, Faults};
use crate::{Datagram, Rng, Time};

/// What a link is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConfig {
    /// Bits per second; none: datagrams only take the delay.
    pub rate_bps: Option<u64>,
    /// Propagation.
    pub delay: Duration,
    /// What the queue holds besides the datagram that is being sent. One that does not fit as a whole is
    /// dropped.
    pub buffer_bytes: u64,
    /// ECN-capable datagrams are marked when more than this is queued before them.
    pub mark_above_bytes: Option<u64>,
}

impl LinkConfig {
    /// A link that only takes time.
    pub fn delay(delay: Duration) -> Self {
        LinkConfig { rate_bps: None, delay, buffer_bytes: u64::MAX, mark_above_bytes: None }
    }

    /// A link with a rate and a drop-tail buffer.
    pub fn new(rate_bps: u64, delay: Duration, buffer_bytes: u64) -> Self {
        LinkConfig { rate_bps: Some(rate_bps), delay, buffer_bytes, mark_above_bytes: None }
    }
}

/// What a link has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkCounters {
    /// Datagrams and bytes sent in full.
    pub sent: u64,
    /// See `sent`.
    pub sent_bytes: u64,
    /// Dropped for want of room.
    pub dropped: u64,
    /// Lost by a fault.
    pub lost: u64,
    /// Marked.
    pub marked: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// With a byte changed.
    pub corrupted: u64,
    /// The longest the queue has been.
    pub most_queued_bytes: u64,
    /// Bytes queued, summed over time, byte seconds: the mean queue times the time.
    pub queued_byte_seconds: f64,
}

/// A link of a [`crate::Network`].
#[derive(Debug)]
pub struct Link {
    /// May be changed while the network runs; a new rate holds from the next datagram on.
    pub config: LinkConfig,
    /// May be changed while the network runs.
    pub faults: Faults,
    state: FaultState,
    counters: LinkCounters,
    queue: VecDeque<Hop>,
    queued_bytes: u64,
    counted_until: Time,
    sending: Option<Hop>,
    /// When the last datagram in order comes out.
    last_arrival: Time,
}

/// A datagram under way, and the links it has still to pass after this one.
#[derive(Clone, Debug)]
pub(crate) struct Hop {
    pub(crate) datagram: Datagram,
    pub(crate) route_position: usize,
}

/// What became of a datagram, and perhaps its copy, that was offered to a link.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    /// How many were dropped or lost.
    pub(crate) gone: u64,
    /// The transmitter was free: it is done then.
    pub(crate) sent_at: Option<Time>,
}

impl Link {
    pub(crate) fn new(config: LinkConfig, rng: Rng) -> Self {
        Link {
            config,
            faults: Faults::default(),
            state: FaultState::new(rng),
            counters: LinkCounters::default(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            counted_until: Time::ZERO,
            sending: None,
            last_arrival: Time::ZERO,
        }
    }

    /// What it has done up to `now`.
    pub fn counters(&self, now: Time) -> LinkCounters {
        let rest = self.queued_bytes as f64 * now.since(self.counted_until).as_secs_f64();
        LinkCounters { queued_byte_seconds: self.counters.queued_byte_seconds + rest, ..self.counters }
    }

    /// Bytes in the queue, without the datagram that is being sent.
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// A datagram comes to the link, and perhaps a second time.
    pub(crate) fn offer(&mut self, now: Time, hop: Hop) -> Offered {
        let mut offered = Offered::default();
        if self.state.loses(&mut self.faults, now, &hop.datagram) {
            self.counters.lost += 1;
            offered.gone += 1;
            return offered;
        }
        if self.state.duplicates(&self.faults) {
            self.counters.duplicated += 1;
            self.enqueue(now, hop.clone(), &mut offered);
        }
        self.enqueue(now, hop, &mut offered);
        offered
    }

    /// The datagram that was being sent is out: it, when it arrives, and when the next one will be out.
    pub(crate) fn sent(&mut self, now: Time) -> (Hop, Time, Option<Time>) {
        let hop = self.sending.take().expect("a link that has sent was sending");
        let arrival = self.depart(now, &hop);
        let next = self.queue.pop_front().map(|next| {
            self.count_queue(now);
            self.queued_bytes -= u64::from(next.datagram.wire_bytes);
            self.transmit(now, next)
        });
        (hop, arrival, next)
    }

    fn enqueue(&mut self, now: Time, mut hop: Hop, offered: &mut Offered) {
        if self.state.corrupts(&self.faults, &mut hop.datagram) {
            self.counters.corrupted += 1;
        }
        if self.sending.is_none() {
            offered.sent_at = Some(self.transmit(now, hop));
            return;
        }
        let after = self.queued_bytes + u64::from(hop.datagram.wire_bytes);
        if after > self.config.buffer_bytes {
            self.counters.dropped += 1;
            offered.gone += 1;
            return;
        }
        if hop.datagram.ecn_capable && self.config.mark_above_bytes.is_some_and(|k| self.queued_bytes > k) {
            hop.datagram.ce = true;
            self.counters.marked += 1;
        }
        self.count_queue(now);
        self.queued_bytes = after;
        self.counters.most_queued_bytes = self.counters.most_queued_bytes.max(after);
        self.queue.push_back(hop);
    }

    /// Begins to send; the time it ends.
    fn transmit(&mut self, now: Time, hop: Hop) -> Time {
        let bits = u64::from(hop.datagram.wire_bytes) * 8;
        self.sending = Some(hop);
        match self.config.rate_bps {
            Some(rate) => now + Duration::from_nanos(bits * 1_000_000_000 / rate.max(1)),
            None => now,
        }
    }

    /// When what has been sent now arrives.
    fn depart(&mut self, now: Time, hop: &Hop) -> Time {
        self.counters.sent += 1;
        self.counters.sent_bytes += u64::from(hop.datagram.wire_bytes);
        let (longer, overtaken) = self.state.delays(&self.faults, now);
        let arrival = now + self.config.delay + longer;
        if overtaken {
            return arrival;
        }
        self.last_arrival = arrival.max(self.last_arrival);
        self.last_arrival
    }

    fn count_queue(&mut self, now: Time) {
        self.counters.queued_byte_seconds +=
            self.queued_bytes as f64 * now.since(self.counted_until).as_secs_f64();
        self.counted_until = now;
    }
}
