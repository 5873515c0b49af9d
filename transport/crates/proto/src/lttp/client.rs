//! The client of a fetch: all its servers, and the window that they share.

mod asked;
mod interface;
mod path;
mod peer;
mod transmit;
mod turnaround;

use std::collections::VecDeque;
use std::time::Duration;

use wire::control::{self, Fetch, Pacing, Parameters, Run, Version};
use wire::packet::{Kind, Symbol, Welcome, symbol_datagram_bytes};

use self::asked::{Asked, Taken};
pub use self::interface::{ClientConfig, ClientEvent, Lost, ServerId, ServerReport};
use self::peer::{Peer, Sample, Stage};
use super::least_rto;
use super::window::Window;
use crate::ecn::Codepoint;
use crate::object::Arrival;
use crate::pacer::FRAME_BYTES;
use crate::packets::{Opened, is_probe};
use crate::protect::Protection;
use crate::{Budget, RateCap, Time, tfrc};

/// The client of one fetch.
pub struct Client {
    config: ClientConfig,
    peers: Vec<Peer>,
    window: Window,
    outstanding_bytes: usize,
    /// The symbol that the last piece has made whole, and what others may take: they are few of each server.
    whole: Vec<u8>,
    room: Budget,
    /// What the cap of the rate is, once something is asked for, and whether it holds something back.
    cap: Option<RateCap>,
    capped: bool,
    /// The shortest answer of any server.
    shortest: Option<Duration>,
    /// The peer that is given credit next.
    turn: usize,
    /// Messages for control channels, in order.
    control: VecDeque<(ServerId, control::Client)>,
    /// Requests that have not gone out.
    unsent: VecDeque<(ServerId, u16)>,
    events: VecDeque<ClientEvent>,
}

