//! A sender of DFCP with its objects in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use proto::dfcp::{Guide, Sender, SenderConfig, SenderCounters, SenderEvent, Signalling};
use proto::object::Object;
use proto::protect::{Protection, Side};
use wire::control::{Frames, Refusal, Version};

use super::{as_signal, signals, write};
use crate::lttp::Secret;
use crate::{Datagram, Node, NodeId, Output, Time};

/// How an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is on its way.
    Pending,
    /// It is where it belongs, since then.
    Stored(Time),
    /// It will not get there.
    Refused(Refusal),
    /// The connection has ended before.
    Lost,
}

/// What a sender is given.
#[derive(Clone, Debug)]
pub struct SenderSetup {
    /// How it behaves.
    pub config: SenderConfig,
    /// What TLS would give both ends.
    pub secret: Secret,
    /// What it names its connection.
    pub connection: u32,
    /// The rate that it is told, in bit/s, and when, ascending.
    pub rates: Vec<(Time, f64)>,
}

struct Item {
    path: String,
    bytes: Arc<[u8]>,
    request: Option<u16>,
    outcome: Outcome,
}

/// Sends objects to one receiver.
pub struct SenderNode {
    setup: SenderSetup,
    to: NodeId,
    signalling: Signalling,
    frames: Frames,
    /// Once the connection is open.
    sender: Option<Sender>,
    items: Vec<Item>,
    by_request: BTreeMap<u16, usize>,
    guides: Vec<(Time, Guide)>,
    ended: Option<(Time, String)>,
    /// The receiver knows nothing of it.
    reset: bool,
    told: usize,
    output: VecDeque<Output>,
    now: Time,
}

impl SenderNode {
    /// A sender to `to`, which begins at time 0.
    pub fn new(setup: SenderSetup, to: NodeId) -> Self {
        SenderNode {
            signalling: Signalling::initiate(Time::ZERO, setup.connection),
            setup,
            to,
            frames: Frames::default(),
            sender: None,
            items: Vec::new(),
            by_request: BTreeMap::new(),
            guides: Vec::new(),
            ended: None,
            reset: false,
            told: 0,
            output: VecDeque::new(),
            now: Time::ZERO,
        }
    }

    /// Sends an object. Returns its number.
    pub fn send(&mut self, path: &str, bytes: impl Into<Arc<[u8]>>) -> usize {
        self.items.push(Item {
            path: path.to_owned(),
            bytes: bytes.into(),
            request: None,
            outcome: Outcome::Pending,
        });
        self.items.len() - 1
    }

    /// How an object stands.
    pub fn outcome(&self, number: usize) -> &Outcome {
        &self.items[number].outcome
    }

    /// Whether nothing is on its way.
    pub fn is_done(&self) -> bool {
        self.items.iter().all(|item| item.outcome != Outcome::Pending)
    }

    /// Whether both ends have let go of the connection.
    pub fn is_over(&self) -> bool {
        self.signalling.is_over()
    }

    /// When and why the connection ended.
    pub fn ended(&self) -> Option<&(Time, String)> {
        self.ended.as_ref()
    }

    /// Whose rate was used from when on.
    pub fn guides(&self) -> &[(Time, Guide)] {
        &self.guides
    }

    /// What was sent.
    pub fn counters(&self) -> SenderCounters {
        self.sender.as_ref().map(Sender::counters).unwrap_or_default()
    }

    fn on_event(&mut self, now: Time, event: SenderEvent) {
        match event {
            SenderEvent::Load { request, block, offset, bytes } => {
                let item = &self.items[self.by_request[&request]];
                let begin = offset as usize;
                let part = item.bytes[begin..begin + bytes].into();
                if let Some(sender) = &mut self.sender {
                    sender.provide(request, block, part);
                }
            }
            SenderEvent::Stored { request } => self.settle(request, Outcome::Stored(now)),
            SenderEvent::Refused { request, why, .. } => self.settle(request, Outcome::Refused(why)),
            SenderEvent::Guided(guide) => self.guides.push((now, guide)),
            SenderEvent::Ended { reason } => self.end(now, reason),
            SenderEvent::Accepted { .. } | SenderEvent::Delivered { .. } => {}
        }
    }

    fn settle(&mut self, request: u16, outcome: Outcome) {
        if let Some(number) = self.by_request.remove(&request) {
            self.items[number].outcome = outcome;
        }
    }

