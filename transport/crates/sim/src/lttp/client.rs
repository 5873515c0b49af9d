//! A client of LTTP that decodes in line.

use std::collections::{BTreeMap, VecDeque};

use proto::assembly::{Assembly, Fault, Step};
use proto::lttp::{Client, ClientConfig, ClientEndpoint, ClientEvent, Lost, ServerId, ServerReport};
use proto::object::{Arrival, Cut, Layout};
use wire::control::{Hash, Parameters, Refusal, Run, Version};

use super::{Secret, said, security};
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
    /// From its parameters on, until it ends.
    assembly: Option<Assembly>,
    version: Option<Version>,
    /// Symbols and hashes that came before the parameters.
    early: Vec<(u32, u16, Vec<u8>)>,
    early_hashes: Vec<(u32, Hash)>,
    left: u64,
    bytes: Vec<u8>,
    outcome: Outcome,
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
    endpoint: ClientEndpoint,
    nodes: Vec<NodeId>,
    lost: Vec<Option<Lost>>,
    fetches: Vec<Fetched>,
    /// The fetches under way.
    running: BTreeMap<(ServerId, u16), usize>,
    output: VecDeque<Output>,
}

impl ClientNode {
    /// A client of `servers`, at time 0.
    pub fn new(config: ClientConfig, secret: Secret, servers: &[NodeId]) -> Self {
        let mut endpoint = ClientEndpoint::new(config.clone());
        for _ in servers {
            endpoint.connect(Time::ZERO, security(secret));
        }
        ClientNode {
            config,
            endpoint,
            nodes: servers.to_vec(),
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
        let request = self.endpoint.client().fetch(id, path.to_owned(), runs.clone(), version);
        let number = self.fetches.len();
        self.running.insert((id, request.expect("a server that is there")), number);
        self.fetches.push(Fetched {
            server,
            runs,
            assembly: None,
            version: None,
            early: Vec::new(),
            early_hashes: Vec::new(),
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
            self.endpoint.client().cancel(key.0, key.1);
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
        self.endpoint.data().report(ServerId(server)).expect("a server of this client")
    }

    /// The state machine.
    pub fn machine(&self) -> &Client {
        self.endpoint.data()
    }

    fn end(&mut self, number: usize, outcome: Outcome) -> Option<(ServerId, u16)> {
        let (key, _) = self.running.iter().find(|(_, n)| **n == number)?;
        let key = *key;
        self.running.remove(&key);
        let fetch = &mut self.fetches[number];
        fetch.outcome = outcome;
        fetch.assembly = None;
        Some(key)
    }

    fn pump(&mut self, now: Time) {
        while let Some(event) = self.endpoint.poll_event() {
            self.on_event(now, event);
        }
        self.endpoint.speak(now);
        for (server, to) in self.nodes.iter().enumerate() {
            if let Some(message) = said(self.endpoint.channel_mut(ServerId(server))) {
                self.output.push_back(Output::Control { to: *to, message });
            }
        }
        let mut datagram = Vec::new();
        while let Some(server) = self.endpoint.poll_transmit(now, &mut datagram) {
            let datagram = std::mem::take(&mut datagram);
            self.output.push_back(Output::Datagram(Datagram::new(self.nodes[server.0], datagram)));
        }
    }

    fn on_event(&mut self, now: Time, event: ClientEvent) {
        match event {
            ClientEvent::Parameters { server, parameters } => self.on_parameters(now, server, &parameters),
            ClientEvent::BlockHash { server, request, block, hash } => {
                if let Some(&number) = self.running.get(&(server, request)) {
                    self.hash(now, number, block, hash);
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
        let ClientConfig { symbol_bytes, block_symbols, code, method, .. } = self.config;
        let layout = Layout::new(symbol_bytes, block_symbols, parameters.size);
        let layout = layout.expect("the state machine has looked at them");
        let cut = Cut::new(layout, code, parameters.seed, parameters.last_seed);
        let fetch = &mut self.fetches[number];
        let cut = cut.expect("tests ask for what there is").decoded_by(method);
        fetch.assembly = Some(Assembly::new(cut, true));
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
        let early = std::mem::take(&mut fetch.early);
        for (block, hash) in std::mem::take(&mut fetch.early_hashes) {
            self.hash(now, number, block, hash);
        }
        for (block, index, payload) in early {
            self.symbol(now, number, block, index, &payload);
        }
    }

    fn hash(&mut self, now: Time, number: usize, block: u32, hash: Hash) {
        let fetch = &mut self.fetches[number];
        match &mut fetch.assembly {
            Some(assembly) => {
                let step = assembly.hash(block, hash);
                self.take(now, number, block, step);
            }
            None => fetch.early_hashes.push((block, hash)),
        }
    }

    fn symbol(&mut self, now: Time, number: usize, block: u32, index: u16, payload: &[u8]) {
        let fetch = &mut self.fetches[number];
        match &mut fetch.assembly {
            Some(assembly) => {
                let step = assembly.symbol(block, index, payload, || None);
                self.take(now, number, block, step);
            }
            None => fetch.early.push((block, index, payload.to_vec())),
        }
    }

    /// Keeps a block that is whole, and tells the server what is needed of another.
    fn take(&mut self, now: Time, number: usize, block: u32, step: Result<Step, Fault>) {
        let Some((server, request)) = self.key(number) else { return };
        let fetch = &mut self.fetches[number];
        match step {
            Ok(Step::Pending) => {}
            Ok(Step::Needs(symbols)) => self.endpoint.client().needs(server, request, block, symbols),
            Ok(Step::Whole(whole)) => {
                let begin = whole.offset as usize;
                fetch.bytes[begin..begin + whole.bytes].copy_from_slice(whole.source());
                fetch.left -= 1;
                let whole = fetch.left == 0;
                self.endpoint.client().complete(server, request, block);
                if whole {
                    self.end(number, Outcome::Complete(now));
                }
            }
            Err(Fault::Corrupt(block)) => {
                self.end(number, Outcome::Corrupt(block));
                self.endpoint.client().cancel(server, request);
            }
            Err(fault) => panic!("the index is below the cap, and symbols are within the limits: {fault}"),
        }
    }

    fn key(&self, number: usize) -> Option<(ServerId, u16)> {
        self.running.iter().find(|(_, n)| **n == number).map(|(key, _)| *key)
    }
}

impl Node for ClientNode {
    fn handle(&mut self, now: Time, mut datagram: Datagram) {
        let Some(server) = self.nodes.iter().position(|node| *node == datagram.from) else { return };
        let id = ServerId(server);
        let arrival = self.endpoint.handle_datagram(now, id, datagram.ecn, &mut datagram.payload);
        let Some(Arrival { request, block, index, payload, .. }) = arrival else { return };
        if let Some(&number) = self.running.get(&(id, request)) {
            let payload = payload.to_vec();
            self.symbol(now, number, block, index, &payload);
        }
    }

    fn handle_control(&mut self, now: Time, from: NodeId, message: Vec<u8>) {
        let Some(server) = self.nodes.iter().position(|node| *node == from) else { return };
        self.endpoint.receive(now, ServerId(server), &message);
        while let Some(event) = self.endpoint.poll_event() {
            self.on_event(now, event);
        }
    }

    fn handle_control_closed(&mut self, _now: Time, from: NodeId) {
        if let Some(server) = self.nodes.iter().position(|node| *node == from) {
            self.endpoint.stream_ended(ServerId(server), None);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.endpoint.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.endpoint.poll_timeout()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        if self.output.is_empty() {
            self.pump(now);
        }
        self.output.pop_front()
    }
}
