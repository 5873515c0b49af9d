//! A receiver of DFCP that decodes in line.

use std::collections::{BTreeMap, VecDeque};

use proto::assembly::{Assembly, Fault, Step};
use proto::dfcp::{Doorkeeper, Receiver, ReceiverConfig, ReceiverCounters, ReceiverEvent, Signalling, reset};
use proto::object::{Arrival, Cut, Layout};
use proto::protect::{Protection, Side};
use wire::control::{Frames, Offer, Refusal, Run};
use wire::packet::{HEADER_BYTES, Kind, Signal};

use super::{as_signal, signal_datagram, signals, write};
use crate::lttp::{Secret, address};
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
    doorkeeper: Doorkeeper,
    sessions: BTreeMap<(NodeId, u32), Session>,
    /// By path; senders do not share any.
    received: BTreeMap<String, Received>,
    output: VecDeque<Output>,
}

struct Session {
    signalling: Signalling,
    frames: Frames,
    receiver: Receiver,
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
            doorkeeper: Doorkeeper::new(&[9; 32]),
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
        self.sessions.get(&(from, connection)).map(|s| s.receiver.counters()).unwrap_or_default()
    }

    fn pump(&mut self, now: Time) {
        let ReceiverNode { sessions, received, output, .. } = self;
        for ((node, _), session) in sessions {
            session.read(now);
            while let Some(event) = session.receiver.poll_event() {
                session.on_event(now, event, received);
            }
            while let Some(message) = session.receiver.poll_control() {
                write(&mut session.signalling, &message);
            }
            if session.signalling.has_ended() || session.ended.is_some() {
                session.signalling.end();
            }
            let mut buffer = Vec::new();
            while session.receiver.poll_transmit(now, &mut buffer) {
                output.push_back(Output::Datagram(Datagram::new(*node, std::mem::take(&mut buffer))));
            }
            signals(&mut session.signalling, now, *node, output);
        }
    }
}

impl Session {
    fn read(&mut self, now: Time) {
        self.frames.extend(&self.signalling.take());
        while let Some(message) = self.frames.message().expect("senders of ours send whole messages") {
            self.receiver.handle_control(now, message);
        }
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
        self.receiver.accept(parameters.request, &joined(&missing));
        if missing.is_empty() {
            known.stored.get_or_insert(now);
            self.receiver.stored(parameters.request);
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
            Ok(Step::Needs(symbols)) => self.receiver.needs(now, request, block, symbols),
            Ok(Step::Whole(whole)) => {
                let begin = whole.offset as usize;
                known.bytes[begin..begin + whole.bytes].copy_from_slice(whole.source());
                known.complete[block as usize] = true;
                self.receiver.complete(now, request, block);
                if known.complete.iter().all(|complete| *complete) {
                    known.stored.get_or_insert(now);
                    self.coming.remove(&request);
                    self.receiver.stored(request);
                }
            }
            Err(Fault::Corrupt(_)) => {
                known.corrupt += 1;
                self.coming.remove(&request);
                self.receiver.refuse(request, Refusal::Unreadable, "a block is corrupt".into());
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
    fn handle(&mut self, now: Time, mut datagram: Datagram) {
        let ReceiverNode { config, secret, doorkeeper, sessions, received, output } = self;
        let from = datagram.from;
        if let Some((header, bytes)) = as_signal(&datagram.payload) {
            let key = (from, header.connection);
            if let Some(session) = sessions.get_mut(&key) {
                session.signalling.handle_datagram(now, &header, bytes);
                return;
            }
            let Ok((signal, payload)) = Signal::parse(&bytes[HEADER_BYTES..]) else { return };
            let mut answer = Vec::new();
            let (connection, address) = (header.connection, address(from));
            if !doorkeeper.admits(now, address, connection, &signal, payload, &mut answer) {
                if !answer.is_empty() {
                    output.push_back(signal_datagram(from, answer));
                }
                return;
            }
            let protection =
                secret.map_or_else(Protection::insecure, |secret| Protection::new(&secret, Side::Server));
            let mut session = Session {
                signalling: Signalling::respond(now, connection),
                frames: Frames::default(),
                receiver: Receiver::new(config.clone(), now, connection, protection),
                coming: BTreeMap::new(),
                ended: None,
            };
            session.signalling.handle_datagram(now, &header, bytes);
            sessions.insert(key, session);
            return;
        }
        let Ok(header) = wire::packet::Header::parse(&datagram.payload) else { return };
        let Some(session) = sessions.get_mut(&(from, header.connection)) else {
            // A signal that did not arrive whole is as good as lost.
            if header.kind == Kind::Symbol {
                let mut answer = Vec::new();
                reset(header.connection, &mut answer);
                output.push_back(signal_datagram(from, answer));
            }
            return;
        };
        let arrival = session.receiver.handle_datagram(now, datagram.ce, &mut datagram.payload);
        let Some(Arrival { request, block, index, payload, .. }) = arrival else { return };
        let Some(coming) = session.coming.get_mut(&request) else { return };
        let step = coming.assembly.symbol(block, index, payload, || None);
        session.take(now, request, block, step, received);
    }

    fn handle_timeout(&mut self, now: Time) {
        for session in self.sessions.values_mut() {
            session.receiver.handle_timeout(now);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let timeouts = |s: &Session| {
            // Who is gone is not asked for ever.
            let asks = s.signalling.poll_timeout().filter(|at| {
                s.ended
                    .as_ref()
                    .is_none_or(|(ended, ..)| at.since(*ended) < std::time::Duration::from_secs(1))
            });
            asks.into_iter().chain(s.receiver.poll_timeout()).min()
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
