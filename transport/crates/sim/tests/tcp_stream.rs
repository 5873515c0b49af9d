//! The TCP models carry bytes, heed marks, and let a node around them read and change what they say; their throughput is
//! that of the equation of Padhye et al., with timeouts.

use std::time::Duration;

use proptest::prelude::*;
use weir_sim::tcp::{Ack, NewReno, Sack, Segment, Sink, TcpConfig};
use weir_sim::{
    Datagram, Discipline, Faults, LinkConfig, Loss, Network, NodeId, Passed, Red, Rng, Shim, Time, Wrapped,
};

const MS: Duration = Duration::from_millis(1);

fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..count.div_ceil(8)).flat_map(|_| rng.bits().to_be_bytes()).take(count).collect()
}

/// Links between two nodes: 20 Mb/s there, 20 ms there and back.
fn join(network: &mut Network, source: NodeId, sink: NodeId, there: Faults, back: Faults) {
    let forth = network.add_link(LinkConfig::new(20_000_000, 10 * MS, 60_000));
    let return_link = network.add_link(LinkConfig::delay(10 * MS));
    network.link_mut(forth).faults = there;
    network.link_mut(return_link).faults = back;
    network.route(source, sink, &[forth]);
    network.route(sink, source, &[return_link]);
}

/// What a source has to be for [`carry`].
macro_rules! carry {
    ($name:ident, $kind:ty) => {
        /// Sends bytes in pieces over such links, and what of them arrived.
        fn $name(seed: u64, stream: &[u8], mss: u32, there: Faults, back: Faults) -> (Vec<u8>, bool) {
            let mut network = Network::new(seed);
            let sink = network.add(Sink::new(2));
            let config = TcpConfig { mss_bytes: mss, ..TcpConfig::default() };
            let source = network.add(<$kind>::new(sink, config));
            join(&mut network, source, sink, there, back);
            let mut rng = network.fork_rng();
            let mut rest = stream;
            while !rest.is_empty() {
                let (piece, after) = rest.split_at((1 + rng.below(50_000) as usize).min(rest.len()));
                network.visit(source, |source: &mut $kind, _| source.write(piece));
                network.run_for(Duration::from_millis(rng.below(30)));
                rest = after;
            }
            network.visit(source, |source: &mut $kind, _| source.end());
            let deadline = network.now() + Duration::from_secs(3000);
            let done = network.run_until(deadline, |network| network.node::<$kind>(source).is_done());
            (network.node::<Sink>(sink).received().to_vec(), done)
        }
    };
}
carry!(carry_new_reno, NewReno);
carry!(carry_sack, Sack);

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_in_order_whatever_the_network_does(
        seed: u64,
        count in 0_usize..400_000,
        mss in prop_oneof![Just(1448_u32), 1_u32..3000],
        loss in 0.0..0.1_f64,
        duplicate in 0.0..0.1_f64,
        corrupt in 0.0..0.05_f64,
        reorder in 0.0..0.1_f64,
    ) {
        let stream = bytes(seed, count.min(mss as usize * 500));
        let faults = || Faults {
            loss: Loss::Independent(loss), duplicate, corrupt, reorder, reorder_by: 5 * MS, ..Faults::default()
        };
        for (received, done) in [
            carry_new_reno(seed, &stream, mss, faults(), faults()),
            carry_sack(seed, &stream, mss, faults(), faults()),
        ] {
            prop_assert!(done);
            prop_assert!(received == stream, "{} bytes of {}", received.len(), stream.len());
        }
    }
}

#[test]
fn a_stream_that_goes_on_sends_full_segments_and_its_end_the_rest() {
    let mut network = Network::new(1);
    let sink = network.add(Sink::new(1));
    let source = network.add(NewReno::new(sink, TcpConfig { mss_bytes: 1000, ..TcpConfig::default() }));
    join(&mut network, source, sink, Faults::default(), Faults::default());
    let stream = bytes(5, 2500);
    network.visit(source, |source: &mut NewReno, _| source.write(&stream));
    network.run_for(100 * MS);
    assert_eq!(network.node::<Sink>(sink).received(), &stream[..2000]);
    assert!(!network.node::<NewReno>(source).is_done());
    network.visit(source, |source: &mut NewReno, _| source.end());
    network.run_for(100 * MS);
    assert_eq!(network.node::<Sink>(sink).received(), &stream[..]);
    assert!(network.node::<NewReno>(source).is_done());
    // 66 bytes of headers each: the last segment is as long as it is.
    assert_eq!(network.flow(source, sink).delivered_bytes, 2500 + 3 * 66);
}

