//! RFC 5348 section 5, as a specification of [`LossHistory`].

use super::*;

const RTT: Duration = Duration::from_micros(500);

/// A history that has seen packets 0, 1, 2 ..., one after each `spacing`, but for those that `lost` names.
fn after(count: u64, spacing: Duration, lost: impl Fn(u64) -> bool) -> LossHistory {
    let mut history = LossHistory::default();
    for seq in (0..count).filter(|&seq| !lost(seq)) {
        history.on_packet(at(seq, spacing), seq, false, RTT, || 80.0);
    }
    history
}

fn at(seq: u64, spacing: Duration) -> Time {
    Time::from_nanos(seq * spacing.as_nanos() as u64)
}

fn closed(history: &LossHistory) -> &[f64] {
    &history.intervals.packets[..history.intervals.count]
}

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

#[test]
fn without_a_loss_p_is_zero() {
    assert_eq!(after(1000, US, |_| false).loss_event_rate(), 0.0);
}

#[test]
fn a_packet_is_lost_when_three_later_ones_have_come() {
    let mut history = after(10, MS, |_| false);
    let mut see = |seq| history.on_packet(at(seq, MS), seq, false, RTT, || 80.0);
    assert_eq!(see(11), Arrival::New { loss_event: false });
    assert_eq!(see(12), Arrival::New { loss_event: false });
    assert_eq!(see(13), Arrival::New { loss_event: true });
}

#[test]
fn reordering_by_two_packets_is_no_loss() {
    let mut history = LossHistory::default();
    for seq in [0, 2, 3, 1, 6, 5, 4, 9, 7, 8, 10, 11, 12] {
        let arrival = history.on_packet(at(seq, MS), seq, false, RTT, || 80.0);
        assert_eq!(arrival, Arrival::New { loss_event: false }, "{seq}");
    }
    assert_eq!(history.loss_event_rate(), 0.0);
    assert!(history.ahead.is_empty());
}

#[test]
fn the_first_interval_is_the_one_made_up() {
    // Section 6.3.1: not the 15 packets until the first loss.
    let history = after(20, MS, |seq| seq == 15);
    assert_eq!(closed(&history), [80.0]);
    assert_eq!(history.loss_event_rate(), 1.0 / 80.0);
}

#[test]
fn losses_within_a_round_trip_are_one_event() {
    // 500 us at 1 us a packet: a loss at 100 and all until 600 are one event, 601 is the next (T_old + R >=
    // T_new).
    let history = after(2000, US, |seq| [100, 101, 350, 600].contains(&seq));
    assert_eq!(closed(&history).len(), 1);
    let history = after(2000, US, |seq| [100, 101, 350, 601].contains(&seq));
    assert_eq!(closed(&history).len(), 2);
    assert_eq!(closed(&history)[0], 501.0);
}

#[test]
fn an_interval_runs_from_first_loss_to_first_loss() {
    let history = after(500, MS, |seq| [100, 130, 200].contains(&seq));
    assert_eq!(closed(&history)[..2], [70.0, 30.0]);
    assert_eq!(history.highest - history.event.as_ref().unwrap().first + 1, 300);
}

#[test]
fn eight_intervals_are_weighted() {
    // Closed intervals, the latest first: 10, 20 ... 80. By hand: 10 + 20 + 30 + 40 + .8 x 50 + .6 x 60 + .4
    // x 70 + .2 x 80 = 220, over 6.0. The open interval, 7 packets, would only make that less.
    let starts = [100, 180, 250, 310, 360, 400, 430, 450, 460];
    let history = after(467, MS, |seq| starts.contains(&seq));
    assert_eq!(closed(&history), [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0]);
    assert!((1.0 / history.loss_event_rate() - 220.0 / 6.0).abs() < 1e-9);
}

