//! DFCP in virtual time over paths that carry less than an Ethernet frame, or come to do so: all arrives over one connection, with
//! symbols that fit where that is known in time, and with symbols in pieces where it is not.

use std::time::Duration;

use proptest::prelude::*;
use proto::dfcp::{RateConfig, ReceiverConfig, SenderConfig};
use weir_sim::dfcp::{Outcome, ReceiverNode, SenderNode, SenderSetup};
use weir_sim::{Faults, LinkConfig, LinkId, Loss, Network, NodeId, Rng, Time};

const SECRET: Option<[u8; 32]> = Some([7; 32]);
const CONNECTION: u32 = 5;
const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// Whole, they go in datagrams of 1,450 bytes.
const SYMBOL_BYTES: u16 = 1408;
/// Of a 32nd of what all of it takes in the time of a test.
const BLOCK_SYMBOLS: u16 = 64;

fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..count.div_ceil(8)).flat_map(|_| rng.bits().to_be_bytes()).take(count).collect()
}

/// Loses what is longer, in bytes of UDP payload, and some of the rest.
fn carrying(most: usize, loss: f64) -> Faults {
    let mut rng = Rng::new(most as u64);
    let lost = move |_: u64, datagram: &weir_sim::Datagram| datagram.payload.len() > most || rng.chance(loss);
    Faults { loss: Loss::Script(Box::new(lost)), ..Faults::default() }
}

struct Run {
    network: Network,
    sender: NodeId,
    receiver: NodeId,
    links: [LinkId; 2],
    sizes: Vec<usize>,
    config: ReceiverConfig,
}

impl Run {
    fn new(sizes: &[usize], rtt: Duration, told_bps: Option<f64>, fitted: bool) -> Self {
        let mut network = Network::new(1);
        let config = ReceiverConfig { least_block_bytes: 0, ..ReceiverConfig::default() };
        let receiver = network.add(ReceiverNode::new(config.clone(), SECRET));
        let rate = RateConfig { expiry: None, ..SenderConfig::default().rate };
        let (symbol_bytes, block_symbols) = (SYMBOL_BYTES, BLOCK_SYMBOLS);
        let setup = SenderSetup {
            config: SenderConfig { rate, symbol_bytes, block_symbols, fitted, ..SenderConfig::default() },
            secret: SECRET,
            connection: CONNECTION,
            rates: told_bps.map(|bps| (Time::ZERO, bps)).into_iter().collect(),
        };
        let mut node = SenderNode::new(setup, receiver);
        for (number, size) in sizes.iter().enumerate() {
            node.send(&number.to_string(), bytes(number as u64, *size));
        }
        let sender = network.add(node);
        let there = network.add_link(LinkConfig::new(100_000_000, rtt / 2, 128 << 10));
        let back = network.add_link(LinkConfig::delay(rtt / 2));
        network.route(sender, receiver, &[there]);
        network.route(receiver, sender, &[back]);
        Run { network, sender, receiver, links: [there, back], sizes: sizes.to_vec(), config }
    }

    /// From now on the path carries so much, both ways.
    fn carry(&mut self, most: usize, loss: f64) {
        for link in self.links {
            self.network.link_mut(link).faults = carrying(most, loss);
        }
    }

    fn sender(&self) -> &SenderNode {
        self.network.node(self.sender)
    }

    /// Runs until all is there, over the one connection; when that was.
    fn deliver(&mut self, patience: Duration) -> Time {
        let sender = self.sender;
        let deadline = self.network.now() + patience;
        let done = self.network.run_until(deadline, |n| n.node::<SenderNode>(sender).is_done());
        let (seen, receiver) = (self.sender().counters(), self.network.node::<ReceiverNode>(self.receiver));
        assert!(done, "{seen:?} {:?} {:?}", receiver.counters(sender, CONNECTION), self.sender().path());
        for (number, size) in self.sizes.iter().enumerate() {
            let outcome = self.sender().outcome(number);
            assert!(matches!(outcome, Outcome::Stored(_)), "{outcome:?} {:?}", self.sender().ended());
            let received = receiver.received(&number.to_string()).expect("it came");
            assert!(received.bytes == bytes(number as u64, *size), "object {number} is another");
        }
        assert_eq!(receiver.connections(), 1);
        self.network.now()
    }
}

#[test]
fn a_path_that_carries_all_costs_no_time_and_no_pieces() {
    let mut run = Run::new(&[3_000_000], 20 * MS, Some(90e6), true);
    let end = run.deliver(10 * SECOND);
    assert_eq!(run.sender().counters().pieces, 0);
    // 3 round trips to open the connection, one to offer, and one to acknowledge.
    assert!(end < Time::ZERO + 400 * MS, "{end:?}");
}

