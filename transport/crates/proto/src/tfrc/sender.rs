//! The sending end of TFRC (RFC 5348 section 4): the allowed rate.

use std::time::Duration;

use super::{LONGEST_GAP_S, bounded_rtt_s, equation};
use crate::Time;

/// The nofeedback timer before anything is known (RFC 5348 section 4.2).
const FIRST_TIMEOUT: Duration = Duration::from_secs(2);

/// Weight of the past in the averages of the round-trip time (q and q2, RFC 5348 sections 4.3 and 4.5).
const PAST: f64 = 0.9;

/// No rate is above this, whatever a receiver claims: 8 Tb/s in bytes/s.
const MOST_RATE: f64 = 1e12;

/// Packets over which their size is averaged: more than the RFC's four loss intervals in a rack, which may do
/// so.
const SIZES_AVERAGED: f64 = 64.0;

/// Receive rates remembered (N, RFC 5348 section 8.2.2).
const RECEIVE_RATES: usize = 3;

/// What is known when the first packet is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// A round trip, measured by the control handshake: an initial window (RFC 3390) a round trip.
    Rtt(Duration),
    /// A rate in bytes/s that somebody vouches for who knows the path, such as the controller's bandwidth
    /// service.
    Rate(f64),
    /// Nothing: one packet a second until the first report (RFC 5348 section 4.2).
    Rfc,
}

/// What may differ from RFC 5348; the defaults do not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Send less while the round trip is longer than on average (section 4.5, recommended).
    pub reduce_oscillations: bool,
    /// The segment size of the TCP whose rate the equation gives, bytes, where it is not the flow's own.
    /// Flows of small packets beside TCP with large ones meet the same loss event rate and get less, in
    /// proportion to s; with TCP's s they get as many bytes (the idea of RFC 4828 section 4.1, which takes
    /// 1460), or more where a buffer of bytes has room for a small packet and none for a large one.
    pub equation_bytes: Option<u32>,
    /// t_RTO in the equation is at least this. The RFC recommends 4 R and allows the minimum of the TCP it
    /// shall be fair to (section 3.1). That is right beside a TCP without SACK, which in a rack spends its
    /// time in timeouts of 200 ms; one with SACK and tail loss probes hardly meets them, and beside it 4 R is
    /// right. The receiver must have the same ([`super::Receiver::with_least_rto`]).
    pub least_rto: Duration,
    /// The nofeedback timer is at least so long. The RFC has 4 R and no floor: at R = 50 us a process that is
    /// not scheduled for a millisecond would take its own absence for loss of all feedback.
    pub least_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            reduce_oscillations: true,
            equation_bytes: None,
            least_rto: Duration::ZERO,
            least_timeout: Duration::ZERO,
        }
    }
}

/// A report as it reaches the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// From sending the packet that the report names to the report's arrival, less the receiver's delay.
    pub rtt_sample: Duration,
    /// The rate at which data came in, bytes/s.
    pub x_recv: f64,
    /// p, in 0..=1.
    pub loss_event_rate: f64,
}

/// The round trip that a report shows which came `now`, echoes the time at which a packet was sent, and says how long ago
/// that had come. What a peer says cannot make it negative, or longer than anyone waits: `None` then.
pub(crate) fn rtt_sample(now: Time, echo_us: u32, delay_us: u32) -> Option<Duration> {
    let passed_us = now.micros().wrapping_sub(echo_us);
    let rtt_us = passed_us.saturating_sub(delay_us);
    (passed_us < 60_000_000 && rtt_us > 0).then(|| Duration::from_micros(rtt_us.into()))
}

/// Says how fast a flow of packets of about one size may go.
#[derive(Clone, Debug)]
pub struct Sender {
    options: Options,
    /// s, and over how many packets it is the average yet.
    segment_bytes: f64,
    sizes: f64,
    /// X, the allowed rate without 4.5, bytes/s.
    x: f64,
    /// X_Bps, what the equation allows, once p is known to be above 0.
    x_equation: Option<f64>,
    /// X_inst / X.
    damping: f64,
    p: f64,
    rtt_s: Option<f64>,
    heard: bool,
    root_rtt_mean: f64,
    /// X_recv_set: receive rates of the last two round trips, the latest last.
    receive_rates: Vec<(Time, f64)>,
    /// When X was last doubled (tld).
    doubled: Option<Time>,
    limits: NotLimited,

