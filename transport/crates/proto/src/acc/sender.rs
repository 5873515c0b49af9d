//! What is sent (section III-B).

use std::collections::VecDeque;
use std::time::Duration;

use codec::gf256::Kernel;
use codec::rlnc::{self, MAX_PACKETS};

use super::Feedback;
use super::redundancy::{Policy, Scheduler};
use crate::Time;

/// Packets that are kept until they are acknowledged; of more, the oldest are never coded again.
const MOST_KEPT: usize = 1024;
/// A window has ended when TCP has sent nothing for so long, as it waits for acknowledgements.
const PAUSE: Duration = Duration::from_micros(100);
/// What one packet more counts in the loss rate.
const WEIGHT: f64 = 1.0 / 64.0;

/// How many coded packets are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strategy {
    /// None.
    Off,
    /// As many as pay: TCP-ACC.
    Complementary(Policy),
    /// One for each window: the coding of Corrective (CCR in the paper's comparison).
    Corrective,
}

/// A coded packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coded {
    /// The number of the first packet that it is made of.
    pub first: u64,
    /// How many they are (n).
    pub count: usize,
    /// What gives its coefficients.
    pub seed: u8,
    /// The sum of them.
    pub bytes: Vec<u8>,
}

/// The sender's end of a flow.
#[derive(Clone, Debug)]
pub struct Sender {
    strategy: Strategy,
    scheduler: Scheduler,
    kernel: Kernel,
    /// Packets that are not acknowledged, from the number `base` on.
    kept: VecDeque<Vec<u8>>,
    base: u64,
    /// l_c: the last packet of the window that has ended last. None once it, or a later one, has come (`all_acked`).
    window_last: Option<u64>,
    /// When the window that is being sent has ended, unless something follows.
    ends: Option<Time>,
    feedback: Feedback,
    loss: f64,
    seed: u8,
    /// Coded packets of this round trip.
    coded: u32,
}

impl Sender {
    /// One that has sent nothing yet. `loss`: the path's, as far as that is known from other flows.
    pub fn new(strategy: Strategy, loss: f64) -> Self {
        let policy = match strategy {
            Strategy::Complementary(policy) => policy,
            Strategy::Off | Strategy::Corrective => Policy::default(),
        };
        Sender {
            strategy,
            scheduler: Scheduler::new(policy),
            kernel: Kernel::best(),
            kept: VecDeque::new(),
            base: 0,
            window_last: None,
            ends: None,
            feedback: Feedback::default(),
            loss,
            seed: 0,
            coded: 0,
        }
    }

    /// TCP sends a packet, which is to be carried at once. Returns its number.
    ///
    /// # Panics
    /// If it is longer than [`rlnc::MAX_BYTES`], which no IP packet is.
    pub fn on_packet(&mut self, now: Time, bytes: &[u8]) -> u64 {
        assert!(bytes.len() <= rlnc::MAX_BYTES, "a packet of {} bytes", bytes.len());
        let number = self.base + self.kept.len() as u64;
        if self.strategy == Strategy::Off {
            self.base = number + 1;
            return number;
        }
        if self.kept.len() == MOST_KEPT {
            self.kept.pop_front();
            self.base += 1;
        }
        self.kept.push_back(bytes.to_vec());
        self.ends = Some(now + PAUSE);
        number
    }

    /// Numbers below this are not coded any more: the receiver need not remember them.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The receiver has told what it has. Appends what is to be sent for what it misses (Event II).
    pub fn on_feedback(&mut self, feedback: Feedback, out: &mut Vec<Coded>) {
        let sent = self.base + self.kept.len() as u64;
        if feedback.through > sent || feedback.next > feedback.through || feedback.lost > feedback.through {
            // Nobody honest says so.
            return;
        }
        let last = self.feedback;
        // They may overtake each other.
        let newly_sent = feedback.through.saturating_sub(last.through);
        let losses = feedback.lost.saturating_sub(last.lost);
        self.feedback = Feedback {
            next: last.next.max(feedback.next),
            through: last.through.max(feedback.through),
            lost: last.lost.max(feedback.lost),
        };
        if newly_sent > 0 {
            let share = 1.0 - (1.0 - WEIGHT).powi(newly_sent.min(1000) as i32);
            self.loss += share * ((losses as f64 / newly_sent as f64).min(1.0) - self.loss);
        }
        while self.base < self.feedback.next && self.kept.pop_front().is_some() {
            self.base += 1;
        }
        if losses > 0 {
            let losses = losses.min(MAX_PACKETS as u64) as u32;
            let count = match self.strategy {
                Strategy::Complementary(_) => self.scheduler.on_losses(losses, self.loss),
                Strategy::Corrective | Strategy::Off => 0,
            };
            // What is missing is among the oldest.
            self.code(count, 0, out);
        }
        if self.window_last.is_some_and(|last| last < self.feedback.through) {
            self.window_last = None;
            self.scheduler.on_round_trip(std::mem::take(&mut self.coded));
            // What was sent in this round trip is the next window.
            self.end_window(out);
        }
    }