#[test]
fn the_open_interval_counts_once_it_makes_the_average_longer() {
    // 60 open: 60 + 10 + 20 + 30 + .8 x 40 + .6 x 50 + .4 x 60 + .2 x 70 = 220: just as much. 66 open: 226 /
    // 6.
    let starts = [100, 180, 250, 310, 360, 400, 430, 450, 460];
    let history = after(526, MS, |seq| starts.contains(&seq));
    assert!((1.0 / history.loss_event_rate() - 226.0 / 6.0).abs() < 1e-9);
}

#[test]
fn a_long_quiet_interval_discounts_the_older_ones() {
    // Section 5.5: eight intervals of 10, then 100 open packets. DF = 2 x 10 / 100 = .2, held at .25:
    // (100 + .25 x 10 x 5) / (1 + .25 x 5) = 50, where without discounting it were (100 + 50) / 6 = 25.
    let starts: Vec<u64> = (0..9).map(|i| 100 + 10 * i).collect();
    let mut history = after(180 + 100, MS, |seq| starts.contains(&seq));
    history.intervals.packets = [10.0; INTERVALS];
    assert!((1.0 / history.loss_event_rate() - 50.0).abs() < 1e-9);

    // The next event makes the discount permanent for those that are older than the interval it closes.
    for seq in 281..290 {
        history.on_packet(at(seq, MS), seq, false, RTT, || 80.0);
    }
    assert_eq!(closed(&history)[0], 100.0);
    assert_eq!(history.intervals.discounts, [1.0, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25]);
}

#[test]
fn a_mark_is_an_event_at_once_and_an_interval_of_one_packet() {
    let mut history = after(50, MS, |_| false);
    let arrival = history.on_packet(at(50, MS), 50, true, RTT, || 1.0);
    assert_eq!(arrival, Arrival::New { loss_event: true });
    assert_eq!(history.loss_event_rate(), 1.0);
}

#[test]
fn an_event_of_a_mark_begins_with_the_packet_missing_before_it() {
    // The example of section 5.1: n-1 arrives, n does not, n+1 arrives, n+2 is marked.
    let mut history = after(10, US, |_| false);
    history.on_packet(at(11, US), 11, false, RTT, || 80.0);
    assert_eq!(history.on_packet(at(12, US), 12, true, RTT, || 80.0), Arrival::New { loss_event: true });
    assert_eq!(history.event.as_ref().unwrap().first, 10);
    assert_eq!(closed(&history).len(), 1);
}

#[test]
fn a_loss_event_is_taken_back_when_its_packets_come_late() {
    let mut history = after(1000, US, |seq| seq == 50);
    let before = history.loss_event_rate();
    let mut see = |seq| history.on_packet(at(seq, US), seq, false, RTT, || 80.0);
    assert_eq!([1002, 1003, 1004].map(&mut see)[2], Arrival::New { loss_event: true });
    assert_eq!(see(1000), Arrival::Late { revoked: false });
    assert_eq!(see(1001), Arrival::Late { revoked: true });
    assert_eq!(see(1001), Arrival::Stale);
    assert_eq!(closed(&history).len(), 1);
    assert!(history.loss_event_rate() <= before);
}

#[test]
fn a_duplicate_changes_nothing() {
    let mut history = after(100, MS, |seq| seq == 50);
    let p = history.loss_event_rate();
    for seq in [99, 98, 0, 99] {
        assert_eq!(history.on_packet(at(200, MS), seq, true, RTT, || 80.0), Arrival::Stale);
    }
    assert_eq!(history.loss_event_rate(), p);
}

#[test]
fn a_long_gap_is_an_event_every_round_trip_of_it() {
    // 100 packets a ms apart are lost, the round trip is 10 ms: an event every 11 packets, as one-by-one
    // reckoning has it.
    let rtt = Duration::from_millis(10);
    let mut history = LossHistory::default();
    for seq in (0..1000).filter(|seq| !(300..400).contains(seq)) {
        history.on_packet(at(seq, MS), seq, false, rtt, || 80.0);
    }
    assert_eq!(closed(&history), [11.0; INTERVALS]);
    assert_eq!(history.event.as_ref().unwrap().first, 300 + 9 * 11);
}

