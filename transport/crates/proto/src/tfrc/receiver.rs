//! The receiving end of TFRC (RFC 5348 section 6): when a report is due, and what it says.

use std::time::Duration;

use super::loss::{Arrival, LossHistory};
use super::{bounded_rtt_s, equation};
use crate::Time;

/// The rate assumed when the first loss comes before anything could be measured, segments a round trip (RFC
/// 5348 section 6.3.1).
const LEAST_FIRST_TARGET: f64 = 0.5;

/// Reports remembered, to find one that is a round trip old even if loss events brought some early.
const MARKS: usize = 8;

/// What the receiver tells the sender (RFC 5348 section 3.2.2). The sender's time stamp of `highest_seq`, if
/// it has one, goes back with it: together with `delay` it gives the sender a sample of the round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// The rate at which data came in, bytes/s; 0 in the first report of all.
    pub x_recv: f64,
    /// p, in 0..=1: 0 until the first loss.
    pub loss_event_rate: f64,
    /// The highest sequence number that has arrived.
    pub highest_seq: u64,
    /// How long ago it arrived (t_delay).
    pub delay: Duration,
}

/// A report's time, and the bytes that had arrived.
type Mark = (Time, u64);

/// Receives a flow of packets numbered one by one.
#[derive(Clone, Debug)]
pub struct Receiver {
    segment_bytes: f64,
    /// The least retransmission timeout of the TCP in the sender's equation.
    least_rto: Duration,
    history: LossHistory,
    /// The sender's round-trip time as the packet with the highest number told it; 0: it knows none yet.
    rtt: Duration,
    /// The highest sequence number, and when it arrived.
    newest: Option<(u64, Time)>,
    received_bytes: u64,
    /// The latest reports, the oldest first.
    marks: Vec<Mark>,
    /// When the first packet since the last report arrived.
    unreported_since: Option<Time>,
    reported_p: f64,
    /// The highest rate reported, bytes/s: where the first loss puts the flow (RFC 5348 section 6.3.1).
    peak_x_recv: f64,
}

impl Receiver {
    /// A receiver of a flow whose packets have `segment_bytes`, by the letter of RFC 5348.
    pub fn new(segment_bytes: u32) -> Self {
        Self::with_least_rto(segment_bytes, Duration::ZERO)
    }

    /// A receiver whose sender's equation has `least_rto` ([`super::Options::least_rto`]).
    pub fn with_least_rto(segment_bytes: u32, least_rto: Duration) -> Self {
        Receiver {
            segment_bytes: f64::from(segment_bytes.max(1)),
            least_rto,
            history: LossHistory::default(),
            rtt: Duration::ZERO,
            newest: None,
            received_bytes: 0,
            marks: Vec::with_capacity(MARKS),
            unreported_since: None,
            reported_p: 0.0,
            peak_x_recv: 0.0,
        }
    }

    /// A packet of `bytes` arrives (RFC 5348 section 6.1), perhaps marked by the network (`ce`). `sender_rtt`
    /// is the sender's estimate of the round trip as the packet tells it, 0 if it has none. Packets may come
    /// in any order and more than once; those that say nothing new are not counted.
    ///
    /// True if a report is due at once: after the first packet, when p has risen, when a loss turns out to
    /// have been none, and when the time for a report passed without data.
    pub fn on_packet(&mut self, now: Time, seq: u64, bytes: u32, sender_rtt: Duration, ce: bool) -> bool {
        // The first loss is judged with this packet and the window it closes, as the report of it will be.
        let x_recv = self.peak_x_recv.max(self.x_recv(now, u64::from(bytes)));
        let (rtt, segment_bytes, least_rto) = (self.rtt, self.segment_bytes, self.least_rto);
        let first_interval = || {
            let target = (x_recv * rtt.as_secs_f64() / segment_bytes).max(LEAST_FIRST_TARGET);
            let rto_per_rtt = if rtt.is_zero() { 4.0 } else { equation::rto_per_rtt(rtt, least_rto) };
            1.0 / equation::loss_event_rate(target, rto_per_rtt)
        };
        let arrival = self.history.on_packet(now, seq, ce, rtt, first_interval);
        if arrival == Arrival::Stale {
            return false;
        }

        self.received_bytes += u64::from(bytes);
        let overdue = self.deadline().is_none_or(|deadline| now >= deadline);
        self.unreported_since.get_or_insert(now);
        if self.newest.is_none_or(|(highest, _)| seq > highest) {
            self.newest = Some((seq, now));
            self.rtt = if sender_rtt.is_zero() {
                Duration::ZERO
            } else {
                Duration::from_secs_f64(bounded_rtt_s(sender_rtt))
            };
        }
        let risen = match arrival {
            Arrival::New { loss_event } => loss_event && self.history.loss_event_rate() > self.reported_p,
            Arrival::Late { revoked } => revoked,
            Arrival::Stale => false,
        };
        overdue || risen || self.rtt.is_zero()
    }

    /// What is missing of the packets below `seq`, which arrives now, was too long for the path: that is no sign of congestion
    /// (RFC 8899, section 3, item 7).
    pub fn forgive(&mut self, now: Time, seq: u64) {
        self.history.forgive(now, seq);
    }

    /// What is to be reported now (RFC 5348 section 6.2); begins the next interval.
    pub fn report(&mut self, now: Time) -> Report {
        let x_recv = self.x_recv(now, 0);
        self.peak_x_recv = self.peak_x_recv.max(x_recv);
        self.reported_p = self.history.loss_event_rate();
        if self.marks.len() == MARKS {
            self.marks.remove(0);
        }
        self.marks.push((now, self.received_bytes));
        self.unreported_since = None;
        let (highest_seq, at) = self.newest.unwrap_or((0, now));
        Report { x_recv, loss_event_rate: self.reported_p, highest_seq, delay: now.since(at) }
    }

    /// When the next report is due: a round trip after the last one, if data has arrived since.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.unreported_since?;
        Some(self.deadline().unwrap_or(Time::ZERO))
    }

    /// The loss event rate as it is now.
    pub fn loss_event_rate(&self) -> f64 {
        self.history.loss_event_rate()
    }

    /// When the feedback timer expires, data or not; none before the first report.
    fn deadline(&self) -> Option<Time> {
        self.marks.last().map(|&(at, _)| at + self.rtt)
    }

    /// The receive rate in bytes/s, with `arriving` bytes more at this moment, over the time since the latest
    /// expiration of the feedback timer that is at least a round trip ago (RFC 5348 section 6.2): never less
    /// than that, since a packet over a shorter time would show a rate that nobody sends, and never over an
    /// idle time, since a sender below one packet a round trip is held back by p and not by this. The least
    /// rate is one packet per round trip.
    fn x_recv(&self, now: Time, arriving: u64) -> f64 {
        let Some(&(last, bytes_last)) = self.marks.last() else { return 0.0 };
        if self.rtt.is_zero() {
            return 0.0;
        }
        let first = self.unreported_since.unwrap_or(now);
        let (begin, bytes_then) = if first.since(last) > self.rtt {
            // The timer has expired without data, for the last time within a round trip before the data came.
            let idle_ns = first.since(last).as_nanos() - first.since(last).as_nanos() % self.rtt.as_nanos();
            (last + Duration::from_nanos(idle_ns as u64), bytes_last)
        } else {
            let old_enough = |&&(at, _): &&Mark| now.since(at) >= self.rtt;
            *self.marks.iter().rev().find(old_enough).unwrap_or(&self.marks[0])
        };
        (self.received_bytes - bytes_then + arriving) as f64 / now.since(begin).max(self.rtt).as_secs_f64()
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
