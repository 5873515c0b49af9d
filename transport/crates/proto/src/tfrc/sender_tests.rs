//! RFC 5348 section 4, as a specification of [`Sender`].

use super::*;

const S: u32 = 1000;
const MS: Duration = Duration::from_millis(1);

fn us(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

/// A sender whose handshake took 1 ms, at time 0: a window of 4 segments of 1,000 bytes a millisecond.
fn started() -> Sender {
    Sender::new(us(0), S, Start::Rtt(MS))
}

/// A report comes at `at_us` after a round trip of `rtt_us`; the packet it names was sent as fast as allowed.
fn report(sender: &mut Sender, at_us: u64, rtt_us: u64, x_recv: f64, p: f64) {
    sender.on_sent(us(at_us - rtt_us), S, false);
    let rtt_sample = Duration::from_micros(rtt_us);
    assert!(sender.on_feedback(us(at_us), &Feedback { rtt_sample, x_recv, loss_event_rate: p }));
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}

#[test]
fn the_initial_rate_is_an_initial_window_a_round_trip() {
    for (segment, window) in [(500, 2000.0), (1000, 4000.0), (1448, 4380.0), (9000, 18000.0)] {
        let sender = Sender::new(us(0), segment, Start::Rtt(Duration::from_micros(100)));
        assert!(close(sender.rate(), window / 100e-6), "{segment}: {}", sender.rate());
    }
}

#[test]
fn a_start_without_any_knowledge_is_a_packet_a_second_for_two_seconds() {
    let mut sender = Sender::new(us(5), S, Start::Rfc);
    assert_eq!((sender.rate(), sender.rtt()), (1000.0, None));
    assert_eq!(sender.poll_timeout(), Some(us(2_000_005)));
    report(&mut sender, 200, 100, 0.0, 0.0);
    assert!(close(sender.rate(), 4000.0 / 100e-6));
    assert_eq!(sender.rtt(), Some(Duration::from_micros(100)));
}

#[test]
fn a_rate_that_somebody_vouches_for_stands_until_reports_say_more() {
    let mut sender = Sender::new(us(0), S, Start::Rate(12.5e6));
    assert_eq!(sender.rate(), 12.5e6);
    report(&mut sender, 1000, 1000, 0.0, 0.0);
    assert!(close(sender.rate(), 12.5e6));
    for wrong in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
        assert_eq!(Sender::new(us(0), S, Start::Rate(wrong)).rate(), 1000.0);
    }
}

#[test]
fn slow_start_doubles_once_a_round_trip_up_to_twice_what_is_received() {
    let mut sender = started();
    report(&mut sender, 1000, 1000, 0.0, 0.0);
    assert!(close(sender.rate(), 8e6));
    report(&mut sender, 2000, 1000, 3e6, 0.0); // the first two round trips are not bounded by what is received
    assert!(close(sender.rate(), 16e6));
    report(&mut sender, 2900, 1000, 9e6, 0.0); // too early to double again
    assert!(close(sender.rate(), 16e6));
    report(&mut sender, 3000, 1000, 7e6, 0.0);
    assert!(close(sender.rate(), 18e6));
    report(&mut sender, 5500, 1000, 1e6, 0.0); // never below the initial rate
    assert!(close(sender.rate(), 4e6));
}

#[test]
fn the_round_trip_is_smoothed_from_the_first_report_on() {
    let mut sender = started();
    report(&mut sender, 2000, 2000, 0.0, 0.0);
    assert_eq!(sender.rtt(), Some(2 * MS)); // "if no feedback has been received before, R = R_sample"
    report(&mut sender, 4000, 3000, 1e6, 0.0);
    assert!(close(sender.rtt().unwrap().as_secs_f64(), 0.9 * 2e-3 + 0.1 * 3e-3));
}

#[test]
fn with_losses_the_equation_sets_the_rate() {
    let mut sender = started();
    report(&mut sender, 1000, 1000, 0.0, 0.0);
    report(&mut sender, 2000, 1000, 9e6, 0.01);
    // 11.233 segments a round trip at p = 1 %, from the equation's own test.
    assert!(close(sender.rate(), 11.233_223_436_299_36e6));
    assert_eq!(sender.loss_event_rate(), 0.01);
}

#[test]
fn twice_what_is_received_bounds_the_equation() {
    let mut sender = started();
    for at in [1000, 2000, 4000, 6000] {
        report(&mut sender, at, 1000, 2e6, 0.01);
    }
    assert!(close(sender.rate(), 4e6));
    // The highest of the last two round trips counts.
    report(&mut sender, 7000, 1000, 3e6, 0.01);
    report(&mut sender, 8000, 1000, 1e6, 0.01);
    assert!(close(sender.rate(), 6e6));
    report(&mut sender, 9500, 1000, 1e6, 0.01);
    assert!(close(sender.rate(), 2e6));
}

