//! One end of a connection.

mod incoming;
mod outgoing;

use std::time::Duration;

use wire::atp::MAX_TOKEN_BYTES;
use wire::packet::Kind;

use super::after::After;
use super::interface::{Closed, ConnectionConfig, Counters, Event, KnownServer, Read, StreamId, WriteError};
use super::opening::Opening;
use super::parity::{Benefit, Grouping, Repairing};
use super::received::Received;
use super::rtt::Rtt;
use super::sent::SentPackets;
use super::streams::{Forbidden, Streams};
use super::window::Window;
use crate::Time;
use crate::ecn::Marking;
use crate::packets::Packets;
use crate::path_mtu::MIN_BYTES;
use crate::protect::{Protection, Side};

/// Parts of the idle time after which a peer is asked whether it is there.
const KEEP_ALIVE: u32 = 3;
/// Packets of a group, at least, where parity repairs little. With longer ones it would repair no more of losses that are random.
const GROUP_OF_LITTLE_BENEFIT: u32 = 16;
/// A closed connection answers what still comes with its end for so many timeouts.
const LINGER: u32 = 3;
/// The protocol's own code of a connection that the peer has broken; applications have those below.
pub const CODE_VIOLATION: u64 = 1 << 32;
/// Of a connection whose handshake has failed.
pub const CODE_TLS: u64 = CODE_VIOLATION + 1;
/// Of a connection that there is no room for.
pub const CODE_REFUSED: u64 = CODE_VIOLATION + 2;

/// The largest reason that an application can give for what it ends: larger ones are told as this.
pub const MOST_CODE: u64 = wire::varint::MAX;

fn sendable(code: u64) -> u64 {
    code.min(MOST_CODE)
}

/// How far a connection is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// This end has ended it: it says so, once and whenever something comes.
    Closing {
        code: u64,
        reason: String,
        until: Time,
        due: bool,
    },
    /// The peer has ended it, or is gone.
    Over,
}

/// One end of a connection.
///
/// A driver brings it datagrams and the time, sends what it wants sent, and has streams read and written. After each call it is to be
/// asked for what to send ([`Connection::poll_transmit`]), for news ([`Connection::poll_event`]), and when to be called again
/// ([`Connection::poll_timeout`]).
#[derive(Debug)]
pub struct Connection {
    side: Side,
    config: ConnectionConfig,
    packets: Packets,
    streams: Streams,
    window: Window,
    rtt: Rtt,
    sent: SentPackets,
    grouping: Grouping,
    benefit: Benefit,
    received: Received,
    repairing: Repairing,
    /// The length of the longest frames that groups may have: there is memory for their sums.
    longest: usize,
    marking: Marking,
    /// Until each end knows that the other has the keys.
    opening: Option<Box<Opening>>,
    after: After,
    /// There are keys to send data with; the handshake is through; data was sent before it was.
    has_keys: bool,
    is_through: bool,
    was_early: bool,
    /// The token that a client is to be told, and whether it has been.
    token: Option<(Vec<u8>, bool)>,
    began: Time,
    state: State,
    /// What it is to be ended with once all has been sent.
    farewell: Option<(u64, String)>,
    /// When something authentic came last, and when something was last sent that is to be acknowledged.
    heard: Time,
    asked: Time,
    /// The peer is to be told below which number it need not wait, or asked whether it is there.
    owes_floor: bool,
    owes_ping: bool,
    /// A client is to be told that the handshake is through.
    owes_done: bool,
    /// Packets that parity has repaired at the peer, as it said last.
    repaired_at_peer: u64,
    counters: Counters,
}

impl Connection {
    /// An end of a connection for which both ends have keys already. None if the budget has no room for it.
    pub fn new(
        now: Time,
        side: Side,
        connection: u32,
        protection: Protection,
        config: ConnectionConfig,
    ) -> Option<Self> {
        let packets = Packets::new(connection, protection);
        let has_keys = Connection::before_keys(now, side, connection, config)?;
        Some(Connection { packets, has_keys: true, is_through: true, ..has_keys })
    }

    /// A client's end of a connection to be opened, under a number that is random. `token` is the server's of an earlier connection,
    /// or empty. None if the budget has no room for it.
    ///
    /// Streams can be opened and written at once. What is written is sent when the server has answered; or before, if it is [to be
    /// early](ConnectionConfig::early) and TLS knows the server.
    pub fn connect(
        now: Time,
        tls: rustls::quic::ClientConnection,
        connection: u32,
        mut known: KnownServer,
        config: ConnectionConfig,
    ) -> Option<Self> {
        if known.token.len() > MAX_TOKEN_BYTES {
            // It is no server's, and would be refused.
            known.token.clear();
        }
        let pads = known.token.is_empty();
        let mut client = Connection::before_keys(now, Side::Client, connection, config)?;
        client.begin(Opening::client(tls, known, pads));
        Some(client)
    }

