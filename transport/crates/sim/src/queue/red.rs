//! Random early detection (Floyd and Jacobson, IEEE/ACM Transactions on Networking 1 (4), 1993): the average queue, and
//! how often it makes a datagram be dropped or marked.

use crate::{Rng, Time};

/// The parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Below this average nothing is dropped or marked (min_th), bytes.
    pub min_bytes: u64,
    /// At this average the probability is `max_p`, and all beyond is dropped unless it is `gentle` (max_th), bytes.
    pub max_bytes: u64,
    /// The probability at `max_bytes`, in (0, 1].
    pub max_p: f64,
    /// The weight of a queue length in the average (w_q), in (0, 1].
    pub weight: f64,
    /// The probability rises from `max_p` to 1 between once and twice `max_bytes`, instead of at `max_bytes` (Floyd,
    /// "Recommendation on using the gentle variant of RED", 2000).
    pub gentle: bool,
    /// ECN-capable datagrams are marked. Where all are dropped, they are too (RFC 3168 section 7).
    pub ecn: bool,
    /// A typical datagram: while the queue is empty, the average falls as if so long ones went by.
    pub packet_bytes: u32,
}

impl Default for Red {
    /// Five and fifteen datagrams of 1,500 bytes, gentle, with the weight and the probability that Floyd recommends.
    fn default() -> Self {
        Red {
            min_bytes: 7_500,
            max_bytes: 22_500,
            max_p: 0.1,
            weight: 0.002,
            gentle: true,
            ecn: false,
            packet_bytes: 1500,
        }
    }
}

/// What the average queue asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Demand {
    Nothing,
    /// A datagram in so many (p_b).
    Some(f64),
    All,
}

/// RED's state.
#[derive(Debug)]
pub(super) struct Average {
    red: Red,
    bytes: f64,
    empty_since: Time,
    /// Datagrams since the last that was dropped or marked.
    passed: u32,
}

impl Average {
    pub(super) fn new(red: Red) -> Self {
        let fraction = |x: f64| x > 0.0 && x <= 1.0;
        let ordered = red.min_bytes < red.max_bytes;
        assert!(ordered && fraction(red.max_p) && fraction(red.weight), "not parameters of RED: {red:?}");
        Average { red, bytes: 0.0, empty_since: Time::ZERO, passed: 0 }
    }

    /// A datagram comes to a queue of `queued_bytes`.
    pub(super) fn arrival(&mut self, now: Time, queued_bytes: u64, byte_s: f64) {
        let weight = self.red.weight;
        if queued_bytes > 0 {
            self.bytes += weight * (queued_bytes as f64 - self.bytes);
            return;
        }
        let packet_s = byte_s * f64::from(self.red.packet_bytes);
        let missed = if packet_s > 0.0 { now.since(self.empty_since).as_secs_f64() / packet_s } else { 1.0 };
        self.bytes *= (1.0 - weight).powf(missed);
    }

    /// The queue has become empty.
    pub(super) fn emptied(&mut self, now: Time) {
        self.empty_since = now;
    }

    /// Whether the datagram that has come is to be dropped or marked: of those that come while the average stays the same
    /// the next one is among the next 1 / p_b, each of these as likely (method 2 of the paper's section 7; its Fig. 2
    /// counts the datagram itself after a mark and not at first, the text never does).
    pub(super) fn notifies(&mut self, rng: &mut Rng) -> bool {
        let notified = match self.demand() {
            Demand::Nothing => {
                self.passed = 0;
                return false;
            }
            Demand::Some(p) => rng.chance(p / (1.0 - (f64::from(self.passed) * p).min(1.0 - p))),
            Demand::All => true,
        };
        self.passed = if notified { 0 } else { self.passed + 1 };
        notified
    }

    /// Whether a mark says what is to be said.
    pub(super) fn may_mark(&self) -> bool {
        self.red.ecn && self.demand() != Demand::All
    }