#[test]
fn symbols_fit_a_tunnel_from_the_beginning() {
    for (carries, whole) in [(1252, true), (972, true), (552, true)] {
        let mut run = Run::new(&[3_000_000], 20 * MS, Some(90e6), true);
        run.carry(carries, 0.0);
        run.deliver(10 * SECOND);
        let counters = run.sender().counters();
        assert_eq!(counters.pieces == 0, whole, "{carries}: {counters:?}");
        assert!(usize::from(run.sender().path().size()) <= carries);
    }
}

#[test]
fn symbols_of_a_length_that_was_asked_for_go_in_pieces() {
    let mut run = Run::new(&[3_000_000], 2 * MS, Some(90e6), false);
    run.carry(1252, 0.0);
    run.deliver(10 * SECOND);
    let counters = run.sender().counters();
    assert_eq!(counters.pieces, 2 * counters.symbols);
    let needed = 3_000_000_u64.div_ceil(SYMBOL_BYTES.into());
    assert!(counters.symbols < needed + needed / 10, "{counters:?} of {needed}");
}

#[test]
fn a_path_that_falls_in_the_middle_costs_a_few_round_trips_and_no_connection() {
    for (rtt, within) in [(2 * MS, 200 * MS), (50 * MS, 600 * MS)] {
        for carries in [1252, 972, 600] {
            let mut undisturbed = Run::new(&[6_000_000], rtt, Some(80e6), true);
            let takes = undisturbed.deliver(10 * SECOND).since(Time::ZERO);
            let mut run = Run::new(&[6_000_000], rtt, Some(80e6), true);
            run.network.run_for(takes / 2);
            run.carry(carries, 0.0);
            let end = run.deliver(20 * SECOND).since(Time::ZERO);
            let counters = run.sender().counters();
            assert!(counters.pieces > 0 && counters.pieces < 4 * counters.symbols, "{counters:?}");
            // Pieces have more around them than symbols.
            assert!(end < takes.mul_f64(1.1) + within, "{rtt:?} {carries}: {end:?} instead of {takes:?}");
        }
    }
}

#[test]
fn what_is_offered_after_the_path_fell_has_symbols_that_fit() {
    let mut run = Run::new(&[6_000_000], 2 * MS, Some(80e6), true);
    run.network.run_for(100 * MS);
    run.carry(1252, 0.0);
    run.network.run_for(300 * MS);
    assert!(run.sender().counters().pieces > 0);
    run.network.visit(run.sender, |sender: &mut SenderNode, _| {
        sender.send("1", bytes(1, 6_000_000));
    });
    run.sizes.push(6_000_000);
    run.deliver(10 * SECOND);
    let counters = run.sender().counters();
    let of_one = 2 * 6_000_000_u64.div_ceil(SYMBOL_BYTES.into());
    assert!(counters.pieces < of_one, "{counters:?}");
}

#[test]
fn tfrc_goes_on_over_a_path_that_falls() {
    let mut run = Run::new(&[4_000_000], 10 * MS, None, true);
    run.network.run_for(200 * MS);
    assert!(run.sender().counters().symbols > 100);
    run.carry(972, 0.0);
    let end = run.deliver(30 * SECOND);
    assert!(run.sender().counters().pieces > 0);
    assert!(end < Time::ZERO + 5 * SECOND, "{end:?}");
}

#[test]
fn an_outage_makes_no_pieces_for_long() {
    let mut run = Run::new(&[6_000_000], 10 * MS, Some(80e6), true);
    run.network.run_for(200 * MS);
    run.carry(0, 0.0);
    run.network.run_for(2 * SECOND);
    run.carry(9000, 0.0);
    run.deliver(10 * SECOND);
    let counters = run.sender().counters();
    assert!(counters.pieces < counters.symbols / 10, "{counters:?}");
    assert_eq!(run.sender().path().size(), 1450);
}

#[test]
fn a_receiver_with_no_memory_for_pieces_counts_them_as_lost() {
    let mut run = Run::new(&[100_000], 2 * MS, Some(90e6), false);
    assert!(run.config.state.most() > 0);
    run.carry(1252, 0.3);
    run.deliver(10 * SECOND);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the path carries from time to time, and loses besides, every byte arrives over one connection.
    #[test]
    fn any_path_delivers_every_byte(
        carries in prop::collection::vec((520_usize..1500, 0.0..0.2_f64), 1..6),
        rtt_us in 100_u64..60_000,
        told: bool,
        fitted: bool,
        sizes in prop::collection::vec(0_usize..500_000, 1..4),
    ) {
        let told = told.then_some(20e6);
        let mut run = Run::new(&sizes, Duration::from_micros(rtt_us), told, fitted);
        for (most, loss) in carries {
            run.carry(most, loss);
            run.network.run_for(150 * MS);
        }
        // TFRC is slow where much is lost.
        run.deliver(900 * SECOND);
    }
}
