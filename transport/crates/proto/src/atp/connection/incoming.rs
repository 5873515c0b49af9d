//! What comes, and what an end does about it.

use wire::atp::{Ack, Frame, Frames, Preamble};
use wire::packet::Kind;

use super::super::interface::{Closed, StreamId};
use super::super::parity::Repaired;
use super::super::receive_stream::Taken;
use super::super::sent::Sent;
use super::super::streams::Forbidden;
use super::super::window::Congestion;
use super::{Connection, State};
use crate::Time;
use crate::ecn::{Codepoint, Counts};

/// What a packet was.
#[derive(Clone, Copy, Debug, Default)]
struct Handled {
    /// It is to be acknowledged.
    eliciting: bool,
    /// There was no room for some of it: it has to come again.
    refused: bool,
}

impl Connection {
    /// A datagram has come that names this connection. Whether it is authentic, and was new.
    pub fn handle_datagram(&mut self, now: Time, ecn: Codepoint, datagram: &mut [u8]) -> bool {
        let Some(opened) = self.packets.open(&[Kind::Data], datagram) else { return false };
        let number = opened.number;
        if !self.packets.admit(number) {
            return false;
        }
        self.heard = now;
        match &mut self.state {
            State::Open => {}
            State::Closing { due, .. } => {
                *due = true;
                return true;
            }
            State::Over => return true,
        }
        let taken = Preamble::parse(number, opened.body)
            .map_err(|_| MALFORMED)
            .and_then(|(preamble, frames)| self.on_packet(now, ecn, number, &preamble, frames));
        if let Err(forbidden) = taken {
            self.violated(now, forbidden);
        }
        true
    }

    fn on_packet(
        &mut self,
        now: Time,
        ecn: Codepoint,
        number: u64,
        preamble: &Preamble,
        frames: &[u8],
    ) -> Result<(), Forbidden> {
        let mut repaired = Vec::new();
        let handled = self.on_frames(now, number, frames, &mut repaired)?;
        if handled.refused {
            return Ok(());
        }
        self.received.on_packet(now, number, ecn, preamble);
        if handled.eliciting {
            self.received.on_eliciting(now, preamble.ahead);
        }
        if preamble.group != 0 {
            repaired.extend(self.repairing.on_member(preamble.group, number, frames));
        }
        for packet in repaired {
            self.on_repaired(now, packet)?;
        }
        Ok(())
    }

    /// Parity has brought a packet. What it carried is handled as if it had come; what comes of it later is the copy.
    fn on_repaired(&mut self, now: Time, Repaired { number, frames }: Repaired) -> Result<(), Forbidden> {
        if !self.received.misses(number) || !self.packets.admit(number) {
            return Ok(());
        }
        let handled = self.on_frames(now, number, &frames, &mut Vec::new())?;
        if !handled.refused {
            self.received.on_repaired(now, number);
        }
        Ok(())
    }

    fn on_frames(
        &mut self,
        now: Time,
        number: u64,
        frames: &[u8],
        repaired: &mut Vec<Repaired>,
    ) -> Result<Handled, Forbidden> {
        let mut handled = Handled::default();
        for frame in Frames::new(number, frames) {
            let frame = frame.map_err(|_| MALFORMED)?;
            handled.eliciting |= frame.elicits_ack();
            let taken = match frame {
                Frame::Stream { stream, offset, bytes, ends } => {
                    self.streams.on_piece(StreamId(stream), offset, bytes, ends)?
                }
                Frame::Ack(ack) => {
                    self.on_ack(now, &ack)?;
                    Taken::Yes
                }
                Frame::Parity(parity) => {
                    repaired.extend(self.repairing.on_parity(&parity));
                    Taken::Yes
                }
                Frame::MaxData(bytes) => {
                    self.streams.on_max_data(bytes);
                    Taken::Yes
                }
                Frame::MaxStreams(streams) => {
                    self.streams.on_max_streams(streams);
                    Taken::Yes
                }
                Frame::MaxStreamData { stream, bytes } => {
                    self.streams.on_max_stream_data(StreamId(stream), bytes)?
                }
                Frame::Reset { stream, code, size } => self.streams.on_reset(StreamId(stream), code, size)?,
                Frame::Stop { stream, code } => self.streams.on_stop(StreamId(stream), code)?,
                Frame::Close { code, reason } => {
                    let reason = String::from_utf8_lossy(reason).into_owned();
                    self.end(Closed::ByPeer { code, reason });
                    return Ok(handled);
                }
                Frame::Ping | Frame::Crypto { .. } | Frame::Token(_) => Taken::Yes,
            };
            handled.refused |= taken == Taken::No;
        }
        Ok(handled)
    }

    fn on_ack(&mut self, now: Time, ack: &Ack<'_>) -> Result<(), Forbidden> {
        if ack.largest >= self.packets.next_number() {
            return Err(Forbidden("an acknowledgement of what was not sent"));
        }
        let mut came: Vec<(u64, Sent)> = Vec::new();
        for range in ack.ranges() {
            if self.sent.first().is_none_or(|first| *range.end() < first) {
                break;
            }
            self.sent.take(range, now, |number, sent| came.push((number, sent)));
        }
        let newest = came.iter().map(|(_, sent)| sent.at).max();
        if let Some((_, sent)) = came.iter().find(|(number, _)| *number == ack.largest) {
            let delay = std::time::Duration::from_micros(ack.delay_us);
            self.rtt.measure(now.since(sent.at).saturating_sub(delay));
            self.received.set_rtt(self.rtt.get());
        }
        if !came.is_empty() {
            self.rtt.on_progress();
        }
        for (_, sent) in came {
            let (bytes, rtt) = (u64::from(sent.bytes), self.rtt.get());
            self.window.on_acknowledged(now, bytes, rtt, sent.limited);
            self.on_acknowledged(sent);
        }
        let newest = newest.unwrap_or(self.heard);
        if ack.repaired > self.repaired_at_peer {
            self.repaired_at_peer = ack.repaired;
            self.window.on_congestion(now, newest, Congestion::Light);
        }
        let marked = self.marking.ce();
        self.marking.on_counts(Counts { received: ack.received, ect: ack.ect, ce: ack.ce });
        if self.marking.ce() > marked {
            self.window.on_congestion(now, newest, Congestion::Light);
        }
        if ack.overdue > 0 {
            self.on_request(now, ack.overdue);
        }
        Ok(())
    }

    /// The receiver asks for all that has not come below a number (section II-A: receiver timeouts).
    fn on_request(&mut self, now: Time, overdue: u64) {
        // Whatever happens, it is to learn what it need not wait for.
        self.owes_floor = true;
        let Some(first) = self.sent.first().filter(|first| *first < overdue) else { return };
        // What was sent later cannot have been missed yet when that was said.
        let (until, mut lost) = (now - self.rtt.least(), Vec::new());
        self.sent.take(first..=overdue - 1, until, |_, sent| lost.push(sent));
        self.counters.requested += lost.len() as u64;
        self.on_lost(now, lost);
    }
}

const MALFORMED: Forbidden = Forbidden("a packet that is none of ATP's");
