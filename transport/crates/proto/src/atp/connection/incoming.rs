//! What comes, and what an end does about it.

use std::time::Duration;

use wire::atp::{Ack, AckCounts, Crypto, Frame, Frames, Preamble, Refusal};
use wire::packet::{HEADER_BYTES, Header, Kind};

use super::super::interface::{Closed, Event, StreamId};
use super::super::parity::{Repaired, Repairing};
use super::super::receive_stream::Taken;
use super::super::sent::Sent;
use super::super::streams::Forbidden;
use super::super::window::Congestion;
use super::{CODE_TLS, Connection, State};
use crate::Time;
use crate::ecn::{Codepoint, Counts};
use crate::protect::Side;

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
        if let Some(opening) = &mut self.opening {
            opening.count(datagram.len());
        }
        match Header::parse(datagram) {
            Ok(header) if header.connection == self.packets.connection() => match header.kind {
                Kind::Initial | Kind::Handshake | Kind::Refusal | Kind::Retry => {
                    return self.on_opening(now, ecn, &header, datagram);
                }
                Kind::Data if !self.is_through => {
                    // It counts only when each end has shown that it has the keys; until then it is kept.
                    if let Some(opening) = &mut self.opening {
                        opening.hold(now, ecn, datagram);
                    }
                    return false;
                }
                _ => {}
            },
            _ => {}
        }
        let Some(opened) = self.packets.open(&[Kind::Data, Kind::Early], datagram) else { return false };
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

    /// A datagram that opens the connection, or refuses to. Whether it is authentic: what is in clear is not.
    fn on_opening(&mut self, now: Time, ecn: Codepoint, header: &Header, datagram: &mut [u8]) -> bool {
        let Some(opening) = self.opening.as_mut().filter(|_| self.state == State::Open) else {
            // The peer does not know yet that it is through.
            self.owes_floor |= header.kind == Kind::Handshake;
            if let State::Closing { due, .. } = &mut self.state {
                *due = true;
            }
            return false;
        };
        let had_keys = opening.has_keys();
        let taken = match header.kind {
            Kind::Initial => match Crypto::parse_initial(&datagram[HEADER_BYTES..]) {
                Ok((crypto, _)) => opening.on_clear(now, &crypto).map(|()| false),
                Err(_) => Ok(false),
            },
            Kind::Handshake => match opening.on_sealed(now, header, datagram) {
                Some(taken) => taken,
                None => {
                    opening.hold(now, ecn, datagram);
                    Ok(false)
                }
            },
            Kind::Retry => {
                opening.on_retry(&datagram[HEADER_BYTES..]);
                return false;
            }
            _ => {
                if let Ok(Refusal { code, reason }) = Refusal::parse(&datagram[HEADER_BYTES..]) {
                    let reason = String::from_utf8_lossy(reason).into_owned();
                    self.end(Closed::Refused { code, reason });
                }
                return false;
            }
        };
        let gained = opening.has_keys() && !had_keys;
        match taken {
            Err(what) => self.fail(now, CODE_TLS, what.clone(), Closed::Tls(what)),
            Ok(authentic) => {
                if authentic {
                    self.heard = now;
                }
                self.advance(now, gained);
                return authentic;
            }
        }
        false
    }

    /// Does what has become possible by what TLS has got. `gained`: the handshake's keys are new.
    fn advance(&mut self, now: Time, gained: bool) {
        self.look_for_early_key();
        let Some(opening) = &mut self.opening else { return };
        if let Some(protection) = opening.take_protection() {
            self.packets.protect(protection);
            self.has_keys = true;
            if self.side == Side::Client
                && let Some(rtt) = opening.rtt(now)
            {
                self.rtt.measure(rtt);
                self.received.set_rtt(rtt);
            }
        }
        let through = opening.is_through() && self.has_keys && !self.is_through;
        let held = if gained || through { opening.take_held() } else { Vec::new() };
        if through {
            self.is_through = true;
            self.streams.tell(Event::Connected);
            let refused = self.was_early && !opening.takes_early();
            if self.side == Side::Server {
                self.owes_done = true;
                self.end_opening();
            } else if refused && let Some(first) = self.sent.first() {
                let mut lost = Vec::new();
                self.sent.take(first..=self.packets.next_number(), now, |_, sent| lost.push(sent));
                self.send_again(lost);
            }
        }
        for (ecn, mut datagram) in held {
            self.handle_datagram(now, ecn, &mut datagram);
        }
    }

    /// Packets that come, or go, before the handshake is through have a key of their own, if both ends let them.
    pub(super) fn look_for_early_key(&mut self) {
        if let Some(opening) = self.opening.as_ref().filter(|_| self.config.early && !self.was_early)
            && let Some(key) = opening.early_key()
        {
            self.packets.protect_early(key);
            self.was_early = true;
        }
    }

    /// Each end knows that the other is through.
    fn end_opening(&mut self) {
        if let Some(opening) = self.opening.take_if(|_| self.is_through) {
            let (tls, said) = opening.into_rest();
            self.after.begin(tls, &said);
        }
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
        if preamble.group != 0 && self.can_sum(frames.len()) {
            repaired.extend(self.repairing.on_member(preamble.group, number, frames));
        }
        for packet in repaired {
            self.on_repaired(now, packet)?;
        }
        Ok(())
    }

    /// Whether there is memory for sums of groups whose packets have such long frames.
    fn can_sum(&mut self, length: usize) -> bool {
        if length > self.longest && self.streams.hold_beside(Repairing::most_bytes(length)) {
            self.longest = length;
        }
        length <= self.longest
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
                    if self.can_sum(parity.xor.len()) {
                        repaired.extend(self.repairing.on_parity(&parity));
                    }
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
                Frame::Crypto { offset, bytes } => {
                    self.after.receive(offset, bytes).ok_or(Forbidden("what TLS does not accept"))?
                }
                Frame::Token(token) => {
                    if self.side == Side::Client {
                        self.streams.tell(Event::Token(token.to_vec()));
                    }
                    Taken::Yes
                }
                Frame::Done => {
                    self.end_opening();
                    Taken::Yes
                }
                Frame::Ping => Taken::Yes,
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
            let delay = Duration::from_micros(ack.counts.delay_us);
            self.rtt.measure(now.since(sent.at).saturating_sub(delay));
            self.received.set_rtt(self.rtt.get());
        }
        if !came.is_empty() {
            self.rtt.on_progress();
        }
        for (_, sent) in came {
            let (bytes, rtt) = (u64::from(sent.bytes), self.rtt.get());
            let limited = sent.limited || self.window.was_full_since(sent.at);
            self.window.on_acknowledged(now, sent.at, bytes, rtt, limited);
            self.on_acknowledged(sent);
        }
        let newest = newest.unwrap_or(self.heard);
        if let Some(repaired @ 1..) = ack.counts.repaired.checked_sub(self.repaired_at_peer) {
            self.repaired_at_peer = ack.counts.repaired;
            self.benefit.on_losses(repaired, 0);
            self.window.on_congestion(now, newest, Congestion::Light);
        }
        let marked = self.marking.ce();
        let AckCounts { received, ect, ce, overdue, .. } = ack.counts;
        self.marking.on_counts(Counts { received, ect, ce });
        if self.marking.ce() > marked {
            self.window.on_congestion(now, newest, Congestion::Light);
        }
        if overdue > 0 {
            self.on_request(now, overdue);
        }
        self.leave(now);
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
