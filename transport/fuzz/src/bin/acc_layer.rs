//! TCP-ACC's layer on two hosts, whatever the network between them does, strangers send, and a third host says that has the key. What
//! is delivered was sent, once; what is forged or replayed is counted and nothing else; little is held, and nobody who is unknown is
//! answered with more than was sent.
#![no_main]

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use weir_fuzz::Bytes;
use weir_fuzz::acc::Hostile;
use weir_proto::Time;
use weir_proto::acc::packet::{Look, Pair, checksum, restore};
use weir_proto::acc::redundancy::Policy;
use weir_proto::acc::{Arrival, Config, Event, Layer, Outbox, Strategy};
use weir_proto::ecn::Codepoint;
use wire::acc::{Content, Packet, Patience, Report};

const MOST_STEPS: usize = 300;
const MOST_PEERS: usize = 3;
const MOST_FLOWS: usize = 4;
const MOST_HELD: usize = 30_000;
const KEY: [u8; 32] = [5; 32];
const PORT: u16 = 4881;
/// Flows that nobody sends in are forgotten after a minute.
const SOON: Duration = Duration::from_secs(50);
const HEADERS: usize = 40;

fn host(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

/// The hostile host.
const THIRD: u8 = 3;

/// The pair of one of the two hosts and the other one.
fn pair(which: usize) -> Pair {
    Pair { local: host(1 + which as u8), remote: host(2 - which as u8) }
}

#[derive(Clone)]
struct Flying {
    bytes: Vec<u8>,
    came: bool,
}

/// What came of a datagram.
#[derive(Debug, PartialEq)]
struct Outcome {
    delivered: usize,
    sent_bytes: usize,
    not_taken: u64,
}

struct World {
    now: Time,
    layers: [Layer; 2],
    up: [bool; 2],
    /// Datagrams to each of them.
    flying: [Vec<Flying>; 2],
    /// Packets of each of them.
    sent: [Sent; 2],
    third: Hostile,
    /// So far nothing was forgotten.
    calm: bool,
}

/// What a host has sent, and whether it was delivered.
#[derive(Default)]
struct Sent {
    packets: HashMap<Vec<u8>, bool>,
    twice: usize,
}

/// Takes what is delivered over a pair.
fn take_delivered(sent: &mut Sent, which: usize, over: &Pair, carried: &[u8]) {
    if over.remote == host(THIRD) {
        let mut packet = Vec::new();
        let _ = restore(over, Codepoint::NotEct, carried, &mut packet);
        return;
    }
    assert_eq!(*over, pair(which));
    let mut packet = Vec::new();
    restore(over, Codepoint::NotEct, carried, &mut packet).expect("it was a packet");
    let was = sent.packets.get_mut(&packet).expect("it was sent");
    sent.twice += usize::from(std::mem::replace(was, true));
}

fn not_taken(layer: &Layer) -> u64 {
    let counters = layer.counters();
    counters.malformed + counters.unknown + counters.forged + counters.refused
}

impl World {
    /// Two hosts that are each other's peers.
    fn new(config: &Config) -> Self {
        let layer = |n| Layer::new(config.clone(), &[n; 32]);
        let mut world = World {
            now: Time::from_nanos(1_000_000_000),
            layers: [layer(1), layer(2)],
            up: [false; 2],
            flying: Default::default(),
            sent: Default::default(),
            third: Hostile::new(&KEY, Pair { local: host(THIRD), remote: host(1) }),
            calm: true,
        };
        let mut out = Outbox::default();
        world.layers[0].look_for(world.now, pair(0), true, &mut out);
        world.flush(0, &mut out);
        for which in [1, 0, 1] {
            let flying = world.flying[which].remove(0);
            assert_eq!(world.receive(which, host(2 - which as u8), flying.bytes).not_taken, 0);
        }
        assert_eq!(world.up, [true; 2]);
        let probe = world.third.probe();
        world.receive(0, host(THIRD), probe);
        world
    }

    /// Sees to what a layer has to say and to send. How many bytes that was.
    fn flush(&mut self, which: usize, out: &mut Outbox) -> usize {
        let World { flying, third, .. } = self;
        let mut bytes = 0;
        out.drain(|burst| {
            bytes += burst.bytes.len();
            assert_eq!((burst.way.from, burst.way.to.port()), (host(1 + which as u8), PORT));
            for one in burst.bytes.chunks(burst.segment_bytes) {
                if burst.way.to.ip() == host(2 - which as u8) {
                    flying[1 - which].push(Flying { bytes: one.to_vec(), came: false });
                } else if burst.way.to.ip() == host(THIRD) {
                    third.take(one);
                }
            }
        });
        while let Some(event) = self.layers[which].poll_event() {
            let (over, up) = match event {
                Event::Up(over) => (over, true),
                Event::Down(over, _) => (over, false),
            };
            if over == pair(which) {
                assert_ne!(std::mem::replace(&mut self.up[which], up), up, "it is no news");
                self.calm &= up;
            }
        }
        let layer = &self.layers[which];
        self.calm &= layer.counters().evicted == 0;
        assert!(layer.held_bytes() <= MOST_HELD, "{} bytes", layer.held_bytes());
        let (mut peers, mut held) = (0, 0);
        for peer in layer.peers() {
            peers += 1;
            held += peer.held_bytes;
            assert!(peer.flows.len() <= MOST_FLOWS && (0.0..=1.0).contains(&peer.loss));
        }
        assert!(peers <= MOST_PEERS);
        assert_eq!(held, layer.held_bytes());
        if self.calm {
            assert_eq!(self.sent[1 - which].twice, 0, "delivered twice");
        }
        bytes
    }

    fn receive(&mut self, which: usize, from: IpAddr, mut datagram: Vec<u8>) -> Outcome {
        let mut out = Outbox::default();
        let World { layers, sent, now, .. } = self;
        let over = Pair { remote: from, ..pair(which) };
        let before = not_taken(&layers[which]);
        let mut delivered = 0;
        layers[which].receive(
            *now,
            Arrival { pair: over, port: PORT, ecn: Codepoint::NotEct },
            &mut datagram,
            &mut out,
            &mut |over, _, carried| {
                take_delivered(&mut sent[1 - which], which, over, carried);
                delivered += 1;
            },
        );
        let not_taken = not_taken(&layers[which]) - before;
        Outcome { delivered, not_taken, sent_bytes: self.flush(which, &mut out) }
    }

    /// One that is not the peer's, or was changed: it is counted.
    fn refuse(&mut self, which: usize, from: IpAddr, datagram: Vec<u8>) {
        let held = self.layers[which].held_bytes();
        let outcome = self.receive(which, from, datagram);
        assert_eq!(outcome, Outcome { delivered: 0, sent_bytes: 0, not_taken: 1 });
        assert_eq!(self.layers[which].held_bytes(), held);
    }

    fn send(&mut self, which: usize, packet: Vec<u8>) {
        let Ok(look) = Look::at(&packet[..HEADERS]) else { panic!("it is a packet") };
        let mut out = Outbox::default();
        let (head, rest) = packet.split_at(HEADERS);
        let taken = self.layers[which].send(self.now, &look, head, rest, &mut out);
        assert_eq!(taken, self.up[which]);
        self.sent[which].packets.entry(packet).or_insert(false);
        self.flush(which, &mut out);
    }

    fn pass(&mut self, by: Duration) {
        self.now = self.now + by;
        self.calm &= self.now.since(Time::ZERO) < SOON;
        for which in 0..2 {
            let mut out = Outbox::default();
            for n in 0.. {
                assert!(n < 10, "it never comes to rest");
                let World { layers, sent, now, .. } = self;
                let layer = &mut layers[which];
                if layer.poll_timeout().is_none_or(|at| at > *now) {
                    break;
                }
                layer.handle_timeout(*now, &mut out, &mut |over, _, carried| {
                    take_delivered(&mut sent[1 - which], which, over, carried);
                });
            }
            self.flush(which, &mut out);
        }
    }
}

/// A packet like no other of so many bytes after its headers.
fn packet(which: usize, number: u32, flow: u8, flags: u8, protocol: u8, data: usize) -> Vec<u8> {
    let data = data.min(65_535 - HEADERS);
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 61, protocol, 0, 0];
    packet[2..4].copy_from_slice(&((HEADERS + data) as u16).to_be_bytes());
    packet.extend([10, 0, 0, 1 + which as u8, 10, 0, 0, 2 - which as u8]);
    let sum = !checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    // A connection is of both directions.
    let mut ports = [[1, flow], [0, 80]];
    ports.rotate_left(which);
    packet.extend(ports.concat());
    packet.extend(number.to_be_bytes());
    packet.extend([0, 0, 0, 0, 0x50, flags, 1, 1, 0, 0, 0, 0]);
    packet.resize(HEADERS + data, number as u8);
    packet
}

