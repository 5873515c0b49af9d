//! The control channel: a stream each way over datagrams of which any may be lost.
//!
//! The paper opens and releases a connection as TCP does (section 4.3) and finds that signals can be lost, since the
//! network is kept busy: so every piece is acknowledged and sent again until it is. What the stream carries, TLS or plain
//! messages, is the driver's affair. A connection is opened by a sender that has shown, with a [`Cookie`], that it is
//! where its datagrams say; until then the receiver remembers nothing of it and answers with no more than it got.
//!
//! What opens a connection is in clear. Once there are keys ([`Signalling::protect`]), signals are sealed as symbols are,
//! with keys of their own: the receiver's at once, since its keys come from what the sender said last in clear; the
//! sender's from the first sealed one that has come on. From then on an end believes nothing else: not even a reset, but
//! if nothing authentic comes for a while after it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use wire::packet::{Cookie, Flag, HEADER_BYTES, Header, Kind, MAX_SIGNAL_PAYLOAD, Probe, Signal, TAG_BYTES};

use super::address::COOKIE_BYTES;
use crate::Time;
use crate::protect::{Protection, Side};

/// Before a round trip is known.
const FIRST_TIMEOUT: Duration = Duration::from_millis(100);
const LEAST_TIMEOUT: Duration = Duration::from_millis(10);
const LONGEST_TIMEOUT: Duration = Duration::from_millis(500);
/// Signals are few and short: on a path that has lost some, each is sent so often at once, at most.
const MOST_COPIES: u8 = 3;
/// A timeout that was in vain makes the next one longer by this.
const BACKOFF: f64 = 1.5;
/// No timeout becomes longer by more: [`LONGEST_TIMEOUT`] is far below.
const MOST_BACKOFF: f64 = 1e6;
/// Weight of the past in the average of the round trip (RFC 6298, section 2).
const PAST: f64 = 0.875;
/// Bytes that may be on their way.
const WINDOW_BYTES: u64 = 16 << 10;
/// Pieces that are sent again at a timeout.
const AGAIN_BYTES: u64 = 4 * MAX_SIGNAL_PAYLOAD as u64;
/// What a piece has at most after signals were lost so often in a row: perhaps the path carries no longer ones.
const SHORT_BYTES: usize = 384;
const MOST_IN_VAIN: u8 = 2;
/// Pieces that are kept until what is before them comes.
const MOST_EARLY: usize = 64;
/// After a reset that anybody may have sent, something authentic may take so long to come.
const RESET_PATIENCE: Duration = Duration::from_secs(1);

/// How far the opening of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// The receiver has not been heard.
    Asks,
    /// It wants this to be shown; `due`: now.
    Shows {
        cookie: Cookie,
        due: bool,
    },
    Done,
}

/// One end of a control channel.
#[derive(Debug)]
pub struct Signalling {
    connection: u32,
    opening: Opening,
    next_number: u64,
    /// What the peer has not acknowledged: the first byte is at `base`.
    outgoing: VecDeque<u8>,
    base: u64,
    /// What has not been sent, or has to be sent again, begins here.
    next: u64,
    /// One more than the last byte that was ever sent.
    high: u64,
    /// Nothing is written any more: the end takes one place in the stream, as TCP's FIN does.
    ends: bool,
    end_acknowledged: bool,
    /// All before it has come.
    expected: u64,
    early: BTreeMap<u64, Vec<u8>>,
    /// Where the peer's stream ends.
    peer_end: Option<u64>,
    arrived: Vec<u8>,
    /// The peer is to be told what has come.
    owes: bool,
    reset: bool,
    /// When a reset came that was not sealed, though there are keys.
    reset_told: Option<Time>,
    protection: Protection,
    /// Whether what goes out is sealed, and whether something sealed has come.
    seals: bool,
    sealed: bool,
    forged: u64,
    timer: Option<Time>,
    /// Since when something has been waiting for an answer.
    waits_since: Time,
    backoff: f64,
    /// Timeouts in a row that were in vain, and what a piece has at most.
    in_vain: u8,
    room: usize,
    /// The longest probe that has come and was not answered; 0: none.
    probed: u16,
    /// How often each signal is sent, and the last one as often as it still has to be.
    copies: u8,
    again: (u8, Vec<u8>),
    rtt_s: Option<f64>,
    /// A piece that was sent once: where it ends, and when it went.
    timed: Option<(u64, Time)>,
    heard: Time,
}

impl Signalling {
    /// The sender's end, which opens the connection.
    pub fn initiate(now: Time, connection: u32) -> Self {
        Signalling { opening: Opening::Asks, timer: Some(now), ..Self::respond(now, connection) }
    }

