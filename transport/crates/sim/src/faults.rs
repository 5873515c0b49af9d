//! What a link does to datagrams besides carrying them.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::{Datagram, Rng, Time};

/// Says whether to lose a datagram, told its number on the link, from 0.
pub type LossScript = Box<dyn FnMut(u64, &Datagram) -> bool>;

/// Which datagrams a link loses.
#[derive(Default)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with this probability, independently.
    Independent(f64),
    /// In bursts (Gilbert and Elliott): a good and a bad state, each with its loss, and the probabilities to
    /// change it with every datagram. Mean burst length: 1 / `recover`.
    Bursts {
        /// From good to bad.
        fail: f64,
        /// From bad to good.
        recover: f64,
        /// Loss in the good state.
        good: f64,
        /// Loss in the bad state.
        bad: f64,
    },
    /// As a function says.
    Script(LossScript),
}

impl Loss {
    /// Loses those whose number is in `numbers`.
    pub fn of_numbers(numbers: impl IntoIterator<Item = u64>) -> Self {
        let numbers: std::collections::BTreeSet<u64> = numbers.into_iter().collect();
        Loss::Script(Box::new(move |number, _| numbers.contains(&number)))
    }

    /// Loses all.
    pub fn all() -> Self {
        Loss::Independent(1.0)
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::None => write!(f, "None"),
            Loss::Independent(p) => write!(f, "Independent({p})"),
            Loss::Bursts { fail, recover, good, bad } => {
                write!(f, "Bursts({fail}, {recover}, {good}, {bad})")
            }
            Loss::Script(_) => write!(f, "Script"),
        }
    }
}

/// A time in which a link takes longer. Datagrams stay in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spike {
    /// When.
    pub during: Range<Time>,
    /// By how much.
    pub delay: Duration,
}

/// The faults of a link. All off by default.
#[derive(Debug, Default)]
pub struct Faults {
    /// Datagrams lost before the queue.
    pub loss: Loss,
    /// Probability that a datagram is sent twice.
    pub duplicate: f64,
    /// Probability that one byte of the payload changes.
    pub corrupt: f64,
    /// Clears the ECN field of every datagram (RFC 3168), as some routers do.
    pub clear_ecn: bool,
    /// Probability that a datagram takes a time up to `reorder_by` longer, and others overtake it.
    pub reorder: f64,
    /// See `reorder`.
    pub reorder_by: Duration,
    /// Times in which the link takes longer.
    pub spikes: Vec<Spike>,
    /// Times in which the link loses everything.
    pub down: Vec<Range<Time>>,
}

/// The state in which faults are drawn.
#[derive(Debug)]
pub(crate) struct FaultState {
    rng: Rng,
    number: u64,
    bad: bool,
}

impl FaultState {
    pub(crate) fn new(rng: Rng) -> Self {
        FaultState { rng, number: 0, bad: false }
    }

    /// Whether the link loses this datagram.
    pub(crate) fn loses(&mut self, faults: &mut Faults, now: Time, datagram: &Datagram) -> bool {
        let number = self.number;
        self.number += 1;
        let lost = match &mut faults.loss {
            Loss::None => false,
            Loss::Independent(p) => self.rng.chance(*p),
            Loss::Bursts { fail, recover, good, bad } => {
                let change = if self.bad { *recover } else { *fail };
                self.bad ^= self.rng.chance(change);
                self.rng.chance(if self.bad { *bad } else { *good })
            }
            Loss::Script(lost) => lost(number, datagram),
        };
        lost || faults.down.iter().any(|period| period.contains(&now))
    }

    pub(crate) fn duplicates(&mut self, faults: &Faults) -> bool {
        self.rng.chance(faults.duplicate)
    }

    /// Perhaps changes a byte; true if so.
    pub(crate) fn corrupts(&mut self, faults: &Faults, datagram: &mut Datagram) -> bool {
        if datagram.payload.is_empty() || !self.rng.chance(faults.corrupt) {
            return false;
        }
        let place = self.rng.below(datagram.payload.len() as u64) as usize;
        datagram.payload[place] ^= 1 + self.rng.below(255) as u8;
        true
    }

    /// What a datagram takes longer, and whether others may overtake it.
    pub(crate) fn delays(&mut self, faults: &Faults, now: Time) -> (Duration, bool) {
        if self.rng.chance(faults.reorder) {
            let by = u64::try_from(faults.reorder_by.as_nanos()).unwrap_or(u64::MAX);
            return (Duration::from_nanos(self.rng.below(by) + 1), true);
        }
        let delay = faults.spikes.iter().filter(|s| s.during.contains(&now)).map(|s| s.delay).sum();
        (delay, false)
    }
}
