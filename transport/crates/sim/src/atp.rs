//! Ends of ATP's connections, which have their keys already.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use proto::atp::{Closed, Connection, ConnectionConfig, Event, Read, StreamId};
use proto::protect::{Protection, Side};

use crate::{Datagram, Node, NodeId, Output, Time};

/// What an end does with a stream that the peer has opened and finished: it is told the bytes, and sends others back.
pub type Answer = Box<dyn FnMut(&[u8]) -> Vec<u8>>;

/// What has come of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Got {
    /// Its bytes, as far as they were read.
    pub bytes: Vec<u8>,
    /// When the end was read.
    pub ended: Option<Time>,
    /// The peer has given it up, for this reason.
    pub reset: Option<u64>,
}

/// One end of a connection.
pub struct AtpNode {
    connection: Connection,
    peer: NodeId,
    answer: Option<Answer>,
    /// Bytes to be written, and those that are.
    writing: BTreeMap<StreamId, (Arc<[u8]>, usize)>,
    /// Requests for which no stream could be opened yet.
    waiting: VecDeque<Arc<[u8]>>,
    got: BTreeMap<StreamId, Got>,
    closed: Option<(Time, Closed)>,
    /// Its host is busy: what has come waits so long for an answer, and what comes meanwhile is handled before that.
    busy: Duration,
    wakes: Option<Time>,
}

const NUMBER: u32 = 7;
const SECRET: [u8; 32] = [7; 32];

impl AtpNode {
    /// One end of a connection to `peer`, whose other end is of the other side.
    ///
    /// # Panics
    /// If the configuration's budget has no room for it.
    pub fn new(side: Side, peer: NodeId, config: ConnectionConfig) -> Self {
        let protection = Protection::new(&SECRET, side);
        let connection =
            Connection::new(Time::ZERO, side, NUMBER, protection, config).expect("room for a connection");
        AtpNode {
            connection,
            peer,
            answer: None,
            writing: BTreeMap::new(),
            waiting: VecDeque::new(),
            got: BTreeMap::new(),
            closed: None,
            busy: Duration::ZERO,
            wakes: None,
        }
    }

    /// Nothing is sent until so long after something has come, with all that comes meanwhile: as on a busy host.
    pub fn busy(self, busy: Duration) -> Self {
        AtpNode { busy, ..self }
    }

    /// It answers streams that the peer opens; without, it only ends its direction.
    pub fn answering(self, answer: impl FnMut(&[u8]) -> Vec<u8> + 'static) -> Self {
        AtpNode { answer: Some(Box::new(answer)), ..self }
    }

    /// Sends bytes on a new stream, as soon as one can be opened.
    pub fn send(&mut self, now: Time, bytes: impl Into<Arc<[u8]>>) {
        self.waiting.push_back(bytes.into());
        self.pump(now);
    }

    /// Gives a stream up that it sends on.
    pub fn reset(&mut self, stream: StreamId, code: u64) {
        self.connection.reset(stream, code);
        self.writing.remove(&stream);
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The connection, to do something else with.
    pub fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// What has come, by stream.
    pub fn got(&self) -> &BTreeMap<StreamId, Got> {
        &self.got
    }

    /// When and why the connection was over.
    pub fn closed(&self) -> Option<&(Time, Closed)> {
        self.closed.as_ref()
    }

    /// Whether all was sent that was to be, and all of that has been acknowledged.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.writing.is_empty() && self.connection.unacknowledged_bytes() == 0
    }

    fn pump(&mut self, now: Time) {
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Opened(_) | Event::MayOpen | Event::Connected | Event::Token(_) => {}
                Event::Readable(stream) => self.read(now, stream),
                Event::Writable(stream) => self.write(now, stream),
                Event::Stopped(stream, _) => drop(self.writing.remove(&stream)),
                Event::Closed(why) => self.closed = Some((now, why)),
            }
        }
        while let Some(bytes) = self.waiting.pop_front() {
            let Some(stream) = self.connection.open() else {
                self.waiting.push_front(bytes);
                break;
            };
            self.writing.insert(stream, (bytes, 0));
            self.write(now, stream);
        }
    }

    fn write(&mut self, now: Time, stream: StreamId) {
        let Some((bytes, written)) = self.writing.get_mut(&stream) else { return };
        match self.connection.write(now, stream, &bytes[*written..]) {
            Ok(count) => *written += count,
            Err(_) => *written = bytes.len(),
        }
        if *written == bytes.len() {
            let _ = self.connection.finish(stream);
            self.writing.remove(&stream);
        }
    }

    fn read(&mut self, now: Time, stream: StreamId) {
        let mut buffer = [0; 4096];
        loop {
            let got = self.got.entry(stream).or_default();
            match self.connection.read(now, stream, &mut buffer) {
                Read::Bytes(count) => got.bytes.extend_from_slice(&buffer[..count]),
                Read::End => {
                    assert_eq!(got.ended.replace(now), None, "{stream:?} has ended twice");
                    break;
                }
                Read::Reset(code) => {
                    got.reset = Some(code);
                    break;
                }
                Read::Nothing | Read::NotOpen => return,
            }
        }
        let is_mine = self.connection.side() == stream.opener();
        if !is_mine {
            let bytes = &self.got[&stream].bytes;
            let answer = self.answer.as_mut().map(|answer| answer(bytes)).unwrap_or_default();
            self.writing.insert(stream, (answer.into(), 0));
            self.write(now, stream);
        }
    }
}

impl Node for AtpNode {
    fn handle(&mut self, now: Time, mut datagram: Datagram) {
        self.connection.handle_datagram(now, datagram.ecn, &mut datagram.payload);
        self.pump(now);
        if !self.busy.is_zero() {
            self.wakes.get_or_insert(now + self.busy);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.wakes.take_if(|at| *at <= now);
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        self.pump(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.wakes.or_else(|| self.connection.poll_timeout())
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Output> {
        if self.wakes.is_some() {
            return None;
        }
        let mut payload = Vec::new();
        let ecn = self.connection.poll_transmit(now, &mut payload)?;
        Some(Output::Datagram(Datagram { ecn, ..Datagram::new(self.peer, payload) }))
    }
}
