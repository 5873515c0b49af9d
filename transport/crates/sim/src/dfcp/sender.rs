//! A sender of DFCP with its objects in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use proto::dfcp::{Guide, SenderConfig, SenderCounters, SenderEndpoint, SenderEvent, Transmit};
use proto::object::Object;
use proto::path_mtu::PathMtu;
use wire::control::{Refusal, Version};

use super::{arrived, datagram};
use crate::lttp::{Secret, security};
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
    endpoint: SenderEndpoint,
    items: Vec<Item>,
    by_request: BTreeMap<u16, usize>,
    guides: Vec<(Time, Guide)>,
    ended: Option<(Time, String)>,
    told: usize,
    output: VecDeque<Output>,
    now: Time,
}

impl SenderNode {
    /// A sender to `to`, which begins at time 0.
    pub fn new(setup: SenderSetup, to: NodeId) -> Self {
        let (config, connection) = (setup.config.clone(), setup.connection);
        let security = security(setup.secret);
        SenderNode {
            endpoint: SenderEndpoint::connect(config, Time::ZERO, connection, security),
            setup,
            to,
            items: Vec::new(),
            by_request: BTreeMap::new(),
            guides: Vec::new(),
            ended: None,
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

    /// From `at` on it may send so many bit/s; later than it was told before.
    pub fn tell_rate(&mut self, at: Time, bps: f64) {
        self.setup.rates.push((at, bps));
    }

    /// How many objects it was given.
    pub fn objects(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing is on its way.
    pub fn is_done(&self) -> bool {
        self.items.iter().all(|item| item.outcome != Outcome::Pending)
    }

    /// Whether both ends have let go of the connection.
    pub fn is_over(&self) -> bool {
        self.endpoint.is_over()
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
        self.endpoint.counters()
    }

    /// What it knows of how long datagrams the path carries.
    pub fn path(&self) -> &PathMtu {
        self.endpoint.path()
    }

    fn on_event(&mut self, now: Time, event: SenderEvent) {
        match event {
            SenderEvent::Load { request, block, offset, bytes } => {
                let item = &self.items[self.by_request[&request]];
                let begin = offset as usize;
                let part = item.bytes[begin..begin + bytes].into();
                if let Some(sender) = self.endpoint.sender() {
                    sender.provide(request, block, part);
                }
            }
            SenderEvent::Stored { request } => self.settle(request, Outcome::Stored(now)),
            SenderEvent::Refused { request, why, .. } => self.settle(request, Outcome::Refused(why)),
            SenderEvent::Guided(guide) => self.guides.push((now, guide)),
            SenderEvent::Ended { reason } => self.end(now, reason),
            SenderEvent::Open | SenderEvent::Accepted { .. } | SenderEvent::Delivered { .. } => {}
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
    }

    fn pump(&mut self, now: Time) {
        loop {
            while let Some(event) = self.endpoint.poll_event() {
                self.on_event(now, event);
            }
            self.offer(now);
            let mut buffer = Vec::new();
            while let Some(Transmit { segment_bytes, ecn }) =
                self.endpoint.poll_transmit(now, &mut buffer, usize::MAX)
            {
                let datagrams = buffer.chunks(segment_bytes);
                self.output.extend(datagrams.map(|bytes| datagram(self.to, bytes.to_vec(), ecn)));
                buffer.clear();
            }
            if !self.endpoint.has_events() {
                break;
            }
        }
        if self.is_done() && self.ended.is_none() && !self.items.is_empty() {
            self.endpoint.release("done");
            self.ended = Some((now, "done".into()));
        }
    }

    /// Tells the rates that are due, and offers what was not.
    fn offer(&mut self, now: Time) {
        let Some(sender) = self.endpoint.sender() else { return };
        while let Some((_, bps)) = self.setup.rates.get(self.told).filter(|(at, _)| *at <= now) {
            sender.tell_rate(now, *bps);
            self.told += 1;
        }
        for (number, item) in self.items.iter_mut().enumerate() {
            if item.request.is_some() || item.outcome != Outcome::Pending {
                continue;
            }
            let offered = sender.offer(&item.path, &describe(&item.bytes)).expect("a good object");
            let Some(request) = offered else { break };
            item.request = Some(request);
            self.by_request.insert(request, number);
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
        if let Some(bytes) = arrived(&mut datagram.payload) {
            self.endpoint.handle_datagram(now, bytes);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.endpoint.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let told = self.setup.rates.get(self.told).map(|(at, _)| *at);
        let endpoint = self.endpoint.poll_timeout(self.now);
        // Who is gone is not asked for ever.
        let patience = self.ended.as_ref().map(|(at, _)| *at + Duration::from_secs(1));
        let endpoint = endpoint.filter(|at| patience.is_none_or(|patience| *at <= patience));
        endpoint.into_iter().chain(told.filter(|_| self.endpoint.data().is_some())).min()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        self.now = now;
        if self.output.is_empty() {
            self.pump(now);
        }
        self.output.pop_front()
    }
}
