//! A server of LTTP with its objects in memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use proto::lttp::{ServerConfig, ServerCounters, ServerEndpoint, ServerEvent};
use proto::object::Object;
use wire::control::{self, Refusal, Version};

use super::{Secret, address, said, security};
use crate::{Datagram, Node, NodeId, Output, Time};

/// What became of one client's connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests whose blocks were all complete.
    pub complete: u32,
    /// Requests that ended before.
    pub abandoned: u32,
    /// When and why the server ended the connection.
    pub ended: Option<(Time, String)>,
    /// When it last sent a datagram.
    pub sent: Option<Time>,
}

/// Serves any number of clients.
pub struct ServerNode {
    config: ServerConfig,
    secret: Secret,
    objects: BTreeMap<String, Arc<[u8]>>,
    clients: BTreeMap<NodeId, Session>,
    output: VecDeque<Output>,
}

struct Session {
    endpoint: ServerEndpoint,
    open: BTreeMap<u16, Arc<[u8]>>,
    served: Served,
}

impl ServerNode {
    /// A server without objects.
    pub fn new(config: ServerConfig, secret: Secret) -> Self {
        let (objects, clients, output) = Default::default();
        ServerNode { config, secret, objects, clients, output }
    }

    /// Puts an object under a path, in the place of what was there.
    pub fn put(&mut self, path: &str, bytes: impl Into<Arc<[u8]>>) {
        self.objects.insert(path.to_owned(), bytes.into());
    }

    /// The same, to build a server with.
    pub fn with(mut self, path: &str, bytes: impl Into<Arc<[u8]>>) -> Self {
        self.put(path, bytes);
        self
    }

    /// What became of a client's connection so far.
    pub fn served(&self, client: NodeId) -> Served {
        self.clients.get(&client).map(|session| session.served.clone()).unwrap_or_default()
    }

    /// What was seen on a client's data channel.
    pub fn counters(&self, client: NodeId) -> ServerCounters {
        self.clients.get(&client).map(|session| session.endpoint.data().counters()).unwrap_or_default()
    }

    /// The longest datagrams that the path to a client carries, as far as is known: bytes of UDP payload.
    pub fn path_bytes(&self, client: NodeId) -> Option<u16> {
        self.clients.get(&client).map(|session| session.endpoint.data().path_bytes())
    }

    fn pump(&mut self, now: Time) {
        for (&client, session) in &mut self.clients {
            while let Some(event) = session.endpoint.poll_event() {
                session.on_event(now, event, &self.objects);
            }
            session.endpoint.speak();
            if let Some(message) = said(session.endpoint.channel_mut()) {
                self.output.push_back(Output::Control { to: client, message });
            }
            if session.served.ended.is_some() {
                continue;
            }
            let mut buffer = Vec::new();
            while let Some(transmit) = session.endpoint.poll_transmit(now, &mut buffer, usize::MAX) {
                session.served.sent = Some(now);
                for datagram in buffer.chunks(transmit.segment_bytes) {
                    let datagram = Datagram::new(client, datagram.to_vec());
                    self.output.push_back(Output::Datagram(Datagram { ecn: transmit.ecn, ..datagram }));
                }
                buffer.clear();
            }
        }
    }
}

impl Session {
    fn on_event(&mut self, now: Time, event: ServerEvent, objects: &BTreeMap<String, Arc<[u8]>>) {
        let server = self.endpoint.server();
        match event {
            ServerEvent::Open(fetch) => match objects.get(&fetch.path) {
                Some(bytes) => {
                    self.open.insert(fetch.request, bytes.clone());
                    server.accept(fetch.request, describe(bytes));
                }
                None => server.refuse(fetch.request, Refusal::NotFound, "there is none".into()),
            },
            ServerEvent::Load { request, block, offset, bytes } => {
                let Some(object) = self.open.get(&request) else { return };
                let begin = offset as usize;
                server.provide(request, block, object[begin..begin + bytes].into());
            }
            ServerEvent::List { request, .. } => {
                let (entries, omitted) = (Vec::new(), Vec::new());
                let none = control::Server::Listing { request, entries, omitted, last: true };
                server.send_control(none);
            }
            ServerEvent::Close { request, complete } => {
                self.open.remove(&request);
                let count = if complete { &mut self.served.complete } else { &mut self.served.abandoned };
                *count += 1;
            }
            ServerEvent::Ended { reason } => self.served.ended = Some((now, reason)),
        }
    }
}

fn describe(bytes: &[u8]) -> Object {
    let mut version = [0; 16];
    version.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
    Object { size: bytes.len() as u64, version: Version(version), modified_ns: 0, mode: 0o644 }
}

impl Node for ServerNode {
    fn handle(&mut self, now: Time, mut datagram: Datagram) {
        if let Some(session) = self.clients.get_mut(&datagram.from) {
            session.endpoint.handle_datagram(now, address(datagram.from), &mut datagram.payload);
        }
    }

    fn handle_control(&mut self, now: Time, from: NodeId, message: Vec<u8>) {
        let ServerNode { config, secret, clients, .. } = self;
        let session = clients.entry(from).or_insert_with(|| {
            let (client, connection) = (address(from).ip(), from.0 as u32 + 1);
            let (security, token) = (security(*secret), [from.0 as u8; 16]);
            Session {
                endpoint: ServerEndpoint::accept(config.clone(), now, security, client, connection, token),
                open: BTreeMap::new(),
                served: Served::default(),
            }
        });
        session.endpoint.receive(now, &message);
    }

    fn handle_control_closed(&mut self, _now: Time, from: NodeId) {
        self.clients.remove(&from);
    }

    fn handle_timeout(&mut self, now: Time) {
        for session in self.clients.values_mut() {
            session.endpoint.handle_timeout(now);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.clients.values().filter_map(|session| session.endpoint.poll_timeout()).min()
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        if self.output.is_empty() {
            self.pump(now);
        }
        self.output.pop_front()
    }
}