    /// When [`Sender::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.ends
    }

    /// Ends a window after which nothing has been sent for a while. Appends what follows it (Event I).
    pub fn handle_timeout(&mut self, now: Time, out: &mut Vec<Coded>) {
        if self.ends.is_some_and(|at| at <= now) {
            self.end_window(out);
        }
    }

    /// The loss rate of the path, as far as this flow knows.
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// Q, beside which a timeout is weighed.
    pub fn queue(&self) -> f64 {
        self.scheduler.queue()
    }

    /// Bytes that it holds.
    pub fn held_bytes(&self) -> usize {
        self.kept.iter().map(Vec::capacity).sum()
    }

    /// What is not acknowledged is a window, if all of the last one is.
    fn end_window(&mut self, out: &mut Vec<Coded>) {
        self.ends = None;
        if self.window_last.is_some() || self.kept.is_empty() {
            return;
        }
        let count = match self.strategy {
            Strategy::Off => 0,
            Strategy::Complementary(_) => self.scheduler.at_end_of_window(self.kept.len() as u32, self.loss),
            Strategy::Corrective => 1,
        };
        self.window_last = Some(self.base + self.kept.len() as u64 - 1);
        self.code(count, self.kept.len().saturating_sub(MAX_PACKETS), out);
    }

    /// Makes coded packets of as many as can be coded together, from this place among those that are kept on.
    fn code(&mut self, count: u32, from: usize, out: &mut Vec<Coded>) {
        let packets: Vec<&[u8]> = self.kept.iter().skip(from).take(MAX_PACKETS).map(Vec::as_slice).collect();
        if packets.is_empty() {
            return;
        }
        let first = self.base + from as u64;
        for _ in 0..count {
            self.seed = self.seed.wrapping_add(1);
            let mut bytes = Vec::new();
            rlnc::encode(&self.kernel, first, packets.iter().copied(), self.seed, &mut bytes);
            out.push(Coded { first, count: packets.len(), seed: self.seed, bytes });
        }
        self.coded += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(packets: u64) -> Sender {
        let mut sender = Sender::new(Strategy::Complementary(Policy::default()), 0.1);
        for number in 0..packets {
            assert_eq!(sender.on_packet(Time::ZERO, &[number as u8; 100]), number);
        }
        sender
    }

    #[test]
    fn a_window_is_followed_by_coded_packets_once_nothing_more_is_sent() {
        let mut sender = sender(3);
        let mut coded = Vec::new();
        sender.handle_timeout(Time::ZERO, &mut coded);
        assert_eq!(coded, [], "more may follow");
        let at = sender.poll_timeout().unwrap();
        sender.handle_timeout(at, &mut coded);
        assert!((1..=5).contains(&coded.len()) && coded.iter().all(|one| (one.first, one.count) == (0, 3)));
        assert_eq!(sender.poll_timeout(), None);
        // The next one is coded only when the last packet of this one, or a later one, has come.
        sender.on_packet(at, b"another");
        coded.clear();
        sender.handle_timeout(sender.poll_timeout().unwrap(), &mut coded);
        sender.on_feedback(Feedback { next: 1, through: 1, lost: 0 }, &mut coded);
        assert_eq!(coded, []);
        sender.on_feedback(Feedback { next: 3, through: 3, lost: 0 }, &mut coded);
        assert!(!coded.is_empty() && coded.iter().all(|one| (one.first, one.count) == (3, 1)));
    }

    #[test]
    fn losses_are_followed_by_as_many_coded_packets_at_least() {
        let mut sender = sender(10);
        let mut coded = Vec::new();
        sender.on_feedback(Feedback { next: 2, through: 8, lost: 3 }, &mut coded);
        assert!(coded.len() >= 3 && coded.iter().all(|one| (one.first, one.count) == (2, 8)));
        let loss = sender.loss();
        coded.clear();
        sender.on_feedback(Feedback { next: 2, through: 8, lost: 3 }, &mut coded);
        assert_eq!((coded.len(), sender.loss()), (0, loss), "it says nothing new");
    }

    #[test]
    fn nonsense_changes_nothing_and_what_is_not_acknowledged_is_bounded() {
        let mut sender = sender(5000);
        let held = sender.held_bytes();
        assert!(held <= MOST_KEPT * 100);
        let mut coded = Vec::new();
        for (next, through, lost) in [(6, 5, 0), (0, 5001, 0), (0, 10, 11), (u64::MAX, u64::MAX, u64::MAX)] {
            sender.on_feedback(Feedback { next, through, lost }, &mut coded);
        }
        assert_eq!((coded.len(), sender.held_bytes(), sender.base()), (0, held, 5000 - MOST_KEPT as u64));
    }

    #[test]
    fn without_a_strategy_nothing_is_kept() {
        let mut sender = Sender::new(Strategy::Off, 0.5);
        for number in 0..100 {
            assert_eq!(sender.on_packet(Time::ZERO, b"packet"), number);
        }
        let mut coded = Vec::new();
        sender.on_feedback(Feedback { next: 50, through: 90, lost: 9 }, &mut coded);
        assert_eq!((coded.len(), sender.held_bytes(), sender.poll_timeout()), (0, 0, None));
    }
}