fn content(bytes: &mut Bytes<'_>) -> Content {
    let flow = u32::from(bytes.byte() % 6);
    let number = match bytes.byte() % 4 {
        0 => bytes.number(4) as u32,
        1 => bytes.number(1) as u32 | 0xffff_ff00,
        _ => bytes.number(1) as u32,
    };
    match bytes.byte() % 8 {
        0 => Content::Plain,
        1..4 => {
            let back = bytes.number(1 + flow as usize % 2) as u16;
            let patience = Patience::of(Duration::from_micros(bytes.number(2)));
            Content::Numbered { flow, number, back, patience }
        }
        4 if bytes.byte() == 0 => Content::Farewell,
        _ => Content::Coded { flow, first: number, count: bytes.byte() % 36, seed: bytes.byte() },
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Bytes(bytes);
    let strategy = match bytes.byte() % 5 {
        0 => Strategy::Off,
        1 => Strategy::Corrective,
        2 => Strategy::Important(3),
        _ => Strategy::Complementary(Policy::default()),
    };
    let config = Config {
        max_peers: MOST_PEERS,
        max_flows: 1 + usize::from(bytes.byte()) % MOST_FLOWS,
        max_held_bytes: MOST_HELD,
        ..Config::new(KEY, strategy)
    };
    let mut world = World::new(&config);
    for step in 0..MOST_STEPS as u32 {
        if bytes.is_empty() {
            break;
        }
        let which = usize::from(bytes.byte() % 2);
        let peer = host(2 - which as u8);
        match bytes.byte() % 20 {
            0..5 => {
                let (flow, what) = (bytes.byte() % 6, bytes.byte());
                let flags = if what & 1 == 0 { 0x10 } else { bytes.byte() };
                let protocol = if what & 0xe == 0xe { 17 } else { 6 };
                let data =
                    if what >> 4 == 15 { bytes.number(2) as usize } else { usize::from(what >> 4) * 10 };
                for n in 0..if what >> 4 == 15 { 1 } else { 1 + (what >> 5) } {
                    world.send(which, packet(which, step << 8 | u32::from(n), flow, flags, protocol, data));
                }
            }
            5..11 => {
                let flying = &mut world.flying[which];
                if flying.is_empty() {
                    continue;
                }
                let at = usize::from(bytes.byte()) % flying.len();
                let Flying { bytes: mut datagram, came } = flying[at].clone();
                match bytes.byte() % 16 {
                    0 => {
                        let (at, by) = (bytes.number(2) as usize % datagram.len(), bytes.byte().max(1));
                        datagram[at] ^= by;
                        world.refuse(which, peer, datagram);
                    }
                    1 => {
                        datagram.truncate(bytes.number(2) as usize % datagram.len());
                        world.refuse(which, peer, datagram);
                    }
                    2 => world.refuse(which, host(THIRD + bytes.byte() % 3), datagram),
                    3 => {
                        flying.remove(at);
                    }
                    4..8 => {
                        flying[at].came = true;
                        let (len, is_hello) = (datagram.len(), datagram[0] & 0xf0 == 0xa0);
                        let outcome = world.receive(which, peer, datagram);
                        if came && is_hello {
                            // A probe is answered again, an answer was asked for once.
                            assert!(outcome.delivered == 0 && outcome.sent_bytes <= len);
                        } else if came {
                            assert_eq!(outcome, Outcome { delivered: 0, sent_bytes: 0, not_taken: 1 });
                        }
                    }
                    _ => {
                        // All that were sent up to it.
                        for one in flying.drain(..=at).collect::<Vec<_>>() {
                            world.receive(which, peer, one.bytes);
                        }
                    }
                }
            }
            11 => {
                let from = if bytes.byte() % 2 == 0 { peer } else { host(bytes.byte()) };
                let mut datagram = bytes.some();
                // One that is, or might be.
                if let Some(genuine) = world.flying[which].first().filter(|_| bytes.byte() % 2 == 0) {
                    datagram.splice(..0, genuine.bytes[..8.min(genuine.bytes.len())].iter().copied());
                }
                world.refuse(which, from, datagram);
            }
            12 => world.pass(Duration::from_micros(bytes.number(2))),
            13 => world.pass(Duration::from_millis(bytes.number(2) >> (bytes.byte() % 16))),
            14 => {
                let probe = world.third.probe();
                let len = probe.len();
                assert!(world.receive(0, host(THIRD), probe).sent_bytes <= len);
            }
            15..18 => {
                let what = bytes.byte();
                let report = (what & 1 != 0).then(|| Report {
                    flow: u32::from(what >> 4),
                    next: bytes.number(1) as u32,
                    ahead: bytes.number(1) as u16,
                    lost: bytes.number(1) as u32,
                });
                let content = content(&mut bytes);
                let mut body = bytes.some();
                if what & 4 != 0 {
                    body.resize(body.len() + 1300, what);
                }
                let body = if content == Content::Farewell { Vec::new() } else { body };
                let packet = Packet { report, content, body: &body };
                if bytes.byte() == 0 {
                    world.third.counter += bytes.number(5);
                }
                if let Some(datagram) = world.third.seal(&packet) {
                    world.receive(0, host(THIRD), datagram);
                }
            }
            18 => {
                // A host sends to the hostile one, which may then report.
                let mut data = packet(0, step, bytes.byte() % 6, 0x10, 6, 100);
                data[19] = THIRD;
                let look = Look::at(&data[..HEADERS]).expect("it is a packet");
                let mut out = Outbox::default();
                world.layers[0].send(world.now, &look, &data[..HEADERS], &data[HEADERS..], &mut out);
                world.flush(0, &mut out);
            }
            _ => {
                let mut out = Outbox::default();
                let over = Pair { remote: host(2 - which as u8 + bytes.byte() % 3), ..pair(which) };
                match bytes.byte() {
                    0..8 => world.layers[which].leave(&mut out),
                    8..16 => world.layers[which].unreachable(world.now, over.remote),
                    _ if over.remote != over.local => {
                        let for_ever = bytes.byte() % 2 == 0;
                        world.layers[which].look_for(world.now, over, for_ever, &mut out);
                    }
                    _ => {}
                }
                world.flush(which, &mut out);
            }
        }
    }
});
