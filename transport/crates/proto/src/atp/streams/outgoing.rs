//! What is sent of streams, and what becomes of it.

use std::ops::Range;

use super::super::interface::StreamId;
use super::super::send_stream::Piece;
use super::Streams;

/// What is to be told besides pieces of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    MaxData(u64),
    MaxStreams(u64),
    MaxStreamData(StreamId, u64),
    Reset { stream: StreamId, code: u64, size: u64 },
    Stop(StreamId, u64),
}

impl Streams {
    pub(super) fn queue(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && !stream.queued
            && stream.send.is_pending(u64::MAX)
        {
            stream.queued = true;
            self.ready.push_back(id);
        }
    }

    fn credit(&self) -> u64 {
        self.may_send - self.sent
    }

    /// Bytes of streams that could be sent now, as far as `most`; 1 for an end without bytes.
    pub(crate) fn pending_bytes(&self, most: u64) -> u64 {
        let mut sum = 0;
        for id in &self.ready {
            let send = &self.streams[id].send;
            let bytes = send.pending_bytes(self.credit());
            sum += bytes.max(u64::from(send.is_pending(self.credit())));
            if sum >= most {
                break;
            }
        }
        sum.min(most)
    }

    /// Takes the next piece that fits into `room` bytes with its head, whose length for a piece of so many bytes at an offset
    /// `head` tells.
    pub(crate) fn take_piece(
        &mut self,
        room: usize,
        head: impl Fn(StreamId, u64, usize) -> usize,
    ) -> Option<(StreamId, Piece)> {
        for _ in 0..self.ready.len() {
            let id = *self.ready.front()?;
            let credit = self.credit();
            let stream = self.streams.get_mut(&id)?;
            let room = room.saturating_sub(head(id, stream.send.next_offset(), room));
            if room == 0 {
                return None;
            }
            if let Some(piece) = stream.send.take(room, credit) {
                if !piece.again {
                    self.sent += piece.bytes.end - piece.bytes.start;
                }
                if !stream.send.is_pending(u64::MAX) {
                    stream.queued = false;
                    self.ready.pop_front();
                }
                return Some((id, piece));
            }
            // It waits for the peer's leave: for its own, which queues it again, or for the connection's.
            if stream.send.is_pending(u64::MAX) {
                self.ready.rotate_left(1);
            } else {
                stream.queued = false;
                self.ready.pop_front();
            }
        }
        None
    }

    /// The next stream has its turn.
    pub(crate) fn take_turns(&mut self) {
        if self.ready.len() > 1 {
            self.ready.rotate_left(1);
        }
    }

    pub(crate) fn copy(&self, id: StreamId, bytes: Range<u64>, out: &mut Vec<u8>) {
        self.streams[&id].send.copy(bytes, out);
    }

    /// Whether something is to be told besides pieces.
    pub(crate) fn has_notices(&self) -> bool {
        self.owes_max_data || self.owes_max_streams || !self.notices.is_empty()
    }

    /// The next thing to tell.
    pub(crate) fn take_notice(&mut self) -> Option<Notice> {
        if std::mem::take(&mut self.owes_max_data) {
            self.may_come = self.may_come.max(self.read + self.window);
            return Some(Notice::MaxData(self.may_come));
        }
        if std::mem::take(&mut self.owes_max_streams) {
            self.peer_may_open = self.peer_may_open.max(self.could_open());
            return Some(Notice::MaxStreams(self.peer_may_open));
        }
        while let Some(id) = self.notices.front().copied() {
            let Some(stream) = self.streams.get_mut(&id) else {
                self.notices.pop_front();
                continue;
            };
            if let Some((code, size)) = stream.send.take_reset() {
                return Some(Notice::Reset { stream: id, code, size });
            }
            if let Some((code, told)) = &mut stream.stop
                && !std::mem::replace(told, true)
            {
                return Some(Notice::Stop(id, *code));
            }
            if std::mem::take(&mut stream.owes_max) {
                return Some(Notice::MaxStreamData(id, stream.receive.take_max()));
            }
            self.notices.pop_front();
        }
        None
    }

    // What became of what was sent

    pub(crate) fn on_piece_acknowledged(&mut self, id: StreamId, bytes: Range<u64>, ends: bool) {
        if let Some(stream) = self.streams.get_mut(&id) {
            self.unsent -= stream.send.on_acknowledged(bytes, ends);
            self.make_room_of(id);
            self.retire(id);
        }
    }

    pub(crate) fn on_piece_lost(&mut self, id: StreamId, bytes: Range<u64>, ends: bool) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.send.on_lost(bytes, ends);
            self.queue(id);
        }
    }

    pub(crate) fn on_reset_settled(&mut self, id: StreamId, acknowledged: bool) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.send.on_reset_settled(acknowledged);
            if !acknowledged {
                self.notices.push_back(id);
            }
            self.retire(id);
        }
    }

    pub(crate) fn on_stop_lost(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && let Some((_, told)) = &mut stream.stop
        {
            *told = false;
            self.notices.push_back(id);
        }
    }

    pub(crate) fn on_max_data_lost(&mut self) {
        self.owes_max_data = true;
    }

    pub(crate) fn on_max_streams_lost(&mut self) {
        self.owes_max_streams = true;
    }

    pub(crate) fn on_max_stream_data_lost(&mut self, id: StreamId) {
        self.announce(id);
    }
}
