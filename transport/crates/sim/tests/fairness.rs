//! How long-lived flows share the port of the star (100 Mb/s, 64 KB): TFRC by the letter of RFC 5348, alone
//! and beside TCP, as in section V.H of the LTTP paper. Shares are bytes on the wire over 30 s, 1 being an
//! equal share.

use std::time::Duration;

use proto::tfrc::{Options, Start};
use weir_sim::{Network, NodeId, Star, StarConfig, Time, tcp, tfrc};

const SECONDS: u64 = 30;
/// Slow start and the first second are not the subject.
const WARM_UP: Duration = Duration::from_secs(5);
/// Ethernet, IPv4 and UDP: what rate control does not count.
const HEADERS_BYTES: u32 = 42;

#[derive(Clone, Copy)]
enum Flow {
    Tfrc { wire_bytes: u32, options: Options, late_by: Duration },
    NewReno,
    Sack,
}

const TFRC: Flow = Flow::Tfrc {
    wire_bytes: 1102,
    options: Options {
        reduce_oscillations: true,
        equation_bytes: None,
        least_rto: Duration::ZERO,
        least_timeout: Duration::ZERO,
    },
    late_by: Duration::ZERO,
};

struct Shares {
    /// By flow, in the order given; their mean is the utilisation.
    of: Vec<f64>,
    mean_queue_bytes: f64,
}

impl Shares {
    fn utilisation(&self) -> f64 {
        mean(&self.of)
    }