    timeout: Option<Time>,
    /// A packet has been sent since the nofeedback timer was set.
    sent: bool,
    expirations: u32,
    silent_since: Time,
    /// A packet has been sent since the last report.
    unanswered: bool,
}

impl Sender {
    /// A sender by the letter of RFC 5348, whose packets have `segment_bytes`.
    pub fn new(now: Time, segment_bytes: u32, start: Start) -> Self {
        Self::with_options(now, segment_bytes, start, Options::default())
    }

    /// A sender whose packets have `segment_bytes`.
    pub fn with_options(now: Time, segment_bytes: u32, start: Start, options: Options) -> Self {
        let segment_bytes = f64::from(segment_bytes.max(1));
        let mut sender = Sender {
            options,
            segment_bytes,
            sizes: 0.0,
            x: segment_bytes, // one packet a second
            x_equation: None,
            damping: 1.0,
            p: 0.0,
            rtt_s: None,
            heard: false,
            root_rtt_mean: 0.0,
            receive_rates: vec![(now, f64::INFINITY)],
            doubled: None,
            limits: NotLimited::default(),
            timeout: None,
            sent: false,
            expirations: 0,
            silent_since: now,
            unanswered: false,
        };
        match start {
            Start::Rtt(rtt) => {
                // As if the handshake had been the first sample (section 4.2).
                sender.rtt_s = Some(bounded_rtt_s(rtt));
                sender.x = sender.initial_rate();
                sender.doubled = Some(now);
            }
            Start::Rate(rate) if rate.is_finite() => sender.x = rate.clamp(segment_bytes, MOST_RATE),
            Start::Rate(_) | Start::Rfc => {}
        }
        sender.timeout = Some(now + sender.timeout_interval());
        sender
    }

    /// The rate at which to send, bytes/s (X_inst of section 4.5, or X).
    pub fn rate(&self) -> f64 {
        (self.x * self.damping).clamp(self.least_rate(), MOST_RATE)
    }

    /// [`Options::least_rto`] from the next report on.
    pub fn set_least_rto(&mut self, least_rto: Duration) {
        self.options.least_rto = least_rto;
    }

