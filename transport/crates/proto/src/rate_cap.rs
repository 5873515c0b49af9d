//! A cap of a rate, whatever else says how fast.

use std::time::Duration;

use crate::Time;
use crate::pacer::FRAME_BYTES;

/// What was not sent in time is made up for as far as this: a driver wakes late.
const MADE_UP: Duration = Duration::from_millis(4);
/// What one burst may last at the cap.
const BURST: Duration = Duration::from_millis(2);

/// Keeps datagrams below so many bit/s of whole Ethernet frames, in the mean: a token bucket.
#[derive(Clone, Debug)]
pub struct RateCap {
    bytes_per_s: f64,
    /// When what was taken will have been paid for.
    free_at: Time,
}

impl RateCap {
    /// A cap of `bps` bit/s, above 0.
    pub fn new(now: Time, bps: f64) -> Self {
        RateCap { bytes_per_s: bps / 8.0, free_at: now }
    }

    /// When the next burst may go.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Bytes of frames that one burst may have at most.
    pub fn burst_bytes(&self) -> usize {
        (self.bytes_per_s * BURST.as_secs_f64()) as usize
    }

    /// Datagrams of a burst, each as long as a frame may be: one at least, `most` at most.
    pub fn burst_datagrams(&self, most: usize) -> usize {
        const FULL_FRAME_BYTES: usize = 1514;
        (self.burst_bytes() / FULL_FRAME_BYTES).clamp(1, most.max(1))
    }

    /// Bytes of frames go now.
    pub fn take(&mut self, now: Time, frame_bytes: usize) {
        let lasts = Duration::from_secs_f64(frame_bytes as f64 / self.bytes_per_s);
        self.free_at = self.free_at.max(now - MADE_UP) + lasts;
    }

    /// A burst of `bytes` goes now, in datagrams of `segment_bytes`.
    pub fn take_datagrams(&mut self, now: Time, bytes: usize, segment_bytes: usize) {
        self.take(now, bytes + bytes.div_ceil(segment_bytes.max(1)) * FRAME_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of frames that go within `seconds` where a driver wakes after each `pause`.
    fn sent(bps: f64, seconds: u64, pause: Duration) -> usize {
        let (mut cap, mut now, mut bytes) = (RateCap::new(Time::ZERO, bps), Time::ZERO, 0);
        while now < Time::ZERO + Duration::from_secs(seconds) {
            while cap.free_at() <= now {
                let datagrams = cap.burst_datagrams(45);
                cap.take_datagrams(now, datagrams * 1472, 1472);
                bytes += datagrams * (1472 + FRAME_BYTES);
            }
            now = now + pause;
        }
        bytes
    }

    #[test]
    fn the_mean_is_the_cap_however_late_the_driver_wakes() {
        for bps in [1e5, 1e6, 1e8, 1e10] {
            for pause in [10, 1_000, 3_000] {
                let bits = 8.0 * sent(bps, 4, Duration::from_micros(pause)) as f64;
                let burst = 8.0 * 45.0 * 1514.0;
                assert!(bits <= 4.02 * bps + burst, "{bps}, {pause}: {bits}");
                assert!(bits >= 3.9 * bps - burst || bps > 1e9, "{bps}, {pause}: {bits}");
            }
        }
    }

    #[test]
    fn a_pause_earns_little() {
        let mut cap = RateCap::new(Time::ZERO, 8e6);
        let late = Time::ZERO + Duration::from_secs(10);
        cap.take(late, 1_000);
        assert_eq!(cap.free_at(), late - MADE_UP + Duration::from_millis(1));
    }
}
