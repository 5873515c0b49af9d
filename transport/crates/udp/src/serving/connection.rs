//! One client at a server: its control channel, its state machine, its open objects.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use proto::channel::Broken;
use proto::lttp::{ServerEndpoint, ServerEvent, Transmit};
use proto::{Held, RateCap, Time};
use wire::control;

use super::Statistics;
use crate::disk::{Block, Disk, Done, Job, Load, Part, Rest, Ticket};
use crate::source::{Refused, Source};
use crate::store::{self, Store};
use crate::stream::ControlStream;
use proto::limits::CONNECTION_BYTES;

/// What is sent of listings before the socket has taken it.
const LISTING_AHEAD_BYTES: usize = 48 << 10;
/// Questions what lies under a path that may wait at a time.
const MOST_QUESTIONS: usize = 16;

pub(super) struct Connection {
    stream: ControlStream,
    endpoint: ServerEndpoint,
    /// What names it on the data channel.
    name: u32,
    address: SocketAddr,
    objects: HashMap<u16, Served>,
    next_serial: u64,
    questions: VecDeque<(u16, String)>,
    listing: Listing,
    /// What the listing holds, here or while the disk goes on with it.
    listing_bytes: usize,
    /// Our address as the client's datagrams name it.
    local: Option<IpAddr>,
    over: bool,
    /// The cap of what it is sent.
    cap: Option<RateCap>,
    completed: u64,
    abandoned: u64,
    /// What it takes, but for requests and blocks.
    held: Held,
}

/// What is served, and the threads that read it.
pub(super) struct Shelf {
    pub(super) store: Arc<dyn Store>,
    pub(super) disk: Disk,
    /// Where the search for seeds begins.
    pub(super) seed: u64,
}

/// What a request is for: which one it is, and its object once that is open.
type Served = (Ticket, Option<Arc<dyn Source>>);

/// The question that is being answered: one at a time, and no faster than the client reads.
enum Listing {
    Nothing,
    /// The disk is asked.
    Asked,
    /// There is more to be found.
    More(u16, Box<dyn store::Listing>),
}

