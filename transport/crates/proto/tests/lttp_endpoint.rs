//! Whole ends of LTTP connections with TLS between: streams that come in any pieces, and a network that loses, repeats, delays and
//! forges datagrams.

mod fate;
mod tls;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use fate::Fate;
use proptest::prelude::*;
use tls::Tls;
use weir_proto::Time;
use weir_proto::assembly::{Assembly, Step};
use weir_proto::channel::{Channel, Security};
use weir_proto::ecn::Codepoint;
use weir_proto::lttp::{
    ClientConfig, ClientEndpoint, ClientEvent, Lost, ServerConfig, ServerEndpoint, ServerEvent, ServerId,
};
use weir_proto::object::{Cut, Layout, Object};
use wire::control::{Hash, Version};

const DELAY: Duration = Duration::from_micros(150);

/// What is on its way: to the client or to a server.
enum Cargo {
    Bytes { to_client: bool, bytes: Vec<u8> },
    End { to_client: bool },
    Datagram { to_client: bool, datagram: Vec<u8> },
}

/// A server, and its object as the client has it.
struct Side {
    endpoint: ServerEndpoint,
    object: Vec<u8>,
    got: Vec<u8>,
    left: Option<u32>,
    assembly: Option<Assembly>,
    early: Vec<(u32, u16, Vec<u8>)>,
    early_hashes: Vec<(u32, Hash)>,
    closed: bool,
    ended: Option<String>,
}

struct Net {
    now: Time,
    client: ClientEndpoint,
    sides: Vec<Side>,
    /// By when it comes, and in which order it went.
    under_way: BTreeMap<(Time, u64), (usize, Cargo)>,
    went: u64,
    fates: Vec<Fate>,
    datagrams: usize,
    /// Streams come in pieces of so many bytes.
    piece: usize,
    ready: Vec<usize>,
    lost: BTreeMap<usize, Lost>,
}

fn address() -> SocketAddr {
    "10.0.0.1:4860".parse().unwrap()
}

fn config() -> ClientConfig {
    ClientConfig { symbol_bytes: 256, block_symbols: 64, ..ClientConfig::default() }
}

fn object(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n * 31 + n / 256) as u8).collect()
}

impl Net {
    /// A client of servers that each have `bytes` for it, with these at both ends.
    fn new(ends: Vec<(Security, Security)>, bytes: usize, fates: Vec<Fate>, piece: usize) -> Self {
        let (mut client, mut sides) = (ClientEndpoint::new(config()), Vec::new());
        for (number, (here, there)) in ends.into_iter().enumerate() {
            let server = client.connect(Time::ZERO, here);
            assert_eq!(server, ServerId(number));
            client.client().fetch(server, "a".into(), Vec::new(), None).unwrap();
            let name = 7 + number as u32;
            let (config, ip) = (ServerConfig::default(), address().ip());
            sides.push(Side {
                endpoint: ServerEndpoint::accept(config, Time::ZERO, there, ip, name, [number as u8; 16]),
                object: object(bytes),
                got: Vec::new(),
                left: None,
                assembly: None,
                early: Vec::new(),
                early_hashes: Vec::new(),
                closed: false,
                ended: None,
            });
        }
        Net {
            now: Time::ZERO,
            client,
            sides,
            under_way: BTreeMap::new(),
            went: 0,
            fates,
            datagrams: 0,
            piece,
            ready: Vec::new(),
            lost: BTreeMap::new(),
        }
    }

    fn put(&mut self, at: Time, server: usize, cargo: Cargo) {
        self.under_way.insert((at, self.went), (server, cargo));
        self.went += 1;
    }

    fn put_datagram(&mut self, server: usize, to_client: bool, datagram: Vec<u8>) {
        let fate = self.fates.get(self.datagrams % self.fates.len().max(1)).copied().unwrap_or(Fate::Passes);
        self.datagrams += 1;
        let (at, late) = (self.now + DELAY, self.now + 5 * DELAY);
        match fate {
            Fate::IsLost => return,
            Fate::ComesLate => return self.put(late, server, Cargo::Datagram { to_client, datagram }),
            Fate::ComesTwice => {
                self.put(late, server, Cargo::Datagram { to_client, datagram: datagram.clone() });
            }
            Fate::IsForged => {
                let mut datagram = datagram.clone();
                let place = self.datagrams % datagram.len();
                datagram[place] ^= 1 << (self.datagrams % 8);
                self.put(at, server, Cargo::Datagram { to_client, datagram });
            }
            Fate::Passes => {}
        }
        self.put(at, server, Cargo::Datagram { to_client, datagram });
    }

