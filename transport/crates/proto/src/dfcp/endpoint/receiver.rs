//! The receiving end of a connection, whole: datagrams in, datagrams and symbols out.

use std::time::Duration;

use wire::control;
use wire::packet::{Header, Kind};

use super::super::carrier::{Carrier, header_beside_data};
use super::super::{Receiver, ReceiverConfig, ReceiverCounters, ReceiverEvent, Signalling};
use crate::Time;
use crate::channel::{Broken, Channel, Security};
use crate::ecn::Codepoint;
use crate::object::Arrival;
use crate::protect::{Protection, Side};

/// A sender that cannot say hello within this is forgotten.
const GREETING: Duration = Duration::from_secs(10);
/// After the end its sender may not have heard of it.
const LINGER: Duration = Duration::from_secs(3);

/// One connection that a sender has opened.
pub struct ReceiverEndpoint {
    config: ReceiverConfig,
    connection: u32,
    carrier: Carrier,
    since: Time,
    /// The sender is known, and waits for its window.
    waiting: Option<Protection>,
    receiver: Option<Receiver>,
    /// What was said before the channel broke has its effect first.
    broken: Option<Broken>,
    ended: Option<Ended>,
}

struct Ended {
    reason: String,
    complete: bool,
    /// Until when its sender is answered.
    until: Time,
    told: bool,
}

impl ReceiverEndpoint {
    /// A connection that an [`AddressValidator`](super::super::AddressValidator) has let in.
    pub fn accept(config: ReceiverConfig, now: Time, connection: u32, security: Security) -> Self {
        let signalling = Signalling::respond(now, connection);
        let channel = Channel::of_a_stranger(security);
        let carrier = Carrier::new(signalling, channel, Side::Server, config.silence);
        let (since, waiting, receiver, broken, ended) = (now, None, None, None, None);
        ReceiverEndpoint { config, connection, carrier, since, waiting, receiver, broken, ended }
    }

    /// Whether the sender is known, and waits for [`ReceiverEndpoint::open`].
    pub fn is_opening(&self) -> bool {
        self.waiting.is_some() && self.ended.is_none()
    }

    /// Lets the sender in: it may have so many bytes of blocks under way.
    pub fn open(&mut self, now: Time, window_bytes: u64) {
        let Some(protection) = self.waiting.take() else { return };
        let config = ReceiverConfig { window_bytes, ..self.config.clone() };
        self.receiver = Some(Receiver::new(config, now, self.connection, protection));
        self.listen(now);
    }

    /// The data channel, once the connection is open: to take and refuse objects, and to say what is needed of them.
    pub fn receiver(&mut self) -> Option<&mut Receiver> {
        self.receiver.as_mut()
    }

    /// Bytes of blocks that the sender may have under way; none before it is let in, or after the end.
    pub fn window_bytes(&self) -> u64 {
        self.receiver.as_ref().filter(|_| self.ended.is_none()).map_or(0, Receiver::window_bytes)
    }

    /// Whether the sender was ever let in.
    pub fn was_open(&self) -> bool {
        self.receiver.is_some()
    }

