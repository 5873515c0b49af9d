use std::collections::BTreeMap;
use std::net::IpAddr;

use super::super::SenderCounters;
use super::super::packet::restore;
use super::super::redundancy::Policy;
use super::peer::REFUSED;
use super::*;

mod weather;

const MS: Duration = Duration::from_millis(1);

fn address(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

/// A packet of TCP from host `from` to host `to`, connection `port`, with `data`.
fn tcp(from: u8, to: u8, port: u16, data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to];
    let length = (40 + data.len()) as u16;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    let sum = !packet::checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let ports = if from < to { [port, 80] } else { [80, port] };
    packet.extend(ports.map(u16::to_be_bytes).concat());
    packet.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    packet.extend_from_slice(data);
    packet
}

type Loses = Box<dyn FnMut(u8, u8, &[u8]) -> bool>;

/// Hosts 1, 2, ... with a layer each, and datagrams that take a millisecond between them.
struct Hosts {
    now: Time,
    layers: BTreeMap<u8, Layer>,
    /// When each comes: from whom to whom.
    under_way: Vec<(Time, u8, u8, Vec<u8>)>,
    /// What each host was given.
    given: BTreeMap<u8, Vec<Vec<u8>>>,
    events: Vec<(u8, Event)>,
    sent_bytes: u64,
    /// Whether a datagram is lost.
    loses: Loses,
    delay: Box<dyn FnMut() -> Duration>,
}

fn config() -> Config {
    Config::new([7; KEY_BYTES], Strategy::Complementary(Policy::default()))
}

impl Hosts {
    fn new(configs: &[Config]) -> Self {
        let layer = |(n, config): (usize, &Config)| (n as u8 + 1, Layer::new(config.clone(), &[n as u8; 32]));
        Hosts {
            now: Time::from_nanos(1_000_000_000),
            layers: configs.iter().enumerate().map(layer).collect(),
            under_way: Vec::new(),
            given: BTreeMap::new(),
            events: Vec::new(),
            sent_bytes: 0,
            loses: Box::new(|_, _, _| false),
            delay: Box::new(|| MS),
        }
    }

    /// Two that know each other.
    fn pair() -> Self {
        let mut hosts = Hosts::new(&[config(), config()]);
        hosts.look_for(1, 2, false);
        hosts.run(10 * MS);
        let up = |host, other| (host, Event::Up(Pair { local: address(host), remote: address(other) }));
        assert_eq!(hosts.events, [up(1, 2), up(2, 1)]);
        hosts.events.clear();
        hosts
    }

    fn look_for(&mut self, host: u8, other: u8, for_ever: bool) {
        let pair = Pair { local: address(host), remote: address(other) };
        self.with(host, |layer, now, out| layer.look_for(now, pair, for_ever, out));
    }

    /// Has a host do something, and carries what comes of it.
    fn with<T>(&mut self, host: u8, act: impl FnOnce(&mut Layer, Time, &mut Outbox) -> T) -> T {
        let (mut out, layer) = (Outbox::default(), self.layers.get_mut(&host).unwrap());
        let done = act(layer, self.now, &mut out);
        while let Some(event) = layer.poll_event() {
            self.events.push((host, event));
        }
        let mut datagrams = Vec::new();
        out.drain(|burst| {
            let IpAddr::V4(to) = burst.way.to.ip() else { unreachable!("all are of IPv4") };
            assert_eq!((burst.way.from, burst.way.to.port()), (address(host), DEFAULT_PORT));
            datagrams
                .extend(burst.bytes.chunks(burst.segment_bytes).map(|one| (to.octets()[3], one.to_vec())));
        });
        for (to, datagram) in datagrams {
            self.sent_bytes += datagram.len() as u64;
            if !(self.loses)(host, to, &datagram) {
                self.under_way.push((self.now + (self.delay)(), host, to, datagram));
            }
        }
        done
    }

    fn send(&mut self, packet: &[u8]) -> bool {
        // In two parts, as it comes from a device.
        let (head, rest) = packet.split_at(40);
        let look = Look::at(head).unwrap();
        self.with(packet[15], |layer, now, out| layer.send(now, &look, head, rest, out))
    }

