//! Which packets have come, what is missing, and when the receiver asks for it (ATP, section II-A: receiver timeouts).

use std::time::Duration;

use wire::atp::{AckCounts, MAX_RANGES, Preamble, REACH, emit_ack};

use crate::Time;
use crate::ecn::{Codepoint, Counts};
use crate::ranges::RangeSet;

/// A gap is given half a round trip to be closed by parity or by a packet that was overtaken, and this at least.
const LEAST_PATIENCE: Duration = Duration::from_millis(1);
/// What was announced and has not come is given longer, as other traffic may come between two packets: so many times as long as a
/// gap, and this at least.
const TAIL: u32 = 4;
const LEAST_TAIL: Duration = Duration::from_millis(4);
/// What was asked for in vain makes the receiver more patient, up to so many times.
const MOST_PATIENCE: u32 = 16;
/// What does not come is asked for at least so often.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// An acknowledgement waits for others no longer than this.
const LONGEST_DELAY: Duration = Duration::from_millis(1);
/// Packets that are acknowledged together at most, while their sender has more to send.
const TOGETHER: u32 = 8;
/// Ranges that are remembered; of more, the lowest count as settled.
const MOST_RANGES: usize = 4 * MAX_RANGES;

/// The packets of the other end, by number.
#[derive(Debug)]
pub(crate) struct Received {
    /// From `floor` on.
    came: RangeSet,
    /// Nothing below is waited for.
    floor: u64,
    largest: Option<(u64, Time)>,
    last: Time,
    /// Packets below this have been sent, or are about to be.
    announced: u64,
    /// What is missing below this has been asked for.
    overdue: u64,
    /// Since when something has been missing below the number, which has not been asked for.
    gap: Option<(Time, u64)>,
    /// When it is asked for once more, and how long after that again.
    again: Option<(Time, Duration)>,
    /// How patient it is: what came after it was asked for makes it more so.
    patience: u32,
    rtt: Duration,
    /// Packets that want to be acknowledged, and until when that may wait.
    pending: u32,
    ack_by: Option<Time>,
    due: bool,
    counts: Counts,
    repaired: u64,
    requests: u64,
}

/// What an end has counted of the packets that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceivedCounters {
    pub(crate) repaired: u64,
    pub(crate) requests: u64,
}

impl Received {
    pub(crate) fn new(now: Time) -> Self {
        Received {
            came: RangeSet::default(),
            floor: 0,
            largest: None,
            last: now,
            announced: 0,
            overdue: 0,
            gap: None,
            again: None,
            patience: 1,
            rtt: Duration::ZERO,
            pending: 0,
            ack_by: None,
            due: false,
            counts: Counts::default(),
            repaired: 0,
            requests: 0,
        }
    }

