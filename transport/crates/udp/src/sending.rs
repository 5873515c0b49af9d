//! A DFCP sender: one receiver, one thread for its socket.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use proto::channel::Security;
use proto::dfcp::{Guide, SenderConfig, SenderCounters, SenderEndpoint, SenderEvent, Transmit};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::ServerName;
use thiserror::Error;
use wire::control::Refusal;

use crate::clock::Clock;
use crate::disk::{self, Block, Disk, Done, Load, Ticket};
use crate::path::path_mtu;
use crate::poller::{Interest, Poller};
use crate::socket::{Buffers, DataSocket};
use crate::source::{Refused, Source};
use crate::waiting::{Interrupt, Wait};

const SOCKET: usize = 0;
/// Batches of datagrams that are read before anything else has its turn.
const RECEIVE_BATCHES: usize = 8;
/// Bursts that are sent before what has come in is looked at.
const TRANSMIT_TURNS: usize = 8;
/// What is around a datagram.
const UDP_BYTES: usize = 8;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
/// How long the receiver may take to acknowledge the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where to send.
pub struct SendOptions {
    /// The receiver.
    pub to: SocketAddr,
    /// The name that its certificate has to bear, where an authority vouches for it.
    pub name: String,
    /// TLS, or `None` to send everything in clear, for experiments.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// How the connection behaves; its seed is chosen here.
    pub config: SenderConfig,
}

/// Why nothing can be sent at all.
#[derive(Debug, Error)]
pub enum SendError {
    /// The system refuses what any sender needs.
    #[error("{0}")]
    System(#[from] io::Error),
    /// A name that no certificate can bear.
    #[error("{0:?} cannot be the name of a receiver")]
    Name(String),
    /// rustls will not have it.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// An object that cannot be sent.
    #[error("{0}")]
    Object(String),
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendUpdate {
    /// The receiver has answered, and is who it should be.
    Open,
    /// It takes an object; so many bytes of it are missing there.
    Accepted {
        /// The object.
        request: u16,
        /// Bytes to be sent.
        bytes: u64,
    },
    /// A block is with the receiver.
    Delivered {
        /// The object.
        request: u16,
        /// Its length.
        bytes: usize,
    },
    /// An object is where it belongs.
    Stored {
        /// The object.
        request: u16,
    },
    /// An object will not get there.
    Refused {
        /// The object.
        request: u16,
        /// Why.
        why: Refusal,
        /// The same for a person.
        detail: String,
    },
    /// Somebody else's rate is used from now on.
    Guided(Guide),
    /// The connection has ended.
    Lost {
        /// Why, for a person.
        why: String,
    },
}

/// What is known of how fast to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateNews {
    /// So much, in bit/s of whole Ethernet frames.
    Rate(f64),
    /// What was said last still holds.
    Confirmed,
}

/// Tells a sender its rate, from any thread.
#[derive(Clone)]
pub struct RateTeller {
    news: mpsc::Sender<RateNews>,
    poller: Arc<Poller>,
}

impl RateTeller {
    /// Returns whether the sender is still there.
    pub fn tell(&self, news: RateNews) -> bool {
        self.news.send(news).is_ok() && self.poller.notify().is_ok()
    }
}

/// One connection to a receiver.
pub struct Sending {
    clock: Clock,
    poller: Arc<Poller>,
    interrupt: Interrupt,
    socket: DataSocket,
    buffers: Buffers,
    disk: Disk,
    to: SocketAddr,
    endpoint: SenderEndpoint,
    sources: HashMap<u16, (Ticket, Arc<dyn Source>)>,
    next_serial: u64,
    news: mpsc::Receiver<RateNews>,
    teller: RateTeller,
    updates: Vec<SendUpdate>,
    /// A burst, while it is made and sent.
    buffer: Vec<u8>,
    /// Datagrams that the socket had no room for.
    unsent: Option<(Vec<u8>, Transmit)>,
    /// The path swallows long datagrams, perhaps, and the system was asked what it knows of that.
    doubted: bool,
    lost: bool,
}

impl Sending {
    /// Begins to connect; how that went is told by [`SendUpdate::Open`] and [`SendUpdate::Lost`].
    ///
    /// # Errors
    /// [`SendError`]; a receiver that does not answer is none.
    pub fn connect(options: SendOptions) -> Result<Self, SendError> {
        let SendOptions { to, name, tls, mut config } = options;
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = DataSocket::bind(SocketAddr::new(any, 0))?;
        let poller = Arc::new(Poller::new()?);
        let mut random = [0; 12];
        let fill = SystemRandom::new().fill(&mut random);
        fill.map_err(|_| io::Error::other("the system gives no randomness"))?;
        let (connection, seed) = random.split_at(4);
        let connection = u32::from_be_bytes(connection.try_into().expect("it is 4 bytes"));
        config.seed = u64::from_be_bytes(seed.try_into().expect("it is 8 bytes"));
        let security = match tls {
            None => Security::Clear,
            Some(tls) => {
                let name = ServerName::try_from(name.clone()).map_err(|_| SendError::Name(name))?;
                Some(rustls::ClientConnection::new(tls, name)?).into()
            }
        };
        let clock = Clock::start();
        let (news, told) = mpsc::channel();
        let mut sending = Sending {
            clock,
            socket,
            buffers: Buffers::new(),
            disk: Disk::start(&poller, disk::OF_A_CLIENT)?,
            to,
            endpoint: SenderEndpoint::connect(config, clock.now(), connection, security),
            sources: HashMap::new(),
            next_serial: 0,
            news: told,
            teller: RateTeller { news, poller: poller.clone() },
            interrupt: Interrupt::of(&poller),
            poller,
            updates: Vec::new(),
            buffer: Vec::new(),
            unsent: None,
            doubted: false,
            lost: false,
        };
        sending.hint_path();
        sending.poller.add(sending.socket.socket(), SOCKET, Interest::Read)?;
        Ok(sending)
    }

