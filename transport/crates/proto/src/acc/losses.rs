//! What a path loses, and whether that is its queue's: losses at long round trips beside those at short ones.

use std::time::Duration;

use crate::Time;

/// The shortest round trip is that of the last one or two of these: longer than queues stay full, shorter than paths stay as they are.
const PERIOD: Duration = Duration::from_secs(600);
/// One that is longer by less has met no queue.
const LEAST_RANGE: Duration = Duration::from_micros(500);
/// What one sample may move the range by, as a share of it.
const RANGE_STEP: f64 = 1.0 / 8.0;

/// A path that loses fewer is one that loses none.
const NEGLIGIBLE: f64 = 1e-4;

/// Whether a path that loses so many packets is one that loses none.
pub fn is_negligible(loss: f64) -> bool {
    loss < NEGLIGIBLE
}

/// What one packet counts: where 1 % is lost, the last 80 losses. A packet at a long round trip also ages what is known of short ones, and the other way
/// round: otherwise a path that begins to lose packets would seem to lose them where most round trips are.
const LOSSES_WEIGHT: f64 = 1.0 / 8192.0;
/// A queue loses packets if so many times as many are lost where round trips are long.
const LOSSY: f64 = 3.0;
/// And if that is ten times as likely as that all round trips lose the same share, by a likelihood-ratio test at each report: of a path that is young,
/// little is known.
const LEAST_EVIDENCE: f64 = std::f64::consts::LN_10;
/// What is known of the losses at short round trips of any path, before the first packet: a flow that begins fills a queue, and may lose packets of
/// it, after a few packets at short ones.
const PRESUMED: Losses = Losses { sent: 100.0, lost: 1.0 };

/// p: the share of packets that is lost, of late.
#[derive(Clone, Copy, Debug)]
pub struct LossRate {
    value: f64,
    weight: f64,
}

impl LossRate {
    /// One that begins with `value`, and to which one packet more counts `weight`.
    pub fn new(value: f64, weight: f64) -> Self {
        LossRate { value, weight }
    }

    /// Of so many packets more, so many were lost.
    pub fn on_packets(&mut self, sent: u64, lost: u64) {
        if sent > 0 {
            let share = 1.0 - (1.0 - self.weight).powi(sent.min(100_000) as i32);
            self.value += share * ((lost as f64 / sent as f64).min(1.0) - self.value);
        }
    }

    /// It is no higher than this.
    pub fn limit(&mut self, most: f64) {
        self.value = self.value.min(most);
    }

    /// The share.
    pub fn value(&self) -> f64 {
        self.value
    }
}

/// What is lost on a path at short round trips and at long ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathLosses {
    round_trips: RoundTrips,
    at_short: Losses,
    at_long: Losses,
}

impl PathLosses {
    /// A packet was acknowledged after this time. Whether that is long, as it is behind a queue, or where a host was busy.
    pub fn on_round_trip_time(&mut self, now: Time, rtt: Duration) -> bool {
        self.round_trips.on_sample(now, rtt);
        self.round_trips.is_long(rtt)
    }

    /// The shortest round trip of late; [`Duration::MAX`] before the first.
    pub fn shortest_round_trip(&self) -> Duration {
        self.round_trips.shortest()
    }

    /// Of so many packets, so many were lost, while round trips were long or not.
    pub fn on_packets(&mut self, sent: u64, lost: u64, long: bool) {
        self.at_short.age(sent);
        self.at_long.age(sent);
        let losses = if long { &mut self.at_long } else { &mut self.at_short };
        losses.add(sent, lost);
    }

    /// Whether a queue loses packets: far more of them are lost at long round trips than at short ones, and that is no accident. What a path loses
    /// by itself, it loses at both.
    pub fn is_queue_lossy(&self) -> bool {
        let Losses { sent, lost } = self.at_short;
        let (short, long) = (Losses { sent: sent + PRESUMED.sent, lost: lost + PRESUMED.lost }, self.at_long);
        let is_far_more = long.lost * short.sent > LOSSY * short.lost * long.sent;
        is_far_more && evidence_of_difference(short, long) > LEAST_EVIDENCE
    }

    /// The share that the path loses by itself, if it has a queue that loses more: none as long as none is seen, which is not presumed here, as
    /// what is coded in vain then is coded into that queue.
    pub fn loss_without_queue(&self) -> f64 {
        if self.at_short.sent > 0.0 { self.at_short.share() } else { 0.0 }
    }
}

/// How many packets were sent of late, and how many of them were lost.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    sent: f64,
    lost: f64,
}

impl Losses {
    /// So many packets more were sent on the path.
    fn age(&mut self, packets: u64) {
        let stays = (1.0 - LOSSES_WEIGHT).powi(packets.min(100_000) as i32);
        self.sent *= stays;
        self.lost *= stays;
    }

    fn add(&mut self, sent: u64, lost: u64) {
        self.sent += sent as f64;
        self.lost += lost.min(sent) as f64;
    }

    fn share(self) -> f64 {
        self.lost / self.sent
    }
}

