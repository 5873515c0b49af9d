use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

/// A path that carries so much, and takes its time.
struct Path {
    carries: u16,
    rtt: Duration,
    /// Says whether a probe or its answer is lost for another reason.
    loses: Box<dyn FnMut() -> bool>,
    answers: VecDeque<(Time, u16)>,
    now: Time,
    mtu: PathMtu,
    probes: u32,
    longest: u16,
}

impl Path {
    fn new(max: u16, carries: u16, rtt: Duration) -> Self {
        let mut mtu = PathMtu::new(Time::ZERO, max);
        mtu.measure(0.0, Some(rtt));
        let (answers, loses) = (VecDeque::new(), Box::new(|| false));
        Path { carries, rtt, loses, answers, now: Time::ZERO, mtu, probes: 0, longest: 0 }
    }

    /// Whose round trip is not known.
    fn unmeasured(self) -> Self {
        Path { mtu: PathMtu::new(Time::ZERO, self.mtu.max), ..self }
    }

    fn losing(self, loss: f64, seed: u64) -> Self {
        let mut state = seed;
        let loses = Box::new(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) as f64) < loss * (1_u64 << 31) as f64
        });
        let mut path = Path { loses, ..self };
        path.mtu.measure(loss, Some(path.rtt));
        path
    }

    /// What there is to do for so long. While `sends`, a full-sized datagram goes every millisecond.
    fn run(&mut self, time: Duration, sends: bool) {
        let end = self.now + time;
        let mut next_sent = self.now;
        loop {
            while let Some(bytes) = self.mtu.poll_probe(self.now) {
                self.probes += 1;
                self.longest = self.longest.max(bytes);
                if bytes <= self.carries && !(self.loses)() {
                    self.answers.push_back((self.now + self.rtt, bytes));
                }
            }
            let answer = self.answers.front().map(|(at, _)| *at);
            let sent = sends.then_some(next_sent);
            let next = self.mtu.poll_timeout().into_iter().chain(answer).chain(sent).min().unwrap_or(end);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if sent.is_some_and(|at| at <= self.now) {
                next_sent = self.now + MS;
                self.mtu.on_sent(self.now, 1);
                // In truth that is heard a round trip later, which is of no interest here.
                if self.mtu.size() <= self.carries && !(self.loses)() {
                    self.mtu.on_arrived(self.now, 0);
                }
            }
            while let Some((_, bytes)) = self.answers.front().copied().filter(|(at, _)| *at <= self.now) {
                self.answers.pop_front();
                self.mtu.on_answered(self.now, bytes);
            }
            if next == end {
                return;
            }
        }
    }

    /// The search is over, and has found what there is.
    fn assert_found(&self) {
        let (size, carries) = (self.mtu.size(), self.carries.min(self.mtu.max));
        assert!(self.mtu.is_settled(), "{:?}", self.mtu);
        assert!(size <= carries && size + STEP > carries, "{size} of {carries}: {:?}", self.mtu);
    }
}

#[test]
fn a_path_that_carries_all_is_found_in_one_round_trip() {
    let mut path = Path::new(1452, 9000, 20 * MS);
    path.run(20 * MS, false);
    assert_eq!((path.mtu.size(), path.probes, path.mtu.is_settled()), (1452, 3, true));
    path.run(3600 * 1000 * MS, false);
    assert_eq!(path.probes, 3, "nothing longer is wanted");
}

/// Until then anything that is sent is unanswered, which is no sign of a path that carries less.
#[test]
fn a_round_trip_that_is_not_known_costs_no_more_than_itself() {
    for rtt in [1, 30, 120, 170, 500, 950].map(|ms| ms * MS) {
        let mut path = Path::new(1452, 9000, rtt).unmeasured();
        path.run(rtt, true);
        assert_eq!((path.mtu.size(), path.probes, path.mtu.is_settled()), (1452, 3, true), "{rtt:?}");
    }
    // Answers that come later than is waited for count as well.
    for rtt in (50..3000).step_by(50).map(|ms| ms * MS) {
        let mut path = Path::new(1452, 9000, rtt);
        path.mtu.measure(0.0, Some(MS));
        path.run(rtt, true);
        assert_eq!((path.mtu.size(), path.mtu.is_settled()), (1452, true), "{rtt:?}");
    }
}

#[test]
fn a_doubt_that_was_for_nothing_does_not_end_the_search() {
    for outage in (0..40).map(|at| at * 5 * MS) {
        let mut path = Path::new(1452, 1300, 20 * MS);
        path.run(outage, true);
        path.carries = 0;
        path.run(1000 * MS, true);
        path.carries = 1300;
        path.run(10_000 * MS, true);
        path.assert_found();
    }
}

