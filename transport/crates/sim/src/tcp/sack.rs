//! TCP with selective acknowledgements: what has arrived is known, so every loss is repaired as soon as it
//! shows (RFC 6675), a lost retransmission and a lost tail too (RFC 8985: RACK and TLP, here by the order of
//! transmissions, since the network keeps it).

use std::collections::VecDeque;
use std::time::Duration;

use proto::ecn::Codepoint;

use super::supply::Supply;
use super::{Ack, OVERHEAD_BYTES, Rto, Segment, TcpConfig, TcpCounters};
use crate::{Datagram, Node, NodeId, Output, Time};

/// A segment is lost when one has arrived that was sent so many transmissions later.
const REORDERED: u64 = 3;

/// The probe for a lost tail comes after two round trips, and not before this.
const LEAST_PROBE: Duration = Duration::from_millis(2);

/// A segment that is not acknowledged by the cumulative number.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// The number of its last transmission.
    transmission: u64,
    arrived: bool,
    lost: bool,
}

/// A source that knows what has arrived.
pub struct Sack {
    config: TcpConfig,
    supply: Supply,
    to: NodeId,
    started: bool,
    window: f64,
    threshold: f64,
    /// Segments from `acked` on, as far as any was sent.
    acked: u64,
    segments: VecDeque<Sent>,
    transmissions: u64,
    /// The latest transmission known to have arrived.
    arrived: u64,
    /// The window has been reduced for losses of segments below.
    recovering: Option<u64>,
    /// The window has been reduced for segments below; the next new one says so.
    reduced: u64,
    cwr: bool,
    rto: Rto,
    rto_at: Option<Time>,
    probe_at: Option<Time>,
    probe: bool,
    counters: TcpCounters,
}

impl Sack {
    /// A source that will send to `to`.
    pub fn new(to: NodeId, config: TcpConfig) -> Self {
        Sack {
            supply: Supply::new(&config),
            config,
            to,
            started: false,
            window: f64::from(config.initial_window),
            threshold: f64::INFINITY,
            acked: 0,
            segments: VecDeque::new(),
            transmissions: 0,
            arrived: 0,
            recovering: None,
            reduced: 0,
            cwr: false,
            rto: Rto::new(config.least_rto),
            rto_at: None,
            probe_at: None,
            probe: false,
            counters: TcpCounters::default(),
        }
    }

    /// What happened to it.
    pub fn counters(&self) -> TcpCounters {
        self.counters
    }

    /// Gives it bytes to send.
    ///
    /// # Panics
    /// If the stream has ended.
    pub fn write(&mut self, bytes: &[u8]) {
        self.supply.write(bytes);
    }

    /// There are no more bytes than it was given: the last ones may be less than a segment.
    pub fn end(&mut self) {
        self.supply.end();
    }

    /// All segments are acknowledged, and there will be no more.
    pub fn is_done(&self) -> bool {
        self.supply.ends_at(self.acked)
    }

    fn on_ack(&mut self, now: Time, Ack { next: ack, stamp, ece, beyond, .. }: Ack) {
        let newly = ack.saturating_sub(self.acked).min(self.segments.len() as u64);
        for segment in self.segments.drain(..newly as usize) {
            self.arrived = self.arrived.max(segment.transmission);
        }
        self.acked += newly;
        for seq in beyond {
            let place = seq.checked_sub(self.acked).and_then(|i| self.segments.get_mut(i as usize));
            if let Some(segment) = place
                && !segment.arrived
            {
                segment.arrived = true;
                self.arrived = self.arrived.max(segment.transmission);
            }
        }
        if newly > 0 {
            self.rto.measure(now.since(stamp));
            self.set_timers(now);
        }
        let mut losses = false;
        for segment in self.segments.iter_mut().filter(|segment| !segment.arrived && !segment.lost) {
            segment.lost = segment.transmission + REORDERED <= self.arrived;
            losses |= segment.lost;
        }
        if self.recovering.is_some_and(|until| self.acked >= until) {
            self.recovering = None;
        }
        match self.recovering {
            // A mark counts as a loss (RFC 3168 section 6.1.2).
            None if losses || (ece && self.acked > self.reduced) => {
                if losses {
                    self.counters.recoveries += 1;
                } else {
                    self.counters.reductions += 1;
                }
                self.reduced = self.acked + self.segments.len() as u64;
                self.cwr = self.config.ecn;
                self.threshold = (self.window / 2.0).max(2.0);
                self.window = self.threshold;
                self.recovering = Some(self.reduced);
            }
            None if self.window < self.threshold => self.window += newly as f64,
            None => self.window += newly as f64 / self.window,
            Some(_) => {}
        }
    }

    fn set_timers(&mut self, now: Time) {
        let outstanding = !self.segments.is_empty();
        let round_trip = Duration::from_secs_f64(self.rto.rtt.map_or(0.5, |(mean, _)| mean));
        self.rto_at = outstanding.then(|| now + self.rto.timeout);
        self.probe_at = outstanding.then(|| now + (2 * round_trip).max(LEAST_PROBE));
    }

    fn transmit(&mut self, now: Time, place: usize) -> Output {
        self.transmissions += 1;
        let segment = Sent { transmission: self.transmissions, arrived: false, lost: false };
        let again = place < self.segments.len();
        if again {
            self.counters.retransmitted += 1;
            self.segments[place] = segment;
        } else {
            self.segments.push_back(segment);
        }
        if self.rto_at.is_none() {
            self.set_timers(now);
        }
        let number = self.acked + place as u64;
        let (bytes, count) = self.supply.segment(number);
        let cwr = !again && std::mem::take(&mut self.cwr);
        let segment = Segment { number, stamp: now, cwr, bytes };
        let datagram = Datagram::new(self.to, segment.emit()).sized(count + OVERHEAD_BYTES);
        // What is sent again may not be marked (RFC 3168 section 6.1.5).
        let ecn = if self.config.ecn && !again { Codepoint::Ect0 } else { Codepoint::NotEct };
        Output::Datagram(Datagram { ecn, ..datagram })
    }
}

impl Node for Sack {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        if let Some(ack) = Ack::parse(&datagram.payload) {
            self.on_ack(now, ack);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if now >= self.config.begin {
            self.started = true;
        }
        if self.probe_at.is_some_and(|at| at <= now) {
            self.probe_at = None;
            self.probe = true;
        }
        if self.rto_at.is_some_and(|at| at <= now) {
            self.counters.timeouts += 1;
            self.threshold = (self.window / 2.0).max(2.0);
            self.window = 1.0;
            self.recovering = Some(self.acked + self.segments.len() as u64);
            self.segments.iter_mut().for_each(|segment| segment.lost = !segment.arrived);
            self.rto.back_off();
            self.set_timers(now);
            self.probe_at = None;
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        if !self.started {
            return Some(self.config.begin);
        }
        [self.rto_at, self.probe_at].into_iter().flatten().min()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        if !self.started || self.is_done() {
            return None;
        }
        let under_way = self.segments.iter().filter(|segment| !segment.arrived && !segment.lost).count();
        let probe = std::mem::take(&mut self.probe);
        if (under_way + 1) as f64 <= self.window || probe {
            let end = self.acked + self.segments.len() as u64;
            let more = end < self.supply.available();
            if let Some(place) = self.segments.iter().position(|segment| segment.lost) {
                return Some(self.transmit(now, place));
            } else if more {
                return Some(self.transmit(now, self.segments.len()));
            } else if probe && !self.segments.is_empty() {
                return Some(self.transmit(now, self.segments.len() - 1));
            }
        }
        None
    }
}