    /// The receiver's end of a connection that an [`AddressValidator`](super::AddressValidator) has let in.
    pub fn respond(now: Time, connection: u32) -> Self {
        Signalling {
            connection,
            opening: Opening::Done,
            next_number: 0,
            outgoing: VecDeque::new(),
            base: 0,
            next: 0,
            high: 0,
            ends: false,
            end_acknowledged: false,
            expected: 0,
            early: BTreeMap::new(),
            peer_end: None,
            arrived: Vec::new(),
            owes: false,
            reset: false,
            reset_told: None,
            protection: Protection::insecure(),
            seals: false,
            sealed: false,
            forged: 0,
            timer: None,
            waits_since: now,
            backoff: 1.0,
            in_vain: 0,
            room: MAX_SIGNAL_PAYLOAD,
            probed: 0,
            copies: 1,
            again: (0, Vec::new()),
            rtt_s: None,
            timed: None,
            heard: now,
        }
    }

    /// Writes to the stream. Nothing may follow [`Signalling::end`].
    pub fn write(&mut self, bytes: &[u8]) {
        debug_assert!(!self.ends, "written after the end");
        self.outgoing.extend(bytes);
    }

    /// Bytes that the peer has not acknowledged.
    pub fn unacknowledged_bytes(&self) -> usize {
        self.outgoing.len()
    }

    /// Bytes that it holds at most, both ways.
    pub fn held_bytes(&self) -> usize {
        self.outgoing.capacity() + self.arrived.capacity() + self.early.len() * MAX_SIGNAL_PAYLOAD
    }

