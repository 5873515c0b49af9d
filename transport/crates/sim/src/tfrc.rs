//! A flow under TFRC with nothing to say: datagrams of one size for ever. To study the rate control by
//! itself.

use std::time::Duration;

use proto::ecn::Codepoint;
use proto::tfrc::{Feedback, Options, Receiver, Sender, Start};

use crate::{Datagram, Node, NodeId, Output, Rng, Time};

/// What a report takes on the wire: Ethernet, IPv4, UDP, and 40 bytes.
const REPORT_WIRE_BYTES: u32 = 82;

/// How a [`Source`] sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SourceConfig {
    /// The size of its datagrams on the wire.
    pub wire_bytes: u32,
    /// The size that the rate control counts.
    pub segment_bytes: u32,
    /// What is known at the start.
    pub start: Start,
    /// When it begins.
    pub begin: Time,
    /// The rate control's options.
    pub options: Options,
    /// Its timers are late by up to this, as a process's are.
    pub late_by: Duration,
    /// Time unused that may be made up for, by a burst (RFC 5348 section 4.6).
    pub credit: Duration,
}

impl Default for SourceConfig {
    /// Symbols of 1,024 bytes with 36 of header and tag, by the letter of the RFC.
    fn default() -> Self {
        SourceConfig {
            wire_bytes: 1102,
            segment_bytes: 1060,
            start: Start::Rtt(Duration::from_micros(300)),
            begin: Time::ZERO,
            options: Options::default(),
            late_by: Duration::ZERO,
            credit: Duration::from_millis(1),
        }
    }
}

/// Sends to one [`Sink`].
pub struct Source {
    config: SourceConfig,
    to: NodeId,
    sender: Sender,
    seq: u64,
    /// The time at which the last datagram should have been sent.
    nominal: Option<Time>,
    late: Duration,
    rng: Rng,
}

impl Source {
    /// A source that will send to `to`.
    pub fn new(to: NodeId, config: SourceConfig, rng: Rng) -> Self {
        let sender = Sender::with_options(config.begin, config.segment_bytes, config.start, config.options);
        Source { config, to, sender, seq: 0, nominal: None, late: Duration::ZERO, rng }
    }

    /// The rate control.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// When the next datagram should be sent. (Reckoned with the rate of now: a change does not wait for the
    /// next one.)
    fn next(&self) -> Time {
        let gap = Duration::from_secs_f64(f64::from(self.config.segment_bytes) / self.sender.rate());
        self.nominal.map_or(self.config.begin, |nominal| nominal + gap)
    }
}

impl Node for Source {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        let Some([x_recv, p, stamp, delay]) = numbers(&datagram.payload) else { return };
        let rtt_sample = now.since(Time::from_nanos(stamp) + Duration::from_nanos(delay));
        let (x_recv, loss_event_rate) = (f64::from_bits(x_recv), f64::from_bits(p));
        self.sender.on_feedback(now, &Feedback { rtt_sample, x_recv, loss_event_rate });
    }

    fn handle_timeout(&mut self, now: Time) {
        self.sender.on_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let next = self.next() + self.late;
        Some(self.sender.poll_timeout().map_or(next, |timeout| timeout.min(next)))
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        let next = self.next();
        if next > now {
            return None;
        }
        self.nominal = Some(next.max(now - self.config.credit));
        self.late = Duration::from_nanos(self.rng.below(self.config.late_by.as_nanos() as u64));
        self.sender.on_sent(now, self.config.segment_bytes, false);
        let rtt = self.sender.rtt().unwrap_or_default();
        let payload = bytes([self.seq, now.as_nanos(), rtt.as_nanos() as u64, 0]);
        self.seq += 1;
        Some(Output::Datagram(Datagram {
            ecn: Codepoint::Ect0,
            ..Datagram::new(self.to, payload).sized(self.config.wire_bytes)
        }))
    }
}

/// Receives from one [`Source`] and reports.
pub struct Sink {
    receiver: Receiver,
    segment_bytes: u32,
    /// The source, and its time stamp on the highest sequence number.
    from: Option<(NodeId, u64)>,
    highest: u64,
    due: bool,
}

impl Sink {
    /// A sink for what a source with `config` sends.
    pub fn new(config: &SourceConfig) -> Self {
        let receiver = Receiver::with_least_rto(config.segment_bytes, config.options.least_rto);
        Sink { receiver, segment_bytes: config.segment_bytes, from: None, highest: 0, due: false }
    }

    /// The rate control.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }
}

impl Node for Sink {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        let Some([seq, stamp, rtt, _]) = numbers(&datagram.payload) else { return };
        if self.from.is_none() || seq > self.highest {
            (self.from, self.highest) = (Some((datagram.from, stamp)), seq);
        }
        self.due |= self.receiver.on_packet(
            now,
            seq,
            self.segment_bytes,
            Duration::from_nanos(rtt),
            datagram.ecn.is_ce(),
        );
    }

    fn handle_timeout(&mut self, _now: Time) {
        self.due = true;
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.receiver.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        let (from, stamp) = self.from?;
        if !std::mem::take(&mut self.due) {
            return None;
        }
        let report = self.receiver.report(now);
        let payload = bytes([
            report.x_recv.to_bits(),
            report.loss_event_rate.to_bits(),
            stamp,
            report.delay.as_nanos() as u64,
        ]);
        Some(Output::Datagram(Datagram::new(from, payload).sized(REPORT_WIRE_BYTES)))
    }
}

fn bytes(numbers: [u64; 4]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
}

fn numbers(payload: &[u8]) -> Option<[u64; 4]> {
    let mut words =
        payload.chunks_exact(8).map(|word| u64::from_be_bytes(word.try_into().unwrap_or_default()));
    Some([words.next()?, words.next()?, words.next()?, words.next()?])
}
