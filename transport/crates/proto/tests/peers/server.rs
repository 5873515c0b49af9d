//! A server with one object under every path, and its client's end of the data channel.

use std::net::SocketAddr;
use std::time::Duration;

use weir_proto::Time;
use weir_proto::lttp::{Server, ServerConfig, ServerEvent, Transmit};
use weir_proto::object::Object;
use weir_proto::protect::{Protection, Side};
use wire::control::{self, Refusal, Version};
use wire::packet::{Credit, Feedback, Header, Kind, Probe};

use super::{CONNECTION, TOKEN, client_address, kind, protection, within_reach};

/// A server with one object of zeros under every path, and the client's end of its data channel.
pub struct Bench {
    pub server: Server,
    pub now: Time,
    pub seal: Protection,
    /// Of answers to probes.
    pub beside: Protection,
    pub next: u64,
    pub events: Vec<ServerEvent>,
    pub said: Vec<control::Server>,
    pub sent_datagrams: u64,
    pub sent_bytes: u64,
    pub object_bytes: u64,
    /// How long the probes were that it sent.
    pub probes: Vec<usize>,
}

impl Bench {
    pub fn new(config: ServerConfig, secure: bool) -> Self {
        let mut server = Server::new(config, Time::ZERO, CONNECTION, TOKEN, client_address().ip());
        server.opened(protection(secure, Side::Server));
        Bench {
            server,
            now: Time::ZERO,
            seal: protection(secure, Side::Client),
            beside: protection(secure, Side::Client).beside(),
            probes: Vec::new(),
            next: 0,
            events: Vec::new(),
            said: Vec::new(),
            sent_datagrams: 0,
            sent_bytes: 0,
            object_bytes: 5_000,
        }
    }

    /// Past the hello of the control channel.
    pub fn greeted(mut self) -> Self {
        self.say(control::Client::Hello { version: wire::VERSION });
        self
    }

    /// Past the hello of the data channel.
    pub fn proven(self) -> Self {
        let mut bench = self.greeted();
        let hello = bench.hello(200);
        bench.hear(client_address(), hello);
        bench
    }

    pub fn say(&mut self, message: control::Client) {
        self.server.handle_control(self.now, message);
        self.work();
    }

    pub fn hear(&mut self, from: SocketAddr, mut datagram: Vec<u8>) {
        self.server.handle_datagram(self.now, from, &mut datagram);
        self.work();
    }

    pub fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.server.handle_timeout(self.now);
        self.work();
    }

    /// What a driver does.
    pub fn work(&mut self) {
        for _ in 0..10_000 {
            let mut idle = true;
            while let Some(event) = self.server.poll_event() {
                idle = false;
                match &event {
                    ServerEvent::Open(fetch) => {
                        let (size, version) = (self.object_bytes, Version([1; 16]));
                        self.server.accept(fetch.request, Object { size, version, modified_ns: 0, mode: 0 });
                    }
                    ServerEvent::Load { request, block, bytes, .. } => {
                        self.server.provide(*request, *block, vec![0; *bytes].into());
                    }
                    _ => {}
                }
                self.events.push(event);
            }
            self.said.extend(std::iter::from_fn(|| self.server.poll_control()));
            let mut buffer = Vec::new();
            if let Some(Transmit { segment_bytes, .. }) = self.server.poll_transmit(self.now, &mut buffer, 64)
            {
                idle = false;
                assert!(buffer.len() <= 65_507, "a burst of {} bytes", buffer.len());
                if Header::parse(&buffer).is_ok_and(|header| header.kind == Kind::Probe) {
                    self.probes.push(buffer.len());
                }
                self.sent_bytes += buffer.len() as u64;
                self.sent_datagrams += buffer.len().div_ceil(segment_bytes) as u64;
            }
            if idle {
                return;
            }
        }
        panic!("the server never comes to rest");
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
        datagram
    }

    pub fn hello(&mut self, bytes: usize) -> Vec<u8> {
        let mut body = TOKEN.to_vec();
        body.resize(bytes.max(16), 0);
        self.sealed(Kind::Hello, &body)
    }

    /// An answer to a probe of so many bytes.
    pub fn answer(&mut self, bytes: u16) -> Vec<u8> {
        let mut body = Vec::new();
        Probe { bytes }.emit(&mut body);
        self.sealed(Kind::Probe, &body)
    }

    pub fn feedback(&mut self, credits: Vec<Credit>) -> Vec<u8> {
        let mut body = Vec::new();
        Feedback { credits, ..Feedback::default() }.emit(&mut body);
        self.sealed(Kind::Feedback, &body)
    }

    pub fn ended(&self) -> Option<&str> {
        self.events.iter().find_map(|event| match event {
            ServerEvent::Ended { reason } => Some(reason.as_str()),
            _ => None,
        })
    }

    pub fn refusals(&self) -> Vec<Refusal> {
        let why = |m: &control::Server| {
            if let control::Server::Refused { why, .. } = m { Some(*why) } else { None }
        };
        self.said.iter().filter_map(why).collect()
    }
}

/// Something that a client may do, sensible or not.
#[derive(Clone, Debug)]
pub enum ToServer {
    Say(control::Client),
    Feedback {
        x_recv: Option<u64>,
        loss_event_rate: f64,
        echo_us: u32,
        delay_us: u32,
        highest: u64,
        received: u64,
        credits: Vec<Credit>,
    },
    Hello(usize),
    Answer(u16),
    Raw(Vec<u8>),
    Sealed(u8, u64, Vec<u8>),
    Wait(u64),
}

impl Bench {
    /// Does what a client might.
    pub fn apply(&mut self, step: ToServer) {
        match step {
            ToServer::Say(message) => self.say(message),
            ToServer::Feedback { x_recv, loss_event_rate, echo_us, delay_us, highest, received, credits } => {
                let mut body = Vec::new();
                let (ect, ce) = (0, 0);
                Feedback { echo_us, delay_us, x_recv, loss_event_rate, highest, received, ect, ce, credits }
                    .emit(&mut body);
                let datagram = self.sealed(Kind::Feedback, &body);
                self.hear(client_address(), datagram);
            }
            ToServer::Hello(bytes) => {
                let hello = self.hello(bytes);
                self.hear(client_address(), hello);
            }
            ToServer::Answer(bytes) => {
                let answer = self.answer(bytes);
                self.hear(client_address(), answer);
            }
            ToServer::Raw(bytes) => self.hear(client_address(), bytes),
            ToServer::Sealed(k, number, body) => {
                let datagram = self.numbered(kind(k), within_reach(number, self.seal.is_on()), &body);
                self.hear(client_address(), datagram);
            }
            ToServer::Wait(ns) => self.wait(Duration::from_nanos(ns)),
        }
    }
}
