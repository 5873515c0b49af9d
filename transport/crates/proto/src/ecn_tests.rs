//! RFC 9000 section 13.4.2, as a specification of [`Marking`], in virtual time.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);
const RTT: Duration = Duration::from_millis(4);
/// So long marked datagrams may go unanswered.
const PATIENCE: Duration = Duration::from_millis(87);

fn ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// What becomes of a datagram; `None`: it is lost.
type Fate = fn(at: Time, sent: Codepoint) -> Option<Codepoint>;

fn carries(_: Time, sent: Codepoint) -> Option<Codepoint> {
    Some(sent)
}

fn clears(_: Time, _: Codepoint) -> Option<Codepoint> {
    Some(Codepoint::NotEct)
}

fn drops(_: Time, sent: Codepoint) -> Option<Codepoint> {
    Some(sent).filter(|sent| *sent == Codepoint::NotEct)
}

fn drops_from_100_ms(at: Time, sent: Codepoint) -> Option<Codepoint> {
    if at < ms(100) { Some(sent) } else { drops(at, sent) }
}

fn is_down_from_100_to_300_ms(at: Time, sent: Codepoint) -> Option<Codepoint> {
    Some(sent).filter(|_| at < ms(100) || at >= ms(300))
}

/// Sends a datagram every millisecond until `until`; whatever comes is reported a round trip later.
fn run(marking: &mut Marking, until: Time, fate: Fate) -> Vec<(Time, State)> {
    let mut counts = Counts::default();
    let mut reports: VecDeque<(Time, Counts)> = VecDeque::new();
    let mut states = vec![(Time::ZERO, marking.state())];
    let mut now = Time::ZERO;
    while now < until {
        while let Some((_, report)) = reports.front().filter(|(at, _)| *at <= now) {
            marking.on_counts(*report);
            reports.pop_front();
        }
        let marked = marking.is_on();
        marking.on_sent(now, RTT, 1, marked);
        if let Some(came) = fate(now, if marked { Codepoint::Ect0 } else { Codepoint::NotEct }) {
            counts.count(came);
            reports.push_back((now + RTT, counts));
        }
        if states.last().is_none_or(|(_, state)| *state != marking.state()) {
            states.push((now, marking.state()));
        }
        now = now + MS;
    }
    states
}

fn names(states: &[(Time, State)]) -> Vec<State> {
    states.iter().map(|(_, state)| *state).collect()
}

#[test]
fn a_path_that_carries_marks_is_capable_from_the_first_report_on() {
    let mut marking = Marking::new(true);
    let states = run(&mut marking, ms(1000), carries);
    assert_eq!(states, [(ms(0), State::Testing), (ms(4), State::Capable)]);
    assert_eq!((marking.marked(), marking.ce()), (1000, 0));
}

#[test]
fn who_is_told_not_to_marks_nothing() {
    let mut marking = Marking::new(false);
    assert_eq!(run(&mut marking, ms(1000), carries), [(ms(0), State::Off)]);
    assert_eq!(marking.marked(), 0);
}

#[test]
fn a_path_that_clears_marks_is_found_out_by_the_first_report() {
    let mut marking = Marking::new(true);
    let states = run(&mut marking, ms(1000), clears);
    assert_eq!(states, [(ms(0), State::Testing), (ms(4), State::Cleared)]);
    let mut marking = Marking::new(true);
    let one = |_, sent| Some(if sent == Codepoint::Ect0 { Codepoint::Ect1 } else { sent });
    assert_eq!(names(&run(&mut marking, ms(1000), one)), [State::Testing, State::Cleared]);
}

#[test]
fn a_path_that_comes_to_clear_marks_is_found_out() {
    let mut marking = Marking::new(true);
    let states =
        run(&mut marking, ms(1000), |at, sent| if at < ms(100) { Some(sent) } else { clears(at, sent) });
    assert_eq!(states, [(ms(0), State::Testing), (ms(4), State::Capable), (ms(104), State::Cleared)]);
}

#[test]
fn a_path_that_drops_marked_datagrams_costs_two_tests() {
    let mut marking = Marking::new(true);
    let states = run(&mut marking, ms(1000), drops);
    let tests = [(ms(0), State::Testing), (ms(9), State::Waiting), (ms(14), State::Testing)];
    assert_eq!(states[..3], tests);
    assert_eq!(states[3..], [(ms(23), State::Waiting), (ms(28), State::Dropped)]);
    assert_eq!(marking.marked(), 2 * TESTED);
}