#[test]
fn a_tunnel_is_found_by_bisection() {
    let mut path = Path::new(1452, 1252, 20 * MS);
    path.run(21 * MS, false);
    assert_eq!(path.mtu.size(), BASE_BYTES, "the base passes, and is in use");
    path.run(2000 * MS, false);
    path.assert_found();
    assert!(path.probes < 60, "{}", path.probes);
}

#[test]
fn a_path_beneath_the_base_is_found_as_well() {
    let mut path = Path::new(1452, 972, 10 * MS);
    path.run(15 * MS, false);
    assert_eq!(path.mtu.size(), MIN_BYTES);
    path.run(2000 * MS, false);
    path.assert_found();
}

#[test]
fn a_path_that_falls_is_noticed_within_a_few_round_trips() {
    for (rtt, carries, within) in [(MS, 1252, 60), (MS, 972, 60), (100 * MS, 1252, 350), (100 * MS, 972, 350)]
    {
        let mut path = Path::new(1452, 1452, rtt);
        path.run(500 * MS, true);
        assert_eq!(path.mtu.size(), 1452);
        path.carries = carries;
        path.run(within * MS, true);
        assert!(path.mtu.size() <= carries, "{rtt:?}: {:?}", path.mtu);
        path.run(10_000 * MS, true);
        path.assert_found();
    }
}

#[test]
fn a_probe_that_is_answered_ends_the_doubt() {
    let mut path = Path::new(1452, 1452, MS);
    path.run(100 * MS, false);
    // What became of these is never heard.
    path.mtu.on_sent(path.now, 10);
    let before = path.probes;
    path.run(1000 * MS, false);
    assert!(!path.mtu.is_doubted());
    assert_eq!((path.mtu.size(), path.probes - before), (1452, 3));
}

#[test]
fn one_round_tells_nothing_of_a_path_that_loses_much() {
    for (loss, rounds) in [(0.0, 1), (0.3, 6)] {
        let mut path = Path::new(1452, 1452, MS);
        path.run(100 * MS, false);
        path.mtu.measure(loss, Some(MS));
        path.mtu.on_sent(path.now, 50);
        // Short probes are answered, and long ones are not.
        let mut answered = 0;
        while path.mtu.size() == 1452 {
            path.now = path.now + MS;
            while path.mtu.size() == 1452
                && let Some(bytes) = path.mtu.poll_probe(path.now)
            {
                if bytes == MIN_BYTES {
                    path.mtu.on_answered(path.now, bytes);
                    answered += 1;
                }
            }
        }
        assert_eq!(answered, rounds, "{loss}");
    }
}

#[test]
fn what_is_wanted_later_is_tried_at_once() {
    for carries in [1452, 972] {
        let mut path = Path::new(512, carries, 10 * MS);
        path.run(100 * MS, true);
        assert_eq!((path.mtu.size(), path.probes), (512, 0));
        path.mtu.want(path.now, 1452);
        path.mtu.want(path.now, 100);
        path.run(if carries == 1452 { 10 } else { 500 } * MS, true);
        path.assert_found();
    }
}

#[test]
fn an_outage_is_none_of_the_length() {
    let mut path = Path::new(1452, 1452, 10 * MS);
    path.run(100 * MS, true);
    path.carries = 0;
    path.run(3000 * MS, true);
    assert!(path.mtu.is_doubted());
    assert_eq!(path.mtu.size(), 1452);
    let probes = path.probes;
    path.run(10_000 * MS, true);
    assert!(path.probes - probes < 50, "{} probes for nobody", path.probes - probes);
    path.carries = 1452;
    path.run(50 * MS, true);
    path.assert_found();
    assert!(!path.mtu.is_doubted());
}

/// Probes come through, and of what was sent nothing is heard: its reports were lost, or nobody makes any.
#[test]
fn datagrams_that_were_lost_for_another_reason_are_probed_for_once() {
    let mut path = Path::new(1452, 1452, MS);
    path.run(100 * MS, true);
    let probes = path.probes;
    path.mtu.on_sent(path.now, 100);
    path.run(10_000 * MS, false);
    assert!(path.probes - probes <= 3, "{} probes", path.probes - probes);
    assert_eq!((path.mtu.size(), path.mtu.is_doubted()), (1452, false));
    // They are when more is lost.
    path.mtu.on_sent(path.now, 100);
    path.run(100 * MS, false);
    assert!((1..=6).contains(&(path.probes - probes)), "{}", path.probes - probes);
}