    fn put_said(&mut self, server: usize, to_client: bool, said: Vec<u8>) {
        for bytes in said.chunks(self.piece) {
            self.put(self.now + DELAY, server, Cargo::Bytes { to_client, bytes: bytes.to_vec() });
        }
    }

    /// Has both sides say and send what they have.
    fn pump(&mut self) {
        self.take_events();
        self.client.speak(self.now);
        for number in 0..self.sides.len() {
            let said = said(self.client.channel_mut(ServerId(number)));
            self.put_said(number, false, said);
        }
        self.take_events();
        let mut datagram = Vec::new();
        while let Some(server) = self.client.poll_transmit(self.now, &mut datagram) {
            self.put_datagram(server.0, false, std::mem::take(&mut datagram));
        }
        for number in 0..self.sides.len() {
            let side = &mut self.sides[number];
            side.work();
            let said = said(side.endpoint.channel_mut());
            self.put_said(number, true, said);
            self.close_if_ended(number);
            let (mut buffer, mut sent) = (Vec::new(), Vec::new());
            while let Some(transmit) = self.sides[number].endpoint.poll_transmit(self.now, &mut buffer, 64) {
                assert_eq!(transmit.to, address());
                sent.extend(buffer.chunks(transmit.segment_bytes).map(<[u8]>::to_vec));
                buffer.clear();
            }
            for datagram in sent {
                self.put_datagram(number, true, datagram);
            }
        }
    }

