//! ATP over all kinds of networks: every stream arrives once, whole and in order; short flows are spared the timeout.

mod common;

use std::time::Duration;

use common::{MS, SECOND, bytes};
use proptest::prelude::*;
use proto::atp::{ConnectionConfig, Counters, StreamId};
use proto::protect::Side;
use weir_sim::atp::AtpNode;
use weir_sim::{Discipline, Faults, LinkConfig, LinkId, Loss, Network, NodeId, Rng, Spike, Time};

const CLIENT: NodeId = NodeId(0);
const SERVER: NodeId = NodeId(1);

/// A client and a server, and the links from one to the other and back.
struct Pair {
    network: Network,
    forth: LinkId,
    back: LinkId,
}

impl Pair {
    fn new(seed: u64, client: ConnectionConfig, server: ConnectionConfig, link: LinkConfig) -> Self {
        let mut network = Network::new(seed);
        assert_eq!(network.add(AtpNode::new(Side::Client, SERVER, client)), CLIENT);
        assert_eq!(network.add(AtpNode::new(Side::Server, CLIENT, server)), SERVER);
        let forth = network.add_link(link);
        let back = network.add_link(link);
        network.route(CLIENT, SERVER, &[forth]);
        network.route(SERVER, CLIENT, &[back]);
        Pair { network, forth, back }
    }

    fn over(seed: u64, link: LinkConfig) -> Self {
        Pair::new(seed, ConnectionConfig::default(), ConnectionConfig::default(), link)
    }

    fn send(&mut self, from: NodeId, bytes: Vec<u8>) {
        self.network.visit(from, |node: &mut AtpNode, now| node.send(now, bytes));
    }

    fn node(&self, id: NodeId) -> &AtpNode {
        self.network.node(id)
    }

    fn counters(&self, id: NodeId) -> Counters {
        self.node(id).connection().counters()
    }

    /// Runs until so many streams have ended at an end. False: they have not in that time.
    fn run_until_ended(&mut self, at: NodeId, streams: usize, within: Duration) -> bool {
        let deadline = self.network.now() + within;
        self.network.run_until(deadline, |network| {
            let got = network.node::<AtpNode>(at).got();
            got.values().filter(|got| got.ended.is_some()).count() >= streams
        })
    }
}

/// The test bed's link: 100 Mb/s, 64 KiB.
fn link() -> LinkConfig {
    LinkConfig::new(100_000_000, MS / 8, 65_536)
}

#[test]
fn a_short_flow_is_sent_at_once_and_followed_by_its_parity() {
    let mut pair = Pair::over(1, link());
    let sent = bytes(1, 8_500);
    pair.send(CLIENT, sent.clone());
    assert!(pair.run_until_ended(SERVER, 1, SECOND));
    let got = &pair.node(SERVER).got()[&StreamId(0)];
    assert_eq!(got.bytes, sent);
    // Eight packets with all around them: no parity is before the last of them.
    let wire = Duration::from_nanos(8 * (8_500 / 8 + 42 + 60) * 80);
    let took = got.ended.unwrap().since(Time::ZERO);
    assert!(took < wire + MS / 8 + MS / 100, "{took:?} for {wire:?}");
    pair.network.run_for(SECOND);
    let counters = pair.counters(CLIENT);
    assert_eq!((counters.parity, counters.sent), (3, 11), "{counters:?}");
    assert_eq!((counters.timeouts, counters.requested), (0, 0));
    assert!(pair.node(CLIENT).is_done());
}

#[test]
fn any_one_loss_of_a_short_flow_is_repaired_without_asking() {
    for lost in 0..11 {
        let mut pair = Pair::over(1, link());
        pair.network.link_mut(pair.forth).faults =
            Faults { loss: Loss::of_numbers([lost]), ..Faults::default() };
        let sent = bytes(1, 8_500);
        pair.send(CLIENT, sent.clone());
        assert!(pair.run_until_ended(SERVER, 1, 2 * MS), "{lost}");
        assert_eq!(pair.node(SERVER).got()[&StreamId(0)].bytes, sent);
        pair.network.run_for(SECOND);
        let (client, server) = (pair.counters(CLIENT), pair.counters(SERVER));
        assert_eq!((server.repaired, client.repaired_at_peer), (u64::from(lost < 8), u64::from(lost < 8)));
        assert!(client.timeouts == 0 || lost == 10, "{lost}: {client:?}");
    }
}