#[test]
fn the_segment_size_is_that_of_the_packets_whatever_was_expected() {
    let mut sender = Sender::new(us(0), 1500, Start::Rtt(MS));
    report(&mut sender, 1000, 1000, 1e9, 0.01);
    assert!(close(sender.rate(), 11.233_223_436_299_36e6));
    // Half of the packets that are averaged are twice as large.
    (0..32).for_each(|_| sender.on_sent(us(1000), S, false));
    (0..32).for_each(|_| sender.on_sent(us(1000), 2 * S, false));
    report(&mut sender, 2000, 1000, 1e9, 0.01);
    assert!((1.4..1.55).contains(&(sender.rate() / 11.233e6)), "{}", sender.rate());
}

#[test]
fn another_segment_size_may_be_put_into_the_equation() {
    let options = Options { equation_bytes: Some(1448), ..Options::default() };
    let mut sender = Sender::with_options(us(0), S, Start::Rtt(MS), options);
    report(&mut sender, 1000, 1000, 1e9, 0.01);
    assert!(close(sender.rate(), 1.448 * 11.233_223_436_299_36e6));
}

#[test]
fn the_timeout_of_the_tcp_beside_may_be_put_into_the_equation() {
    let options = Options { least_rto: 40 * MS, ..Options::default() };
    let mut sender = Sender::with_options(us(0), S, Start::Rtt(MS), options);
    report(&mut sender, 1000, 1000, 1e9, 0.02);
    assert!((sender.rate() * 0.325_977 / 1e6 - 1.0).abs() < 1e-5); // the equation's own test has this value
}

#[test]
fn a_longer_round_trip_than_on_average_slows_the_flow() {
    // Section 4.5: R_sqmean = .9 sqrt(1 ms) + .1 sqrt(4 ms) = 1.1 sqrt(1 ms), and sqrt(R_sample) = 2 sqrt(1
    // ms).
    let mut sender = started();
    report(&mut sender, 1000, 1000, 1e9, 0.01);
    let mut steady =
        Sender { options: Options { reduce_oscillations: false, ..Options::default() }, ..sender.clone() };
    report(&mut sender, 5000, 4000, 1e9, 0.01);
    report(&mut steady, 5000, 4000, 1e9, 0.01);
    assert!(close(sender.rate() / steady.rate(), 1.1 / 2.0));
}

#[test]
fn the_nofeedback_timer_is_four_round_trips_and_at_least_two_packets() {
    // RFC 3448's erratum 270: four round trips, where its text said two.
    let mut sender = started();
    assert_eq!(sender.poll_timeout(), Some(us(4000)));
    report(&mut sender, 1000, 1000, 0.0, 0.0);
    assert_eq!(sender.poll_timeout(), Some(us(5000)));
    // At p = 1 the rate is .004110 segments a round trip: two take 486.63 round trips.
    report(&mut sender, 2000, 1000, 1e6, 1.0);
    let wait = sender.poll_timeout().unwrap().since(us(2000)).as_secs_f64();
    assert!((wait - 0.486_63).abs() < 1e-4, "{wait}");
}

#[test]
fn the_timer_may_have_a_floor() {
    let options = Options { least_timeout: 20 * MS, ..Options::default() };
    let sender = Sender::with_options(us(0), S, Start::Rtt(Duration::from_micros(50)), options);
    assert_eq!(sender.poll_timeout(), Some(us(20_000)));
}

#[test]
fn every_expiration_halves_the_rate_down_to_a_packet_in_64_s() {
    // In slow start, by X itself.
    let mut sender = started();
    report(&mut sender, 1000, 1000, 0.0, 0.0);
    let mut rate = sender.rate();
    for expirations in 1..40 {
        let now = sender.poll_timeout().unwrap();
        sender.on_sent(now, S, false);
        sender.on_timeout(now);
        rate = (rate / 2.0).max(1000.0 / 64.0);
        assert!(close(sender.rate(), rate));
        assert_eq!(sender.expirations(), expirations);
    }
    assert_eq!(rate, 1000.0 / 64.0);
}

#[test]
fn with_losses_an_expiration_halves_what_held_the_rate() {
    for (x_recv, before) in [(2e6, 4e6), (1e9, 11.233_223_436_299_36e6)] {
        let mut sender = started();
        for at in [1000, 4000, 8000] {
            report(&mut sender, at, 1000, x_recv, 0.01);
        }
        assert!(close(sender.rate(), before));
        for halved in [before / 2.0, before / 4.0] {
            let now = sender.poll_timeout().unwrap();
            sender.on_sent(now, S, false);
            sender.on_timeout(now);
            assert!(close(sender.rate(), halved), "{x_recv}: {}", sender.rate());
        }
    }
}

