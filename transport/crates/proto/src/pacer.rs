//! When the next burst may go.

use std::time::Duration;

use crate::Time;

/// Spaces bursts by a rate that may change between them.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    /// When the last burst should have gone, and its bytes. The next one may go when they are paid for, at the rate of
    /// that moment: a rate that has risen since does not wait for what a lower one owed.
    burst: (Time, usize),
}

impl Pacer {
    pub(crate) fn new(now: Time) -> Self {
        Pacer { burst: (now, 0) }
    }

    /// When the next burst may go at `rate`, in bytes/s.
    pub(crate) fn release(&self, rate: f64) -> Time {
        let (at, bytes) = self.burst;
        // As far away as a rate of nothing puts it.
        at + Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(Duration::MAX)
    }

    /// A burst goes `now`. If that is late, up to `make_up` is made up for (RFC 5348, section 4.6).
    pub(crate) fn sent(&mut self, now: Time, rate: f64, bytes: usize, make_up: Duration) {
        self.burst = (self.release(rate).max(now - make_up), bytes);
    }
}
