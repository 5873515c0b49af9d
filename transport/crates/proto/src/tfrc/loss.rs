//! Loss events and their average interval (RFC 5348 section 5): which packets are lost or marked, which of
//! them make one event, and the loss event rate p that follows.
//!
//! Work and memory per packet are constant: a gap of any length is dealt with in closed form, and what has
//! not been settled as arrived or lost is never more than two packets.

use std::time::Duration;

use crate::Time;

/// A packet is lost when so many later ones have arrived (NDUPACK, RFC 5348 section 5.1).
const REORDER_PACKETS: usize = 3;

/// Loss intervals that count (n, RFC 5348 section 5.4), and their weights: 1 for the newer half, then
/// falling.
const INTERVALS: usize = 8;
const WEIGHTS: [f64; INTERVALS] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// Older intervals keep at least this part of their weight (THRESHOLD, RFC 5348 section 5.5).
const LEAST_DISCOUNT: f64 = 0.25;

/// Lost packets of an event whose late arrival can still take the event back.
const REVOCABLE_PACKETS: usize = 16;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Seen for the first time; a loss event may have begun.
    New { loss_event: bool },
    /// It had been taken for lost: a loss event has been taken back (`revoked`) or only shrank.
    Late { revoked: bool },
    /// Seen before, or too old to tell.
    Stale,
}

/// The closed loss intervals, the latest first: I_1 to I_n with their discounts DF_1 to DF_n (RFC 5348
/// section 5.5).
#[derive(Clone, Debug, Default)]
struct Intervals {
    packets: [f64; INTERVALS],
    discounts: [f64; INTERVALS],
    count: usize,
}

impl Intervals {
    /// Closes an interval: everything moves back by one, and what the discount `df` took is taken for good.
    fn push(&mut self, packets: f64, df: f64) {
        self.discounts[..self.count].iter_mut().for_each(|d| *d *= df);
        self.packets.rotate_right(1);
        self.discounts.rotate_right(1);
        (self.packets[0], self.discounts[0]) = (packets, 1.0);
        self.count = (self.count + 1).min(INTERVALS);
    }

    /// Sums of weight x discount x packets and of weight x discount over the `count` newest closed intervals,
    /// weighted from the weight `first` on.
    fn sums(&self, first: usize, count: usize) -> (f64, f64) {
        WEIGHTS[first..].iter().zip(0..count).fold((0.0, 0.0), |(total, weight), (w, i)| {
            let share = w * self.discounts[i];
            (total + share * self.packets[i], weight + share)
        })
    }

    /// The general discount DF while the open interval has `open` packets (RFC 5348 section 5.5).
    fn discount(&self, open: f64) -> f64 {
        let (total, weight) = self.sums(0, self.count);
        if total > 0.0 && open > 2.0 * total / weight {
            (2.0 * total / weight / open).max(LEAST_DISCOUNT)
        } else {
            1.0
        }
    }

    /// 1 / p: the average loss interval, the open one counted only if that makes it longer (RFC 5348 sections
    /// 5.4, 5.5).
    fn mean(&self, open: f64) -> f64 {
        let df = self.discount(open);
        let (closed, closed_weight) = self.sums(0, self.count);
        // I_0 to I_(k-1): where the open interval counts, the oldest of the k closed ones does not.
        let (older, older_weight) = self.sums(1, self.count.saturating_sub(1));
        let with_open = (open * WEIGHTS[0] + older * df) / (WEIGHTS[0] + older_weight * df);
        with_open.max(closed / closed_weight)
    }
}

/// The event that began the open interval.
#[derive(Clone, Debug)]
struct Event {
    /// Its first lost or marked packet (S_A), and when that arrived or would have.
    first: u64,
    at: Time,
    /// Its lost packets, while all of them are known: if all come late, there was no event.
    missing: Option<Vec<u64>>,
    /// The history without it.
    before: Option<(Option<(u64, Time)>, Intervals)>,
}

/// What has arrived, and the loss events in it.
#[derive(Clone, Debug, Default)]
pub(super) struct LossHistory {
    /// All packets below are settled, as arrived or as lost.
    next: u64,
    /// Arrived beyond a gap, by sequence number.
    ahead: Vec<(u64, Time)>,
    /// The last settled arrival (S_before).
    settled: Option<(u64, Time)>,
    highest: u64,
    event: Option<Event>,
    intervals: Intervals,
}

impl LossHistory {
    /// A packet arrives, `ce` marked or not. `rtt` groups losses into events; `first_interval` makes the
    /// first interval up, in packets, if this packet shows the first loss.
    pub(super) fn on_packet(
        &mut self,
        now: Time,
        seq: u64,
        ce: bool,
        rtt: Duration,
        first_interval: impl FnOnce() -> f64,
    ) -> Arrival {
        if self.settled.is_none() && self.ahead.is_empty() {
            // Receiver initialisation (RFC 5348 section 6.3): the first packet that arrives begins the
            // sequence.
            self.next = seq;
        }
        if seq < self.next || seq == u64::MAX {
            return self.on_late(seq);
        }
        let place = self.ahead.partition_point(|&(s, _)| s < seq);
        if self.ahead.get(place).is_some_and(|&(s, _)| s == seq) {
            return Arrival::Stale;
        }
        self.ahead.insert(place, (seq, now));
        self.highest = self.highest.max(seq);

        let mut losses = Losses { rtt, first_interval: Some(first_interval), event: false };
        self.advance();
        // A marked packet is an event as soon as it arrives, one that begins with a packet missing before it,
        // if there is one (RFC 5348 section 5.1).
        while self.ahead.len() >= REORDER_PACKETS || (ce && self.next <= seq) {
            let end = self.ahead[0].0;
            self.lose(self.next, end, &mut losses);
            self.next = end;
            self.advance();
        }
        if ce {
            self.congested(seq, now, false, &mut losses);
        }
        Arrival::New { loss_event: losses.event }
    }

