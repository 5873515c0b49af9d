//! How many coded packets are sent: the paper's drift-plus-penalty (section IV).
//!
//! More of them make a timeout of TCP less likely, and a queue longer. Q stands for that queue (Eq. 5); V says what a timeout is worth beside it.
//! Of all counts that are allowed, the one is taken for which C Q + V P is least (Eq. 8), P being the probability of a timeout (Eq. 1 and 2).
//!
//! Three things are not as they are printed. New losses are d - d_last, as d, what the receiver has missed in all, only grows; the paper
//! has d_last - d. And Eq. 2 is about what is sent for d_new losses: its w has to be d_new, which is also what it says that it is a
//! function of. And Eq. 1 counts windows of one or two packets even if all of them arrive, as these make no three duplicates; but then
//! nobody needs any, so that outcome is left out. Otherwise such windows would be followed by coded packets where nothing is ever lost.

use std::time::Duration;

use super::losses::{PathLosses, is_negligible};
use crate::Time;

/// Of more packets than this, what is true of so many is true as nearly as a float can say.
const MOST_COUNTED: u32 = 1000;

/// A round trip that is so many times the shortest one is that of a long queue.
const STRETCH: f64 = 3.0;

/// Which timeouts c1 is chosen against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Risk {
    /// That no more than two packets of a window arrive (Eq. 1): the paper's.
    TooFewArrive,
    /// That one of its last three packets is lost and not repaired, so that too few follow for duplicate acknowledgements.
    TailIsLost,
}

/// What the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// The risk of a window.
    pub risk: Risk,
    /// V: what a timeout costs, in coded packets times Q. The paper recommends 2,000 to 5,000.
    pub timeout_cost: f64,
    /// lambda: coded packets in a round trip that cost nothing, as Q does not grow by them.
    pub free_packets: f64,
    /// The same as a share of the window's packets, in addition.
    pub free_share: f64,
    /// Whether a short coded packet costs less, as it takes less of a link: then those that follow a SYN are as good as free.
    pub by_length: bool,
    /// Q is no shorter than this: what a coded packet costs at least.
    pub least_queue: f64,
    /// The loss rate beyond which a path whose queue is long is congested: there TCP has to see what is lost, or nobody slows down, and
    /// no packet of full length is coded.
    pub congested: f64,
    /// Whether what is lost in a long queue counts as that queue's, and not as the path's, and losses are left to TCP of a path that has lost
    /// nothing else for long: whoever repairs them has TCP fill the queue further.
    pub heeds_queues: bool,
    /// S: Q grows no longer than this.
    pub longest_queue: f64,
    /// C_max: coded packets at a time, unless more have been lost.
    pub most_packets: u32,
}

impl Policy {
    /// The paper's (section V-A).
    pub const PAPER: Policy = Policy {
        risk: Risk::TooFewArrive,
        timeout_cost: 3000.0,
        free_packets: 4.0,
        free_share: 0.0,
        by_length: false,
        least_queue: 0.0,
        congested: 1.0,
        heeds_queues: false,
        longest_queue: 1000.0,
        most_packets: 5,
    };
    /// Weir's: a coded packet is never free, and in the long run there are not many beside those of TCP. The paper's four in a round trip are as many
    /// as TCP's own where windows are small, as in an incast, and fill the queue that they are to save.
    pub const WEIR: Policy = Policy {
        risk: Risk::TailIsLost,
        free_packets: 0.0,
        free_share: 0.1,
        by_length: true,
        least_queue: 10.0,
        congested: 0.08,
        heeds_queues: true,
        ..Policy::PAPER
    };
}

impl Default for Policy {
    fn default() -> Self {
        Policy::WEIR
    }
}

/// Chooses how many coded packets to send.
#[derive(Clone, Debug)]
pub struct Scheduler {
    policy: Policy,
    queue: f64,
    /// What is lost on the path, and where its round trips are long.
    pub losses: PathLosses,
}