    /// A datagram comes to a host.
    fn come(&mut self, from: u8, to: u8, datagram: &[u8]) {
        let pair = Pair { local: address(to), remote: address(from) };
        let (mut datagram, mut given) = (datagram.to_vec(), Vec::new());
        if !self.layers.contains_key(&to) {
            return;
        }
        self.with(to, |layer, now, out| {
            let mut deliver = |pair: &Pair, ecn, carried: &[u8]| {
                let mut packet = Vec::new();
                restore(pair, ecn, carried, &mut packet).unwrap();
                given.push(packet);
            };
            let arrival = Arrival { pair, port: DEFAULT_PORT, ecn: Codepoint::NotEct };
            layer.receive(now, arrival, &mut datagram, out, &mut deliver);
        });
        self.given.entry(to).or_default().extend(given);
    }

    fn given(&mut self, host: u8) -> Vec<Vec<u8>> {
        self.given.remove(&host).unwrap_or_default()
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let comes = self.under_way.iter().map(|one| one.0).min();
            let due = self.layers.values().filter_map(Layer::poll_timeout).min();
            let Some(next) = comes.into_iter().chain(due).min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(at) = self.under_way.iter().position(|one| one.0 <= self.now) {
                let (_, from, to, datagram) = self.under_way.remove(at);
                self.come(from, to, &datagram);
            }
            for host in self.layers.keys().copied().collect::<Vec<_>>() {
                let mut given = Vec::new();
                self.with(host, |layer, now, out| {
                    if layer.poll_timeout().is_some_and(|at| at <= now) {
                        layer.handle_timeout(now, out, &mut |pair, ecn, carried| {
                            let mut packet = Vec::new();
                            restore(pair, ecn, carried, &mut packet).unwrap();
                            given.push(packet);
                        });
                        assert!(layer.poll_timeout().is_none_or(|at| at > now), "a turn that does not end");
                    }
                });
                self.given.entry(host).or_default().extend(given);
            }
        }
        self.now = end;
    }

    fn counters(&self, host: u8) -> Counters {
        self.layers[&host].counters()
    }

    fn peer(&self, host: u8) -> PeerStatistics {
        self.layers[&host].peers().next().unwrap()
    }
}

#[test]
fn packets_reach_a_peer_as_they_were_sent() {
    let mut hosts = Hosts::pair();
    let sent: Vec<_> =
        (0..50).map(|n| tcp(1, 2, 1000 + n % 3, &vec![n as u8; usize::from(n) * 20])).collect();
    for packet in &sent {
        assert!(hosts.send(packet));
    }
    hosts.run(10 * MS);
    assert_eq!(hosts.given(2), sent);
    assert_eq!(hosts.peer(1).sender.at_ends + hosts.peer(1).sender.on_losses, 0, "nothing was lost");
    assert_eq!(hosts.peer(1).rtt, Some(2 * MS));
    assert!(!hosts.send(&tcp(1, 3, 1000, b"nobody knows it")));
}

#[test]
fn answers_that_are_late_are_nobody_elses() {
    // The probe is sent again after 50 ms, and again after 100 more.
    for (delay, up) in [(40, true), (100, true), (200, false)] {
        let mut hosts = Hosts::new(&[config(), config()]);
        hosts.delay = Box::new(move || delay * MS);
        hosts.look_for(1, 2, false);
        hosts.run(Duration::from_secs(2));
        assert_eq!(!hosts.events.is_empty(), up, "{delay} ms");
        assert_eq!(hosts.counters(1).refused, 0, "{delay} ms");
    }
}