#[test]
fn what_parity_cannot_repair_is_asked_for_before_the_sender_gives_up_waiting() {
    // Pairs within a group of three, among them the last ones, with all the parity of the flow.
    for lost in [
        vec![0, 3],
        vec![1, 4],
        vec![6, 7, 8, 9, 10],
        vec![5, 6, 7, 8, 9, 10],
        vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    ] {
        let mut pair = Pair::over(1, link());
        pair.network.link_mut(pair.forth).faults =
            Faults { loss: Loss::of_numbers(lost.clone()), ..Faults::default() };
        let sent = bytes(1, 8_500);
        pair.send(CLIENT, sent.clone());
        assert!(pair.run_until_ended(SERVER, 1, 8 * MS), "{lost:?}");
        assert_eq!(pair.node(SERVER).got()[&StreamId(0)].bytes, sent);
        let counters = pair.counters(CLIENT);
        assert_eq!(counters.timeouts, 0, "{lost:?}: {counters:?}");
        assert!(counters.requested > 0);
    }
}

#[test]
fn a_request_that_is_lost_is_made_again() {
    let mut pair = Pair::over(1, link());
    pair.network.link_mut(pair.forth).faults = Faults { loss: Loss::of_numbers([0, 3]), ..Faults::default() };
    let first = Time::ZERO..Time::ZERO + 3 * MS;
    pair.network.link_mut(pair.back).faults = Faults { down: vec![first], ..Faults::default() };
    pair.send(CLIENT, bytes(1, 8_500));
    assert!(pair.run_until_ended(SERVER, 1, 8 * MS));
    assert_eq!(pair.counters(CLIENT).timeouts, 0);
    assert!(pair.counters(SERVER).requests > 1);
}

#[test]
fn where_nothing_arrives_at_all_the_sender_waits_and_tries_again() {
    let mut pair = Pair::over(1, link());
    let first = Time::ZERO..Time::from_nanos(300_000_000);
    pair.network.link_mut(pair.forth).faults = Faults { down: vec![first], ..Faults::default() };
    pair.send(CLIENT, bytes(1, 8_500));
    assert!(pair.run_until_ended(SERVER, 1, 2 * SECOND));
    assert!(pair.counters(CLIENT).timeouts > 0);
}

#[test]
fn a_peer_that_is_gone_is_found_out() {
    let mut pair = Pair::over(1, link());
    pair.network.vanish(SERVER);
    pair.send(CLIENT, bytes(1, 8_500));
    pair.network.run_for(40 * SECOND);
    let closed = pair.node(CLIENT).closed().expect("it is closed");
    assert!(closed.1.to_string().contains("has not been heard for 30 s"), "{}", closed.1);
}

#[test]
fn a_long_flow_fills_its_link_and_grows_its_groups() {
    let mut pair = Pair::over(1, link());
    pair.send(CLIENT, bytes(1, 10_000_000));
    assert!(pair.run_until_ended(SERVER, 1, 10 * SECOND));
    let took = pair.node(SERVER).got()[&StreamId(0)].ended.unwrap().since(Time::ZERO);
    let goodput = 8e7 / took.as_secs_f64();
    let counters = pair.counters(CLIENT);
    println!("{goodput:e} b/s, {counters:?}");
    assert!(goodput > 85e6, "{goodput:e} b/s, {counters:?}");
    assert!(counters.parity * 8 < counters.sent, "{counters:?}");
}