impl Scheduler {
    /// One that has sent nothing yet.
    pub fn new(policy: Policy) -> Self {
        Scheduler { policy, queue: policy.least_queue, losses: PathLosses::default() }
    }

    /// c1: coded packets that follow a window of so many packets, of which each is lost with probability `loss`. `length` is that of a coded packet, as a
    /// share of the longest that there may be.
    pub fn at_end_of_window(&self, window: u32, loss: f64, length: f64) -> u32 {
        self.least(0..=self.policy.most_packets, length, |coded| self.timeout(window, loss, coded))
    }

    /// The probability of a timeout after such a window.
    pub fn timeout(&self, window: u32, loss: f64, coded: u32) -> f64 {
        match self.policy.risk {
            Risk::TooFewArrive => too_few_arrive(window, loss, coded),
            Risk::TailIsLost => tail_is_lost(window, loss, coded),
        }
    }

    /// c2: coded packets that follow on so many new losses, at least as many. The paper searches below C_max; as many as were lost are
    /// sent where these are more.
    pub fn on_losses(&self, losses: u32, loss: f64, length: f64) -> u32 {
        let most = self.policy.most_packets.saturating_sub(1).max(losses);
        self.least(losses..=most, length, |coded| too_many_are_lost(losses, loss, coded))
    }

    /// A round trip is over, in which so many packets and so many coded ones were sent (Eq. 5), in packets of the longest kind if these cost by length.
    pub fn on_round_trip(&mut self, packets: f64, coded: f64) {
        let Policy { free_packets, free_share, least_queue, longest_queue, .. } = self.policy;
        let free = free_packets + free_share * packets;
        self.queue = (self.queue + coded - free).clamp(least_queue, longest_queue.max(least_queue));
    }

    /// Whether a path that loses so many packets is congested, if its round trips take so long of late.
    pub fn is_congested(&self, loss: f64, rtt: Duration) -> bool {
        let shortest = self.losses.shortest_round_trip().max(Duration::from_micros(1));
        loss > self.policy.congested && rtt.as_secs_f64() > STRETCH * shortest.as_secs_f64()
    }

    /// Whether losses are left to TCP, of a path that has lost so many before.
    pub fn is_left_to_tcp(&self, loss: f64) -> bool {
        self.policy.heeds_queues && is_negligible(loss)
    }

    /// A packet was acknowledged after this time. Whether that is long, as it is behind a queue, or where a host was busy.
    pub fn on_round_trip_time(&mut self, now: Time, rtt: Duration) -> bool {
        let is_long = self.losses.on_round_trip_time(now, rtt);
        self.policy.heeds_queues && is_long
    }

    /// What packets of this length count.
    pub fn weight(&self, length: f64) -> f64 {
        if self.policy.by_length { length } else { 1.0 }
    }

    /// Q.
    pub fn queue(&self) -> f64 {
        self.queue
    }

    /// The smallest count for which C Q + V P is least.
    fn least(&self, counts: std::ops::RangeInclusive<u32>, length: f64, timeout: impl Fn(u32) -> f64) -> u32 {
        let (first, each) = (*counts.start(), self.queue * self.weight(length));
        let cost = |coded: u32| f64::from(coded) * each + self.policy.timeout_cost * timeout(coded);
        let best = counts
            .map(|coded| (coded, cost(coded)))
            .reduce(|best, next| if next.1 < best.1 { next } else { best });
        best.map_or(first, |(coded, _)| coded)
    }
}

/// The probability that some packet is lost of a window and the coded packets that follow it, and no more than two arrive, so that there are no
/// three duplicate acknowledgements, for which TCP would send again at once (Eq. 1).
pub fn too_few_arrive(window: u32, loss: f64, coded: u32) -> f64 {
    let packets = window.saturating_add(coded).min(MOST_COUNTED);
    (0..packets.min(3)).map(|arrive| exactly(packets, packets - arrive, loss)).sum::<f64>().min(1.0)
}