#[test]
fn hosts_with_another_key_and_those_who_are_silent_are_no_peers() {
    let other = Config { key: [8; KEY_BYTES], ..config() };
    let mut hosts = Hosts::new(&[config(), other]);
    hosts.look_for(1, 2, false);
    hosts.look_for(1, 3, false);
    hosts.run(Duration::from_secs(2));
    assert_eq!(hosts.events, []);
    assert_eq!(hosts.counters(2).refused, 3, "it was asked three times");
    assert!(!hosts.send(&tcp(1, 2, 1000, b"data")));
    let sent = hosts.sent_bytes;
    hosts.look_for(1, 2, false);
    hosts.run(Duration::from_secs(20));
    assert_eq!(hosts.sent_bytes, sent, "it is not asked again so soon");
    hosts.run(Duration::from_secs(20));
    hosts.look_for(1, 2, false);
    assert!(hosts.sent_bytes > sent);
}

#[test]
fn a_peer_that_is_to_be_one_is_asked_until_it_is() {
    let mut hosts = Hosts::new(&[config(), config()]);
    let second = hosts.layers.remove(&2).unwrap();
    hosts.look_for(1, 2, true);
    hosts.run(Duration::from_secs(100));
    assert_eq!(hosts.events, []);
    hosts.layers.insert(2, second);
    hosts.run(Duration::from_secs(3));
    assert_eq!(hosts.events.len(), 2);
}

#[test]
fn a_peer_that_has_gone_is_found_out_within_half_a_second() {
    let mut hosts = Hosts::pair();
    hosts.send(&tcp(1, 2, 1000, b"data"));
    hosts.run(10 * MS);
    hosts.send(&tcp(2, 1, 1000, b""));
    hosts.run(10 * MS);
    hosts.given.clear();
    hosts.layers.remove(&2);
    hosts.send(&tcp(1, 2, 1000, b"more"));
    hosts.run(430 * MS);
    assert_eq!(hosts.events, []);
    hosts.run(40 * MS);
    let pair = Pair { local: address(1), remote: address(2) };
    assert_eq!(hosts.events, [(1, Event::Down(pair, Why::Silent))]);
    assert!(!hosts.send(&tcp(1, 2, 1000, b"more")));
    // Another one takes its place.
    hosts.layers.insert(2, Layer::new(config(), &[9; 32]));
    hosts.events.clear();
    hosts.look_for(2, 1, false);
    hosts.run(10 * MS);
    assert_eq!(hosts.events.len(), 2);
    assert!(hosts.send(&tcp(1, 2, 1000, b"data")));
    hosts.run(10 * MS);
    assert_eq!(hosts.given(2).len(), 1);
}

#[test]
fn a_peer_that_has_been_started_again_is_one_again_at_once() {
    let mut hosts = Hosts::pair();
    hosts.layers.insert(2, Layer::new(config(), &[9; 32]));
    hosts.send(&tcp(1, 2, 1000, b"missed"));
    hosts.run(160 * MS);
    hosts.send(&tcp(1, 2, 1000, b"data"));
    hosts.run(10 * MS);
    assert_eq!(hosts.given(2), [tcp(1, 2, 1000, b"data")]);
    assert_eq!(hosts.events.len(), 1, "the one that did not know the other: {:?}", hosts.events);
}

#[test]
fn farewells_and_the_network_end_it_at_once() {
    let pair = Pair { local: address(1), remote: address(2) };
    let mut hosts = Hosts::pair();
    hosts.with(2, |layer, _, out| layer.leave(out));
    hosts.run(2 * MS);
    assert_eq!(hosts.events, [(1, Event::Down(pair, Why::Left))]);
    let mut hosts = Hosts::pair();
    hosts.with(1, |layer, now, _| layer.unreachable(now, address(2)));
    assert_eq!(hosts.events, [(1, Event::Down(pair, Why::Unreachable))]);
}

#[test]
fn one_that_only_hears_is_no_reason_to_ask() {
    let mut hosts = Hosts::pair();
    for _ in 0..100 {
        hosts.send(&tcp(1, 2, 1000, b"data"));
        hosts.run(10 * MS);
        // Its acknowledgements bear reports.
        hosts.send(&tcp(2, 1, 1000, b""));
        hosts.run(10 * MS);
    }
    let hello = hosts.sent_bytes;
    hosts.run(Duration::from_secs(30));
    assert_eq!(hosts.sent_bytes, hello, "nobody says anything");
    assert_eq!(hosts.peer(2).receiver.came, 100);
}