    /// Ends a [`Sending::wait`] from any thread.
    pub fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        self.interrupt.waker()
    }

    /// To tell it its rate.
    pub fn rate_teller(&self) -> RateTeller {
        self.teller.clone()
    }

    /// Has what is sent from now on bear a DSCP (RFC 2474), 0 to 63.
    ///
    /// # Errors
    /// The system does not take it.
    pub fn mark(&mut self, dscp: u8) -> Result<(), SendError> {
        Ok(self.socket.mark(dscp)?)
    }

    /// Sends an object as `name`. Returns what it is called in updates; `None` if as many are on their way as may be, or the
    /// connection is not open.
    ///
    /// # Errors
    /// [`SendError::Object`].
    pub fn offer(&mut self, source: Arc<dyn Source>, name: &str) -> Result<Option<u16>, SendError> {
        let Some(sender) = self.endpoint.sender() else { return Ok(None) };
        let offered = sender.offer(name, &source.object());
        let request = offered.map_err(|e| SendError::Object(format!("{name}: {e}")))?;
        if let Some(request) = request {
            let ticket = Ticket { request, serial: self.next_serial };
            self.next_serial += 1;
            self.sources.insert(request, (ticket, source));
        }
        Ok(request)
    }

    /// Gives an object up; there is no update of it any more.
    pub fn withdraw(&mut self, request: u16, why: &str) {
        if self.sources.remove(&request).is_some()
            && let Some(sender) = self.endpoint.sender()
        {
            sender.withdraw(request, why.to_owned());
        }
    }

    /// Works until something has happened, at most for `patience`.
    ///
    /// # Errors
    /// [`SendError::System`]; what the receiver does comes as updates.
    pub fn wait(&mut self, patience: Duration) -> Result<Vec<SendUpdate>, SendError> {
        let mut wait = Wait::for_at_most(patience);
        loop {
            self.drive()?;
            let ended = !self.updates.is_empty() || self.interrupt.was_asked();
            let timeout = self.next_timeout();
            let pause = timeout.filter(|_| self.pauses());
            let goes_on = !ended
                && match pause {
                    Some(time) => wait.sleep(time),
                    None => wait.next(&self.poller, timeout)?,
                };
            if !goes_on {
                return Ok(std::mem::take(&mut self.updates));
            }
            if pause.is_some() || wait.events.keys().next().is_some() {
                self.receive()?;
            }
        }
    }

