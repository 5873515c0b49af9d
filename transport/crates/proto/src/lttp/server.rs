//! One connection at a server: requests come in, symbols go out at TFRC's pace, within the client's credits.

mod interface;
mod path;
mod sending;
mod transmit;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use wire::control::{self, Code, Fetch, MAX_PATH_BYTES, MAX_RUNS, Pacing, Parameters, Refusal};
use wire::packet::{Credit, Feedback, Kind, Token};

pub use self::interface::{ServerConfig, ServerCounters, ServerEvent, Transmit};
use self::path::Path;
use self::sending::{NO_ROOM, Request, least_bytes};
use super::least_rto;
use crate::coding::Prepared;
use crate::object::{Cut, Layout, Object};
use crate::pacer::Pacer;
use crate::packets::{Dropped, Opened, Packets, is_probe};
use crate::protect::Protection;
use crate::{Budget, Time, ecn, tfrc};

/// A datagram before any has been sent: an Ethernet frame's.
const SEGMENT_BYTES: u32 = 1500;

/// Blocks that wait until others are complete are tried again so often.
const ROOM_INTERVAL: Duration = Duration::from_millis(10);

/// One client's connection.
pub struct Server {
    config: ServerConfig,
    connection: u32,
    token: Token,
    client: IpAddr,
    packets: Packets,
    path: Path,
    /// The control channel's hello has come.
    greeted: Option<Time>,
    peer: Option<SocketAddr>,
    /// The peer's hello with this number and of so many bytes is to be answered.
    welcome: Option<(u64, usize)>,
    tfrc: Option<tfrc::Sender>,
    marking: ecn::Marking,
    heard: Time,
    pacer: Pacer,
    requests: BTreeMap<u16, Request>,
    /// What blocks may take.
    room: Budget,
    /// When blocks that wait for room were tried last.
    room_tried: Time,
    /// The request that sent last: the next one is before it.
    turn: u16,
    control: VecDeque<control::Server>,
    events: VecDeque<ServerEvent>,
    counters: ServerCounters,
    ended: bool,
}

impl Server {
    /// The connection of a client at `client`. Its control channel may not be open yet.
    pub fn new(config: ServerConfig, now: Time, connection: u32, token: Token, client: IpAddr) -> Self {
        let room = config.budget.part(config.max_held_bytes);
        Server {
            pacer: Pacer::new(now, config.make_up),
            connection,
            token,
            client,
            packets: Packets::new(connection, Protection::insecure()),
            path: Path::new(now, connection),
            greeted: None,
            peer: None,
            welcome: None,
            tfrc: None,
            marking: ecn::Marking::new(config.ecn),
            heard: now,
            requests: BTreeMap::new(),
            room,
            room_tried: now,
            turn: 0,
            control: VecDeque::new(),
            events: VecDeque::new(),
            counters: ServerCounters::default(),
            ended: false,
            config,
        }
    }

    /// The control channel is open: what protects the data channel.
    pub fn opened(&mut self, protection: Protection) {
        self.path.protect(self.connection, &protection);
        self.packets = Packets::new(self.connection, protection);
    }

    /// Whether the client has said hello on the control channel.
    pub fn is_greeted(&self) -> bool {
        self.greeted.is_some()
    }

    /// A message of the control channel.
    pub fn handle_control(&mut self, now: Time, message: control::Client) {
        if self.ended {
            return;
        }
        self.heard = now;
        match message {
            control::Client::Hello { version } if version != wire::VERSION => {
                self.end(format!("version {version} of LTTP is not spoken here, only {}", wire::VERSION));
            }
            control::Client::Hello { .. } if self.greeted.is_some() => self.end("a second hello".into()),
            control::Client::Hello { .. } => {
                self.greeted = Some(now);
                self.control.push_back(control::Server::Welcome {
                    version: wire::VERSION,
                    connection: self.connection,
                    token: self.token,
                });
            }
            _ if self.greeted.is_none() => self.end("the first message is a hello".into()),
            control::Client::List { request, path } => {
                self.events.push_back(ServerEvent::List { request, path });
            }
            control::Client::Fetch(fetch) => self.open(now, fetch),
            control::Client::Done { request, block } => self.complete(request, block),
            control::Client::Cancel { request } => {
                if self.requests.remove(&request).is_some() {
                    self.events.push_back(ServerEvent::Close { request, complete: false });
                }
            }
        }
    }

