//! How many coded packets are sent, by which rule.

use super::losses;
use super::redundancy::{Policy, Scheduler};

/// How many coded packets are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strategy {
    /// None.
    Off,
    /// As many as pay: TCP-ACC.
    Complementary(Policy),
    /// One for each window: the coding of Corrective (CCR in the paper's comparison).
    Corrective,
    /// The last packet of each window, so many times more (GIP, Zhang et al., ICNP 2013: three times at most).
    Important(u32),
}

impl Strategy {
    /// Whether the receiver has reason to keep back what follows on a lost packet.
    pub fn repairs(self) -> bool {
        matches!(self, Strategy::Complementary(_) | Strategy::Corrective)
    }

    /// What chooses for all flows of a path.
    pub fn scheduler(self) -> Scheduler {
        Scheduler::new(match self {
            Strategy::Complementary(policy) => policy,
            Strategy::Off | Strategy::Corrective | Strategy::Important(_) => Policy::default(),
        })
    }

    /// Whether windows are followed by anything, given the loss rate.
    pub(super) fn follows(self, loss: f64) -> bool {
        match self {
            Strategy::Off => false,
            Strategy::Complementary(_) => !losses::is_negligible(loss),
            Strategy::Corrective | Strategy::Important(_) => true,
        }
    }
}