impl Connection {
    /// `name` names it on the data channel.
    pub(super) fn new(
        stream: TcpStream,
        address: SocketAddr,
        endpoint: ServerEndpoint,
        name: u32,
        held: Held,
        cap: Option<RateCap>,
    ) -> io::Result<Self> {
        // A client whose machine dies says nothing any more.
        let keepalive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(30));
        socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        Ok(Connection {
            stream: ControlStream::over(stream, false)?,
            endpoint,
            name,
            address,
            objects: HashMap::new(),
            next_serial: 0,
            questions: VecDeque::new(),
            listing: Listing::Nothing,
            listing_bytes: 0,
            local: None,
            over: false,
            cap,
            completed: 0,
            abandoned: 0,
            held,
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        self.stream.stream()
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn name(&self) -> u32 {
        self.name
    }

    pub(super) fn read(&mut self, now: Time) {
        let Connection { stream, endpoint, .. } = self;
        match stream.read(|bytes| endpoint.receive(now, bytes)) {
            Ok(true) => {}
            Ok(false) => endpoint.stream_ended(None),
            Err(error) => endpoint.stream_ended(Some(error)),
        }
    }

    pub(super) fn handle_datagram(
        &mut self,
        now: Time,
        from: SocketAddr,
        to: Option<IpAddr>,
        datagram: &mut [u8],
    ) {
        let mut from = from;
        from.set_ip(from.ip().to_canonical());
        if self.endpoint.handle_datagram(now, from, datagram) {
            self.local = to.filter(|to| !to.is_multicast());
        }
    }

    /// The disk has done what was ordered.
    pub(super) fn on_done(&mut self, done: Done) {
        match done {
            Done::Opened { ticket, opened } => self.opened(ticket, opened),
            Done::Loaded { ticket, block, loaded } => self.provide(ticket, block, loaded),
            Done::Listed { request, part } => self.listed(request, part.map_err(|(_, detail)| detail)),
        }
    }

    fn listed(&mut self, request: u16, part: Result<Part, String>) {
        let held_bytes = |part: &Part| part.rest.as_ref().map_or(0, |rest| rest.held_bytes);
        (self.listing, self.listing_bytes) = (Listing::Nothing, part.as_ref().map_or(0, held_bytes));
        let part = part.and_then(|part| {
            let has_room = part.rest.is_none() || self.hold();
            let bytes = self.listing_bytes;
            has_room.then_some(part).ok_or_else(|| {
                format!("what lies there takes {bytes} bytes of memory, for which there is no room")
            })
        });
        let message = match part {
            Ok(Part { entries, omitted, rest }) => {
                let last = rest.is_none();
                if let Some(Rest { listing, .. }) = rest {
                    self.listing = Listing::More(request, listing);
                }
                control::Server::Listing { request, entries, omitted, last }
            }
            Err(detail) => {
                self.listing_bytes = 0;
                control::Server::Unlisted { request, detail }
            }
        };
        self.endpoint.server().send_control(message);
    }

    /// Holds what it takes as it is now. False: there is not as much left.
    fn hold(&mut self) -> bool {
        let questions: usize = self.questions.iter().map(|(_, path)| path.len()).sum();
        let channel = self.endpoint.channel().held_bytes();
        self.held.resize(CONNECTION_BYTES + channel + questions + self.listing_bytes)
    }

    fn opened(&mut self, ticket: Ticket, opened: Result<Arc<dyn Source>, Refused>) {
        let session = self.endpoint.server();
        let request = ticket.request;
        let Some((_, source)) = self.objects.get_mut(&request).filter(|(t, _)| *t == ticket) else { return };
        match opened {
            Ok(opened) => {
                session.accept(request, opened.object());
                *source = Some(opened);
            }
            Err((why, detail)) => session.refuse(request, why, detail),
        }
    }

    fn provide(&mut self, ticket: Ticket, block: u32, loaded: Result<Block, Refused>) {
        let session = self.endpoint.server();
        let request = ticket.request;
        if self.objects.get(&request).is_none_or(|(present, _)| *present != ticket) {
            return;
        }
        match loaded {
            Ok(Block::Prepared(prepared)) => session.provide_prepared(request, block, prepared),
            Ok(Block::Bytes(bytes)) => session.provide(request, block, bytes),
            Err((why, detail)) => session.refuse(request, why, format!("block {block}: {detail}")),
        }
    }

    /// Lets timers expire and does what the state machine asks for.
    pub(super) fn drive(&mut self, now: Time, client: usize, shelf: &Shelf) {
        self.endpoint.handle_timeout(now);
        while let Some(event) = self.endpoint.poll_event() {
            self.on_event(event, client, shelf);
        }
        self.list(client, shelf);
        self.endpoint.speak();
        if let Err(error) = self.stream.flush(self.endpoint.channel_mut()) {
            self.endpoint.stream_ended(Some(error));
        }
        if !self.hold() {
            self.endpoint.server().end(Broken::NoRoom.to_string());
        }
    }

    fn on_event(&mut self, event: ServerEvent, client: usize, shelf: &Shelf) {
        let session = self.endpoint.server();
        match event {
            ServerEvent::Open(fetch) => {
                let ticket = Ticket { request: fetch.request, serial: self.next_serial };
                self.next_serial += 1;
                self.objects.insert(fetch.request, (ticket, None));
                if let Some(opened) = shelf.disk.open(client, ticket, &shelf.store, fetch, shelf.seed) {
                    self.opened(ticket, Ok(opened));
                }
            }
            ServerEvent::Load { request, block, offset, bytes } => {
                let Some((ticket, Some(source))) = self.objects.get(&request) else { return };
                let (ticket, source) = (*ticket, source.clone());
                let cut = session.cut(request);
                let load = Load { ticket, block, source, offset, bytes, cut };
                if let Some(loaded) = shelf.disk.read(client, load) {
                    self.provide(ticket, block, loaded);
                }
            }
            ServerEvent::List { request, path } if self.questions.len() < MOST_QUESTIONS => {
                self.questions.push_back((request, path));
            }
            ServerEvent::List { request, .. } => {
                let detail = format!("more than {MOST_QUESTIONS} questions at a time");
                session.send_control(control::Server::Unlisted { request, detail });
            }
            ServerEvent::Close { request, complete } => {
                self.objects.remove(&request);
                if complete {
                    self.completed += 1;
                } else {
                    self.abandoned += 1;
                }
            }
            ServerEvent::Ended { .. } => self.over = true,
        }
    }

    fn list(&mut self, client: usize, shelf: &Shelf) {
        if !self.can_list() {
            return;
        }
        match std::mem::replace(&mut self.listing, Listing::Asked) {
            Listing::More(request, listing) => shelf.disk.order(client, Job::ListOn { request, listing }),
            Listing::Nothing | Listing::Asked => {
                if let Some((request, path)) = self.questions.pop_front() {
                    let store = shelf.store.clone();
                    shelf.disk.order(client, Job::List { request, store, path });
                }
            }
        }
    }

    /// Whether the disk can be asked for more of a listing.
    fn can_list(&self) -> bool {
        let has = match &self.listing {
            Listing::Nothing => !self.questions.is_empty(),
            Listing::Asked => false,
            Listing::More(..) => true,
        };
        has && self.endpoint.channel().unsent_bytes() < LISTING_AHEAD_BYTES
    }

    /// It has ended; what was to be said has been sent.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether it matters that the stream can be written to, if that has changed.
    pub(super) fn interest_changed(&mut self) -> Option<bool> {
        self.stream.interest_changed(self.endpoint.channel())
    }

    pub(super) fn poll_transmit(
        &mut self,
        now: Time,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<(Transmit, Option<IpAddr>)> {
        if self.cap.as_ref().is_some_and(|cap| cap.free_at() > now) {
            return None;
        }
        let most = self.cap.as_ref().map_or(max_datagrams, |cap| cap.burst_datagrams(max_datagrams));
        let transmit = self.endpoint.poll_transmit(now, buffer, most)?;
        if let Some(cap) = &mut self.cap {
            cap.take_datagrams(now, buffer.len(), transmit.segment_bytes);
        }
        Some((transmit, self.local))
    }

    pub(super) fn poll_timeout(&self, now: Time) -> Option<Time> {
        if self.can_list() {
            return Some(now);
        }
        // What is held back by the cap is not due before it allows that.
        let at = self.endpoint.poll_timeout()?;
        Some(self.cap.as_ref().map_or(at, |cap| at.max(cap.free_at())))
    }

    /// Says goodbye, as far as the socket takes it.
    pub(super) fn close(mut self, reason: &str, statistics: &mut Statistics) {
        self.endpoint.close(reason);
        self.stream.close(self.endpoint.channel_mut());
        while let Some(event) = self.endpoint.poll_event() {
            if let ServerEvent::Close { complete, .. } = event {
                self.completed += u64::from(complete);
                self.abandoned += u64::from(!complete);
            }
        }
        statistics.completed += self.completed;
        statistics.abandoned += self.abandoned;
        statistics.data += self.endpoint.data().counters();
    }
}
