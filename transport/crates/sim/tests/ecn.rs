//! Explicit congestion notification from end to end: a mark is a loss event to TFRC (RFC 5348 section 3.2.1), so a queue that
//! marks holds a flow back without losing anything of it; who does not heed marks does not ask for them (RFC 3168).

mod common;

use std::time::Duration;

use common::{Bed, SECOND};
use proto::dfcp::{Guide, RateConfig, ReceiverConfig, SenderConfig};
use proto::lttp::ClientConfig;
use weir_sim::dfcp::{ReceiverNode, SenderNode, SenderSetup};
use weir_sim::{Discipline, LinkConfig, LinkCounters, Network, Red, StarConfig, Time};

/// RED that marks: from 15,000 bytes on, one in five at 60,000.
const MARKING: Red = Red {
    min_bytes: 15_000,
    max_bytes: 60_000,
    max_p: 0.2,
    weight: 0.01,
    gentle: true,
    ecn: true,
    packet_bytes: 1102,
};

/// Four servers with 4 MB each under TFRC alone, over a port that marks from so many bytes on; goodput in b/s, and what the
/// port did.
fn lttp(mark_above_bytes: Option<u64>) -> (f64, LinkCounters) {
    let star = StarConfig { mark_above_bytes, buffer_bytes: 100_000, ..StarConfig::default() };
    let client = ClientConfig { credits: false, ..ClientConfig::default() };
    let mut run = Bed { client, star, servers: 4, sizes: vec![4_000_000], ..Bed::default() }.build();
    let end = run.deliver(20 * SECOND);
    run.settled();
    let goodput = 8.0 * 4.0 * 4_000_000.0 / end.since(Time::ZERO).as_secs_f64();
    (goodput, run.network.link(run.port).counters(end))
}

#[test]
fn servers_of_lttp_heed_marks_as_they_heed_losses() {
    let (dropped_goodput, dropping) = lttp(None);
    let (marked_goodput, marking) = lttp(Some(20_000));
    println!(
        "LTTP: {dropped_goodput:.0} b/s with {} drops, {marked_goodput:.0} b/s with {} marks and {} drops",
        dropping.dropped, marking.marked, marking.dropped
    );
    assert!(dropping.dropped > 100 && dropping.marked == 0, "{dropping:?}");
    // Nothing is lost but by the first overshoot.
    assert!(marking.marked > 100 && marking.dropped * 5 < dropping.dropped, "{marking:?}");
    assert!(marked_goodput > 0.75e8, "{marked_goodput}");
}

/// A sender of DFCP over a link that marks, at a rate that it is told or under TFRC.
fn dfcp(told: Option<f64>) -> LinkCounters {
    let mut network = Network::new(2);
    let receiver = network.add(ReceiverNode::new(ReceiverConfig::default(), None));
    let config = SenderConfig::default();
    let setup = SenderSetup {
        config: SenderConfig { rate: RateConfig { expiry: None, ..config.rate }, ..config },
        secret: None,
        connection: 1,
        rates: told.into_iter().map(|bps| (Time::ZERO, bps)).collect(),
    };
    let mut node = SenderNode::new(setup, receiver);
    node.send("object", vec![7; 10_000_000]);
    let sender = network.add(node);
    let delay = Duration::from_millis(1);
    let config =
        LinkConfig { discipline: Discipline::Red(MARKING), ..LinkConfig::new(100_000_000, delay, 200_000) };
    let there = network.add_link(config);
    let back = network.add_link(LinkConfig::delay(delay));
    network.route(sender, receiver, &[there]);
    network.route(receiver, sender, &[back]);
    let done = |network: &Network| network.node::<SenderNode>(sender).is_done();
    assert!(network.run_until(Time::ZERO + 20 * SECOND, done));
    let guide = if told.is_some() { Guide::Told } else { Guide::Tfrc };
    assert!(network.node::<SenderNode>(sender).guides().iter().all(|(_, g)| *g == guide));
    network.link(there).counters(network.now())
}

#[test]
fn a_sender_of_dfcp_asks_for_marks_only_while_it_heeds_them() {
    let under_tfrc = dfcp(None);
    assert!(under_tfrc.marked > 20 && under_tfrc.dropped * 10 < under_tfrc.marked, "{under_tfrc:?}");
    let told = dfcp(Some(110e6));
    assert!(told.marked == 0 && told.dropped_early > 100, "{told:?}");
}