    /// A server's end of the connection that a client opens by this number. `validated`: the client has shown that it is where it says.
    /// `token`: what it may show the next time. None if the budget has no room for it.
    pub fn accept(
        now: Time,
        tls: rustls::quic::ServerConnection,
        connection: u32,
        validated: bool,
        token: Option<Vec<u8>>,
        config: ConnectionConfig,
    ) -> Option<Self> {
        let mut server = Connection::before_keys(now, Side::Server, connection, config)?;
        server.token = token.map(|token| (token, false));
        server.begin(Opening::server(tls, validated));
        Some(server)
    }

    fn before_keys(now: Time, side: Side, connection: u32, mut config: ConnectionConfig) -> Option<Self> {
        // Shorter ones have no room for what is around frames.
        config.datagram_bytes = config.datagram_bytes.max(MIN_BYTES);
        Some(Connection {
            side,
            packets: Packets::before_keys(connection),
            streams: Streams::new(side, &config)?,
            window: Window::new(config.datagram_bytes),
            rtt: Rtt::default(),
            sent: SentPackets::default(),
            grouping: Grouping::default(),
            benefit: Benefit::default(),
            received: Received::new(now),
            repairing: Repairing::default(),
            longest: 0,
            marking: Marking::new(config.ecn),
            opening: None,
            after: After::new(),
            has_keys: false,
            is_through: false,
            was_early: false,
            token: None,
            began: now,
            state: State::Open,
            farewell: None,
            heard: now,
            asked: now,
            owes_floor: false,
            owes_ping: false,
            owes_done: false,
            repaired_at_peer: 0,
            counters: Counters::default(),
            config,
        })
    }

    fn begin(&mut self, opening: Opening) {
        self.opening = Some(Box::new(opening));
        self.look_for_early_key();
    }

    /// What packets with frames go as, if there is a key for them.
    fn kind(&self) -> Option<Kind> {
        match (self.has_keys, self.was_early) {
            (true, _) => Some(Kind::Data),
            (false, true) if self.side == Side::Client => Some(Kind::Early),
            (false, _) => None,
        }
    }

    // Streams

    /// Opens a stream, for both directions. None while the peer lets no more be open, or there is no memory.
    pub fn open(&mut self) -> Option<StreamId> {
        self.streams.open()
    }

    /// Tells the peer of a stream that was opened, before there is anything to send on it: where the peer is to speak first.
    pub fn announce(&mut self, stream: StreamId) {
        self.streams.announce(stream);
    }