/// The probability that one of a window's last three packets is lost, and more packets of it and of the coded ones that follow it than these make
/// up for.
pub fn tail_is_lost(window: u32, loss: f64, coded: u32) -> f64 {
    let window = window.min(MOST_COUNTED);
    let tail = window.min(3);
    let others = (window - tail).saturating_add(coded).min(MOST_COUNTED);
    // So many of the tail are lost, and more than the rest of the coded packets make up for of the others.
    let missing = |lost: u32| match (coded + 1).checked_sub(lost) {
        None | Some(0) => 1.0,
        Some(least) => 1.0 - (0..least.min(others + 1)).map(|n| exactly(others, n, loss)).sum::<f64>(),
    };
    (1..=tail).map(|lost| exactly(tail, lost, loss) * missing(lost)).sum::<f64>().clamp(0.0, 1.0)
}

/// The probability that of what is sent for so many losses, with `coded` packets more, more than `coded` are lost again, so that TCP
/// waits for its timeout (Eq. 2).
pub fn too_many_are_lost(losses: u32, loss: f64, coded: u32) -> f64 {
    let packets = losses.saturating_add(coded).min(MOST_COUNTED);
    (coded + 1..=packets).map(|lost| exactly(packets, lost, loss)).sum::<f64>().min(1.0)
}

/// The probability that exactly so many of up to [`MOST_COUNTED`] packets are lost: beyond, the number of ways would be no float any more.
fn exactly(packets: u32, lost: u32, loss: f64) -> f64 {
    let arrive = packets - lost;
    let ways = (0..lost.min(arrive)).fold(1.0, |ways, n| ways * f64::from(packets - n) / f64::from(n + 1));
    ways * power(loss, lost) * power(1.0 - loss, arrive)
}

