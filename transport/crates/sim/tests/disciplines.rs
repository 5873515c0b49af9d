//! The queue disciplines do what their papers define: deficit round robin shares a link within the bound of Shreedhar and
//! Varghese, random early detection keeps the average queue between its thresholds.

use std::time::Duration;

use proto::tfrc::Start;
use weir_sim::{
    Datagram, Discipline, LinkConfig, LinkCounters, LinkId, Network, Node, NodeId, Output, Red, Rng, Star,
    StarConfig, Time, jain_index, tcp, tfrc,
};

const MS: Duration = Duration::from_millis(1);
const LONGEST: u32 = 1514;
const LINK_BPS: u64 = 100_000_000;

/// Sends datagrams of these lengths for ever, at a rate, whatever becomes of them.
struct Talker {
    to: NodeId,
    lengths: std::ops::RangeInclusive<u32>,
    bps: f64,
    rng: Rng,
    next: Time,
    due: bool,
}

impl Node for Talker {
    fn handle(&mut self, _now: Time, _datagram: Datagram) {}

    fn handle_timeout(&mut self, _now: Time) {
        self.due = true;
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.next)
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        if !std::mem::take(&mut self.due) {
            return None;
        }
        let (least, most) = (*self.lengths.start(), *self.lengths.end());
        let length = least + self.rng.below(u64::from(most - least) + 1) as u32;
        self.next = now + Duration::from_secs_f64(f64::from(length) * 8.0 / self.bps);
        Some(Output::Datagram(Datagram::new(self.to, Vec::new()).sized(length)))
    }
}

/// Keeps what arrives: when, from whom, how long.
#[derive(Default)]
struct Listener(Vec<(Time, NodeId, u32)>);

impl Node for Listener {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        self.0.push((now, datagram.from, datagram.wire_bytes));
    }

    fn handle_timeout(&mut self, _now: Time) {}

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_transmit(&mut self, _now: Time) -> Option<Output> {
        None
    }
}

/// Talkers, with their lengths and rates in bit/s, that share a link to one listener.
fn talk(
    discipline: Discipline,
    buffer_bytes: u64,
    talkers: &[(std::ops::RangeInclusive<u32>, f64)],
) -> (Network, LinkId, NodeId, Vec<NodeId>) {
    let mut network = Network::new(11);
    let listener = network.add(Listener::default());
    let config = LinkConfig { discipline, ..LinkConfig::new(LINK_BPS, MS, buffer_bytes) };
    let link = network.add_link(config);
    let mut add = |(lengths, bps): &(std::ops::RangeInclusive<u32>, f64)| {
        let rng = network.fork_rng();
        let (lengths, bps, next) = (lengths.clone(), *bps, Time::ZERO);
        let talker = network.add(Talker { to: listener, lengths, bps, rng, next, due: false });
        network.route(talker, listener, &[link]);
        talker
    };
    let talkers = talkers.iter().map(&mut add).collect();
    (network, link, listener, talkers)
}

fn drr(quantum_bytes: u32) -> Discipline {
    Discipline::Drr { quantum_bytes }
}

#[test]
fn over_any_time_two_flows_of_drr_differ_by_less_than_the_papers_bound() {
    // Lemma 2: between two flows that have something queued all the time, 2 Max + Quantum over any interval. That is how
    // far the difference of what they have sent moves.
    let talkers = [(64..=64, 60e6), (64..=LONGEST, 40e6), (1000..=LONGEST, 90e6), (LONGEST..=LONGEST, 300e6)];
    for quantum in [200, LONGEST, 9000] {
        let (mut network, _, listener, ids) = talk(drr(quantum), 400_000, &talkers);
        network.run_for(2000 * MS);
        let heard: Vec<_> = network.node::<Listener>(listener).0.clone();
        // All queues are full from the first tenth of a second on.
        let heard: Vec<_> = heard.iter().filter(|(at, ..)| *at > Time::ZERO + 100 * MS).collect();
        assert!(heard.len() > 10_000, "{}", heard.len());
        for (i, a) in ids.iter().enumerate() {
            for b in &ids[i + 1..] {
                let (mut difference, mut least, mut most) = (0_i64, 0, 0);
                for (_, from, bytes) in &heard {
                    let bytes = i64::from(*bytes);
                    difference += if from == a { bytes } else { 0 } - if from == b { bytes } else { 0 };
                    (least, most) = (difference.min(least), difference.max(most));
                }
                let bound = i64::from(2 * LONGEST + quantum);
                assert!(most - least <= bound, "quantum {quantum}, {a:?} {b:?}: {}", most - least);
            }
        }
    }
}