/// Puts into each acknowledgement how many segments have passed it.
#[derive(Default)]
struct Counts(u32);

impl Shim for Counts {
    fn incoming(&mut self, _now: Time, datagram: Datagram, passed: &mut Passed) {
        self.0 += 1;
        passed.up(datagram);
    }

    fn outgoing(&mut self, _now: Time, datagram: Datagram, passed: &mut Passed) {
        let mut ack = Ack::parse(&datagram.payload).expect("a sink sends acknowledgements");
        ack.options = self.0.to_be_bytes().to_vec();
        passed.down(Datagram { payload: ack.emit(), wire_bytes: datagram.wire_bytes + 4, ..datagram });
    }
}

/// Reads them, and sends every segment twice, the second time a while later: what the network loses of one is made up for.
#[derive(Default)]
struct Repeats {
    read: Vec<u32>,
    later: std::collections::VecDeque<(Time, Datagram)>,
}

impl Shim for Repeats {
    fn outgoing(&mut self, now: Time, datagram: Datagram, passed: &mut Passed) {
        self.later.push_back((now + MS, datagram.clone()));
        passed.down(datagram);
    }

    fn incoming(&mut self, _now: Time, datagram: Datagram, passed: &mut Passed) {
        let ack = Ack::parse(&datagram.payload).expect("nothing is corrupt here");
        self.read.push(u32::from_be_bytes(ack.options[..].try_into().expect("four bytes")));
        // What TCP hears is as it was without the shims.
        passed.up(Datagram { payload: Ack { options: Vec::new(), ..ack }.emit(), ..datagram });
    }

    fn handle_timeout(&mut self, now: Time, passed: &mut Passed) {
        let due = self.later.partition_point(|(at, _)| *at <= now);
        self.later.drain(..due).for_each(|(_, datagram)| passed.down(datagram));
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.later.front().map(|(at, _)| *at)
    }
}

#[test]
fn nodes_around_the_ends_read_and_change_what_they_say() {
    let mut network = Network::new(1);
    let sink = network.add(Wrapped::new(Sink::new(1), Counts::default()));
    let source = network.add(Wrapped::new(Sack::new(sink, TcpConfig::default()), Repeats::default()));
    // The first transmission of every fifth segment is lost, and TCP never learns of it.
    let mut seen = std::collections::BTreeSet::new();
    let loss = Loss::Script(Box::new(move |_, datagram| {
        let number = Segment::parse(&datagram.payload).expect("a source sends segments").number;
        number.is_multiple_of(5) && seen.insert(number)
    }));
    join(&mut network, source, sink, Faults { loss, ..Faults::default() }, Faults::default());
    let stream = bytes(9, 60_000);
    network.visit(source, |wrapped: &mut Wrapped<Sack, Repeats>, _| {
        wrapped.node.write(&stream);
        wrapped.node.end();
    });
    network.run_for(Duration::from_secs(5));
    let (at_sink, at_source) =
        (network.node::<Wrapped<Sink, Counts>>(sink), network.node::<Wrapped<Sack, Repeats>>(source));
    assert_eq!(at_sink.node.received(), &stream[..]);
    assert!(at_source.node.is_done());
    assert_eq!(at_source.node.counters().timeouts, 0);
    assert!(at_source.shim.read.is_sorted() && at_source.shim.read.last() == Some(&at_sink.shim.0));
}