#[test]
fn lost_packets_are_back_after_a_round_trip_and_in_order() {
    let mut hosts = Hosts::pair();
    hosts.loses = Box::new(|from, _, datagram| from == 1 && datagram.len() == 8 + 11 + 3 + 20 + 99 + 16);
    let send = |hosts: &mut Hosts| {
        hosts.send(&tcp(1, 2, 1000, &[0; 99]));
        for n in 1..10 {
            hosts.send(&tcp(1, 2, 1000, &[n; 98]));
        }
    };
    // The first loss of a path is a queue's, for all that is known: TCP hears of it at once.
    send(&mut hosts);
    hosts.run(Duration::from_micros(1_100));
    assert_eq!(hosts.given(2).len(), 9);
    hosts.send(&tcp(2, 1, 1000, b""));
    hosts.run(10 * MS);
    hosts.given.clear();
    let before = hosts.peer(2).receiver.recovered;
    send(&mut hosts);
    hosts.run(Duration::from_micros(2_900));
    assert_eq!(hosts.given(2), Vec::<Vec<u8>>::new(), "all wait");
    hosts.run(Duration::from_micros(200));
    let given = hosts.given(2);
    assert_eq!(given.len(), 10);
    assert_eq!(given[0], tcp(1, 2, 1000, &[0; 99]));
    let peer = hosts.peer(2);
    assert_eq!((peer.lost, peer.receiver.recovered), (2, before + 1));
    assert!(hosts.peer(1).loss > 0.0);
}

#[test]
fn forged_and_replayed_datagrams_are_dropped_and_counted() {
    let mut hosts = Hosts::pair();
    hosts.send(&tcp(1, 2, 1000, b"data"));
    let (_, _, _, genuine) = hosts.under_way[0].clone();
    hosts.run(2 * MS);
    assert_eq!(hosts.given(2).len(), 1);
    hosts.come(1, 2, &genuine);
    for at in 0..genuine.len() {
        let mut forged = genuine.clone();
        forged[at] ^= 0x10;
        hosts.come(1, 2, &forged);
    }
    hosts.come(3, 2, &genuine);
    assert_eq!(hosts.given(2), Vec::<Vec<u8>>::new());
    let Counters { malformed, unknown, forged, refused, .. } = hosts.counters(2);
    assert_eq!(malformed + unknown + forged + refused, 2 + genuine.len() as u64);
    assert!(forged > 30 && unknown >= 1);
    hosts.events.clear();
    hosts.run(Duration::from_secs(1));
    assert_eq!(hosts.events, [], "and nothing has come of it");
}

#[test]
fn a_replayed_probe_is_answered_with_no_more_and_changes_nothing() {
    let mut hosts = Hosts::new(&[config(), config()]);
    hosts.look_for(1, 2, false);
    let (_, _, _, probe) = hosts.under_way[0].clone();
    hosts.run(10 * MS);
    for _ in 0..5 {
        let before = hosts.sent_bytes;
        hosts.come(1, 2, &probe);
        assert!(hosts.sent_bytes - before <= probe.len() as u64, "no amplification");
        hosts.run(5 * MS);
        hosts.send(&tcp(2, 1, 1000, b"data"));
        hosts.run(5 * MS);
        assert_eq!(hosts.given(1).len(), 1);
    }
    // From another address it is nothing.
    let before = hosts.sent_bytes;
    hosts.come(3, 2, &probe);
    assert_eq!(hosts.sent_bytes, before);
}

#[test]
fn a_packet_that_is_too_long_to_be_coded_is_carried_without_a_number() {
    let mut hosts = Hosts::pair();
    let long = tcp(1, 2, 1000, &[7; 65_490]);
    let flows = |hosts: &Hosts| hosts.peer(1).flows.len();
    hosts.send(&long);
    assert_eq!((flows(&hosts), hosts.peer(1).sent), (1, 1));
    let head = &long[..40];
    let look = Look::at(head).unwrap();
    let done = hosts.with(1, |layer, now, out| layer.send(now, &look, head, &[1; 65_535], out));
    assert!(done);
    assert_eq!((flows(&hosts), hosts.peer(1).sender), (1, SenderCounters::default()));
}

