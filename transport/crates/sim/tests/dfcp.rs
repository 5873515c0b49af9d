//! DFCP in virtual time: every byte arrives whatever the network does, nothing is sent in vain that could be known, and
//! both ends stop when the other is gone.

use std::time::Duration;

use proptest::prelude::*;
use proto::dfcp::{Guide, RateConfig, ReceiverConfig, SenderConfig};
use weir_sim::dfcp::{Outcome, ReceiverNode, SenderNode, SenderSetup};
use weir_sim::{Faults, LinkConfig, LinkId, Loss, Network, NodeId, Rng, Time};
use wire::control::Code;

const MBPS: f64 = 1e6;
const SECRET: Option<[u8; 32]> = Some([7; 32]);
const CONNECTION: u32 = 0x0102_0304;
const SECOND: Duration = Duration::from_secs(1);

fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..count.div_ceil(8)).flat_map(|_| rng.bits().to_be_bytes()).take(count).collect()
}

fn lossy(p: f64) -> Faults {
    Faults { loss: Loss::Independent(p), ..Faults::default() }
}

/// A sender, a receiver, and a link of 100 Mb/s there.
struct Bed {
    seed: u64,
    secret: Option<[u8; 32]>,
    config: SenderConfig,
    rates: Vec<(Time, f64)>,
    rtt: Duration,
    sizes: Vec<usize>,
}

impl Default for Bed {
    fn default() -> Self {
        Bed {
            seed: 1,
            secret: SECRET,
            config: SenderConfig {
                rate: RateConfig { expiry: None, ..SenderConfig::default().rate },
                ..SenderConfig::default()
            },
            rates: vec![(Time::ZERO, 99.0 * MBPS)],
            rtt: Duration::from_micros(300),
            sizes: vec![3_000_000],
        }
    }
}

struct Run {
    network: Network,
    sender: NodeId,
    receiver: NodeId,
    there: LinkId,
    back: LinkId,
    sizes: Vec<usize>,
}

fn path(number: usize) -> String {
    format!("object/{number}")
}

impl Bed {
    fn build(&self) -> Run {
        let mut network = Network::new(self.seed);
        // Small blocks show in a short time what large ones do.
        let config = ReceiverConfig { least_block_bytes: 0, ..ReceiverConfig::default() };
        let receiver = network.add(ReceiverNode::new(config, self.secret));
        let setup = SenderSetup {
            config: SenderConfig { seed: self.seed, ..self.config.clone() },
            secret: self.secret,
            connection: CONNECTION,
            rates: self.rates.clone(),
        };
        let mut node = SenderNode::new(setup, receiver);
        for (number, size) in self.sizes.iter().enumerate() {
            node.send(&path(number), bytes(number as u64, *size));
        }
        let sender = network.add(node);
        let there = network.add_link(LinkConfig::new(100_000_000, self.rtt / 2, 64 << 10));
        let back = network.add_link(LinkConfig::delay(self.rtt / 2));
        network.route(sender, receiver, &[there]);
        network.route(receiver, sender, &[back]);
        Run { network, sender, receiver, there, back, sizes: self.sizes.clone() }
    }
}

impl Run {
    fn sender(&self) -> &SenderNode {
        self.network.node(self.sender)
    }

    fn receiver(&self) -> &ReceiverNode {
        self.network.node(self.receiver)
    }

    fn faults(&mut self, there: Faults, back: Faults) -> &mut Self {
        self.network.link_mut(self.there).faults = there;
        self.network.link_mut(self.back).faults = back;
        self
    }

    /// Runs until nothing is on its way; when that was.
    fn finish(&mut self, patience: Duration) -> Time {
        let sender = self.sender;
        let deadline = self.network.now() + patience;
        let done = self.network.run_until(deadline, |n| n.node::<SenderNode>(sender).is_done());
        let state: Vec<_> = (0..self.sizes.len()).map(|n| self.sender().outcome(n)).collect();
        let seen = (self.sender().counters(), self.receiver().counters(self.sender, CONNECTION));
        assert!(done, "not done by {deadline:?}: {state:?} {seen:?} {:?}", self.sender().ended());
        self.network.now()
    }