impl Client {
    /// A client without servers.
    pub fn new(config: ClientConfig) -> Self {
        let window = Window::new(config.window_floor_bytes, config.window_ceiling_bytes);
        Client {
            config,
            peers: Vec::new(),
            window,
            outstanding_bytes: 0,
            whole: Vec::new(),
            room: Budget::new(usize::MAX),
            cap: None,
            capped: false,
            shortest: None,
            turn: 0,
            control: VecDeque::new(),
            unsent: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// A server whose control channel is to be opened: [`Client::opened`] tells that it is.
    pub fn add_server(&mut self, now: Time) -> ServerId {
        let peer = Peer::new(now, self.receiver(false));
        self.peers.push(peer);
        ServerId(self.peers.len() - 1)
    }

    /// The control channel of a server is open: what protects its data channel.
    pub fn opened(&mut self, now: Time, server: ServerId, protection: Protection) {
        let receiver = self.receiver(protection.is_on());
        let Some(peer) = self.peers.get_mut(server.0) else { return };
        if matches!(peer.stage, Stage::Opening) {
            peer.opened(now, protection, receiver);
            self.control.push_back((server, control::Client::Hello { version: wire::VERSION }));
        }
    }

    fn receiver(&self, protected: bool) -> tfrc::Receiver {
        let segment_bytes = symbol_datagram_bytes(self.config.symbol_bytes.into(), protected);
        tfrc::Receiver::with_least_rto(segment_bytes as u32, least_rto(self.pacing()))
    }

    /// Whether the control channel of a server is yet to be opened.
    pub fn is_opening(&self, server: ServerId) -> bool {
        self.peers.get(server.0).is_some_and(|peer| matches!(peer.stage, Stage::Opening))
    }

    /// Whether a server is lost, or was never added.
    pub fn is_gone(&self, server: ServerId) -> bool {
        self.peers.get(server.0).is_none_or(|peer| matches!(peer.stage, Stage::Gone))
    }

    /// Asks for blocks of an object: `runs`, or all if there are none; refused if it is not of `version`.
    /// Returns the request's name, `None` if the server is gone or has as many requests as there are names.
    pub fn fetch(
        &mut self,
        server: ServerId,
        path: String,
        runs: Vec<Run>,
        version: Option<Version>,
    ) -> Option<u16> {
        let pacing = self.pacing();
        let peer = self.peers.get_mut(server.0).filter(|peer| !matches!(peer.stage, Stage::Gone))?;
        let request = (0..=u16::MAX)
            .map(|n| peer.next_request.wrapping_add(n))
            .find(|n| !peer.requests.contains_key(n))?;
        peer.next_request = request.wrapping_add(1);
        let fetch = Fetch {
            request,
            path,
            symbol_bytes: self.config.symbol_bytes,
            block_symbols: self.config.block_symbols,
            code: self.config.code,
            pacing,
            runs,
            version,
        };
        peer.requests.insert(request, Asked::new(fetch));
        self.unsent.push_back((server, request));
        Some(request)
    }

    fn pacing(&self) -> Pacing {
        if self.config.credits { Pacing::Client { first: 0 } } else { Pacing::Tfrc }
    }

    /// Asks what lies under a path. False if the server's control channel is not open.
    #[must_use]
    pub fn list(&mut self, now: Time, server: ServerId, request: u16, path: String) -> bool {
        if self.is_opening(server) || self.is_gone(server) {
            return false;
        }
        self.peers[server.0].asks(now);
        self.control.push_back((server, control::Client::List { request, path }));
        true
    }

    /// A message of the control channel.
    pub fn handle_control(&mut self, now: Time, server: ServerId, message: control::Server) {
        let Some(peer) = self.peers.get_mut(server.0) else { return };
        peer.heard = now;
        match message {
            control::Server::Welcome { version, .. } if version != wire::VERSION => {
                self.lose(server, Lost::Version(version));
            }
            control::Server::Welcome { connection, token, .. } => {
                if matches!(peer.stage, Stage::Greeting) {
                    peer.welcomed(now, connection, token);
                } else {
                    self.lose(server, Lost::Protocol("a second welcome"));
                }
            }
            control::Server::Listing { request, entries, omitted, last } => {
                peer.answered(last);
                self.events.push_back(ClientEvent::Listing { server, request, entries, omitted, last });
            }
            control::Server::Unlisted { request, detail } => {
                peer.answered(true);
                self.events.push_back(ClientEvent::Unlisted { server, request, detail });
            }
            control::Server::Parameters(parameters) => self.on_parameters(server, parameters),
            control::Server::BlockHash { request, block, hash } => {
                // What is of no use is not passed on: nobody has to remember it.
                let asked = peer.requests.get_mut(&request);
                if asked.is_some_and(|asked| asked.hash_is_new(block)) {
                    self.events.push_back(ClientEvent::BlockHash { server, request, block, hash });
                }
            }
            control::Server::Refused { request, why, detail } => {
                if self.forget(server, request) {
                    self.events.push_back(ClientEvent::Refused { server, request, why, detail });
                }
            }
            control::Server::Bye { reason } => self.lose(server, Lost::Bye(reason)),
        }
    }

    fn on_parameters(&mut self, server: ServerId, parameters: Parameters) {
        let peer = &mut self.peers[server.0];
        // Of a request that was cancelled in the meantime.
        let Some(asked) = peer.requests.get_mut(&parameters.request) else { return };
        let Some(void) = asked.begin(parameters.size) else {
            return self.lose(server, Lost::Protocol("parameters that do not fit the request"));
        };
        peer.outstanding -= u32::from(void);
        self.outstanding_bytes -= usize::from(void) * self.wire_bytes(server);
        self.expect_all(server, parameters.request);
        self.finish(server, parameters.request);
        self.events.push_back(ClientEvent::Parameters { server, parameters });
    }

    /// The next message for a control channel, and whose.
    pub fn poll_control(&mut self, now: Time) -> Option<(ServerId, control::Client)> {
        if let Some(message) = self.control.pop_front() {
            return Some(message);
        }
        let ready = |(server, _): &(ServerId, u16)| self.peers[server.0].is_ready();
        let next = self.unsent.iter().position(ready)?;
        // What a request may bring at once is part of it.
        self.grant(now);
        let (server, request) = self.unsent.remove(next)?;
        let peer = &mut self.peers[server.0];
        let asked = peer.requests.get_mut(&request)?;
        let mut fetch = asked.unsent.take()?;
        if let Pacing::Client { first } = &mut fetch.pacing {
            *first = asked.first_credit();
            peer.credits_to_tell.retain(|(r, _)| *r != request);
        } else {
            asked.start_all(self.config.max_blocks);
        }
        peer.spoke_by_control(now);
        Some((server, control::Client::Fetch(fetch)))
    }

    /// The next thing that has happened.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// A datagram from a server's data address, with what its IP header bore of ECN (RFC 3168).
    /// Returns the symbol if it is of use.
    pub fn handle_datagram<'a>(
        &'a mut self,
        now: Time,
        server: ServerId,
        ecn: Codepoint,
        datagram: &'a mut [u8],
    ) -> Option<Arrival<'a>> {
        let bytes = datagram.len();
        // Nothing is authentic before there are keys.
        let peer = self.peers.get_mut(server.0).filter(|peer| !matches!(peer.stage, Stage::Opening))?;
        if is_probe(datagram) {
            self.on_probe(now, server, datagram);
            return None;
        }
        let kinds = [Kind::Symbol, Kind::Piece, Kind::Welcome];
        let Opened { kind, number, body } = peer.packets.open(&kinds, datagram)?;
        if !peer.packets.admit(number) {
            return None;
        }
        if kind == Kind::Piece {
            return self.on_piece(now, server, number, bytes, body, ecn);
        }
        let gap = peer.arrived(number);
        peer.heard = now;
        match kind {
            Kind::Welcome if matches!(peer.stage, Stage::Proving { .. }) => {
                let is_out = peer.hello_lost_at().is_some();
                let sample = Welcome::parse(body).ok().and_then(|welcome| peer.proven(now, welcome.hello));
                if sample.is_some() {
                    self.measure(server, sample);
                    self.outstanding_bytes -= usize::from(is_out) * self.wire_bytes(server);
                    self.events.push_back(ClientEvent::Ready { server });
                    None
                } else {
                    peer.packets.unexpected()
                }
            }
            Kind::Symbol if peer.is_ready() => {
                let Ok((symbol, payload)) = Symbol::parse(body) else { return peer.packets.unexpected() };
                let sample = peer.on_symbol(now, number, bytes, &symbol, ecn);
                self.measure(server, sample);
                self.window.on_arrival(now, bytes + FRAME_BYTES, gap);
                let enough = self.on_symbol(server, symbol, payload.len());
                self.give_up_overdue(server);
                let Symbol { request, block, index, .. } = symbol;
                Some(Arrival { request, block, index, enough: enough?, payload })
            }
            // A second welcome answers a second hello.
            Kind::Welcome => None,
            _ => peer.packets.unexpected(),
        }
    }

