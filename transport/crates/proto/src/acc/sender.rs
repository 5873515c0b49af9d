//! What is sent (section III-B).

use std::collections::VecDeque;
use std::time::Duration;

use codec::gf256::Kernel;
use codec::rlnc::{self, MAX_PACKETS};
use codec::spare::{self, Spare};

use super::Feedback;
use super::redundancy::{self, Policy, Scheduler};
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
    fn follows(self, loss: f64) -> bool {
        match self {
            Strategy::Off => false,
            Strategy::Complementary(_) => !redundancy::is_negligible(loss),
            Strategy::Corrective | Strategy::Important(_) => true,
        }
    }
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

/// p: the share of packets that is lost, of late.
#[derive(Clone, Copy, Debug)]
pub struct LossRate {
    value: f64,
    weight: f64,
}

impl LossRate {
    /// One that begins with `value`, and to which one packet more counts `weight`.
    pub fn new(value: f64, weight: f64) -> Self {
        LossRate { value, weight }
    }

    /// Of so many packets more, so many were lost.
    pub fn on_packets(&mut self, sent: u64, lost: u64) {
        if sent > 0 {
            let share = 1.0 - (1.0 - self.weight).powi(sent.min(100_000) as i32);
            self.value += share * ((lost as f64 / sent as f64).min(1.0) - self.value);
        }
    }

    /// It is no higher than this.
    pub fn limit(&mut self, most: f64) {
        self.value = self.value.min(most);
    }