    /// The smoothed round-trip time, to be told to the receiver with every packet.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt_s.map(Duration::from_secs_f64)
    }

    /// A report arrives (section 4.3). One whose figures are no rates is ignored, as if it had been lost:
    /// false then.
    pub fn on_feedback(&mut self, now: Time, feedback: &Feedback) -> bool {
        let &Feedback { rtt_sample, mut x_recv, loss_event_rate: p } = feedback;
        if !(x_recv.is_finite() && x_recv >= 0.0 && (0.0..=1.0).contains(&p)) {
            return false;
        }
        // Step 2, and section 4.5.
        let sample_s = bounded_rtt_s(rtt_sample);
        let first = !std::mem::replace(&mut self.heard, true);
        let known = self.rtt_s.is_some();
        let filter =
            |mean: f64, sample: f64| if first { sample } else { PAST * mean + (1.0 - PAST) * sample };
        let rtt_s = filter(self.rtt_s.unwrap_or(sample_s), sample_s);
        self.rtt_s = Some(rtt_s);
        self.root_rtt_mean = filter(self.root_rtt_mean, sample_s.sqrt());
        if self.options.reduce_oscillations {
            self.damping = self.root_rtt_mean / sample_s.sqrt();
        }

        // Step 4: what was received bounds what may be sent.
        let rtt = Duration::from_secs_f64(rtt_s);
        let data_limited = self.limits.data_limited(now, now - rtt_sample, rtt) && x_recv > 0.0;
        let risen = p > self.p;
        self.p = p;
        let mut limit_factor = 2.0;
        if data_limited {
            if risen {
                self.receive_rates.iter_mut().for_each(|(_, rate)| *rate /= 2.0);
                x_recv *= 0.85;
                limit_factor = 1.0;
            }
            // Maximize X_recv_set().
            let known = self.receive_rates.iter().map(|&(_, rate)| rate).filter(|rate| rate.is_finite());
            let most = known.fold(x_recv, f64::max);
            self.receive_rates = vec![(now, most)];
        } else {
            // Update X_recv_set().
            self.receive_rates.push((now, x_recv));
            self.receive_rates.retain(|&(at, _)| now.since(at) <= 2 * rtt);
            let surplus = self.receive_rates.len().saturating_sub(RECEIVE_RATES);
            self.receive_rates.drain(..surplus);
        }

        if p > 0.0 {
            let equation_bytes = self.options.equation_bytes.map_or(self.segment_bytes, f64::from);
            let rto_per_rtt = equation::rto_per_rtt(rtt, self.options.least_rto);
            self.x_equation = Some(equation_bytes / rtt_s * equation::throughput(p, rto_per_rtt));
            self.avoid_congestion(limit_factor);
        } else if !known {
            // The first sample of the round trip begins slow start (section 4.2); a rate that was vouched for
            // stands.
            self.x = self.x.max(self.initial_rate());
            self.doubled = Some(now);
        } else if self.doubled.is_none_or(|at| now.since(at) >= rtt) {
            let limit = limit_factor * self.receive_rate();
            self.x = (2.0 * self.x).min(limit).max(self.initial_rate());
            self.doubled = Some(now);
        }

        self.x = self.x.min(MOST_RATE);

        self.expirations = 0;
        self.silent_since = now;
        self.unanswered = false;
        self.set_timeout(now);
        true
    }

    /// A packet of `bytes` has been sent. `limited`: what kept it from going earlier, or keeps the next one
    /// back, is the application (nothing to send, no grant) and not the rate; what is received then says
    /// nothing about the path (data-limited interval, sections 4.3 and 8.2.1).
    pub fn on_sent(&mut self, now: Time, bytes: u32, limited: bool) {
        // s is the average size of the packets (section 4.1).
        self.sizes = (self.sizes + 1.0).min(SIZES_AVERAGED);
        self.segment_bytes += (f64::from(bytes.max(1)) - self.segment_bytes) / self.sizes;
        if !limited {
            self.limits.note(now);
        }
        self.sent = true;
        if !std::mem::replace(&mut self.unanswered, true) {
            self.silent_since = now;
        }
        if self.timeout.is_none() {
            self.set_timeout(now);
            self.sent = true;
        }
    }

    /// When the nofeedback timer expires; none while an idle sender has nothing to lose.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timeout
    }

    /// The nofeedback timer may have expired (section 4.4): the rate is halved, unless nothing was sent and
    /// it is low.
    pub fn on_timeout(&mut self, now: Time) {
        if self.timeout.is_none_or(|at| now < at) {
            return;
        }
        let idle = !self.sent;
        let x_recv = self.receive_rate();
        let recover_rate = self.rtt_s.map(|_| self.initial_rate());
        let low =
            recover_rate.is_none_or(|rate| if self.p > 0.0 { x_recv < rate } else { self.x < 2.0 * rate });
        if idle && low {
            // Nothing has been asked of the network, and there is nothing to halve: the timer is set again
            // with the next packet. (Before the first round trip too, where the RFC leaves it open.)
            self.timeout = None;
            return;
        }
        match self.x_equation.filter(|_| self.p > 0.0) {
            None => self.x = (self.x / 2.0).max(self.least_rate()),
            Some(x_equation) => {
                // Update_Limits().
                let limit = if x_equation > 2.0 * x_recv { x_recv } else { x_equation / 2.0 };
                self.receive_rates = vec![(now, limit.max(self.least_rate()) / 2.0)];
                self.avoid_congestion(2.0);
            }
        }
        if !idle {
            self.expirations = self.expirations.saturating_add(1);
        }
        self.set_timeout(now);
    }

    /// Expirations of the nofeedback timer since the last report, those not counted before which nothing was
    /// sent. Not 0, and [`Self::silent_since`] long ago: the receiver is gone.
    pub fn expirations(&self) -> u32 {
        self.expirations
    }

    /// When the first packet was sent that no report has followed; when the last report came, if there is
    /// none.
    pub fn silent_since(&self) -> Time {
        self.silent_since
    }

    /// When to give the receiver up if it may be silent for `limit`; none while there is no sign that it is
    /// gone.
    pub fn stop_at(&self, limit: Duration) -> Option<Time> {
        (self.expirations > 0).then(|| self.silent_since + limit)
    }

    /// The loss event rate last reported.
    pub fn loss_event_rate(&self) -> f64 {
        self.p
    }

    /// X = max(min(X_Bps, recv_limit), s / t_mbi).
    fn avoid_congestion(&mut self, limit_factor: f64) {
        let limit = limit_factor * self.receive_rate();
        self.x = self.x_equation.unwrap_or(f64::INFINITY).min(limit).max(self.least_rate());
    }

    /// max(X_recv_set), bytes/s.
    fn receive_rate(&self) -> f64 {
        self.receive_rates.iter().map(|&(_, rate)| rate).fold(0.0, f64::max)
    }

    /// s / t_mbi: a packet every 64 s, bytes/s.
    fn least_rate(&self) -> f64 {
        self.segment_bytes / LONGEST_GAP_S
    }

    /// W_init / R, W_init = min(4 s, max(2 s, 4380)) (section 4.2), bytes/s. With R as it is now: a window a
    /// round trip, also when queues have made it longer than the handshake's.
    fn initial_rate(&self) -> f64 {
        let s = self.segment_bytes;
        (4.0 * s).min((2.0 * s).max(4380.0)) / self.rtt_s.unwrap_or(1.0)
    }

    /// max(4 R, 2 s / X) (sections 4.3 and 4.4): of four round trips, not two as an erratum of RFC 3448 has
    /// it.
    fn timeout_interval(&self) -> Duration {
        let Some(rtt_s) = self.rtt_s else {
            return FIRST_TIMEOUT.max(Duration::from_secs_f64(2.0 * self.segment_bytes / self.x));
        };
        Duration::from_secs_f64((4.0 * rtt_s).max(2.0 * self.segment_bytes / self.x))
            .max(self.options.least_timeout)
    }

    fn set_timeout(&mut self, now: Time) {
        self.timeout = Some(now + self.timeout_interval());
        self.sent = false;
    }
}

