//! The streams of a connection, and how much of them may be sent and held.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use super::interface::{
    Closed, ConnectionConfig, Event, FIRST_STREAMS, FIRST_WINDOW_BYTES, Read, StreamId, WriteError,
};
use super::receive_stream::{ReceiveStream, Taken, Violation};
use super::send_stream::{Piece, SendStream};
use crate::protect::Side;
use crate::{Held, Time};

/// What is counted for a connection, with its lists of packets, and for a stream, besides its bytes.
const CONNECTION_BYTES: usize = 32 << 10;
const STREAM_BYTES: usize = 512;
/// Memory is taken from the budget in steps of this.
const STEP_BYTES: usize = 8 << 10;
/// Where there was none left, it is tried again after this.
const RETRY: Duration = Duration::from_millis(10);

/// The peer does what is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forbidden(pub(crate) &'static str);

impl From<Violation> for Forbidden {
    fn from(violation: Violation) -> Self {
        Forbidden(match violation {
            Violation::BeyondMax => "more bytes of a stream than were allowed",
            Violation::TwoEnds => "a stream with two ends",
        })
    }
}

#[derive(Debug)]
struct Stream {
    send: SendStream,
    receive: ReceiveStream,
    /// It is among those that have something to send.
    queued: bool,
    /// The application knows that there is something to read.
    told_readable: bool,
    /// A write has found too little room.
    wants_room: bool,
    /// The window is to be told anew, or that nothing more is wanted, with the application's reason.
    owes_max: bool,
    stop: Option<(u64, bool)>,
    /// What of it the connection's window has got back.
    returned: u64,
}

/// What is to be told besides pieces of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    MaxData(u64),
    MaxStreams(u64),
    MaxStreamData(StreamId, u64),
    Reset { stream: StreamId, code: u64, size: u64 },
    Stop(StreamId, u64),
}

/// A stream that the peer names.
enum Named<'a> {
    Stream(&'a mut Stream),
    /// It was there, and is over.
    Over,
    /// It would be new, and there is no memory for it.
    NoMemory,
}

/// All streams of a connection.
#[derive(Debug)]
pub(crate) struct Streams {
    side: Side,
    streams: HashMap<StreamId, Stream>,
    /// How many this end has opened, and may open in all.
    opened: u64,
    may_open: u64,
    /// How many the peer has opened, may open in all, and may have open at a time.
    peer_opened: u64,
    peer_may_open: u64,
    most_of_peer: u64,
    peer_open: u64,
    owes_max_streams: bool,
    /// Streams with something to send, the next one first.
    ready: VecDeque<StreamId>,
    /// Streams with something to tell besides.
    notices: VecDeque<StreamId>,
    /// Bytes that were sent for the first time, and how many the peer lets be.
    sent: u64,
    may_send: u64,
    /// Bytes that the peer has sent, may send, and that were read.
    came: u64,
    may_come: u64,
    read: u64,
    owes_max_data: bool,
    window: u64,
    max_window: u64,
    /// When the window was last told.
    told: Option<Time>,
    /// Bytes that are written and not acknowledged, and how many may be.
    unsent: usize,
    most_unsent: usize,
    waiting: Vec<StreamId>,
    /// Memory of what came and was not read, and of what is held beside streams.
    unread: usize,
    beside: usize,
    held: Held,
    /// There was no memory for what was to be written: when it is tried again.
    retry: Option<Time>,
    events: VecDeque<Event>,
    closed: bool,
}

impl Streams {
    /// None if the budget has no room for another connection.
    pub(crate) fn new(side: Side, config: &ConnectionConfig) -> Option<Self> {
        let most_of_peer = config.max_streams.max(1);
        let window = config.window_bytes.max(FIRST_WINDOW_BYTES);
        Some(Streams {
            side,
            streams: HashMap::new(),
            opened: 0,
            may_open: FIRST_STREAMS,
            peer_opened: 0,
            peer_may_open: FIRST_STREAMS,
            most_of_peer,
            peer_open: 0,
            owes_max_streams: most_of_peer > FIRST_STREAMS,
            ready: VecDeque::new(),
            notices: VecDeque::new(),
            sent: 0,
            may_send: FIRST_WINDOW_BYTES,
            came: 0,
            may_come: FIRST_WINDOW_BYTES,
            read: 0,
            owes_max_data: window > FIRST_WINDOW_BYTES,
            window,
            max_window: config.max_window_bytes.max(window),
            told: None,
            unsent: 0,
            most_unsent: config.send_bytes,
            waiting: Vec::new(),
            unread: 0,
            beside: 0,
            held: config.budget.take(CONNECTION_BYTES)?,
            retry: None,
            events: VecDeque::new(),
            closed: false,
        })
    }

