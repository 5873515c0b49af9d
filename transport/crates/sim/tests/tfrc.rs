//! TFRC over links with faults: what a sender gets, how it comes through an outage, and that it ends in
//! silence.

use std::time::Duration;

use proto::tfrc::Start;
use weir_sim::{Faults, LinkConfig, LinkId, Loss, Network, NodeId, Spike, Time, tfrc};

const MS: Duration = Duration::from_millis(1);

fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

struct Path {
    network: Network,
    source: NodeId,
    sink: NodeId,
    there: LinkId,
    back: LinkId,
}

/// One flow over 100 Mb/s with a buffer of 64 KB, 1 ms there and back.
fn path(seed: u64, there: Faults, back: Faults) -> Path {
    path_from(
        seed,
        there,
        back,
        tfrc::SourceConfig { start: Start::Rtt(MS), ..tfrc::SourceConfig::default() },
    )
}

fn path_from(seed: u64, there_faults: Faults, back_faults: Faults, config: tfrc::SourceConfig) -> Path {
    let mut network = Network::new(seed);
    let sink = network.add(tfrc::Sink::new(&config));
    let rng = network.fork_rng();
    let source = network.add(tfrc::Source::new(sink, config, rng));
    let there = network.add_link(LinkConfig::new(100_000_000, MS / 2, 65_536));
    let back = network.add_link(LinkConfig::delay(MS / 2));
    network.link_mut(there).faults = there_faults;
    network.link_mut(back).faults = back_faults;
    network.route(source, sink, &[there]);
    network.route(sink, source, &[back]);
    network.count_slices(100 * MS);
    Path { network, source, sink, there, back }
}

impl Path {
    fn run(&mut self, ms: u64) {
        self.network.run_for(Duration::from_millis(ms));
    }

    /// Shares of the link that the flow had, by tenths of a second.
    fn shares(&self) -> Vec<f64> {
        let slices = self.network.flow(self.source, self.sink).slices_bytes;
        slices.iter().map(|bytes| *bytes as f64 / 1_250_000.0).collect()
    }

    fn expirations(&self) -> u32 {
        self.network.node::<tfrc::Source>(self.source).sender().expirations()
    }

    fn rate(&self) -> f64 {
        self.network.node::<tfrc::Source>(self.source).sender().rate()
    }
}

