//! One sender at a receiver: its control channel and its state machine.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use proto::dfcp::{Receiver, ReceiverConfig, ReceiverCounters, ReceiverEvent, Signalling};
use proto::protect::{DFCP_LABEL, DFCP_SIGNAL_LABEL, Side};
use proto::{Held, Time};
use wire::control;
use wire::packet::Header;

use super::{Key, ReceiveUpdate};
use crate::channel::{Broken, Channel};
use crate::decoding::Batch;
use crate::limits::{CONNECTION_BYTES, Room};
use crate::signals::{SignalStream, header_of_signal};
use crate::sink::JobId;

/// A sender that cannot say hello within this is forgotten.
const GREETING: Duration = Duration::from_secs(10);
/// What everybody may have under way, however many there are.
const LEAST_WINDOW_BYTES: u64 = 1 << 20;

pub(super) struct Session {
    channel: Channel<SignalStream>,
    since: Time,
    pub(super) receiver: Option<Receiver>,
    /// Our address as the sender's datagrams name it.
    pub(super) local: Option<IpAddr>,
    pub(super) jobs: HashMap<u16, JobId>,
    /// Why it is to end, once what was said before has had its effect.
    broken: Option<String>,
    /// Until when its sender is answered, once it is over.
    pub(super) over: Option<Time>,
    /// What it may make this side hold, and what it does but for blocks and objects.
    room: Room,
    held: Held,
}

impl Session {
    /// None: there is no room for it, or TLS will not have it.
    pub(super) fn open(
        now: Time,
        connection: u32,
        tls: Option<&Arc<rustls::ServerConfig>>,
        room: Room,
    ) -> Option<Self> {
        let held = room.state.take(CONNECTION_BYTES)?;
        let tls = tls.map(|config| rustls::ServerConnection::new(config.clone())).transpose().ok()?;
        let stream = SignalStream::new(Signalling::respond(now, connection));
        Some(Session {
            channel: Channel::over(stream, tls.map(Into::into)).of_a_stranger(),
            since: now,
            receiver: None,
            local: None,
            jobs: HashMap::new(),
            broken: None,
            over: None,
            room,
            held,
        })
    }

    /// What was counted, signals that were forged included.
    pub(super) fn counters(&self) -> ReceiverCounters {
        let mut counters = self.receiver.as_ref().map(Receiver::counters).unwrap_or_default();
        counters.forged += self.channel.stream().signalling.forged();
        counters
    }

    /// What its sender may have under way.
    pub(super) fn granted_bytes(&self) -> u64 {
        let lasting = self.receiver.as_ref().filter(|_| self.over.is_none());
        lasting.map_or(0, Receiver::window_bytes)
    }

    pub(super) fn handle_signal(&mut self, now: Time, header: &Header, datagram: &[u8]) {
        let signalling = &mut self.channel.stream_mut().signalling;
        signalling.handle_datagram(now, header, datagram);
        if self.over.is_some() {
            // Nobody reads it any more.
            signalling.take();
        }
    }

    /// Whether there are enough symbols of a block now.
    pub(super) fn handle(&mut self, now: Time, ce: bool, datagram: &mut [u8], batch: &mut Batch) -> bool {
        if let Some(header) = header_of_signal(datagram) {
            self.handle_signal(now, &header, datagram);
            return false;
        }
        let Some(arrival) = self.receiver.as_mut().and_then(|r| r.handle_datagram(now, ce, datagram)) else {
            return false;
        };
        let Some(job) = self.jobs.get(&arrival.request) else { return false };
        batch.push(*job, arrival.block, arrival.index, arrival.payload);
        arrival.enough
    }