    /// As a driver closes the stream of a connection that has ended.
    fn close_if_ended(&mut self, number: usize) {
        let side = &mut self.sides[number];
        if side.ended.is_some() && !std::mem::replace(&mut side.closed, true) {
            side.endpoint.close("");
            let said = said(side.endpoint.channel_mut());
            self.put_said(number, true, said);
            self.put(self.now + DELAY, number, Cargo::End { to_client: true });
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.client.poll_event() {
            match event {
                ClientEvent::Ready { server } => self.ready.push(server.0),
                ClientEvent::Parameters { server, parameters } => {
                    let layout = Layout::new(256, 64, parameters.size).unwrap();
                    let cut = Cut::new(layout, config().code, parameters.seed, parameters.last_seed).unwrap();
                    let side = &mut self.sides[server.0];
                    side.assembly = Some(Assembly::new(cut, true));
                    side.got = vec![0; parameters.size as usize];
                    side.left = Some(layout.blocks());
                    for (block, hash) in std::mem::take(&mut side.early_hashes) {
                        self.hash(server, block, hash);
                    }
                    for (block, index, payload) in std::mem::take(&mut self.sides[server.0].early) {
                        self.symbol(server, block, index, &payload);
                    }
                }
                ClientEvent::BlockHash { server, block, hash, .. } => self.hash(server, block, hash),
                ClientEvent::Lost { server, reason } => {
                    assert!(self.lost.insert(server.0, reason).is_none(), "lost twice");
                    self.client.close(server);
                    let said = said(self.client.channel_mut(server));
                    self.put_said(server.0, false, said);
                    self.put(self.now + DELAY, server.0, Cargo::End { to_client: false });
                }
                ClientEvent::Refused { .. } | ClientEvent::Listing { .. } | ClientEvent::Unlisted { .. } => {}
            }
        }
    }

    fn hash(&mut self, server: ServerId, block: u32, hash: Hash) {
        let side = &mut self.sides[server.0];
        match &mut side.assembly {
            Some(assembly) => {
                let step = assembly.hash(block, hash).unwrap();
                self.take(server, block, step);
            }
            None => side.early_hashes.push((block, hash)),
        }
    }

    fn symbol(&mut self, server: ServerId, block: u32, index: u16, payload: &[u8]) {
        let side = &mut self.sides[server.0];
        match &mut side.assembly {
            Some(assembly) => {
                let step = assembly.symbol(block, index, payload, || None).unwrap();
                self.take(server, block, step);
            }
            None => side.early.push((block, index, payload.to_vec())),
        }
    }

    fn take(&mut self, server: ServerId, block: u32, step: Step) {
        let side = &mut self.sides[server.0];
        match step {
            Step::Pending => {}
            Step::Needs(symbols) => self.client.client().needs(server, 0, block, symbols),
            Step::Whole(whole) => {
                let begin = whole.offset as usize;
                side.got[begin..begin + whole.bytes].copy_from_slice(whole.source());
                side.left = side.left.map(|left| left - 1);
                self.client.client().complete(server, 0, block);
            }
        }
    }

    fn deliver(&mut self, server: usize, cargo: Cargo) {
        let id = ServerId(server);
        match cargo {
            Cargo::Bytes { to_client: true, bytes } => self.client.receive(self.now, id, &bytes),
            Cargo::Bytes { to_client: false, bytes } => {
                self.sides[server].endpoint.receive(self.now, &bytes);
            }
            Cargo::End { to_client: true } => self.client.stream_ended(id, None),
            Cargo::End { to_client: false } => self.sides[server].endpoint.stream_ended(None),
            Cargo::Datagram { to_client: true, mut datagram } => {
                let arrival = self.client.handle_datagram(self.now, id, Codepoint::NotEct, &mut datagram);
                if let Some(arrival) = arrival {
                    assert_eq!(arrival.request, 0);
                    let (block, index, payload) = (arrival.block, arrival.index, arrival.payload.to_vec());
                    self.symbol(id, block, index, &payload);
                }
            }
            Cargo::Datagram { to_client: false, mut datagram } => {
                self.sides[server].endpoint.handle_datagram(self.now, address(), &mut datagram);
            }
        }
    }

    fn is_done(&self) -> bool {
        let over = |(number, side): (usize, &Side)| side.left == Some(0) || self.lost.contains_key(&number);
        self.sides.iter().enumerate().all(over)
    }

    /// Runs until all is there or lost and nothing is under way, or for so long.
    fn run(&mut self, most: Duration) {
        let end = self.now + most;
        let mut turns = 0;
        loop {
            turns += 1;
            assert!(turns < 1_000_000, "it never comes to rest at {:?}", self.now);
            self.pump();
            if self.is_done() && self.under_way.is_empty() {
                return;
            }
            let servers = self.sides.iter().filter(|side| !side.closed);
            let timers = servers.filter_map(|side| side.endpoint.poll_timeout());
            let arrives = self.under_way.keys().next().map(|(at, _)| *at);
            let next = timers.chain(self.client.poll_timeout()).chain(arrives).min();
            let Some(next) = next.filter(|next| *next <= end) else { return self.now = end };
            self.now = self.now.max(next);
            if arrives.is_some_and(|at| at <= self.now) {
                let (_, (server, cargo)) = self.under_way.pop_first().unwrap();
                self.deliver(server, cargo);
            }
            self.client.handle_timeout(self.now);
            for side in &mut self.sides {
                side.endpoint.handle_timeout(self.now);
            }
        }
    }
}

impl Side {
    /// What a driver does.
    fn work(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            let server = self.endpoint.server();
            match event {
                ServerEvent::Open(fetch) => {
                    let (size, version) = (self.object.len() as u64, Version([1; 16]));
                    server.accept(fetch.request, Object { size, version, modified_ns: 0, mode: 0 });
                }
                ServerEvent::Load { request, block, offset, bytes } => {
                    let begin = offset as usize;
                    server.provide(request, block, self.object[begin..begin + bytes].into());
                }
                ServerEvent::Ended { reason } => {
                    assert!(self.ended.replace(reason).is_none(), "it ended twice");
                }
                ServerEvent::List { .. } | ServerEvent::Close { .. } => {}
            }
        }
        self.endpoint.speak();
    }
}

/// What a channel's stream is to carry.
fn said(channel: &mut Channel) -> Vec<u8> {
    let mut said = Vec::new();
    loop {
        let bytes = channel.outgoing();
        if bytes.is_empty() {
            return said;
        }
        said.extend_from_slice(bytes);
        let count = bytes.len();
        channel.written(count);
    }
}

fn under(tls: &Tls) -> (Security, Security) {
    (Some(tls.client("here")).into(), Some(tls.server()).into())
}

fn in_clear() -> (Security, Security) {
    (Security::Clear, Security::Clear)
}

