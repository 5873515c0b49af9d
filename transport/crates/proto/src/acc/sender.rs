//! What is sent (section III-B).

use std::collections::VecDeque;
use std::time::Duration;

use codec::gf256::Kernel;
use codec::rlnc::{self, MAX_PACKETS};
use codec::spare::{self, Spare};

use super::losses::LossRate;
use super::redundancy::{self, Scheduler};
use super::{Feedback, Strategy};
use crate::Time;

/// Packets that are kept until they are acknowledged; of more, the oldest are never coded again.
const MOST_KEPT: usize = 512;
/// What was sent so long ago TCP has sent again, if it was lost, or nobody waits for it.
const STALE: Duration = Duration::from_secs(1);
/// Packets of which the memory is kept for others.
const MOST_SPARE: usize = 64;
/// A window has ended when TCP has sent nothing for so long, as it waits for acknowledgements.
const PAUSE: Duration = Duration::from_micros(100);
/// What one packet more counts in a flow's loss rate.
const WEIGHT: f64 = 1.0 / 64.0;
/// So much of a whole packet, which congests nothing: a SYN, a short answer.
const SHORT: f64 = 0.1;
/// What counts as a whole packet.
const WHOLE_BYTES: f64 = 1400.0;

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

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderCounters {
    /// Coded packets that followed windows (c1), all of them.
    pub at_ends: u64,
    /// Coded packets that followed losses (c2), all of them.
    pub on_losses: u64,
    /// Timeouts of TCP that these have avoided, by what Eq. 1 and 2 say is likely.
    pub timeouts_avoided: f64,
    /// How many followed the last window for which it was chosen.
    pub last_c1: u32,
    /// How many followed the last losses.
    pub last_c2: u32,
    /// The last window's packets.
    pub last_window: u32,
}

/// What came of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Packets of which it told for the first time, unless they have met a queue that loses packets.
    pub sent: u64,
    /// How many of them are lost.
    pub lost: u64,
    /// How long ago the last of them was sent.
    pub rtt: Option<Duration>,
    /// Whether they have met a queue that loses packets.
    pub queued: bool,
}

#[derive(Clone, Debug)]
struct Kept {
    sent: Time,
    /// The receiver tells of it without waiting for what its programs send.
    timed: bool,
    bytes: Vec<u8>,
}

/// The sender's end of a flow.
#[derive(Clone, Debug)]
pub struct Sender {
    strategy: Strategy,
    kernel: Kernel,
    /// Packets that are not acknowledged, from the number `base` on.
    kept: VecDeque<Kept>,
    base: u64,
    held_bytes: usize,
    /// Memory of packets that are not kept any more.
    spare: Spare,
    /// l_c: the last packet of the window that has ended last. None once it, or a later one, has come (`all_acked`).
    window_last: Option<u64>,
    /// When the window that is being sent has ended, unless something follows.
    ends: Option<Time>,
    feedback: Feedback,
    loss: LossRate,
    seed: u8,
    /// Losses are the path's way to say that too much is sent.
    congested: bool,
    /// The last report that told of something new came after a long round trip.
    long: bool,
    /// The same, and the path's queue loses packets.
    queued: bool,
    /// What was sent in this round trip, and coded, in packets.
    sent: f64,
    coded: f64,
    counters: SenderCounters,
}

impl Sender {
    /// One that has sent nothing yet. `loss`: the path's, as far as that is known from other flows.
    pub fn new(strategy: Strategy, loss: f64) -> Self {
        Sender {
            strategy,
            kernel: Kernel::best(),
            kept: VecDeque::new(),
            base: 0,
            held_bytes: 0,
            spare: Spare::new(MOST_SPARE),
            window_last: None,
            ends: None,
            feedback: Feedback::default(),
            loss: LossRate::new(loss, WEIGHT),
            seed: 0,
            congested: false,
            long: false,
            queued: false,
            sent: 0.0,
            coded: 0.0,
            counters: SenderCounters::default(),
        }
    }

    /// What [`Sender::on_packet`] will call the next packet.
    pub fn next_number(&self) -> u64 {
        self.base + self.kept.len() as u64
    }

    /// TCP sends a packet, which is to be carried at once. Returns its number.
    ///
    /// # Panics
    /// If it is longer than [`rlnc::MAX_BYTES`], which no IP packet is.
    pub fn on_packet(&mut self, now: Time, bytes: &[u8]) -> u64 {
        self.keep(now, bytes, true)
    }

    /// The same of a packet that TCP does not acknowledge, so that the receiver may tell of it only when a program there sends something.
    ///
    /// # Panics
    /// As [`Sender::on_packet`] does.
    pub fn on_acknowledgement(&mut self, now: Time, bytes: &[u8]) -> u64 {
        self.keep(now, bytes, false)
    }

