//! The streams of a connection, and how much of them may be sent and held.

mod incoming;
mod outgoing;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

pub(crate) use outgoing::Notice;

use super::interface::{
    Closed, ConnectionConfig, Event, FIRST_STREAM_WINDOW_BYTES, FIRST_STREAMS, FIRST_WINDOW_BYTES, Read,
    StreamId, WriteError,
};
use super::receive_stream::ReceiveStream;
use super::send_stream::SendStream;
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
    /// Its window, and when that was last told.
    window: u64,
    told: Option<Time>,
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
    max_stream_window: u64,
    /// When the window was last told.
    told: Option<Time>,
    /// Bytes that are written and not acknowledged, and how many may be.
    unsent: usize,
    most_unsent: usize,
    most_unsent_of_stream: usize,
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
            max_stream_window: config.max_stream_window_bytes,
            told: None,
            unsent: 0,
            most_unsent: config.send_bytes.max(1),
            most_unsent_of_stream: config.stream_send_bytes.max(1),
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

    /// Tells the peer of a stream before there is anything to send.
    pub(crate) fn announce(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && !std::mem::replace(&mut stream.owes_max, true)
        {
            self.notices.push_back(id);
        }
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
            send: SendStream::new(FIRST_STREAM_WINDOW_BYTES),
            receive: ReceiveStream::new(FIRST_STREAM_WINDOW_BYTES),
            queued: false,
            told_readable: false,
            wants_room: false,
            owes_max: false,
            stop: None,
            returned: 0,
            window: FIRST_STREAM_WINDOW_BYTES,
            told: None,
        };
        self.streams.insert(id, stream);
    }

    pub(crate) fn write(&mut self, now: Time, id: StreamId, bytes: &[u8]) -> Result<usize, WriteError> {
        if self.closed {
            return Err(WriteError::Closed);
        }
        let held = self.writable(id)?.send.held_bytes();
        let room = self.most_unsent.saturating_sub(self.unsent);
        let mut count = bytes.len().min(room).min(self.most_unsent_of_stream.saturating_sub(held));
        if !self.hold(self.streams.len(), self.unread, self.unsent + count) {
            count = 0;
            self.retry.get_or_insert(now + RETRY);
        }
        let stream = self.streams.get_mut(&id).ok_or(WriteError::NotOpen)?;
        stream.send.write(&bytes[..count]);
        self.unsent += count;
        if count < bytes.len() {
            stream.wants_room = true;
            if count < bytes.len().min(self.most_unsent_of_stream.saturating_sub(held)) {
                // All streams together are what leaves no room.
                self.waiting.push(id);
            }
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
        self.give_up(id, |send| send.reset(code));
        self.retire(id);
    }

    /// What was written of a stream is not sent any more, but that it is not.
    fn give_up(&mut self, id: StreamId, reset: impl FnOnce(&mut SendStream)) {
        if self.closed {
            // All have been given up.
            return;
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            let before = stream.send.held_bytes();
            reset(&mut stream.send);
            self.unsent -= before - stream.send.held_bytes();
            self.notices.push_back(id);
            self.make_room_of(id);
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
        let Some(stream) = self.streams.get_mut(&id) else { return Read::NotOpen };
        let before = stream.receive.held_bytes();
        let count = stream.receive.read(out);
        if count > 0 {
            self.unread = self.unread - before + stream.receive.held_bytes();
            self.give_back(id);
            self.grow_windows(now, rtt, id);
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

    /// Whether such a stream was opened by either end, be it over or not.
    pub(crate) fn has_had(&self, id: StreamId) -> bool {
        id.nth() < if id.opener() == self.side { self.opened } else { self.peer_opened }
    }

    /// Whether no stream is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    /// The connection is over. `keeps`: what has come whole can still be read.
    pub(crate) fn close(&mut self, why: Closed, keeps: bool) {
        if !std::mem::replace(&mut self.closed, true) {
            self.streams.retain(|_, stream| keeps && stream.receive.is_whole());
            (self.ready, self.notices, self.waiting) = Default::default();
            // What was written is not counted any more, so it must not be held.
            self.streams.values_mut().for_each(|stream| stream.send.reset(0));
            (self.beside, self.unsent, self.retry) = (0, 0, None);
            self.unread = self.streams.values().map(|stream| stream.receive.held_bytes()).sum();
            self.hold(self.streams.len(), self.unread, 0);
            self.events.push_back(Event::Closed(why));
        }
    }

    /// Nobody reads what has come whole, now that the connection is over.
    pub(crate) fn forget(&mut self) {
        if self.closed {
            self.streams.clear();
            self.unread = 0;
            self.hold(0, 0, 0);
        }
    }

    /// Whether all has been acknowledged that was written of streams that are to be sent whole. The others are given up.
    pub(crate) fn are_sent(&mut self) -> bool {
        let ids: Vec<_> = self.streams.keys().copied().collect();
        for id in ids {
            if self.streams[&id].send.is_open() {
                self.give_up(id, |send| send.reset(0));
            }
        }
        self.streams.values().all(|stream| stream.send.is_over())
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
    fn grow_windows(&mut self, now: Time, rtt: Duration, id: StreamId) {
        let is_soon = |told: Option<Time>| told.is_some_and(|told| now.since(told) < 4 * rtt);
        if self.owes_max_data && is_soon(self.told.replace(now)) {
            self.window = (2 * self.window).min(self.max_window);
        }
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.owes_max)
            && is_soon(stream.told.replace(now))
            && stream.window < self.max_stream_window
        {
            stream.window = (2 * stream.window).min(self.max_stream_window);
            stream.receive.widen(stream.window);
        }
    }

    /// Something of a stream has been acknowledged, or given up.
    fn make_room_of(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.wants_room
            && stream.send.held_bytes() <= self.most_unsent_of_stream / 2
        {
            if self.unsent < self.most_unsent {
                stream.wants_room = false;
                self.events.push_back(Event::Writable(id));
            } else {
                self.waiting.push(id);
            }
        }
        self.make_room();
    }

    fn make_room(&mut self) {
        self.hold(self.streams.len(), self.unread, self.unsent);
        if self.unsent < self.most_unsent / 2 {
            for id in self.waiting.drain(..) {
                if let Some(stream) = self.streams.get_mut(&id)
                    && std::mem::take(&mut stream.wants_room)
                {
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

    /// Forgets a stream of which nothing is to be sent or read any more.
    fn retire(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id) else { return };
        let is_sent = stream.send.is_over() || self.closed;
        if !is_sent || !stream.receive.is_over() || stream.receive.is_readable() {
            return;
        }
        self.unread -= stream.receive.held_bytes();
        if stream.queued {
            // What was to be sent again has come after all, or is not wanted any more.
            self.ready.retain(|ready| *ready != id);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_is_over_has_no_turn_to_send() {
        let mut streams = Streams::new(Side::Client, &ConnectionConfig::default()).unwrap();
        let [over, other] = [streams.open().unwrap(), streams.open().unwrap()];
        for id in [over, other] {
            streams.write(Time::ZERO, id, &[7; 10]).unwrap();
            streams.finish(id).unwrap();
        }
        let (id, piece) = streams.take_piece(1000, |_, _, _| 0).unwrap();
        assert_eq!((id, piece.bytes.clone(), piece.ends), (over, 0..10, true));
        // All of the other direction has come, and been read.
        streams.on_piece(over, 0, b"", true).unwrap();
        assert_eq!(streams.read(Time::ZERO, Duration::ZERO, over, &mut [0; 10]), Read::End);
        // The piece seems to be lost, and then is acknowledged before it is sent again.
        streams.on_piece_lost(over, piece.bytes.clone(), true);
        assert_eq!(streams.pending_bytes(1000), 20);
        streams.on_piece_acknowledged(over, piece.bytes, true);
        assert_eq!(streams.pending_bytes(1000), 10);
        assert_eq!(streams.take_piece(1000, |_, _, _| 0).map(|(id, _)| id), Some(other));
    }

    #[test]
    fn a_stream_that_was_given_up_before_its_turn_has_none_any_more() {
        let mut streams = Streams::new(Side::Client, &ConnectionConfig::default()).unwrap();
        let [over, other] = [streams.open().unwrap(), streams.open().unwrap()];
        for id in [over, other] {
            streams.write(Time::ZERO, id, &[7; 10]).unwrap();
        }
        // Both ends give it up, and know that of each other.
        streams.on_reset(over, 5, 0).unwrap();
        assert_eq!(streams.read(Time::ZERO, Duration::ZERO, over, &mut [0]), Read::Reset(5));
        streams.reset(over, 5);
        let reset = Notice::Reset { stream: over, code: 5, size: 0 };
        assert!(std::iter::from_fn(|| streams.take_notice()).any(|notice| notice == reset));
        streams.on_reset_settled(over, true);
        assert_eq!(streams.pending_bytes(1000), 10);
        assert_eq!(streams.take_piece(1000, |_, _, _| 0).map(|(id, _)| id), Some(other));
    }
}