    /// What has come since the last call, in order.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.arrived)
    }

    /// Nothing more will be written.
    pub fn end(&mut self) {
        self.ends = true;
    }

    /// Whether the peer has answered.
    pub fn is_open(&self) -> bool {
        self.opening == Opening::Done
    }

    /// Whether the peer's stream has ended, and all of it has come.
    pub fn has_ended(&self) -> bool {
        self.peer_end == Some(self.expected)
    }

    /// Whether both ends are done, and this one knows it.
    pub fn is_over(&self) -> bool {
        self.has_ended() && self.end_acknowledged
    }

    /// Keys are there: `side` is this end's. To be called before anything is sent that needs them at the peer.
    pub fn protect(&mut self, protection: Protection, side: Side) {
        self.seals = protection.is_on() && side == Side::Server;
        self.protection = protection;
    }

    /// Whether the peer knows of no such connection. `heard`: when something authentic came last beside signals.
    pub fn was_reset(&mut self, now: Time, heard: Option<Time>) -> bool {
        if let Some(told) = self.reset_told {
            if self.heard > told || heard.is_some_and(|heard| heard > told) {
                self.reset_told = None;
            } else if now.since(told) >= RESET_PATIENCE {
                self.reset = true;
            }
        }
        self.reset
    }

    /// Signals that did not authenticate.
    pub fn forged(&self) -> u64 {
        self.forged
    }

    /// The smoothed round trip.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt_s.map(Duration::from_secs_f64)
    }

    /// When a signal came last; when it began, before the first.
    pub fn heard(&self) -> Time {
        self.heard
    }

    /// Since when an answer has been awaited, and nothing has come.
    pub fn silent_since(&self) -> Option<Time> {
        self.timer.map(|_| self.heard.max(self.waits_since))
    }

    fn stream_end(&self) -> u64 {
        self.base + self.outgoing.len() as u64
    }

    /// A datagram of this connection that is a signal. What is none is ignored.
    pub fn handle_datagram(&mut self, now: Time, header: &Header, datagram: &[u8]) {
        if self.protection.is_on() {
            let mut opened = datagram.to_vec();
            if let Ok(body) = self.protection.open(header, &mut opened) {
                if let Ok((signal, payload)) = Signal::parse(body) {
                    self.seals = true;
                    if !std::mem::replace(&mut self.sealed, true) {
                        // Anybody may have said what has come in clear and is not part of the stream yet: it comes again.
                        self.early.clear();
                        self.peer_end.take_if(|end| *end != self.expected);
                    }
                    self.protection.passed(header.number);
                    self.handle(now, &signal, payload);
                }
                return;
            }
        }
        let Some(Ok((signal, payload))) = datagram.get(HEADER_BYTES..).map(Signal::parse) else { return };
        if self.protection.is_on() && signal.flag == Flag::Reset {
            self.reset_told.get_or_insert(now);
        } else if !self.sealed {
            self.handle(now, &signal, payload);
        } else {
            self.forged += 1;
        }
    }

    /// A signal of this connection. What cannot be is ignored.
    fn handle(&mut self, now: Time, signal: &Signal, payload: &[u8]) {
        let payload = match signal.flag {
            Flag::Retry => {
                if let (Some(cookie), false) = (payload.first_chunk(), self.is_open()) {
                    self.heard = now;
                    self.opening = Opening::Shows { cookie: *cookie, due: true };
                    self.sample(now, 0);
                    (self.backoff, self.timer) = (1.0, None);
                }
                return;
            }
            Flag::Reset => {
                // One that comes after the end is of no interest.
                self.reset |= !self.is_over();
                return;
            }
            // Sent again, since our answer was lost.
            Flag::Open | Flag::Opens => payload.get(COOKIE_BYTES..).unwrap_or_default(),
            Flag::None | Flag::End => payload,
        };
        let (offset, acknowledged) =
            (place(self.expected, signal.offset), place(self.base, signal.acknowledged));
        let (Some(offset), Some(acknowledged)) = (offset, acknowledged) else { return };
        self.heard = now;
        if self.opening != Opening::Done && matches!(signal.flag, Flag::None | Flag::End) {
            self.opening = Opening::Done;
        }
        self.on_acknowledged(now, acknowledged);
        if signal.flag == Flag::End {
            self.peer_end.get_or_insert(offset + payload.len() as u64);
        }
        self.owes |= !payload.is_empty() || !matches!(signal.flag, Flag::None);
        self.on_payload(offset, payload);
    }

    fn on_acknowledged(&mut self, now: Time, acknowledged: u64) {
        if acknowledged <= self.base || acknowledged > self.high {
            return;
        }
        self.sample(now, acknowledged);
        self.end_acknowledged = self.ends && acknowledged > self.stream_end();
        let acknowledged = acknowledged.min(self.stream_end());
        self.outgoing.drain(..(acknowledged - self.base) as usize);
        self.base = acknowledged;
        self.next = self.next.max(self.base);
        (self.backoff, self.in_vain) = (1.0, 0);
        let all = self.base + u64::from(self.end_acknowledged) >= self.high;
        self.timer = (!all).then(|| now + self.timeout());
    }

    fn sample(&mut self, now: Time, acknowledged: u64) {
        if let Some((end, sent)) = self.timed
            && acknowledged >= end
        {
            let sample = now.since(sent).as_secs_f64();
            self.rtt_s = Some(self.rtt_s.map_or(sample, |rtt| PAST * rtt + (1.0 - PAST) * sample));
            self.timed = None;
        }
    }

    fn on_payload(&mut self, offset: u64, payload: &[u8]) {
        // What nobody takes is not acknowledged, and comes again.
        if payload.len() > MAX_SIGNAL_PAYLOAD || self.arrived.len() >= WINDOW_BYTES as usize {
            return;
        }
        let end = offset + payload.len() as u64;
        if !payload.is_empty() && end <= self.expected {
            // The peer has not heard that it came.
            self.note_loss();
        }
        if end > self.expected && offset <= self.expected + WINDOW_BYTES {
            let known = self.early.get(&offset).map_or(0, Vec::len);
            if self.early.len() < MOST_EARLY && payload.len() > known || offset <= self.expected {
                self.early.insert(offset, payload.to_vec());
            }
        }
        while let Some(first) = self.early.first_entry().filter(|first| *first.key() <= self.expected) {
            let (offset, bytes) = first.remove_entry();
            if let Some(new) = bytes.get((self.expected - offset) as usize..) {
                self.arrived.extend_from_slice(new);
                self.expected += new.len() as u64;
            }
        }
    }

    fn note_loss(&mut self) {
        self.copies = (self.copies + 1).min(MOST_COPIES);
    }

    fn timeout(&self) -> Duration {
        let rtt_s = self.rtt_s.map(|rtt_s| Duration::from_secs_f64(2.0 * rtt_s));
        let timeout = rtt_s.map_or(FIRST_TIMEOUT, |timeout| timeout + LEAST_TIMEOUT);
        timeout.mul_f64(self.backoff).min(LONGEST_TIMEOUT)
    }

    /// Whether probes can be answered: the peer knows, or is about to know, of the connection.
    pub fn can_probe(&self) -> bool {
        let shown = matches!(self.opening, Opening::Done | Opening::Shows { due: false, .. });
        shown && !self.reset && !self.ends
    }

    /// Appends a datagram of `bytes` that asks whether the path carries it.
    pub fn probe(&mut self, bytes: u16, buffer: &mut Vec<u8>) {
        self.emit_probe(bytes, bytes.into(), buffer);
    }

    fn emit_probe(&mut self, told: u16, bytes: usize, buffer: &mut Vec<u8>) {
        let (number, begins) = (self.next_number, buffer.len());
        self.next_number += 1;
        Header { kind: Kind::Probe, connection: self.connection, number }.emit(buffer);
        Probe { bytes: told }.emit(buffer);
        let tag = if self.seals { TAG_BYTES } else { 0 };
        buffer.resize((begins + bytes.saturating_sub(tag)).max(buffer.len()), 0);
        if self.seals {
            self.protection.seal(number, buffer, begins);
        }
    }

    /// What a probe of the peer's tells, if it is authentic, or as authentic as what opens the connection. Nothing it says is to be
    /// believed any further.
    pub fn open_probe(&mut self, header: &Header, datagram: &[u8]) -> Option<Probe> {
        if self.protection.is_on() {
            let mut opened = datagram.to_vec();
            if let Ok(body) = self.protection.open(header, &mut opened) {
                return Probe::parse(body).ok();
            }
        }
        if self.sealed {
            self.forged += 1;
            return None;
        }
        Probe::parse(datagram.get(HEADER_BYTES..)?).ok()
    }

    /// A probe of `bytes` has come: it is answered next.
    pub fn answer(&mut self, bytes: u16) {
        self.probed = self.probed.max(bytes);
    }

    /// Appends the next datagram, if there is one to send.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> bool {
        if self.reset {
            return false;
        }
        if let (left @ 1.., copy) = &mut self.again {
            *left -= 1;
            buffer.extend_from_slice(copy);
            return true;
        }
        if self.probed > 0 {
            let probed = std::mem::take(&mut self.probed);
            self.emit_probe(probed, 0, buffer);
            return true;
        }
        let expired = self.timer.is_some_and(|at| at <= now);
        if expired {
            // An answer does not tell which of them it is to (Karn's rule, RFC 6298, section 3).
            self.timed = (self.opening == Opening::Asks && self.next_number == 0).then_some((0, now));
            if let Opening::Shows { due, .. } = &mut self.opening {
                *due = true;
            }
            self.next = self.base;
            if self.next_number > 0 {
                self.note_loss();
                self.in_vain = self.in_vain.saturating_add(1);
            }
            if self.in_vain >= MOST_IN_VAIN {
                self.room = SHORT_BYTES;
            }
            self.timer = Some(now + self.timeout());
            self.backoff = (self.backoff * BACKOFF).min(MOST_BACKOFF);
        }
        let no_cookie = [0; COOKIE_BYTES];
        let (flag, prefix) = match &mut self.opening {
            Opening::Asks if expired => (Flag::Open, &no_cookie[..]),
            Opening::Shows { cookie, due } if *due => {
                *due = false;
                (Flag::Opens, &cookie[..])
            }
            // Nothing follows before the receiver has answered.
            Opening::Asks | Opening::Shows { .. } => return false,
            Opening::Done => (Flag::None, &[][..]),
        };
        // It is copied, since the stream is looked at as well.
        let prefix = prefix.to_vec();
        let window_end = self.base + if self.backoff > 1.0 { AGAIN_BYTES } else { WINDOW_BYTES };
        let stream_end = self.stream_end();
        let tag = if self.seals { TAG_BYTES } else { 0 };
        let room = (self.room - prefix.len() - tag) as u64;
        let to = stream_end.min(window_end).min(self.next + room);
        let from = if flag == Flag::Open { 0 } else { self.next.min(to) };
        let to = if flag == Flag::Open { 0 } else { to };
        let fits = flag == Flag::None && to == stream_end && self.next <= stream_end;
        let ends = self.ends && !self.end_acknowledged && fits;
        if to == from && flag == Flag::None && !ends && !self.owes {
            return false;
        }
        let number = self.next_number;
        self.next_number += 1;
        let begins = buffer.len();
        Header { kind: Kind::Signal, connection: self.connection, number }.emit(buffer);
        // The end takes a place of its own: it is acknowledged when that is.
        let acknowledged = self.expected + u64::from(self.has_ended());
        let flag = if ends { Flag::End } else { flag };
        Signal { flag, offset: from as u32, acknowledged: acknowledged as u32 }.emit(buffer);
        buffer.extend_from_slice(&prefix);
        let begin = (from - self.base) as usize;
        buffer.extend(self.outgoing.range(begin..begin + (to - from) as usize));
        if self.seals {
            self.protection.seal(number, buffer, begins);
        }
        self.again = (self.copies - 1, buffer[begins..].to_vec());
        self.owes = false;
        let sent_to = to + u64::from(ends);
        if sent_to > self.high {
            self.timed.get_or_insert((sent_to, now));
            self.high = sent_to;
        }
        self.next = self.next.max(sent_to);
        if self.timer.is_none() && (self.high > self.base || flag != Flag::None) {
            self.waits_since = now;
            self.timer = Some(now + self.timeout());
        }
        true
    }

    /// When [`Signalling::poll_transmit`] has something to send without any input.
    pub fn poll_timeout(&self) -> Option<Time> {
        let reset = self.reset_told.map(|told| told + RESET_PATIENCE);
        self.timer.into_iter().chain(reset).min().filter(|_| !self.reset)
    }
}

/// Where in a stream, nearest to `near`, a place is of which a signal has 32 bits; `None`: before its beginning.
fn place(near: u64, bits: u32) -> Option<u64> {
    let ahead = bits.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(ahead.into())
}