    /// Runs until all is there, every byte of it.
    fn deliver(&mut self, patience: Duration) -> Time {
        let end = self.finish(patience);
        for (number, size) in self.sizes.iter().enumerate() {
            let outcome = self.sender().outcome(number);
            assert!(matches!(outcome, Outcome::Stored(_)), "{outcome:?} {:?}", self.sender().ended());
            let received = self.receiver().received(&path(number)).expect("it came");
            assert!(received.bytes == bytes(number as u64, *size), "object {number} is another");
        }
        end
    }

    /// A while later both ends have let go of the connection.
    fn settled(&mut self) {
        self.network.run_for(3 * SECOND);
        assert!(self.sender().is_over(), "{:?}", self.sender().ended());
    }
}

/// Blocks of 8 symbols of 100 bytes.
fn small() -> SenderConfig {
    SenderConfig { symbol_bytes: 100, block_symbols: 8, ..Bed::default().config }
}

#[test]
fn objects_of_any_length_arrive() {
    let sizes = vec![0, 1, 99, 100, 101, 799, 800, 801, 1600, 1601, 80_000, 80_001];
    for secret in [None, SECRET] {
        let mut run = Bed { config: small(), secret, sizes: sizes.clone(), ..Bed::default() }.build();
        run.deliver(SECOND);
        run.settled();
    }
}

#[test]
fn without_loss_exactly_k_symbols_of_each_block_are_sent() {
    for rtt in [Duration::from_micros(300), Duration::from_millis(100)] {
        let mut run = Bed { sizes: vec![512 * 1024 * 6], rtt, ..Bed::default() }.build();
        run.deliver(3 * SECOND);
        run.settled();
        let sent = run.sender().counters();
        assert_eq!((sent.symbols, sent.repairs), (512 * 6, 0), "{sent:?}");
        assert_eq!(run.network.link(run.there).counters(run.network.now()).dropped, 0);
    }
}

#[test]
fn every_code_brings_all_of_it_over_a_path_that_loses() {
    for code in [Code::Independent, Code::Dealt, Code::Raptor, Code::RaptorQ] {
        let config = SenderConfig { code, ..small() };
        let mut run = Bed { config, sizes: vec![1, 100_001], ..Bed::default() }.build();
        run.faults(lossy(0.2), lossy(0.2));
        run.deliver(20 * SECOND);
    }
}

/// The paper's grid (Table 3), and goodput as a share of what loss and headers leave of the rate.
#[test]
fn goodput_is_near_what_loss_leaves_at_any_round_trip() {
    const SIZE: usize = 60_000_000;
    let config = SenderConfig { symbol_bytes: 1430, ..Bed::default().config };
    for loss in [0.001, 0.01, 0.05, 0.1] {
        for rtt_ms in [0, 10, 50, 100] {
            let rtt = Duration::from_millis(rtt_ms);
            let mut run = Bed { sizes: vec![SIZE], rtt, config: config.clone(), ..Bed::default() }.build();
            run.faults(lossy(loss), lossy(loss));
            let end = run.deliver(60 * SECOND);
            let goodput = 8.0 * SIZE as f64 / end.since(Time::ZERO).as_secs_f64();
            let limit = 99.0 * MBPS * (1.0 - loss) * 1430.0 / 1514.0;
            let share = goodput / limit;
            let sent = run.sender().counters();
            println!("loss {loss} rtt {rtt_ms} ms: {share:.4} of {limit:.0} b/s, {} symbols", sent.symbols);
            // Some round trips of opening and closing, and signals that were lost, are part of it.
            let fixed = (8.0 * rtt.as_secs_f64() + 0.15) / (8.0 * SIZE as f64 / limit);
            assert!(share > 0.98 - fixed, "loss {loss} rtt {rtt_ms} ms: {share}");
        }
    }
}

