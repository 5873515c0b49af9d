//! A client of LTTP that decodes in line.

use std::collections::{BTreeMap, VecDeque};

use codec::Progress;
use proto::coding::Decoder;
use proto::lttp::{Client, ClientConfig, ClientEvent, Lost, ServerId, ServerReport};
use proto::object::{Cut, Layout};
use proto::protect::Side;
use wire::control::{self, Frames, Hash, Parameters, Refusal, Run, Version};

use super::{Secret, protection};
use crate::{Datagram, Node, NodeId, Output, Time};

/// How a fetch stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Something is to come.
    Pending,
    /// All is there, since then.
    Complete(Time),
    /// The server would not.
    Refused(Refusal),
    /// A block was decoded and was not what its hash says: nothing of it was kept.
    Corrupt(u32),
    /// Its server is gone.
    Lost,
    /// The client gave it up.
    Cancelled,
}

/// What was asked for, and what has come of it.
pub struct Fetched {
    server: usize,
    runs: Vec<Run>,
    cut: Option<Cut>,
    version: Option<Version>,
    blocks: BTreeMap<u32, Coming>,
    hashes: BTreeMap<u32, Hash>,
    /// Symbols that came before the parameters.
    early: Vec<(u32, u16, Vec<u8>)>,
    left: u64,
    bytes: Vec<u8>,
    outcome: Outcome,
}

struct Coming {
    decoder: Decoder,
    received: u32,
}

impl Fetched {
    /// How it stands.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The object; zeros where nothing was asked for, or has come.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The object's version, once it is known.
    pub fn version(&self) -> Option<Version> {
        self.version
    }
}

/// Fetches from any number of servers.
pub struct ClientNode {
    config: ClientConfig,
    client: Client,
    nodes: Vec<NodeId>,
    frames: Vec<Frames>,
    lost: Vec<Option<Lost>>,
    fetches: Vec<Fetched>,
    /// The fetches under way.
    running: BTreeMap<(ServerId, u16), usize>,
    output: VecDeque<Output>,
}

impl ClientNode {
    /// A client of `servers`, at time 0.
    pub fn new(config: ClientConfig, secret: Secret, servers: &[NodeId]) -> Self {
        let mut client = Client::new(config.clone());
        for _ in servers {
            client.add_server(Time::ZERO, protection(secret, Side::Client));
        }
        ClientNode {
            config,
            client,
            nodes: servers.to_vec(),
            frames: servers.iter().map(|_| Frames::default()).collect(),
            lost: vec![None; servers.len()],
            fetches: Vec::new(),
            running: BTreeMap::new(),
            output: VecDeque::new(),
        }
    }

    /// Asks the server with this index for runs of blocks of an object, all if there are none. Returns the number of
    /// the fetch.
    ///
    /// # Panics
    /// If the server is gone.
    pub fn fetch(&mut self, server: usize, path: &str, runs: Vec<Run>, version: Option<Version>) -> usize {
        let id = ServerId(server);
        let request = self.client.fetch(id, path.to_owned(), runs.clone(), version);
        let number = self.fetches.len();
        self.running.insert((id, request.expect("a server that is there")), number);
        self.fetches.push(Fetched {
            server,
            runs,
            cut: None,
            version: None,
            blocks: BTreeMap::new(),
            hashes: BTreeMap::new(),
            early: Vec::new(),
            left: 0,
            bytes: Vec::new(),
            outcome: Outcome::Pending,
        });
        number
    }

    /// The same for whole objects, to build a client with: one from each of its servers.
    pub fn with(mut self, path: &str) -> Self {
        for server in 0..self.nodes.len() {
            self.fetch(server, path, Vec::new(), None);
        }
        self
    }

    /// Gives a fetch up.
    pub fn cancel(&mut self, number: usize) {
        if let Some(key) = self.end(number, Outcome::Cancelled) {
            self.client.cancel(key.0, key.1);
        }
    }

