//! What is behind the lock: the endpoint, and who waits for what.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::task::{Context, Poll, Waker};

use proto::Time;
use proto::atp::{CODE_REFUSED, Closed, ConnectionId, Endpoint, Event, StreamId, Transmit, WriteError};

use super::StreamError;
use crate::socket::DataSocket;

/// Connections that wait to be accepted; more are closed.
const MOST_ACCEPTED: usize = 1024;
/// A burst is no longer than a UDP datagram may be before it is cut.
const BURST_BYTES: usize = 64_000;

/// Who is to be woken.
#[derive(Debug, Default)]
pub(super) struct Wakers(Vec<Waker>);

impl Wakers {
    pub(super) fn add(&mut self, context: &Context<'_>) {
        if !self.0.iter().any(|waker| waker.will_wake(context.waker())) {
            self.0.push(context.waker().clone());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, others: &mut Wakers) {
        self.0.append(&mut others.0);
    }

    pub(super) fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

/// What is waited for at a connection.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) connected: bool,
    closed: Option<Closed>,
    opened: VecDeque<StreamId>,
    /// Streams that the peer wants no more of, while somebody may still write to them.
    pub(super) stopped: HashMap<StreamId, u64>,
    /// For whatever is not about one stream.
    pub(super) news: Wakers,
    pub(super) readers: HashMap<StreamId, Wakers>,
    pub(super) writers: HashMap<StreamId, Wakers>,
}

pub(super) struct State {
    pub(super) endpoint: Endpoint,
    connections: HashMap<ConnectionId, Waiting>,
    /// Connections that nobody has taken yet.
    pub(super) accepted: VecDeque<ConnectionId>,
    pub(super) accepting: Wakers,
    pub(super) closed: bool,
    /// A burst while it is made, and one that the socket had no room for.
    buffer: Vec<u8>,
    unsent: Option<Transmit>,
    /// When somebody who writes has sent last.
    pub(super) sent: Time,
    /// The socket's thread sleeps, until then at most.
    asleep: Option<Option<Time>>,
    /// A thread that waits receives, so that the socket's thread does not.
    pub(super) relieved: bool,
    /// The socket has failed another thread.
    pub(super) failure: Option<io::Error>,
}

impl State {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        State {
            endpoint,
            connections: HashMap::new(),
            accepted: VecDeque::new(),
            accepting: Wakers::default(),
            closed: false,
            buffer: Vec::new(),
            unsent: None,
            sent: Time::ZERO,
            asleep: None,
            relieved: false,
            failure: None,
        }
    }

    // Who waits

    /// Somebody has a connection.
    pub(super) fn add(&mut self, id: ConnectionId) {
        self.connections.insert(id, Waiting::default());
    }

    /// Nobody has a connection any more.
    pub(super) fn forget(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
    }

    /// What is waited for at a connection.
    ///
    /// # Errors
    /// Why it is over.
    pub(super) fn waiting(&mut self, id: ConnectionId) -> Result<&mut Waiting, Closed> {
        let waiting = self.connections.get_mut(&id).ok_or(Closed::Locally)?;
        match &waiting.closed {
            Some(why) => Err(why.clone()),
            None => Ok(waiting),
        }
    }

    /// The next stream that the peer has opened, and that nobody has taken yet.
    pub(super) fn next_stream(&mut self, id: ConnectionId) -> Option<StreamId> {
        self.connections.get_mut(&id)?.opened.pop_front()
    }