    fn end(&mut self, now: Time, reason: String) {
        self.ended.get_or_insert((now, reason));
        for item in self.items.iter_mut().filter(|item| item.outcome == Outcome::Pending) {
            item.outcome = Outcome::Lost;
        }
        self.signalling.end();
    }

    fn pump(&mut self, now: Time) {
        if self.sender.is_none() && self.signalling.is_open() {
            let rtt = self.signalling.rtt().unwrap_or(Duration::from_millis(100));
            let secret = self.setup.secret;
            let protection =
                secret.map_or_else(Protection::insecure, |secret| Protection::new(&secret, Side::Client));
            let config = self.setup.config.clone();
            self.sender = Some(Sender::new(config, now, self.setup.connection, protection, rtt));
        }
        while let Some(event) = self.sender.as_mut().and_then(Sender::poll_event) {
            self.on_event(now, event);
        }
        let Some(sender) = &mut self.sender else {
            signals(&mut self.signalling, now, self.to, &mut self.output);
            return;
        };
        while let Some((_, bps)) = self.setup.rates.get(self.told).filter(|(at, _)| *at <= now) {
            sender.tell_rate(now, *bps);
            self.told += 1;
        }
        for (number, item) in self.items.iter_mut().enumerate() {
            if item.request.is_some() || item.outcome != Outcome::Pending {
                continue;
            }
            let Some(request) = sender.offer(&item.path, &describe(&item.bytes)).expect("a good object")
            else {
                break;
            };
            item.request = Some(request);
            self.by_request.insert(request, number);
        }
        while let Some(message) = sender.poll_control() {
            if self.ended.is_none() {
                write(&mut self.signalling, &message);
            }
        }
        let mut buffer = Vec::new();
        while let Some(segment_bytes) = sender.poll_transmit(now, &mut buffer, usize::MAX) {
            for datagram in buffer.chunks(segment_bytes) {
                self.output.push_back(Output::Datagram(Datagram::new(self.to, datagram.to_vec())));
            }
            buffer.clear();
        }
        let done = self.items.iter().all(|item| item.outcome != Outcome::Pending);
        if done && self.ended.is_none() && !self.items.is_empty() {
            self.signalling.end();
        }
        signals(&mut self.signalling, now, self.to, &mut self.output);
        if self.sender.as_mut().is_some_and(|sender| sender.has_events()) {
            self.pump(now);
        }
    }
}

fn describe(bytes: &[u8]) -> Object {
    let mut version = [0; 16];
    version.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
    Object { size: bytes.len() as u64, version: Version(version), modified_ns: 0, mode: 0o644 }
}

impl Node for SenderNode {
    fn handle(&mut self, now: Time, mut datagram: Datagram) {
        if let Some((header, signal)) = as_signal(&datagram.payload) {
            if header.connection != self.setup.connection {
                return;
            }
            self.signalling.handle_datagram(now, &header, signal);
            self.reset = self.signalling.was_reset(now, None);
            if self.reset {
                self.end(now, "the receiver knows nothing of it".into());
            }
            self.pump(now);
            self.frames.extend(&self.signalling.take());
            while let (Ok(Some(message)), Some(sender)) = (self.frames.message(), &mut self.sender) {
                sender.handle_control(now, message);
            }
        } else if let Some(sender) = &mut self.sender {
            sender.handle_datagram(now, &mut datagram.payload);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        if let Some(sender) = &mut self.sender {
            sender.handle_timeout(now);
        }
        let silent =
            self.signalling.waits() && now.since(self.signalling.heard()) > self.setup.config.silence;
        if silent && self.ended.is_none() {
            self.end(now, "the receiver does not answer".into());
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.ended.is_some() && self.reset {
            return None;
        }
        let told = self.setup.rates.get(self.told).map(|(at, _)| *at);
        let sender = self.sender.as_ref().and_then(|sender| sender.poll_timeout(self.now));
        // Who is gone is not asked for ever.
        let patience = self.ended.as_ref().map(|(at, _)| *at + Duration::from_secs(1));
        let signalling = self.signalling.poll_timeout().filter(|at| patience.is_none_or(|p| *at <= p));
        signalling.into_iter().chain(sender).chain(told.filter(|_| self.sender.is_some())).min()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        self.now = now;
        if self.output.is_empty() {
            self.pump(now);
        }
        self.output.pop_front()
    }
}