fn lossy(loss: Loss) -> Faults {
    Faults { loss, ..Faults::default() }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn a_flow_alone_fills_the_link_within_milliseconds() {
    // But for a dip after the first loss, while the smoothed round trip is yet that of a full queue.
    for start in [Start::Rtt(MS), Start::Rtt(MS / 20), Start::Rate(12_500_000.0)] {
        let config = tfrc::SourceConfig { start, ..tfrc::SourceConfig::default() };
        let mut path = path_from(1, Faults::default(), Faults::default(), config);
        path.run(1000);
        assert!(path.shares()[0] > 0.8, "{start:?}: {:?}", path.shares());
        assert!(mean(&path.shares()[1..]) > 0.99, "{start:?}: {:?}", path.shares());
    }
}

#[test]
fn a_start_without_a_round_trip_waits_a_second_for_its_second_packet_and_not_for_the_third() {
    let config = tfrc::SourceConfig { start: Start::Rfc, ..tfrc::SourceConfig::default() };
    let mut path = path_from(1, Faults::default(), Faults::default(), config);
    path.run(1);
    assert_eq!(path.network.flow(path.source, path.sink).sent, 1);
    // The first report names a round trip, and from then on the rate is an initial window of it.
    path.run(99);
    assert!(path.shares()[0] > 0.8, "{:?}", path.shares());
}

#[test]
fn under_random_loss_the_flow_gets_what_the_equation_gives() {
    // At p = 1 % and R = 1.1 ms: 11.2 segments of 1,060 bytes a round trip are 10.8 MB/s. Of independent
    // losses the mean of eight intervals makes a little more or less.
    for (p, share) in [(0.02, 0.585), (0.1, 0.146)] {
        let mut path = path(2, lossy(Loss::Independent(p)), Faults::default());
        path.run(20_000);
        let got = mean(&path.shares()[10..]);
        assert!((got / share - 1.0).abs() < 0.35, "p = {p}: {got} for {share}");
    }
}

#[test]
fn reports_may_be_lost() {
    let mut path = path(3, Faults::default(), lossy(Loss::Independent(0.5)));
    path.run(10_000);
    assert!(mean(&path.shares()[10..]) > 0.9, "{}", mean(&path.shares()[10..]));
}

#[test]
fn reordering_within_two_packets_costs_nothing_and_duplicates_are_not_data() {
    // At full rate a packet takes 88 us: one that is 150 us late is overtaken by one or two.
    let faults =
        Faults { reorder: 0.1, reorder_by: Duration::from_micros(150), duplicate: 0.01, ..Faults::default() };
    let mut path = path(4, faults, Faults::default());
    path.run(10_000);
    assert!(mean(&path.shares()[10..]) > 0.97, "{}", mean(&path.shares()[10..]));
}

#[test]
fn corrupted_bytes_do_no_harm_but_to_the_rate() {
    // The models' datagrams have no checksum: whatever a field says, nobody panics, loops or stores without
    // end.
    for seed in 0..20 {
        let corrupt = || Faults { corrupt: 0.2, duplicate: 0.1, ..Faults::default() };
        let mut path = path(seed, corrupt(), corrupt());
        path.run(500);
        assert!(path.rate().is_finite() && path.rate() > 0.0);
    }
}

#[test]
fn an_outage_halves_the_rate_again_and_again_and_its_end_brings_it_back() {
    let down = Faults { down: vec![ms(1000)..ms(2000)], ..Faults::default() };
    let mut path = path(5, down, Faults::default());
    path.run(1999);
    assert!(path.expirations() >= 5, "{}", path.expirations());
    assert!(path.rate() < 0.05 * 12_500_000.0, "{}", path.rate());
    path.run(5000);
    let shares = path.shares();
    assert_eq!(path.expirations(), 0);
    assert_eq!(shares[12..20], [0.0; 8]);
    let back = shares[20..].iter().position(|share| *share > 0.5);
    assert!(back.is_some_and(|tenths| tenths <= 20), "{shares:?}");
    assert!(mean(&shares[50..]) > 0.9, "{shares:?}");
}

#[test]
fn a_delay_spike_of_many_round_trips_is_come_through() {
    let spike = Spike { during: ms(1000)..ms(1050), delay: 50 * MS };
    let mut path = path(6, Faults { spikes: vec![spike], ..Faults::default() }, Faults::default());
    path.run(3000);
    assert!(mean(&path.shares()[15..]) > 0.9, "{:?}", path.shares());
}

#[test]
fn a_sender_whose_receiver_has_vanished_can_tell_when_to_stop() {
    let limit = Duration::from_millis(500);
    for at in [0, 100, 1000] {
        let mut path = path(7, Faults::default(), Faults::default());
        path.run(at);
        path.network.vanish(path.sink);
        let vanished = path.network.now();
        let stop = |network: &Network, source| network.node::<tfrc::Source>(source).sender().stop_at(limit);
        let source = path.source;
        let stopped = path.network.run_until(vanished + 2 * limit, |network| {
            stop(network, source).is_some_and(|at| at <= network.now())
        });
        assert!(stopped, "{at}");
        // What was under way is reported yet.
        let after = path.network.now().since(vanished);
        assert!(after <= limit + 60 * MS, "{at}: {after:?}");
        let sent = path.network.flow(path.source, path.sink).unheard as f64 * 1102.0;
        assert!(sent < 12_500_000.0 * 0.1, "{at}: {sent} bytes into the void");
    }
}

#[test]
fn a_congested_way_back_slows_the_reports_and_not_the_flow() {
    // Reports wait for each other at 1 Mb/s: 0.7 ms each, and less than one a round trip gets through.
    let mut path = path(8, Faults::default(), Faults::default());
    path.network.link_mut(path.back).config = LinkConfig::new(1_000_000, MS / 2, 2000);
    path.run(5000);
    assert!(mean(&path.shares()[10..]) > 0.9, "{:?}", path.shares());
    assert!(path.network.link(path.there).counters(path.network.now()).sent > 0);
}