    /// A fetch.
    pub fn fetched(&self, number: usize) -> &Fetched {
        &self.fetches[number]
    }

    /// All of them.
    pub fn all(&self) -> &[Fetched] {
        &self.fetches
    }

    /// Whether none is under way.
    pub fn is_done(&self) -> bool {
        self.running.is_empty()
    }

    /// How a server was lost, if it was.
    pub fn lost(&self, server: usize) -> Option<&Lost> {
        self.lost[server].as_ref()
    }

    /// A server's account.
    ///
    /// # Panics
    /// If there is no such server.
    pub fn report(&self, server: usize) -> ServerReport {
        self.client.report(ServerId(server)).expect("a server of this client")
    }

    /// The state machine.
    pub fn machine(&self) -> &Client {
        &self.client
    }

    fn end(&mut self, number: usize, outcome: Outcome) -> Option<(ServerId, u16)> {
        let (key, _) = self.running.iter().find(|(_, n)| **n == number)?;
        let key = *key;
        self.running.remove(&key);
        let fetch = &mut self.fetches[number];
        fetch.outcome = outcome;
        fetch.blocks.clear();
        fetch.hashes.clear();
        Some(key)
    }

    fn pump(&mut self, now: Time) {
        while let Some(event) = self.client.poll_event() {
            self.on_event(now, event);
        }
        while let Some((server, message)) = self.client.poll_control(now) {
            let mut bytes = Vec::new();
            control::emit(&message, &mut bytes).expect("a message of ours fits its frame");
            self.output.push_back(Output::Control { to: self.nodes[server.0], message: bytes });
        }
        let mut datagram = Vec::new();
        while let Some(server) = self.client.poll_transmit(now, &mut datagram) {
            let datagram = std::mem::take(&mut datagram);
            self.output.push_back(Output::Datagram(Datagram::new(self.nodes[server.0], datagram)));
        }
    }

    fn on_event(&mut self, now: Time, event: ClientEvent) {
        match event {
            ClientEvent::Parameters { server, parameters } => self.on_parameters(now, server, &parameters),
            ClientEvent::BlockHash { server, request, block, hash } => {
                if let Some(&number) = self.running.get(&(server, request)) {
                    self.fetches[number].hashes.insert(block, hash);
                    self.verify(now, number, block);
                }
            }
            ClientEvent::Refused { server, request, why, .. } => {
                if let Some(&number) = self.running.get(&(server, request)) {
                    self.end(number, Outcome::Refused(why));
                }
            }
            ClientEvent::Lost { server, reason } => {
                self.lost[server.0] = Some(reason);
                for number in 0..self.fetches.len() {
                    if self.fetches[number].server == server.0 {
                        self.end(number, Outcome::Lost);
                    }
                }
                self.output.push_back(Output::CloseControl { to: self.nodes[server.0] });
            }
            ClientEvent::Ready { .. } | ClientEvent::Listing { .. } | ClientEvent::Unlisted { .. } => {}
        }
    }

    fn on_parameters(&mut self, now: Time, server: ServerId, parameters: &Parameters) {
        let Some(&number) = self.running.get(&(server, parameters.request)) else { return };
        let ClientConfig { symbol_bytes, block_symbols, code, .. } = self.config;
        let layout = Layout::new(symbol_bytes, block_symbols, parameters.size);
        let layout = layout.expect("the state machine has looked at them");
        let cut = Cut::new(layout, code, parameters.seed, parameters.last_seed);
        let fetch = &mut self.fetches[number];
        fetch.cut = Some(cut.expect("tests ask for what there is"));
        fetch.version = Some(parameters.version);
        fetch.bytes = vec![0; parameters.size as usize];
        let all = [Run { first: 0, count: layout.blocks() }];
        let runs = if fetch.runs.is_empty() { &all[..] } else { &fetch.runs };
        let within = |run: &Run| u64::from(run.count.min(layout.blocks().saturating_sub(run.first)));
        fetch.left = runs.iter().map(within).sum();
        if fetch.left == 0 {
            self.end(number, Outcome::Complete(now));
            return;
        }
        for (block, index, payload) in std::mem::take(&mut fetch.early) {
            self.take(now, number, block, index, &payload);
        }
    }

