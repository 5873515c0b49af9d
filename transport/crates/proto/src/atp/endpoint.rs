//! All connections of a socket: whom a datagram is for, who may connect, and whose turn it is to send.

mod servers;
mod validation;

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, ServerConnection, Version};
use thiserror::Error;
use wire::atp::{Crypto, Refusal};
use wire::packet::{HEADER_BYTES, Header, Kind};

use self::servers::Servers;
use self::validation::Validation;
use super::connection::{CODE_REFUSED, Connection};
use super::interface::{ConnectionConfig, Counters, Event, KnownServer};
use super::opening;
use crate::ecn::Codepoint;
use crate::limits::{Limits, Memory, Room, network};
use crate::{Agenda, Held, Time};

/// The application protocol of TLS (RFC 7301).
pub const ALPN: &[u8] = b"weir-atp";
/// Of the connections that there may be, so many may be open to addresses that nobody has shown to be there. If there are more,
/// who connects is first asked to come again with a token.
const UNVALIDATED_SHARE: usize = 16;
/// Answers to addresses without a connection that wait to be sent.
const MOST_ANSWERS: usize = 64;

/// How an endpoint behaves.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// How its connections do. Their budget is the endpoint's affair.
    pub connection: ConnectionConfig,
    /// What it may be made to hold.
    pub limits: Limits,
    /// Who it is, for those that connect to it; `None`: nobody may.
    pub server: Option<Arc<rustls::ServerConfig>>,
    /// Random bytes, known to nobody else: address tokens and the numbers of connections come of them.
    pub key: [u8; 32],
}

/// A connection of an endpoint, by its number: counted from 0, and no other one of the endpoint ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Why there is no connection to be had.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// It would be one too many, or there is no memory for it.
    #[error("no room for another connection")]
    NoRoom,
    /// TLS will not have it.
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    /// The endpoint is being closed.
    #[error("the endpoint is closed")]
    Closed,
}

/// Where datagrams go, and what they bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// To whom.
    pub to: SocketAddr,
    /// From which of the host's addresses; `None`: the system chooses.
    pub from: Option<IpAddr>,
    /// What their IP headers bear.
    pub ecn: Codepoint,
    /// Bytes of each but the last, which may be shorter.
    pub segment_bytes: usize,
}

/// What an endpoint counts beside its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Connections that were made to it.
    pub accepted: u64,
    /// Connections that it made.
    pub connected: u64,
    /// Those that were refused for want of room.
    pub refused: u64,
    /// Those that were asked to come again with a token.
    pub retried: u64,
    /// Datagrams for no connection.
    pub strays: u64,
}

#[derive(Debug)]
struct Slot {
    connection: Connection,
    remote: SocketAddr,
    local: Option<IpAddr>,
    /// The number under which the peer names it.
    number: u32,
    /// What it may hold while it is being opened.
    opening: Option<Held>,
    /// The peer has not shown that it is where it says.
    unvalidated: bool,
    /// Nobody reads it.
    forgotten: bool,
    /// It waits for its turn to send.
    queued: bool,
}

impl Slot {
    /// That of a connection whose peer is where it says.
    fn new(
        connection: Connection,
        remote: SocketAddr,
        local: Option<IpAddr>,
        number: u32,
        opening: Held,
    ) -> Self {
        let opening = Some(opening);
        Slot {
            connection,
            remote,
            local,
            number,
            opening,
            unvalidated: false,
            forgotten: false,
            queued: false,
        }
    }
}

/// All connections of a socket.
///
/// Datagrams and the time go in ([`Endpoint::handle_datagram`], [`Endpoint::handle_timeout`]); datagrams
/// ([`Endpoint::poll_transmit`]) and events ([`Endpoint::poll_event`]) come out. Streams are read and written at a connection:
/// [`Endpoint::with`].
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    memory: Memory,
    validation: Validation,
    slots: HashMap<ConnectionId, Slot>,
    names: HashMap<(SocketAddr, u32), ConnectionId>,
    /// Connections by the network that they come from.
    hosts: HashMap<IpAddr, usize>,
    unvalidated: usize,
    next: u64,
    /// Tokens of servers, as they came, and in that order.
    servers: Servers,
    /// Connections that something has happened to.
    agenda: Agenda<ConnectionId>,
    /// Connections that may have something to send, in the order of their turns.
    sending: VecDeque<ConnectionId>,
    events: VecDeque<(ConnectionId, Event)>,
    /// What is to be said to addresses that there is no connection with.
    answers: VecDeque<(Transmit, Vec<u8>)>,
    /// A datagram that did not fit to the others of its batch.
    left: Option<(Transmit, Vec<u8>)>,
    closed: bool,
    counters: EndpointCounters,
    /// What connections that are over have counted.
    past: Counters,
}

