//! A link: a queue, a transmitter with a rate, a delay, faults.

use std::time::Duration;

use proto::ecn::Codepoint;

use crate::faults::{FaultState, Faults};
use crate::hop::Hop;
use crate::queue::{Limits, Queue};
use crate::{Discipline, NodeId, Rng, Time};

/// What a link is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkConfig {
    /// Bits per second; none: datagrams only take the delay.
    pub rate_bps: Option<u64>,
    /// Propagation.
    pub delay: Duration,
    /// What the queue holds besides the datagram that is being sent.
    pub buffer_bytes: u64,
    /// ECN-capable datagrams are marked when more than this is queued before them (with DRR: of their flow). RED marks by
    /// its own rule as well.
    pub mark_above_bytes: Option<u64>,
    /// Which datagram is sent next, and which are dropped.
    pub discipline: Discipline,
}

impl LinkConfig {
    /// A link that only takes time.
    pub fn delay(delay: Duration) -> Self {
        LinkConfig { rate_bps: None, ..LinkConfig::new(0, delay, u64::MAX) }
    }

    /// A link with a rate and a drop-tail buffer.
    pub fn new(rate_bps: u64, delay: Duration, buffer_bytes: u64) -> Self {
        let rate_bps = Some(rate_bps);
        LinkConfig { rate_bps, delay, buffer_bytes, mark_above_bytes: None, discipline: Discipline::DropTail }
    }
}

/// What a link has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkCounters {
    /// Datagrams and bytes sent in full.
    pub sent: u64,
    /// See `sent`.
    pub sent_bytes: u64,
    /// Dropped by the queue: for want of room, or early.
    pub dropped: u64,
    /// Those of `dropped` for which there was room (RED).
    pub dropped_early: u64,
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
    queue: Queue,
    counted_until: Time,
    sending: Option<Hop>,
    /// When the last datagram in order comes out.
    last_arrival: Time,
}

/// What became of a datagram, and perhaps its copy, that was offered to a link.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    /// Those that were dropped or lost: from whom to whom.
    pub(crate) gone: Vec<(NodeId, NodeId)>,
    /// The transmitter was free: it is done then.
    pub(crate) sent_at: Option<Time>,
}

impl Link {
    pub(crate) fn new(config: LinkConfig, rng: Rng) -> Self {
        Link {
            config,
            faults: Faults::default(),
            queue: Queue::new(config.discipline, rng.clone().fork()),
            state: FaultState::new(rng),
            counters: LinkCounters::default(),
            counted_until: Time::ZERO,
            sending: None,
            last_arrival: Time::ZERO,
        }
    }

    /// What it has done up to `now`.
    pub fn counters(&self, now: Time) -> LinkCounters {
        let rest = self.queue.bytes() as f64 * now.since(self.counted_until).as_secs_f64();
        LinkCounters { queued_byte_seconds: self.counters.queued_byte_seconds + rest, ..self.counters }
    }

    /// Bytes in the queue, without the datagram that is being sent.
    pub fn queued_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// A datagram comes to the link, and perhaps a second time.
    pub(crate) fn offer(&mut self, now: Time, hop: Hop) -> Offered {
        let mut offered = Offered::default();
        if self.state.loses(&mut self.faults, now, &hop.datagram) {
            self.counters.lost += 1;
            offered.gone.push(hop.flow());
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
        self.count_queue(now);
        let next = self.queue.pop(now).map(|next| self.transmit(now, next));
        (hop, arrival, next)
    }

    fn enqueue(&mut self, now: Time, mut hop: Hop, offered: &mut Offered) {
        if self.faults.clear_ecn {
            hop.datagram.ecn = Codepoint::NotEct;
        }
        if self.state.corrupts(&self.faults, &mut hop.datagram) {
            self.counters.corrupted += 1;
        }
        self.queue.become_one_of(now, self.config.discipline);
        self.count_queue(now);
        let idle = self.sending.is_none();
        let pushed = self.queue.push(
            now,
            hop,
            Limits {
                // What is sent at once needs no buffer.
                buffer_bytes: if idle { u64::MAX } else { self.config.buffer_bytes },
                mark_above_bytes: self.config.mark_above_bytes,
                byte_s: self.config.rate_bps.map_or(0.0, |rate| 8.0 / rate.max(1) as f64),
            },
        );
        self.counters.marked += u64::from(pushed.marked);
        self.counters.dropped += pushed.dropped.len() as u64;
        self.counters.dropped_early += u64::from(pushed.early);
        offered.gone.extend(pushed.dropped.iter().map(Hop::flow));
        if !idle {
            self.counters.most_queued_bytes = self.counters.most_queued_bytes.max(self.queue.bytes());
        } else if let Some(hop) = self.queue.pop(now) {
            offered.sent_at = Some(self.transmit(now, hop));
        }
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
            self.queue.bytes() as f64 * now.since(self.counted_until).as_secs_f64();
        self.counted_until = now;
    }
}