#[test]
fn objects_pass_under_tls_and_in_clear_from_one_server_and_from_many() {
    let tls = Tls::new();
    let ends: [&dyn Fn() -> _; 2] = [&|| under(&tls), &in_clear];
    for (servers, of) in [(1, ends[0]), (8, ends[0]), (1, ends[1]), (8, ends[1])] {
        let mut net = Net::new((0..servers).map(|_| of()).collect(), 100_000, Vec::new(), usize::MAX);
        net.run(Duration::from_secs(10));
        assert_eq!(net.ready.len(), servers, "{:?}", net.lost);
        assert!(net.sides.iter().all(|side| side.left == Some(0) && side.got == side.object));
    }
}

#[test]
fn a_server_that_is_another_is_lost_and_knows_why() {
    let (tls, other) = (Tls::new(), Tls::new());
    let ends = vec![(Some(tls.client("here")).into(), Some(other.server()).into()), under(&tls)];
    let mut net = Net::new(ends, 10_000, Vec::new(), usize::MAX);
    net.run(Duration::from_secs(5));
    let Some(Lost::Unopened(why)) = net.lost.get(&0) else { panic!("{:?}", net.lost) };
    assert!(why.contains("TLS"), "{why}");
    assert!(net.sides[0].ended.as_ref().is_some_and(|why| why.contains("TLS")), "{:?}", net.sides[0].ended);
    assert_eq!(net.client.data().report(ServerId(0)), None);
    assert_eq!(net.sides[1].left, Some(0), "the other server's object came");
    assert!(net.client.data().report(ServerId(1)).is_some());
}

#[test]
fn a_server_that_never_answers_is_lost_after_its_time() {
    for piece in [0, 1] {
        let mut client = ClientEndpoint::new(config());
        let server = client.connect(Time::ZERO, Some(Tls::new().client("here")).into());
        let at = Time::ZERO + config().silence;
        assert_eq!(client.poll_timeout(), Some(at));
        // One byte is no answer.
        client.receive(Time::ZERO + Duration::from_secs(1), server, &[0x16][..piece]);
        client.handle_timeout(at);
        let lost = ClientEvent::Lost { server, reason: Lost::Unanswered(config().silence) };
        assert_eq!(client.poll_event(), Some(lost));
        assert_eq!(client.poll_timeout(), None);
    }
}

#[test]
fn a_client_that_never_says_hello_is_let_go() {
    for security in [Some(Tls::new().server()).into(), Security::Clear] {
        let (config, ip) = (ServerConfig::default(), address().ip());
        let at = Time::ZERO + config.opening;
        let mut server = ServerEndpoint::accept(config, Time::ZERO, security, ip, 1, [0; 16]);
        assert_eq!(server.poll_timeout(), Some(at));
        server.handle_timeout(at);
        let reason = "no hello came within 10 s".to_owned();
        assert_eq!(server.poll_event(), Some(ServerEvent::Ended { reason }));
        assert_eq!(server.poll_timeout(), None);
    }
}

#[test]
fn what_was_said_before_the_end_counts() {
    let tls = Tls::new();
    for (ends, piece) in [(under(&tls), usize::MAX), (under(&tls), 5), (in_clear(), usize::MAX)] {
        let mut net = Net::new(vec![ends], 3_000_000, Vec::new(), piece);
        net.run(Duration::from_millis(5));
        assert_eq!(net.ready, [0]);
        net.sides[0].endpoint.close("the server is stopping");
        net.run(Duration::from_secs(5));
        assert_eq!(net.lost.get(&0), Some(&Lost::Bye("the server is stopping".into())));
        assert_eq!(net.sides[0].ended.as_deref(), Some("the server is stopping"));
    }
}

#[test]
fn a_stream_that_ends_early_or_fails_says_how() {
    let tls = Tls::new();
    let reset = || Some(std::io::ErrorKind::ConnectionReset.into());
    let refused = || Some(std::io::ErrorKind::ConnectionRefused.into());
    for (error, text) in [(None, "before TLS was set up"), (reset(), "before TLS"), (refused(), "refused")] {
        let mut client = ClientEndpoint::new(config());
        let server = client.connect(Time::ZERO, under(&tls).0);
        assert!(!client.client().list(Time::ZERO, server, 0, String::new()), "nobody can be asked");
        client.stream_ended(server, error);
        client.stream_ended(server, None);
        let Some(ClientEvent::Lost { reason: Lost::Unopened(why), .. }) = client.poll_event() else {
            panic!()
        };
        assert!(why.contains(text), "{why}");
        assert_eq!(client.poll_event(), None);
        assert_eq!(client.client().fetch(server, "a".into(), Vec::new(), None), None);
    }
}