    fn next_timeout(&self) -> Option<Duration> {
        if self.lost {
            return None;
        }
        let now = self.clock.now();
        // As long as the socket is full, nothing is sent in time.
        let soonest = self.endpoint.poll_timeout(now).filter(|_| self.unsent.is_none())?;
        Some(soonest.since(now))
    }

    /// Whether what comes may wait for the next burst.
    fn pauses(&self) -> bool {
        self.endpoint.data().and_then(|sender| sender.pause(self.clock.now())).is_some()
    }

    fn receive(&mut self) -> Result<(), SendError> {
        let now = self.clock.now();
        for _ in 0..RECEIVE_BATCHES {
            let Sending { socket, buffers, to, endpoint, .. } = self;
            let more = socket.receive(buffers, |received| {
                let same = received.from.ip().to_canonical() == to.ip().to_canonical();
                if same && received.from.port() == to.port() {
                    for datagram in received.datagrams {
                        endpoint.handle_datagram(now, datagram);
                    }
                }
            })?;
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// Tells the endpoint what the system knows of the path, if it knows anything: as far as its own interface, or as a router
    /// has said.
    fn hint_path(&mut self) {
        if let Ok(mtu) = path_mtu(self.to) {
            let headers = UDP_BYTES + if self.to.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES };
            let bytes = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
            self.endpoint.hint_path(self.clock.now(), bytes);
        }
    }

    /// Does what is due, and sends what there is to send.
    fn drive(&mut self) -> Result<(), SendError> {
        if self.lost {
            return Ok(());
        }
        let now = self.clock.now();
        while let Ok(news) = self.news.try_recv() {
            if let Some(sender) = self.endpoint.sender() {
                match news {
                    RateNews::Rate(bps) => sender.tell_rate(now, bps),
                    RateNews::Confirmed => sender.confirm_rate(now),
                }
            }
        }
        while let Some((_, done)) = self.disk.next() {
            if let Done::Loaded { ticket, block, loaded } = done {
                self.provide(ticket, block, loaded);
            }
        }
        if self.endpoint.poll_timeout(now).is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
        let doubted = self.endpoint.path().is_doubted();
        if doubted && !std::mem::replace(&mut self.doubted, doubted) {
            self.hint_path();
        }
        self.doubted = doubted;
        loop {
            while let Some(event) = self.endpoint.poll_event() {
                self.on_event(event);
            }
            self.transmit()?;
            // What there was to say may have found the connection broken.
            if !self.endpoint.has_events() {
                return Ok(());
            }
        }
    }

    fn on_event(&mut self, event: SenderEvent) {
        match event {
            SenderEvent::Open => self.updates.push(SendUpdate::Open),
            SenderEvent::Load { request, block, offset, bytes } => {
                let Some((ticket, source)) = self.sources.get(&request) else { return };
                let (ticket, source) = (*ticket, source.clone());
                let cut = self.endpoint.data().and_then(|sender| sender.cut(request));
                let load = Load { ticket, block, source, offset, bytes, cut };
                if let Some(loaded) = self.disk.read(0, load) {
                    self.provide(ticket, block, loaded);
                }
            }
            SenderEvent::Accepted { request, bytes } => {
                self.updates.push(SendUpdate::Accepted { request, bytes });
            }
            SenderEvent::Delivered { request, bytes, .. } => {
                self.updates.push(SendUpdate::Delivered { request, bytes });
            }
            SenderEvent::Stored { request } => {
                self.sources.remove(&request);
                self.updates.push(SendUpdate::Stored { request });
            }
            SenderEvent::Refused { request, why, detail } => {
                self.sources.remove(&request);
                self.updates.push(SendUpdate::Refused { request, why, detail });
            }
            SenderEvent::Guided(guide) => self.updates.push(SendUpdate::Guided(guide)),
            SenderEvent::Ended { reason } => {
                self.lost = true;
                self.updates.push(SendUpdate::Lost { why: reason });
            }
        }
    }

    fn provide(&mut self, ticket: Ticket, block: u32, loaded: Result<Block, Refused>) {
        let Some(sender) = self.endpoint.sender() else { return };
        let request = ticket.request;
        if self.sources.get(&request).is_none_or(|(present, _)| *present != ticket) {
            return;
        }
        match loaded {
            Ok(Block::Prepared(prepared)) => sender.provide_prepared(request, block, prepared),
            Ok(Block::Bytes(bytes)) => sender.provide(request, block, bytes),
            Err((why, detail)) => {
                let detail = format!("block {block}: {detail}");
                sender.withdraw(request, detail.clone());
                if self.sources.remove(&request).is_some() {
                    self.updates.push(SendUpdate::Refused { request, why, detail });
                }
            }
        }
    }

    fn transmit(&mut self) -> Result<(), SendError> {
        if let Some((contents, transmit)) = self.unsent.take() {
            let Transmit { segment_bytes, ecn } = transmit;
            if !self.socket.send_with(ecn, self.to, None, &contents, segment_bytes) {
                self.unsent = Some((contents, transmit));
                return Ok(());
            }
            self.poller.modify(self.socket.socket(), SOCKET, Interest::Read)?;
        }
        let most = self.socket.max_segments();
        for _ in 0..TRANSMIT_TURNS {
            let now = self.clock.now();
            let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.buffer, most) else { break };
            if !self.send(transmit)? {
                break;
            }
        }
        Ok(())
    }