    /// Whether it can be forgotten.
    pub fn is_over(&self, now: Time) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.until <= now)
    }

    /// A datagram from the sender's address, with what its IP header bore of ECN. Returns the symbol if it is of use.
    pub fn handle_datagram<'a>(
        &'a mut self,
        now: Time,
        ecn: Codepoint,
        datagram: &'a mut [u8],
    ) -> Option<Arrival<'a>> {
        match header_beside_data(datagram) {
            Some(header) if header.connection != self.connection => None,
            Some(header) if header.kind == Kind::Probe => {
                self.on_probe(&header, datagram);
                None
            }
            Some(header) => {
                self.on_signal(now, &header, datagram);
                None
            }
            None => self.receiver.as_mut()?.handle_datagram(now, ecn, datagram),
        }
    }

    fn on_probe(&mut self, header: &Header, datagram: &[u8]) {
        let length = u16::try_from(datagram.len());
        if let (Some(_), Ok(length)) = (self.carrier.signalling.open_probe(header, datagram), length)
            && self.ended.is_none()
        {
            self.carrier.signalling.answer(length);
        }
    }

    fn on_signal(&mut self, now: Time, header: &Header, datagram: &[u8]) {
        self.carrier.signalling.handle_datagram(now, header, datagram);
        if self.ended.is_some() {
            // Nobody reads it any more.
            self.carrier.signalling.take();
            return;
        }
        if let Err(broken) = self.carrier.read() {
            self.broken.get_or_insert(broken);
        }
        if let Some(protection) = self.carrier.opened() {
            self.waiting = Some(protection);
        }
        self.listen(now);
    }

    fn listen(&mut self, now: Time) {
        let Some(receiver) = &mut self.receiver else { return };
        loop {
            match self.carrier.channel.message::<control::Sender>() {
                Ok(Some(message)) => receiver.handle_control(now, message),
                Ok(None) => break,
                Err(malformed) => {
                    self.broken.get_or_insert(malformed);
                    break;
                }
            }
        }
    }

    /// Lets timers expire.
    pub fn handle_timeout(&mut self, now: Time) {
        // After the end as well: its timer would stay due.
        let was_reset = self.carrier.was_reset(now, self.receiver.as_ref().map(Receiver::heard));
        if self.ended.is_some() {
            return;
        }
        let why = if let Some(broken) = self.broken.take() {
            Some(broken.to_string())
        } else if was_reset {
            Some("the sender has given it up".to_owned())
        } else if self.carrier.silent_at().is_some_and(|at| at <= now) {
            Some(format!("the sender did not answer for {} s", self.config.silence.as_secs_f64()))
        } else if self.receiver.is_none() && now.since(self.since) >= GREETING {
            Some("it did not say hello".to_owned())
        } else {
            None
        };
        if let Some(why) = why {
            return self.finish(now, why, false);
        }
        if let Some(receiver) = &mut self.receiver
            && receiver.poll_timeout().is_some_and(|at| at <= now)
        {
            receiver.handle_timeout(now);
        }
    }

    /// The next thing to do.
    pub fn poll_event(&mut self, now: Time) -> Option<ReceiverEvent> {
        match self.receiver.as_mut().and_then(Receiver::poll_event) {
            Some(ReceiverEvent::Ended { reason, complete }) => self.finish(now, reason, complete),
            None => {}
            event => return event,
        }
        let ended = self.ended.as_mut().filter(|ended| !ended.told)?;
        ended.told = true;
        Some(ReceiverEvent::Ended { reason: ended.reason.clone(), complete: ended.complete })
    }

    /// Ends the connection, for a reason of this side's.
    pub fn end(&mut self, now: Time, reason: String) {
        match &mut self.receiver {
            Some(receiver) => receiver.end(reason),
            None => self.finish(now, reason, false),
        }
    }

    /// Bytes that its control channel holds, both ways.
    pub fn held_bytes(&self) -> usize {
        self.carrier.held_bytes()
    }

    fn finish(&mut self, now: Time, reason: String, complete: bool) {
        if self.ended.is_none() {
            self.ended = Some(Ended { reason, complete, until: now + LINGER, told: false });
            // Who does not read it sees the end.
            let _ = self.say();
            self.carrier.close();
        }
    }

    fn say(&mut self) -> Result<(), Broken> {
        while let Some(message) = self.receiver.as_mut().and_then(Receiver::poll_control) {
            self.carrier.channel.send(&message)?;
        }
        self.carrier.write();
        Ok(())
    }

    /// Appends the next datagram, if one is due.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> bool {
        if self.ended.is_none()
            && let Err(broken) = self.say()
        {
            self.finish(now, broken.to_string(), false);
        }
        if self.carrier.signalling.poll_transmit(now, buffer) {
            return true;
        }
        let receiver = self.receiver.as_mut().filter(|_| self.ended.is_none());
        receiver.is_some_and(|receiver| receiver.poll_transmit(now, buffer))
    }

    /// When [`ReceiverEndpoint::handle_timeout`] or [`ReceiverEndpoint::poll_transmit`] has something to do without any
    /// input, or [`ReceiverEndpoint::is_over`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let signals = self.carrier.signalling.poll_timeout();
        let rest = match (&self.ended, &self.receiver) {
            (Some(ended), _) if !ended.told => return Some(Time::ZERO),
            (Some(ended), _) => return signals.into_iter().chain([ended.until]).min(),
            (None, _) if self.broken.is_some() => Some(Time::ZERO),
            (None, None) => Some(self.since + GREETING),
            (None, Some(receiver)) => receiver.poll_timeout(),
        };
        signals.into_iter().chain(self.carrier.silent_at()).chain(rest).min()
    }

    /// What was counted, forged signals included.
    pub fn counters(&self) -> ReceiverCounters {
        let mut counters = self.receiver.as_ref().map(Receiver::counters).unwrap_or_default();
        counters.forged += self.carrier.signalling.forged();
        counters
    }
}
