//! RFC 5348 section 6, as a specification of [`Receiver`].

use super::*;
use crate::tfrc::loss_event_rate;

const S: u32 = 1000;
const RTT: Duration = Duration::from_millis(1);

fn us(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

/// A receiver that packets 0.. reach one every `spacing_us` from `us(0)` on, reports made when they are due.
fn fed(packets: u64, spacing_us: u64) -> (Receiver, Vec<(Time, Report)>) {
    let mut receiver = Receiver::new(S);
    let mut reports = Vec::new();
    for seq in 0..packets {
        let now = us(seq * spacing_us);
        if let Some(due) = receiver.poll_timeout()
            && due < now
        {
            reports.push((due, receiver.report(due)));
        }
        if receiver.on_packet(now, seq, S, RTT, false) {
            reports.push((now, receiver.report(now)));
        }
    }
    (receiver, reports)
}

#[test]
fn the_first_packet_is_reported_at_once_with_a_rate_of_zero() {
    let mut receiver = Receiver::new(S);
    assert_eq!(receiver.poll_timeout(), None);
    assert!(receiver.on_packet(us(10), 7, S, RTT, false));
    let report = receiver.report(us(12));
    let delay = Duration::from_micros(2);
    assert_eq!(report, Report { x_recv: 0.0, loss_event_rate: 0.0, highest_seq: 7, delay });
}

#[test]
fn then_a_report_is_due_every_round_trip_in_which_data_came() {
    let (mut receiver, reports) = fed(101, 100);
    let times: Vec<Time> = reports.iter().map(|&(at, _)| at).collect();
    assert_eq!(times, (0..=10).map(|i| us(i * 1000)).collect::<Vec<_>>());
    assert_eq!(receiver.poll_timeout(), None);
    receiver.on_packet(us(10_100), 101, S, RTT, false);
    assert_eq!(receiver.poll_timeout(), Some(us(11_000)));
}

#[test]
fn the_receive_rate_is_that_of_the_last_round_trip() {
    // 1,000 bytes every 100 us are 10 MB/s. (A report counts what came before its moment, the first of all
    // nothing.)
    let (_, reports) = fed(101, 100);
    for (_, report) in &reports[2..] {
        assert_eq!(report.x_recv, 1e7);
    }
}

#[test]
fn below_one_packet_a_round_trip_every_packet_is_reported_and_none_overestimated() {
    // Section 6.2: the least rate reported is one packet per round trip, 1 MB/s here, and never that of a
    // shorter time.
    let (receiver, reports) = fed(20, 3300);
    assert_eq!(reports.len(), 20);
    for (_, report) in &reports[1..] {
        assert_eq!(report.x_recv, 1e6);
    }
    assert_eq!(receiver.poll_timeout(), None);
}

#[test]
fn a_report_that_comes_early_does_not_overestimate_the_rate() {
    // A loss is reported 100 us after a report: the window goes back to the report before it, a round trip
    // and more.
    let (mut receiver, _) = fed(101, 100);
    let mut due = Vec::new();
    for (i, seq) in [102, 103, 104, 105].into_iter().enumerate() {
        due.push(receiver.on_packet(us(10_020 + 20 * i as u64), seq, S, RTT, false));
    }
    assert_eq!(due, [false, false, true, false]);
    let x_recv = receiver.report(us(10_080)).x_recv;
    assert!((x_recv - 14_000.0 / 1.08e-3).abs() < 1.0, "{x_recv}");
}

#[test]
fn a_late_driver_divides_by_the_time_that_has_passed() {
    let (mut receiver, _) = fed(101, 100);
    for seq in 101..=130 {
        receiver.on_packet(us(seq * 100), seq, S, RTT, false);
    }
    assert_eq!(receiver.report(us(13_000)).x_recv, 1e7);
}

#[test]
fn a_new_loss_event_is_reported_at_once_and_further_losses_of_it_are_not() {
    let (mut receiver, _) = fed(101, 100);
    let mut see = |at, seq| receiver.on_packet(us(at), seq, S, RTT, false);
    assert!(!see(10_200, 102) && !see(10_300, 103) && see(10_400, 104));
    let p = receiver.report(us(10_400)).loss_event_rate;
    assert!(p > 0.0);
    let mut see = |at, seq| receiver.on_packet(us(at), seq, S, RTT, false);
    assert!(!see(10_600, 106) && !see(10_700, 107) && !see(10_800, 108));
    assert_eq!(receiver.loss_event_rate(), p);
}

#[test]
fn a_loss_that_was_none_is_reported_at_once() {
    let (mut receiver, _) = fed(101, 100);
    for seq in [102, 103, 104] {
        receiver.on_packet(us(seq * 100), seq, S, RTT, false);
    }
    assert!(receiver.report(us(10_400)).loss_event_rate > 0.0);
    assert!(receiver.on_packet(us(10_410), 101, S, RTT, false));
    assert_eq!(receiver.report(us(10_410)).loss_event_rate, 0.0);
}

#[test]
fn the_first_loss_puts_the_flow_at_the_highest_rate_received() {
    // Section 6.3.1: X_target is the peak of X_recv, 10 MB/s or 10 segments a round trip.
    let (mut receiver, _) = fed(101, 100);
    for seq in [102, 103, 104] {
        receiver.on_packet(us(seq * 100), seq, S, RTT, false);
    }
    let p = receiver.report(us(10_400)).loss_event_rate;
    assert!((p / loss_event_rate(10.0, 4.0) - 1.0).abs() < 1e-6, "{p}");
}

#[test]
fn a_mark_on_the_first_packet_puts_the_flow_at_half_a_packet_a_round_trip() {
    let mut receiver = Receiver::new(S);
    assert!(receiver.on_packet(us(0), 0, S, RTT, true));
    let p = receiver.report(us(0)).loss_event_rate;
    assert!((p / loss_event_rate(0.5, 4.0) - 1.0).abs() < 1e-9, "{p}");
}

#[test]
fn without_a_round_trip_time_every_packet_is_reported() {
    let mut receiver = Receiver::new(S);
    for seq in 0..5 {
        assert!(receiver.on_packet(us(seq), seq, S, Duration::ZERO, false));
        assert_eq!(receiver.report(us(seq)).x_recv, 0.0);
    }
}

#[test]
fn duplicates_are_not_data() {
    let (mut receiver, _) = fed(101, 100);
    let before = receiver.clone().report(us(11_000)).x_recv;
    for seq in [100, 99, 3] {
        assert!(!receiver.on_packet(us(10_500), seq, S, RTT, true));
    }
    assert_eq!(receiver.poll_timeout(), None);
    assert_eq!(receiver.report(us(11_000)).x_recv, before);
}

#[test]
fn whatever_is_claimed_the_report_is_a_number() {
    let mut receiver = Receiver::new(0);
    let rtts = [Duration::MAX, Duration::from_nanos(1), Duration::ZERO, RTT];
    let seqs = [5, u64::MAX, 0, 1 << 62, u64::MAX - 1, 6, (1 << 62) + 1];
    for i in 0..2000_usize {
        let now = Time::from_nanos((i as u64 / 3).pow(4));
        receiver.on_packet(now, seqs[i % 7].wrapping_add(i as u64), u32::MAX, rtts[i % 4], i % 5 == 0);
        if i % 3 == 0 {
            let report = receiver.report(now);
            assert!(report.x_recv.is_finite() && report.x_recv >= 0.0);
            assert!((0.0..=1.0).contains(&report.loss_event_rate));
        }
        assert!(receiver.marks.len() <= MARKS);
    }
}

/// Numbers near one another, near the ends, and anywhere.
fn any_seq() -> impl proptest::strategy::Strategy<Value = u64> {
    proptest::prop_oneof![4 => 0..40u64, 1 => u64::MAX - 40..=u64::MAX, 1 => proptest::num::u64::ANY]
}

proptest::proptest! {
    #[test]
    fn any_packets_at_all_leave_the_receiver_sane_and_small(
        packets in proptest::collection::vec(
            (any_seq(), 0..3_000_000u64, proptest::prop_oneof![0..2_000_000u64, proptest::num::u64::ANY], proptest::bool::ANY),
            1..300,
        ),
    ) {
        let mut receiver = Receiver::new(S);
        let mut now = us(0);
        for (seq, wait_ns, rtt_ns, ce) in packets {
            now = now + Duration::from_nanos(wait_ns);
            if receiver.on_packet(now, seq, S, Duration::from_nanos(rtt_ns), ce) || seq % 5 == 0 {
                let report = receiver.report(now);
                proptest::prop_assert!(report.x_recv.is_finite() && report.x_recv >= 0.0);
                proptest::prop_assert!((0.0..=1.0).contains(&report.loss_event_rate));
                proptest::prop_assert_eq!(receiver.poll_timeout(), None);
            }
            proptest::prop_assert!(receiver.marks.len() <= MARKS);
        }
    }
}

#[test]
fn what_was_too_long_for_the_path_is_no_loss() {
    let mut receiver = Receiver::new(1000);
    let rtt = Duration::from_millis(10);
    let come = |receiver: &mut Receiver, ms: u64, seq| {
        receiver.on_packet(Time::from_nanos(1_000_000 * ms), seq, 1000, rtt, false);
    };
    (0..10).for_each(|seq| come(&mut receiver, seq, seq));
    let mut others = receiver.clone();
    receiver.forgive(Time::from_nanos(60_000_000), 30);
    for seq in 30..40 {
        come(&mut receiver, 30 + seq, seq);
        come(&mut others, 30 + seq, seq);
    }
    assert_eq!(receiver.loss_event_rate(), 0.0);
    assert!(others.loss_event_rate() > 0.0);
    // What is lost later counts.
    (45..50).for_each(|seq| come(&mut receiver, 40 + seq, seq));
    assert!(receiver.loss_event_rate() > 0.0);
}