    /// Writes to a stream, or waits until there is room.
    pub(super) fn write(
        &mut self,
        now: Time,
        id: ConnectionId,
        stream: StreamId,
        context: &Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, StreamError>> {
        match self.endpoint.with(id, |connection| connection.write(now, stream, bytes)) {
            Some(Ok(0)) if !bytes.is_empty() => {
                self.waiting(id)?.writers.entry(stream).or_default().add(context);
                Poll::Pending
            }
            Some(Ok(count)) => Poll::Ready(Ok(count)),
            Some(Err(WriteError::Stopped(code))) => Poll::Ready(Err(StreamError::Stopped(code))),
            Some(Err(_)) | None => Poll::Ready(Err(self.not_writable(id, stream))),
        }
    }

    /// A stream ends with what was written.
    pub(super) fn finish(&mut self, id: ConnectionId, stream: StreamId) -> Result<(), StreamError> {
        match self.endpoint.with(id, |connection| connection.finish(stream)) {
            Some(Ok(())) => Ok(()),
            Some(Err(WriteError::Stopped(code))) => Err(StreamError::Stopped(code)),
            Some(Err(_)) | None => Err(self.not_writable(id, stream)),
        }
    }

    /// Why a stream cannot be written.
    fn not_writable(&mut self, id: ConnectionId, stream: StreamId) -> StreamError {
        match self.waiting(id) {
            Ok(waiting) => {
                waiting.stopped.get(&stream).map_or(StreamError::NotOpen, |code| StreamError::Stopped(*code))
            }
            Err(why) => StreamError::Closed(why),
        }
    }

    /// Why a stream cannot be read.
    pub(super) fn not_open(&mut self, id: ConnectionId) -> StreamError {
        self.waiting(id).err().map_or(StreamError::NotOpen, StreamError::Closed)
    }

    /// Takes what connections have to tell, and who is to be woken for it.
    pub(super) fn take_events(&mut self, now: Time, woken: &mut Wakers) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            if !self.connections.contains_key(&id) {
                if !matches!(event, Event::Connected | Event::Opened(_)) || self.closed {
                    continue;
                }
                // The peer has made it.
                if self.accepted.len() >= MOST_ACCEPTED {
                    self.endpoint
                        .with(id, |connection| connection.close(now, CODE_REFUSED, "nobody takes it"));
                    continue;
                }
                self.add(id);
                self.accepted.push_back(id);
                woken.take(&mut self.accepting);
            }
            let Some(waiting) = self.connections.get_mut(&id) else { continue };
            match event {
                Event::Connected => waiting.connected = true,
                Event::Opened(stream) => waiting.opened.push_back(stream),
                Event::MayOpen | Event::Token(_) => {}
                Event::Readable(stream) => {
                    woken.take(&mut waiting.readers.remove(&stream).unwrap_or_default());
                    continue;
                }
                Event::Writable(stream) | Event::Stopped(stream, _) => {
                    if let Event::Stopped(_, code) = event {
                        waiting.stopped.insert(stream, code);
                    }
                    woken.take(&mut waiting.writers.remove(&stream).unwrap_or_default());
                    continue;
                }
                Event::Closed(why) => waiting.end(why, woken),
            }
            woken.take(&mut waiting.news);
        }
    }

    /// No more connections are made or taken.
    pub(super) fn close(&mut self) {
        self.closed = true;
        std::mem::take(&mut self.accepting).wake();
    }

    /// The socket's thread has ended: nothing comes or goes any more.
    pub(super) fn fail(&mut self, woken: &mut Wakers) {
        self.closed = true;
        self.asleep = None;
        for waiting in self.connections.values_mut() {
            if waiting.closed.is_none() {
                waiting.end(Closed::Locally, woken);
            }
            woken.take(&mut waiting.news);
        }
        woken.take(&mut self.accepting);
    }

    // What is sent

    /// Sends all that connections want to be sent, as long as the socket has room.
    pub(super) fn transmit(&mut self, now: Time, socket: &DataSocket) {
        loop {
            let transmit = match self.unsent.take() {
                Some(transmit) => transmit,
                None => {
                    self.buffer.clear();
                    let most = socket.max_segments();
                    match self.endpoint.poll_transmit(now, most, BURST_BYTES, &mut self.buffer) {
                        Some(transmit) => transmit,
                        None => return,
                    }
                }
            };
            let Transmit { to, from, ecn, segment_bytes } = transmit;
            if !socket.send_with(ecn, to, from, &self.buffer, segment_bytes) {
                self.unsent = Some(transmit);
                return;
            }
        }
    }

    /// Whether the socket has no room.
    pub(super) fn is_full(&self) -> bool {
        self.unsent.is_some()
    }

    // The socket's thread

    /// The thread is about to sleep: until when?
    pub(super) fn sleep(&mut self) -> Option<Time> {
        // As long as the socket is full, nothing is sent in time.
        let until = self.endpoint.poll_timeout().filter(|_| self.unsent.is_none());
        self.asleep = Some(until);
        until
    }

    pub(super) fn wake_up(&mut self) {
        self.asleep = None;
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.asleep.is_some()
    }

    /// Whether something is to be done before the thread would wake.
    pub(super) fn wakes_too_late(&self) -> bool {
        match (self.asleep, self.endpoint.poll_timeout()) {
            (Some(None), Some(_)) => true,
            (Some(Some(until)), Some(at)) => at < until,
            _ => false,
        }
    }

    /// Whether the socket's thread sleeps although there is something for it to do.
    pub(super) fn oversleeps(&self) -> bool {
        self.is_asleep() && (self.wakes_too_late() || self.has_news() || self.is_done())
    }

    /// Whether connections have something to tell.
    pub(super) fn has_news(&self) -> bool {
        self.endpoint.has_events()
    }

    /// Whether it is closed, and has nothing left to tell anybody.
    pub(super) fn is_done(&self) -> bool {
        self.closed && self.endpoint.is_empty()
    }
}

impl Waiting {
    /// The connection is over.
    fn end(&mut self, why: Closed, woken: &mut Wakers) {
        self.closed = Some(why);
        self.readers.values_mut().chain(self.writers.values_mut()).for_each(|waiting| woken.take(waiting));
    }
}
