//! DFCP and LTTP in virtual time over paths that carry less than an Ethernet frame, or come to do so: all arrives over one connection, with
//! symbols that fit where that is known in time, and with symbols in pieces where it is not.

mod common;

use std::time::Duration;

use common::{Bed, MS, SECOND, bytes};
use proptest::prelude::*;
use proto::dfcp::{RateConfig, ReceiverConfig, SenderConfig};
use proto::lttp::ClientConfig;
use weir_sim::dfcp::{Outcome, ReceiverNode, SenderNode, SenderSetup};
use weir_sim::{Faults, LinkConfig, LinkId, Loss, Network, NodeId, Rng, StarConfig, Time};

const SECRET: Option<[u8; 32]> = Some([7; 32]);
const CONNECTION: u32 = 5;
/// Whole, they go in datagrams of 1,450 bytes.
const SYMBOL_BYTES: u16 = 1408;
/// Of a 32nd of what all of it takes in the time of a test.
const BLOCK_SYMBOLS: u16 = 64;

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
fn a_path_that_carries_all_is_found_at_any_round_trip() {
    for rtt_us in (500..400_000).step_by(2_900) {
        for (told_bps, loss) in [(Some(90e6), 0.0), (Some(90e6), 0.05), (None, 0.0)] {
            let mut run = Run::new(&[200_000], Duration::from_micros(rtt_us), told_bps, true);
            run.carry(9000, loss);
            run.deliver(60 * SECOND);
            let symbols = run.sender().counters().symbols;
            let needed = 200_000_u64.div_ceil(SYMBOL_BYTES.into());
            assert!(loss > 0.0 || symbols < 2 * needed, "{rtt_us} us: {symbols} of {needed}, they are short");
            run.network.run_for(3 * SECOND);
            assert_eq!(run.sender().path().size(), 1450, "{rtt_us} us, {told_bps:?}, {loss}");
        }
    }
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
    for (rtt, within) in [(50 * MS, 600 * MS)] {
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

/// A fetch with LTTP.
struct Fetch {
    run: common::Run,
}

impl Fetch {
    fn new(size: usize, servers: usize, rtt: Duration, credits: bool) -> Self {
        let client = ClientConfig {
            symbol_bytes: SYMBOL_BYTES,
            block_symbols: BLOCK_SYMBOLS,
            credits,
            ..ClientConfig::default()
        };
        let star = StarConfig { base_rtt: rtt, ..StarConfig::default() };
        Fetch { run: Bed { client, star, sizes: vec![size], servers, ..Bed::default() }.build() }
    }

    /// From now on the paths carry so much, both ways.
    fn carry(&mut self, most: usize, loss: f64) {
        self.run.there(|| carrying(most, loss)).back(|| carrying(most, loss));
    }

    /// Runs until all is there, over the first connections; how long that took.
    fn deliver(&mut self, patience: Duration) -> Duration {
        self.run.deliver(patience).since(Time::ZERO)
    }

    /// Symbols and pieces of all servers.
    fn sent(&self) -> (u64, u64) {
        let counters =
            (0..self.run.servers.len()).map(|server| self.run.server(server).counters(self.run.client));
        counters.fold((0, 0), |(symbols, pieces), c| (symbols + c.symbols, pieces + c.pieces))
    }
}

#[test]
fn a_fetch_over_a_path_that_carries_all_costs_no_probe_and_no_piece() {
    for credits in [true, false] {
        let mut fetch = Fetch::new(3_000_000, 1, 2 * MS, credits);
        fetch.deliver(10 * SECOND);
        fetch.run.settled();
        let sent = fetch.run.network.flow(fetch.run.servers[0], fetch.run.client).sent;
        let (symbols, pieces) = fetch.sent();
        assert_eq!((sent, pieces), (symbols + 1, 0), "a welcome, and symbols");
    }
}

#[test]
fn a_fetch_begins_over_a_tunnel_as_well() {
    for (servers, rtt) in [1, 4].into_iter().flat_map(|n| [2, 50, 120].map(|ms| (n, ms * MS))) {
        let whole = Fetch::new(3_000_000, servers, rtt, true).deliver(10 * SECOND);
        for carries in [1252, 972, 552] {
            let mut fetch = Fetch::new(3_000_000, servers, rtt, true);
            fetch.carry(carries, 0.0);
            let took = fetch.deliver(20 * SECOND);
            assert!(took < 4 * whole, "{servers} {rtt:?} {carries}: {took:?} instead of {whole:?}");
            let path = fetch.run.server(0).path_bytes(fetch.run.client).unwrap();
            assert!(usize::from(path) <= carries && usize::from(path) + 16 > carries, "{path} of {carries}");
        }
    }
}

#[test]
fn a_fetch_over_a_path_that_falls_costs_a_few_round_trips_and_no_connection() {
    for (rtt, within) in [(2 * MS, 120 * MS), (50 * MS, 3 * SECOND)] {
        for servers in [1, 2, 8] {
            for credits in [true, false] {
                let size = 6_000_000 / servers;
                let takes = Fetch::new(size, servers, rtt, credits).deliver(20 * SECOND);
                for carries in [1252, 972, 600] {
                    let mut fetch = Fetch::new(size, servers, rtt, credits);
                    fetch.run.network.run_for(takes / 2);
                    fetch.carry(carries, 0.0);
                    let took = fetch.deliver(60 * SECOND);
                    let (symbols, pieces) = fetch.sent();
                    assert!(pieces > 0 && pieces < 4 * symbols, "{pieces} of {symbols}");
                    // Pieces have more around them than symbols, and TFRC begins slowly after the pause.
                    let most = takes.mul_f64(1.5) + within;
                    assert!(
                        took < most,
                        "{rtt:?} {servers} {credits} {carries}: {took:?} instead of {takes:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn random_loss_is_not_taken_for_a_path_that_has_fallen() {
    for servers in [1, 8] {
        for loss in [0.01, 0.1, 0.25] {
            let mut fetch = Fetch::new(2_000_000 / servers, servers, 2 * MS, true);
            fetch.carry(9000, loss);
            fetch.deliver(300 * SECOND);
            let (symbols, pieces) = fetch.sent();
            assert!(pieces <= symbols / 100, "{servers} {loss}: {pieces} of {symbols}");
        }
    }
}

#[test]
fn a_path_that_falls_before_anything_has_come_is_noticed() {
    let mut fetch = Fetch::new(40_000, 2, 12 * MS, true);
    for most in [520, 1026, 917, 533] {
        fetch.carry(most, 0.2);
        fetch.run.network.run_for(150 * MS);
    }
    fetch.deliver(10 * SECOND);
}

#[test]
fn an_outage_makes_no_pieces_of_a_fetch_for_long() {
    for credits in [true, false] {
        let mut fetch = Fetch::new(6_000_000, 1, 2 * MS, credits);
        fetch.run.network.run_for(200 * MS);
        fetch.carry(0, 0.0);
        fetch.run.network.run_for(2 * SECOND);
        fetch.carry(9000, 0.0);
        fetch.deliver(20 * SECOND);
        let (symbols, pieces) = fetch.sent();
        assert!(pieces <= symbols / 100, "{pieces} of {symbols}");
        assert_eq!(fetch.run.server(0).path_bytes(fetch.run.client), Some(1450));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever paths carry from time to time, and lose besides, every byte of a fetch arrives over the first connections.
    #[test]
    fn any_path_delivers_every_byte_of_a_fetch(
        carries in prop::collection::vec((520_usize..1500, 0.0..0.2_f64), 1..6),
        rtt_us in 100_u64..60_000,
        servers in 1_usize..=8,
        credits: bool,
        size in 0_usize..500_000,
    ) {
        let mut fetch = Fetch::new(size, servers, Duration::from_micros(rtt_us), credits);
        for (most, loss) in carries {
            fetch.carry(most, loss);
            fetch.run.network.run_for(150 * MS);
        }
        fetch.deliver(900 * SECOND);
    }
}