    /// Sends the buffer. False: the socket is full, and the datagrams wait.
    fn send(&mut self, transmit: Transmit) -> Result<bool, SendError> {
        let Transmit { segment_bytes, ecn } = transmit;
        let sent = self.socket.send_with(ecn, self.to, None, &self.buffer, segment_bytes);
        if !sent {
            self.unsent = Some((std::mem::take(&mut self.buffer), transmit));
            self.poller.modify(self.socket.socket(), SOCKET, Interest::ReadAndWrite)?;
        }
        self.buffer.clear();
        Ok(sent)
    }

    /// Releases the connection: waits until the receiver knows that it is over, for two seconds at most.
    ///
    /// # Errors
    /// [`SendError::System`].
    pub fn release(&mut self, reason: &str) -> Result<(), SendError> {
        if self.lost {
            return Ok(());
        }
        self.endpoint.release(reason);
        let mut wait = Wait::for_at_most(FAREWELL);
        loop {
            self.transmit()?;
            let now = self.clock.now();
            if self.endpoint.poll_timeout(now).is_some_and(|at| at <= now) {
                self.endpoint.handle_timeout(now);
            }
            if self.endpoint.is_over() {
                return Ok(());
            }
            let timeout = self.endpoint.poll_timeout(now).map(|at| at.since(now));
            if !wait.next(&self.poller, timeout)? {
                return Ok(());
            }
            self.receive()?;
        }
    }

    /// What was sent, how fast it may be, the share of symbols that is lost, and the round trip.
    pub fn report(&self) -> SendReport {
        let now = self.clock.now();
        let counters = self.endpoint.counters();
        self.endpoint.data().map_or_else(SendReport::default, |sender| {
            let (guide, rate_bps) = sender.rate(now);
            let (loss, rtt, path_bytes) = (sender.loss(), sender.rtt(), self.endpoint.path().size());
            SendReport { counters, guide: Some(guide), rate_bps, loss, rtt, path_bytes }
        })
    }
}

/// How a connection goes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SendReport {
    /// What was sent.
    pub counters: SenderCounters,
    /// Whose rate is used, once the connection is open.
    pub guide: Option<Guide>,
    /// How fast it may send, in bit/s of datagrams.
    pub rate_bps: f64,
    /// The share of symbols that is lost.
    pub loss: f64,
    /// The smoothed round trip.
    pub rtt: Duration,
    /// The longest datagrams that the path carries, as far as is known: bytes of UDP payload.
    pub path_bytes: u16,
}