/// `base` to the power of a count; 1 if that is zero, whatever the base.
fn power(base: f64, exponent: u32) -> f64 {
    i32::try_from(exponent).map_or(0.0, |exponent| base.powi(exponent))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How likely each number of losses is, by one packet after the other.
    fn by_packet(packets: u32, loss: f64) -> Vec<f64> {
        let mut likely = vec![1.0];
        for _ in 0..packets {
            let mut next = vec![0.0; likely.len() + 1];
            for (lost, share) in likely.iter().enumerate() {
                next[lost] += share * (1.0 - loss);
                next[lost + 1] += share * loss;
            }
            likely = next;
        }
        likely
    }

    /// Eq. 1, from that.
    fn too_few(window: u32, loss: f64, coded: u32) -> f64 {
        by_packet(window + coded, loss).iter().skip(1).rev().take(3).sum()
    }

    /// Eq. 2, from that.
    fn too_many(losses: u32, loss: f64, coded: u32) -> f64 {
        by_packet(losses + coded, loss).iter().skip(coded as usize + 1).sum()
    }

    #[test]
    fn the_papers_probabilities_are_those_of_every_outcome() {
        assert_eq!(too_few_arrive(2, 0.0, 0), 0.0, "two packets make no three duplicates, but need none");
        assert!((too_few_arrive(1, 0.01, 1) - (1.0 - 0.99 * 0.99)).abs() < 1e-12);
        assert!((too_few_arrive(3, 0.1, 0) - (1.0 - 0.9_f64.powi(3))).abs() < 1e-12);
        assert_eq!(too_many_are_lost(0, 0.3, 0), 0.0, "nothing was lost");
        assert!((too_many_are_lost(1, 0.3, 1) - 0.09).abs() < 1e-12);
        for loss in [0.0, 0.5, 1.0] {
            for packets in [0, 1, 1000, u32::MAX] {
                for value in [too_few_arrive(packets, loss, 5), too_many_are_lost(packets, loss, 5)] {
                    assert!((0.0..=1.0).contains(&value), "{packets} packets, loss {loss}: {value}");
                }
            }
        }
    }

    /// `make bench-acc GROUP=timeouts` compares them with what TCP does; tests/experiments/test_bench_acc.py has the same numbers.
    #[test]
    fn the_probabilities_are_those_of_the_benchmark() {
        let shared = [
            (1, 0.01, 0, 1e-2, 1e-2, 1e-2),
            (2, 0.01, 0, 1.99e-2, 1.99e-2, 1.99e-2),
            (2, 0.1, 3, 8.56e-3, 4.6e-4, 4.6e-4),
            (3, 0.02, 1, 2.33648e-3, 2.33648e-3, 2.33648e-3),
            (4, 0.05, 0, 1.401875e-2, 1.8549375e-1, 1.42625e-1),
            (6, 0.1, 1, 1.765e-4, 1.496944e-1, 1.115677e-1),
            (8, 0.05, 3, 9.79736328125e-11, 1.552250909961e-3, 1.233520581519e-3),
            (10, 0.1, 0, 3.736e-7, 6.513215599e-1, 2.71e-1),
            (16, 0.005, 1, 4.111572265625e-33, 3.234386107825e-3, 1.081158140386e-3),
            (32, 0.1, 5, 5.428e-33, 1.597803161215e-1, 7.337226751277e-2),
        ];
        for (packets, loss, coded, too_few, too_many, tail) in shared {
            for (found, expected) in [
                (too_few_arrive(packets, loss, coded), too_few),
                (too_many_are_lost(packets, loss, coded), too_many),
                (tail_is_lost(packets, loss, coded), tail),
            ] {
                let off = (found - expected).abs();
                assert!(off < 1e-9 * expected, "{packets}, {loss}, {coded}: {found}, {expected}");
            }
        }
    }

    #[test]
    fn the_papers_policy_knows_no_long_round_trips() {
        let (at, ms) = (Time::ZERO, Duration::from_millis);
        let mut scheduler = Scheduler::new(Policy::PAPER);
        assert!(!scheduler.on_round_trip_time(at, ms(1)) && !scheduler.on_round_trip_time(at, ms(9)));
    }

    #[test]
    fn without_losses_nothing_is_sent() {
        let scheduler = Scheduler::new(Policy::default());
        for window in [0, 1, 2, 3, 10, 1000] {
            assert_eq!(scheduler.at_end_of_window(window, 0.0, 1.0), 0);
        }
        assert_eq!(scheduler.on_losses(0, 0.0, 1.0), 0);
    }

    #[test]
    fn as_many_are_sent_as_were_lost_however_many_these_are() {
        let mut scheduler = Scheduler::new(Policy { longest_queue: 1e9, ..Policy::default() });
        for _ in 0..100_000 {
            scheduler.on_round_trip(0.0, 100.0);
        }
        assert_eq!((scheduler.on_losses(3, 0.01, 1.0), scheduler.on_losses(9, 0.01, 1.0)), (3, 9));
    }

    #[test]
    fn the_queue_stays_within_its_bound_however_long_it_lasts() {
        // Nobody sends where a packet costs more than a timeout, so without a bound of its own Q is no longer than V and one step.
        for timeout_cost in [2000.0, 3000.0, 5000.0] {
            let policy =
                Policy { timeout_cost, free_packets: 1.0, longest_queue: f64::INFINITY, ..Policy::PAPER };
            let mut scheduler = Scheduler::new(policy);
            let (mut sum, mut timeouts, rounds) = (0.0, 0.0, 200_000);
            let mut state = 1_u64;
            for _ in 0..rounds {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (window, loss) = ((state >> 60) as u32 + 1, (state >> 32 & 0xff) as f64 / 1024.0);
                let coded = scheduler.at_end_of_window(window, loss, 1.0);
                timeouts += too_few_arrive(window, loss, coded);
                scheduler.on_round_trip(window.into(), coded.into());
                sum += scheduler.queue();
                assert!(scheduler.queue() <= timeout_cost + f64::from(policy.most_packets));
            }
            println!(
                "V {timeout_cost}: Q {:.0}, P {:.4}",
                sum / f64::from(rounds),
                timeouts / f64::from(rounds)
            );
        }
    }

    #[test]
    fn the_risk_of_a_tail_is_that_of_every_outcome() {
        for (window, coded) in [(1_u32, 0_u32), (1, 2), (2, 1), (3, 0), (5, 0), (6, 2), (7, 4)] {
            for loss in [0.0, 0.01, 0.3, 1.0] {
                let all = window + coded;
                let of = |outcome: u32| {
                    let is_lost = |n: u32| outcome >> n & 1 == 1;
                    let tail = (window.saturating_sub(3)..window).any(is_lost);
                    let lost = (0..all).filter(|n| is_lost(*n)).count() as i32;
                    let likely = f64::powi(loss, lost) * (1.0 - loss).powi(all as i32 - lost);
                    if tail && lost > coded as i32 { likely } else { 0.0 }
                };
                let expected: f64 = (0..1 << all).map(of).sum();
                let found = tail_is_lost(window, loss, coded);
                assert!((found - expected).abs() < 1e-9, "{window}, {coded}, {loss}: {found}, {expected}");
            }
        }
        assert_eq!(tail_is_lost(0, 0.5, 0), 0.0);
        assert!((0.0..=1.0).contains(&tail_is_lost(u32::MAX, 0.5, 5)));
    }

    #[test]
    fn in_the_long_run_there_are_few_coded_packets() {
        // As in an incast: windows of two, of which a tenth is lost again and again.
        let mut scheduler = Scheduler::new(Policy::WEIR);
        let (rounds, window) = (20_000, 2);
        let coded: u32 = (0..rounds)
            .map(|_| {
                let coded = scheduler.at_end_of_window(window, 0.1, 1.0);
                scheduler.on_round_trip(window.into(), coded.into());
                coded
            })
            .sum();
        assert!(f64::from(coded) < 0.15 * f64::from(rounds * window), "{coded}");
        // And where little is lost, one follows each window.
        let scheduler = Scheduler::new(Policy::WEIR);
        assert_eq!(scheduler.at_end_of_window(10, 0.01, 1.0), 1);
        // A SYN is protected whatever Q is.
        let mut scheduler = scheduler;
        scheduler.on_round_trip(0.0, 200.0);
        assert_eq!(
            (scheduler.at_end_of_window(1, 0.01, 1.0), scheduler.at_end_of_window(1, 0.01, 0.05)),
            (0, 1)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// No count has a lower cost than the chosen one.
        #[test]
        fn the_choice_is_that_of_trying_every_count(
            window in 0..60_u32,
            losses in 0..12_u32,
            loss in 0.0..1.0_f64,
            queue in 0.0..1000.0_f64,
            timeout_cost in 0.0..6000.0_f64,
            most_packets in 0..9_u32,
        ) {
            let policy = Policy { timeout_cost, most_packets, ..Policy::PAPER };
            let scheduler = Scheduler { queue, ..Scheduler::new(policy) };
            let cost = |coded: u32, timeout: f64| f64::from(coded) * queue + timeout_cost * timeout;
            let c1 = |coded| cost(coded, too_few(window, loss, coded));
            let chosen = scheduler.at_end_of_window(window, loss, 1.0);
            prop_assert!(chosen <= most_packets);
            for coded in 0..=most_packets {
                prop_assert!(c1(chosen) <= c1(coded) + 1e-6, "{chosen} for {coded}");
            }
            let c2 = |coded| cost(coded, too_many(losses, loss, coded));
            let chosen = scheduler.on_losses(losses, loss, 1.0);
            prop_assert!(chosen >= losses);
            for coded in losses..most_packets.max(losses + 1) {
                prop_assert!(c2(chosen) <= c2(coded) + 1e-6, "{chosen} for {coded}");
            }
        }
    }
}
