//! The path to a client: how long a datagram it carries, and what follows from that for symbols.
//!
//! The client's hello is as long as a symbol's datagram, and so is the welcome that answers it: no request comes before that has
//! passed. A client whose long hellos are not answered sends short ones; then probes tell whether the path carries more.

use std::time::Duration;

use wire::packet::{Feedback, Kind, Probe, symbol_datagram_bytes};

use crate::Time;
use crate::loss::LossMeter;
use crate::packets::{Dropped, Packets};
use crate::path_mtu::{MIN_BYTES, PathMtu};
use crate::pieces::{InPieces, Shape};
use crate::protect::Protection;

pub(super) struct Path {
    mtu: PathMtu,
    /// Probes have numbers of their own: one that is too long is no loss of the data channel's.
    probes: Packets,
    protected: bool,
    /// A symbol of which some pieces have not been sent.
    pub(super) in_pieces: Option<InPieces>,
    /// How long datagrams with symbols are, and from which number on.
    datagram_bytes: usize,
    resized: u64,
    /// Datagrams with symbols that have come, by all feedback.
    counted: u64,
    loss: LossMeter,
    /// Welcomes that were sent: no feedback counts them.
    welcomes: u64,
}

impl Path {
    pub(super) fn new(now: Time, connection: u32) -> Self {
        Path {
            mtu: PathMtu::known(now, MIN_BYTES),
            probes: Packets::new(connection, Protection::insecure()),
            protected: false,
            in_pieces: None,
            datagram_bytes: 0,
            resized: 0,
            counted: 0,
            loss: LossMeter::default(),
            welcomes: 0,
        }
    }

    /// What protects the data channel.
    pub(super) fn protect(&mut self, connection: u32, protection: &Protection) {
        (self.probes, self.protected) = (Packets::new(connection, protection.beside()), protection.is_on());
    }

    /// A hello of so many bytes has come, and took so long: it is answered by as many.
    pub(super) fn proven(&mut self, now: Time, bytes: usize, rtt: Duration) {
        let bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
        self.mtu = PathMtu::known(now, bytes.max(MIN_BYTES));
        self.mtu.measure(0.0, Some(rtt));
    }

    /// A welcome was sent.
    pub(super) fn welcomed(&mut self) {
        self.welcomes += 1;
    }

    /// Symbols of this length are asked for. `first`: nothing else is.
    pub(super) fn on_request(&mut self, now: Time, symbol_bytes: u16, first: bool) {
        if first {
            self.mtu.rest();
        }
        let bytes = symbol_datagram_bytes(symbol_bytes.into(), self.protected);
        self.mtu.want(now, u16::try_from(bytes).unwrap_or(u16::MAX));
    }

    /// How symbols of this length go.
    pub(super) fn shape(&self, symbol_bytes: u16) -> Shape {
        Shape::of(symbol_bytes, self.mtu.size(), self.protected)
    }

    /// What the path carries, as far as is known: bytes of UDP payload.
    pub(super) fn size(&self) -> u16 {
        self.mtu.size()
    }

    /// Datagrams with symbols were sent, of this length, the first of them with this number.
    pub(super) fn on_sent(&mut self, now: Time, first: u64, datagrams: usize, datagram_bytes: usize) {
        if std::mem::replace(&mut self.datagram_bytes, datagram_bytes) != datagram_bytes {
            self.resized = first;
        }
        self.mtu.on_sent(now, datagrams as u32);
    }

    /// Feedback has come, after which the round trip is this, if it is known; so many datagrams were sent since the highest that it tells of.
    pub(super) fn on_feedback(&mut self, now: Time, feedback: &Feedback, rtt: Option<Duration>, since: u64) {
        if let Some(highest) = feedback.highest.checked_sub(self.welcomes) {
            self.loss.on_report(highest, feedback.received);
        }
        self.mtu.measure(self.loss.loss(), rtt);
        let brings_news = feedback.received > self.counted;
        self.counted = self.counted.max(feedback.received);
        // What came was as long as what is sent now.
        if brings_news && feedback.highest >= self.resized {
            self.mtu.on_arrived(now, u32::try_from(since).unwrap_or(u32::MAX));
        }
    }

    /// What was sent before the datagram of this number was too long, as has turned out: that it is lost tells nothing of shorter ones.
    pub(super) fn forgive(&mut self, next_number: u64) {
        self.loss.forgive(next_number.saturating_sub(self.welcomes), self.counted);
    }

    /// Takes the answer to a probe. Whether it is authentic, and was taken.
    pub(super) fn on_answer(&mut self, now: Time, datagram: &mut [u8]) -> bool {
        let Some(opened) = self.probes.open(&[Kind::Probe], datagram) else { return false };
        let (number, answer) = (opened.number, Probe::parse(opened.body));
        let Ok(Probe { bytes }) = answer else { return self.probes.unexpected::<()>().is_some() };
        if !self.probes.admit(number) {
            return false;
        }
        self.mtu.on_answered(now, bytes);
        true
    }

    /// Appends a probe, if one is to go now.
    pub(super) fn poll_probe(&mut self, now: Time, buffer: &mut Vec<u8>) -> bool {
        if self.poll_timeout().is_none_or(|at| now < at) {
            return false;
        }
        let Some(bytes) = self.mtu.poll_probe(now) else { return false };
        let end = buffer.len() + usize::from(bytes) - self.probes.tag_bytes();
        self.probes.seal(Kind::Probe, buffer, |_, buffer| {
            Probe { bytes }.emit(buffer);
            buffer.resize(end.max(buffer.len()), 0);
        });
        true
    }

    /// When [`Path::poll_probe`] has something to do without any input.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.mtu.poll_timeout()
    }

    /// Answers that were not taken.
    pub(super) fn dropped(&self) -> Dropped {
        self.probes.dropped()
    }
}