    /// What is missing below `seq`, which arrives now, was not lost to congestion.
    pub(super) fn forgive(&mut self, now: Time, seq: u64) {
        if seq > self.next && self.settled.or(self.ahead.last().copied()).is_some() {
            self.ahead.retain(|(ahead, _)| *ahead >= seq);
            (self.settled, self.next) = (Some((seq - 1, now)), seq);
            self.advance();
        }
    }

    /// The loss event rate p: 0 before the first event (RFC 5348 section 5.4).
    pub(super) fn loss_event_rate(&self) -> f64 {
        let Some(event) = &self.event else { return 0.0 };
        let open = self.highest.saturating_sub(event.first) as f64 + 1.0; // RFC 5348 section 5.3
        (1.0 / self.intervals.mean(open)).min(1.0)
    }

    /// Settles what has arrived without a gap.
    fn advance(&mut self) {
        let run = self.ahead.iter().zip(self.next..).take_while(|((seq, _), next)| seq == next).count();
        if let Some(&last) = self.ahead[..run].last() {
            self.settled = Some(last);
            self.next = last.0.saturating_add(1);
        }
        self.ahead.drain(..run);
    }

    /// Packets `first..end` are lost. Between the arrivals around them they would have come at even distances
    /// (RFC 5348 section 5.2), so that every packet which comes more than a round trip after the one that
    /// began an event begins the next: of a gap, every k-th. Older ones than the history holds are passed
    /// over.
    fn lose(&mut self, first: u64, end: u64, losses: &mut Losses<impl FnOnce() -> f64>) {
        // A gap has a packet before it, since the first packet of all begins the sequence.
        let (before, t_before) = self.settled.unwrap_or((first.saturating_sub(1), self.ahead[0].1));
        let &(after, t_after) = self.ahead.iter().min_by_key(|(_, at)| *at).unwrap_or(&(end, t_before));
        let gap_ns = t_after.since(t_before).as_nanos() as f64 / (after - before).max(1) as f64;
        let arrival = |seq: u64| t_before + Duration::from_nanos((gap_ns * (seq - before) as f64) as u64);

        self.congested(first, arrival(first), true, losses);
        let Some(event) = &mut self.event else { return };
        match &mut event.missing {
            Some(missing) if end - first <= (REVOCABLE_PACKETS - missing.len()) as u64 => {
                missing.extend(first..end);
            }
            missing => *missing = None,
        }
        // The first packet of the gap that comes more than a round trip after the event that is open.
        let per_event = |from: Time, at: u64| {
            let wait_ns = losses.rtt.saturating_sub(arrival(at).since(from)).as_nanos() as f64;
            if gap_ns > 0.0 { ((wait_ns / gap_ns) as u64).saturating_add(1) } else { u64::MAX }
        };
        let mut seq = first.saturating_add(per_event(event.at, first));
        let step = per_event(arrival(first), first);
        if seq < end {
            let more = (end - 1 - seq) / step;
            seq += more.saturating_sub(INTERVALS as u64) * step;
        }
        while seq < end {
            self.congested(seq, arrival(seq), true, losses);
            if let Some(event) = &mut self.event {
                event.missing = None;
            }
            seq = seq.saturating_add(step);
        }
    }

    /// A packet was lost or marked: part of the open event if it comes within a round trip of its beginning
    /// (T_old + R >= T_new, RFC 5348 section 5.2), or else the beginning of a new one.
    fn congested(&mut self, seq: u64, at: Time, lost: bool, losses: &mut Losses<impl FnOnce() -> f64>) {
        if let Some(event) = &mut self.event
            && (event.at + losses.rtt >= at || seq <= event.first)
        {
            if !lost {
                event.missing = None;
            }
            return;
        }
        let (packets, df) = match &self.event {
            Some(event) => {
                let packets = (seq - event.first) as f64;
                (packets, self.intervals.discount(packets))
            }
            None => {
                let interval = losses.first_interval.take().map_or(1.0, |interval| interval());
                (interval.max(1.0), 1.0)
            }
        };
        let before = (self.event.as_ref().map(|e| (e.first, e.at)), self.intervals.clone());
        self.intervals.push(packets, df);
        let missing = lost.then(Vec::new);
        self.event = Some(Event { first: seq, at, missing, before: Some(before) });
        losses.event = true;
    }

    /// A packet below all that is unsettled. If with it all of the newest event's losses have come late, the
    /// event is taken back (RFC 5348 sections 5.1 and 6.1).
    fn on_late(&mut self, seq: u64) -> Arrival {
        let Some(event) = &mut self.event else { return Arrival::Stale };
        let Some(missing) = &mut event.missing else { return Arrival::Stale };
        let Some(place) = missing.iter().position(|&s| s == seq) else { return Arrival::Stale };
        missing.swap_remove(place);
        if !missing.is_empty() {
            return Arrival::Late { revoked: false };
        }
        if let Some((previous, intervals)) = event.before.take() {
            self.intervals = intervals;
            self.event = previous.map(|(first, at)| Event { first, at, missing: None, before: None });
        }
        Arrival::Late { revoked: true }
    }
}

/// What the losses that one packet shows have in common.
struct Losses<F> {
    rtt: Duration,
    first_interval: Option<F>,
    event: bool,
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
