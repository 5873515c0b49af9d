//! TCP-ACC beneath models of TCP: what it spares them, and what it costs.

use std::time::Duration;

use proto::acc::Strategy;
use proto::acc::redundancy::Policy;
use weir_sim::acc::{AccSink, AccSource};
use weir_sim::tcp::{NewReno, Sack, Sink, TcpConfig};
use weir_sim::{Faults, LinkConfig, Loss, Network, Node, NodeId, Wrapped};

const US: Duration = Duration::from_micros(1);

fn complementary() -> Strategy {
    Strategy::Complementary(Policy::default())
}

/// Flows of one kind over one kind of path.
#[derive(Debug, Default)]
struct Flows {
    times: Vec<Duration>,
    timeouts: u64,
    sent: u64,
    coded: u64,
}

impl Flows {
    fn mean(&self) -> Duration {
        self.times.iter().sum::<Duration>() / self.times.len() as u32
    }
}

/// The paper's buffer: what a window of more than 20 packets overflows.
const BUFFER_BYTES: u64 = 32_000;

/// The paper's links: 1 Gb/s; 100 us there and back.
const RATE_BPS: u64 = 1_000_000_000;

fn path(network: &mut Network, source: NodeId, sink: NodeId, rate_bps: u64, buffer_bytes: u64, loss: Loss) {
    let forth = network.add_link(LinkConfig::new(rate_bps, 50 * US, buffer_bytes));
    let back = network.add_link(LinkConfig::delay(50 * US));
    network.link_mut(forth).faults = Faults { loss, ..Faults::default() };
    network.route(source, sink, &[forth]);
    network.route(sink, source, &[back]);
}

/// Sends bytes, and reads them again.
trait Tcp: Node + Sized {
    fn new(to: NodeId, config: TcpConfig) -> Self;
    fn send(&mut self, bytes: &[u8]);
    fn is_done(&self) -> bool;
    fn timeouts(&self) -> u64;
}

macro_rules! tcp {
    ($kind:ident) => {
        impl Tcp for $kind {
            fn new(to: NodeId, config: TcpConfig) -> Self {
                $kind::new(to, config)
            }

            fn send(&mut self, bytes: &[u8]) {
                self.write(bytes);
                self.end();
            }

            fn is_done(&self) -> bool {
                $kind::is_done(self)
            }

            fn timeouts(&self) -> u64 {
                self.counters().timeouts
            }
        }
    };
}
tcp!(NewReno);
tcp!(Sack);

fn flows<T: Tcp>(
    strategy: Strategy,
    count: u64,
    bytes: usize,
    rate_bps: u64,
    buffer_bytes: u64,
    loss: f64,
) -> Flows {
    let content: Vec<u8> = (0..bytes).map(|n| (n * 31 + n / 251) as u8).collect();
    let mut flows = Flows::default();
    for seed in 0..count {
        let mut network = Network::new(seed);
        let sink = network.add(Wrapped::new(Sink::new(2), AccSink::new(600 * US)));
        let source = T::new(sink, TcpConfig::default());
        let source = network.add(Wrapped::new(source, AccSource::new(sink, strategy, loss)));
        path(&mut network, source, sink, rate_bps, buffer_bytes, Loss::Independent(loss));
        network.visit(source, |one: &mut Wrapped<T, AccSource>, _| one.node.send(&content));
        let deadline = network.now() + Duration::from_secs(60);
        let is_done = |network: &Network| network.node::<Wrapped<T, AccSource>>(source).node.is_done();
        assert!(network.run_until(deadline, is_done), "{strategy:?}, flow {seed}");
        assert!(network.node::<Wrapped<Sink, AccSink>>(sink).node.received() == content);
        let one = network.node::<Wrapped<T, AccSource>>(source);
        let (sent, coded) = one.shim.sent();
        flows.times.push(network.now().since(weir_sim::Time::ZERO));
        flows.timeouts += one.node.timeouts();
        flows.sent += sent;
        flows.coded += coded;
    }
    flows.times.sort();
    flows
}

fn table<T: Tcp>(name: &str, bytes: usize) -> Vec<(f64, [Flows; 3])> {
    let strategies = [Strategy::Off, complementary(), Strategy::Corrective];
    let row = |loss: f64| {
        let all = strategies.map(|strategy| flows::<T>(strategy, 200, bytes, RATE_BPS, BUFFER_BYTES, loss));
        for (strategy, one) in ["off", "complementary", "corrective"].into_iter().zip(&all) {
            println!(
                "{name}, {bytes} bytes, loss {loss}, {strategy}: mean {:?}, p99 {:?}, {} timeouts, {} coded beside {}",
                one.mean(),
                one.times[one.times.len() * 99 / 100],
                one.timeouts,
                one.coded,
                one.sent
            );
        }
        (loss, all)
    };
    [0.0, 0.005, 0.01, 0.02, 0.05].map(row).into()
}

#[test]
fn flows_over_links_that_lose_packets_are_spared_timeouts() {
    for (loss, [off, complementary, _]) in table::<NewReno>("NewReno", 100_000) {
        assert!(complementary.mean() <= off.mean(), "{loss}");
        if loss > 0.0 {
            assert!(complementary.timeouts * 2 < off.timeouts, "{loss}");
        }
        if [0.01, 0.02].contains(&loss) {
            // The paper: 45 %.
            assert!(complementary.mean() < off.mean().mul_f64(0.6), "{loss}");
        }
    }
    // What today's TCP leaves to gain.
    for (loss, [off, complementary, _]) in table::<Sack>("SACK with probes", 100_000) {
        assert!(complementary.timeouts <= off.timeouts, "{loss}");
    }
}

#[test]
fn where_nothing_is_lost_nothing_is_paid() {
    let [off, complementary] = [Strategy::Off, complementary()]
        .map(|strategy| flows::<NewReno>(strategy, 3, 300_000, RATE_BPS, 1_000_000, 0.0));
    assert_eq!((complementary.coded, complementary.sent), (0, off.sent));
    assert_eq!(complementary.times, off.times);
}

/// Flows that fill a queue until it overflows: those losses are TCP's own, and whoever repairs them has it fill the queue further.
#[test]
fn where_nothing_but_a_queue_loses_packets_tcp_is_left_alone() {
    fn both<T: Tcp>(bytes: usize) {
        let [off, complementary] = [Strategy::Off, complementary()]
            .map(|strategy| flows::<T>(strategy, 3, bytes, 100_000_000, 65_536, 0.0));
        assert!(complementary.mean() < off.mean().mul_f64(1.05), "{off:?} {complementary:?}");
        assert!(complementary.coded * 20 < off.sent, "{complementary:?}");
        assert_eq!(complementary.timeouts, 0);
    }
    for bytes in [300_000, 1_000_000, 10_000_000] {
        both::<NewReno>(bytes);
        both::<Sack>(bytes);
    }
}
