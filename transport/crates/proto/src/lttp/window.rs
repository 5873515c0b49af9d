//! How much a client lets be under way to it, over all its servers.
//!
//! Twice what the path delivers in its round trip when nothing waits, so that the window opens by itself while
//! the delivery rate grows with it and stays where the bottleneck is full (Cardwell et al., BBR, 2016, without
//! its probing). Losses say that a buffer on the way holds less than that: then it is less, and comes back
//! slowly. Not below a floor that a shallow buffer holds: it covers the stalls of hosts. Where the path is so short that hosts
//! take longer, it covers what they take: it grows with the delivery rate until that is the path's, or the processors'.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;

/// From a symbol's arrival to that of the symbol whose credit it has made free, beyond the round trip: both hosts wake up, and
/// handle what has come meanwhile. As much waits in a buffer at most where the path is what holds data up.
const HOSTS: Duration = Duration::from_micros(500);
/// Delivery rates older than this are forgotten.
const MEMORY: Duration = Duration::from_secs(2);
/// Rates are not measured over less, and losses within it are one.
const LEAST_EPOCH: Duration = Duration::from_millis(1);
/// What is left of the window after a loss.
const AFTER_LOSS: f64 = 0.7;
/// And by what share of itself it grows again in an epoch without any.
const RECOVERY: f64 = 1.0 / 64.0;

/// The window in bytes of datagrams.
#[derive(Debug)]
pub(super) struct Window {
    floor_bytes: usize,
    ceiling_bytes: usize,
    /// What a buffer on the way has been found to hold.
    limit_bytes: f64,
    rtt: Option<Duration>,
    epoch_begin: Time,
    epoch_bytes: usize,
    epoch_lossy: bool,
    /// Delivery rates in bytes/s, falling; the first is the greatest within the memory.
    rates: VecDeque<(Time, f64)>,
}

impl Window {
    pub(super) fn new(floor_bytes: usize, ceiling_bytes: usize) -> Self {
        Window {
            floor_bytes,
            ceiling_bytes: ceiling_bytes.max(floor_bytes),
            limit_bytes: f64::INFINITY,
            rtt: None,
            epoch_begin: Time::ZERO,
            epoch_bytes: 0,
            epoch_lossy: false,
            rates: VecDeque::new(),
        }
    }

    /// A round trip without waiting.
    pub(super) fn set_rtt(&mut self, rtt: Duration) {
        self.rtt = Some(rtt);
    }

    /// Bytes have come; `lossy`: others before them have not.
    pub(super) fn on_arrival(&mut self, now: Time, bytes: usize, lossy: bool) {
        self.epoch_bytes += bytes;
        if lossy && !self.epoch_lossy {
            self.limit_bytes = (self.bytes() as f64 * AFTER_LOSS).max(self.floor_bytes as f64);
        }
        self.epoch_lossy |= lossy;
        let elapsed = now.since(self.epoch_begin);
        let epoch = self.rtt.unwrap_or(LEAST_EPOCH).max(LEAST_EPOCH);
        if elapsed < epoch {
            return;
        }
        // An epoch that began before a pause tells nothing of the path.
        if elapsed < 4 * epoch {
            let rate = self.epoch_bytes as f64 / elapsed.as_secs_f64();
            while self.rates.back().is_some_and(|(_, r)| *r <= rate) {
                self.rates.pop_back();
            }
            self.rates.push_back((now, rate));
        }
        while self.rates.len() > 1 && self.rates.front().is_some_and(|(at, _)| now.since(*at) > MEMORY) {
            self.rates.pop_front();
        }
        if !self.epoch_lossy {
            self.limit_bytes *= 1.0 + RECOVERY;
        }
        self.epoch_begin = now;
        self.epoch_bytes = 0;
        self.epoch_lossy = false;
    }