    fn take(&mut self, now: Time, number: usize, block: u32, index: u16, payload: &[u8]) {
        let fetch = &mut self.fetches[number];
        let Some(cut) = &fetch.cut else {
            fetch.early.push((block, index, payload.to_vec()));
            return;
        };
        let layout = cut.layout();
        let coming = fetch.blocks.entry(block).or_insert_with(|| {
            let decoder = cut.decoder(block, layout.symbol_bytes(), None);
            let decoder = decoder.expect("symbols are within the limits");
            Coming { decoder, received: 0 }
        });
        coming.received += 1;
        match coming.decoder.push(index.into(), payload).expect("the index is below the cap") {
            Progress::Needs(more) if coming.received >= layout.k(block).into() => {
                let symbols = (coming.received + more).min(u16::MAX.into()) as u16;
                if let Some((server, request)) = self.key(number) {
                    self.client.needs(server, request, block, symbols);
                }
            }
            Progress::Complete => self.verify(now, number, block),
            Progress::Needs(_) | Progress::Duplicate => {}
        }
    }

    fn key(&self, number: usize) -> Option<(ServerId, u16)> {
        self.running.iter().find(|(_, n)| **n == number).map(|(key, _)| *key)
    }

    /// Keeps a block, once it is decoded and its hash is known.
    fn verify(&mut self, now: Time, number: usize, block: u32) {
        let fetch = &mut self.fetches[number];
        let Some(layout) = fetch.cut.as_ref().map(Cut::layout) else { return };
        let Some(source) = fetch.blocks.get(&block).and_then(|b| b.decoder.source()) else { return };
        let Some(hash) = fetch.hashes.get(&block) else { return };
        let source = &source[..layout.block_bytes(block)];
        if blake3::hash(source) != *hash {
            if let Some((server, request)) = self.end(number, Outcome::Corrupt(block)) {
                self.client.cancel(server, request);
            }
            return;
        }
        let begin = layout.offset(block) as usize;
        fetch.bytes[begin..begin + source.len()].copy_from_slice(source);
        fetch.blocks.remove(&block);
        fetch.left -= 1;
        let whole = fetch.left == 0;
        if let Some((server, request)) = self.key(number) {
            self.client.complete(server, request, block);
        }
        if whole {
            self.end(number, Outcome::Complete(now));
        }
    }
}

impl Node for ClientNode {
    fn handle(&mut self, now: Time, mut datagram: Datagram) {
        let Some(server) = self.nodes.iter().position(|node| *node == datagram.from) else { return };
        let id = ServerId(server);
        let arrival = self.client.handle_datagram(now, id, datagram.ce, &mut datagram.payload);
        let Some(arrival) = arrival else { return };
        if let Some(&number) = self.running.get(&(id, arrival.request)) {
            self.take(now, number, arrival.block, arrival.index, arrival.payload);
        }
    }

    fn handle_control(&mut self, now: Time, from: NodeId, message: Vec<u8>) {
        let Some(server) = self.nodes.iter().position(|node| *node == from) else { return };
        self.frames[server].extend(&message);
        while let Some(message) = self.frames[server].message().expect("servers of ours send whole messages")
        {
            self.client.handle_control(now, ServerId(server), message);
            while let Some(event) = self.client.poll_event() {
                self.on_event(now, event);
            }
        }
    }

    fn handle_control_closed(&mut self, _now: Time, from: NodeId) {
        if let Some(server) = self.nodes.iter().position(|node| *node == from) {
            self.client.disconnected(ServerId(server), "closed".into());
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.client.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.client.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        if self.output.is_empty() {
            self.pump(now);
        }
        self.output.pop_front()
    }
}
