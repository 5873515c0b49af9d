//! Explicit congestion notification from end to end: a mark is a loss event to TFRC (RFC 5348 section 3.2.1), so a queue that
//! marks holds a flow back without losing anything of it; who does not heed marks does not ask for them (RFC 3168).

mod common;

use std::time::Duration;

use common::{Bed, SECOND, bytes};
use proto::dfcp::{Guide, RateConfig, ReceiverConfig, ReceiverCounters, SenderConfig, SenderCounters};
use proto::ecn::State;
use proto::lttp::{ClientConfig, ServerConfig, ServerCounters};
use weir_sim::dfcp::{ReceiverNode, SenderNode, SenderSetup};
use weir_sim::{Discipline, Faults, LinkConfig, LinkCounters, Loss, Network, Red, StarConfig, Time};

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

/// A sender of DFCP with 10 MB over a link of 100 Mb/s whose queue is RED that marks.
struct Dfcp {
    /// What it is told; `None`: it is under TFRC.
    told: Option<f64>,
    ecn: bool,
    faults: Faults,
    seed: u64,
}

impl Default for Dfcp {
    fn default() -> Self {
        Dfcp { told: None, ecn: true, faults: Faults::default(), seed: 2 }
    }
}

/// What came of it.
struct Sent {
    goodput: f64,
    link: LinkCounters,
    sender: SenderCounters,
    receiver: ReceiverCounters,
}

impl Dfcp {
    fn run(self) -> Sent {
        const BYTES: usize = 10_000_000;
        let mut network = Network::new(self.seed);
        let receiver = network.add(ReceiverNode::new(ReceiverConfig::default(), None));
        let config = SenderConfig::default();
        let rate = RateConfig { expiry: None, ..config.rate };
        let setup = SenderSetup {
            config: SenderConfig { rate, ecn: self.ecn, ..config },
            secret: None,
            connection: 1,
            rates: self.told.into_iter().map(|bps| (Time::ZERO, bps)).collect(),
        };
        let mut node = SenderNode::new(setup, receiver);
        let object = bytes(1, BYTES);
        node.send("object", object.clone());
        let sender = network.add(node);
        let delay = Duration::from_millis(1);
        let config = LinkConfig {
            discipline: Discipline::Red(MARKING),
            ..LinkConfig::new(100_000_000, delay, 200_000)
        };
        let there = network.add_link(config);
        network.link_mut(there).faults = self.faults;
        let back = network.add_link(LinkConfig::delay(delay));
        network.route(sender, receiver, &[there]);
        network.route(receiver, sender, &[back]);
        let done = |network: &Network| network.node::<SenderNode>(sender).is_done();
        assert!(network.run_until(Time::ZERO + 20 * SECOND, done));
        let now = network.now();
        let node = network.node::<SenderNode>(sender);
        let guide = if self.told.is_some() { Guide::Told } else { Guide::Tfrc };
        assert!(node.guides().iter().all(|(_, g)| *g == guide));
        let received = network.node::<ReceiverNode>(receiver);
        assert!(received.received("object").is_some_and(|came| came.bytes == object), "other bytes");
        Sent {
            goodput: 8.0 * BYTES as f64 / now.since(Time::ZERO).as_secs_f64(),
            link: network.link(there).counters(now),
            sender: node.counters(),
            receiver: received.counters(sender, 1),
        }
    }
}

/// Loses what is sent ECN-capable, from the `n`-th datagram of the link on.
fn dropping_ect(n: u64) -> Faults {
    Faults {
        loss: Loss::Script(Box::new(move |number, d| number >= n && d.ecn.is_capable())),
        ..Faults::default()
    }
}

#[test]
fn a_sender_of_dfcp_asks_for_marks_only_while_it_heeds_them() {
    let under_tfrc = Dfcp::default().run().link;
    assert!(under_tfrc.marked > 20 && under_tfrc.dropped * 10 < under_tfrc.marked, "{under_tfrc:?}");
    let told = Dfcp { told: Some(110e6), ..Dfcp::default() }.run().link;
    assert!(told.marked == 0 && told.dropped_early > 100, "{told:?}");
}

#[test]
fn marks_cost_a_sender_of_dfcp_no_more_than_drops_and_both_ends_count_them() {
    let (mut dropped_bps, mut marked_bps) = (0.0, 0.0);
    for seed in 0..6 {
        let dropped = Dfcp { ecn: false, seed, ..Dfcp::default() }.run();
        let marked = Dfcp { seed, ..Dfcp::default() }.run();
        println!(
            "DFCP: {:.0} b/s with {} drops, {:.0} b/s with {} marks and {} drops",
            dropped.goodput, dropped.link.dropped, marked.goodput, marked.link.marked, marked.link.dropped
        );
        (dropped_bps, marked_bps) = (dropped_bps + dropped.goodput, marked_bps + marked.goodput);
        assert_eq!((dropped.link.marked, dropped.sender.ect, dropped.sender.ecn), (0, 0, State::Off));
        assert!(dropped.link.dropped > 20, "{:?}", dropped.link);
        let Sent { sender, receiver, link, .. } = marked;
        assert!(link.dropped * 4 < dropped.link.dropped, "{link:?}");
        assert_eq!((sender.ecn, sender.ect), (State::Capable, sender.symbols));
        assert_eq!(receiver.ce, link.marked);
        assert_eq!(receiver.ect + receiver.ce, sender.ect - link.dropped);
        // The last report need not have come.
        assert!(sender.ce <= receiver.ce && receiver.ce - sender.ce < 10, "{} {}", sender.ce, receiver.ce);
    }
    assert!(marked_bps > 0.97 * dropped_bps, "{marked_bps} {dropped_bps}");
}

