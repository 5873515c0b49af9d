//! The sending end of a connection, whole: datagrams in, datagrams out.

use std::time::Duration;

use wire::control;
use wire::packet::{Header, Kind, symbol_datagram_bytes};

use super::super::carrier::{Carrier, header_beside_data};
use super::super::{Sender, SenderConfig, SenderCounters, SenderEvent, Signalling, Transmit};
use crate::Time;
use crate::channel::{Broken, Channel, Security};
use crate::ecn::Codepoint;
use crate::path_mtu::PathMtu;
use crate::protect::Side;

/// Before a signal has been answered.
const UNKNOWN_RTT: Duration = Duration::from_millis(1);
/// What is offered has symbols as long as the path carries: it waits so many round trips, and so long beside, for that to be found out.
const ROUND_TRIPS: u32 = 4;
const SEARCH: Duration = Duration::from_millis(100);

/// Opens a connection to one receiver, sends, and releases it.
pub struct SenderEndpoint {
    config: SenderConfig,
    connection: u32,
    carrier: Carrier,
    /// From the moment that the receiver is known.
    sender: Option<Sender>,
    /// What is known of the path before that.
    path: PathMtu,
    /// The receiver is known: by then [`SenderEvent::Open`] says so.
    opens_at: Option<Time>,
    opened: bool,
    /// The last thing that went was a signal: more of them may be ready.
    signals: bool,
    /// Why the connection has ended; told once.
    ended: Option<String>,
    told: bool,
    /// The receiver knows nothing of it.
    reset: bool,
}

impl SenderEndpoint {
    /// Begins to connect; [`SenderEvent::Open`] tells that the receiver is there, [`SenderEvent::Ended`] that it is not.
    ///
    /// `connection` is chosen at random: it names the connection at the receiver.
    pub fn connect(config: SenderConfig, now: Time, connection: u32, security: Security) -> Self {
        let signalling = Signalling::initiate(now, connection);
        let protected = !matches!(security, Security::Clear);
        let longest = symbol_datagram_bytes(config.symbol_bytes.into(), protected);
        let path = PathMtu::new(now, u16::try_from(longest).unwrap_or(u16::MAX));
        let carrier = Carrier::new(signalling, Channel::new(security), Side::Client, config.silence);
        let (sender, opens_at, ended) = (None, None, None);
        let (opened, signals, told, reset) = (false, false, false, false);
        let mut endpoint = SenderEndpoint {
            config,
            connection,
            carrier,
            sender,
            path,
            opens_at,
            opened,
            signals,
            ended,
            told,
            reset,
        };
        endpoint.talk(now);
        endpoint
    }

    /// The data channel, once the connection is open: to offer objects, provide blocks and tell the rate.
    pub fn sender(&mut self) -> Option<&mut Sender> {
        self.sender.as_mut().filter(|_| self.opens_at.is_none())
    }

    /// The same to look at.
    pub fn data(&self) -> Option<&Sender> {
        self.sender.as_ref().filter(|_| self.opens_at.is_none())
    }

    /// What is known of how long datagrams the path carries.
    pub fn path(&self) -> &PathMtu {
        self.sender.as_ref().map_or(&self.path, Sender::path)
    }

    fn path_mut(&mut self) -> &mut PathMtu {
        self.sender.as_mut().map_or(&mut self.path, Sender::path_mut)
    }

    /// The system says, or a router, that the path carries datagrams of at most so many bytes, of UDP payload.
    pub fn hint_path(&mut self, now: Time, bytes: u16) {
        self.path_mut().hint(now, bytes);
        self.open(now);
    }

    /// A datagram from the receiver's address.
    pub fn handle_datagram(&mut self, now: Time, datagram: &mut [u8]) {
        match header_beside_data(datagram) {
            Some(header) if header.connection != self.connection => {}
            Some(header) if header.kind == Kind::Probe => self.on_probe(now, &header, datagram),
            Some(header) => {
                self.carrier.signalling.handle_datagram(now, &header, datagram);
                self.talk(now);
                self.handle_timeout(now);
            }
            None => {
                if let Some(sender) = &mut self.sender {
                    sender.handle_datagram(now, datagram);
                }
            }
        }
    }

    fn on_probe(&mut self, now: Time, header: &Header, datagram: &[u8]) {
        if let Some(answer) = self.carrier.signalling.open_probe(header, datagram) {
            self.path_mut().on_answered(now, answer.bytes);
            self.open(now);
        }
    }

    /// Heeds what is known of the path by now. Objects can be offered once it is known how long datagrams it carries.
    fn open(&mut self, now: Time) {
        if let Some(sender) = &mut self.sender {
            sender.note_path();
        }
        let known = self.path().is_settled();
        if self.opens_at.take_if(|at| known || *at <= now).is_some() {
            self.opened = true;
        }
    }

