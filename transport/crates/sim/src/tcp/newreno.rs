//! TCP NewReno: window, fast retransmit and recovery by duplicate acknowledgements (RFC 5681, 6582, 3042).

use std::collections::VecDeque;

use proto::ecn::Codepoint;

use super::supply::Supply;
use super::{Ack, OVERHEAD_BYTES, Rto, Segment, TcpConfig, TcpCounters};
use crate::{Datagram, Node, NodeId, Output, Time};

/// A source that repairs losses as RFC 6582 says, without selective acknowledgements.
pub struct NewReno {
    config: TcpConfig,
    supply: Supply,
    to: NodeId,
    started: bool,
    /// Congestion window and slow-start threshold, segments.
    window: f64,
    threshold: f64,
    /// The first segment not acknowledged, the next to send, the next never sent.
    acked: u64,
    next: u64,
    fresh: u64,
    duplicates: u32,
    /// In recovery until all segments below are acknowledged.
    recovering: Option<u64>,
    /// A timeout was for segments below: their duplicates start no recovery (RFC 6582 section 4).
    recover: u64,
    /// The window has been reduced for marks on segments below; the next new one says so.
    reduced: u64,
    cwr: bool,
    rto: Rto,
    rto_at: Option<Time>,
    resend: VecDeque<u64>,
    counters: TcpCounters,
}

impl NewReno {
    /// A source that will send to `to`.
    pub fn new(to: NodeId, config: TcpConfig) -> Self {
        NewReno {
            supply: Supply::new(&config),
            config,
            to,
            started: false,
            window: f64::from(config.initial_window),
            threshold: f64::INFINITY,
            acked: 0,
            next: 0,
            fresh: 0,
            duplicates: 0,
            recovering: None,
            recover: 0,
            reduced: 0,
            cwr: false,
            rto: Rto::new(config.least_rto),
            rto_at: None,
            resend: VecDeque::new(),
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

    fn on_ack(&mut self, now: Time, ack: u64, stamp: Time, ece: bool) {
        if ece && self.recovering.is_none() && ack > self.reduced {
            // As for a loss, once a round trip (RFC 3168 section 6.1.2).
            self.counters.reductions += 1;
            self.threshold = (self.flight() / 2.0).max(2.0);
            self.window = self.threshold;
            self.reduced = self.fresh;
            self.cwr = true;
        }
        if ack > self.acked {
            self.rto.measure(now.since(stamp));
            let newly = ack - self.acked;
            self.acked = ack;
            self.next = self.next.max(ack);
            self.duplicates = 0;
            self.rto_at = (self.acked < self.fresh).then(|| now + self.rto.timeout);
            match self.recovering {
                // A partial acknowledgement: the next hole (RFC 6582 section 3.2).
                Some(until) if ack < until => {
                    self.resend.push_back(ack);
                    self.window = (self.window - newly as f64 + 1.0).max(1.0);
                }
                Some(_) => {
                    self.recovering = None;
                    self.window = self.threshold.min(self.flight().max(1.0) + 1.0);
                }
                None if self.window < self.threshold => self.window += newly as f64,
                None => self.window += newly as f64 / self.window,
            }
        } else if ack == self.acked && self.acked < self.fresh {
            self.duplicates += 1;
            if self.recovering.is_some() {
                self.window += 1.0;
            } else if self.duplicates == 3 && ack >= self.recover {
                self.counters.recoveries += 1;
                self.threshold = (self.flight() / 2.0).max(2.0);
                self.window = self.threshold + 3.0;
                self.recovering = Some(self.fresh);
                self.recover = self.fresh;
                self.resend.push_back(ack);
            }
        }
    }

    fn flight(&self) -> f64 {
        (self.next - self.acked) as f64
    }

    fn segment(&mut self, now: Time, seq: u64) -> Output {
        let again = seq < self.fresh;
        if again {
            self.counters.retransmitted += 1;
        }
        self.fresh = self.fresh.max(seq + 1);
        self.rto_at.get_or_insert(now + self.rto.timeout);
        let (bytes, count) = self.supply.segment(seq);
        let cwr = !again && std::mem::take(&mut self.cwr);
        let segment = Segment { number: seq, stamp: now, cwr, bytes };
        let datagram = Datagram::new(self.to, segment.emit()).sized(count + OVERHEAD_BYTES);
        // What is sent again may not be marked (RFC 3168 section 6.1.5).
        let ecn = if self.config.ecn && !again { Codepoint::Ect0 } else { Codepoint::NotEct };
        Output::Datagram(Datagram { ecn, ..datagram })
    }
}

impl Node for NewReno {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        if let Some(Ack { next, stamp, ece, .. }) = Ack::parse(&datagram.payload) {
            self.on_ack(now, next, stamp, ece);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if now >= self.config.begin {
            self.started = true;
        }
        if self.rto_at.is_none_or(|at| now < at) {
            return;
        }
        self.counters.timeouts += 1;
        self.threshold = (self.flight() / 2.0).max(2.0);
        self.window = 1.0;
        self.next = self.acked;
        self.duplicates = 0;
        self.recovering = None;
        self.recover = self.fresh;
        self.resend.clear();
        self.rto.back_off();
        self.rto_at = Some(now + self.rto.timeout);
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.started { self.rto_at } else { Some(self.config.begin) }
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        if !self.started || self.is_done() {
            return None;
        }
        if let Some(seq) = self.resend.pop_front() {
            return Some(self.segment(now, seq));
        }
        // Limited transmit (RFC 3042): the first two duplicates let a segment go each.
        let beyond = if self.recovering.is_none() { f64::from(self.duplicates.min(2)) } else { 0.0 };
        let more = self.next < self.supply.available();
        if !more || self.flight() + 1.0 > self.window + beyond {
            return None;
        }
        self.next += 1;
        Some(self.segment(now, self.next - 1))
    }
}
