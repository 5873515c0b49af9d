//! How much a burst has, and when the next one may go.

use std::time::Duration;

use crate::Time;

/// Ethernet, IPv4 and UDP around a datagram: what it takes in a switch's queue beyond its own bytes.
pub(crate) const FRAME_BYTES: usize = 42;

/// What one call of the system can send, however it is segmented: the longest UDP payload over IPv4.
const MOST_BURST_BYTES: usize = 65_507;

/// How much goes at once. A wake of a process and a call of the system cost as much as ten datagrams or so: the more of them
/// have these in common, the less each costs, and the more of a buffer on the way they take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// What a burst may last at the present rate, however many bytes that are: a shallow buffer of a fast link takes it whole.
    pub lasts: Duration,
    /// What it may last as long as it has no more than `small_bytes`. Bursts of flows that share a link last as long together,
    /// if they meet, as one of a flow that has the link alone.
    pub small_lasts: Duration,
    /// What any buffer takes whole.
    pub small_bytes: usize,
    /// Its datagrams at most.
    pub datagrams: usize,
}

impl Burst {
    /// Datagrams of `segment_bytes` that one burst has at `rate`, in bytes/s: one at least, `most` at most.
    pub(crate) fn at(&self, rate: f64, segment_bytes: usize, most: usize) -> usize {
        let most = most.min(self.datagrams).min(MOST_BURST_BYTES / segment_bytes);
        let small = (rate * self.small_lasts.as_secs_f64()).min(self.small_bytes as f64);
        let bytes = small.max(rate * self.lasts.as_secs_f64());
        ((bytes / segment_bytes as f64) as usize).clamp(1, most.max(1))
    }
}

/// How lateness is made up for (RFC 5348, section 4.6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MakeUp {
    /// So much of it at once.
    pub at_once: Duration,
    /// So much of it in all, if something has waited for so long.
    pub most: Duration,
    /// What is not made up for at once, at so many times the rate.
    pub pace: f64,
}

/// Spaces bursts by a rate that may change between them: two token buckets.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    make_up: MakeUp,
    /// When the last burst should have gone. The next one may go when its bytes are paid for, at the rate of that moment: a
    /// rate that has risen since does not wait for what a lower one owed.
    at: Time,
    /// The same for one who makes up for what is late.
    hurried: Time,
    bytes: usize,
    /// Whether something has been waiting to be sent since.
    waiting: bool,
}

impl Pacer {
    pub(crate) fn new(now: Time, make_up: MakeUp) -> Self {
        Pacer { make_up, at: now, hurried: now, bytes: 0, waiting: false }
    }

    /// When the next burst may go at `rate`, in bytes/s.
    pub(crate) fn release(&self, rate: f64) -> Time {
        let (at, hurried) = self.due(rate);
        at.max(hurried)
    }

    /// A burst goes `now`; `waiting` tells whether more is there to be sent.
    pub(crate) fn sent(&mut self, now: Time, rate: f64, bytes: usize, waiting: bool) {
        let (at, hurried) = self.due(rate);
        let MakeUp { at_once, most, .. } = self.make_up;
        self.at = at.max(now - if self.waiting { most } else { at_once });
        self.hurried = hurried.max(now - at_once);
        self.bytes = bytes;
        self.waiting = waiting;
    }

    fn due(&self, rate: f64) -> (Time, Time) {
        (self.at + self.takes(rate), self.hurried + self.takes(self.make_up.pace * rate))
    }

    /// As long as a rate of nothing makes it.
    fn takes(&self, rate: f64) -> Duration {
        Duration::try_from_secs_f64(self.bytes as f64 / rate).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_has_eight_datagrams_from_100_mbps_on_and_no_more_than_a_shallow_buffer_holds() {
        let burst = crate::dfcp::SenderConfig::default().burst;
        let at_mbps = |mbps: f64| burst.at(mbps * 1e6 / 8.0, 1450, 64);
        assert_eq!([0.0, 1.0, 10.0, 25.0, 50.0].map(at_mbps), [1, 1, 1, 2, 4]);
        assert_eq!([100.0, 200.0, 500.0, 1_000.0].map(at_mbps), [8; 4]);
        assert_eq!(
            [2_500.0, 10_000.0, 100_000.0].map(at_mbps),
            [21, 45, 45],
            "100 us, and what one call sends"
        );
        assert_eq!(burst.at(1e9, 1450, 16), 16, "as the system allows");
    }

    const RATE: f64 = 1e6;
    const BYTES: usize = 1000;

    fn at_ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// When bursts of a millisecond go of which the one at 10 ms is 7 ms late.
    fn bursts(make_up: MakeUp, waiting: bool) -> Vec<f64> {
        let mut pacer = Pacer::new(at_ms(0), make_up);
        let (mut now, mut went) = (at_ms(0), Vec::new());
        for number in 0..60 {
            let late = Duration::from_millis(if number == 10 { 7 } else { 0 });
            now = now.max(pacer.release(RATE) + late);
            pacer.sent(now, RATE, BYTES, waiting || number != 9);
            went.push(now.since(at_ms(0)).as_secs_f64() * 1e3);
        }
        went
    }

    const SOON: MakeUp =
        MakeUp { at_once: Duration::from_millis(2), most: Duration::from_millis(10), pace: 1.25 };

    #[test]
    fn some_lateness_is_made_up_for_at_once_and_the_rest_little_by_little() {
        let went = bursts(SOON, true);
        assert_eq!(went[9..11], [9.0, 17.0]);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(went[11..13].iter().all(|at| close(*at, 17.0)), "{went:?}");
        assert!(close(went[15] - went[14], 0.8) && close(went[59], 59.0), "{went:?}");
    }

    #[test]
    fn no_more_than_is_allowed_is_made_up_for() {
        let make_up = MakeUp { most: SOON.at_once, ..SOON };
        assert_eq!(bursts(make_up, true)[59], 64.0);
    }

    #[test]
    fn who_had_nothing_to_send_makes_up_for_little() {
        assert_eq!(bursts(SOON, false)[59], 64.0);
    }
}
