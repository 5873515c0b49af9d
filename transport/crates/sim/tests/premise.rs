//! The premise of DFCP (Molnár et al., sections 3 and 7): senders without congestion control share a link fairly, with each
//! other and with TCP, if the link's queue is fair; and they do not if it is not.

use std::time::Duration;

use proto::dfcp::{RateConfig, ReceiverConfig, SenderConfig};
use weir_sim::dfcp::{Outcome, ReceiverNode, SenderNode, SenderSetup};
use weir_sim::{Discipline, LinkConfig, LinkId, Network, NodeId, Rng, Time, jain_index, tcp};

const LINK_BPS: u64 = 100_000_000;
const BUFFER_BYTES: u64 = 250_000;
const FAIR: Discipline = Discipline::Drr { quantum_bytes: 1514 };
const OBJECT_BYTES: usize = 8_000_000;

#[derive(Clone, Copy)]
enum Flow {
    /// Sends at this rate, in bit/s.
    Dfcp(f64),
    Tcp,
}

/// Flows that share one link, each with its round trip in milliseconds.
struct Dumbbell {
    network: Network,
    flows: Vec<(NodeId, NodeId)>,
    link: LinkId,
}

fn bytes(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..OBJECT_BYTES / 8).flat_map(|_| rng.bits().to_be_bytes()).collect()
}

fn dumbbell(discipline: Discipline, flows: &[(Flow, u64)]) -> Dumbbell {
    let mut network = Network::new(9);
    let config = LinkConfig { discipline, ..LinkConfig::new(LINK_BPS, Duration::ZERO, BUFFER_BYTES) };
    let link = network.add_link(config);
    let mut pairs = Vec::new();
    for (number, (flow, rtt_ms)) in flows.iter().enumerate() {
        let (from, to) = match flow {
            Flow::Tcp => {
                let to = network.add(tcp::Sink::new(1));
                (network.add(tcp::Sack::new(to, tcp::TcpConfig::default())), to)
            }
            Flow::Dfcp(bps) => {
                let to = network.add(ReceiverNode::new(ReceiverConfig::default(), None));
                let config = SenderConfig::default();
                let rate = RateConfig { expiry: None, ..config.rate };
                let setup = SenderSetup {
                    config: SenderConfig { rate, seed: number as u64, ..config },
                    secret: None,
                    connection: 1,
                    rates: vec![(Time::ZERO, *bps)],
                };
                let mut sender = SenderNode::new(setup, to);
                sender.send("object", bytes(number as u64));
                (network.add(sender), to)
            }
        };
        let delay = Duration::from_millis(*rtt_ms) / 2;
        let access = network.add_link(LinkConfig::new(10 * LINK_BPS, delay, u64::MAX));
        let back = network.add_link(LinkConfig::delay(delay));
        network.route(from, to, &[access, link]);
        network.route(to, from, &[back]);
        pairs.push((from, to));
    }
    Dumbbell { network, flows: pairs, link }
}

impl Dumbbell {
    fn delivered(&self) -> Vec<f64> {
        let bytes = |(from, to): &(NodeId, NodeId)| self.network.flow(*from, *to).delivered_bytes as f64;
        self.flows.iter().map(bytes).collect()
    }

    /// What each flow gets from one time to another, in seconds, as parts of an equal share.
    fn shares(&mut self, from_s: f64, to_s: f64) -> Vec<f64> {
        self.network.run_for(Duration::from_secs_f64(from_s));
        let before = self.delivered();
        self.network.run_for(Duration::from_secs_f64(to_s - from_s));
        let equal = LINK_BPS as f64 / 8.0 * (to_s - from_s) / self.flows.len() as f64;
        self.delivered().iter().zip(before).map(|(now, then)| (now - then) / equal).collect()
    }

    /// The objects of all DFCP senders arrive, every byte of them.
    fn deliver(&mut self, flows: &[(Flow, u64)]) {
        for (number, (from, to)) in self.flows.clone().into_iter().enumerate() {
            if matches!(flows[number].0, Flow::Dfcp(_)) {
                let deadline = self.network.now() + Duration::from_secs(60);
                let done = |network: &Network| network.node::<SenderNode>(from).is_done();
                assert!(self.network.run_until(deadline, done), "flow {number}");
                let outcome = self.network.node::<SenderNode>(from).outcome(0);
                assert!(matches!(outcome, Outcome::Stored(_)), "flow {number}: {outcome:?}");
                let received = self.network.node::<ReceiverNode>(to).received("object").expect("it came");
                assert!(received.bytes == bytes(number as u64), "flow {number} brought other bytes");
            }
        }
    }
}

#[test]
fn senders_without_congestion_control_share_a_fair_queue_equally_whatever_their_round_trips() {
    // Four that send 50 Mb/s each into 100: half of it is lost, and the object arrives all the same.
    let flows = [10, 20, 50, 100].map(|rtt_ms| (Flow::Dfcp(50e6), rtt_ms));
    let mut fair = dumbbell(FAIR, &flows);
    let shares = fair.shares(0.5, 2.0);
    println!("DFCP alone, DRR: {shares:.3?}");
    assert!(jain_index(&shares) > 0.9999 && shares.iter().all(|share| *share > 0.99), "{shares:?}");
    assert!(fair.network.link(fair.link).counters(fair.network.now()).dropped > 1000);
    fair.deliver(&flows);
}

#[test]
fn a_fair_queue_gives_the_maximum_and_minimum_of_equation_2() {
    // c_B = 100 Mb/s, c_i = 10, 40, 60 and 80 Mb/s: the first gets all it sends, the others 30 Mb/s each.
    let flows = [10e6, 40e6, 60e6, 80e6].map(|bps| (Flow::Dfcp(bps), 20));
    let mut fair = dumbbell(FAIR, &flows);
    let shares = fair.shares(0.5, 2.0);
    println!("DFCP of 10, 40, 60 and 80 Mb/s, DRR: {shares:.3?}");
    for (share, expected) in shares.iter().zip([0.4, 1.2, 1.2, 1.2]) {
        assert!((share / expected - 1.0).abs() < 0.01, "{shares:?}");
    }
    fair.deliver(&flows);
}

#[test]
fn beside_tcp_a_fair_queue_gives_both_their_share_and_a_common_one_gives_tcp_nothing() {
    let flows = [Flow::Dfcp(40e6), Flow::Dfcp(40e6), Flow::Dfcp(40e6), Flow::Tcp, Flow::Tcp, Flow::Tcp]
        .map(|f| (f, 20));
    let mut fair = dumbbell(FAIR, &flows);
    let shares = fair.shares(1.0, 3.0);
    println!("three DFCP, three TCP, DRR: {shares:.3?}");
    assert!(jain_index(&shares) > 0.99 && shares.iter().all(|share| *share > 0.9), "{shares:?}");
    fair.deliver(&flows);
    let mut common = dumbbell(Discipline::DropTail, &flows);
    let shares = common.shares(0.5, 1.5);
    println!("three DFCP, three TCP, drop-tail: {shares:.3?}");
    // And DFCP's own flows do not get the same either: whose datagrams find room is a matter of phases.
    assert!(shares[3..].iter().all(|share| *share < 0.25), "{shares:?}");
    assert!(jain_index(&shares[..3]) < 0.97, "{shares:?}");
}