    fn open(&mut self, now: Time, fetch: Fetch) {
        let request = fetch.request;
        if self.requests.contains_key(&request) {
            return self.end(format!("request {request} was made twice"));
        }
        if self.requests.len() >= self.config.max_requests {
            let detail = format!("more than {} requests at a time", self.config.max_requests);
            return self.answer(request, Refusal::Busy, detail);
        }
        if fetch.path.len() > MAX_PATH_BYTES || fetch.runs.len() > MAX_RUNS {
            let detail = format!("a path has at most {MAX_PATH_BYTES} bytes, a request {MAX_RUNS} runs");
            return self.answer(request, Refusal::BadParameters, detail);
        }
        if fetch.code == Code::RaptorQ {
            let detail = "RaptorQ is for DFCP".to_owned();
            return self.answer(request, Refusal::BadParameters, detail);
        }
        if Layout::new(fetch.symbol_bytes, fetch.block_symbols, 0).is_none() {
            let detail = format!("{} symbols of {} bytes", fetch.block_symbols, fetch.symbol_bytes);
            return self.answer(request, Refusal::BadParameters, detail);
        }
        if let Some(tfrc) = &mut self.tfrc {
            tfrc.set_least_rto(least_rto(fetch.pacing));
        }
        let costs = self.config.state.take(least_bytes(&fetch)).zip(self.config.files.take(1));
        let Some(costs) = costs else {
            return self.answer(request, Refusal::Busy, NO_ROOM.into());
        };
        self.path.on_request(now, fetch.symbol_bytes, self.requests.is_empty());
        self.events.push_back(ServerEvent::Open(fetch.clone()));
        self.requests.insert(request, Request::new(fetch, costs));
    }

    /// The object of a request is open.
    pub fn accept(&mut self, request: u16, object: Object) {
        let Some(serving) = self.requests.get_mut(&request) else { return };
        if serving.fetch.version.is_some_and(|v| v != object.version) {
            return self.refuse(request, Refusal::Changed, "the file has changed since".into());
        }
        match serving.begin(&self.config, object.size, &self.room) {
            Ok((seed, last_seed)) => {
                self.control.push_back(control::Server::Parameters(Parameters {
                    request,
                    size: object.size,
                    version: object.version,
                    modified_ns: object.modified_ns,
                    mode: object.mode,
                    seed,
                    last_seed,
                }));
                self.want(request);
            }
            Err((why, detail)) => self.refuse(request, why, detail),
        }
    }

    /// The request ends without success.
    pub fn refuse(&mut self, request: u16, why: Refusal, detail: String) {
        if self.requests.remove(&request).is_some() {
            self.events.push_back(ServerEvent::Close { request, complete: false });
        }
        self.answer(request, why, detail);
    }

    fn answer(&mut self, request: u16, why: Refusal, detail: String) {
        self.control.push_back(control::Server::Refused { request, why, detail });
    }

    /// The bytes of a block that [`ServerEvent::Load`] asked for.
    pub fn provide(&mut self, request: u16, block: u32, bytes: Arc<[u8]>) {
        let Some(cut) = self.cut(request) else { return };
        match cut.prepare_copy(block, &bytes) {
            Ok(prepared) => self.provide_prepared(request, block, prepared),
            Err(detail) => self.refuse(request, Refusal::Changed, detail),
        }
    }

    /// How the object of a request is cut: by it, [`Cut::prepare`] prepares blocks that [`ServerEvent::Load`] asked for, in
    /// another thread perhaps. Then [`Server::provide_prepared`].
    pub fn cut(&self, request: u16) -> Option<Cut> {
        self.requests.get(&request)?.cut().cloned()
    }

    /// A block that [`ServerEvent::Load`] asked for.
    pub fn provide_prepared(&mut self, request: u16, block: u32, prepared: Prepared) {
        let Some(serving) = self.requests.get_mut(&request) else { return };
        let hash = prepared.hash;
        if serving.provide(block, prepared) {
            self.control.push_back(control::Server::BlockHash { request, block, hash });
        }
    }

    /// Queues a message of the driver's own, such as a listing.
    pub fn send_control(&mut self, message: control::Server) {
        self.control.push_back(message);
    }

    /// The next message for the control channel.
    pub fn poll_control(&mut self) -> Option<control::Server> {
        self.control.pop_front()
    }

    /// The next thing to do.
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// Whether [`Server::poll_event`] has something.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// A datagram that named this connection. Whether it is authentic, and was taken.
    pub fn handle_datagram(&mut self, now: Time, from: SocketAddr, datagram: &mut [u8]) -> bool {
        !self.ended && self.take(now, from, datagram).is_some()
    }

