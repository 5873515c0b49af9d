//! A client with one proven server, and that server's end of the data channel.

use std::time::Duration;

use weir_proto::Time;
use weir_proto::ecn::Codepoint;
use weir_proto::lttp::{Client, ClientConfig, ClientEvent, Lost, ServerId};
use weir_proto::protect::{Protection, Side};
use wire::control::{self, Parameters, Refusal, Run, Version};
use wire::packet::{Header, Kind, Piece, Probe, Symbol, Welcome};

use super::{CONNECTION, TOKEN, kind, protection, within_reach};

/// A client with one proven server, and the server's end of its data channel.
pub struct Victim {
    pub client: Client,
    pub now: Time,
    pub seal: Protection,
    /// Of probes.
    pub beside: Protection,
    pub next: u64,
    pub events: Vec<ClientEvent>,
    pub useful: u64,
    /// Answers to probes, and bytes of all datagrams that it sent.
    pub answers: u64,
    pub sent_bytes: usize,
}

pub const SERVER: ServerId = ServerId(0);

impl Victim {
    pub fn new(config: ClientConfig, secure: bool) -> Self {
        let mut client = Client::new(config);
        client.add_server(Time::ZERO);
        client.opened(Time::ZERO, SERVER, protection(secure, Side::Client));
        let seal = protection(secure, Side::Server);
        let mut victim = Victim {
            client,
            now: Time::ZERO,
            beside: seal.beside(),
            seal,
            next: 0,
            events: Vec::new(),
            useful: 0,
            answers: 0,
            sent_bytes: 0,
        };
        victim.hear(control::Server::Welcome {
            version: wire::VERSION,
            connection: CONNECTION,
            token: TOKEN,
        });
        let mut body = Vec::new();
        Welcome { hello: 0 }.emit(&mut body);
        victim.sealed(Kind::Welcome, &body);
        assert!(victim.events.contains(&ClientEvent::Ready { server: SERVER }));
        victim
    }

    pub fn hear(&mut self, message: control::Server) {
        self.client.handle_control(self.now, SERVER, message);
        self.work();
    }

    pub fn work(&mut self) {
        let mut datagram = Vec::new();
        for _ in 0..10_000 {
            self.events.extend(std::iter::from_fn(|| self.client.poll_event()));
            let said = self.client.poll_control(self.now).is_some();
            datagram.clear();
            if !said && self.client.poll_transmit(self.now, &mut datagram).is_none() {
                return;
            }
            self.sent_bytes += datagram.len();
            self.answers +=
                u64::from(Header::parse(&datagram).is_ok_and(|header| header.kind == Kind::Probe));
        }
        panic!("the client never comes to rest");
    }

    pub fn sealed(&mut self, kind: Kind, body: &[u8]) -> Vec<u8> {
        let number = self.next;
        self.next += 1;
        self.numbered(kind, number, body)
    }

    pub fn numbered(&mut self, kind: Kind, number: u64, body: &[u8]) -> Vec<u8> {
        let mut datagram = Vec::new();
        Header { kind, connection: CONNECTION, number }.emit(&mut datagram);
        datagram.extend_from_slice(body);
        let seal = if kind == Kind::Probe { &mut self.beside } else { &mut self.seal };
        seal.seal(number, &mut datagram, 0);
        self.raw(datagram.clone());
        datagram
    }

    pub fn raw(&mut self, mut datagram: Vec<u8>) {
        if self.client.handle_datagram(self.now, SERVER, Codepoint::NotEct, &mut datagram).is_some() {
            self.useful += 1;
        }
        self.work();
    }

    pub fn symbol(&mut self, request: u16, block: u32, index: u16, payload_bytes: usize) -> Vec<u8> {
        let mut body = Vec::new();
        Symbol { request, block, index, sent_us: 0, rtt_us: 300 }.emit(&mut body);
        body.resize(body.len() + payload_bytes, 7);
        self.sealed(Kind::Symbol, &body)
    }