#[test]
fn a_path_that_clears_marks_is_used_without() {
    let sent = Dfcp { faults: Faults { clear_ecn: true, ..Faults::default() }, ..Dfcp::default() }.run();
    assert_eq!((sent.sender.ecn, sent.link.marked), (State::Cleared, 0));
    // Those of the first round trips.
    assert!(sent.sender.ect < 100, "{}", sent.sender.ect);
    let plain = Dfcp { ecn: false, ..Dfcp::default() }.run();
    assert!(sent.goodput > 0.97 * plain.goodput, "{} {}", sent.goodput, plain.goodput);
}

#[test]
fn a_path_that_drops_what_is_marked_is_used_without() {
    let plain = Dfcp { ecn: false, ..Dfcp::default() }.run();
    for from in [0, 3000] {
        let sent = Dfcp { faults: dropping_ect(from), ..Dfcp::default() }.run();
        println!("dropped from datagram {from} on: {:.0} b/s of {:.0}", sent.goodput, plain.goodput);
        assert_eq!(sent.sender.ecn, State::Dropped, "{from}");
        // It takes a fraction of a second to find out, and TFRC as long to come back.
        assert!(sent.goodput > 0.4 * plain.goodput, "{from}: {} {}", sent.goodput, plain.goodput);
    }
}

/// Four servers with 4 MB each, over paths with such faults; by credits or under TFRC alone.
fn faulty_lttp(credits: bool, ecn: bool, faults: impl Fn() -> Faults) -> (f64, Vec<ServerCounters>) {
    let client = ClientConfig { credits, ..ClientConfig::default() };
    let server = ServerConfig { ecn, ..ServerConfig::default() };
    let mut run = Bed { client, server, servers: 4, sizes: vec![4_000_000], ..Bed::default() }.build();
    run.there(faults);
    let end = run.deliver(30 * SECOND);
    let counters = (0..4).map(|server| run.server(server).counters(run.client)).collect();
    run.settled();
    (8.0 * 4.0 * 4_000_000.0 / end.since(Time::ZERO).as_secs_f64(), counters)
}

#[test]
fn servers_of_lttp_do_without_marks_where_the_path_clears_them() {
    for credits in [true, false] {
        let (_, servers) = faulty_lttp(credits, true, || Faults { clear_ecn: true, ..Faults::default() });
        // Whether marks are cleared or datagrams dropped cannot be told where others have come that bore none.
        assert!(servers.iter().all(|s| s.ecn_cleared + s.ecn_dropped == 1 && s.ect < 200), "{servers:?}");
    }
}

#[test]
fn servers_of_lttp_do_without_marks_where_the_path_drops_them() {
    for credits in [true, false] {
        let (plain, servers) = faulty_lttp(credits, false, Faults::default);
        assert!(servers.iter().all(|s| s.ect == 0));
        for from in [0, 1500] {
            let (goodput, servers) = faulty_lttp(credits, true, || dropping_ect(from));
            println!("credits {credits}, dropped from datagram {from} on: {goodput:.0} b/s of {plain:.0}");
            assert!(servers.iter().all(|s| s.ecn_dropped == 1), "{servers:?}");
            assert!(goodput > 0.4 * plain, "{from}: {goodput} {plain}");
        }
    }
}

/// Four servers with 4 MB each, by credits, over a port: goodput in b/s, what the port did, and the bytes in its queue.
fn by_credits(ecn: bool, star: StarConfig) -> (f64, LinkCounters, f64) {
    let server = ServerConfig { ecn, ..ServerConfig::default() };
    let mut run = Bed { server, star, servers: 4, sizes: vec![4_000_000], ..Bed::default() }.build();
    let end = run.deliver(20 * SECOND);
    let link = run.network.link(run.port).counters(end);
    let came: u64 = (0..4).map(|server| run.client().report(server).ce).sum();
    assert_eq!(came, link.marked);
    let seconds = end.since(Time::ZERO).as_secs_f64();
    (8.0 * 4.0 * 4_000_000.0 / seconds, link, link.queued_byte_seconds / seconds)
}

#[test]
fn servers_that_have_credits_heed_marks_as_well() {
    let red =
        StarConfig { buffer_bytes: 200_000, discipline: Discipline::Red(MARKING), ..StarConfig::default() };
    let threshold =
        StarConfig { buffer_bytes: 100_000, mark_above_bytes: Some(20_000), ..StarConfig::default() };
    for (name, star, part) in [("RED", red, 0.9), ("a threshold", threshold, 0.8)] {
        let (plain_bps, plain, plain_queue) = by_credits(false, star);
        let (marked_bps, marked, marked_queue) = by_credits(true, star);
        println!(
            "credits, {name}: {plain_bps:.0} b/s with {} drops, {plain_queue:.0} bytes queued; {marked_bps:.0} b/s with {} marks and \
             {} drops, {marked_queue:.0} bytes queued",
            plain.dropped, marked.marked, marked.dropped
        );
        assert!(
            plain.marked == 0 && marked.marked > 100 && marked.dropped <= plain.dropped,
            "{name}: {marked:?}"
        );
        assert!(marked_bps > part * plain_bps, "{name}: {marked_bps} {plain_bps}");
        assert!(marked_queue < plain_queue.max(15_000.0), "{name}: {marked_queue} {plain_queue}");
    }
}
