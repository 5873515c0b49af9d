//! Endpoints of ATP, with all their connections: who is let in, what that may cost, and whose datagrams are whose.

mod tls;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tls::Tls;
use weir_proto::Time;
use weir_proto::atp::{
    CODE_REFUSED, Closed, ConnectError, ConnectionConfig, ConnectionId, Endpoint, EndpointConfig, Event,
    MOST_CODE, Read, StreamId,
};
use weir_proto::limits::Limits;

const MS: Duration = Duration::from_millis(1);
const DELAY: Duration = MS;
const SERVER: &str = "10.0.0.1:4000";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A client's address: each is another host.
fn client(n: usize) -> SocketAddr {
    SocketAddr::from(([10, 1, (n >> 8) as u8, n as u8], 5000))
}

/// An endpoint, and what has come to it.
struct Host {
    endpoint: Endpoint,
    connected: BTreeMap<ConnectionId, Time>,
    got: BTreeMap<(ConnectionId, StreamId), (Vec<u8>, Option<Time>)>,
    closed: BTreeMap<ConnectionId, Closed>,
    /// Streams of others are answered with what they brought.
    echoes: bool,
    /// What comes is read at once.
    reads: bool,
}

struct World {
    now: Time,
    tls: Tls,
    hosts: BTreeMap<SocketAddr, Host>,
    way: VecDeque<(Time, SocketAddr, SocketAddr, Vec<u8>)>,
    /// Datagrams to these addresses go nowhere.
    sent_bytes: BTreeMap<SocketAddr, usize>,
}

impl World {
    fn new(limits: Limits) -> Self {
        World::with(Tls::new(), limits, ConnectionConfig::default())
    }

    fn with(tls: Tls, limits: Limits, connection: ConnectionConfig) -> Self {
        let mut world = World {
            now: Time::from_nanos(1_000_000_000),
            tls,
            hosts: BTreeMap::new(),
            way: VecDeque::new(),
            sent_bytes: BTreeMap::new(),
        };
        let server = Some(world.tls.configs().1);
        world.add(at(SERVER), EndpointConfig { connection, limits, server, key: [1; 32] }, true);
        world
    }

    fn add(&mut self, address: SocketAddr, config: EndpointConfig, echoes: bool) {
        let host = Host {
            endpoint: Endpoint::new(config),
            connected: BTreeMap::new(),
            got: BTreeMap::new(),
            closed: BTreeMap::new(),
            echoes,
            reads: true,
        };
        self.hosts.insert(address, host);
    }

    fn add_client(&mut self, n: usize, connection: ConnectionConfig) -> SocketAddr {
        let config =
            EndpointConfig { connection, limits: Limits::default(), server: None, key: [n as u8; 32] };
        self.add(client(n), config, false);
        client(n)
    }

    fn host(&mut self, address: SocketAddr) -> &mut Host {
        self.hosts.get_mut(&address).unwrap()
    }

    fn server(&mut self) -> &mut Host {
        self.host(at(SERVER))
    }

    fn connect(&mut self, from: SocketAddr) -> Result<ConnectionId, ConnectError> {
        let (now, config) = (self.now, self.tls.configs().0);
        self.host(from).endpoint.connect(now, at(SERVER), "here".try_into().unwrap(), config)
    }

    fn request(&mut self, from: SocketAddr, id: ConnectionId, bytes: &[u8]) -> StreamId {
        let now = self.now;
        let sent = self.host(from).endpoint.with(id, |connection| {
            let stream = connection.open().unwrap();
            assert_eq!(connection.write(now, stream, bytes), Ok(bytes.len()));
            connection.finish(stream).unwrap();
            stream
        });
        sent.unwrap()
    }

    fn pump(&mut self) {
        for (address, host) in &mut self.hosts {
            let mut buffer = Vec::new();
            loop {
                while let Some((id, event)) = host.endpoint.poll_event() {
                    match event {
                        Event::Connected => assert_eq!(host.connected.insert(id, self.now), None),
                        Event::Readable(stream) if host.reads => read(host, self.now, id, stream),
                        Event::Closed(why) => assert_eq!(host.closed.insert(id, why), None),
                        _ => {}
                    }
                }
                let Some(transmit) = host.endpoint.poll_transmit(self.now, 8, 8000, &mut buffer) else {
                    break;
                };
                *self.sent_bytes.entry(transmit.to).or_default() += buffer.len();
                for datagram in buffer.chunks(transmit.segment_bytes) {
                    let arrival = self.now + DELAY;
                    self.way.push_back((arrival, *address, transmit.to, datagram.to_vec()));
                }
                buffer.clear();
            }
        }
    }