    /// The share.
    pub fn value(&self) -> f64 {
        self.value
    }
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
        scheduler.on_packets(newly_sent, losses, long);
        let is_queue_lossy = scheduler.is_queue_lossy();
        self.queued = self.long && is_queue_lossy;
        let (loss, queued) = (self.loss.value(), long && is_queue_lossy);
        let (sent, lost) = if queued { (0, 0) } else { (newly_sent, losses) };
        self.loss.on_packets(sent, lost);
        if queued {
            // Some of its losses may have counted before there were enough of them to tell whose they are.
            self.loss.limit(scheduler.loss_without_queue());
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
mod tests {
    use super::*;

    fn scheduler() -> Scheduler {
        Strategy::Complementary(Policy::default()).scheduler()
    }

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
        sender.handle_timeout(Time::ZERO, &mut scheduler(), &mut coded);
        assert_eq!(coded, [], "more may follow");
        let at = sender.poll_timeout().unwrap();
        sender.handle_timeout(at, &mut scheduler(), &mut coded);
        assert!((1..=5).contains(&coded.len()) && coded.iter().all(|one| (one.first, one.count) == (0, 3)));
        assert_eq!(sender.poll_timeout(), None);
        // The next one is coded only when the last packet of this one, or a later one, has come.
        sender.on_packet(at, b"another");
        coded.clear();
        sender.handle_timeout(sender.poll_timeout().unwrap(), &mut scheduler(), &mut coded);
        sender.on_feedback(
            Time::ZERO,
            Feedback { next: 1, through: 1, lost: 0 },
            &mut scheduler(),
            &mut coded,
        );
        assert_eq!(coded, []);
        sender.on_feedback(
            Time::ZERO,
            Feedback { next: 3, through: 3, lost: 0 },
            &mut scheduler(),
            &mut coded,
        );
        assert!(!coded.is_empty() && coded.iter().all(|one| (one.first, one.count) == (3, 1)));
    }

    #[test]
    fn losses_are_followed_by_as_many_coded_packets_at_least() {
        let mut sender = sender(10);
        let mut coded = Vec::new();
        sender.on_feedback(
            Time::ZERO,
            Feedback { next: 2, through: 8, lost: 3 },
            &mut scheduler(),
            &mut coded,
        );
        assert!(coded.len() >= 3 && coded.iter().all(|one| (one.first, one.count) == (2, 8)));
        let loss = sender.loss();
        coded.clear();
        sender.on_feedback(
            Time::ZERO,
            Feedback { next: 2, through: 8, lost: 3 },
            &mut scheduler(),
            &mut coded,
        );
        assert_eq!((coded.len(), sender.loss()), (0, loss), "it says nothing new");
    }

    #[test]
    fn the_end_of_a_burst_that_fills_the_queue_is_the_queues_loss_though_the_next_packet_finds_it_empty() {
        let mut sender = Sender::new(Strategy::Complementary(Policy::default()), 0.0);
        let (mut scheduler, mut coded) = (scheduler(), Vec::new());
        // Most packets meet no queue, and few of them are lost.
        scheduler.on_packets(1000, 5, false);
        let at = |us: u64| Time::from_nanos(us * 1000);
        let mut told = |sender: &mut Sender, us, next, through, lost| {
            sender.on_feedback(at(us), Feedback { next, through, lost }, &mut scheduler, &mut coded)
        };
        sender.on_packet(at(0), b"alone");
        assert_eq!(told(&mut sender, 300, 1, 1, 0).sent, 1);
        for _ in 0..20 {
            sender.on_packet(at(300), b"one of a burst");
        }
        // Ten of them fill the queue, the others find it full.
        assert_eq!(told(&mut sender, 5300, 11, 11, 0).sent, 10);
        sender.on_packet(at(5400), b"after it");
        let after = told(&mut sender, 5700, 11, 22, 10);
        assert_eq!((after.sent, after.lost, sender.loss()), (0, 0, 0.0));
        sender.on_packet(at(5800), b"much later");
        assert_eq!(told(&mut sender, 6100, 11, 23, 10).sent, 1);
        assert_eq!(coded, []);
    }

    #[test]
    fn what_a_full_queue_loses_is_left_to_tcp_whatever_the_path_loses_besides() {
        let mut sender = Sender::new(Strategy::Complementary(Policy::default()), 0.01);
        let (mut scheduler, mut coded) = (scheduler(), Vec::new());
        // Most packets meet no queue, and few of them are lost.
        scheduler.on_packets(1000, 5, false);
        let at = |us: u64| Time::from_nanos(us * 1000);
        let mut told = |sender: &mut Sender, us, next, through, lost| {
            sender.on_feedback(at(us), Feedback { next, through, lost }, &mut scheduler, &mut coded);
            std::mem::take(&mut coded).len()
        };
        sender.on_packet(at(0), b"alone");
        assert_eq!(told(&mut sender, 300, 1, 1, 0), 0);
        assert!(sender.waits());
        for _ in 0..20 {
            sender.on_packet(at(300), b"one of a burst");
        }
        assert_eq!(told(&mut sender, 5300, 11, 15, 4), 0, "a long round trip");
        assert!(!sender.waits());
        sender.on_packet(at(5400), b"after it");
        assert_eq!(told(&mut sender, 5700, 11, 22, 10), 0, "the end of the burst");
        assert!(sender.waits());
        sender.on_packet(at(5800), b"much later");
        sender.on_packet(at(5800), b"one more");
        assert!(told(&mut sender, 6100, 11, 24, 11) > 0, "a short round trip: the path has lost it");
    }

    #[test]
    fn a_path_that_loses_as_much_where_round_trips_are_short_is_no_queue() {
        let mut sender = Sender::new(Strategy::Complementary(Policy::default()), 0.01);
        let (mut scheduler, mut coded) = (scheduler(), Vec::new());
        let (mut us, mut number, mut lost, mut left_to_tcp) = (0, 0, 0, 0);
        // Half of the round trips are long, as a host is busy. One packet in 50 is lost, then and otherwise.
        for turn in 0..2000 {
            let at = |us: u64| Time::from_nanos(us * 1000);
            let rtt = if turn % 20 < 10 { 300 } else { 2300 };
            for _ in 0..5 {
                sender.on_packet(at(us), b"some");
            }
            us += rtt;
            number += 5;
            lost += u64::from(turn % 10 == 5);
            let feedback = Feedback { next: number, through: number, lost };
            sender.on_feedback(at(us), feedback, &mut scheduler, &mut coded);
            left_to_tcp += usize::from(turn >= 1000 && !sender.waits());
            us += 100;
        }
        assert!(!scheduler.is_queue_lossy());
        assert_eq!(left_to_tcp, 0);
        assert!(sender.loss() > 0.01, "all of it is the path's: {}", sender.loss());
    }

    /// A sender whose path has a queue that loses packets, which it has just met.
    fn behind_a_queue() -> (Sender, Scheduler) {
        let mut sender = Sender::new(Strategy::Complementary(Policy::default()), 0.01);
        let mut scheduler = scheduler();
        scheduler.on_packets(1000, 10, false);
        scheduler.on_packets(1000, 200, true);
        let mut tell = |sender: &mut Sender, us: u64, through| {
            let feedback = Feedback { next: through, through, lost: 0 };
            sender.on_feedback(Time::from_nanos(us * 1000), feedback, &mut scheduler, &mut Vec::new());
        };
        sender.on_packet(Time::ZERO, b"alone");
        tell(&mut sender, 300, 1);
        sender.on_packet(Time::from_nanos(300_000), &[0; 1400]);
        tell(&mut sender, 5300, 2);
        assert!(!sender.waits());
        (sender, scheduler)
    }

    #[test]
    fn nothing_long_is_coded_into_a_queue_that_loses_packets() {
        let (mut sender, mut scheduler) = behind_a_queue();
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut coded = Vec::new();
        // More is sent before all is acknowledged.
        for (number, bytes) in [(2, 1400), (4, 50)] {
            sender.on_packet(ms(6), &[0; 1400]);
            let feedback = Feedback { next: number, through: number + 1, lost: 0 };
            sender.on_packet(ms(6), &vec![0; bytes]);
            sender.on_feedback(ms(12), feedback, &mut scheduler, &mut coded);
        }
        sender.handle_timeout(ms(20), &mut scheduler, &mut coded);
        assert_eq!(coded, []);
    }

    #[test]
    fn what_follows_on_a_pause_has_not_met_the_queue_before_it() {
        let (mut sender, mut scheduler) = behind_a_queue();
        let ms = |ms: u64| Time::from_nanos(ms * 1_000_000);
        for _ in 0..10 {
            sender.on_packet(ms(300_000), &[0; 1400]);
        }
        assert!(sender.waits());
        let mut coded = Vec::new();
        let feedback = Feedback { next: 4, through: 8, lost: 1 };
        let told =
            sender.on_feedback(Time::from_nanos(300_000_400_000), feedback, &mut scheduler, &mut coded);
        assert_eq!((told.sent, told.lost), (6, 1));
        assert!(!coded.is_empty(), "the path has lost it");
    }

    #[test]
    fn a_receiver_that_has_forgotten_the_flow_is_believed() {
        let mut sender = Sender::new(Strategy::Complementary(Policy::default()), 0.0);
        let (mut scheduler, mut coded, mut seen) = (scheduler(), Vec::new(), 0);
        for round in 1..=200_u64 {
            for _ in 0..10 {
                sender.on_packet(Time::ZERO, b"some");
            }
            // From the middle on, it counts from 0 again.
            let lost = if round <= 100 { 10 * round } else { round - 101 };
            let feedback = Feedback { next: 10 * round, through: 10 * round, lost: lost.min(10 * round) };
            seen = sender.on_feedback(Time::ZERO, feedback, &mut scheduler, &mut coded).lost;
        }
        assert_eq!(seen, 1);
        assert!((0.05..0.2).contains(&sender.loss()), "{}", sender.loss());
        // What overtakes another one tells of nothing new.
        let late = Feedback { next: 5, through: 5, lost: 0 };
        assert_eq!(sender.on_feedback(Time::ZERO, late, &mut scheduler, &mut coded), Told::default());
    }

    #[test]
    fn an_acknowledgement_that_is_told_of_late_is_no_long_round_trip() {
        let mut sender = sender(0);
        let (mut scheduler, mut coded) = (scheduler(), Vec::new());
        sender.on_acknowledgement(Time::ZERO, b"ack");
        let feedback = Feedback { next: 1, through: 1, lost: 0 };
        let told = sender.on_feedback(Time::from_nanos(20_000_000), feedback, &mut scheduler, &mut coded);
        assert_eq!((told.sent, told.rtt), (1, None));
    }

    #[test]
    fn nonsense_changes_nothing_and_what_is_not_acknowledged_is_bounded() {
        let mut sender = sender(5000);
        let held = sender.held_bytes();
        assert!(held <= MOST_KEPT * 100);
        let mut coded = Vec::new();
        for (next, through, lost) in [(6, 5, 0), (0, 5001, 0), (0, 10, 11), (u64::MAX, u64::MAX, u64::MAX)] {
            sender.on_feedback(Time::ZERO, Feedback { next, through, lost }, &mut scheduler(), &mut coded);
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
        sender.on_feedback(
            Time::ZERO,
            Feedback { next: 50, through: 90, lost: 9 },
            &mut scheduler(),
            &mut coded,
        );
        assert_eq!((coded.len(), sender.held_bytes(), sender.poll_timeout()), (0, 0, None));
    }
}
