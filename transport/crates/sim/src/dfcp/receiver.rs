//! A receiver of DFCP that decodes in line.

use std::collections::{BTreeMap, VecDeque};

use codec::Progress;
use proto::coding::Decoder;
use proto::dfcp::{Doorkeeper, Receiver, ReceiverConfig, ReceiverCounters, ReceiverEvent, Signalling, reset};
use proto::object::{Cut, Layout};
use proto::protect::{Protection, Side};
use wire::control::{Frames, Hash, Offer, Refusal, Run};
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
    cut: Cut,
    blocks: BTreeMap<u32, (Decoder, u32)>,
    hashes: BTreeMap<u32, Hash>,
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
                    coming.hashes.insert(block, hash);
                    self.verify(now, request, block, received);
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
        let (blocks, hashes) = Default::default();
        let cut = cut.expect("tests offer what there is");
        self.coming.insert(parameters.request, Coming { path: offer.path, cut, blocks, hashes });
    }

    fn take(
        &mut self,
        now: Time,
        (request, block, index): (u16, u32, u16),
        payload: &[u8],
        received: &mut BTreeMap<String, Received>,
    ) {
        let Some(coming) = self.coming.get_mut(&request) else { return };
        let cut = &coming.cut;
        let (decoder, count) = coming.blocks.entry(block).or_insert_with(|| {
            let decoder = cut.decoder(block, cut.layout().symbol_bytes(), None);
            (decoder.expect("symbols are within the limits"), 0)
        });
        *count += 1;
        match decoder.push(index.into(), payload).expect("the index is below the cap") {
            Progress::Needs(more) if *count >= cut.layout().k(block).into() => {
                let symbols = (*count + more).min(u16::MAX.into()) as u16;
                self.receiver.needs(now, request, block, symbols);
            }
            Progress::Complete => self.verify(now, request, block, received),
            Progress::Needs(_) | Progress::Duplicate => {}
        }
    }

    /// Keeps a block, once it is decoded and its hash is known.
    fn verify(&mut self, now: Time, request: u16, block: u32, received: &mut BTreeMap<String, Received>) {
        let Some(coming) = self.coming.get_mut(&request) else { return };
        let Some(source) = coming.blocks.get(&block).and_then(|(decoder, _)| decoder.source()) else {
            return;
        };
        let Some(hash) = coming.hashes.get(&block) else { return };
        let Some(known) = received.get_mut(&coming.path) else { return };
        let layout = coming.cut.layout();
        let source = &source[..layout.block_bytes(block)];
        if blake3::hash(source) != *hash {
            known.corrupt += 1;
            self.coming.remove(&request);
            return self.receiver.refuse(request, Refusal::Unreadable, "a block is corrupt".into());
        }
        let begin = layout.offset(block) as usize;
        known.bytes[begin..begin + source.len()].copy_from_slice(source);
        known.complete[block as usize] = true;
        coming.blocks.remove(&block);
        self.receiver.complete(now, request, block);
        if known.complete.iter().all(|complete| *complete) {
            known.stored.get_or_insert(now);
            self.coming.remove(&request);
            self.receiver.stored(request);
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
        if let Some((request, block, index, payload)) =
            arrival.map(|a| (a.request, a.block, a.index, a.payload.to_vec()))
        {
            session.take(now, (request, block, index), &payload, received);
        }
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