    fn run_for(&mut self, duration: Duration) -> &mut Self {
        let until = self.now + duration;
        loop {
            self.pump();
            let arrival = self.way.front().map(|(at, ..)| *at);
            let timers = self.hosts.values().filter_map(|host| host.endpoint.poll_timeout());
            let Some(next) = timers.chain(arrival).min().filter(|next| *next <= until) else {
                self.now = until;
                return self;
            };
            self.now = self.now.max(next);
            while self.way.front().is_some_and(|(at, ..)| *at <= self.now) {
                let (_, from, to, mut datagram) = self.way.pop_front().unwrap();
                if let Some(host) = self.hosts.get_mut(&to) {
                    let ecn = Default::default();
                    host.endpoint.handle_datagram(self.now, from, Some(to.ip()), ecn, &mut datagram);
                }
            }
            for host in self.hosts.values_mut() {
                host.endpoint.handle_timeout(self.now);
            }
        }
    }
}

fn read(host: &mut Host, now: Time, id: ConnectionId, stream: StreamId) {
    let mut buffer = [0; 4096];
    let got = host.got.entry((id, stream)).or_default();
    loop {
        let came = host.endpoint.with(id, |connection| connection.read(now, stream, &mut buffer));
        match came {
            Some(Read::Bytes(count)) => got.0.extend_from_slice(&buffer[..count]),
            Some(Read::End) => {
                got.1 = Some(now);
                break;
            }
            _ => return,
        }
    }
    if host.echoes {
        host.endpoint.with(id, |connection| {
            assert_eq!(connection.write(now, stream, &got.0), Ok(got.0.len()));
            connection.finish(stream).unwrap();
        });
    }
}

#[test]
fn many_clients_are_served_at_once_and_forgotten_when_they_close() {
    let mut world = World::new(Limits::default());
    let sent: Vec<_> = (0..300)
        .map(|n| {
            let address = world.add_client(n, ConnectionConfig::default());
            let id = world.connect(address).unwrap();
            let bytes = vec![n as u8; 100 + 10 * n];
            (address, id, world.request(address, id, &bytes), bytes)
        })
        .collect();
    world.run_for(100 * MS);
    for (address, id, stream, bytes) in &sent {
        let (got, ended) = &world.host(*address).got[&(*id, *stream)];
        assert!(got == bytes && ended.is_some(), "{address}");
    }
    let now = world.now;
    for (address, id, ..) in &sent[1..] {
        world.host(*address).endpoint.with(*id, |connection| connection.close(now, 7, "done"));
    }
    world.run_for(2000 * MS);
    assert_eq!(world.server().endpoint.len(), 1);
    let done = Closed::ByPeer { code: 7, reason: "done".to_owned() };
    let closed = &world.server().closed;
    assert!(closed.len() == sent.len() - 1 && closed.values().all(|why| *why == done));
    for (address, ..) in &sent[1..] {
        assert!(world.host(*address).endpoint.is_empty(), "{address}");
    }
    let counters = world.server().endpoint.connection_counters();
    assert!(counters.sent >= 600 && counters.timeouts == 0, "{counters:?}");
}

#[test]
fn one_host_cannot_have_all_connections_and_is_told_so() {
    let mut world = World::new(Limits { connections_of_an_address: 3, ..Limits::default() });
    let address = world.add_client(0, ConnectionConfig::default());
    for _ in 0..5 {
        world.connect(address).unwrap();
    }
    world.run_for(100 * MS);
    assert_eq!(world.host(address).connected.len(), 3);
    let refused = world.host(address).closed.values();
    let codes: Vec<_> =
        refused.map(|why| if let Closed::Refused { code, .. } = why { *code } else { 0 }).collect();
    assert_eq!(codes, [CODE_REFUSED; 2]);
    let other = world.add_client(1, ConnectionConfig::default());
    world.connect(other).unwrap();
    world.run_for(100 * MS);
    assert_eq!(world.host(other).connected.len(), 1, "another host is let in");
    let now = world.now;
    let first = *world.host(address).connected.keys().next().unwrap();
    world.host(address).endpoint.with(first, |connection| connection.close(now, 0, ""));
    world.run_for(2000 * MS);
    world.connect(address).unwrap();
    world.run_for(100 * MS);
    assert_eq!(world.host(address).connected.len(), 4, "there is room again");
}

