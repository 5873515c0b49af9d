//! Explicit congestion notification (RFC 3168): whether a sender marks its datagrams as ECN-capable, and the check that the
//! path carries such marks (RFC 9000, section 13.4.2 and appendix A.4).
//!
//! A sender marks its first datagrams, `TESTED` of them or for a time, and waits for the receiver to count one. From then
//! on it marks all. It stops for good if the path clears marks, changes them, or drops what bears them: that is, if two tests
//! in a row fail, since a path that is down for a moment fails one.
//!
//! It never asks for a mark that nobody heeds: senders mark only while their rate is TFRC's, to which a mark is a loss event.

use std::time::Duration;

use crate::Time;

/// Datagrams that test a path (RFC 9000, appendix A.4).
const TESTED: u64 = 10;
/// Datagrams in a row that are no chance: whoever loses more has no use for marks.
const IN_A_ROW: u64 = 5;
/// A report is expected within so many round trips, each with what hosts and timers take (RFC 9000, section 18.2:
/// `max_ack_delay`).
const ROUND_TRIPS: u32 = 3;
const HOSTS: Duration = Duration::from_millis(25);

/// The ECN field of an IP header, with the field's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codepoint {
    /// Queues drop it when they are congested.
    #[default]
    NotEct = 0b00,
    /// For experiments (RFC 8311); never sent here.
    Ect1 = 0b01,
    /// Queues may mark it when they are congested.
    Ect0 = 0b10,
    /// A queue has marked it: congestion experienced.
    Ce = 0b11,
}

impl Codepoint {
    /// Whether a queue may mark it instead of dropping it.
    pub fn is_capable(self) -> bool {
        self != Codepoint::NotEct
    }

    /// Whether a queue has marked it.
    pub fn is_ce(self) -> bool {
        self == Codepoint::Ce
    }

    /// From the two bits of an IP header; what is above them is ignored.
    pub fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Codepoint::NotEct,
            0b01 => Codepoint::Ect1,
            0b10 => Codepoint::Ect0,
            _ => Codepoint::Ce,
        }
    }
}

/// What a receiver counts, each datagram once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All datagrams.
    pub received: u64,
    /// Those with ECT(0).
    pub ect: u64,
    /// Those with CE.
    pub ce: u64,
}

impl Counts {
    /// A datagram has come.
    pub fn count(&mut self, codepoint: Codepoint) {
        self.received += 1;
        self.ect += u64::from(codepoint == Codepoint::Ect0);
        self.ce += u64::from(codepoint.is_ce());
    }
}

/// What is known of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing is to be marked.
    #[default]
    Off,
    /// Datagrams are marked, and none of these has been counted yet.
    Testing,
    /// Marked datagrams have not been answered: none is marked until they are.
    Waiting,
    /// The path carries marks.
    Capable,
    /// The path clears marks or changes them: the receiver's counts do not add up.
    Cleared,
    /// The path drops what is marked, and carries what is not.
    Dropped,
}

impl State {
    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            State::Off => "off",
            State::Testing => "testing",
            State::Waiting => "waiting",
            State::Capable => "capable",
            State::Cleared => "cleared",
            State::Dropped => "dropped",
        }
    }
}

/// One sender's marks.
#[derive(Clone, Debug)]
pub struct Marking {
    state: State,
    /// Datagrams sent, marked and not.
    marked: u64,
    plain: u64,
    /// The newest report's.
    counts: Counts,
    /// Marked datagrams sent since the receiver last counted more of them, and when the first of these went.
    unanswered: u64,
    since: Time,
    /// While waiting: as many that bear no mark had been sent before.
    plain_before: u64,
    /// The last test has failed.
    failed: bool,
}

impl Marking {
    /// Tests the path first; or, with `on` false, marks nothing.
    pub fn new(on: bool) -> Self {
        Marking {
            state: if on { State::Testing } else { State::Off },
            marked: 0,
            plain: 0,
            counts: Counts::default(),
            unanswered: 0,
            since: Time::ZERO,
            plain_before: 0,
            failed: false,
        }
    }

    /// Whether datagrams are to be marked now, if somebody heeds it.
    pub fn is_on(&self) -> bool {
        matches!(self.state, State::Testing | State::Capable)
    }

    /// Datagrams have been sent, marked or not, over a path of this round trip.
    pub fn on_sent(&mut self, now: Time, rtt: Duration, datagrams: u64, marked: bool) {
        if !marked {
            self.plain += datagrams;
            return;
        }
        self.marked += datagrams;
        if self.unanswered == 0 {
            self.since = now;
        }
        self.unanswered += datagrams;
        let late = now.since(self.since) >= ROUND_TRIPS * (rtt + HOSTS);
        let waits = match self.state {
            State::Testing => late || self.unanswered >= TESTED,
            State::Capable => late && self.unanswered >= IN_A_ROW,
            State::Off | State::Waiting | State::Cleared | State::Dropped => false,
        };
        if waits {
            self.state = State::Waiting;
            self.plain_before = self.plain;
        }
    }

    /// A report of the receiver; one that is older than another changes nothing.
    pub fn on_counts(&mut self, counts: Counts) {
        let before = self.counts;
        if counts.received < before.received
            || matches!(self.state, State::Off | State::Cleared | State::Dropped)
        {
            return;
        }
        self.counts = counts;
        // Counts are a peer's word: they need not be numbers that can be added up.
        let marked = counts.ect.saturating_add(counts.ce);
        let Some(plain) = counts.received.checked_sub(marked) else {
            self.state = State::Cleared;
            return;
        };
        if marked > self.marked || plain > self.plain || counts.ect < before.ect || counts.ce < before.ce {
            self.state = State::Cleared;
        } else if marked > before.ect + before.ce {
            self.state = State::Capable;
            (self.unanswered, self.failed) = (0, false);
        } else if self.state == State::Waiting && plain > self.plain_before {
            let again = std::mem::replace(&mut self.failed, true);
            self.state = if again { State::Dropped } else { State::Testing };
            self.unanswered = 0;
        }
    }

    /// What is known of the path.
    pub fn state(&self) -> State {
        self.state
    }

    /// Datagrams that were marked as ECN-capable.
    pub fn marked(&self) -> u64 {
        self.marked
    }

    /// Those of them that came with CE, by the newest report.
    pub fn ce(&self) -> u64 {
        self.counts.ce
    }
}

#[cfg(test)]
#[path = "ecn_tests.rs"]
mod tests;