#[test]
fn a_hostile_gap_costs_no_work() {
    for (rtt, gap) in [(1, 1 << 60), (1_000_000_000, u64::MAX - 20), (0, 1 << 63)] {
        let rtt = Duration::from_nanos(rtt);
        let mut history = after(10, US, |_| false);
        for seq in [gap, gap + 1, gap + 2, gap + 3, u64::MAX - 1, u64::MAX, 5, u64::MAX, 10, gap - 1] {
            history.on_packet(Time::from_nanos(1_000_000_000), seq, seq % 2 == 0, rtt, || f64::NAN);
            assert!(history.ahead.len() < REORDER_PACKETS && history.ahead.capacity() <= 8);
            assert!((0.0..=1.0).contains(&history.loss_event_rate()));
        }
    }
}

/// Section 5 by the letter, packet by packet, for packets that arrive in order: the closed intervals with
/// their discounts, the latest first, and the number of the first packet of the newest event.
fn by_the_letter(
    arrivals: &[(u64, u64)],
    rtt_ns: u64,
    first_interval: f64,
) -> (Vec<f64>, Vec<f64>, Option<u64>) {
    let (mut packets, mut discounts) = (Vec::new(), Vec::new());
    let mut newest: Option<(u64, u64)> = None;
    for (i, pair) in arrivals.windows(2).enumerate() {
        let [(before, t_before), (after, t_after)] = [pair[0], pair[1]];
        if arrivals.len() - (i + 1) < REORDER_PACKETS {
            break; // not enough later packets have come to call those between lost
        }
        for lost in before + 1..after {
            let at = t_before + (t_after - t_before) * (lost - before) / (after - before);
            if newest.is_some_and(|(_, begin)| begin + rtt_ns >= at) {
                continue;
            }
            let (closed, df) = newest.map_or((first_interval, 1.0), |(first, _)| {
                let open = (lost - first) as f64;
                let weights = WEIGHTS.iter().zip(&packets).zip(&discounts);
                let (total, weight) = weights
                    .fold((0.0, 0.0), |(t, w), ((weight, n), df): ((&f64, &f64), &f64)| {
                        (t + weight * df * n, w + weight * df)
                    });
                let mean = total / weight;
                (open, if open > 2.0 * mean { f64::max(2.0 * mean / open, 0.25) } else { 1.0 })
            });
            discounts.iter_mut().for_each(|d| *d *= df);
            packets.insert(0, closed);
            discounts.insert(0, 1.0);
            packets.truncate(8);
            discounts.truncate(8);
            newest = Some((lost, at));
        }
    }
    (packets, discounts, newest.map(|(first, _)| first))
}

proptest::proptest! {
    #[test]
    fn gaps_of_any_length_are_events_as_by_the_letter(
        steps in proptest::collection::vec((proptest::prop_oneof![4 => 0..1u64, 2 => 1..5u64, 1 => 5..400u64], 1..50_000u64), 4..200),
        rtt_ns in 1..2_000_000u64,
    ) {
        // A step is a gap of so many packets, and so many nanoseconds for each of it and for the packet that
        // ends it.
        let mut arrivals = vec![(7, 0)];
        for (gap, ns) in steps {
            let (seq, at) = arrivals[arrivals.len() - 1];
            arrivals.push((seq + gap + 1, at + (gap + 1) * ns));
        }
        let mut history = LossHistory::default();
        for &(seq, at) in &arrivals {
            history.on_packet(Time::from_nanos(at), seq, false, Duration::from_nanos(rtt_ns), || 80.0);
        }
        let (packets, discounts, newest) = by_the_letter(&arrivals, rtt_ns, 80.0);
        proptest::prop_assert_eq!(closed(&history), &packets[..]);
        proptest::prop_assert_eq!(history.event.as_ref().map(|event| event.first), newest);
        for (ours, theirs) in history.intervals.discounts.iter().zip(&discounts) {
            proptest::prop_assert!((ours - theirs).abs() < 1e-12);
        }
    }
}