#[test]
fn a_host_that_has_asked_and_says_nothing_more_is_forgotten() {
    let mut hosts = Hosts::new(&[config(), config()]);
    hosts.look_for(1, 2, false);
    hosts.loses = Box::new(|from, _, _| from == 2);
    hosts.run(10 * MS);
    hosts.layers.remove(&1);
    assert_eq!((hosts.layers[&2].peers.len(), hosts.layers[&2].sessions.len()), (1, 1));
    let sent = hosts.sent_bytes;
    hosts.look_for(2, 1, false);
    assert_eq!(hosts.sent_bytes, sent, "it has just asked");
    hosts.run(REFUSED + MS);
    assert_eq!((hosts.layers[&2].peers.len(), hosts.layers[&2].sessions.len()), (0, 0));
    assert_eq!(hosts.layers[&2].poll_timeout(), None);
    hosts.look_for(2, 1, false);
    assert!(hosts.sent_bytes > sent);
}

#[test]
fn reports_are_understood_however_long_a_flow_goes_on() {
    for sent in [100, 1 << 31, (1 << 32) + 5, (5 << 32) - 3_u64] {
        for lost in [7, (sent / 2), sent] {
            let feedback = Feedback { next: sent + 9, through: sent + 20, lost: lost + 5 };
            let report =
                Report { flow: 0, next: feedback.next as u32, ahead: 11, lost: feedback.lost as u32 };
            assert_eq!(feedback_of(&report, sent, lost), feedback);
        }
    }
}

#[test]
fn flows_that_are_over_make_room_for_others() {
    let few = Config { max_flows: 8, ..config() };
    let mut hosts = Hosts::new(&[few.clone(), few]);
    hosts.look_for(1, 2, false);
    hosts.run(10 * MS);
    for second in 0..10 {
        for flow in 0..16 {
            hosts.send(&tcp(1, 2, 1000 + 16 * second + flow, b"request"));
        }
        hosts.run(Duration::from_millis(1100));
        assert_eq!(hosts.counters(1).unnumbered, u64::from(8 * (second + 1)), "half of them, each time");
    }
    assert_eq!(hosts.given(2).len(), 160);
}

#[test]
fn what_peers_make_it_hold_is_bounded() {
    let bounded = Config { max_held_bytes: 100_000, max_flows: 8, ..config() };
    let mut hosts = Hosts::new(&[Config { max_flows: 1000, ..config() }, bounded]);
    hosts.look_for(1, 2, false);
    hosts.run(10 * MS);
    // Each first packet is lost, so that the others wait.
    for flow in 0..100 {
        hosts.loses = Box::new(|_, _, datagram| datagram.len() > 500);
        hosts.send(&tcp(1, 2, 1000 + flow, &[1; 600]));
        hosts.loses = Box::new(|_, _, _| false);
        for _ in 0..60 {
            hosts.send(&tcp(1, 2, 1000 + flow, &[2; 400]));
        }
        hosts.loses = Box::new(|from, _, _| from == 2);
        hosts.run(MS);
        assert!(hosts.layers[&2].held_bytes() <= 100_000);
    }
    assert!(hosts.counters(2).evicted > 0);
    hosts.run(Duration::from_millis(20));
    assert_eq!(
        hosts.given(2).iter().filter(|packet| packet.len() == 440).count(),
        6000,
        "none is lost by that"
    );
}

#[test]
fn keys_are_changed_while_packets_flow() {
    let mut hosts = Hosts::pair();
    for _ in 0..40 {
        hosts.run(Duration::from_secs(300));
        hosts.send(&tcp(1, 2, 1000, b"data"));
        hosts.send(&tcp(2, 1, 1000, b"data"));
        hosts.run(5 * MS);
        assert_eq!((hosts.given(1).len(), hosts.given(2).len()), (1, 1));
    }
    assert_eq!(hosts.events, []);
}