/// A network that is bad in all ways at once.
#[derive(Clone, Debug)]
struct Bad {
    seed: u64,
    bits_per_s: u64,
    delay_us: u64,
    buffer_bytes: u64,
    loss: f64,
    bursts: bool,
    duplicate: f64,
    corrupt: f64,
    reorder: f64,
    spikes: u8,
    busy_us: [u64; 2],
    datagram_bytes: u16,
    window_bytes: u64,
    send_bytes: usize,
    streams: Vec<(bool, usize, Fate)>,
}

/// What becomes of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// It is sent, and answered.
    Whole,
    /// Soon, who sends it gives it up, or who gets it wants no more of it.
    Reset,
    Stopped,
}

fn bad() -> impl Strategy<Value = Bad> {
    let link = (any::<u64>(), 1_000_000..1_000_000_000_u64, 1..50_000_u64, 4_000..200_000_u64);
    let faults = (0.0..0.3, any::<bool>(), 0.0..0.2, 0.0..0.1, 0.0..0.3, 0..3_u8);
    let busy = prop_oneof![Just(0), 0..20_000_u64];
    let ends = (512..9_000_u16, 65_536..1_000_000_u64, 2_000..1_000_000_usize, [busy.clone(), busy]);
    let length = prop_oneof![4 => 0..20_000_usize, 1 => 0..300_000_usize];
    let fate = prop_oneof![4 => Just(Fate::Whole), 1 => Just(Fate::Reset), 1 => Just(Fate::Stopped)];
    let streams = proptest::collection::vec((any::<bool>(), length, fate), 1..10);
    (link, faults, ends, streams).prop_map(|(link, faults, ends, streams)| Bad {
        seed: link.0,
        bits_per_s: link.1,
        delay_us: link.2,
        buffer_bytes: link.3.max(2 * u64::from(ends.0)),
        loss: faults.0,
        bursts: faults.1,
        duplicate: faults.2,
        corrupt: faults.3,
        reorder: faults.4,
        spikes: faults.5,
        datagram_bytes: ends.0,
        window_bytes: ends.1,
        send_bytes: ends.2,
        busy_us: ends.3,
        streams,
    })
}

impl Bad {
    fn faults(&self, rng: &mut Rng) -> Faults {
        let loss = match self.bursts {
            true => Loss::Bursts { fail: self.loss / 3.0, recover: 0.3, good: 0.0, bad: 0.9 },
            false => Loss::Independent(self.loss),
        };
        let spikes = (0..self.spikes).map(|_| {
            let begin = Time::from_nanos(rng.below(400_000_000));
            Spike { during: begin..begin + Duration::from_micros(rng.below(100_000)), delay: 50 * MS }
        });
        Faults {
            loss,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            reorder: self.reorder,
            reorder_by: 10 * MS,
            spikes: spikes.collect(),
            ..Faults::default()
        }
    }

