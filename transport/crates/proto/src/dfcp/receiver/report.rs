//! Reports: what came, and what is needed of each block.

use std::time::Duration;

use wire::packet::{Kind, MAX_NEEDS, Need, Needs, Report, Symbol};

use super::block::Block;
use super::{Receiver, Receiving};
use crate::block_set::BlockSet;
use crate::ecn::{Codepoint, Counts};
use crate::{Time, tfrc};

/// Reports go out at least so often while symbols come; more often on short paths.
const LONGEST_INTERVAL: Duration = Duration::from_millis(10);
pub(super) const LEAST_INTERVAL: Duration = Duration::from_millis(2);
/// A report goes with what has just come if so much of an interval is over: a timer a moment later would wake the process again.
const ALMOST: f64 = 0.875;
/// Reports in a round trip.
const REPORTS: u32 = 4;
/// While no symbol comes and some are needed, each interval is twice the one before, up to this.
const LONGEST_SILENCE: Duration = Duration::from_millis(250);
/// Reports that a block's acknowledgement goes with, since any of them may be lost.
const ACKNOWLEDGED: u8 = 3;

/// The symbol with the highest number, and the sender's clock as it tells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newest {
    pub(super) number: u64,
    pub(super) sent_us: u32,
    pub(super) came: Time,
}

impl Receiver {
    /// What every symbol tells, of use or not.
    pub(super) fn on_datagram(
        &mut self,
        now: Time,
        number: u64,
        bytes: usize,
        symbol: &Symbol,
        ecn: Codepoint,
    ) {
        self.counts.count(ecn);
        let rtt = Duration::from_micros(symbol.rtt_us.into());
        let first = self.tfrc.is_none();
        let tfrc =
            self.tfrc.get_or_insert_with(|| tfrc::Receiver::with_least_rto(bytes as u32, tfrc::LINUX_RTO));
        let urgent = tfrc.on_packet(now, number, bytes as u32, rtt, ecn.is_ce());
        if first || number > self.newest.number {
            let Newest { number: before, .. } = self.newest;
            self.counters.missing += if first { number } else { number - before - 1 };
            self.newest = Newest { number, sent_us: symbol.sent_us, came: now };
        } else {
            self.counters.missing = self.counters.missing.saturating_sub(1);
        }
        self.interval = (rtt / REPORTS).clamp(LEAST_INTERVAL, LONGEST_INTERVAL);
        // TFRC wants one a round trip, which in a rack is one a symbol.
        let due = if now.since(self.reported) >= self.interval.mul_f64(ALMOST) {
            now
        } else if urgent {
            self.reported + LEAST_INTERVAL
        } else {
            now + self.interval
        };
        self.report_at = Some(self.report_at.map_or(due, |at| at.min(due)));
    }

    /// The block goes into the next reports as complete.
    pub(super) fn acknowledge(&mut self, now: Time, request: u16, block: u32) {
        let room = self.done.len() < 4 * MAX_NEEDS;
        match self.done.iter_mut().find(|(r, b, _)| (*r, *b) == (request, block)) {
            Some((_, _, times)) => *times = ACKNOWLEDGED,
            // What has no room is asked for again.
            None if room => {
                self.done.push_back((request, block, ACKNOWLEDGED));
                self.report_at = Some(now);
            }
            None => {}
        }
    }

    /// The decoder of a block needs `symbols` in all, as far as it knows.
    pub fn needs(&mut self, now: Time, request: u16, block: u32, symbols: u16) {
        let named = |b: &&mut Block| b.request == request && b.number == block;
        if let Some(block) = self.blocks.iter_mut().find(named) {
            block.target = block.target.max(symbols);
            // It was not known when the last report went.
            self.report_at = Some(now);
        }
    }

    /// Appends the next datagram, if one is due.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> bool {
        if self.ended || self.report_at.is_none_or(|at| now < at) {
            return false;
        }
        let Some(tfrc) = &mut self.tfrc else { return false };
        let told = tfrc.report(now);
        let mut needs: Vec<Need> = Vec::new();
        for (request, block, times) in self.done.iter_mut().take(MAX_NEEDS) {
            *times -= 1;
            needs.push(Need { request: *request, block: *block, needs: Needs::Nothing });
        }
        self.done.retain(|(_, _, times)| *times > 0);
        let count = self.blocks.len();
        let room = (MAX_NEEDS - needs.len()).min(count);
        for n in 0..room {
            let block = &self.blocks[(self.turn + n) % count];
            let Block { request, number, .. } = *block;
            needs.push(Need { request, block: number, needs: Needs::Symbols(block.needs()) });
        }
        self.turn = if room < count { (self.turn + room) % count } else { 0 };
        let Newest { number: highest, sent_us, came, .. } = self.newest;
        let Counts { received, ect, ce } = self.counts;
        let report = Report {
            echo_us: sent_us,
            delay_us: u32::try_from(now.since(came).as_micros()).unwrap_or(u32::MAX),
            x_recv: told.x_recv as u64,
            loss_event_rate: told.loss_event_rate,
            highest,
            received: received.min(highest + 1),
            ect,
            ce,
            needs,
        };
        self.packets.seal(Kind::Report, buffer, |_, buffer| report.emit(buffer));
        self.counters.reports += 1;
        self.reported = now;
        // Until the next symbol comes, what was lost of this is told again, ever less often.
        // So that the sender knows, too, that somebody is there while what came is stored.
        let storing = |object: &Receiving| object.wanted.as_ref().is_some_and(BlockSet::is_empty);
        let more = !self.blocks.is_empty() || !self.done.is_empty() || self.objects.values().any(storing);
        // A symbol that comes by then brings it forward.
        self.report_at = more.then(|| now + self.interval.mul_f64(2.0 - ALMOST));
        self.interval = (2 * self.interval).min(LONGEST_SILENCE);
        true
    }
}