    fn keep(&mut self, now: Time, bytes: &[u8], timed: bool) -> u64 {
        assert!(bytes.len() <= rlnc::MAX_BYTES, "a packet of {} bytes", bytes.len());
        let number = self.next_number();
        if self.strategy == Strategy::Off {
            self.base = number + 1;
            return number;
        }
        let is_stale = |one: &Kept| one.sent + STALE <= now;
        while self.kept.len() == MOST_KEPT || self.kept.front().is_some_and(is_stale) {
            self.forget_first();
        }
        if self.kept.is_empty() {
            // What begins now has not met the queue that others met before a pause.
            (self.long, self.queued) = (false, false);
        }
        self.held_bytes += bytes.len();
        self.kept.push_back(Kept { sent: now, timed, bytes: self.spare.copy(bytes) });
        self.sent += length(bytes);
        if self.strategy.follows(self.loss.value()) {
            self.ends = Some(now + PAUSE);
        }
        number
    }

    /// Tells whether the path is congested.
    pub fn set_congested(&mut self, congested: bool) {
        self.congested = congested;
    }

    /// Whether the receiver is to keep back what follows on a lost packet.
    pub fn waits(&self) -> bool {
        let is_left_to_tcp = self.congested || self.queued;
        self.strategy.repairs() && self.strategy.follows(self.loss.value()) && !is_left_to_tcp
    }

    /// Numbers below this are not coded any more: the receiver need not remember them.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The receiver has told what it has. Appends what is to be sent for what it misses (Event II), as many as the path's scheduler chooses.
    pub fn on_feedback(
        &mut self,
        now: Time,
        feedback: Feedback,
        scheduler: &mut Scheduler,
        out: &mut Vec<Coded>,
    ) -> Told {
        let sent = self.next_number();
        if feedback.through > sent || feedback.next > feedback.through || feedback.lost > feedback.through {
            // Nobody honest says so.
            return Told::default();
        }
        while self.kept.front().is_some_and(|one| one.sent + STALE <= now) {
            self.forget_first();
        }
        let mut last = self.feedback;
        // They may overtake each other.
        let newly_sent = feedback.through.saturating_sub(last.through);
        if newly_sent > 0 && feedback.lost < last.lost {
            // The receiver has forgotten the flow, and counts anew: d never falls otherwise.
            last.lost = feedback.lost;
        }
        let losses = feedback.lost.saturating_sub(last.lost);
        let newest = (feedback.through.max(1) - 1).checked_sub(self.base).filter(|_| newly_sent > 0);
        let newest = newest.and_then(|at| self.kept.get(usize::try_from(at).ok()?));
        let rtt = newest.filter(|one| one.timed).map(|one| now.since(one.sent));
        self.feedback = Feedback {
            next: last.next.max(feedback.next),
            through: last.through.max(feedback.through),
            lost: last.lost.max(feedback.lost),
        };
        // The end of a burst that has filled the queue is told of by what follows, which may find it empty.
        let after_long = self.long;
        if let Some(rtt) = rtt {
            self.long = scheduler.on_round_trip_time(now, rtt);
        }
        let long = self.long || after_long;
        scheduler.losses.on_packets(newly_sent, losses, long);
        let is_queue_lossy = scheduler.losses.is_queue_lossy();
        self.queued = self.long && is_queue_lossy;
        let (loss, queued) = (self.loss.value(), long && is_queue_lossy);
        let (sent, lost) = if queued { (0, 0) } else { (newly_sent, losses) };
        self.loss.on_packets(sent, lost);
        if queued {
            // Some of its losses may have counted before there were enough of them to tell whose they are.
            self.loss.limit(scheduler.losses.loss_without_queue());
        }
        let told = Told { sent, lost, rtt, queued };
        while self.base < self.feedback.next && self.forget_first() {}
        if losses > 0 {
            // The window that is being sent may have been begun when nothing was lost.
            self.ends = self.ends.or_else(|| self.strategy.follows(self.loss.value()).then(|| now + PAUSE));
            let losses = losses.min(MAX_PACKETS as u64) as u32;
            if let Strategy::Complementary(_) = self.strategy {
                let longest = self.longest(0, MAX_PACKETS);
                // Whoever repairs what a full queue has lost keeps TCP from seeing that it is full.
                let is_left_to_tcp = queued || self.spares(longest) || scheduler.is_left_to_tcp(loss);
                let count = if is_left_to_tcp { 0 } else { scheduler.on_losses(losses, loss, longest) };
                let before = redundancy::too_many_are_lost(losses, loss, 0);
                let sent = self.code(count, 0, out);
                self.coded += f64::from(sent) * scheduler.weight(longest);
                self.counters.on_losses += u64::from(sent);
                self.counters.last_c2 = sent;
                self.avoided(before, redundancy::too_many_are_lost(losses, loss, sent));
            }
        }
        if self.window_last.is_some_and(|last| last < self.feedback.through) {
            self.window_last = None;
            let (sent, coded) = (std::mem::take(&mut self.sent), std::mem::take(&mut self.coded));
            scheduler.on_round_trip(sent, coded);
            // What was sent in this round trip is the next window.
            self.end_window(scheduler, out);
        }
        told
    }