    /// Streams both ways over it; the server answers each with its bytes backwards.
    fn run(&self) {
        let config = ConnectionConfig {
            datagram_bytes: self.datagram_bytes,
            window_bytes: self.window_bytes,
            send_bytes: self.send_bytes,
            idle: 6_000 * SECOND,
            ..ConnectionConfig::default()
        };
        let discipline = Discipline::DropTail;
        let delay = Duration::from_micros(self.delay_us);
        let link = LinkConfig { discipline, ..LinkConfig::new(self.bits_per_s, delay, self.buffer_bytes) };
        let mut network = Network::new(self.seed);
        let backwards = |bytes: &[u8]| bytes.iter().rev().copied().collect::<Vec<u8>>();
        let busy = self.busy_us.map(Duration::from_micros);
        let client = AtpNode::new(Side::Client, SERVER, config.clone()).answering(backwards).busy(busy[0]);
        network.add(client);
        network.add(AtpNode::new(Side::Server, CLIENT, config).answering(backwards).busy(busy[1]));
        let (forth, back) = (network.add_link(link), network.add_link(link));
        network.route(CLIENT, SERVER, &[forth]);
        network.route(SERVER, CLIENT, &[back]);
        let mut rng = network.fork_rng();
        network.link_mut(forth).faults = self.faults(&mut rng);
        network.link_mut(back).faults = self.faults(&mut rng);
        let mut sent = [Vec::new(), Vec::new()];
        let mut unsettled = Vec::new();
        for (n, (client, length, fate)) in self.streams.iter().enumerate() {
            let (from, bytes) = (usize::from(!client), bytes(self.seed ^ n as u64, *length));
            let stream = StreamId(2 * sent[from].len() as u64 + from as u64);
            sent[from].push((bytes.clone(), *fate));
            network.visit(NodeId(from), |node: &mut AtpNode, now| node.send(now, bytes));
            if *fate != Fate::Whole {
                unsettled.push((stream, from, *fate));
            }
            network.run_for(Duration::from_micros(rng.below(20_000)));
            if rng.below(2) == 0 {
                settle(&mut network, &mut unsettled);
            }
        }
        settle(&mut network, &mut unsettled);
        let whole = |sent: &[(Vec<u8>, Fate)], end: usize| {
            let is_whole = |(n, (_, fate)): (usize, &(_, Fate))| {
                (*fate == Fate::Whole).then_some(StreamId(2 * n as u64 + end as u64))
            };
            sent.iter().enumerate().filter_map(is_whole).collect::<Vec<_>>()
        };
        let wanted: Vec<_> = (0..2).flat_map(|end| whole(&sent[end], end)).collect();
        let has_ended = |network: &Network, end: usize, stream: &StreamId| {
            network.node::<AtpNode>(NodeId(end)).got().get(stream).is_some_and(|got| got.ended.is_some())
        };
        let deadline = network.now() + 5_900 * SECOND;
        let done = network.run_until(deadline, |network| {
            let is_done = |end: usize| network.node::<AtpNode>(NodeId(end)).is_done();
            wanted.iter().all(|stream| (0..2).all(|end| has_ended(network, end, stream)))
                && (0..2).all(is_done)
        });
        let counters = [CLIENT, SERVER].map(|end| network.node::<AtpNode>(end).connection().counters());
        assert!(done, "not all has come by {:?}: {counters:?}", network.now());
        for (end, sent) in sent.iter().enumerate() {
            for (n, (bytes, fate)) in sent.iter().enumerate() {
                let stream = StreamId(2 * n as u64 + end as u64);
                let got = |end: usize| network.node::<AtpNode>(NodeId(end)).got().get(&stream);
                if *fate == Fate::Whole || has_ended(&network, 1 - end, &stream) {
                    assert!(got(1 - end).unwrap().bytes == *bytes, "{stream:?} is not what was sent");
                } else if let Some(got) = got(1 - end) {
                    assert!(bytes.starts_with(&got.bytes), "{stream:?} is not what was sent");
                }
                if *fate == Fate::Whole {
                    let answer = got(end).unwrap();
                    assert!(answer.bytes.iter().rev().eq(bytes), "{stream:?}'s answer is not what was sent");
                }
            }
        }
        // Both come to rest, and hold nothing.
        network.run_for(60 * SECOND);
        let said = |network: &Network| network.flow(CLIENT, SERVER).sent + network.flow(SERVER, CLIENT).sent;
        let before = said(&network);
        network.run_for(60 * SECOND);
        assert_eq!(said(&network), before, "{counters:?}");
        for end in [CLIENT, SERVER] {
            let node = network.node::<AtpNode>(end);
            assert!(node.is_done() && node.closed().is_none(), "{end:?}: {:?}", node.closed());
            assert_eq!(node.connection().in_flight(), 0);
        }
    }
}

/// Has streams meet their fate.
fn settle(network: &mut Network, unsettled: &mut Vec<(StreamId, usize, Fate)>) {
    for (stream, from, fate) in unsettled.drain(..) {
        if fate == Fate::Reset {
            network.visit(NodeId(from), |node: &mut AtpNode, _| node.reset(stream, 9));
        } else {
            network.visit(NodeId(1 - from), |node: &mut AtpNode, _| node.connection_mut().stop(stream, 9));
        }
    }
}

