//! The virtual network carries what it is given, loses what it is told to, and says so.

use std::collections::VecDeque;
use std::time::Duration;

use proto::ecn::Codepoint;
use weir_sim::{
    Datagram, Faults, LinkConfig, Loss, Network, Node, NodeId, Output, Spike, Star, StarConfig, Time,
};

const MS: Duration = Duration::from_millis(1);

fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// Sends what it is told to, one datagram of 1,000 bytes on the wire every `gap`, and keeps what it hears.
#[derive(Default)]
struct Talker {
    to: Option<NodeId>,
    gap: Duration,
    left: u32,
    next: Time,
    number: u32,
    say: VecDeque<Output>,
    heard: Vec<(Time, Datagram)>,
    controls: Vec<(Time, Vec<u8>)>,
    closed: Vec<Time>,
}

impl Talker {
    fn sending(to: NodeId, count: u32, gap: Duration) -> Self {
        Talker { to: Some(to), left: count, gap, ..Talker::default() }
    }

    fn numbers(&self) -> Vec<u32> {
        self.heard.iter().map(|(_, d)| u32::from_be_bytes(d.payload[..4].try_into().unwrap())).collect()
    }
}

impl Node for Talker {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        self.heard.push((now, datagram));
    }

    fn handle_control(&mut self, now: Time, _from: NodeId, message: Vec<u8>) {
        self.controls.push((now, message));
    }

    fn handle_control_closed(&mut self, now: Time, _from: NodeId) {
        self.closed.push(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.next = now + self.gap;
        self.left -= 1;
        let mut payload = self.number.to_be_bytes().to_vec();
        payload.resize(1000 - weir_sim::UDP_OVERHEAD_BYTES as usize, 0);
        self.number += 1;
        self.say.push_back(Output::Datagram(Datagram::new(self.to.unwrap(), payload)));
    }

    fn poll_timeout(&self) -> Option<Time> {
        (self.left > 0).then_some(self.next)
    }

    fn poll_transmit(&mut self, _now: Time) -> Option<Output> {
        self.say.pop_front()
    }
}

/// A talker, a listener, a link between them: 8 Mb/s, so that a datagram takes a millisecond, and 3 ms of
/// delay.
fn line(
    count: u32,
    gap: Duration,
    buffer_bytes: u64,
    faults: Faults,
) -> (Network, NodeId, NodeId, weir_sim::LinkId) {
    let mut network = Network::new(7);
    let listener = network.add(Talker::default());
    let talker = network.add(Talker::sending(listener, count, gap));
    let link = network.add_link(LinkConfig::new(8_000_000, 3 * MS, buffer_bytes));
    network.link_mut(link).faults = faults;
    network.route(talker, listener, &[link]);
    (network, talker, listener, link)
}

#[test]
fn a_datagram_takes_its_transmission_and_the_delay() {
    let (mut network, _, listener, _) = line(3, 2 * MS, 10_000, Faults::default());
    network.run_for(100 * MS);
    let times: Vec<Time> = network.node::<Talker>(listener).heard.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [ms(4), ms(6), ms(8)]);
    assert_eq!(network.now(), ms(100));
}

#[test]
fn a_queue_takes_what_fits_and_drops_the_rest_whole() {
    // Ten at once: one is being sent, three wait in 3,999 bytes, six find no room.
    let (mut network, talker, listener, link) = line(10, Duration::ZERO, 3_999, Faults::default());
    network.run_for(100 * MS);
    assert_eq!(network.node::<Talker>(listener).numbers(), [0, 1, 2, 3]);
    let counters = network.link(link).counters(network.now());
    assert_eq!((counters.sent, counters.dropped, counters.most_queued_bytes), (4, 6, 3000));
    // Three wait for a millisecond, two for another, one for a third.
    assert!((counters.queued_byte_seconds - 6.0).abs() < 1e-9);
    let flow = network.flow(talker, listener);
    assert_eq!((flow.sent, flow.delivered, flow.delivered_bytes, flow.lost), (10, 4, 4000, 6));
}