    fn take(&mut self, now: Time, from: SocketAddr, datagram: &mut [u8]) -> Option<()> {
        let bytes = datagram.len();
        // Nobody has the token before the hello of the control channel.
        if from.ip() != self.client || self.greeted.is_none() {
            return self.packets.unexpected();
        }
        if is_probe(datagram) {
            return self.on_probe(now, from, datagram);
        }
        let Opened { kind, number, body } = self.packets.open(&[Kind::Hello, Kind::Feedback], datagram)?;
        // Only what opens a connection may come from an address that is not known yet.
        let feedback = match kind {
            Kind::Hello if body.first_chunk() == Some(&self.token) => None,
            // It speaks of what was sent, or it is none.
            Kind::Feedback if self.peer == Some(from) => match Feedback::parse(body) {
                Ok(feedback) if feedback.highest < self.packets.next_number() => Some(feedback),
                _ => return self.packets.unexpected(),
            },
            _ => return self.packets.unexpected(),
        };
        if !self.packets.admit(number) {
            return None;
        }
        match feedback {
            None => self.on_hello(now, from, number, bytes),
            Some(feedback) => self.on_feedback(now, &feedback),
        }
        Some(())
    }

    /// The answer to a probe.
    fn on_probe(&mut self, now: Time, from: SocketAddr, datagram: &mut [u8]) -> Option<()> {
        if self.peer != Some(from) {
            return self.packets.unexpected();
        }
        let before = self.path.size();
        let taken = self.path.on_answer(now, datagram);
        if self.path.size() < before {
            // It needs more, since what it was sent last was too long. Else this tells nothing of what it needs.
            self.heard = now;
            self.path.forgive(self.packets.next_number());
        }
        taken.then_some(())
    }

    fn on_hello(&mut self, now: Time, from: SocketAddr, number: u64, bytes: usize) {
        let Some(greeted) = self.greeted else { return };
        self.heard = now;
        self.peer = Some(from);
        self.welcome = Some((number, bytes));
        let rtt = now.since(greeted).max(Duration::from_micros(1));
        self.path.proven(now, bytes, rtt);
        for request in self.requests.values() {
            self.path.on_request(now, request.fetch.symbol_bytes, false);
        }
        let config = &self.config;
        self.tfrc.get_or_insert_with(|| {
            let start = config.start_bytes_per_s.map_or(tfrc::Start::Rtt(rtt), tfrc::Start::Rate);
            let options = tfrc::Options { least_timeout: config.least_timeout, ..tfrc::Options::default() };
            // It learns from the first symbols how long they are.
            tfrc::Sender::with_options(now, SEGMENT_BYTES, start, options)
        });
    }

    fn on_feedback(&mut self, now: Time, feedback: &Feedback) {
        self.heard = now;
        self.counters.feedback += 1;
        let Feedback { received, ect, ce, .. } = *feedback;
        self.marking.on_counts(ecn::Counts { received, ect, ce });
        if let (Some(tfrc), Some(x_recv)) = (&mut self.tfrc, feedback.x_recv) {
            match tfrc::rtt_sample(now, feedback.echo_us, feedback.delay_us) {
                Some(rtt_sample) => {
                    let (x_recv, loss_event_rate) = (x_recv as f64, feedback.loss_event_rate);
                    tfrc.on_feedback(now, &tfrc::Feedback { rtt_sample, x_recv, loss_event_rate });
                }
                None => {
                    self.packets.unexpected::<()>();
                }
            }
        }
        let since = self.packets.next_number() - 1 - feedback.highest;
        let rtt = self.tfrc.as_ref().and_then(tfrc::Sender::rtt);
        self.path.on_feedback(now, feedback, rtt, since);
        for Credit { request, block, want } in &feedback.credits {
            if *want == 0 {
                self.complete(*request, *block);
                continue;
            }
            if let Some(serving) = self.requests.get_mut(request) {
                serving.credit(*block, *want, self.config.max_blocks, &self.room);
                self.want(*request);
            }
        }
    }

    /// Asks for the blocks that a request needs and has not.
    fn want(&mut self, request: u16) {
        let Some(serving) = self.requests.get_mut(&request) else { return };
        let load = |(block, offset, bytes)| ServerEvent::Load { request, block, offset, bytes };
        self.events.extend(serving.loads(&self.room).into_iter().map(load));
        if serving.is_complete() {
            self.requests.remove(&request);
            self.events.push_back(ServerEvent::Close { request, complete: true });
        }
    }