#[test]
fn half_of_everything_may_be_lost() {
    for rtt_ms in [1, 50] {
        let rtt = Duration::from_millis(rtt_ms);
        let mut run = Bed { sizes: vec![10_000_000], rtt, ..Bed::default() }.build();
        run.faults(lossy(0.5), lossy(0.5));
        let end = run.deliver(60 * SECOND);
        let goodput = 8.0 * 10e6 / end.since(Time::ZERO).as_secs_f64();
        assert!(goodput > 0.5 * 0.5 * 99.0 * MBPS, "{goodput}");
    }
}

/// A receiver whose host drops nearly all of it, as under a flood: the symbols that a block may have are sent again.
#[test]
fn all_comes_while_some_does_however_much_is_lost() {
    let config = SenderConfig { block_symbols: 64, ..Bed::default().config };
    let mut run = Bed { sizes: vec![300_000; 3], config, ..Bed::default() }.build();
    run.faults(lossy(0.9), lossy(0.5));
    run.deliver(600 * SECOND);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any loss pattern below the cap (4k + 64 symbols a block) delivers every byte, in both directions; what comes twice,
    /// changed or late is no harm.
    #[test]
    fn any_network_delivers_every_byte(
        seed: u64,
        fail in 0.0..0.3_f64,
        recover in 0.05..1.0_f64,
        good in 0.0..0.2_f64,
        back in 0.0..0.5_f64,
        duplicate in 0.0..0.2_f64,
        corrupt in 0.0..0.1_f64,
        reorder in 0.0..0.3_f64,
        rtt_us in 100_u64..50_000,
        sizes in prop::collection::vec(0_usize..60_000, 1..6),
    ) {
        let rtt = Duration::from_micros(rtt_us);
        let config = SenderConfig { symbol_bytes: 100, block_symbols: 64, ..Bed::default().config };
        let mut run = Bed { seed, config, rtt, sizes, ..Bed::default() }.build();
        let faults = |loss| Faults {
            loss, duplicate, corrupt, reorder, reorder_by: rtt, ..Faults::default()
        };
        run.faults(
            faults(Loss::Bursts { fail, recover, good, bad: 0.7 }),
            faults(Loss::Independent(back)),
        );
        run.deliver(120 * SECOND);
    }

    /// The paper's other ways to run it (section 4.6).
    #[test]
    fn without_early_stop_all_arrives_as_well(seed: u64, loss in 0.0..0.3_f64, size in 0_usize..300_000) {
        let config = SenderConfig { early_stop: false, window_blocks: Some(4), ..small() };
        let mut run = Bed { seed, config, sizes: vec![size], ..Bed::default() }.build();
        run.faults(lossy(loss), lossy(loss));
        run.deliver(60 * SECOND);
    }
}

#[test]
fn redundancy_makes_up_for_loss_without_acknowledgements() {
    let config = SenderConfig { acknowledgements: false, redundancy: 0.3, ..small() };
    let mut run = Bed { config, sizes: vec![80_000], ..Bed::default() }.build();
    run.faults(lossy(0.0), lossy(0.0));
    run.deliver(5 * SECOND);
}

#[test]
fn nothing_is_sent_without_a_rate() {
    let config = SenderConfig {
        rate: RateConfig { fallback: false, ..Bed::default().config.rate },
        ..Bed::default().config
    };
    let mut run = Bed { config, rates: vec![(ms(500), 10.0 * MBPS)], ..Bed::default() }.build();
    run.network.run_for(Duration::from_millis(499));
    assert_eq!(run.sender().counters().symbols, 0);
    run.deliver(5 * SECOND);
    assert_eq!(run.sender().guides()[0].1, Guide::Told);
}