    /// A piece of a symbol: its payload is its number.
    pub fn piece(
        &mut self,
        (request, block, index): (u16, u32, u16),
        (piece, of): (u8, u8),
        payload_bytes: usize,
    ) -> Vec<u8> {
        let symbol = Symbol { request, block, index, sent_us: 0, rtt_us: 300 };
        let mut body = Vec::new();
        Piece { symbol, piece, of }.emit(&mut body);
        body.resize(body.len() + payload_bytes, piece);
        self.sealed(Kind::Piece, &body)
    }

    /// A probe with a body of so many bytes.
    pub fn probe(&mut self, bytes: usize) -> Vec<u8> {
        let mut body = Vec::new();
        Probe { bytes: bytes as u16 }.emit(&mut body);
        body.resize(bytes.max(body.len()), 0);
        self.sealed(Kind::Probe, &body)
    }

    pub fn parameters(&mut self, request: u16, size: u64) {
        self.hear(control::Server::Parameters(Parameters {
            request,
            size,
            version: Version([1; 16]),
            modified_ns: 0,
            mode: 0,
            seed: 1,
            last_seed: 2,
        }));
    }

    pub fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.client.handle_timeout(self.now);
        self.work();
    }

    pub fn lost(&self) -> Option<&Lost> {
        self.events
            .iter()
            .find_map(|e| if let ClientEvent::Lost { reason, .. } = e { Some(reason) } else { None })
    }
}

pub fn modest() -> ClientConfig {
    ClientConfig { symbol_bytes: 100, block_symbols: 8, ..ClientConfig::default() }
}

/// Something that a server, or the client's own driver, may do, sensible or not.
#[derive(Clone, Debug)]
pub enum ToClient {
    Fetch(Vec<Run>),
    Cancel(u16),
    Complete(u16, u32),
    Needs(u16, u32, u16),
    Parameters(u16, u64),
    Hash(u16, u32),
    Refused(u16),
    Symbol { request: u16, block: u32, index: u16, payload_bytes: usize },
    Piece { request: u16, block: u32, index: u16, piece: u8, of: u8, payload_bytes: usize },
    Probe(usize),
    Hear(control::Server),
    Raw(Vec<u8>),
    Sealed(u8, u64, Vec<u8>),
    Wait(u64),
}

impl Victim {
    /// Does what a server, or the driver of the client, might.
    pub fn apply(&mut self, step: ToClient) {
        match step {
            ToClient::Fetch(runs) => {
                self.client.fetch(SERVER, "a".into(), runs, None);
                self.work();
            }
            ToClient::Cancel(request) => self.client.cancel(SERVER, request),
            ToClient::Complete(request, block) => self.client.complete(SERVER, request, block),
            ToClient::Needs(request, block, symbols) => self.client.needs(SERVER, request, block, symbols),
            ToClient::Parameters(request, size) => self.parameters(request, size),
            ToClient::Hash(request, block) => {
                self.hear(control::Server::BlockHash { request, block, hash: [0; 32] });
            }
            ToClient::Refused(request) => {
                self.hear(control::Server::Refused { request, why: Refusal::Busy, detail: String::new() })
            }
            ToClient::Symbol { request, block, index, payload_bytes } => {
                self.symbol(request, block, index, payload_bytes);
            }
            ToClient::Piece { request, block, index, piece, of, payload_bytes } => {
                self.piece((request, block, index), (piece, of), payload_bytes);
            }
            ToClient::Probe(bytes) => {
                self.probe(bytes);
            }
            ToClient::Hear(message) => self.hear(message),
            ToClient::Raw(bytes) => self.raw(bytes),
            ToClient::Sealed(k, number, body) => {
                self.numbered(kind(k), within_reach(number, self.seal.is_on()), &body);
            }
            ToClient::Wait(ns) => self.wait(Duration::from_nanos(ns)),
        }
    }
}
