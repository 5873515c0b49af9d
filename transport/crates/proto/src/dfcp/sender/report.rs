//! What the receiver reports, and what follows from it.

use wire::packet::{Kind, MAX_NEEDS, Need, Needs, Report};

use super::block::Block;
use super::timers::FIRST_PROBE;
use super::{Sender, SenderEvent};
use crate::packets::Opened;
use crate::{Time, ecn, tfrc};

impl Sender {
    /// A datagram from the receiver's address that named this connection and is no signal.
    pub fn handle_datagram(&mut self, now: Time, datagram: &mut [u8]) {
        if !self.ended {
            self.take(now, datagram);
        }
    }

    fn take(&mut self, now: Time, datagram: &mut [u8]) -> Option<()> {
        let Opened { number, body, .. } = self.packets.open(&[Kind::Report], datagram)?;
        let sent = self.packets.next_number();
        // It speaks of what was sent, or it is no report.
        let speaks_of_it = |report: &Report| report.highest < sent && report.received <= report.highest + 1;
        let Some(report) = Report::parse(body).ok().filter(speaks_of_it) else {
            return self.packets.unexpected();
        };
        if !self.packets.admit(number) {
            return None;
        }
        let newest = self.reported.is_none_or(|before| number > before);
        self.reported = self.reported.max(Some(number));
        self.on_report(now, &report, newest);
        Some(())
    }

    /// A report, which may be older than one that came before it.
    fn on_report(&mut self, now: Time, report: &Report, newest: bool) {
        self.counters.reports += 1;
        self.heard = now;
        self.probe = FIRST_PROBE.max(2 * self.rtt);
        // One that speaks of no symbol that came since the last tells nothing of the path: it would say that nothing passes
        // (RFC 5348, section 6.2: without data there is no feedback).
        let brings_news = report.received > self.counted;
        self.counted = self.counted.max(report.received);
        if let Some(rtt_sample) =
            tfrc::rtt_sample(now, report.echo_us, report.delay_us).filter(|_| brings_news)
        {
            let (x_recv, loss_event_rate) = (report.x_recv as f64, report.loss_event_rate);
            self.rate.tfrc.on_feedback(now, &tfrc::Feedback { rtt_sample, x_recv, loss_event_rate });
            self.rtt = self.rate.tfrc.rtt().unwrap_or(self.rtt);
        }
        self.loss.on_report(report.highest, report.received);
        let Report { received, ect, ce, .. } = *report;
        self.marking.on_counts(ecn::Counts { received, ect, ce });
        self.path.measure(self.loss.loss(), self.rate.tfrc.rtt());
        if brings_news && self.is_long(report.highest) {
            self.path.on_arrived(now, 0);
        }
        for need in &report.needs {
            match need.needs {
                Needs::Nothing => self.on_delivered(need.request, need.block),
                // What was needed once has been sent, or is under way.
                Needs::Symbols(needs) if newest && self.config.early_stop && self.config.acknowledgements => {
                    let last = self.is_last();
                    let named = |b: &Block| b.request == need.request && b.number == need.block;
                    if let Some(at) = self.blocks.iter().position(named) {
                        let meter = self.meter(self.blocks[at].symbol_bytes);
                        self.blocks[at].on_needs(needs, report.highest, &meter, last);
                    }
                }
                Needs::Symbols(_) => {}
            }
        }
        if newest {
            self.ask_after_missing(now, report);
        }
        self.open(now);
    }

    /// Whether the datagram of this number, which has come, was as long as any that may be under way.
    fn is_long(&mut self, number: u64) -> bool {
        while self.lengths.get(1).is_some_and(|(from, _)| *from <= number) {
            self.lengths.pop_front();
        }
        let longest = self.lengths.iter().map(|(_, bytes)| *bytes).max();
        self.lengths.front().map(|(_, bytes)| *bytes) >= longest
    }

    /// Blocks that the receiver should have something of, and says nothing of: all of their symbols were lost, or all of their
    /// acknowledgements. One symbol of each brings news of it.
    fn ask_after_missing(&mut self, now: Time, report: &Report) {
        // One that is full does not name all.
        if report.needs.len() >= MAX_NEEDS || !self.config.early_stop || !self.config.acknowledgements {
            return;
        }
        let patience = FIRST_PROBE.max(2 * self.rtt);
        for block in self.blocks.iter_mut().filter(|block| block.symbols.is_some()) {
            let named = |need: &Need| need.request == block.request && need.block == block.number;
            if !report.needs.iter().any(named) {
                block.on_silence(now, report.highest, patience);
            }
        }
    }

    pub(super) fn on_delivered(&mut self, request: u16, number: u32) {
        let Some(bytes) = self.objects.delivered(request, number) else { return };
        self.blocks.retain(|block| block.request != request || block.number != number);
        self.events.push_back(SenderEvent::Delivered { request, block: number, bytes });
    }
}