    /// Writes to a stream. Returns how many of the bytes there was room for: if not for all, [`Event::Writable`] follows.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn write(&mut self, now: Time, stream: StreamId, bytes: &[u8]) -> Result<usize, WriteError> {
        self.streams.write(now, stream, bytes)
    }

    /// A stream ends with what was written; what the peer sends on it can still be read.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn finish(&mut self, stream: StreamId) -> Result<(), WriteError> {
        self.streams.finish(stream)
    }

    /// Gives up writing a stream, for a reason of the application ([of 62 bits](MOST_CODE)). What was not read by the peer is lost.
    pub fn reset(&mut self, stream: StreamId, code: u64) {
        self.streams.reset(stream, sendable(code));
    }

    /// Reads from a stream what has come, in order, into room for one byte at least. After [`Read::Nothing`], [`Event::Readable`] tells of more.
    pub fn read(&mut self, now: Time, stream: StreamId, out: &mut [u8]) -> Read {
        self.streams.read(now, self.rtt.get(), stream, out)
    }

    /// Wants no more of a stream, for a reason of the application.
    pub fn stop(&mut self, stream: StreamId, code: u64) {
        self.streams.stop(stream, sendable(code));
    }

    /// Whether the peer is to be told something of streams besides what is written: what it may send, what is not wanted.
    pub fn has_notices(&self) -> bool {
        self.streams.has_notices()
    }

    /// Ends the connection: streams that are open are lost. The peer is told.
    pub fn close(&mut self, now: Time, code: u64, reason: &str) {
        self.fail(now, code, reason.to_owned(), Closed::Locally);
    }

    /// Ends the connection once all has been acknowledged that was written. Streams that are not finished by then are given up.
    pub fn close_when_done(&mut self, now: Time, code: u64, reason: &str) {
        if self.state == State::Open {
            self.farewell = Some((code, reason.to_owned()));
            self.leave(now);
        }
    }

    /// Closes it if nothing is left to do.
    fn leave(&mut self, now: Time) {
        if self.farewell.is_some()
            && self.state == State::Open
            && self.streams.are_sent()
            && let Some((code, reason)) = self.farewell.take()
        {
            self.fail(now, code, reason, Closed::Locally);
        }
    }

    /// Nobody reads any more what has come, now that the connection is over.
    pub fn forget(&mut self) {
        self.streams.forget();
    }

    fn violated(&mut self, now: Time, Forbidden(what): Forbidden) {
        self.fail(now, CODE_VIOLATION, what.to_owned(), Closed::Violation(what));
    }

    fn fail(&mut self, now: Time, code: u64, reason: String, why: Closed) {
        if self.state == State::Open {
            let until = now + LINGER * self.timeout();
            self.state = State::Closing { code: sendable(code), reason, until, due: true };
            self.streams.close(why, false);
        }
    }

    fn end(&mut self, why: Closed) {
        self.state = State::Over;
        let keeps = matches!(why, Closed::ByPeer { .. });
        self.streams.close(why, keeps);
    }

    /// Whether the peer has shown that it is who it should be, and that what came is not a copy of what came once.
    pub fn is_connected(&self) -> bool {
        self.is_through
    }

    /// The peer's certificate, if it has shown one and the handshake is through.
    pub fn peer_certificate(&self) -> Option<rustls::pki_types::CertificateDer<'static>> {
        match &self.opening {
            _ if !self.is_through => None,
            Some(opening) => opening.peer_certificate(),
            None => self.after.peer_certificate(),
        }
    }

    /// Whether the peer has shown that it is where it says: to a client, its server has.
    pub fn is_validated(&self) -> bool {
        self.opening.as_ref().is_none_or(|opening| opening.is_validated())
    }

    /// Whether there is a handshake that one of the ends may not know to be through.
    pub fn is_opening(&self) -> bool {
        self.opening.is_some()
    }

    /// Whether neither end has ended it. Of one that was, there may still be streams to read.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether such a stream was opened by either end, be it over or not.
    pub fn has_had(&self, stream: StreamId) -> bool {
        self.streams.has_had(stream)
    }

    /// Whether nothing is to be sent, received or read any more.
    pub fn is_over(&self) -> bool {
        self.state == State::Over && self.streams.is_idle()
    }

    /// The next thing that has happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.streams.poll_event()
    }

    // Time

    fn timeout(&self) -> Duration {
        self.rtt.timeout(self.received.tail_patience())
    }

    /// When what was sent first of all that is on its way has been waited for long enough.
    fn timeout_at(&self) -> Option<Time> {
        self.sent.oldest().map(|at| at + self.timeout())
    }

    fn keep_alive_at(&self) -> Option<Time> {
        let idle = self.config.idle / KEEP_ALIVE;
        let silent = self.heard.max(self.asked) + idle;
        let is_used = self.config.stays_open || !self.streams.is_idle();
        (is_used && self.sent.first().is_none() && !self.owes_ping).then_some(silent)
    }

    /// When [`Connection::handle_timeout`] has something to do without any input. Events are to be taken before.
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.state {
            State::Open => {
                let timers = [
                    Some(self.heard + self.config.idle),
                    self.give_up_at(),
                    self.opening.as_ref().and_then(|opening| opening.poll_timeout()),
                    self.timeout_at(),
                    self.keep_alive_at(),
                    self.received.poll_timeout(),
                    self.streams.poll_timeout(),
                ];
                timers.into_iter().flatten().min()
            }
            State::Closing { until, .. } => Some(*until),
            State::Over => None,
        }
    }

    /// When it is given up, unless the handshake is through.
    fn give_up_at(&self) -> Option<Time> {
        (!self.is_through).then(|| self.began + self.config.opening)
    }

    /// Lets timers expire.
    pub fn handle_timeout(&mut self, now: Time) {
        match &self.state {
            State::Open => {}
            State::Closing { until, .. } => {
                if *until <= now {
                    self.state = State::Over;
                }
                return;
            }
            State::Over => return,
        }
        if self.heard + self.config.idle <= now {
            return self.end(Closed::Silent(self.config.idle));
        }
        if self.give_up_at().is_some_and(|at| at <= now) {
            return self.end(Closed::Unanswered(self.config.opening));
        }
        if let Some(opening) = &mut self.opening {
            opening.handle_timeout(now);
        }
        self.received.handle_timeout(now);
        self.streams.handle_timeout(now);
        if self.timeout_at().is_some_and(|at| at <= now) {
            self.on_timeout(now);
        }
        // Last, since the peer is asked only when nothing is on its way.
        self.owes_ping |= self.keep_alive_at().is_some_and(|at| at <= now);
    }

    // For inspection

    /// Which end this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        let (dropped, received) = (self.packets.dropped(), self.received.counters());
        Counters {
            repaired: received.repaired,
            requests: received.requests,
            repaired_at_peer: self.repaired_at_peer,
            ce: self.marking.ce(),
            unexpected: dropped.unexpected,
            forged: dropped.forged,
            replayed: dropped.replayed,
            ..self.counters
        }
    }

    /// The smoothed round trip, once one was measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.measured()
    }

    /// Bytes that may be on their way.
    pub fn window_bytes(&self) -> u64 {
        self.window.bytes()
    }

    /// Packets that one parity is for, at present.
    pub fn group(&self) -> u32 {
        let group = self.window.group();
        if self.benefit.is_small() { group.max(GROUP_OF_LITTLE_BENEFIT) } else { group }
    }

    /// Bytes on their way.
    pub fn in_flight(&self) -> u64 {
        self.sent.in_flight()
    }

    /// Bytes that were written and are not acknowledged.
    pub fn unacknowledged_bytes(&self) -> usize {
        self.streams.unacknowledged_bytes()
    }

    /// Bytes of memory that it holds for both directions.
    pub fn held_bytes(&self) -> usize {
        self.streams.held_bytes() + self.grouping.held_bytes() + self.repairing.held_bytes()
    }
}