    // For the application

    pub(crate) fn open(&mut self) -> Option<StreamId> {
        if self.closed
            || self.opened >= self.may_open
            || !self.hold(self.streams.len() + 1, self.unread, self.unsent)
        {
            return None;
        }
        let id = StreamId::new(self.side, self.opened);
        self.opened += 1;
        self.insert(id);
        Some(id)
    }

    /// Holds memory for so much; false if there is none left.
    fn hold(&mut self, streams: usize, unread: usize, unsent: usize) -> bool {
        let bytes = CONNECTION_BYTES + self.beside + streams * STREAM_BYTES + unread + unsent;
        let held = self.held.bytes();
        bytes <= held && bytes + 4 * STEP_BYTES >= held
            || self.held.resize(bytes.next_multiple_of(STEP_BYTES))
    }

    /// Holds so many bytes for something else than streams; false, and as many as before, if there are none left.
    pub(crate) fn hold_beside(&mut self, bytes: usize) -> bool {
        let before = std::mem::replace(&mut self.beside, bytes);
        let holds = self.hold(self.streams.len(), self.unread, self.unsent);
        if !holds {
            self.beside = before;
        }
        holds
    }

    fn insert(&mut self, id: StreamId) {
        let stream = Stream {
            send: SendStream::new(FIRST_WINDOW_BYTES),
            receive: ReceiveStream::new(FIRST_WINDOW_BYTES),
            queued: false,
            told_readable: false,
            wants_room: false,
            owes_max: false,
            stop: None,
            returned: 0,
        };
        self.streams.insert(id, stream);
        if self.window > FIRST_WINDOW_BYTES {
            self.widen(id, self.window);
        }
    }

    pub(crate) fn write(&mut self, now: Time, id: StreamId, bytes: &[u8]) -> Result<usize, WriteError> {
        if self.closed {
            return Err(WriteError::Closed);
        }
        self.writable(id)?;
        let room = self.most_unsent.saturating_sub(self.unsent);
        let mut count = bytes.len().min(room);
        if !self.hold(self.streams.len(), self.unread, self.unsent + count) {
            count = 0;
            self.retry.get_or_insert(now + RETRY);
        }
        let stream = self.streams.get_mut(&id).ok_or(WriteError::NotOpen)?;
        stream.send.write(&bytes[..count]);
        self.unsent += count;
        if count < bytes.len() && !std::mem::replace(&mut stream.wants_room, true) {
            self.waiting.push(id);
        }
        self.queue(id);
        Ok(count)
    }

    fn writable(&mut self, id: StreamId) -> Result<&mut Stream, WriteError> {
        let stream = self.streams.get_mut(&id).ok_or(WriteError::NotOpen)?;
        match stream.send.stopped() {
            Some(code) => Err(WriteError::Stopped(code)),
            None if stream.send.is_open() => Ok(stream),
            None => Err(WriteError::NotOpen),
        }
    }