/// The first datagrams that a client sends.
fn hellos(world: &mut World, n: usize) -> Vec<Vec<u8>> {
    let address = world.add_client(n, ConnectionConfig::default());
    world.connect(address).unwrap();
    let host = world.hosts.get_mut(&address).unwrap();
    let (mut buffer, mut hellos) = (Vec::new(), Vec::new());
    while let Some(transmit) = host.endpoint.poll_transmit(world.now, 1, 8000, &mut buffer) {
        assert_eq!(transmit.to, at(SERVER));
        hellos.push(std::mem::take(&mut buffer));
    }
    world.hosts.remove(&address);
    hellos
}

#[test]
fn hellos_from_addresses_that_nobody_has_cost_little_and_others_are_still_let_in() {
    let limits = Limits { connections: 160, memory_bytes: 64 << 20, ..Limits::default() };
    let mut world = World::new(limits);
    let hello = hellos(&mut world, 0).remove(0);
    for n in 0..1000 {
        let (now, ecn) = (world.now, Default::default());
        world.server().endpoint.handle_datagram(now, client(1000 + n), None, ecn, &mut hello.clone());
    }
    world.run_for(MS);
    let counters = world.server().endpoint.counters();
    assert_eq!((counters.accepted, counters.retried), (10, 990));
    assert!(world.server().endpoint.peak_bytes() < 4 << 20);
    for n in 0..1000 {
        let said = world.sent_bytes.get(&client(1000 + n)).copied().unwrap_or(0);
        assert!(said <= 3 * hello.len(), "{n}: {said}");
    }
    let address = world.add_client(1, ConnectionConfig::default());
    let id = world.connect(address).unwrap();
    let stream = world.request(address, id, b"a request");
    world.run_for(20 * MS);
    let connected = world.host(address).connected[&id];
    assert_eq!(connected, Time::from_nanos(1_001_000_000) + 4 * DELAY, "in two round trips");
    assert_eq!(world.host(address).got[&(id, stream)].0, b"a request");
    world.run_for(15_000 * MS);
    assert_eq!(world.server().endpoint.len(), 1, "they are given up");
}

#[test]
fn a_token_and_a_ticket_of_one_connection_save_the_next_one_its_round_trip() {
    let early = ConnectionConfig { early: true, ..ConnectionConfig::default() };
    let mut world = World::with(Tls::early(), Limits::default(), early.clone());
    let address = world.add_client(0, early);
    let mut took = Vec::new();
    for _ in 0..3 {
        let id = world.connect(address).unwrap();
        let stream = world.request(address, id, b"a request");
        let began = world.now;
        world.run_for(100 * MS);
        let (got, ended) = &world.host(address).got[&(id, stream)];
        assert_eq!(got, b"a request");
        took.push(ended.unwrap().since(began));
        let now = world.now;
        world.host(address).endpoint.with(id, |connection| connection.close(now, 0, ""));
        world.run_for(100 * MS);
    }
    assert_eq!(took, [4 * DELAY, 2 * DELAY, 2 * DELAY]);
}

#[test]
fn what_was_written_before_a_connection_is_left_comes_to_the_peer_and_can_be_read_when_it_is_over() {
    let mut world = World::new(Limits::default());
    world.server().echoes = false;
    let address = world.add_client(0, ConnectionConfig::default());
    let id = world.connect(address).unwrap();
    let stream = world.request(address, id, &[7; 50_000]);
    let now = world.now;
    world.host(address).endpoint.forget(now, id, 5, "left");
    // Nothing is read before all is over.
    world.server().reads = false;
    world.run_for(5_000 * MS);
    assert!(world.host(address).endpoint.is_empty());
    let server = world.server();
    let (id, closed) = server.closed.iter().next().unwrap();
    assert_eq!(*closed, Closed::ByPeer { code: 5, reason: "left".to_owned() });
    let id = *id;
    read(server, now, id, stream);
    let (got, ended) = &server.got[&(id, stream)];
    assert!(got.len() == 50_000 && ended.is_some());
    world.run_for(MS);
    assert!(world.server().endpoint.is_empty(), "all has been read");
}

#[test]
fn an_endpoint_that_is_closed_ends_its_connections_and_takes_no_more() {
    let mut world = World::new(Limits::default());
    let address = world.add_client(0, ConnectionConfig::default());
    let id = world.connect(address).unwrap();
    world.run_for(50 * MS);
    let now = world.now;
    world.server().endpoint.close(now, 9, "going home");
    world.run_for(50 * MS);
    let home = Closed::ByPeer { code: 9, reason: "going home".to_owned() };
    assert_eq!(world.host(address).closed[&id], home);
    let again = world.connect(address).unwrap();
    world.run_for(20_000 * MS);
    assert_eq!(world.host(address).closed[&again], Closed::Unanswered(Duration::from_secs(10)));
    assert!(world.server().endpoint.is_empty());
    let (now, config): (_, Arc<_>) = (world.now, world.tls.configs().0);
    let refused = world.server().endpoint.connect(now, address, "here".try_into().unwrap(), config);
    assert!(matches!(refused, Err(ConnectError::Closed)));
}