#[test]
fn parity_goes_on_where_it_repairs_losses() {
    let mut pair = Pair::over(1, link());
    pair.network.link_mut(pair.forth).faults = Faults { loss: Loss::Independent(0.05), ..Faults::default() };
    for flows in 1..=100 {
        pair.send(CLIENT, bytes(flows, 8_500));
        assert!(pair.run_until_ended(SERVER, flows as usize, SECOND));
    }
    let counters = pair.counters(CLIENT);
    assert!(counters.repaired_at_peer * 2 > counters.requested + counters.timed_out, "{counters:?}");
    // If it were thought of little benefit, it would be one packet in nine.
    assert!(counters.parity_bytes * 7 > counters.sent_bytes, "{counters:?}");
}

/// 10,000 of them take minutes: `WEIR_NETWORKS` says how many.
fn networks() -> u32 {
    std::env::var("WEIR_NETWORKS").ok().map_or(150, |count| count.parse().expect("a number of networks"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: networks(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_stream_arrives_once_and_in_order_whatever_the_network_does(bad in bad()) {
        bad.run();
    }
}

/// What became of many short flows.
#[derive(Debug, Default)]
struct ShortFlows {
    times: Vec<Duration>,
    /// Those that had not come when the sender's timeout passed.
    waited: usize,
    requested: usize,
    parity_bytes: u64,
    sent_bytes: u64,
}

/// Flows of 8.5 kB, one after the other, each of a connection of its own.
fn short_flows(count: u64, loss: impl Fn() -> Loss, parity: bool) -> ShortFlows {
    let config = ConnectionConfig { parity, ..ConnectionConfig::default() };
    let mut flows = ShortFlows::default();
    for seed in 0..count {
        let mut pair = Pair::new(seed, config.clone(), config.clone(), link());
        pair.network.link_mut(pair.forth).faults = Faults { loss: loss(), ..Faults::default() };
        pair.send(CLIENT, vec![7; 8_500]);
        assert!(pair.run_until_ended(SERVER, 1, 20 * SECOND), "{seed}");
        let counters = pair.counters(CLIENT);
        flows.times.push(pair.network.now().since(Time::ZERO));
        flows.waited += usize::from(counters.timeouts > 0);
        flows.requested += usize::from(counters.requested > 0);
        flows.parity_bytes += counters.parity_bytes;
        flows.sent_bytes += counters.sent_bytes;
    }
    flows.times.sort();
    flows
}

impl ShortFlows {
    fn quantile(&self, part: f64) -> Duration {
        self.times[((self.times.len() - 1) as f64 * part) as usize]
    }
}

#[test]
fn short_flows_hardly_ever_wait_for_the_sender() {
    // In bursts of three on average, of which nine in ten are lost.
    let bursts = |loss: f64| Loss::Bursts { fail: loss / 0.9 / 3.0, recover: 1.0 / 3.0, good: 0.0, bad: 0.9 };
    for loss in [0.001, 0.01, 0.05] {
        let random = short_flows(1_000, || Loss::Independent(loss), true);
        let in_bursts = short_flows(1_000, || bursts(loss), true);
        let without = short_flows(1_000, || Loss::Independent(loss), false);
        for (name, flows) in [("random", &random), ("bursts", &in_bursts), ("no parity", &without)] {
            let [median, p99, p999] = [0.5, 0.99, 0.999].map(|part| flows.quantile(part));
            println!(
                "{loss} {name}: {median:?}, 99 % {p99:?}, 99.9 % {p999:?}; {} asked, {} waited; {:.3} parity",
                flows.requested,
                flows.waited,
                flows.parity_bytes as f64 / flows.sent_bytes as f64
            );
        }
        if loss <= 0.01 {
            assert!(
                random.waited <= 1 && in_bursts.waited <= 1,
                "{} and {}",
                random.waited,
                in_bursts.waited
            );
            assert!(random.quantile(0.99) < random.quantile(0.5) + MS / 2, "{:?}", random.quantile(0.99));
            assert!(random.requested < without.requested);
        }
    }
}