#[test]
fn drr_gives_who_wants_less_than_a_share_all_of_it_and_the_others_the_rest_equally() {
    // 10 and 20 Mb/s of 100; then three who take what there is.
    let wanted = [10e6, 20e6, 80e6, 200e6, 1000e6];
    let talkers = wanted.map(|bps| (500..=LONGEST, bps));
    let (mut network, link, listener, ids) = talk(drr(LONGEST), 200_000, &talkers);
    network.run_for(2000 * MS);
    let got = |id: &NodeId| network.flow(*id, listener).delivered_bytes as f64 * 8.0 / 2.0;
    let got: Vec<f64> = ids.iter().map(got).collect();
    assert!((got[0] / 10e6 - 1.0).abs() < 0.01 && (got[1] / 20e6 - 1.0).abs() < 0.01, "{got:?}");
    assert!(jain_index(&got[2..]) > 0.9999 && (got[2] / 23.3e6 - 1.0).abs() < 0.02, "{got:?}");
    // Room is made at the cost of the longest queues alone, and every drop is counted where it belongs.
    let lost: Vec<u64> = ids.iter().map(|id| network.flow(*id, listener).lost).collect();
    assert_eq!(lost[..2], [0, 0]);
    let LinkCounters { dropped, dropped_early, most_queued_bytes, .. } =
        network.link(link).counters(network.now());
    assert_eq!((lost.iter().sum::<u64>(), dropped_early), (dropped, 0));
    assert!(most_queued_bytes <= 200_000);
}

#[test]
fn without_drr_who_sends_most_gets_most() {
    let talkers = [10e6, 20e6, 80e6, 200e6, 1000e6].map(|bps| (500..=LONGEST, bps));
    let (mut network, _, listener, ids) = talk(Discipline::DropTail, 200_000, &talkers);
    network.run_for(2000 * MS);
    let got: Vec<f64> = ids.iter().map(|id| network.flow(*id, listener).delivered_bytes as f64).collect();
    assert!(got.is_sorted() && got[4] > 10.0 * got[1] && jain_index(&got[2..]) < 0.7, "{got:?}");
}

#[test]
fn a_discipline_that_changes_keeps_what_is_queued() {
    let (mut network, link, listener, ids) =
        talk(Discipline::DropTail, 200_000, &[(1000..=1000, 150e6), (1000..=1000, 50e6)]);
    for discipline in [drr(1000), Discipline::Red(Red::default()), Discipline::DropTail, drr(500)] {
        network.run_for(50 * MS);
        network.link_mut(link).config.discipline = discipline;
    }
    network.run_for(50 * MS);
    let now = network.now();
    let counters = network.link(link).counters(now);
    let flows: Vec<_> = ids.iter().map(|id| network.flow(*id, listener)).collect();
    let (sent, lost) = flows.iter().fold((0, 0), |(sent, lost), flow| (sent + flow.sent, lost + flow.lost));
    // Queued, being sent and under way: 1,000 bytes each.
    let queued = network.link(link).queued_bytes() / 1000;
    let delivered: u64 = flows.iter().map(|flow| flow.delivered).sum();
    let under_way = counters.sent - delivered;
    assert_eq!(sent, delivered + lost + queued + under_way + 1);
    assert!(delivered > 2900 && lost > 0 && under_way <= 13, "{counters:?}");
}

#[test]
#[should_panic(expected = "a quantum of 0 bytes")]
fn a_quantum_of_nothing_is_refused() {
    let mut network = Network::new(1);
    network.add_link(LinkConfig { discipline: drr(0), ..LinkConfig::new(1, MS, 1) });
}

/// Forty flows of TCP with SACK over 100 Mb/s and 40 ms: the share of the link that they used in seconds 10 to 40, their
/// mean queue in bytes, and what the link did in all.
fn forty_tcps(discipline: Discipline) -> (f64, f64, LinkCounters) {
    let config = StarConfig {
        buffer_bytes: 500_000,
        base_rtt: 40 * MS,
        discipline,
        uplink_bps: 1_000_000_000,
        ..StarConfig::default()
    };
    let mut network = Network::new(3);
    let star = Star::new(&mut network, config);
    for _ in 0..40 {
        let begin = Time::from_nanos(network.fork_rng().below(500_000_000));
        let client = network.add(tcp::Sink::new(1));
        let source = tcp::Sack::new(client, tcp::TcpConfig { begin, ..tcp::TcpConfig::default() });
        let server = network.add(source);
        star.attach(&mut network, server, client);
    }
    network.run_for(Duration::from_secs(10));
    let before = network.link(star.port).counters(network.now());
    network.run_for(Duration::from_secs(30));
    let after = network.link(star.port).counters(network.now());
    let used = (after.sent_bytes - before.sent_bytes) as f64 * 8.0 / 30.0 / LINK_BPS as f64;
    (used, (after.queued_byte_seconds - before.queued_byte_seconds) / 30.0, after)
}

