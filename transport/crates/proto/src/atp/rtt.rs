//! The round trip, and how long an answer may take (RFC 6298).

use std::time::Duration;

/// Before a round trip is known.
const FIRST: Duration = Duration::from_millis(100);
/// The sender's timeout is the last resort: the receiver asks first.
const LEAST_TIMEOUT: Duration = Duration::from_millis(10);
/// Two packets a second are no load, and whoever is cut off is to learn soon that it is over.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(1);
/// No timeout becomes longer by more doublings: [`LONGEST_TIMEOUT`] is below.
const MOST_BACKOFF: u32 = 12;

/// Smoothed round trip and deviation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    smoothed: Option<(Duration, Duration)>,
    least: Option<Duration>,
    backoff: u32,
}

impl Rtt {
    /// A round trip was measured.
    pub(crate) fn measure(&mut self, sample: Duration) {
        let (mean, deviation) = self.smoothed.map_or((sample, sample / 2), |(mean, deviation)| {
            (mean * 7 / 8 + sample / 8, deviation * 3 / 4 + mean.abs_diff(sample) / 4)
        });
        self.smoothed = Some((mean, deviation));
        self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
    }

    /// Something new has been acknowledged.
    pub(crate) fn on_progress(&mut self) {
        self.backoff = 0;
    }

    /// A timeout has passed.
    pub(crate) fn on_timeout(&mut self) {
        self.backoff = (self.backoff + 1).min(MOST_BACKOFF);
    }

    /// The smoothed round trip; a guess before the first.
    pub(crate) fn get(&self) -> Duration {
        self.smoothed.map_or(FIRST, |(mean, _)| mean)
    }

    /// The smoothed round trip, once one was measured.
    pub(crate) fn measured(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean)
    }

    /// The least round trip that was measured: nothing is known at the peer that happened here later.
    pub(crate) fn least(&self) -> Duration {
        self.least.unwrap_or_default()
    }

    /// How long the sender waits for an acknowledgement. `receiver`: how long the other end may wait before it asks.
    pub(crate) fn timeout(&self, receiver: Duration) -> Duration {
        let timeout = self.smoothed.map_or(FIRST, |(mean, deviation)| mean + 4 * deviation);
        (timeout.max(LEAST_TIMEOUT) + receiver).saturating_mul(1 << self.backoff).min(LONGEST_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_what_is_measured() {
        let ms = Duration::from_millis;
        let mut rtt = Rtt::default();
        assert_eq!((rtt.get(), rtt.measured(), rtt.timeout(ms(2))), (FIRST, None, FIRST + ms(2)));
        rtt.measure(ms(8));
        assert_eq!((rtt.get(), rtt.timeout(ms(0))), (ms(8), ms(24)), "RFC 6298, (2.2)");
        rtt.measure(ms(16));
        assert_eq!((rtt.get(), rtt.timeout(ms(0))), (ms(9), ms(9 + 4 * 5)), "RFC 6298, (2.3)");
        for _ in 0..200 {
            rtt.measure(ms(1));
        }
        assert_eq!(rtt.timeout(ms(2)), LEAST_TIMEOUT + ms(2));
    }

    #[test]
    fn timeouts_in_a_row_become_longer_and_stay_bounded() {
        let mut rtt = Rtt::default();
        let first = rtt.timeout(Duration::ZERO);
        rtt.on_timeout();
        assert_eq!(rtt.timeout(Duration::ZERO), 2 * first);
        for _ in 0..100 {
            rtt.on_timeout();
        }
        assert_eq!(rtt.timeout(Duration::ZERO), LONGEST_TIMEOUT);
        rtt.on_progress();
        assert_eq!(rtt.timeout(Duration::ZERO), first);
    }
}