    /// When [`Sender::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.ends
    }

    /// Ends a window after which nothing has been sent for a while. Appends what follows it (Event I).
    pub fn handle_timeout(&mut self, now: Time, scheduler: &mut Scheduler, out: &mut Vec<Coded>) {
        if self.ends.is_some_and(|at| at <= now) {
            self.end_window(scheduler, out);
        }
    }

    /// The loss rate of the path, as far as this flow knows.
    pub fn loss(&self) -> f64 {
        self.loss.value()
    }

    /// d, as it was last reported.
    pub fn lost(&self) -> u64 {
        self.feedback.lost
    }

    /// What it has done.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// Bytes that it holds.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Keeps the oldest no longer. False: there is none.
    fn forget_first(&mut self) -> bool {
        let Some(Kept { bytes, .. }) = self.kept.pop_front() else { return false };
        self.base += 1;
        self.held_bytes -= bytes.len();
        self.spare.give(bytes);
        if self.kept.is_empty() {
            // Many flows are idle most of the time.
            self.spare.free();
        }
        spare::shrink(&mut self.kept);
        true
    }

    /// What is not acknowledged is a window, if all of the last one is.
    fn end_window(&mut self, scheduler: &Scheduler, out: &mut Vec<Coded>) {
        self.ends = None;
        let (packets, loss) = (self.kept.len(), self.loss.value());
        if self.window_last.is_some() || packets == 0 || !self.strategy.follows(loss) {
            return;
        }
        let window = packets as u32;
        let of = if matches!(self.strategy, Strategy::Important(_)) { 1 } else { MAX_PACKETS };
        let from = packets.saturating_sub(of);
        let longest = self.longest(from, of);
        let count = match self.strategy {
            Strategy::Off => 0,
            Strategy::Complementary(_) if self.queued && longest > SHORT || self.spares(longest) => 0,
            Strategy::Complementary(_) => scheduler.at_end_of_window(window, loss, longest),
            Strategy::Corrective => 1,
            Strategy::Important(copies) => copies,
        };
        self.window_last = Some(self.next_number() - 1);
        let sent = self.code(count, from, out);
        self.coded += f64::from(sent) * scheduler.weight(longest);
        self.counters.at_ends += u64::from(sent);
        (self.counters.last_c1, self.counters.last_window) = (sent, window);
        let likely = |coded| scheduler.timeout(window, loss, coded);
        self.avoided(likely(0), likely(sent));
    }

    /// Whether a congested path is spared coded packets of this length.
    fn spares(&self, length: f64) -> bool {
        self.congested && length > SHORT
    }

    /// The length of the longest of so many packets, from this place on: a coded one has it, too.
    fn longest(&self, from: usize, count: usize) -> f64 {
        self.kept.iter().skip(from).take(count).map(|one| length(&one.bytes)).fold(0.0, f64::max)
    }

    fn avoided(&mut self, before: f64, after: f64) {
        self.counters.timeouts_avoided += (before - after).max(0.0);
    }

    /// Makes coded packets of as many as can be coded together, from this place among those that are kept on. Returns how many it has made.
    fn code(&mut self, count: u32, from: usize, out: &mut Vec<Coded>) -> u32 {
        let packets = || self.kept.iter().skip(from).take(MAX_PACKETS).map(|one| one.bytes.as_slice());
        let of = packets().len();
        if of == 0 {
            return 0;
        }
        let first = self.base + from as u64;
        for _ in 0..count {
            self.seed = self.seed.wrapping_add(1);
            let mut bytes = Vec::new();
            rlnc::encode(&self.kernel, first, packets(), self.seed, &mut bytes);
            out.push(Coded { first, count: of, seed: self.seed, bytes });
        }
        count
    }
}

/// What a packet counts beside a whole one.
fn length(bytes: &[u8]) -> f64 {
    (bytes.len() as f64 / WHOLE_BYTES).min(1.0)
}

#[cfg(test)]
mod tests;