    /// The round trip, as this end knows it.
    pub(crate) fn set_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
    }

    pub(crate) fn counters(&self) -> ReceivedCounters {
        ReceivedCounters { repaired: self.repaired, requests: self.requests }
    }

    /// How long a gap may be before it is asked for.
    pub(crate) fn patience(&self) -> Duration {
        self.patience * LEAST_PATIENCE.max(self.rtt / 2)
    }

    /// The same for what was announced.
    pub(crate) fn tail_patience(&self) -> Duration {
        self.patience * LEAST_TAIL.max(TAIL * self.rtt / 2)
    }

    /// A packet has come that has not come before.
    pub(crate) fn on_packet(&mut self, now: Time, number: u64, ecn: Codepoint, preamble: &Preamble) {
        self.counts.count(ecn);
        if number < self.overdue && number >= self.floor && !self.came.contains(number) {
            // It was only late, as no packet is sent twice.
            self.patience = (2 * self.patience).min(MOST_PATIENCE);
        }
        if self.largest.is_none_or(|(largest, _)| number > largest) {
            self.largest = Some((number, now));
        }
        self.last = now;
        self.announced = self.announced.max(number + 1 + u64::from(preamble.ahead));
        self.note(number);
        self.raise_floor(preamble.floor);
        self.look_for_gaps(now);
    }

    /// Parity has brought a packet.
    pub(crate) fn on_repaired(&mut self, now: Time, number: u64) {
        self.repaired += 1;
        self.note(number);
        self.look_for_gaps(now);
    }

    /// Whether a packet is still waited for.
    pub(crate) fn misses(&self, number: u64) -> bool {
        number >= self.floor && !self.came.contains(number)
    }

    /// A packet wants to be acknowledged. `ahead`: so many follow at once.
    pub(crate) fn on_eliciting(&mut self, now: Time, ahead: u8) {
        self.pending += 1;
        self.due |= ahead == 0 || self.pending >= TOGETHER;
        self.ack_by.get_or_insert(now + LONGEST_DELAY);
    }

    fn note(&mut self, number: u64) {
        if number >= self.floor {
            self.came.insert(number..number + 1);
        }
        while self.came.ranges() > MOST_RANGES {
            let lowest = self.came.first().map_or(0, |first| first.end);
            self.raise_floor(lowest);
        }
    }

    fn raise_floor(&mut self, floor: u64) {
        if floor <= self.floor {
            return;
        }
        self.floor = floor;
        // The range at the floor stays whole: the sender may not have heard of it yet.
        let kept = self.came.iter().find(|range| range.end >= floor).map(|range| range.start);
        self.came.remove(0..kept.unwrap_or(floor));
        if !self.misses_below(self.overdue) {
            self.again = None;
        }
    }

    fn misses_below(&self, end: u64) -> bool {
        self.came.gaps(self.floor..end.max(self.floor)).next().is_some()
    }

    /// The gap is watched that ends highest and is beyond what was asked for.
    fn look_for_gaps(&mut self, now: Time) {
        let end = self.largest.map_or(0, |(largest, _)| largest);
        let begin = self.floor.max(self.overdue);
        let is_gap = |end: u64| self.came.gaps(begin..end.max(begin)).next().is_some();
        match self.gap {
            Some((_, end)) if is_gap(end) => {}
            _ => self.gap = is_gap(end).then_some((now, end)),
        }
        if !self.misses_below(self.overdue) {
            self.again = None;
        }
    }

    fn gap_at(&self) -> Option<Time> {
        self.gap.map(|(since, _)| since + self.patience())
    }

    /// When what was announced and has not come is asked for.
    fn tail_at(&self) -> Option<Time> {
        let next = self.largest.map_or(0, |(largest, _)| largest + 1).max(self.overdue);
        (self.announced > next).then(|| self.last + self.tail_patience())
    }

    /// When [`Received::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let again = self.again.map(|(at, _)| at);
        let ack_by = self.ack_by.filter(|_| !self.due);
        [ack_by, self.gap_at(), self.tail_at(), again].into_iter().flatten().min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        self.due |= is_due(self.ack_by);
        let (gap, tail) = (is_due(self.gap_at()), is_due(self.tail_at()));
        if let (true, Some((_, end))) = (gap, self.gap) {
            self.ask(now, end);
            self.gap = None;
            self.look_for_gaps(now);
        }
        if tail {
            self.ask(now, self.announced);
        }
        if let Some((_, pause)) = self.again.filter(|(at, _)| *at <= now) {
            let pause = (2 * pause).min(LONGEST_PAUSE.max(self.rtt));
            self.again = Some((now + pause, pause));
            self.due = true;
            self.requests += 1;
        }
    }

    /// Asks for all that is missing below `end`.
    fn ask(&mut self, now: Time, end: u64) {
        self.overdue = self.overdue.max(end);
        self.due = true;
        self.requests += 1;
        let pause = self.rtt + self.patience();
        self.again = Some((now + pause, pause));
    }

    /// Whether an acknowledgement is to be sent now, be there anything else to send or not.
    pub(crate) fn is_due(&self) -> bool {
        self.due && self.largest.is_some()
    }

    /// Whether there is news that a packet that is sent anyway can take along.
    pub(crate) fn has_news(&self) -> bool {
        self.pending > 0 || self.is_due()
    }

    /// Appends an acknowledgement, of so many ranges at most.
    pub(crate) fn emit(&mut self, now: Time, ranges: usize, out: &mut Vec<u8>) {
        let Some((largest, at)) = self.largest else { return };
        let overdue = if self.misses_below(self.overdue) { self.overdue.min(largest + 1 + REACH) } else { 0 };
        let counts = AckCounts {
            delay_us: now.since(at).as_micros() as u64,
            overdue,
            repaired: self.repaired,
            received: self.counts.received,
            ect: self.counts.ect,
            ce: self.counts.ce,
        };
        let came = self.came.iter().rev().take(ranges).map(|range| range.start..=range.end - 1);
        emit_ack(&counts, came, out);
        (self.pending, self.ack_by, self.due) = (0, None, false);
    }
}