/// A queue that is full drops the first ten, which come in a burst, and none later.
#[test]
fn a_test_that_was_lost_for_another_reason_is_repeated() {
    let mut marking = Marking::new(true);
    let states = run(&mut marking, ms(1000), |at, sent| Some(sent).filter(|_| at >= ms(10)));
    assert_eq!(names(&states), [State::Testing, State::Waiting, State::Testing, State::Capable]);
}

#[test]
fn a_slow_sender_tests_for_a_time_and_not_for_ten_datagrams() {
    let mut marking = Marking::new(true);
    marking.on_sent(ms(0), RTT, 1, true);
    marking.on_sent(ms(0) + PATIENCE - MS, RTT, 1, true);
    assert_eq!(marking.state(), State::Testing);
    marking.on_sent(ms(0) + PATIENCE, RTT, 1, true);
    assert_eq!(marking.state(), State::Waiting);
}

#[test]
fn a_path_that_comes_to_drop_marked_datagrams_is_found_out_while_others_are_sent() {
    let mut marking = Marking::new(true);
    let states = run(&mut marking, ms(1000), drops_from_100_ms);
    let tests =
        [State::Testing, State::Capable, State::Waiting, State::Testing, State::Waiting, State::Dropped];
    assert_eq!(names(&states), tests);
    let (waits, again, dropped) = (states[2].0, states[3].0, states[5].0);
    // The last report comes a round trip after the last datagram that passed.
    assert_eq!(waits, ms(103) + PATIENCE);
    assert_eq!(again, waits + MS + RTT);
    assert_eq!(dropped, again + 10 * MS + RTT);
}

#[test]
fn a_path_that_is_down_for_a_while_is_not_blamed() {
    let mut marking = Marking::new(true);
    marking.on_sent(ms(0), RTT, 20, true);
    marking.on_sent(ms(100), RTT, 20, false);
    assert_eq!(marking.state(), State::Waiting);
    marking.on_counts(Counts { received: 40, ect: 20, ce: 0 });
    assert_eq!(marking.state(), State::Capable);
    let mut marking = Marking::new(true);
    let states = run(&mut marking, ms(1000), is_down_from_100_to_300_ms);
    let tests = [State::Testing, State::Capable, State::Waiting, State::Testing, State::Capable];
    assert_eq!(names(&states), tests);
}

#[test]
fn a_few_lost_datagrams_prove_nothing() {
    let mut marking = Marking::new(true);
    marking.on_sent(ms(0), RTT, 1, true);
    marking.on_counts(Counts { received: 1, ect: 1, ce: 0 });
    // The tail of a burst is lost, and much later another.
    marking.on_sent(ms(1), RTT, IN_A_ROW - 2, true);
    marking.on_sent(ms(5000), RTT, 1, true);
    assert_eq!(marking.state(), State::Capable);
    marking.on_sent(ms(5001), RTT, 1, true);
    assert_eq!(marking.state(), State::Waiting);
}

#[test]
fn what_was_sent_unmarked_before_is_no_cleared_mark() {
    let mut marking = Marking::new(true);
    marking.on_sent(ms(0), RTT, 1000, false);
    marking.on_sent(ms(1), RTT, 10, true);
    marking.on_sent(ms(2), RTT, 10, false);
    for received in 1..=1000 {
        marking.on_counts(Counts { received, ect: 0, ce: 0 });
        assert_eq!(marking.state(), State::Waiting);
    }
    marking.on_counts(Counts { received: 1001, ect: 0, ce: 0 });
    assert_eq!(marking.state(), State::Testing);
}

#[test]
fn counts_that_do_not_add_up_end_it() {
    for (received, ect, ce) in
        [(11, 11, 0), (11, 0, 11), (9, 8, 2), (9, u64::MAX, u64::MAX), (9, 8, 0), (9, 3, 6)]
    {
        let mut marking = Marking::new(true);
        marking.on_sent(ms(0), RTT, 9, true);
        marking.on_counts(Counts { received: 8, ect: 4, ce: 4 });
        assert_eq!(marking.state(), State::Capable);
        marking.on_counts(Counts { received, ect, ce });
        assert_eq!((marking.state(), marking.is_on()), (State::Cleared, false), "{received} {ect} {ce}");
    }
}

#[test]
fn an_old_report_changes_nothing() {
    let mut marking = Marking::new(true);
    marking.on_sent(ms(0), RTT, 9, true);
    marking.on_counts(Counts { received: 9, ect: 7, ce: 2 });
    marking.on_counts(Counts { received: 3, ect: 3, ce: 0 });
    assert_eq!((marking.state(), marking.ce()), (State::Capable, 2));
}