    /// Lets timers expire and takes what was said; returns what is to be done, or why it is over.
    pub(super) fn drive(
        &mut self,
        now: Time,
        key: Key,
        config: &ReceiverConfig,
        left_bytes: &mut u64,
        updates: &mut Vec<ReceiveUpdate>,
    ) -> Result<Vec<ReceiverEvent>, String> {
        if self.over.is_some() {
            return Ok(Vec::new());
        }
        if let Some(why) = self.broken.take() {
            return Err(why);
        }
        // What was said before the end counts.
        let broken = self.channel.read().err();
        let heard = self.receiver.as_ref().map(Receiver::heard);
        let signalling = &mut self.channel.stream_mut().signalling;
        if signalling.was_reset(now, heard) {
            return Err("the sender has given it up".into());
        }
        if signalling.waits() && now.since(signalling.heard()) >= config.silence {
            return Err(format!("the sender did not answer for {} s", config.silence.as_secs_f64()));
        }
        if self.receiver.is_none() && self.channel.is_open() {
            let keys = |label| self.channel.protection(label, Side::Server).map_err(|e| e.to_string());
            let (protection, of_signals) = (keys(DFCP_LABEL)?, keys(DFCP_SIGNAL_LABEL)?);
            self.channel.stream_mut().signalling.protect(of_signals, Side::Server);
            let window_bytes = config.window_bytes.min((*left_bytes / 2).max(LEAST_WINDOW_BYTES));
            *left_bytes = left_bytes.saturating_sub(window_bytes);
            let Room { blocks: budget, state, files: objects } = self.room.clone();
            let config = ReceiverConfig { window_bytes, budget, state, objects, ..config.clone() };
            self.receiver = Some(Receiver::new(config, now, key.1, protection));
            updates.push(ReceiveUpdate::Connected { from: key.0 });
        }
        let Some(receiver) = &mut self.receiver else {
            let late = now.since(self.since) >= GREETING;
            let why = broken.map(|broken| broken.to_string());
            return match why.or_else(|| late.then(|| "it did not say hello".to_owned())) {
                Some(why) => Err(why),
                None => self
                    .channel
                    .flush()
                    .map_err(|e| e.to_string())
                    .and_then(|()| self.hold())
                    .map(|()| Vec::new()),
            };
        };
        let broken = loop {
            match self.channel.message::<control::Sender>() {
                Ok(Some(message)) => receiver.handle_control(now, message),
                Ok(None) => break broken,
                Err(malformed) => break Some(malformed),
            }
        };
        if receiver.poll_timeout().is_some_and(|at| at <= now) {
            receiver.handle_timeout(now);
        }
        let mut events = Vec::new();
        while let Some(event) = receiver.poll_event() {
            events.push(event);
        }
        if let Err(broken) = self.say() {
            return Err(broken.to_string());
        }
        self.hold()?;
        self.broken = broken.map(|broken| broken.to_string());
        Ok(events)
    }

    /// Holds what its channel takes.
    fn hold(&mut self) -> Result<(), String> {
        let held = self.held.resize(CONNECTION_BYTES + self.channel.held_bytes());
        held.then_some(()).ok_or_else(|| "no memory is left for what it sends, or does not read".to_owned())
    }

    fn say(&mut self) -> Result<(), Broken> {
        while let Some(message) = self.receiver.as_mut().and_then(Receiver::poll_control) {
            self.channel.send(&message)?;
        }
        self.channel.flush()
    }

    pub(super) fn say_goodbye(&mut self) {
        // Who does not read it sees the end.
        let _ = self.say();
        self.channel.close();
    }

    pub(super) fn poll_transmit(&mut self, now: Time, datagram: &mut Vec<u8>) -> bool {
        let signals = self.channel.stream_mut().signalling.poll_transmit(now, datagram);
        let over = self.over.is_some();
        signals || !over && self.receiver.as_mut().is_some_and(|r| r.poll_transmit(now, datagram))
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let signalling = self.channel.stream().signalling.poll_timeout();
        let rest = match (self.over, &self.receiver) {
            (Some(until), _) => Some(until),
            (None, None) => Some(self.since + GREETING),
            (None, Some(_)) if self.broken.is_some() => Some(Time::ZERO),
            (None, Some(receiver)) => receiver.poll_timeout(),
        };
        signalling.into_iter().chain(rest).min()
    }
}