impl Endpoint {
    /// One that has no connections yet.
    pub fn new(config: EndpointConfig) -> Self {
        Endpoint {
            memory: Memory::new(&config.limits),
            validation: Validation::new(&config.key),
            config,
            slots: HashMap::new(),
            names: HashMap::new(),
            hosts: HashMap::new(),
            unvalidated: 0,
            next: 0,
            servers: Servers::default(),
            agenda: Agenda::new(),
            sending: VecDeque::new(),
            events: VecDeque::new(),
            answers: VecDeque::new(),
            left: None,
            closed: false,
            counters: EndpointCounters::default(),
            past: Counters::default(),
        }
    }

    /// Opens a connection to a server, which has to be `name`.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Time,
        remote: SocketAddr,
        name: ServerName<'static>,
        tls: Arc<rustls::ClientConfig>,
    ) -> Result<ConnectionId, ConnectError> {
        if self.closed {
            return Err(ConnectError::Closed);
        }
        let tls = ClientConnection::new(tls, Version::V1, name, Vec::new())?;
        let number = loop {
            let number = self.validation.draw();
            if !self.names.contains_key(&(remote, number)) {
                break number;
            }
        };
        let (config, opening) = self.room(remote).ok_or(ConnectError::NoRoom)?;
        let known = self.servers.get(remote);
        let connection = Connection::connect(now, tls, number, known, config).ok_or(ConnectError::NoRoom)?;
        self.counters.connected += 1;
        Ok(self.insert(Slot::new(connection, remote, None, number, opening)))
    }

    /// What a connection with this address may hold, if there may be one more.
    fn room(&mut self, remote: SocketAddr) -> Option<(ConnectionConfig, Held)> {
        let Limits { connections, connections_of_an_address, .. } = self.config.limits;
        let of_it = self.hosts.get(&network(remote.ip())).copied().unwrap_or(0);
        if self.slots.len() >= connections || of_it >= connections_of_an_address {
            return None;
        }
        let Room { blocks: budget, state, .. } = self.memory.of(remote.ip());
        let opening = state.take(opening::MOST_HELD_IN_ALL_BYTES)?;
        Some((ConnectionConfig { budget, ..self.config.connection.clone() }, opening))
    }

    fn insert(&mut self, slot: Slot) -> ConnectionId {
        let id = ConnectionId(self.next);
        self.next += 1;
        self.names.insert((slot.remote, slot.number), id);
        *self.hosts.entry(network(slot.remote.ip())).or_default() += 1;
        self.unvalidated += usize::from(slot.unvalidated);
        self.slots.insert(id, slot);
        self.wake(id);
        id
    }

    fn remove(&mut self, id: ConnectionId) {
        let Some(slot) = self.slots.remove(&id) else { return };
        self.names.remove(&(slot.remote, slot.number));
        let host = network(slot.remote.ip());
        if let Some(count) = self.hosts.get_mut(&host) {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(&host);
            }
        }
        self.unvalidated -= usize::from(slot.unvalidated);
        self.agenda.remove(id);
        self.past += slot.connection.counters();
    }

    fn wake(&mut self, id: ConnectionId) {
        self.agenda.wake(id);
    }

    // Connections

    /// Does something with a connection; `None` if it is gone. What that makes it send, or tell, comes of the next calls.
    pub fn with<T>(&mut self, id: ConnectionId, does: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let done = does(&mut self.slots.get_mut(&id)?.connection);
        self.wake(id);
        Some(done)
    }

    /// Nobody reads a connection any more: it ends once all has been acknowledged that was written.
    pub fn forget(&mut self, now: Time, id: ConnectionId, code: u64, reason: &str) {
        self.with(id, |connection| {
            connection.close_when_done(now, code, reason);
            connection.forget();
        });
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.forgotten = true;
        }
    }

    /// A connection, to look at; `None` if it is gone.
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        Some(&self.slots.get(&id)?.connection)
    }

    /// Where the other end of a connection is.
    pub fn remote(&self, id: ConnectionId) -> Option<SocketAddr> {
        Some(self.slots.get(&id)?.remote)
    }

    /// Connections that are not over.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no connections.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Closes all connections, and makes and takes no more of them.
    pub fn close(&mut self, now: Time, code: u64, reason: &str) {
        self.closed = true;
        self.with_all(|connection| connection.close(now, code, reason));
    }

    /// Makes and takes no more connections; each ends once all has been acknowledged that was written.
    pub fn leave(&mut self, now: Time, code: u64, reason: &str) {
        self.closed = true;
        self.with_all(|connection| connection.close_when_done(now, code, reason));
    }

    fn with_all(&mut self, does: impl Fn(&mut Connection)) {
        let ids: Vec<_> = self.slots.keys().copied().collect();
        for id in ids {
            self.with(id, &does);
        }
    }

    /// What it has counted.
    pub fn counters(&self) -> EndpointCounters {
        self.counters
    }

    /// What all of its connections have counted.
    pub fn connection_counters(&self) -> Counters {
        let present = self.slots.values().map(|slot| slot.connection.counters());
        present.fold(self.past, |sum, counters| sum + counters)
    }

    /// The most bytes that connections have held at a time.
    pub fn peak_bytes(&self) -> usize {
        self.memory.peak_bytes()
    }

    // What comes

    /// A datagram has come: from where, and to which of the host's addresses, if that is known.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        from: SocketAddr,
        to: Option<IpAddr>,
        ecn: Codepoint,
        datagram: &mut [u8],
    ) {
        let Ok(header) = Header::parse(datagram) else {
            self.counters.strays += 1;
            return;
        };
        let known = self.names.get(&(from, header.connection)).copied();
        let Some(id) = known.or_else(|| self.accept(now, from, to, &header, datagram)) else {
            self.counters.strays += 1;
            return;
        };
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.connection.handle_datagram(now, ecn, datagram);
            if slot.unvalidated && slot.connection.is_validated() {
                slot.unvalidated = false;
                self.unvalidated -= 1;
            }
        }
        self.collect(id);
        self.wake(id);
    }

    /// A connection for what may be the first datagram of one.
    fn accept(
        &mut self,
        now: Time,
        from: SocketAddr,
        to: Option<IpAddr>,
        header: &Header,
        datagram: &[u8],
    ) -> Option<ConnectionId> {
        let server = self.config.server.clone().filter(|_| header.kind == Kind::Initial && !self.closed)?;
        let (crypto, token) = Crypto::parse_initial(&datagram[HEADER_BYTES..]).ok()?;
        if crypto.offset != 0 || crypto.payload.is_empty() {
            return None;
        }
        let validated = self.validation.is_good(now, from.ip(), token);
        let answer = |kind, body: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            Header { kind, connection: header.connection, number: 0 }.emit(&mut bytes);
            body(&mut bytes);
            (Transmit { to: from, from: to, ecn: Codepoint::NotEct, segment_bytes: bytes.len() }, bytes)
        };
        if !validated && self.unvalidated >= self.config.limits.connections.div_ceil(UNVALIDATED_SHARE) {
            let token = self.validation.token(now, from.ip());
            self.counters.retried += 1;
            self.say(answer(Kind::Retry, &|bytes| bytes.extend_from_slice(&token)));
            return None;
        }
        let accepted = self.room(from).and_then(|(config, opening)| {
            let tls = ServerConnection::new(server, Version::V1, Vec::new()).ok()?;
            let token = Some(self.validation.token(now, from.ip()));
            let connection = Connection::accept(now, tls, header.connection, validated, token, config)?;
            Some((connection, opening))
        });
        let Some((connection, opening)) = accepted else {
            self.counters.refused += 1;
            let refusal = Refusal { code: CODE_REFUSED, reason: b"no room for another connection" };
            self.say(answer(Kind::Refusal, &|bytes| refusal.emit(bytes)));
            return None;
        };
        self.counters.accepted += 1;
        let slot = Slot::new(connection, from, to, header.connection, opening);
        Some(self.insert(Slot { unvalidated: !validated, ..slot }))
    }

    /// Says something to an address without a connection; or not, if there is much to say already.
    fn say(&mut self, answer: (Transmit, Vec<u8>)) {
        if self.answers.len() < MOST_ANSWERS {
            self.answers.push_back(answer);
        }
    }

    // Time, and what goes out

    /// When [`Endpoint::handle_timeout`] has something to do: at [`Time::ZERO`] if it has now.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.agenda.next()
    }

    /// Lets the timers of connections expire, and has those send that something has happened to. [`Endpoint::poll_transmit`] does, too.
    pub fn handle_timeout(&mut self, now: Time) {
        for id in self.agenda.take(now) {
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            if slot.connection.poll_timeout().is_some_and(|at| at <= now) {
                slot.connection.handle_timeout(now);
            }
            if !std::mem::replace(&mut slot.queued, true) {
                self.sending.push_back(id);
            }
            self.collect(id);
        }
    }

    /// Appends datagrams to `buffer`, no more than `most` and about `most_bytes`, which are to be sent at once: all to one address and of
    /// one length, but for the last. None if nothing is to be sent before the next input or timeout.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        most: usize,
        most_bytes: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let ready = self.left.take().or_else(|| self.answers.pop_front());
        if let Some((transmit, bytes)) = ready {
            buffer.extend_from_slice(&bytes);
            return Some(transmit);
        }
        loop {
            if self.agenda.next().is_some_and(|at| at <= now) {
                self.handle_timeout(now);
            }
            let id = self.sending.pop_front()?;
            if let Some(transmit) = self.transmit_of(now, id, (most, most_bytes), buffer) {
                // It has its next turn after the others.
                self.sending.push_back(id);
                return Some(transmit);
            }
            self.collect(id);
            self.settle(id);
        }
    }

    fn transmit_of(
        &mut self,
        now: Time,
        id: ConnectionId,
        (most, most_bytes): (usize, usize),
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let slot = self.slots.get_mut(&id)?;
        let begin = buffer.len();
        let ecn = slot.connection.poll_transmit(now, buffer)?;
        let segment_bytes = buffer.len() - begin;
        let transmit = Transmit { to: slot.remote, from: slot.local, ecn, segment_bytes };
        let mut count = 1;
        while count < most && buffer.len() - begin + segment_bytes <= most_bytes {
            let before = buffer.len();
            let Some(ecn) = slot.connection.poll_transmit(now, buffer) else { break };
            let bytes = buffer.len() - before;
            if ecn != transmit.ecn || bytes > segment_bytes {
                self.left =
                    Some((Transmit { ecn, segment_bytes: bytes, ..transmit }, buffer.split_off(before)));
                break;
            }
            count += 1;
            if bytes < segment_bytes {
                break;
            }
        }
        Some(transmit)
    }

    /// Takes what a connection has to tell.
    fn collect(&mut self, id: ConnectionId) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        while let Some(event) = slot.connection.poll_event() {
            match event {
                Event::Token(token) => {
                    self.servers.learn(slot.remote, KnownServer { token, rtt: slot.connection.rtt() });
                }
                event => self.events.push_back((id, event)),
            }
        }
        if !slot.connection.is_opening() {
            slot.opening = None;
        }
    }

    /// A connection has nothing more to send until something comes, or its time does.
    fn settle(&mut self, id: ConnectionId) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        slot.queued = false;
        if slot.forgotten {
            slot.connection.forget();
        }
        if slot.connection.is_over() {
            self.remove(id);
        } else {
            let at = slot.connection.poll_timeout();
            self.agenda.set(id, at);
        }
    }

    /// The next thing that has happened to a connection.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        self.events.pop_front()
    }

    /// Whether [`Endpoint::poll_event`] has something to tell.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }
}