#[test]
fn the_field_has_the_bits_of_an_ip_header() {
    for codepoint in [Codepoint::NotEct, Codepoint::Ect1, Codepoint::Ect0, Codepoint::Ce] {
        assert_eq!(Codepoint::from_bits(0b1011_0100 | codepoint as u8), codepoint);
    }
}

/// What happens to a burst on a path that carries marks.
#[derive(Clone, Debug)]
struct Burst {
    wait_ms: u64,
    datagrams: u64,
    /// Which are lost, and which are marked by a queue.
    lost: u64,
    ce: u64,
    /// In so many bursts' time its counts are reported; not at all if that report is lost.
    reported_after: Option<usize>,
    /// Whether its sender heeds marks just then.
    heeds: bool,
}

fn burst() -> impl Strategy<Value = Burst> {
    let reported = prop::option::weighted(0.8, 0..5_usize);
    (0..200_u64, 1..30_u64, any::<u64>(), any::<u64>(), reported, prop::bool::weighted(0.8)).prop_map(
        |(wait_ms, datagrams, lost, ce, reported_after, heeds)| Burst {
            wait_ms,
            datagrams,
            lost: lost & ce,
            ce,
            reported_after,
            heeds,
        },
    )
}

proptest! {
    #[test]
    fn a_path_that_carries_marks_is_never_said_to_clear_them(bursts in prop::collection::vec(burst(), 1..60)) {
        let mut marking = Marking::new(true);
        let (mut now, mut counts) = (Time::ZERO, Counts::default());
        let mut reports: Vec<(usize, Counts)> = Vec::new();
        for (at, burst) in bursts.iter().enumerate() {
            now = now + Duration::from_millis(burst.wait_ms);
            let marked = burst.heeds && marking.is_on();
            marking.on_sent(now, RTT, burst.datagrams, marked);
            for n in (0..burst.datagrams).filter(|n| burst.lost >> n & 1 == 0) {
                counts.count(match marked {
                    true if burst.ce >> n & 1 == 1 => Codepoint::Ce,
                    true => Codepoint::Ect0,
                    false => Codepoint::NotEct,
                });
            }
            reports.extend(burst.reported_after.map(|after| (at + after, counts)));
            let due = |(due, _): &mut (usize, Counts)| *due <= at;
            for (_, report) in reports.extract_if(.., due) {
                marking.on_counts(report);
                prop_assert_ne!(marking.state(), State::Cleared);
            }
            prop_assert!(marking.ce() <= marking.marked());
        }
    }

    #[test]
    fn a_path_that_drops_marked_datagrams_is_found_out_from_any_moment_on(
        drops_from in 0..500_u64,
        pause_ms in 1..40_u64,
    ) {
        let mut marking = Marking::new(true);
        let (mut counts, mut tests, mut first_in_vain) = (Counts::default(), 0, None);
        let mut report = None;
        for n in 0..1000 {
            let now = ms(n * pause_ms);
            if let Some(report) = report.take() {
                marking.on_counts(report);
            }
            let marked = marking.is_on();
            marking.on_sent(now, Duration::from_millis(pause_ms), 1, marked);
            if marked && n >= drops_from {
                tests += u32::from(first_in_vain.is_none());
                let begun = *first_in_vain.get_or_insert(now);
                let patience = 3 * Duration::from_millis(pause_ms + 25);
                let enough = Duration::from_millis(pause_ms) * (TESTED as u32);
                prop_assert!(now.since(begun) <= patience.max(enough) + Duration::from_millis(pause_ms));
            } else {
                first_in_vain = None;
                counts.count(if marked { Codepoint::Ect0 } else { Codepoint::NotEct });
                report = Some(counts);
            }
        }
        prop_assert_eq!((marking.state(), tests), (State::Dropped, 2));
    }

    #[test]
    fn whatever_a_receiver_says_an_end_is_an_end(
        said in prop::collection::vec((0..40_u64, 0..40_u64, 0..40_u64, 0..12_u64, any::<bool>()), 1..60)
    ) {
        let mut marking = Marking::new(true);
        let mut ended = None;
        for (n, (received, ect, ce, datagrams, heeds)) in said.into_iter().enumerate() {
            let marked = heeds && marking.is_on();
            marking.on_sent(ms(n as u64 * 40), RTT, datagrams, marked);
            marking.on_counts(Counts { received, ect, ce });
            let state = marking.state();
            if let Some(ended) = ended {
                prop_assert_eq!(state, ended);
            }
            if matches!(state, State::Cleared | State::Dropped) {
                prop_assert!(!marking.is_on());
                ended = Some(state);
            }
        }
    }
}