#[test]
fn a_rate_is_kept_to() {
    let mut run =
        Bed { rates: vec![(Time::ZERO, 20.0 * MBPS)], sizes: vec![10_000_000], ..Bed::default() }.build();
    run.network.run_for(SECOND);
    let before = run.network.link(run.there).counters(run.network.now());
    run.network.run_for(SECOND);
    let after = run.network.link(run.there).counters(run.network.now());
    let bps = 8.0 * (after.sent_bytes - before.sent_bytes) as f64;
    assert!((bps / (20.0 * MBPS) - 1.0).abs() < 0.005, "{bps}");
}

#[test]
fn a_rate_that_is_not_confirmed_expires_and_tfrc_goes_on() {
    let config = SenderConfig {
        rate: RateConfig { expiry: Some(Duration::from_millis(500)), ..Bed::default().config.rate },
        ..Bed::default().config
    };
    let rates = vec![(Time::ZERO, 50.0 * MBPS), (ms(2000), 50.0 * MBPS)];
    let mut run = Bed { config, rates, sizes: vec![60_000_000], ..Bed::default() }.build();
    run.deliver(20 * SECOND);
    let guides: Vec<_> = run.sender().guides().to_vec();
    let named: Vec<_> = guides.iter().map(|(_, guide)| *guide).collect();
    assert_eq!(&named[..4], [Guide::Told, Guide::Tfrc, Guide::Told, Guide::Tfrc], "{guides:?}");
    let fell = guides[1].0.since(guides[0].0);
    assert!(fell >= Duration::from_millis(500) && fell < Duration::from_millis(510), "{fell:?}");
}

#[test]
fn who_had_nothing_to_say_for_long_is_not_gone_at_once() {
    // Objects take longer than any silence, and between their hashes and the end there are no signals.
    let (rates, sizes) = (vec![(Time::ZERO, 0.3 * MBPS)], vec![500_000; 2]);
    let mut run = Bed { rates, sizes, ..Bed::default() }.build();
    let end = run.deliver(60 * SECOND);
    assert!(end > Time::ZERO + 2 * SenderConfig::default().silence, "{end:?}");
}

#[test]
fn a_sender_whose_receiver_vanishes_stops() {
    let mut run = Bed { sizes: vec![50_000_000], ..Bed::default() }.build();
    run.network.run_for(SECOND);
    run.network.vanish(run.receiver);
    run.network.run_for(SenderConfig::default().silence + SECOND);
    assert_eq!(*run.sender().outcome(0), Outcome::Lost);
    let before = run.sender().counters();
    run.network.run_for(10 * SECOND);
    assert_eq!(run.sender().counters(), before);
}

#[test]
fn a_receiver_whose_sender_vanishes_stops() {
    let mut run = Bed { sizes: vec![50_000_000], ..Bed::default() }.build();
    run.network.run_for(SECOND);
    let sender = run.sender;
    run.network.vanish(sender);
    run.network.run_for(20 * SECOND);
    let (_, reason, complete) = run.receiver().ended(sender, CONNECTION).expect("it has ended");
    assert!(reason.contains("nothing was heard") && !complete, "{reason}");
    let reports = run.receiver().counters(sender, CONNECTION).reports;
    run.network.run_for(10 * SECOND);
    assert_eq!(run.receiver().counters(sender, CONNECTION).reports, reports);
}

#[test]
fn a_receiver_that_was_started_again_says_so() {
    // Anybody may have said so, but nothing authentic comes for a second after it.
    for (secret, soon) in [(None, ms(1200)), (SECRET, ms(2200))] {
        let mut run = Bed { sizes: vec![50_000_000], secret, ..Bed::default() }.build();
        run.network.run_for(SECOND);
        run.network.visit(run.receiver, |receiver: &mut ReceiverNode, _| receiver.restart());
        let end = run.finish(20 * SECOND);
        assert!(end < soon, "{end:?}");
        assert!(run.sender().ended().is_some_and(|(_, why)| why.contains("knows nothing")));
    }
}