    fn give_up_overdue(&mut self, server: ServerId) {
        let overdue = self.peers[server.0].give_up_overdue() as usize;
        self.outstanding_bytes -= overdue * self.wire_bytes(server);
    }

    /// A server's answer tells its round trip: without the time that what was ahead of it took to arrive, but never
    /// less than the shortest of all.
    fn measure(&mut self, server: ServerId, sample: Option<Sample>) {
        let Some(Sample { took, ahead_bytes }) = sample else { return };
        let shortest = self.shortest.map_or(took, |shortest| shortest.min(took));
        self.shortest = Some(shortest);
        let Some(waited) = self.window.drain(ahead_bytes) else { return };
        let rtt = took.saturating_sub(waited).max(shortest);
        let peer = &mut self.peers[server.0];
        peer.rtt = Some(peer.rtt.map_or(rtt, |known| known.min(rtt)));
    }

    /// A symbol has come, whose payload has so many bytes. Whether there are enough of its block; `None` if it is of no use.
    fn on_symbol(&mut self, server: ServerId, symbol: Symbol, payload_bytes: usize) -> Option<bool> {
        let wire_bytes = self.wire_bytes(server);
        let peer = &mut self.peers[server.0];
        let Symbol { request, block, index, .. } = symbol;
        let taken = match peer.requests.get_mut(&request) {
            Some(asked) if payload_bytes == usize::from(asked.symbol_bytes) => {
                asked.take(block, index, self.config.credits)
            }
            Some(_) => Taken::Unasked,
            None => Taken::Late,
        };
        match taken {
            Taken::Useful { arrived, enough } => {
                peer.count(true);
                peer.outstanding -= u32::from(arrived);
                self.outstanding_bytes -= usize::from(arrived) * wire_bytes;
                Some(enough)
            }
            Taken::Late => {
                peer.count(false);
                None
            }
            Taken::Unasked => peer.packets.unexpected(),
        }
    }

    /// The decoder of a block needs `symbols` in all, as far as it knows.
    pub fn needs(&mut self, server: ServerId, request: u16, block: u32, symbols: u16) {
        let peer = self.peers.get_mut(server.0);
        if let Some(asked) = peer.and_then(|peer| peer.requests.get_mut(&request)) {
            asked.needs(block, symbols);
        }
    }

    /// A block is decoded: the terminating signal goes out.
    pub fn complete(&mut self, server: ServerId, request: u16, block: u32) {
        let wire_bytes = self.wire_bytes(server);
        let Some(peer) = self.peers.get_mut(server.0) else { return };
        let Some(outstanding) = peer.requests.get_mut(&request).and_then(|asked| asked.complete(block))
        else {
            return;
        };
        peer.outstanding -= u32::from(outstanding);
        self.outstanding_bytes -= usize::from(outstanding) * wire_bytes;
        self.control.push_back((server, control::Client::Done { request, block }));
        peer.credits_to_tell.insert((request, block));
        self.expect_all(server, request);
        self.finish(server, request);
    }

    /// Nothing more of a request is needed.
    pub fn cancel(&mut self, server: ServerId, request: u16) {
        let unsent = self.unsent.contains(&(server, request));
        if self.forget(server, request) && !unsent {
            self.control.push_back((server, control::Client::Cancel { request }));
        }
    }