    fn complete(&mut self, request: u16, block: u32) {
        let Some(serving) = self.requests.get_mut(&request) else { return };
        if !serving.complete(block) {
            return;
        }
        if serving.is_scattered() {
            // No client that works through its runs leaves so many gaps: they are this server's memory.
            let detail = "blocks are complete in no order".into();
            return self.refuse(request, Refusal::BadParameters, detail);
        }
        self.want(request);
        // What the paper's mode wants of other requests may have room now.
        let waits = |(id, other): (&u16, &Request)| {
            (*id != request && other.fetch.pacing == Pacing::Tfrc).then_some(*id)
        };
        for other in self.requests.iter().filter_map(waits).collect::<Vec<_>>() {
            self.want(other);
        }
    }

    fn waits_for_room(&self) -> bool {
        self.requests.values().any(Request::waits_for_room)
    }

    /// When [`Server::handle_timeout`] or [`Server::poll_transmit`] has something to do without any input.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.ended {
            return None;
        }
        let mut soonest = (!self.requests.is_empty()).then(|| self.heard + self.config.silence);
        let mut consider = |at: Option<Time>| soonest = soonest.into_iter().chain(at).min();
        if self.peer.is_some() {
            if let Some(ready) = self.ready_at() {
                consider(Some(ready));
                consider(self.tfrc.as_ref().and_then(tfrc::Sender::poll_timeout));
            }
            consider(self.requests.values().filter_map(Request::exhausted_at).min());
            consider(self.path.poll_timeout().filter(|_| self.probes()));
        }
        if self.waits_for_room() {
            consider(Some(self.room_tried + ROOM_INTERVAL));
        }
        soonest
    }

    /// Lets timers expire.
    pub fn handle_timeout(&mut self, now: Time) {
        if !self.requests.is_empty() && now.since(self.heard) >= self.config.silence {
            let silence = self.config.silence.as_secs_f64();
            return self.end(format!("nothing was heard of the client for {silence} s"));
        }
        if now.since(self.room_tried) >= ROOM_INTERVAL && self.waits_for_room() {
            self.room_tried = now;
            for request in self.requests.keys().copied().collect::<Vec<_>>() {
                self.want(request);
            }
        }
        let spent = |(id, request): (&u16, &Request)| Some((*id, request.exhausted(now)?));
        for (request, block) in self.requests.iter().filter_map(spent).collect::<Vec<_>>() {
            let detail = format!("block {block} is not complete after all the symbols that a block may have");
            self.refuse(request, Refusal::SymbolCap, detail);
        }
        let sending = self.ready_at().is_some();
        if let Some(tfrc) = self.tfrc.as_mut().filter(|_| sending)
            && tfrc.poll_timeout().is_some_and(|at| at <= now)
        {
            tfrc.on_timeout(now);
        }
    }

    /// Whether the connection has ended.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Ends the connection, and all its requests with it; the client is told why.
    pub fn end(&mut self, reason: String) {
        if !self.ended {
            self.control.push_back(control::Server::Bye { reason: reason.clone() });
        }
        self.disconnected(reason);
    }

    /// The control channel has broken: nothing can be said any more.
    pub fn disconnected(&mut self, reason: String) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        for request in std::mem::take(&mut self.requests).into_keys() {
            self.events.push_back(ServerEvent::Close { request, complete: false });
        }
        self.events.push_back(ServerEvent::Ended { reason });
    }

    /// Counters since the beginning.
    pub fn counters(&self) -> ServerCounters {
        let Dropped { unexpected, forged, replayed } = self.packets.dropped() + self.path.dropped();
        let state = self.marking.state();
        ServerCounters {
            ect: self.marking.marked(),
            ce: self.marking.ce(),
            ecn_cleared: u64::from(state == ecn::State::Cleared),
            ecn_dropped: u64::from(state == ecn::State::Dropped),
            unexpected,
            forged,
            replayed,
            ..self.counters
        }
    }

    /// The smoothed round trip; zero until it is known.
    fn rtt(&self) -> Duration {
        self.tfrc.as_ref().and_then(tfrc::Sender::rtt).unwrap_or_default()
    }

    /// The longest datagrams that the path to the client carries, as far as is known: bytes of UDP payload.
    pub fn path_bytes(&self) -> u16 {
        self.path.size()
    }

    /// Where the client's datagrams come from, once that is proven.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// TFRC's allowed rate in bytes/s, once the client's address is known.
    pub fn rate(&self) -> Option<f64> {
        self.tfrc.as_ref().map(tfrc::Sender::rate)
    }
}
