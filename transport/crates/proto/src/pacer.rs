//! How much a burst has, and when the next one may go.

use std::time::Duration;

use crate::Time;

/// Ethernet, IPv4 and UDP around a datagram: what it takes in a switch's queue beyond its own bytes.
pub(crate) const FRAME_BYTES: usize = 42;

/// What one call of the system can send, however it is segmented: the longest UDP payload over IPv4.
const MOST_BURST_BYTES: usize = 65_507;

/// Datagrams of `segment_bytes` that one burst has which may last so long at `rate`, in bytes/s: one at least, `most` at
/// most.
pub(crate) fn burst(rate: f64, lasts: Duration, segment_bytes: usize, most: usize) -> usize {
    let most = most.min(MOST_BURST_BYTES / segment_bytes);
    ((rate * lasts.as_secs_f64() / segment_bytes as f64) as usize).clamp(1, most.max(1))
}

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