    /// The control channel of a server has closed.
    pub fn disconnected(&mut self, server: ServerId, reason: String) {
        if !self.is_gone(server) {
            let opening = self.is_opening(server);
            self.lose(server, if opening { Lost::Unopened(reason) } else { Lost::Bye(reason) });
        }
    }

    /// In the paper's mode any of the next blocks may come unasked.
    fn expect_all(&mut self, server: ServerId, request: u16) {
        let asked = self.peers[server.0].requests.get_mut(&request);
        if let Some(asked) = asked.filter(|_| !self.config.credits) {
            asked.start_all(self.config.max_blocks);
        }
    }

    fn finish(&mut self, server: ServerId, request: u16) {
        let peer = &mut self.peers[server.0];
        if peer.requests.get(&request).is_some_and(Asked::is_complete) {
            peer.remove(request);
        }
    }

    /// Whether there was such a request.
    fn forget(&mut self, server: ServerId, request: u16) -> bool {
        let wire_bytes = self.wire_bytes(server);
        let Some(peer) = self.peers.get_mut(server.0) else { return false };
        let Some(asked) = peer.remove(request) else { return false };
        peer.credits_to_tell.retain(|(r, _)| *r != request);
        self.unsent.retain(|unsent| *unsent != (server, request));
        peer.outstanding -= asked.outstanding();
        self.outstanding_bytes -= asked.outstanding() as usize * wire_bytes;
        true
    }

    fn lose(&mut self, server: ServerId, reason: Lost) {
        if matches!(self.peers[server.0].stage, Stage::Gone) {
            return;
        }
        let requests: Vec<u16> = self.peers[server.0].requests.keys().copied().collect();
        for request in requests {
            self.forget(server, request);
        }
        let is_out = self.peers[server.0].hello_lost_at().is_some();
        self.outstanding_bytes -= usize::from(is_out) * self.wire_bytes(server);
        let peer = &mut self.peers[server.0];
        peer.stage = Stage::Gone;
        peer.credits_to_tell.clear();
        self.control.retain(|(s, _)| *s != server);
        self.events.push_back(ClientEvent::Lost { server, reason });
    }

    /// What a symbol of a server takes in a queue.
    fn wire_bytes(&self, server: ServerId) -> usize {
        let symbol_bytes = self.config.symbol_bytes;
        let bytes = self.peers.get(server.0).map(|peer| peer.packets.symbol_datagram_bytes(symbol_bytes));
        bytes.unwrap_or_default() + FRAME_BYTES
    }

    /// When [`Client::handle_timeout`] or [`Client::poll_transmit`] has something to do without any input.
    pub fn poll_timeout(&self) -> Option<Time> {
        let silence = self.config.silence;
        let of = |peer: &Peer| {
            let lost_at = peer.lost_at(silence, self.config.credits);
            let times = [peer.speaks_at(silence), peer.gives_up_at(), peer.hello_lost_at(), lost_at];
            times.into_iter().flatten().min()
        };
        let cap = self.cap.as_ref().filter(|_| self.capped).map(RateCap::free_at);
        self.peers.iter().filter_map(of).chain(cap).min()
    }

    /// Lets timers expire.
    pub fn handle_timeout(&mut self, now: Time) {
        for server in (0..self.peers.len()).map(ServerId) {
            let wire_bytes = self.wire_bytes(server);
            let peer = &mut self.peers[server.0];
            if peer.lost_at(self.config.silence, self.config.credits).is_some_and(|at| at <= now) {
                let reason = match peer.stage {
                    Stage::Opening => Lost::Unanswered(self.config.silence),
                    Stage::Proving { .. } => Lost::NoData,
                    _ => Lost::Silent(self.config.silence),
                };
                self.lose(server, reason);
            } else if peer.hello_lost_at().is_some_and(|at| at <= now) {
                peer.hello_lost();
                self.outstanding_bytes -= wire_bytes;
            } else if peer.gives_up_at().is_some_and(|at| at <= now) {
                self.outstanding_bytes -= peer.give_up(now) as usize * wire_bytes;
            }
        }
    }

    /// What came of a server; `None` if its control channel was never open.
    pub fn report(&self, server: ServerId) -> Option<ServerReport> {
        self.peers.get(server.0).filter(|peer| peer.was_open()).map(Peer::report)
    }

    /// The shortest round trip to a server so far.
    pub fn rtt(&self, server: ServerId) -> Option<Duration> {
        self.peers.get(server.0).and_then(|peer| peer.rtt)
    }

    /// The present window in bytes on the wire.
    pub fn window_bytes(&self) -> usize {
        self.window.bytes()
    }
}
