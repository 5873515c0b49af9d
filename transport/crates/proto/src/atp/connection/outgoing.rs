//! What an end sends, and what becomes of it.

use wire::atp::{
    Frame, PARITY_BYTES, Preamble, Refusal, emit_parity_head, emit_stream_head, stream_head_len,
};
use wire::packet::{HEADER_BYTES, Header, Kind};

use super::super::sent::{Content, Sent};
use super::super::streams::Notice;
use super::super::window::Congestion;
use super::{Connection, State};
use crate::Time;
use crate::ecn::Codepoint;

/// Ranges of an acknowledgement that shares a packet with data.
const SHARED_RANGES: usize = 16;
/// What is left free of a packet's room for notices: the longest of them, and none is longer.
const NOTICE_BYTES: usize = 1 + 3 * 8;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// Streams, and what is to be told of them.
    Data {
        ahead: u8,
        /// Those of `ahead` that are of the same kind.
        follow: u8,
    },
    Parity {
        ahead: u8,
    },
    Ping,
    /// Nothing that needs an answer: an acknowledgement, or a floor.
    Answer,
}

impl Connection {
    /// Appends the next datagram to `buffer`, and tells what its IP header is to bear; none if there is nothing to send now.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Codepoint> {
        if self.state != State::Open {
            return self.transmit_close(buffer).then_some(Codepoint::NotEct);
        }
        let most = usize::from(self.config.datagram_bytes);
        if let Some(opening) = &mut self.opening {
            if opening.is_due() {
                let number = self.packets.take_number();
                opening.emit(now, self.packets.connection(), number, most, buffer);
                return Some(Codepoint::NotEct);
            }
            if !opening.may_send(most) {
                return None;
            }
        }
        let kind = self.kind()?;
        let purpose = self.purpose(now)?;
        let begin = buffer.len();
        let eliciting = purpose != Purpose::Answer;
        let marks = eliciting && self.marking.is_on();
        match purpose {
            Purpose::Parity { ahead } => self.transmit_parity(now, kind, buffer, ahead),
            Purpose::Data { ahead, follow } => self.transmit_data(now, kind, buffer, ahead, follow),
            Purpose::Ping | Purpose::Answer => self.transmit_short(now, kind, buffer, purpose),
        }
        self.owes_floor = false;
        if eliciting {
            let bytes = (buffer.len() - begin) as u64;
            self.asked = now;
            self.counters.sent += 1;
            self.counters.sent_bytes += bytes;
            if matches!(purpose, Purpose::Parity { .. }) {
                self.counters.parity += 1;
                self.counters.parity_bytes += bytes;
            }
        }
        if let Some(opening) = &mut self.opening {
            opening.on_sent(buffer.len() - begin);
        }
        self.marking.on_sent(now, self.rtt.get(), 1, marks);
        Some(if marks { Codepoint::Ect0 } else { Codepoint::NotEct })
    }

    /// What is to be sent next. Data comes before its parity, as it is all that most need; but not many parities wait.
    fn purpose(&mut self, now: Time) -> Option<Purpose> {
        let room = self.window.bytes().saturating_sub(self.sent.in_flight());
        let packet = u64::from(self.config.datagram_bytes);
        // What is lost is asked for if anything is on its way; and if nothing is, something has to be.
        let lets = room >= packet || self.sent.in_flight() == 0;
        let notices =
            self.streams.has_notices() || self.owes_done || self.has_token() || self.after.is_pending();
        let pending = self.streams.pending_bytes(room.max(packet)) + u64::from(notices);
        if pending > 0 && !lets {
            self.window.on_full(now);
        }
        let follow = pending.div_ceil(self.payload_bytes() as u64);
        let parities = self.grouping.due() as u64;
        if lets && pending > 0 && !self.grouping.is_pressing() {
            // The last packet is followed by parity of all that is open.
            let ahead = follow - 1 + parities + u64::from(self.config.parity);
            return Some(Purpose::Data { ahead: clamp(ahead), follow: clamp(follow - 1) });
        }
        if pending == 0 {
            self.grouping.close_all();
        }
        let parities = self.grouping.due() as u64;
        if parities > 0 {
            let ahead = parities - 1 + if lets { follow } else { 0 };
            return Some(Purpose::Parity { ahead: clamp(ahead) });
        }
        if self.owes_ping {
            return Some(Purpose::Ping);
        }
        (self.received.is_due() || self.owes_floor).then_some(Purpose::Answer)
    }

    /// Whether the client is to be told its token, now that it is known to be where it says.
    fn has_token(&self) -> bool {
        self.is_through && self.token.as_ref().is_some_and(|(_, told)| !told)
    }

    /// What fits into a packet, about.
    fn payload_bytes(&self) -> usize {
        self.frame_bytes() - 16
    }

    /// Bytes of frames that a packet has room for, so that a parity can repair it.
    fn frame_bytes(&self) -> usize {
        let number = self.packets.next_number();
        let preamble = Preamble { group: 0, ahead: 0, floor: self.floor() }.len(number);
        let around = HEADER_BYTES + preamble + PARITY_BYTES + self.packets.tag_bytes();
        usize::from(self.config.datagram_bytes) - around
    }

    /// Nothing below is on its way.
    fn floor(&self) -> u64 {
        self.sent.first().unwrap_or(self.packets.next_number())
    }

    fn transmit_data(&mut self, now: Time, kind: Kind, buffer: &mut Vec<u8>, ahead: u8, follow: u8) {
        let (room, floor) = (self.frame_bytes(), self.floor());
        let flight = u32::from(follow) + 1;
        let most = self.group();
        let mut content = self.sent.content();
        let tells_token = self.has_token();
        let Self { packets, streams, received, grouping, after, token, owes_done, .. } = self;
        let begin = buffer.len();
        let parity = self.config.parity;
        let number = packets.seal(kind, buffer, |number, body| {
            let preamble = body.len();
            Preamble { group: 0, ahead, floor }.emit(number, body);
            let frames = body.len();
            if received.has_news() {
                received.emit(now, SHARED_RANGES, body);
            }
            while body.len() - frames + NOTICE_BYTES <= room
                && let Some(notice) = streams.take_notice()
            {
                content.push(emit_notice(notice, body));
            }
            if std::mem::take(owes_done) {
                Frame::Done.emit(body);
                content.push(Content::Done);
            }
            if let Some((token, told)) = token.as_mut().filter(|_| tells_token) {
                *told = true;
                Frame::Token(token).emit(body);
                content.push(Content::Token);
            }
            let left = room.saturating_sub(body.len() - frames + NOTICE_BYTES);
            let mut bytes = Vec::new();
            if let Some(range) = after.take(left, &mut bytes) {
                Frame::Crypto { offset: range.start, bytes: &bytes }.emit(body);
                content.push(Content::Crypto(range));
            }
            let head = |id: super::StreamId, offset, length| stream_head_len(id.0, offset, length);
            while let Some((id, piece)) = streams.take_piece(room.saturating_sub(body.len() - frames), head) {
                let (offset, length) = (piece.bytes.start, (piece.bytes.end - piece.bytes.start) as usize);
                let to_end = body.len() - frames + head(id, offset, length) + length >= room;
                emit_stream_head(id.0, offset, length, piece.ends, to_end, body);
                streams.copy(id, piece.bytes.clone(), body);
                content.push(Content::Stream { stream: id, bytes: piece.bytes, ends: piece.ends });
                if to_end {
                    break;
                }
            }
            if content.is_empty() {
                // What was to be told is of no interest any more.
                Frame::Ping.emit(body);
            }
            streams.take_turns();
            if parity {
                body[preamble] = grouping.add(number, &body[frames..], most, flight);
            }
        });
        self.push(now, number, buffer.len() - begin, content);
    }

    fn push(&mut self, now: Time, number: u64, bytes: usize, content: Vec<Content>) {
        let bytes = bytes as u32;
        // At the beginning the window grows so fast that a sender need not fill it to be limited by it (RFC 7661).
        let in_flight = self.sent.in_flight() + u64::from(bytes);
        let limited = self.window.is_starting() && 2 * in_flight >= self.window.bytes();
        self.sent.push(number, Sent { at: now, bytes, limited, content });
    }

    fn transmit_parity(&mut self, now: Time, kind: Kind, buffer: &mut Vec<u8>, ahead: u8) {
        let Some(group) = self.grouping.pop() else { return };
        let floor = self.floor();
        let begin = buffer.len();
        let number = self.packets.seal(kind, buffer, |number, body| {
            Preamble { group: 0, ahead, floor }.emit(number, body);
            let parity = group.parity();
            if emit_parity_head(number, &parity, body) {
                body.extend_from_slice(parity.xor);
            }
        });
        let content = self.sent.content();
        self.push(now, number, buffer.len() - begin, content);
    }

    fn transmit_short(&mut self, now: Time, kind: Kind, buffer: &mut Vec<u8>, purpose: Purpose) {
        let (begin, floor) = (buffer.len(), self.floor());
        let Self { packets, received, .. } = self;
        let number = packets.seal(kind, buffer, |number, body| {
            Preamble { group: 0, ahead: 0, floor }.emit(number, body);
            if received.has_news() {
                received.emit(now, wire::atp::MAX_RANGES, body);
            }
            if purpose == Purpose::Ping {
                Frame::Ping.emit(body);
            }
        });
        if purpose == Purpose::Ping {
            self.owes_ping = false;
            let content = self.sent.content();
            self.push(now, number, buffer.len() - begin, content);
        }
    }

    fn transmit_close(&mut self, buffer: &mut Vec<u8>) -> bool {
        let floor = self.floor();
        let State::Closing { code, reason, due, .. } = &mut self.state else { return false };
        if !std::mem::take(due) {
            return false;
        }
        let reason = &reason.as_bytes()[..reason.len().min(512)];
        if !self.has_keys {
            let (connection, number) = (self.packets.connection(), self.packets.take_number());
            Header { kind: Kind::Refusal, connection, number }.emit(buffer);
            Refusal { code: *code, reason }.emit(buffer);
            return true;
        }
        self.packets.seal(Kind::Data, buffer, |number, body| {
            Preamble { group: 0, ahead: 0, floor }.emit(number, body);
            Frame::Close { code: *code, reason }.emit(body);
        });
        true
    }

    /// What was sent first has been waited for in vain: the sender's timeout, the last resort (section II-A).
    pub(super) fn on_timeout(&mut self, now: Time) {
        let until = now - self.timeout();
        let mut lost = Vec::new();
        if let Some(first) = self.sent.first() {
            self.sent.take(first..=self.packets.next_number(), until, |_, sent| lost.push(sent));
        }
        self.counters.timeouts += 1;
        self.counters.timed_out += lost.len() as u64;
        self.rtt.on_timeout();
        self.on_lost(now, lost);
    }

    /// Packets have been lost, and parity has not brought them.
    pub(super) fn on_lost(&mut self, now: Time, lost: Vec<Sent>) {
        self.benefit.on_losses(0, lost.len() as u64);
        for sent in &lost {
            self.window.on_congestion(now, sent.at, Congestion::Heavy);
        }
        self.send_again(lost);
    }

    /// What was in packets is to be sent again.
    pub(super) fn send_again(&mut self, lost: Vec<Sent>) {
        for sent in lost {
            let streams = &mut self.streams;
            for content in &sent.content {
                match content {
                    Content::Stream { stream, bytes, ends } => {
                        streams.on_piece_lost(*stream, bytes.clone(), *ends);
                    }
                    Content::Crypto(bytes) => self.after.on_lost(bytes.clone()),
                    Content::Done => self.owes_done = true,
                    Content::Token => {
                        if let Some((_, told)) = &mut self.token {
                            *told = false;
                        }
                    }
                    Content::MaxData => streams.on_max_data_lost(),
                    Content::MaxStreamData(stream) => streams.on_max_stream_data_lost(*stream),
                    Content::MaxStreams => streams.on_max_streams_lost(),
                    Content::Reset(stream) => streams.on_reset_settled(*stream, false),
                    Content::Stop(stream) => streams.on_stop_lost(*stream),
                }
            }
            self.sent.recycle(sent.content);
        }
    }

    /// A packet has come to the peer.
    pub(super) fn on_acknowledged(&mut self, sent: Sent) {
        for content in &sent.content {
            match content {
                Content::Stream { stream, bytes, ends } => {
                    self.streams.on_piece_acknowledged(*stream, bytes.clone(), *ends);
                }
                Content::Reset(stream) => self.streams.on_reset_settled(*stream, true),
                Content::Crypto(bytes) => self.after.on_acknowledged(bytes.clone()),
                Content::Token => self.token = None,
                Content::Done
                | Content::MaxData
                | Content::MaxStreamData(_)
                | Content::MaxStreams
                | Content::Stop(_) => {}
            }
        }
        self.sent.recycle(sent.content);
    }
}

fn clamp(packets: u64) -> u8 {
    packets.min(u64::from(u8::MAX)) as u8
}

fn emit_notice(notice: Notice, body: &mut Vec<u8>) -> Content {
    let (frame, content) = match notice {
        Notice::MaxData(bytes) => (Frame::MaxData(bytes), Content::MaxData),
        Notice::MaxStreams(streams) => (Frame::MaxStreams(streams), Content::MaxStreams),
        Notice::MaxStreamData(id, bytes) => {
            (Frame::MaxStreamData { stream: id.0, bytes }, Content::MaxStreamData(id))
        }
        Notice::Reset { stream, code, size } => {
            (Frame::Reset { stream: stream.0, code, size }, Content::Reset(stream))
        }
        Notice::Stop(id, code) => (Frame::Stop { stream: id.0, code }, Content::Stop(id)),
    };
    frame.emit(body);
    content
}
