//! What a peer says of streams.

use super::super::interface::{Event, StreamId};
use super::super::receive_stream::{Taken, Violation};
use super::{Forbidden, Stream, Streams};

impl From<Violation> for Forbidden {
    fn from(violation: Violation) -> Self {
        Forbidden(match violation {
            Violation::BeyondMax => "more bytes of a stream than were allowed",
            Violation::TwoEnds => "a stream with two ends",
        })
    }
}

/// A stream that the peer names.
enum Named<'a> {
    Stream(&'a mut Stream),
    /// It was there, and is over.
    Over,
    /// It would be new, and there is no memory for it.
    NoMemory,
}

impl Streams {
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
            // Whoever has finished it has nothing more to write.
            let is_open = stream.send.is_open();
            self.give_up(id, |send| send.on_stop(code));
            if is_open {
                self.events.push_back(Event::Stopped(id, code));
            }
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
        if streams > self.may_open {
            self.may_open = streams;
            self.events.push_back(Event::MayOpen);
        }
    }
}
