//! The TCP models do what TCP is known to do.

use std::time::Duration;

use weir_sim::{Faults, LinkConfig, Loss, Network, Node, NodeId, tcp};

/// A kind of TCP source.
trait Tcp: Node + Sized {
    fn source(to: NodeId, config: tcp::TcpConfig) -> Self;
    fn is_done(&self) -> bool;
    fn counters(&self) -> tcp::TcpCounters;
}

macro_rules! tcp {
    ($kind:ty) => {
        impl Tcp for $kind {
            fn source(to: NodeId, config: tcp::TcpConfig) -> Self {
                Self::new(to, config)
            }
            fn is_done(&self) -> bool {
                self.is_done()
            }
            fn counters(&self) -> tcp::TcpCounters {
                self.counters()
            }
        }
    };
}
tcp!(tcp::NewReno);
tcp!(tcp::Sack);

/// A source and a sink, 50 ms there and back, at 1 Gb/s with room for everything.
fn line<T: Tcp>(seed: u64, loss: Loss, config: tcp::TcpConfig) -> (Network, NodeId, NodeId) {
    let mut network = Network::new(seed);
    let sink = network.add(tcp::Sink::new(1));
    let source = network.add(T::source(sink, config));
    let there = network.add_link(LinkConfig::new(1_000_000_000, Duration::from_millis(25), u64::MAX));
    let back = network.add_link(LinkConfig::delay(Duration::from_millis(25)));
    network.link_mut(there).faults = Faults { loss, ..Faults::default() };
    network.route(source, sink, &[there]);
    network.route(sink, source, &[back]);
    (network, source, sink)
}

/// Seconds to send 150 segments; timeouts, recoveries, segments sent again.
fn send_150<T: Tcp>(lost: &[u64]) -> (f64, (u64, u64, u64)) {
    send::<T>(150, Loss::of_numbers(lost.iter().copied()))
}

fn send<T: Tcp>(segments: u64, loss: Loss) -> (f64, (u64, u64, u64)) {
    let config = tcp::TcpConfig { segments: Some(segments), ..tcp::TcpConfig::default() };
    let (mut network, source, _) = line::<T>(1, loss, config);
    let deadline = network.now() + Duration::from_secs(100);
    assert!(network.run_until(deadline, |network| network.node::<T>(source).is_done()));
    let counters = network.node::<T>(source).counters();
    let seconds = network.now().as_nanos() as f64 / 1e9;
    (seconds, (counters.timeouts, counters.recoveries, counters.retransmitted))
}

#[test]
fn slow_start_doubles_every_round_trip() {
    // 10, 20, 40, 80: 150 segments in four round trips, and the time to send the last flight.
    for (seconds, counters) in [send_150::<tcp::NewReno>(&[]), send_150::<tcp::Sack>(&[])] {
        assert!((0.2..0.203).contains(&seconds), "{seconds}");
        assert_eq!(counters, (0, 0, 0));
    }
}

#[test]
fn one_loss_is_repaired_in_a_round_trip_without_a_timeout() {
    for (seconds, counters) in [send_150::<tcp::NewReno>(&[100]), send_150::<tcp::Sack>(&[100])] {
        assert!((0.25..0.255).contains(&seconds), "{seconds}");
        assert_eq!(counters, (0, 1, 1));
    }
}

#[test]
fn several_losses_take_a_round_trip_each_or_with_sack_one_in_all() {
    let (seconds, counters) = send_150::<tcp::NewReno>(&[100, 110, 120]);
    assert!((0.35..0.36).contains(&seconds), "{seconds}");
    assert_eq!(counters, (0, 1, 3));
    let (seconds, counters) = send_150::<tcp::Sack>(&[100, 110, 120]);
    assert!((0.25..0.255).contains(&seconds), "{seconds}");
    assert_eq!(counters, (0, 1, 3));
}

#[test]
fn a_lost_tail_waits_for_the_timeout_or_with_sack_for_the_probe() {
    let (seconds, counters) = send_150::<tcp::NewReno>(&[149]);
    assert!(seconds > 0.39, "{seconds}");
    assert_eq!(counters, (1, 0, 1));
    let (seconds, counters) = send_150::<tcp::Sack>(&[149]);
    assert!((0.34..0.36).contains(&seconds), "{seconds}");
    assert_eq!(counters, (0, 0, 1));
}

#[test]
fn a_lost_retransmission_shows_with_sack_alone() {
    // The segment 100 is lost twice, while there is more to send.
    let twice = || {
        let mut times = 0;
        Loss::Script(Box::new(move |_, datagram| {
            times += u32::from(datagram.payload[..8] == 100_u64.to_be_bytes());
            datagram.payload[..8] == 100_u64.to_be_bytes() && times <= 2
        }))
    };
    let (_, new_reno) = send::<tcp::NewReno>(1000, twice());
    let (_, sack) = send::<tcp::Sack>(1000, twice());
    assert_eq!((new_reno.0, sack), (1, (0, 1, 2)));
}

#[test]
fn under_random_loss_the_throughput_is_that_of_the_square_root_law() {
    // Mathis et al.: sqrt(3/2) / sqrt(p) segments a round trip while timeouts are rare.
    fn per_rtt<T: Tcp>(p: f64) -> f64 {
        let (mut network, source, sink) = line::<T>(3, Loss::Independent(p), tcp::TcpConfig::default());
        network.run_for(Duration::from_secs(400));
        network.flow(source, sink).delivered as f64 / (400.0 / 0.05)
    }
    for p in [0.0005, 0.002] {
        let law = f64::sqrt(1.5 / p);
        for per_rtt in [per_rtt::<tcp::NewReno>(p), per_rtt::<tcp::Sack>(p)] {
            assert!((per_rtt / law - 1.0).abs() < 0.15, "p = {p}: {per_rtt} for {law}");
        }
    }
}
