//! One direction: what is under way, and what is lost.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use codec::Random;

/// Frames that may be under way: a second of 10 Gb/s in frames of 1,500 bytes.
const MOST_FRAMES: usize = 1 << 20;

/// What became of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    /// All that came.
    pub(crate) entered: u64,
    /// Lost as they were to be.
    pub(crate) lost: u64,
    /// Sent on.
    pub(crate) left: u64,
    /// What the other interface would not take, or there was no room for.
    pub(crate) refused: u64,
    /// By how much they were late, all together.
    pub(crate) late: Duration,
}

pub(crate) struct Direction {
    delay: Duration,
    loss: f64,
    random: Random,
    under_way: VecDeque<(Instant, Vec<u8>)>,
    pub(crate) counters: Counters,
}

impl Direction {
    pub(crate) fn new(delay: Duration, loss: f64, seed: u64) -> Self {
        let (under_way, counters) = Default::default();
        Direction { delay, loss, random: Random::new(seed), under_way, counters }
    }

    /// A frame comes in.
    pub(crate) fn enter(&mut self, now: Instant, frame: Vec<u8>) {
        self.counters.entered += 1;
        // Drawn for each, so that what is lost depends on nothing but its number.
        let drawn = f64::from(self.random.bits()) / (f64::from(u32::MAX) + 1.0);
        if drawn < self.loss {
            self.counters.lost += 1;
        } else if self.under_way.len() >= MOST_FRAMES {
            self.counters.refused += 1;
        } else {
            self.under_way.push_back((now + self.delay, frame));
        }
    }

    /// When the next one is to go out.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.under_way.front().map(|(due, _)| *due)
    }

    /// The next one, if it is time for it.
    pub(crate) fn leave(&mut self, now: Instant) -> Option<Vec<u8>> {
        let due = self.due().filter(|due| *due <= now)?;
        self.counters.late += now - due;
        self.under_way.pop_front().map(|(_, frame)| frame)
    }

    /// Whether the other interface took it.
    pub(crate) fn sent(&mut self, taken: bool) {
        if taken {
            self.counters.left += 1;
        } else {
            self.counters.refused += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_in_order_and_late() {
        let begin = Instant::now();
        let ms = Duration::from_millis;
        let mut way = Direction::new(ms(10), 0.0, 1);
        way.enter(begin, vec![1]);
        way.enter(begin + ms(1), vec![2]);
        assert_eq!(way.due(), Some(begin + ms(10)));
        assert_eq!(way.leave(begin + ms(9)), None);
        assert_eq!(way.leave(begin + ms(10)), Some(vec![1]));
        assert_eq!(way.leave(begin + ms(10)), None);
        assert_eq!(way.leave(begin + ms(12)), Some(vec![2]));
        assert_eq!(way.counters.late, ms(1));
    }

    #[test]
    fn the_share_is_lost_and_the_same_for_the_same_seed() {
        let lost = |seed| {
            let mut way = Direction::new(Duration::ZERO, 0.1, seed);
            let now = Instant::now();
            let kept: Vec<bool> = (0..100_000_u32)
                .map(|_| {
                    way.enter(now, Vec::new());
                    way.leave(now).is_some()
                })
                .collect();
            assert!((9_000..11_000).contains(&way.counters.lost), "{}", way.counters.lost);
            kept
        };
        assert_eq!(lost(7), lost(7));
        assert_ne!(lost(7), lost(8));
    }
}