#[test]
fn what_there_was_before_does_not_come_again() {
    let mut run = Bed { sizes: vec![6_000_000], ..Bed::default() }.build();
    run.network.run_for(Duration::from_millis(300));
    let sent = run.sender().counters().symbols;
    run.network.visit(run.receiver, |receiver: &mut ReceiverNode, _| receiver.restart());
    run.network.run_for(SECOND);
    let setup = SenderSetup {
        config: Bed::default().config,
        secret: SECRET,
        connection: 5,
        rates: vec![(Time::ZERO, 99.0 * MBPS)],
    };
    let mut again = SenderNode::new(setup, run.receiver);
    again.send(&path(0), bytes(0, 6_000_000));
    let again = run.network.add(again);
    let (there, back) = (run.there, run.back);
    run.network.route(again, run.receiver, &[there]);
    run.network.route(run.receiver, again, &[back]);
    let deadline = run.network.now() + 5 * SECOND;
    assert!(run.network.run_until(deadline, |n| n.node::<SenderNode>(again).is_done()));
    assert!(run.receiver().received(&path(0)).unwrap().bytes == bytes(0, 6_000_000));
    let more = run.network.node::<SenderNode>(again).counters().symbols;
    let all = 6_000_000_u64.div_ceil(1024);
    assert!(more < all - sent * 3 / 4, "{sent} and {more} of {all}");
}

#[test]
fn outages_and_delays_are_outlived() {
    let mut run = Bed { sizes: vec![6_000_000], ..Bed::default() }.build();
    let there = Faults { down: vec![ms(100)..ms(2_000)], ..Faults::default() };
    let back = Faults { down: vec![ms(200)..ms(3_000), ms(3_200)..ms(4_000)], ..Faults::default() };
    run.faults(there, back);
    let end = run.deliver(20 * SECOND);
    assert!(end < ms(6_000), "{end:?}");
}

#[test]
fn tfrc_goes_on_soon_after_an_outage() {
    let mut run = Bed { rates: Vec::new(), sizes: vec![8_000_000], ..Bed::default() }.build();
    let there = Faults { down: vec![ms(300)..ms(1_500)], ..lossy(0.001) };
    run.faults(there, Faults::default());
    let end = run.deliver(60 * SECOND);
    // With RFC 5348's longest gap, or by reports that nothing has come, the next datagram would go after a minute.
    assert!(end < ms(10_000), "{end:?}");
}

#[test]
fn bursts_of_flows_that_share_a_link_fit_its_shallow_buffer() {
    for flows in [1, 2, 4] {
        let rates = vec![(Time::ZERO, 99.0 * MBPS / f64::from(flows))];
        let mut run = Bed { rates: rates.clone(), sizes: vec![6_000_000], ..Bed::default() }.build();
        let config = SenderConfig { symbol_bytes: 1408, ..Bed::default().config };
        let senders: Vec<NodeId> = (1..flows)
            .map(|number| {
                let (config, rates) = (config.clone(), rates.clone());
                let setup = SenderSetup { config, secret: SECRET, connection: 10 + number, rates };
                let mut node = SenderNode::new(setup, run.receiver);
                node.send(&format!("beside/{number}"), bytes(number.into(), 6_000_000));
                let node = run.network.add(node);
                run.network.route(node, run.receiver, &[run.there]);
                run.network.route(run.receiver, node, &[run.back]);
                node
            })
            .collect();
        run.network.link_mut(run.there).config.buffer_bytes = 16 << 10;
        run.deliver(20 * SECOND);
        for sender in senders {
            let done = |network: &Network| network.node::<SenderNode>(sender).is_done();
            assert!(run.network.run_until(run.network.now() + 20 * SECOND, done));
        }
        let counters = run.network.link(run.there).counters(run.network.now());
        assert_eq!(counters.dropped, 0, "{flows} flows: {counters:?}");
    }
}