    pub(crate) fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        self.writable(id)?.send.finish();
        self.queue(id);
        Ok(())
    }

    pub(crate) fn reset(&mut self, id: StreamId, code: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            let before = stream.send.held_bytes();
            stream.send.reset(code);
            self.unsent -= before - stream.send.held_bytes();
            self.notices.push_back(id);
            self.make_room();
            self.retire(id);
        }
    }

    pub(crate) fn stop(&mut self, id: StreamId, code: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            if !stream.receive.is_over() {
                stream.stop.get_or_insert((code, false));
                self.notices.push_back(id);
            }
            self.unread -= stream.receive.held_bytes();
            stream.receive.stop();
            self.give_back(id);
            self.retire(id);
        }
    }

    pub(crate) fn read(&mut self, now: Time, rtt: Duration, id: StreamId, out: &mut [u8]) -> Read {
        let Some(stream) = self.streams.get_mut(&id).filter(|_| !self.closed) else { return Read::NotOpen };
        let before = stream.receive.held_bytes();
        let count = stream.receive.read(out);
        if count > 0 {
            self.unread = self.unread - before + stream.receive.held_bytes();
            self.give_back(id);
            self.grow_window(now, rtt);
            return Read::Bytes(count);
        }
        let answer = match stream.receive.reset() {
            Some(code) => Read::Reset(code),
            None if stream.receive.has_ended() => Read::End,
            None => {
                stream.told_readable = false;
                return Read::Nothing;
            }
        };
        self.unread -= before;
        stream.receive.stop();
        self.retire(id);
        answer
    }

    /// Something has happened that the application is to know.
    pub(crate) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Bytes that were written and are not acknowledged.
    pub(crate) fn unacknowledged_bytes(&self) -> usize {
        self.unsent
    }

    /// Bytes of memory of both directions.
    pub(crate) fn held_bytes(&self) -> usize {
        self.unread + self.unsent
    }

    /// Whether no stream is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    pub(crate) fn close(&mut self, why: Closed) {
        if !std::mem::replace(&mut self.closed, true) {
            self.streams.clear();
            (self.ready, self.notices, self.waiting) = Default::default();
            (self.unread, self.beside, self.unsent, self.retry) = (0, 0, 0, None);
            self.hold(0, 0, 0);
            self.events.push_back(Event::Closed(why));
        }
    }

    // What the peer says

    /// A stream that the peer names.
    fn named(&mut self, id: StreamId) -> Result<Named<'_>, Forbidden> {
        if id.opener() == self.side {
            if id.nth() >= self.opened {
                return Err(Forbidden("a stream that this side has not opened"));
            }
        } else {
            if id.nth() >= self.peer_may_open {
                return Err(Forbidden("more streams than were allowed"));
            }
            let more = (id.nth() + 1).saturating_sub(self.peer_opened) as usize;
            if more > 0 && !self.hold(self.streams.len() + more, self.unread, self.unsent) {
                return Ok(Named::NoMemory);
            }
            while self.peer_opened <= id.nth() {
                let new = StreamId::new(id.opener(), self.peer_opened);
                self.peer_opened += 1;
                self.peer_open += 1;
                self.insert(new);
                self.events.push_back(Event::Opened(new));
            }
        }
        Ok(self.streams.get_mut(&id).map_or(Named::Over, Named::Stream))
    }

    pub(crate) fn on_piece(
        &mut self,
        id: StreamId,
        offset: u64,
        bytes: &[u8],
        ends: bool,
    ) -> Result<Taken, Forbidden> {
        let (came, may_come) = (self.came, self.may_come);
        let end = offset + bytes.len() as u64;
        let stream = match self.named(id)? {
            Named::Stream(stream) => stream,
            Named::Over => return Ok(Taken::Yes),
            Named::NoMemory => return Ok(Taken::No),
        };
        let new = stream.receive.new_bytes(end);
        if came + new > may_come {
            return Err(Forbidden("more bytes than were allowed"));
        }
        let (before, after) = (stream.receive.held_bytes(), stream.receive.would_hold(end));
        if after > before && !self.hold(self.streams.len(), self.unread - before + after, self.unsent) {
            return Ok(Taken::No);
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(Taken::Yes) };
        if stream.receive.insert(offset, bytes, ends)? == Taken::No {
            return Ok(Taken::No);
        }
        self.unread = self.unread - before + stream.receive.held_bytes();
        self.came += new;
        self.on_news(id);
        Ok(Taken::Yes)
    }

    /// The peer has given a stream up.
    pub(crate) fn on_reset(&mut self, id: StreamId, code: u64, size: u64) -> Result<Taken, Forbidden> {
        let (came, may_come) = (self.came, self.may_come);
        let stream = match self.named(id)? {
            Named::Stream(stream) => stream,
            Named::Over => return Ok(Taken::Yes),
            Named::NoMemory => return Ok(Taken::No),
        };
        let new = stream.receive.new_bytes(size);
        if came.saturating_add(new) > may_come {
            return Err(Forbidden("more bytes than were allowed"));
        }
        let before = stream.receive.held_bytes();
        stream.receive.on_reset(code, size)?;
        let after = stream.receive.held_bytes();
        self.unread = self.unread - before + after;
        self.came += new;
        self.on_news(id);
        Ok(Taken::Yes)
    }

    /// Something has come of a stream.
    fn on_news(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.receive.is_readable()
            && !std::mem::replace(&mut stream.told_readable, true)
        {
            self.events.push_back(Event::Readable(id));
        }
        self.give_back(id);
        self.retire(id);
    }

    /// The peer wants no more of a stream.
    pub(crate) fn on_stop(&mut self, id: StreamId, code: u64) -> Result<Taken, Forbidden> {
        let stream = match self.named(id)? {
            Named::Stream(stream) => stream,
            Named::Over => return Ok(Taken::Yes),
            Named::NoMemory => return Ok(Taken::No),
        };
        if stream.send.stopped().is_none() && !stream.send.is_over() {
            let before = stream.send.held_bytes();
            stream.send.on_stop(code);
            let less = before - stream.send.held_bytes();
            self.unsent -= less;
            self.notices.push_back(id);
            self.events.push_back(Event::Stopped(id, code));
            self.make_room();
        }
        Ok(Taken::Yes)
    }

    pub(crate) fn on_max_data(&mut self, bytes: u64) {
        self.may_send = self.may_send.max(bytes);
    }

    pub(crate) fn on_max_stream_data(&mut self, id: StreamId, bytes: u64) -> Result<Taken, Forbidden> {
        match self.named(id)? {
            Named::Stream(stream) => {
                stream.send.on_max(bytes);
                self.queue(id);
            }
            Named::Over => {}
            Named::NoMemory => return Ok(Taken::No),
        }
        Ok(Taken::Yes)
    }

    pub(crate) fn on_max_streams(&mut self, streams: u64) {
        self.may_open = self.may_open.max(streams);
    }

    // Flow control

    /// What was read of a stream, or is of no interest any more, may come again in other bytes.
    fn give_back(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let consumed = stream.receive.consumed();
        self.read += consumed - std::mem::replace(&mut stream.returned, consumed);
        if !stream.owes_max && stream.receive.wants_max() {
            stream.owes_max = true;
            self.notices.push_back(id);
        }
        self.owes_max_data |= self.read + self.window - self.may_come >= self.window / 2;
    }

    /// A reader that keeps up is what limits the sender: it gets more room.
    fn grow_window(&mut self, now: Time, rtt: Duration) {
        if !self.owes_max_data || self.window >= self.max_window {
            return;
        }
        let soon = self.told.is_some_and(|told| now.since(told) < 4 * rtt);
        if soon {
            self.window = (2 * self.window).min(self.max_window);
            let ids: Vec<_> = self.streams.keys().copied().collect();
            for id in ids {
                self.widen(id, self.window);
            }
        }
        self.told = Some(now);
    }

    fn widen(&mut self, id: StreamId, window: u64) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.receive.widen(window);
            if !std::mem::replace(&mut stream.owes_max, true) {
                self.notices.push_back(id);
            }
        }
    }

    fn make_room(&mut self) {
        self.hold(self.streams.len(), self.unread, self.unsent);
        if self.unsent < self.most_unsent / 2 {
            for id in self.waiting.drain(..) {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.wants_room = false;
                    self.events.push_back(Event::Writable(id));
                }
            }
        }
    }

    /// When [`Streams::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.retry
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.retry.take_if(|at| *at <= now).is_some() {
            self.make_room();
        }
    }

    // Sending

    fn queue(&mut self, id: StreamId) {
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
            self.make_room();
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
        self.widen(id, 0);
    }

    /// Forgets a stream of which nothing is to be sent or read any more.
    fn retire(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id) else { return };
        if !stream.send.is_over() || !stream.receive.is_over() || stream.receive.is_readable() {
            return;
        }
        self.unread -= stream.receive.held_bytes();
        self.streams.remove(&id);
        if id.opener() != self.side {
            self.peer_open -= 1;
            let more = self.could_open().saturating_sub(self.peer_may_open);
            self.owes_max_streams |= more >= self.most_of_peer.div_ceil(2);
        }
    }

    /// How many streams the peer could be let open in all.
    fn could_open(&self) -> u64 {
        self.peer_opened + self.most_of_peer.saturating_sub(self.peer_open)
    }
}