#[test]
fn red_keeps_the_queue_of_tcps_between_its_thresholds_where_drop_tail_fills_the_buffer() {
    let (used, queue, counters) = forty_tcps(Discipline::DropTail);
    println!("drop-tail: {used:.3} of the link, a queue of {queue:.0} bytes, {} dropped", counters.dropped);
    assert!(used > 0.98 && queue > 250_000.0);
    assert_eq!(counters.dropped_early, 0);
    for gentle in [false, true] {
        let red = Red { min_bytes: 30_000, max_bytes: 150_000, gentle, ..Red::default() };
        let (used, queue, counters) = forty_tcps(Discipline::Red(red));
        println!("RED, gentle {gentle}: {used:.3}, {queue:.0} bytes, {} dropped", counters.dropped);
        assert!(used > 0.9 && (30_000.0..150_000.0).contains(&queue), "{used} {queue}");
        // The buffer is hardly ever full: it is RED that drops.
        assert!(counters.dropped_early > 20 * (counters.dropped - counters.dropped_early), "{counters:?}");
    }
}

#[test]
fn red_drops_of_open_loop_traffic_as_many_as_its_average_says() {
    // 20 % more than the link carries: the average settles where as many are dropped, at p_b with 2 / (1 / p_b + 1) = 1/6,
    // that is p_b = 1/11 in a ramp from 20,000 bytes (0) to 120,000 (0.2): at 65,455 bytes.
    let red = Red { min_bytes: 20_000, max_bytes: 120_000, max_p: 0.2, ..Red::default() };
    let (mut network, link, ..) = talk(Discipline::Red(red), 400_000, &[(1000..=1000, 120e6)]);
    network.run_for(1000 * MS);
    let before = network.link(link).counters(network.now());
    network.run_for(9000 * MS);
    let after = network.link(link).counters(network.now());
    let (dropped, sent) = (after.dropped - before.dropped, after.sent - before.sent);
    let share = dropped as f64 / (dropped + sent) as f64;
    let queue = (after.queued_byte_seconds - before.queued_byte_seconds) / 9.0;
    assert_eq!(dropped, after.dropped_early - before.dropped_early);
    assert!((share * 6.0 - 1.0).abs() < 0.01, "{share}");
    assert!((queue / 65_455.0 - 1.0).abs() < 0.03, "{queue}");
}

/// Ten flows of TFRC over the star's port; what the port did in 30 s.
fn ten_tfrcs(red: Red) -> (f64, LinkCounters) {
    let config =
        StarConfig { buffer_bytes: 200_000, discipline: Discipline::Red(red), ..StarConfig::default() };
    let mut network = Network::new(4);
    let star = Star::new(&mut network, config);
    for _ in 0..10 {
        let begin = Time::from_nanos(network.fork_rng().below(100_000_000));
        let source =
            tfrc::SourceConfig { start: Start::Rtt(config.base_rtt), begin, ..tfrc::SourceConfig::default() };
        let client = network.add(tfrc::Sink::new(&source));
        let rng = network.fork_rng();
        let server = network.add(tfrc::Source::new(client, source, rng));
        star.attach(&mut network, server, client);
    }
    network.run_for(Duration::from_secs(30));
    let counters = network.link(star.port).counters(network.now());
    (counters.sent_bytes as f64 * 8.0 / 30.0 / LINK_BPS as f64, counters)
}

#[test]
fn red_that_marks_holds_back_tfrc_without_dropping() {
    let red = Red { min_bytes: 20_000, max_bytes: 80_000, max_p: 0.2, ..Red::default() };
    let (used, dropping) = ten_tfrcs(red);
    assert!(used > 0.9 && dropping.marked == 0 && dropping.dropped_early > 100, "{used} {dropping:?}");
    let (used, marking) = ten_tfrcs(Red { ecn: true, ..red });
    assert!(used > 0.9 && marking.marked > 100, "{used} {marking:?}");
    assert!(marking.dropped * 20 < marking.marked, "{marking:?}");
}