#[test]
fn reasons_that_are_too_large_are_told_as_the_largest_one() {
    let mut world = World::new(Limits::default());
    let address = world.add_client(0, ConnectionConfig::default());
    let id = world.connect(address).unwrap();
    world.run_for(50 * MS);
    let now = world.now;
    world.host(address).endpoint.with(id, |connection| {
        let stream = connection.open().unwrap();
        connection.write(now, stream, b"some").unwrap();
        connection.stop(stream, u64::MAX);
        connection.reset(stream, u64::MAX);
    });
    world.run_for(50 * MS);
    let now = world.now;
    world.server().endpoint.close(now, u64::MAX, "");
    world.run_for(50 * MS);
    let told = Closed::ByPeer { code: MOST_CODE, reason: String::new() };
    assert_eq!(world.host(address).closed[&id], told);
}

#[test]
fn datagrams_of_nobody_change_nothing() {
    let mut world = World::new(Limits::default());
    let mut state = 1_u64;
    for n in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1442695040888963407);
        let mut datagram: Vec<u8> = (0..(state >> 33) % 200).map(|at| (state >> (at % 56)) as u8).collect();
        if let Some(first) = datagram.first_mut() {
            *first = 0x10 | (n % 16) as u8;
        }
        let now = world.now;
        world.server().endpoint.handle_datagram(now, client(n), None, Default::default(), &mut datagram);
    }
    world.run_for(MS);
    let address = world.add_client(0, ConnectionConfig::default());
    let id = world.connect(address).unwrap();
    world.run_for(20 * MS);
    assert!(world.host(address).connected.contains_key(&id));
}

#[test]
fn a_connection_tells_which_streams_it_has_had_and_whether_more_can_be() {
    let mut world = World::new(Limits::default());
    let address = world.add_client(0, ConnectionConfig::default());
    let id = world.connect(address).unwrap();
    let stream = world.request(address, id, b"a request");
    world.run_for(50 * MS);
    let (now, endpoint) = (world.now, &mut world.host(address).endpoint);
    let connection = endpoint.connection(id).unwrap();
    assert!(connection.has_had(stream) && connection.is_open(), "over, and known");
    assert!(![1, 2, 3, u64::MAX].map(StreamId).iter().any(|other| connection.has_had(*other)));
    endpoint.with(id, |connection| connection.close(now, 0, ""));
    assert!(!endpoint.connection(id).unwrap().is_open());
    assert!(endpoint.connection(ConnectionId(id.0 + 1)).is_none(), "a number that was never given");
    let server = &world.server().endpoint;
    assert!(server.connection(ConnectionId(0)).unwrap().has_had(stream));
}

#[test]
fn who_gives_up_a_stream_of_a_connection_that_the_peer_has_ended_is_told_nothing_more() {
    let mut world = World::new(Limits::default());
    (world.server().echoes, world.server().reads) = (false, false);
    let address = world.add_client(0, ConnectionConfig::default());
    let id = world.connect(address).unwrap();
    let stream = world.request(address, id, b"a request");
    world.run_for(50 * MS);
    let now = world.now;
    let there = *world.server().connected.keys().next().unwrap();
    // More than there is room for, and nobody reads it.
    let wrote = world.server().endpoint.with(there, |c| c.write(now, stream, &[1; 2 << 20]));
    assert!(wrote.unwrap().unwrap() < 2 << 20);
    world.host(address).endpoint.with(id, |connection| connection.close(now, 0, ""));
    world.run_for(50 * MS);
    let endpoint = &mut world.server().endpoint;
    assert!(!endpoint.connection(there).unwrap().is_open());
    endpoint.with(there, |connection| {
        connection.reset(stream, 7);
        assert_eq!(connection.unacknowledged_bytes(), 0);
        assert!(connection.poll_event().is_none() && !connection.has_notices());
    });
    read(world.server(), now, there, stream);
    assert!(world.server().got[&(there, stream)].0 == b"a request", "it can still be read");
    world.run_for(MS);
    assert!(world.server().endpoint.is_empty());
}
