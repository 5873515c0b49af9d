//! How long a server takes to answer credit, and how long to wait for that.

use std::time::Duration;

/// Credit that brings nothing is given up after this at the earliest.
pub(super) const LEAST_TURNAROUND: Duration = Duration::from_millis(10);
/// And after this at the latest.
const MOST_TURNAROUND: Duration = Duration::from_secs(1);

/// How long it takes from a credit to its first symbol (as RFC 6298 keeps a round trip).
#[derive(Debug, Default)]
pub(super) struct Turnaround {
    mean: Option<Duration>,
    deviation: Duration,
    backoffs: u32,
}

impl Turnaround {
    pub(super) fn sample(&mut self, sample: Duration) {
        match self.mean {
            None => (self.mean, self.deviation) = (Some(sample), sample / 2),
            Some(mean) => {
                self.deviation = (3 * self.deviation + mean.abs_diff(sample)) / 4;
                self.mean = Some((7 * mean + sample) / 8);
            }
        }
    }

    pub(super) fn is_backed_off(&self) -> bool {
        self.backoffs > 0
    }

    pub(super) fn answered(&mut self) {
        self.backoffs = 0;
    }

    pub(super) fn back_off(&mut self) {
        self.backoffs += 1;
    }

    pub(super) fn patience(&self) -> Duration {
        let patience = self.mean.unwrap_or(MOST_TURNAROUND) + 4 * self.deviation;
        let patience = patience.clamp(LEAST_TURNAROUND, MOST_TURNAROUND);
        (patience * 2_u32.pow(self.backoffs.min(10))).min(MOST_TURNAROUND)
    }
}