    /// The greatest delivery rate within the memory, bytes/s.
    fn rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |(_, rate)| *rate)
    }

    /// How long so many bytes take to arrive, if that is known yet.
    pub(super) fn drain(&self, bytes: usize) -> Option<Duration> {
        if bytes == 0 {
            return Some(Duration::ZERO);
        }
        Duration::try_from_secs_f64(bytes as f64 / self.rate()).ok()
    }

    pub(super) fn bytes(&self) -> usize {
        let rtt = self.rtt.unwrap_or_default();
        let covered = rtt + rtt.max(HOSTS);
        let wanted = (self.rate() * covered.as_secs_f64()).min(self.limit_bytes);
        (wanted as usize).clamp(self.floor_bytes, self.ceiling_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Delivers what the window allows, at most `link` bytes/s, in round trips of `rtt`.
    fn drive(window: &mut Window, link: f64, rtt: Duration, rounds: u32) {
        let mut now = window.epoch_begin;
        window.set_rtt(rtt);
        for _ in 0..rounds {
            let most = (link * rtt.as_secs_f64()) as usize;
            for _ in 0..10 {
                now = now + rtt / 10;
                window.on_arrival(now, window.bytes().min(most) / 10, false);
            }
        }
    }

    #[test]
    fn it_opens_to_twice_the_product_and_no_further() {
        let mut window = Window::new(32_000, 100 << 20);
        assert_eq!(window.bytes(), 32_000);
        drive(&mut window, 1.25e9, 2 * MS, 30);
        let product = 1.25e9 * 0.002;
        assert!((1.8 * product..2.3 * product).contains(&(window.bytes() as f64)), "{}", window.bytes());
    }

    #[test]
    fn it_keeps_floor_and_ceiling() {
        let mut window = Window::new(32_000, 1 << 20);
        drive(&mut window, 1.25e6, MS, 50);
        assert_eq!(window.bytes(), 32_000);
        drive(&mut window, 1.25e9, 10 * MS, 50);
        assert_eq!(window.bytes(), 1 << 20);
    }

    #[test]
    fn it_opens_to_what_hosts_take_on_the_shortest_path() {
        let mut window = Window::new(40_000, 100 << 20);
        let (rtt, turnaround) = (Duration::from_micros(40), Duration::from_micros(140));
        window.set_rtt(rtt);
        let (mut now, most) = (window.epoch_begin, (1e9 * turnaround.as_secs_f64()) as usize);
        for _ in 0..1_000 {
            now = now + turnaround;
            window.on_arrival(now, window.bytes().min(most), false);
        }
        let covered = 1e9 * (rtt + HOSTS).as_secs_f64();
        assert!((0.95 * covered..1.05 * covered).contains(&(window.bytes() as f64)), "{}", window.bytes());
    }

    #[test]
    fn it_opens_no_further_than_a_shallow_buffer_where_a_rack_is_what_holds_data_up() {
        let mut window = Window::new(40_000, 100 << 20);
        drive(&mut window, 1.25e7, MS / 10, 100);
        assert_eq!(window.bytes(), 40_000, "100 Mb/s");
        drive(&mut window, 1.25e8, MS / 10, 1_000);
        assert!((62_500..80_000).contains(&window.bytes()), "1 Gb/s: {}", window.bytes());
    }

    #[test]
    fn losses_close_it_to_what_the_buffer_holds_and_it_opens_again() {
        let mut window = Window::new(10_000, 100 << 20);
        drive(&mut window, 1.25e8, 2 * MS, 30);
        let before = window.bytes();
        let mut now = window.epoch_begin;
        for _ in 0..99 {
            now = now + MS / 50;
            window.on_arrival(now, 2_500, true);
        }
        let after = window.bytes();
        assert!(after < before * 3 / 4, "{before}, {after}: lossy arrivals of an epoch are one loss");
        assert!(after > before * 3 / 5, "{before}, {after}");
        drive(&mut window, 1.25e8, 2 * MS, 200);
        assert!(window.bytes() > before * 9 / 10, "{before}, {}", window.bytes());
    }

    #[test]
    fn a_pause_is_no_low_rate() {
        let mut window = Window::new(1_000, 100 << 20);
        drive(&mut window, 1.25e8, 2 * MS, 30);
        let before = window.bytes();
        window.on_arrival(Time::from_nanos(1_000_000_000), 1_000, false);
        assert_eq!(window.bytes(), before);
    }
}