#[test]
fn a_queue_marks_instead_above_its_threshold() {
    let mut network = Network::new(1);
    let listener = network.add(Talker::default());
    let talker = network.add(Talker::default());
    let config = LinkConfig { mark_above_bytes: Some(1000), ..LinkConfig::new(8_000_000, MS, 10_000) };
    let link = network.add_link(config);
    network.route(talker, listener, &[link]);
    network.visit(talker, |talker: &mut Talker, _| {
        for i in 0..5 {
            let datagram = Datagram::new(listener, vec![0; 4]).sized(1000);
            let ecn = if i == 3 { Codepoint::NotEct } else { Codepoint::Ect0 };
            talker.say.push_back(Output::Datagram(Datagram { ecn, ..datagram }));
        }
    });
    network.run_for(100 * MS);
    let marked: Vec<bool> =
        network.node::<Talker>(listener).heard.iter().map(|(_, d)| d.ecn.is_ce()).collect();
    assert_eq!(marked, [false, false, false, false, true]);
    assert_eq!(network.link(link).counters(network.now()).marked, 1);
}

#[test]
fn scripted_losses_are_those_and_no_others() {
    let faults = Faults { loss: Loss::of_numbers([1, 4]), ..Faults::default() };
    let (mut network, _, listener, link) = line(6, 2 * MS, 10_000, faults);
    network.run_for(100 * MS);
    assert_eq!(network.node::<Talker>(listener).numbers(), [0, 2, 3, 5]);
    assert_eq!(network.link(link).counters(network.now()).lost, 2);
}

#[test]
fn random_losses_are_as_frequent_as_told_and_bursts_as_long() {
    let lost = |loss: Loss| {
        let (mut network, _, listener, _) = line(100_000, MS, 10_000, Faults { loss, ..Faults::default() });
        network.run_for(Duration::from_secs(101));
        let numbers = network.node::<Talker>(listener).numbers();
        let bursts = numbers.windows(2).filter(|w| w[1] > w[0] + 1).count();
        let lost = 100_000 - numbers.len();
        (lost as f64 / 100_000.0, lost as f64 / bursts as f64)
    };
    let (rate, burst) = lost(Loss::Independent(0.1));
    assert!((rate - 0.1).abs() < 0.005 && (burst - 1.0 / 0.9).abs() < 0.02, "{rate} {burst}");
    // In the bad state for .02 / (.02 + .25) of the time, four datagrams at a time.
    let (rate, burst) = lost(Loss::Bursts { fail: 0.02, recover: 0.25, good: 0.0, bad: 1.0 });
    assert!((rate - 0.074).abs() < 0.006 && (burst - 4.0).abs() < 0.2, "{rate} {burst}");
}

#[test]
fn a_link_that_is_down_loses_everything() {
    let faults = Faults { down: vec![ms(2)..ms(6)], ..Faults::default() };
    let (mut network, _, listener, _) = line(5, 2 * MS, 10_000, faults);
    network.run_for(100 * MS);
    assert_eq!(network.node::<Talker>(listener).numbers(), [0, 3, 4]);
}

#[test]
fn duplicates_corruption_and_reordering_are_done_and_counted() {
    let faults =
        Faults { duplicate: 0.1, corrupt: 0.1, reorder: 0.1, reorder_by: 20 * MS, ..Faults::default() };
    let (mut network, _, listener, link) = line(1000, 2 * MS, 10_000, faults);
    network.run_for(Duration::from_secs(3));
    let counters = network.link(link).counters(network.now());
    assert!(
        (60..140).contains(&counters.duplicated) && (60..140).contains(&counters.corrupted),
        "{counters:?}"
    );
    let listener = network.node::<Talker>(listener);
    assert_eq!(listener.heard.len() as u64, 1000 + counters.duplicated);
    let changed =
        listener.heard.iter().filter(|(_, d)| d.payload[4..].iter().any(|b| *b != 0)).count() as u64;
    assert!(changed <= counters.corrupted && changed + 5 >= counters.corrupted);
    assert!(listener.numbers().windows(2).filter(|w| w[1] < w[0]).count() > 30);
}