#[test]
fn datagrams_in_clear_open_nothing_before_there_are_keys() {
    let tls = Tls::new();
    let mut net = Net::new(vec![under(&tls)], 10_000, Vec::new(), usize::MAX);
    let silence = config().silence;
    // As if from the server, as a welcome of the data channel in clear would be.
    let mut welcome = Vec::new();
    wire::packet::Header { kind: wire::packet::Kind::Welcome, connection: 0, number: 0 }.emit(&mut welcome);
    wire::packet::Welcome { hello: 0 }.emit(&mut welcome);
    let at = Time::ZERO + silence / 2;
    assert!(net.client.handle_datagram(at, ServerId(0), Codepoint::NotEct, &mut welcome).is_none());
    assert_eq!(net.client.poll_timeout(), Some(Time::ZERO + silence), "it is no sign of life");
    let mut hello = Vec::new();
    wire::packet::Header { kind: wire::packet::Kind::Hello, connection: 7, number: 0 }.emit(&mut hello);
    hello.extend_from_slice(&[0; 16]);
    assert!(!net.sides[0].endpoint.handle_datagram(Time::ZERO, address(), &mut hello));
    net.run(Duration::from_secs(5));
    assert!(net.sides[0].got == net.sides[0].object, "{:?}", net.lost);
}

#[test]
fn a_client_that_does_not_read_is_let_go_and_holds_little() {
    let mut server = ServerEndpoint::accept(
        ServerConfig::default(),
        Time::ZERO,
        Security::Clear,
        address().ip(),
        1,
        [0; 16],
    );
    let mut hello = Vec::new();
    wire::control::emit(&wire::control::Client::Hello { version: wire::VERSION }, &mut hello).unwrap();
    server.receive(Time::ZERO, &hello);
    for request in 0..=u16::MAX {
        let detail = "x".repeat(100);
        let unlisted = wire::control::Server::Unlisted { request, detail };
        server.server().send_control(unlisted);
        server.speak();
        if server.data().has_ended() {
            break;
        }
    }
    let Some(ServerEvent::Ended { reason }) = server.poll_event() else { panic!("it goes on for ever") };
    assert!(reason.contains("does not read"), "{reason}");
    assert!(server.channel().held_bytes() < 1 << 20, "{} bytes", server.channel().held_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn objects_arrive_whatever_becomes_of_datagrams_and_however_streams_are_cut(
        fates in prop::collection::vec(fate::mostly_passes(), 1..60),
        servers in 1..4_usize,
        bytes in 0..60_000_usize,
        piece in prop_oneof![1..40_usize, Just(usize::MAX)],
    ) {
        // Somebody has to come through.
        prop_assume!(fates.iter().filter(|fate| **fate != Fate::IsLost).count() * 2 > fates.len());
        let tls = Tls::new();
        let mut net = Net::new((0..servers).map(|_| under(&tls)).collect(), bytes, fates, piece);
        net.run(Duration::from_secs(60));
        prop_assert!(net.lost.is_empty(), "{:?}", net.lost);
        prop_assert!(net.sides.iter().all(|side| side.left == Some(0) && side.got == side.object));
    }

    #[test]
    fn bytes_of_any_kind_end_a_connection_or_wait_for_more(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 1..30),
        clear in any::<bool>(),
    ) {
        let tls = Tls::new();
        let (here, there) = if clear { in_clear() } else { under(&tls) };
        let (config, now, ip) = (ServerConfig::default(), Time::ZERO, address().ip());
        let mut server = ServerEndpoint::accept(config, now, there, ip, 1, [0; 16]);
        let mut client = ClientEndpoint::new(self::config());
        let id = client.connect(now, here);
        let (mut ends, mut losses) = (0, 0);
        for bytes in chunks {
            server.receive(now, &bytes);
            server.speak();
            client.receive(now, id, &bytes);
            client.speak(now);
            prop_assert!(server.channel().held_bytes() < 2 << 20);
            while let Some(event) = server.poll_event() {
                ends += usize::from(matches!(event, ServerEvent::Ended { .. }));
            }
            while let Some(event) = client.poll_event() {
                losses += usize::from(matches!(event, ClientEvent::Lost { .. }));
            }
        }
        prop_assert!(ends <= 1 && losses <= 1);
        prop_assert_eq!(server.data().has_ended(), ends == 1);
        prop_assert_eq!(client.data().is_gone(id), losses == 1);
    }
}