    /// Lets timers expire.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.ended.is_some() {
            self.reset = self.carrier.was_reset(now, None);
            return;
        }
        self.reset = self.carrier.was_reset(now, self.sender.as_ref().map(Sender::heard));
        if self.reset {
            return self.end("the receiver knows nothing of this connection: it was started again".into());
        }
        if self.carrier.silent_at().is_some_and(|at| at <= now) {
            let silence = self.config.silence.as_secs_f64();
            return self.end(format!("the receiver did not answer for {silence} s"));
        }
        self.path_mut().handle_timeout(now);
        self.open(now);
        if let Some(sender) = &mut self.sender
            && sender.poll_timeout(now).is_some_and(|at| at <= now)
        {
            sender.handle_timeout(now);
        }
    }

    /// Takes what the receiver has said.
    fn talk(&mut self, now: Time) {
        // What was said before the end may tell why.
        let broken = self.carrier.read().err();
        if let Some(protection) = self.carrier.opened() {
            let rtt = self.carrier.signalling.rtt().unwrap_or(UNKNOWN_RTT);
            self.path.measure(0.0, self.carrier.signalling.rtt());
            let (config, path) = (self.config.clone(), self.path.clone());
            self.sender = Some(Sender::new(config, now, self.connection, protection, rtt).on_path(path));
            self.opens_at = Some(now + ROUND_TRIPS * rtt + SEARCH);
            self.open(now);
        }
        let said = self.listen(now).err();
        if let Some(broken) = said.or(broken) {
            self.end(broken.to_string());
        }
    }

    fn listen(&mut self, now: Time) -> Result<(), Broken> {
        let Some(sender) = &mut self.sender else { return Ok(()) };
        while let Some(message) = self.carrier.channel.message::<control::Receiver>()? {
            sender.handle_control(now, message);
        }
        Ok(())
    }

    /// The next thing to do, or to know.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        if std::mem::take(&mut self.opened) {
            return Some(SenderEvent::Open);
        }
        match self.sender.as_mut().and_then(Sender::poll_event) {
            Some(SenderEvent::Ended { reason }) => self.end(reason),
            None => {}
            event => return event,
        }
        let reason = self.ended.clone().filter(|_| !self.told)?;
        self.told = true;
        Some(SenderEvent::Ended { reason })
    }

    /// Whether [`SenderEndpoint::poll_event`] has something.
    pub fn has_events(&self) -> bool {
        let ended = self.ended.is_some() && !self.told;
        self.opened || ended || self.sender.as_ref().is_some_and(Sender::has_events)
    }

    fn end(&mut self, reason: String) {
        if self.ended.is_none() {
            self.say();
        }
        if self.ended.is_none() {
            self.carrier.close();
            self.ended = Some(reason);
        }
    }

    /// Has the control channel carry what the data channel wants said.
    fn say(&mut self) {
        if let Err(broken) = self.speak() {
            self.carrier.close();
            self.ended = Some(broken.to_string());
        }
    }

    fn speak(&mut self) -> Result<(), Broken> {
        while let Some(message) = self.sender.as_mut().and_then(Sender::poll_control) {
            self.carrier.channel.send(&message)?;
        }
        self.carrier.write();
        Ok(())
    }

    /// The next burst: datagrams of one size, appended to `buffer`, at most `max_datagrams` of them.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<Transmit> {
        if self.ended.is_none() {
            self.say();
        }
        let begin = buffer.len();
        // Signals first: there are few, and much waits for them.
        self.signals = self.carrier.signalling.poll_transmit(now, buffer);
        if self.signals {
            // Reports count the ECN fields of symbols alone.
            return Some(Transmit { segment_bytes: buffer.len() - begin, ecn: Codepoint::NotEct });
        }
        if self.sender.is_none() {
            self.path.measure(0.0, self.carrier.signalling.rtt());
        }
        if self.ended.is_none()
            && self.carrier.signalling.can_probe()
            && let Some(bytes) = self.path_mut().poll_probe(now)
        {
            self.carrier.signalling.probe(bytes, buffer);
            return Some(Transmit { segment_bytes: buffer.len() - begin, ecn: Codepoint::NotEct });
        }
        let sender = self.sender.as_mut().filter(|_| self.ended.is_none())?;
        sender.poll_transmit(now, buffer, max_datagrams)
    }

    /// When [`SenderEndpoint::handle_timeout`] or [`SenderEndpoint::poll_transmit`] has something to do without any input.
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        let more = self.signals.then_some(Time::ZERO);
        let signals = self.carrier.signalling.poll_timeout().into_iter().chain(more).min();
        if self.ended.is_some() {
            return signals;
        }
        let probes = self.path().poll_timeout().filter(|_| self.carrier.signalling.can_probe());
        let path = probes.into_iter().chain(self.opens_at);
        let sender = self.sender.as_ref().and_then(|sender| sender.poll_timeout(now));
        signals.into_iter().chain(self.carrier.silent_at()).chain(path).chain(sender).min()
    }

    /// Says goodbye and releases the connection. [`SenderEndpoint::is_over`] tells when the receiver knows it.
    pub fn release(&mut self, reason: &str) {
        if let Some(sender) = &mut self.sender {
            sender.close(reason);
        }
        if self.ended.is_none() {
            self.end(reason.to_owned());
            self.told = true;
        }
    }

    /// Whether both ends have let go of the connection, or the receiver knows nothing of it.
    pub fn is_over(&self) -> bool {
        self.reset || self.carrier.signalling.is_over()
    }

    /// What was sent and seen, forged signals included.
    pub fn counters(&self) -> SenderCounters {
        let mut counters = self.sender.as_ref().map(Sender::counters).unwrap_or_default();
        counters.forged += self.carrier.signalling.forged();
        counters
    }
}