/// Times at which the rate, and not the application, held the sender back (NotLimited1 and 2, RFC 5348
/// section 8.2.1): one in the interval that the next report covers, and one after it.
#[derive(Clone, Debug, Default)]
struct NotLimited {
    times: [Option<Time>; 2],
    /// When the packet that the last report names was sent (t_new), and when that report came (t_next).
    reported: Option<Time>,
    report: Option<Time>,
}

impl NotLimited {
    fn note(&mut self, now: Time) {
        if self.times[0] <= self.reported {
            self.times[0] = Some(now);
        } else if self.times[1] <= self.report {
            self.times[1] = Some(now);
        }
    }

    /// Whether all of the interval was data-limited that a report covers which comes `now` and names a packet
    /// sent at `sent`. The interval is a round trip before the packet, and, since the packet may have waited
    /// as long at the receiver for its report, one more.
    fn data_limited(&mut self, now: Time, sent: Time, rtt: Duration) -> bool {
        let covered = |time: &Option<Time>| time.is_some_and(|t| t > sent - 2 * rtt && t <= sent);
        let limited = !self.times.iter().any(covered);
        (self.reported, self.report) = (Some(sent), Some(now));
        if self.times[0] <= self.reported && self.times[1] > self.reported {
            self.times[0] = self.times[1];
        }
        limited
    }
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