/// The model of Padhye, Firoiu, Towsley and Kurose (SIGCOMM 1998, Eq. 30) in segments a second, without a limit of the
/// window: the round trip, the first retransmission timeout. The window grows by the segments that are acknowledged, however
/// many by one acknowledgement (RFC 3465), so b is 1.
fn padhye(p: f64, rtt_s: f64, rto_s: f64) -> f64 {
    let timeouts = rto_s * (3.0 * (3.0 * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    1.0 / (rtt_s * (2.0 * p / 3.0).sqrt() + timeouts)
}

#[test]
fn with_timeouts_the_throughput_is_that_of_padhyes_equation() {
    // 100 ms there and back, 1 Gb/s: nothing but random loss holds a flow back.
    for b in [1_u32, 2] {
        for p in [0.003, 0.01, 0.03] {
            let mut network = Network::new(8);
            let sink = network.add(Sink::new(b));
            let source = network.add(NewReno::new(sink, TcpConfig::default()));
            let there = network.add_link(LinkConfig::new(1_000_000_000, 50 * MS, u64::MAX));
            let back = network.add_link(LinkConfig::delay(50 * MS));
            network.link_mut(there).faults = Faults { loss: Loss::Independent(p), ..Faults::default() };
            network.route(source, sink, &[there]);
            network.route(sink, source, &[back]);
            network.run_for(Duration::from_secs(3000));
            let sent = network.flow(source, sink).sent as f64 / 3000.0;
            let counters = network.node::<NewReno>(source).counters();
            // As in the paper's measurements, p is the rate of loss indications: what is lost in one recovery is one.
            let events = (counters.recoveries + counters.timeouts) as f64 / (3000.0 * sent);
            let law = padhye(events, 0.1, 0.2);
            println!("b {b}, p {p}: {sent:.1} segments/s, by the equation {law:.1}; {counters:?}");
            assert!((0.85..1.35).contains(&(sent / law)), "b {b}, p {p}: {sent} for {law}");
        }
    }
}

/// Two flows over RED for 60 s after their slow start: marks and drops of the queue, the part of the link they used, their
/// reductions and what they sent again.
fn over_red(ecn: bool) -> (u64, u64, f64, u64, u64) {
    let mut network = Network::new(3);
    let red = Red { min_bytes: 15_000, max_bytes: 60_000, ecn: true, ..Red::default() };
    let config =
        LinkConfig { discipline: Discipline::Red(red), ..LinkConfig::new(20_000_000, 10 * MS, 300_000) };
    let link = network.add_link(config);
    let back = network.add_link(LinkConfig::delay(10 * MS));
    let config = TcpConfig { ecn, ..TcpConfig::default() };
    let sinks = [network.add(Sink::new(1)), network.add(Sink::new(1))];
    let sack = network.add(Sack::new(sinks[0], config));
    let new_reno = network.add(NewReno::new(sinks[1], config));
    for (source, sink) in [sack, new_reno].into_iter().zip(sinks) {
        network.route(source, sink, &[link]);
        network.route(sink, source, &[back]);
    }
    let seen = |network: &Network| {
        let (a, b) = (network.node::<Sack>(sack).counters(), network.node::<NewReno>(new_reno).counters());
        (network.link(link).counters(network.now()), a.retransmitted + b.retransmitted, a, b)
    };
    network.run_for(Duration::from_secs(5));
    let (before, again_before, ..) = seen(&network);
    network.run_for(Duration::from_secs(60));
    let (after, again, a, b) = seen(&network);
    let used = (after.sent_bytes - before.sent_bytes) as f64 * 8.0 / 60.0 / 20e6;
    let (marked, dropped) = (after.marked - before.marked, after.dropped - before.dropped);
    (marked, dropped, used, a.reductions.min(b.reductions), again - again_before)
}

#[test]
fn a_tcp_that_heeds_marks_repairs_hardly_anything() {
    let (marked, dropped, used, reductions, again) = over_red(true);
    println!(
        "with ECN: {marked} marks, {dropped} drops, {used:.3}, {reductions} reductions, {again} sent again"
    );
    assert!(reductions > 20 && marked > 100 && used > 0.85);
    assert!(dropped * 10 < marked && again * 10 < marked);
    let (marked, dropped, used, reductions, again) = over_red(false);
    println!("without: {dropped} drops, {used:.3}, {again} sent again");
    assert_eq!((marked, reductions), (0, 0));
    assert!(dropped > 100 && again >= dropped && used > 0.85);
}
