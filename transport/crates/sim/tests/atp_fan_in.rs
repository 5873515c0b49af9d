//! Many servers of ATP answer one client at once, through a port that has no room for all that they may have on their way.

use std::time::Duration;

use proto::atp::{ConnectionConfig, Counters};
use proto::protect::Side;
use weir_sim::atp::AtpNode;
use weir_sim::{Network, NodeId, Star, StarConfig, Time};

/// What has come of rounds in each of which every server was asked once.
#[derive(Debug)]
struct FanIn {
    median: Duration,
    longest: Duration,
    /// Of the port's rate.
    goodput_share: f64,
    parity_share: f64,
}

impl FanIn {
    fn run(servers: usize, bytes: usize, rounds: usize) -> Self {
        let star_config = StarConfig::default();
        let mut network = Network::new(servers as u64);
        let star = Star::new(&mut network, star_config);
        // The client has an end for each server.
        for n in 0..servers {
            let [client, server] = [NodeId(2 * n), NodeId(2 * n + 1)];
            network.add(AtpNode::new(Side::Client, server, ConnectionConfig::default()));
            network.add(
                AtpNode::new(Side::Server, client, ConnectionConfig::default())
                    .answering(move |_| vec![7; bytes]),
            );
            star.attach(&mut network, server, client);
        }
        let mut taken = Vec::new();
        for round in 1..=rounds {
            let begun = network.now();
            for n in 0..servers {
                network.visit(NodeId(2 * n), |node: &mut AtpNode, now| node.send(now, vec![1; 100]));
            }
            let all_have_answered = |network: &Network| {
                (0..servers).all(|n| {
                    let got = network.node::<AtpNode>(NodeId(2 * n)).got();
                    got.values().filter(|got| got.ended.is_some() && got.bytes.len() == bytes).count()
                        == round
                })
            };
            assert!(network.run_until(begun + Duration::from_secs(30), all_have_answered), "round {round}");
            taken.push(network.now().since(begun));
        }
        let mut sum = Counters::default();
        for n in 0..servers {
            sum += network.node::<AtpNode>(NodeId(2 * n + 1)).connection().counters();
        }
        let seconds = network.now().since(Time::ZERO).as_secs_f64();
        taken.sort();
        FanIn {
            median: taken[rounds / 2],
            longest: taken[rounds - 1],
            goodput_share: (servers * bytes * rounds * 8) as f64 / seconds / star_config.port_bps as f64,
            parity_share: sum.parity_bytes as f64 / sum.sent_bytes as f64,
        }
    }
}

#[test]
fn many_servers_at_once_do_not_collapse() {
    // TCP, which waits 200 ms for each of its timeouts, has a quarter of the rate with as many servers on the testbed.
    for (servers, bytes, least_share, most_parity) in
        [(8, 8_500, 0.65, 0.25), (32, 8_500, 0.7, 0.2), (8, 65_536, 0.8, 0.15), (32, 65_536, 0.8, 0.1)]
    {
        let fan_in = FanIn::run(servers, bytes, 10);
        println!("{servers} servers, {bytes} bytes: {fan_in:?}");
        assert!(fan_in.goodput_share > least_share, "{servers} servers, {bytes} bytes: {fan_in:?}");
        assert!(fan_in.longest < 2 * fan_in.median, "{servers} servers, {bytes} bytes: {fan_in:?}");
        // Hardly anything is repaired where the queue overflows again and again.
        assert!(fan_in.parity_share < most_parity, "{servers} servers, {bytes} bytes: {fan_in:?}");
    }
}
