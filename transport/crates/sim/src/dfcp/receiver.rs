//! A receiver of DFCP that decodes in line.

use std::collections::{BTreeMap, VecDeque};

use proto::assembly::{Assembly, Fault, Step};
use proto::dfcp::{
    AddressValidator, Receiver, ReceiverConfig, ReceiverCounters, ReceiverEndpoint, ReceiverEvent, reset,
};
use proto::ecn::Codepoint;
use proto::object::{Arrival, Cut, Layout};
use wire::control::{Offer, Refusal, Run};
use wire::packet::{HEADER_BYTES, Header, Kind, Signal};

use super::{arrived, datagram};
use crate::lttp::{Secret, address, security};
use crate::{Datagram, Node, NodeId, Output, Time};

/// What has come of one object.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Its bytes: zeros where nothing has come.
    pub bytes: Vec<u8>,
    /// Since when it is whole.
    pub stored: Option<Time>,
    /// Blocks whose bytes were not what their hash says.
    pub corrupt: u32,
    /// Blocks that were there before: those of an earlier connection.
    complete: Vec<bool>,
}

/// Receives from any number of senders.
pub struct ReceiverNode {
    config: ReceiverConfig,
    secret: Secret,
    addresses: AddressValidator,
    sessions: BTreeMap<(NodeId, u32), Session>,
    /// By path; senders do not share any.
    received: BTreeMap<String, Received>,
    output: VecDeque<Output>,
}

struct Session {
    endpoint: ReceiverEndpoint,
    coming: BTreeMap<u16, Coming>,
    ended: Option<(Time, String, bool)>,
}

struct Coming {
    path: String,
    assembly: Assembly,
}

impl ReceiverNode {
    /// A receiver.
    pub fn new(config: ReceiverConfig, secret: Secret) -> Self {
        ReceiverNode {
            config,
            secret,
            addresses: AddressValidator::new(&[9; 32]),
            sessions: BTreeMap::new(),
            received: BTreeMap::new(),
            output: VecDeque::new(),
        }
    }

    /// What has come of a path.
    pub fn received(&self, path: &str) -> Option<&Received> {
        self.received.get(path)
    }

    /// The connections that it knows of.
    pub fn connections(&self) -> usize {
        self.sessions.len()
    }

    /// Forgets all connections, as one that was started again does. What is stored stays.
    pub fn restart(&mut self) {
        self.sessions.clear();
    }

    /// When and why a sender's connection ended, and whether nothing was on its way.
    pub fn ended(&self, from: NodeId, connection: u32) -> Option<&(Time, String, bool)> {
        self.sessions.get(&(from, connection))?.ended.as_ref()
    }

    /// What was seen of a sender.
    pub fn counters(&self, from: NodeId, connection: u32) -> ReceiverCounters {
        self.sessions.get(&(from, connection)).map(|s| s.endpoint.counters()).unwrap_or_default()
    }

    fn pump(&mut self, now: Time) {
        let ReceiverNode { config, sessions, received, output, .. } = self;
        for ((node, _), session) in sessions {
            if session.endpoint.is_opening() {
                session.endpoint.open(now, config.window_bytes);
            }
            while let Some(event) = session.endpoint.poll_event(now) {
                session.on_event(now, event, received);
            }
            let mut buffer = Vec::new();
            while session.endpoint.poll_transmit(now, &mut buffer) {
                output.push_back(datagram(*node, std::mem::take(&mut buffer), Codepoint::NotEct));
            }
        }
    }
}

impl Session {
    fn receiver(&mut self) -> &mut Receiver {
        self.endpoint.receiver().expect("what has come, has come of an open connection")
    }

    fn on_event(&mut self, now: Time, event: ReceiverEvent, received: &mut BTreeMap<String, Received>) {
        match event {
            ReceiverEvent::Offer(offer) => self.on_offer(now, offer, received),
            ReceiverEvent::BlockHash { request, block, hash } => {
                if let Some(coming) = self.coming.get_mut(&request) {
                    let step = coming.assembly.hash(block, hash);
                    self.take(now, request, block, step, received);
                }
            }
            ReceiverEvent::Withdrawn { request, .. } => {
                self.coming.remove(&request);
            }
            ReceiverEvent::Ended { reason, complete } => self.ended = Some((now, reason, complete)),
        }
    }

