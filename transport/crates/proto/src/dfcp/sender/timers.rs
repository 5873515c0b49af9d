//! What happens by itself: probes while nothing is heard, blocks that begin over, and the end of patience.

use std::time::Duration;

use wire::control::Refusal;

use super::{Sender, SenderEvent};
use crate::Time;
use crate::dfcp::Guide;

/// While nothing is heard, a symbol goes out after two round trips, and then after twice as long each time.
pub(super) const FIRST_PROBE: Duration = Duration::from_millis(25);
const LONGEST_PROBE: Duration = Duration::from_millis(250);
/// What comes may wait for so long, at a rate that was told; and for this part of a round trip, at one that is reckoned from it.
const LONGEST_PAUSE: Duration = Duration::from_millis(2);
const PAUSES: u32 = 16;
/// After the last symbol that a block may have, its acknowledgement may take so long.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

impl Sender {
    /// When [`Sender::handle_timeout`] or [`Sender::poll_transmit`] has something to do without any input.
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        if self.ended {
            return None;
        }
        if self.freed && !self.is_last() {
            return Some(Time::ZERO);
        }
        let mut soonest = self.waits().then(|| self.heard + self.config.silence);
        let mut consider = |at: Option<Time>| soonest = soonest.into_iter().chain(at).min();
        if self.guide == Guide::Told {
            consider(self.rate.expires_at());
        }
        let rate = self.rate.rate(now);
        if rate > 0.0 && !self.blocks.is_empty() {
            if self.has_more() {
                consider(Some(self.pacer.release(rate)));
            } else if self.probes() {
                consider(Some(self.sent + self.probe));
            }
            consider(self.rate.tfrc.poll_timeout());
            let patience = self.patience();
            consider(self.blocks.iter().filter_map(|block| block.begins_over_at(patience)).min());
        }
        soonest
    }

    /// When the next burst goes, if whatever comes may wait until then: a driver that sleeps so long is not woken by every
    /// report.
    pub fn pause(&self, now: Time) -> Option<Time> {
        let rate = self.rate.rate(now);
        if self.ended || rate <= 0.0 || !self.has_more() {
            return None;
        }
        let longest = if self.guide == Guide::Told { LONGEST_PAUSE } else { self.rtt / PAUSES };
        Some(self.pacer.release(rate)).filter(|at| at.since(now) <= longest)
    }

    /// Whether the receiver is to say something.
    fn waits(&self) -> bool {
        self.window_bytes.is_none() || self.objects.len() > 0
    }

    /// Whether a block waits for an acknowledgement, or for being asked for more.
    fn probes(&self) -> bool {
        self.config.acknowledgements && self.blocks.iter().any(|block| block.symbols.is_some())
    }

    /// Lets timers expire.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.ended {
            return;
        }
        if self.waits() && now.since(self.heard) >= self.config.silence {
            let silence = self.config.silence.as_secs_f64();
            return self.end(format!("nothing was heard of the receiver for {silence} s"));
        }
        self.note_guide(now);
        if std::mem::take(&mut self.freed) {
            self.open(now);
        }
        if self.blocks.is_empty() {
            self.in_pieces = None;
            return;
        }
        if self.rate.tfrc.poll_timeout().is_some_and(|at| at <= now) {
            self.rate.tfrc.on_timeout(now);
        }
        self.begin_over(now);
        if !self.has_more() && self.probes() && now.since(self.sent) >= self.probe {
            // What it brings is news of all blocks.
            if let Some(block) = self.blocks.iter_mut().find(|block| block.symbols.is_some()) {
                block.probe();
            }
            self.probe = (2 * self.probe).clamp(FIRST_PROBE, LONGEST_PROBE);
        }
    }

    /// Begins over with blocks of which all symbols there are were sent, and gives up objects for which that is of no use.
    fn begin_over(&mut self, now: Time) {
        let patience = self.patience();
        let mut given_up = Vec::new();
        for block in &mut self.blocks {
            let due = block.begins_over_at(patience).is_some_and(|at| at <= now);
            if due && !block.begin_over() {
                given_up.push(block.request);
            }
        }
        given_up.dedup();
        for request in given_up {
            let detail = "a block was not complete after all the symbols that a block may have".to_owned();
            self.withdraw(request, detail.clone());
            self.events.push_back(SenderEvent::Refused { request, why: Refusal::SymbolCap, detail });
        }
    }

    /// How long news may take of the last symbol of a block.
    fn patience(&self) -> Duration {
        LAST_PATIENCE.max(8 * self.rtt)
    }
}
