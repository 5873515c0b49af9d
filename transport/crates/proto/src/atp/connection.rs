//! One end of a connection.

mod incoming;
mod outgoing;

use std::time::Duration;

use super::interface::{Closed, ConnectionConfig, Counters, Event, Read, StreamId, WriteError};
use super::parity::{Grouping, Repairing};
use super::received::Received;
use super::rtt::Rtt;
use super::sent::SentPackets;
use super::streams::{Forbidden, Streams};
use super::window::Window;
use crate::Time;
use crate::ecn::Marking;
use crate::packets::Packets;
use crate::protect::{Protection, Side};

/// Parts of the idle time after which a peer is asked whether it is there.
const KEEP_ALIVE: u32 = 3;
/// A closed connection answers what still comes with its end for so many timeouts.
const LINGER: u32 = 3;
/// The protocol's own code of a connection that the peer has broken; applications have those below.
pub const CODE_VIOLATION: u64 = 1 << 32;

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

/// One end of a connection, once there are keys.
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
    received: Received,
    repairing: Repairing,
    marking: Marking,
    state: State,
    /// When something authentic came last, and when something was last sent that is to be acknowledged.
    heard: Time,
    asked: Time,
    /// The peer is to be told below which number it need not wait, or asked whether it is there.
    owes_floor: bool,
    owes_ping: bool,
    /// When the last packets were sent that the peer says parity has repaired, or that were marked: what was heard of it.
    repaired_at_peer: u64,
    counters: Counters,
}

impl Connection {
    /// An end of the connection with this number, which the peer knows by it as well; none if the budget has no room for it.
    pub fn new(
        now: Time,
        side: Side,
        connection: u32,
        protection: Protection,
        config: ConnectionConfig,
    ) -> Option<Self> {
        Some(Connection {
            side,
            packets: Packets::new(connection, protection),
            streams: Streams::new(side, &config)?,
            window: Window::new(config.datagram_bytes),
            rtt: Rtt::default(),
            sent: SentPackets::default(),
            grouping: Grouping::default(),
            received: Received::new(now),
            repairing: Repairing::default(),
            marking: Marking::new(config.ecn),
            state: State::Open,
            heard: now,
            asked: now,
            owes_floor: false,
            owes_ping: false,
            repaired_at_peer: 0,
            counters: Counters::default(),
            config,
        })
    }

    /// A round trip was measured before there was a connection.
    pub fn measured(&mut self, rtt: Duration) {
        self.rtt.measure(rtt);
        self.received.set_rtt(self.rtt.get());
    }

    // Streams

    /// Opens a stream, for both directions. None while the peer lets no more be open, or there is no memory.
    pub fn open(&mut self) -> Option<StreamId> {
        self.streams.open()
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

    /// Gives up writing a stream, for a reason of the application. What was not read by the peer is lost.
    pub fn reset(&mut self, stream: StreamId, code: u64) {
        self.streams.reset(stream, code);
    }

    /// Reads from a stream what has come, in order. After [`Read::Nothing`], [`Event::Readable`] tells of more.
    pub fn read(&mut self, now: Time, stream: StreamId, out: &mut [u8]) -> Read {
        self.streams.read(now, self.rtt.get(), stream, out)
    }

    /// Wants no more of a stream, for a reason of the application.
    pub fn stop(&mut self, stream: StreamId, code: u64) {
        self.streams.stop(stream, code);
    }

    /// Ends the connection: streams that are open are lost. The peer is told.
    pub fn close(&mut self, now: Time, code: u64, reason: &str) {
        if self.state == State::Open {
            let until = now + LINGER * self.timeout();
            self.state = State::Closing { code, reason: reason.to_owned(), until, due: true };
            self.streams.close(Closed::Locally);
        }
    }

    fn violated(&mut self, now: Time, Forbidden(what): Forbidden) {
        if self.state == State::Open {
            let until = now + LINGER * self.timeout();
            self.state = State::Closing { code: CODE_VIOLATION, reason: what.to_owned(), until, due: true };
            self.streams.close(Closed::Violation(what));
        }
    }

    fn end(&mut self, why: Closed) {
        self.state = State::Over;
        self.streams.close(why);
    }

    /// Whether nothing is to be sent or received any more.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
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
        (!self.streams.is_idle() && self.sent.first().is_none() && !self.owes_ping).then_some(silent)
    }

    /// When [`Connection::handle_timeout`] has something to do without any input. Events are to be taken before.
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.state {
            State::Open => {
                let idle = Some(self.heard + self.config.idle);
                let others = [self.timeout_at(), self.keep_alive_at(), self.streams.poll_timeout()];
                others.into_iter().chain([idle, self.received.poll_timeout()]).flatten().min()
            }
            State::Closing { until, .. } => Some(*until),
            State::Over => None,
        }
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
        self.received.handle_timeout(now);
        self.streams.handle_timeout(now);
        self.owes_ping |= self.keep_alive_at().is_some_and(|at| at <= now);
        if self.timeout_at().is_some_and(|at| at <= now) {
            self.on_timeout(now);
        }
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
        self.window.group()
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