/// The range of a path's round trips, of late: the shortest ones are without a queue, the long ones with a full one.
#[derive(Clone, Copy, Debug)]
struct RoundTrips {
    /// The shortest of this period, and of the one before: a path may change.
    shortest: [Duration; 2],
    begun: Time,
    /// How much longer than the shortest those are that nine in ten stay below. The longest itself may be that of a host that stood still.
    range: f64,
}

impl Default for RoundTrips {
    fn default() -> Self {
        RoundTrips { shortest: [Duration::MAX; 2], begun: Time::ZERO, range: 0.0 }
    }
}

impl RoundTrips {
    fn on_sample(&mut self, now: Time, rtt: Duration) {
        if self.begun + PERIOD <= now {
            self.begun = now;
            self.shortest = [rtt, self.shortest[0]];
        }
        self.shortest[0] = self.shortest[0].min(rtt);
        let beyond = (rtt - self.shortest().min(rtt)).as_secs_f64();
        // Up by nine steps for each down: at rest, one in ten is longer.
        let step = self.range.max(LEAST_RANGE.as_secs_f64()) * RANGE_STEP;
        self.range = (self.range + if beyond > self.range { 0.9 * step } else { -0.1 * step }).max(0.0);
    }

    /// The shortest one.
    fn shortest(&self) -> Duration {
        self.shortest[0].min(self.shortest[1])
    }

    /// Whether so long a round trip is one of a queue that is rather full than empty.
    fn is_long(&self, rtt: Duration) -> bool {
        let shortest = self.shortest();
        let half = Duration::from_secs_f64(self.range / 2.0);
        rtt > shortest + half.max(shortest / 4).max(LEAST_RANGE)
    }
}

/// How much less likely it is, as a logarithm, that the same share is lost in both cases than that each has the share that was seen: the
/// likelihood ratio of two binomials (half of the G-test's statistic), for rare losses.
fn evidence_of_difference(one: Losses, other: Losses) -> f64 {
    let share = (one.lost + other.lost) / (one.sent + other.sent);
    let term = |case: Losses| if case.lost > 0.0 { case.lost * (case.share() / share).ln() } else { 0.0 };
    term(one) + term(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_round_trip_is_one_of_the_upper_half_if_there_is_a_queue_at_all() {
        let (ms, minute) = (Duration::from_millis, 60);
        let at = |minutes: u64| Time::from_nanos(minutes * minute * 1_000_000_000);
        let mut of_path = RoundTrips::default();
        of_path.on_sample(at(0), ms(1));
        assert!(!of_path.is_long(Duration::from_micros(1400)), "nothing is known, and it is hardly longer");
        assert!(of_path.is_long(ms(2)));
        for n in 0..200 {
            of_path.on_sample(at(0), ms(1 + n % 5));
        }
        assert_eq!([1, 2, 4, 5].map(|rtt| of_path.is_long(ms(rtt))), [false, false, true, true]);
        // A host that stands still now and then is no queue.
        for n in 0..200 {
            of_path.on_sample(at(0), ms(if n % 20 == 0 { 200 } else { 1 + n % 5 }));
        }
        assert_eq!([1, 2, 4, 5].map(|rtt| of_path.is_long(ms(rtt))), [false, false, true, true]);
        // The path is another one, after a while.
        for n in 0..40 {
            of_path.on_sample(at(n), ms(40 + n % 3));
        }
        assert_eq!(of_path.shortest(), ms(40));
        assert!(!of_path.is_long(ms(42)), "a few per cent are no queue");
    }

    #[test]
    fn a_path_that_begins_to_lose_packets_has_no_queue_that_does() {
        // However many of its round trips are long. By expected values.
        for long_of_20 in [1, 10, 15, 16, 18, 19] {
            for loss in [100, 20] {
                let mut path = PathLosses::default();
                for round in 0..20_000_u64 {
                    let begun = round >= 1000;
                    for (sent, long) in [(20 - long_of_20, false), (long_of_20, true)] {
                        // Of `loss` packets of each kind one is lost.
                        let before = round * sent;
                        let lost = (before + sent) / loss - before / loss;
                        path.on_packets(sent, if begun { lost } else { 0 }, long);
                    }
                    assert!(!path.is_queue_lossy(), "{long_of_20} of 20, 1 in {loss}, after {round}");
                }
                let seen = path.loss_without_queue() * loss as f64;
                assert!((0.8..1.25).contains(&seen), "{seen} of it");
            }
        }
    }

    #[test]
    fn a_queue_that_loses_packets_is_told_from_a_path_that_does() {
        let mut path = PathLosses::default();
        path.on_packets(900, 9, false);
        path.on_packets(100, 3, true);
        assert!(!path.is_queue_lossy(), "that may be chance");
        path.on_packets(100, 9, true);
        assert!(path.is_queue_lossy());
        assert!((path.loss_without_queue() - 0.01).abs() < 1e-4);
        // A path of which nothing is known is presumed to lose one packet in a hundred.
        let mut path = PathLosses::default();
        path.on_packets(20, 1, true);
        assert!(!path.is_queue_lossy());
        path.on_packets(20, 10, true);
        assert!(path.is_queue_lossy());
        assert_eq!(path.loss_without_queue(), 0.0);
    }
}