    fn demand(&self) -> Demand {
        let Red { max_p, gentle, .. } = self.red;
        let (min, max) = (self.red.min_bytes as f64, self.red.max_bytes as f64);
        if self.bytes < min {
            Demand::Nothing
        } else if self.bytes < max {
            Demand::Some(max_p * (self.bytes - min) / (max - min))
        } else if gentle && self.bytes < 2.0 * max {
            Demand::Some(max_p + (1.0 - max_p) * (self.bytes - max) / max)
        } else {
            Demand::All
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of a byte at 100 Mb/s.
    const BYTE: f64 = 80e-9;

    /// RED whose average is this queue for ever.
    fn at(queued_bytes: u64, red: Red) -> Average {
        let mut average = Average::new(Red { weight: 1.0, ..red });
        average.arrival(Time::ZERO, queued_bytes, BYTE);
        average
    }

    /// How many datagrams come from one that is notified to the next.
    fn gaps(average: &mut Average, count: usize) -> Vec<u32> {
        let mut rng = Rng::new(5);
        let mut gap =
            |average: &mut Average| 1 + (0..).take_while(|_| !average.notifies(&mut rng)).count() as u32;
        (0..count).map(|_| gap(average)).collect()
    }

    #[test]
    fn the_probability_rises_with_the_average_as_it_is_defined() {
        let red = Red { min_bytes: 1000, max_bytes: 3000, max_p: 0.1, gentle: false, ..Red::default() };
        let gentle = Red { gentle: true, ..red };
        for (queued, plain, gently) in [
            (999, Demand::Nothing, Demand::Nothing),
            (1000, Demand::Some(0.0), Demand::Some(0.0)),
            (2000, Demand::Some(0.05), Demand::Some(0.05)),
            (3000, Demand::All, Demand::Some(0.1)),
            (4500, Demand::All, Demand::Some(0.55)),
            (6000, Demand::All, Demand::All),
        ] {
            assert_eq!(at(queued, red).demand(), plain, "{queued}");
            assert_eq!(at(queued, gentle).demand(), gently, "{queued}");
        }
    }

    #[test]
    fn the_gaps_between_marks_are_uniform_up_to_one_in_p() {
        // p_b = 0.05: the gap is each of 1 to 20 as often, 10.5 in the mean, and never more.
        let red = Red { min_bytes: 1000, max_bytes: 3000, max_p: 0.1, ..Red::default() };
        let gaps = gaps(&mut at(2000, red), 40_000);
        let mut counts = [0_u32; 20];
        gaps.iter().for_each(|gap| counts[*gap as usize - 1] += 1);
        assert!(counts.iter().all(|n| (1780..2220).contains(n)), "{counts:?}");
    }

    #[test]
    fn where_a_mark_does_not_do_everything_is_dropped() {
        let red = Red { gentle: false, ecn: true, ..Red::default() };
        let mut average = at(red.max_bytes, red);
        assert_eq!(gaps(&mut average, 100), [1; 100]);
        assert!(!average.may_mark());
        assert!(at(red.max_bytes - 1, red).may_mark());
        assert!(!at(red.max_bytes - 1, Red { ecn: false, ..red }).may_mark());
    }

    #[test]
    fn the_average_follows_the_queue_with_its_weight_and_falls_while_there_is_none() {
        let red = Red { weight: 0.1, packet_bytes: 1000, ..Red::default() };
        let mut average = Average::new(red);
        for n in 1..50 {
            average.arrival(Time::ZERO, 10_000, BYTE);
            let expected = 10_000.0 * (1.0 - 0.9_f64.powi(n));
            assert!((average.bytes - expected).abs() < 1e-6, "{n}: {}", average.bytes);
        }
        let before = average.bytes;
        // Room for 7 datagrams of 1,000 bytes at 80 ns a byte.
        average.emptied(Time::from_nanos(1_000));
        average.arrival(Time::from_nanos(1_000 + 7 * 80_000), 0, BYTE);
        assert!((average.bytes - before * 0.9_f64.powi(7)).abs() < 1e-6);
    }

    #[test]
    #[should_panic(expected = "not parameters of RED")]
    fn thresholds_in_the_wrong_order_are_refused() {
        let _ = Average::new(Red { min_bytes: 5, max_bytes: 5, ..Red::default() });
    }
}