#[test]
fn a_path_that_comes_to_carry_more_is_found_after_ten_minutes() {
    let mut path = Path::new(1452, 1252, 10 * MS);
    path.run(5_000 * MS, true);
    path.assert_found();
    let probes = path.probes;
    path.carries = 1452;
    path.run(590_000 * MS, false);
    assert_eq!(path.probes, probes);
    path.run(20_000 * MS, false);
    assert_eq!(path.mtu.size(), 1452);
}

#[test]
fn hearsay_lowers_what_is_tried_and_is_believed_no_further() {
    let mut path = Path::new(1452, 1252, 10 * MS);
    path.mtu.hint(Time::ZERO, 1252);
    path.run(10 * MS, false);
    path.assert_found();
    assert_eq!((path.mtu.size(), path.longest), (1252, 1252));
    // Less than the path carries: it costs nothing to try, and something to believe.
    let mut path = Path::new(1452, 1452, 10 * MS);
    path.run(100 * MS, true);
    path.mtu.hint(path.now, 100);
    path.run(100 * MS, true);
    assert_eq!(path.mtu.size(), MIN_BYTES);
    path.run(601_000 * MS, false);
    assert_eq!(path.mtu.size(), 1452);
    // More than is known is no news.
    path.mtu.hint(path.now, 9000);
    assert!(path.mtu.is_settled() && path.mtu.size() == 1452);
}

#[test]
fn short_datagrams_need_no_probes() {
    let mut path = Path::new(142, 142, 10 * MS);
    path.run(1000 * MS, true);
    path.carries = 0;
    path.run(1000 * MS, true);
    assert_eq!((path.probes, path.mtu.size()), (0, 142));
    assert!(path.mtu.is_settled() && path.mtu.poll_timeout().is_none());
}

#[test]
fn answers_to_what_was_not_asked_tell_nothing() {
    let mut path = Path::new(1452, 1200, 10 * MS);
    path.run(9 * MS, false);
    path.mtu.on_answered(path.now, 1450);
    path.mtu.on_answered(path.now, u16::MAX);
    path.mtu.on_answered(path.now, 0);
    assert_eq!(path.mtu.size(), MIN_BYTES);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is in use is what a search of all lengths would find, but for a step; nothing that is lost makes it more, and
    /// what the path carries may change at any time.
    #[test]
    fn the_length_is_what_the_path_carries(
        max in 1_u16..9100,
        carries in prop::collection::vec(MIN_BYTES..9100, 1..5),
        rtt_ms in 0_u32..200,
        loss in prop_oneof![Just(0.0), 0.0..0.3_f64],
        seed: u64,
    ) {
        let mut path = Path::new(max, carries[0], rtt_ms * MS).losing(loss, seed);
        for carries in carries {
            let rises = carries > path.carries;
            path.carries = carries;
            path.run(60_000 * MS, true);
            if rises {
                path.run(2 * RAISE, false);
            }
            let size = path.mtu.size();
            prop_assert!(size <= carries, "{:?}", path.mtu);
            if loss == 0.0 {
                path.assert_found();
            }
        }
    }

    /// Whatever it is told, it is sane.
    #[test]
    fn nothing_that_happens_makes_it_fail(max: u16, happens in prop::collection::vec((0_u8..7, 0_u16..2000), 0..200)) {
        let mut now = Time::ZERO;
        let mut mtu = PathMtu::new(now, max);
        for (what, number) in happens {
            match what {
                0 => now = now + u32::from(number) * MS,
                1 => mtu.on_answered(now, number),
                2 => mtu.on_sent(now, number.into()),
                3 => mtu.on_arrived(now, number.into()),
                4 => mtu.hint(now, number),
                5 => mtu.want(now, number),
                _ => mtu.measure(f64::from(number) / 2000.0, (number % 7 > 0).then(|| u32::from(number) * MS)),
            }
            let mut probes = 0;
            while let Some(bytes) = mtu.poll_probe(now) {
                prop_assert!(bytes > 0 && bytes <= max.max(2000));
                probes += 1;
                prop_assert!(probes <= 3);
                if bytes < number {
                    mtu.on_answered(now, bytes);
                    break;
                }
            }
            prop_assert!(mtu.size() <= max.max(2000) && mtu.size() >= MIN_BYTES.min(max));
            while mtu.poll_probe(now).is_some() {}
            prop_assert!(mtu.poll_timeout().is_none_or(|at| at > now), "{mtu:?} at {now:?}");
        }
    }
}