    fn within(&self, low: f64, high: f64) -> bool {
        self.of.iter().all(|share| (low..=high).contains(share))
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Runs flows from servers of their own to clients of their own through one port; all begin within 100 ms.
fn shares(seed: u64, config: StarConfig, flows: &[Flow]) -> Shares {
    let mut network = Network::new(seed);
    let star = Star::new(&mut network, config);
    let mut rng = network.fork_rng();
    let pairs: Vec<(NodeId, NodeId)> = flows
        .iter()
        .map(|flow| {
            let begin = Time::from_nanos(rng.below(100_000_000));
            let (server, client) = attach(&mut network, flow, begin, config.base_rtt, rng.fork());
            star.attach(&mut network, server, client);
            (server, client)
        })
        .collect();
    let delivered = |network: &Network| -> Vec<u64> {
        pairs.iter().map(|&(server, client)| network.flow(server, client).delivered_bytes).collect()
    };
    network.run_for(WARM_UP);
    let queued = network.link(star.port).counters(network.now()).queued_byte_seconds;
    let before = delivered(&network);
    network.run_for(Duration::from_secs(SECONDS));
    let equal = config.port_bps as f64 / 8.0 * SECONDS as f64 / flows.len() as f64;
    let of = delivered(&network).iter().zip(&before).map(|(now, then)| (now - then) as f64 / equal).collect();
    let queued = network.link(star.port).counters(network.now()).queued_byte_seconds - queued;
    Shares { of, mean_queue_bytes: queued / SECONDS as f64 }
}

fn attach(
    network: &mut Network,
    flow: &Flow,
    begin: Time,
    base_rtt: Duration,
    rng: weir_sim::Rng,
) -> (NodeId, NodeId) {
    match *flow {
        Flow::Tfrc { wire_bytes, options, late_by } => {
            let config = tfrc::SourceConfig {
                wire_bytes,
                segment_bytes: wire_bytes - HEADERS_BYTES,
                start: Start::Rtt(base_rtt),
                begin,
                options,
                late_by,
                ..tfrc::SourceConfig::default()
            };
            let client = network.add(tfrc::Sink::new(&config));
            (network.add(tfrc::Source::new(client, config, rng)), client)
        }
        Flow::NewReno | Flow::Sack => {
            let config = tcp::TcpConfig { begin, ..tcp::TcpConfig::default() };
            let client = network.add(tcp::Sink::new(1));
            let server = match flow {
                Flow::Sack => network.add(tcp::Sack::new(client, config)),
                _ => network.add(tcp::NewReno::new(client, config)),
            };
            (server, client)
        }
    }
}

fn rtt(us: u64) -> StarConfig {
    StarConfig { base_rtt: Duration::from_micros(us), ..StarConfig::default() }
}

#[test]
fn ten_tfrc_flows_share_the_port_equally() {
    for us in [100, 300, 500] {
        let shares = shares(1, rtt(us), &[TFRC; 10]);
        assert!(shares.within(0.8, 1.2), "{us} us: {:?}", shares.of);
        assert!(shares.utilisation() >= 0.97, "{us} us: {}", shares.utilisation());
    }
}

#[test]
fn so_do_flows_whose_timers_are_late() {
    let late =
        |us| Flow::Tfrc { wire_bytes: 1102, options: Options::default(), late_by: Duration::from_micros(us) };
    for us in [100, 3000] {
        let shares = shares(2, rtt(300), &[late(us); 10]);
        assert!(shares.within(0.8, 1.2), "{us} us: {:?}", shares.of);
        assert!(shares.utilisation() >= 0.97, "{us} us: {}", shares.utilisation());
    }
}

#[test]
fn tfrc_and_tcp_share_the_port_with_datagrams_as_large_as_tcps() {
    let tfrc = Flow::Tfrc { wire_bytes: 1486, options: Options::default(), late_by: Duration::ZERO };
    for seed in [1, 2] {
        let shares = shares(seed, rtt(300), &[[tfrc; 5], [Flow::Sack; 5]].concat());
        assert!(shares.within(0.8, 1.2), "{:?}", shares.of);
        assert!(shares.utilisation() >= 0.97, "{}", shares.utilisation());
    }
}

#[test]
fn tfrc_and_tcp_share_the_port_with_the_papers_datagrams() {
    // 1,024 bytes of payload: less than TCP in about the proportion of the segments, as RFC 5348 means it.
    for seed in [1, 2] {
        let shares = shares(seed, rtt(300), &[[TFRC; 5], [Flow::Sack; 5]].concat());
        assert!(shares.within(0.8, 1.2), "{:?}", shares.of);
        assert!(shares.utilisation() >= 0.97, "{}", shares.utilisation());
    }
}

#[test]
fn tfrc_is_fair_to_a_tcp_without_sack_if_the_equation_knows_its_timeout() {
    // A window of five segments has three duplicates to spare after one loss and none after two: this TCP
    // waits for its timeout, 200 ms and 40 round trips, most of the time, and what luck it has differs from
    // flow to flow. The mean of the five is what a rate control can answer for.
    let new_reno = |options| {
        let tfrc = Flow::Tfrc { wire_bytes: 1102, options, late_by: Duration::ZERO };
        let shares = shares(1, rtt(300), &[[tfrc; 5], [Flow::NewReno; 5]].concat());
        assert!(shares.utilisation() >= 0.97, "{}", shares.utilisation());
        mean(&shares.of[..5])
    };
    let by_the_letter = new_reno(Options::default());
    assert!(by_the_letter > 1.3, "{by_the_letter}");
    let least_rto = Duration::from_millis(200);
    let knowing = new_reno(Options { least_rto, equation_bytes: Some(1448), ..Options::default() });
    assert!((0.8..1.2).contains(&knowing), "{knowing}");
}

#[test]
fn less_than_a_packet_a_round_trip_is_shared_too() {
    // 120 flows: a packet every 10 ms each, and a round trip of 5 ms.
    let shares = shares(1, rtt(300), &[TFRC; 120]);
    assert!(shares.within(0.65, 1.35), "{:?}", shares.of);
    assert!(shares.utilisation() >= 0.97, "{}", shares.utilisation());
}

#[test]
fn flows_of_a_gigabit_share_as_those_of_the_paper() {
    let config = StarConfig {
        port_bps: 1_000_000_000,
        uplink_bps: 10_000_000_000,
        base_rtt: Duration::from_micros(100),
        ..StarConfig::default()
    };
    let shares = shares(1, config, &[TFRC; 10]);
    assert!(shares.within(0.9, 1.1), "{:?}", shares.of);
    assert!(shares.utilisation() >= 0.99, "{}", shares.utilisation());
}

#[test]
fn without_the_reduction_of_oscillations_marks_divide_flows_into_rich_and_poor() {
    // A queue that swings about its threshold marks whole round trips: one event for a flow of many packets a
    // round trip, one for every packet of a flow of few, whose p stays high. Section 4.5 is what keeps flows
    // out of this.
    let config = StarConfig { mark_above_bytes: Some(20_000), ..rtt(300) };
    let options = Options { reduce_oscillations: false, ..Options::default() };
    let swinging = Flow::Tfrc { wire_bytes: 1102, options, late_by: Duration::ZERO };
    let (swinging, damped) = (shares(1, config, &[swinging; 10]), shares(1, config, &[TFRC; 10]));
    assert!(swinging.of.iter().any(|share| *share > 2.0), "{:?}", swinging.of);
    assert!(damped.within(0.7, 1.3), "{:?}", damped.of);
    assert!(damped.utilisation() >= 0.97, "{}", damped.utilisation());
}

#[test]
fn marks_keep_the_queue_short_where_drops_would_fill_it() {
    let config = StarConfig { mark_above_bytes: Some(40_000), ..rtt(300) };
    let shares = shares(1, config, &[TFRC; 10]);
    assert!(shares.within(0.8, 1.2), "{:?}", shares.of);
    assert!(shares.utilisation() >= 0.97, "{}", shares.utilisation());
    assert!(shares.mean_queue_bytes < 40_000.0, "{}", shares.mean_queue_bytes);
}