#[test]
fn a_delay_spike_holds_datagrams_up_and_keeps_their_order() {
    let spike = Spike { during: ms(2)..ms(4), delay: 50 * MS };
    let (mut network, _, listener, _) =
        line(4, 2 * MS, 10_000, Faults { spikes: vec![spike], ..Faults::default() });
    network.run_for(100 * MS);
    let heard = &network.node::<Talker>(listener).heard;
    let times: Vec<Time> = heard.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [ms(4), ms(56), ms(56), ms(56)]);
    assert_eq!(network.node::<Talker>(listener).numbers(), [0, 1, 2, 3]);
}

#[test]
fn control_messages_come_in_order_after_the_delay_and_wait_out_a_stall() {
    let (mut network, talker, listener, _) = line(0, MS, 10_000, Faults::default());
    network.pipe(talker, listener, 5 * MS);
    network.stall_pipe(talker, listener, ms(6)..ms(20));
    let say = |network: &mut Network, text: &str| {
        let message = text.as_bytes().to_vec();
        network.visit(talker, |talker: &mut Talker, _| {
            talker.say.push_back(Output::Control { to: listener, message });
        });
    };
    say(&mut network, "a");
    network.run_for(2 * MS);
    say(&mut network, "b");
    network.cut_pipe(talker, listener);
    say(&mut network, "c");
    network.run_for(50 * MS);
    let heard = network.node::<Talker>(listener);
    assert_eq!(heard.controls, [(ms(5), b"a".to_vec()), (ms(20), b"b".to_vec())]);
    assert_eq!(heard.closed, [ms(20)]);
    assert_eq!(network.node::<Talker>(talker).closed, [ms(7)]);
}

#[test]
fn who_has_vanished_hears_nothing_and_it_is_counted() {
    let (mut network, talker, listener, _) = line(10, 2 * MS, 10_000, Faults::default());
    network.run_for(7 * MS);
    network.vanish(listener);
    network.run_for(100 * MS);
    let flow = network.flow(talker, listener);
    assert_eq!((flow.sent, flow.delivered, flow.unheard), (10, 2, 8));
}

#[test]
fn time_goes_on_until_something_is_so() {
    let (mut network, _, listener, _) = line(10, 2 * MS, 10_000, Faults::default());
    assert!(network.run_until(ms(100), |network| network.node::<Talker>(listener).heard.len() == 3));
    assert_eq!(network.now(), ms(8));
    assert!(!network.run_until(ms(10), |network| network.node::<Talker>(listener).heard.len() == 10));
    assert_eq!(network.now(), ms(10));
}

#[test]
fn a_star_joins_all_servers_in_one_port() {
    let mut network = Network::new(3);
    let star = Star::new(&mut network, StarConfig::default());
    let client = network.add(Talker::default());
    let servers: Vec<NodeId> =
        (0..4).map(|_| network.add(Talker::sending(client, 1000, Duration::ZERO))).collect();
    for &server in &servers {
        star.attach(&mut network, server, client);
    }
    network.trace_queue(star.port, MS);
    network.count_slices(100 * MS);
    network.run_for(100 * MS);
    // 4 x 1,000 bytes each at 1 Gb/s come ten times as fast as the port sends; the queue fills and stays so
    // for 8 ms.
    let counters = network.link(star.port).counters(network.now());
    assert_eq!(counters.sent + counters.dropped, 4000);
    assert_eq!(counters.most_queued_bytes, 65_000);
    assert!(network.queue_trace(star.port).iter().filter(|(_, bytes)| *bytes >= 64_000).count() >= 6);
    let slices: u64 = servers.iter().map(|&server| network.flow(server, client).slices_bytes[0]).sum();
    assert_eq!(slices, counters.sent_bytes);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed: u64| {
        let faults =
            Faults { loss: Loss::Independent(0.2), reorder: 0.2, reorder_by: 9 * MS, ..Faults::default() };
        let mut network = Network::new(seed);
        let listener = network.add(Talker::default());
        let talker = network.add(Talker::sending(listener, 200, MS));
        let link = network.add_link(LinkConfig::new(8_000_000, MS, 5000));
        network.link_mut(link).faults = faults;
        network.route(talker, listener, &[link]);
        network.run_for(Duration::from_secs(1));
        network.node::<Talker>(listener).heard.iter().map(|(at, _)| *at).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