#[test]
fn reports_that_come_again_end_the_silence() {
    let mut sender = started();
    report(&mut sender, 1000, 1000, 4e6, 0.01);
    assert_eq!((sender.expirations(), sender.stop_at(MS)), (0, None));
    sender.on_sent(us(1200), S, false);
    sender.on_sent(us(2200), S, false);
    for _ in 0..3 {
        let now = sender.poll_timeout().unwrap();
        sender.on_timeout(now);
        sender.on_sent(now, S, false);
    }
    assert_eq!(sender.expirations(), 3);
    assert_eq!(sender.silent_since(), us(1200));
    assert_eq!(sender.stop_at(50 * MS), Some(us(51_200)));
    report(&mut sender, 60_000, 1000, 4e6, 0.01);
    assert_eq!((sender.expirations(), sender.stop_at(MS), sender.silent_since()), (0, None, us(60_000)));
}

#[test]
fn an_idle_sender_falls_to_the_initial_rate_and_no_lower_and_is_not_silent() {
    let mut sender = started();
    for at in [1000, 2000, 3000, 4000] {
        report(&mut sender, at, 1000, 32e6, 0.0);
    }
    assert!(sender.rate() > 60e6);
    while let Some(now) = sender.poll_timeout() {
        sender.on_timeout(now);
    }
    assert!((4e6..8e6).contains(&sender.rate()), "{}", sender.rate());
    assert_eq!(sender.expirations(), 0);
    // An hour later the timer runs again, from the packet that is sent.
    sender.on_sent(us(3_600_000_000), S, false);
    assert_eq!(sender.silent_since(), us(3_600_000_000));
    assert_eq!(sender.poll_timeout(), Some(us(3_600_004_000)));
}

#[test]
fn what_the_application_held_back_does_not_bound_the_rate() {
    // After a flow at 10 MB/s the application sends little: reports of it leave the rate as it was.
    let mut sender = started();
    for at in [1000, 2000, 4000, 6000] {
        report(&mut sender, at, 1000, 10e6, 0.001);
    }
    let before = sender.rate();
    let little = |sender: &mut Sender, at, p| {
        sender.on_sent(us(at - 1000), S, true);
        sender.on_feedback(us(at), &Feedback { rtt_sample: MS, x_recv: 1e6, loss_event_rate: p });
    };
    for at in [10_000, 20_000, 30_000] {
        little(&mut sender, at, 0.001);
        assert!(close(sender.rate(), before), "{at}: {}", sender.rate());
    }
    // A loss in such an interval halves the memory of what the path can carry, and allows no more than that.
    little(&mut sender, 40_000, 0.001_1);
    assert!(close(sender.rate(), 5e6), "{}", sender.rate());
}

#[test]
fn reports_that_are_no_numbers_are_ignored() {
    let mut sender = started();
    let before = format!("{sender:?}");
    for (x_recv, p) in
        [(f64::NAN, 0.1), (f64::INFINITY, 0.1), (-1.0, 0.1), (1.0, f64::NAN), (1.0, -0.1), (1.0, 1.1)]
    {
        let feedback = Feedback { rtt_sample: MS, x_recv, loss_event_rate: p };
        assert!(!sender.on_feedback(us(1000), &feedback));
        assert_eq!(format!("{sender:?}"), before);
    }
}

#[test]
fn no_round_trip_time_makes_the_rate_something_else_than_a_rate() {
    for rtt_sample in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        for p in [0.0, f64::MIN_POSITIVE, 1e-12, 1.0] {
            let mut sender = started();
            for i in 1..20 {
                sender.on_sent(us(i * 900), S, i % 2 == 0);
                sender.on_feedback(
                    us(i * 1000),
                    &Feedback { rtt_sample, x_recv: f64::MAX, loss_event_rate: p },
                );
                assert!(sender.rate().is_finite() && sender.rate() >= 1000.0 / 64.0, "{rtt_sample:?} {p}");
                assert!(sender.poll_timeout().unwrap() > us(i * 1000));
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn whatever_is_reported_the_rate_is_a_rate_and_time_goes_on(
        steps in proptest::collection::vec(
            (0..5_000u64, 0..4u8, proptest::num::u64::ANY, proptest::num::f64::ANY, proptest::num::f64::ANY, 0.0..1.0f64),
            1..200,
        ),
    ) {
        let mut sender = started();
        let mut now = us(0);
        for (wait_us, what, rtt_ns, x_recv, p, sane_p) in steps {
            now = now + Duration::from_micros(wait_us);
            match what {
                0 => sender.on_sent(now, S, rtt_ns % 2 == 0),
                1 => sender.on_timeout(now),
                _ => {
                    let loss_event_rate = if what == 2 { sane_p } else { p };
                    let rtt_sample = Duration::from_nanos(rtt_ns >> (rtt_ns % 64));
                    sender.on_feedback(now, &Feedback { rtt_sample, x_recv: x_recv.abs(), loss_event_rate });
                }
            }
            proptest::prop_assert!((1000.0 / 64.0..=MOST_RATE).contains(&sender.rate()));
            proptest::prop_assert!(sender.receive_rates.len() <= RECEIVE_RATES);
            if what == 1 {
                proptest::prop_assert!(sender.poll_timeout().is_none_or(|at| at > now));
            }
        }
    }
}