    fn on_offer(&mut self, now: Time, offer: Offer, received: &mut BTreeMap<String, Received>) {
        let parameters = offer.parameters;
        let layout = Layout::new(offer.symbol_bytes, offer.block_symbols, parameters.size);
        let layout = layout.expect("the state machine has looked at it");
        let blocks = layout.blocks() as usize;
        let known = received.entry(offer.path.clone()).or_default();
        known.bytes.resize(parameters.size as usize, 0);
        known.complete.resize(blocks, false);
        let missing: Vec<Run> = (0..blocks)
            .filter(|block| !known.complete[*block])
            .map(|block| Run { first: block as u32, count: 1 })
            .collect();
        self.receiver().accept(parameters.request, &joined(&missing));
        if missing.is_empty() {
            known.stored.get_or_insert(now);
            self.receiver().stored(parameters.request);
            return;
        }
        let cut = Cut::new(layout, offer.code, parameters.seed, parameters.last_seed);
        let assembly = Assembly::new(cut.expect("tests offer what there is"), true);
        self.coming.insert(parameters.request, Coming { path: offer.path, assembly });
    }

    /// Keeps a block that is whole, and tells the sender what is needed of another.
    fn take(
        &mut self,
        now: Time,
        request: u16,
        block: u32,
        step: Result<Step, Fault>,
        received: &mut BTreeMap<String, Received>,
    ) {
        let Some(coming) = self.coming.get(&request) else { return };
        let Some(known) = received.get_mut(&coming.path) else { return };
        match step {
            Ok(Step::Pending) => {}
            Ok(Step::Needs(symbols)) => self.receiver().needs(now, request, block, symbols),
            Ok(Step::Whole(whole)) => {
                let begin = whole.offset as usize;
                known.bytes[begin..begin + whole.bytes].copy_from_slice(whole.source());
                known.complete[block as usize] = true;
                self.receiver().complete(now, request, block);
                if known.complete.iter().all(|complete| *complete) {
                    known.stored.get_or_insert(now);
                    self.coming.remove(&request);
                    self.receiver().stored(request);
                }
            }
            Err(Fault::Corrupt(_)) => {
                known.corrupt += 1;
                self.coming.remove(&request);
                self.receiver().refuse(request, Refusal::Unreadable, "a block is corrupt".into());
            }
            Err(fault) => panic!("the index is below the cap, and symbols are within the limits: {fault}"),
        }
    }
}

/// Runs that follow one another as one.
fn joined(runs: &[Run]) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::new();
    for run in runs {
        match joined.last_mut() {
            Some(last) if last.first + last.count == run.first => last.count += run.count,
            _ => joined.push(*run),
        }
    }
    joined
}

impl Node for ReceiverNode {
    fn handle(&mut self, now: Time, mut came: Datagram) {
        let ReceiverNode { config, secret, addresses, sessions, received, output } = self;
        let (from, ecn) = (came.from, came.ecn);
        let Some(bytes) = arrived(&mut came.payload) else { return };
        let Ok(header) = Header::parse(bytes) else { return };
        let (key, connection) = ((from, header.connection), header.connection);
        if let Some(session) = sessions.get_mut(&key) {
            let arrival = session.endpoint.handle_datagram(now, ecn, bytes);
            let Some(Arrival { request, block, index, payload, .. }) = arrival else { return };
            let Some(coming) = session.coming.get_mut(&request) else { return };
            let step = coming.assembly.symbol(block, index, payload, || None);
            return session.take(now, request, block, step, received);
        }
        let mut answer = Vec::new();
        match header.kind {
            Kind::Signal => {
                let Ok((signal, payload)) = Signal::parse(&bytes[HEADER_BYTES..]) else { return };
                if addresses.admits(now, address(from), connection, &signal, payload, &mut answer) {
                    let security = security(*secret);
                    let mut endpoint = ReceiverEndpoint::accept(config.clone(), now, connection, security);
                    endpoint.handle_datagram(now, ecn, bytes);
                    let (coming, ended) = Default::default();
                    sessions.insert(key, Session { endpoint, coming, ended });
                }
            }
            Kind::Symbol => reset(connection, &mut answer),
            _ => {}
        }
        if !answer.is_empty() {
            output.push_back(datagram(from, answer, Codepoint::NotEct));
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        for session in self.sessions.values_mut() {
            session.endpoint.handle_timeout(now);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let timeouts = |session: &Session| {
            // Who is gone is not asked for ever.
            session.endpoint.poll_timeout().filter(|at| {
                let ended = session.ended.as_ref().map(|(ended, ..)| *ended);
                ended.is_none_or(|ended| at.since(ended) < std::time::Duration::from_secs(1))
            })
        };
        self.sessions.values().filter_map(timeouts).min()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        if self.output.is_empty() {
            self.pump(now);
        }
        self.output.pop_front()
    }
}
