//! TCP-ACC's layer on a host, or at a port of a switch: between a device and sockets of UDP.

mod notice;
mod side;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ipnet::IpNet;
use proto::Time;
use proto::acc::packet::Pair;
use proto::acc::{Arrival, Config, Counters, Event, Layer, Outbox, PeerStatistics};

use crate::clock::Clock;
use crate::path::local_address;
use crate::poller::{Events, Interest, Poller};
use crate::process::give_back_memory;
use crate::socket::{Buffers, DataSocket};
use crate::tun::{Device, MOST_BYTES, Routing};
use notice::{Openings, Said, listen_to_errors, said};
use side::Side;

/// Packets that are read from the device before somebody else has a turn.
const BATCH: usize = 16;
const UDP_BYTES: usize = 8;

/// Whether there is a way to a peer is tried so often.
const FIND_WAYS: Duration = Duration::from_secs(2);
/// Memory that is free is given back so often, if anything happens: seldom, as packets wait for 2 to 8 ms then (of a heap of 28 MB).
const GIVE_BACK: Duration = Duration::from_secs(600);

const DEVICE: usize = 0;
const OPENINGS: usize = 1;
const SOCKETS: usize = 2;

/// How the layer is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// The layer itself; its port and its datagrams' length are set by what is here.
    pub layer: Config,
    /// Where to listen. Port 0 is none: peers have to know it.
    pub port: u16,
    /// The name of the device.
    pub device: String,
    /// The longest packet of IP to send, unless a path is known to carry less.
    pub mtu: usize,
    /// Whom it serves.
    pub serves: Serves,
}

/// Whose packets the layer carries.
#[derive(Clone, Debug)]
pub enum Serves {
    /// This host's TCP.
    Host {
        /// Hosts that are peers, or will be.
        peers: Vec<IpAddr>,
        /// Hosts that may be: they are asked when a connection is opened to them.
        may_be_peers: Vec<IpNet>,
        /// The rule and the table for TCP's packets.
        routing: Routing,
        /// Whether packets go to those peers alone of which [`Handle::use_for`] says so; else to all.
        chosen: bool,
    },
    /// A switch, which has the device as a port: a link to another switch, which has the same.
    Port {
        /// The address of the link's other end.
        other: IpAddr,
    },
}

impl Serves {
    /// Peers that are known beforehand.
    fn peers(&self) -> Vec<IpAddr> {
        match self {
            Serves::Host { peers, .. } => peers.clone(),
            Serves::Port { other } => vec![*other],
        }
    }

    /// Hosts that may be peers.
    fn may_be_peers(&self) -> &[IpNet] {
        match self {
            Serves::Host { may_be_peers, .. } => may_be_peers,
            Serves::Port { .. } => &[],
        }
    }
}

/// What has happened.
#[derive(Clone, Debug)]
pub enum News {
    /// A host is a peer, or none any more.
    Peer(Event),
    /// Something did not work, and the layer goes on.
    Trouble(String),
}

/// All that there is to know.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// The device's name.
    pub device: String,
    /// Peers, and hosts that were asked.
    pub peers: Vec<PeerStatistics>,
    /// What has become of datagrams and packets.
    pub counters: Counters,
    /// Bytes held of what peers have sent.
    pub held_bytes: usize,
    /// Packets that the host would not take back, or that were none.
    pub undelivered: u64,
    /// Datagrams that the system would not send.
    pub unsent: u64,
}

enum Order {
    Tell(Sender<Statistics>),
    UseFor(Pair, bool),
}

struct Shared {
    poller: Poller,
    stop: AtomicBool,
    orders: Mutex<Vec<Order>>,
}

/// The layer, running.
pub struct Acc {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
    news: Receiver<News>,
    device: String,
}

impl Acc {
    /// Sets up the device, the rule and the sockets, and begins.
    ///
    /// # Errors
    /// The system refuses one of them, in words that say what to do.
    pub fn start(options: Options) -> io::Result<Self> {
        let poller = Poller::new()?;
        let shared = Arc::new(Shared { poller, stop: AtomicBool::new(false), orders: Mutex::default() });
        let (tell, news) = channel();
        let engine = Engine::new(options, shared.clone(), tell)?;
        let device = engine.side.device().name().to_owned();
        let thread = std::thread::Builder::new().name("acc".to_owned()).spawn(move || {
            let shared = engine.shared.clone();
            let ended = engine.run();
            // Nobody answers any more.
            shared.stop.store(true, Ordering::SeqCst);
            ended
        })?;
        Ok(Acc { shared, thread: Some(thread), news, device })
    }

    /// The device's name.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Waits for the next news; none once the layer has ended.
    pub fn next(&self) -> Option<News> {
        self.news.recv().ok()
    }

    /// Whoever asks for statistics and ends the layer, from other threads.
    pub fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// What has ended the layer.
    pub fn join(mut self) -> io::Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(io::Error::other("the layer's thread has failed")),
            None => Ok(()),
        }
    }
}

impl Drop for Acc {
    fn drop(&mut self) {
        Handle(self.shared.clone()).stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// See [`Acc::handle`].
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// What there is to know; none if the layer has ended.
    pub fn statistics(&self) -> Option<Statistics> {
        let (tell, told) = channel();
        self.0.orders.lock().unwrap_or_else(PoisonError::into_inner).push(Order::Tell(tell));
        self.0.poller.notify().ok()?;
        while !self.0.stop.load(Ordering::SeqCst) {
            // A layer that was stopped for a while has not ended.
            if let Ok(all) = told.recv_timeout(Duration::from_secs(2)) {
                return Some(all);
            }
        }
        None
    }

    /// Has packets to a peer take their way through the layer, or not any more: of a layer that serves a host, and those who are chosen.
    pub fn use_for(&self, pair: Pair, so: bool) {
        self.0.orders.lock().unwrap_or_else(PoisonError::into_inner).push(Order::UseFor(pair, so));
        let _ = self.0.poller.notify();
    }

    /// Ends the layer: peers are told, the device and the rule are removed.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::SeqCst);
        let _ = self.0.poller.notify();
    }
}

struct Engine {
    options: Options,
    shared: Arc<Shared>,
    clock: Clock,
    side: Side,
    openings: Option<Openings>,
    sockets: Vec<DataSocket>,
    layer: Layer,
    out: Outbox,
    /// Named peers to which there was no way so far, and when to try again.
    without_way: Vec<IpAddr>,
    find_ways_at: Option<Time>,
}

impl Engine {
    fn new(options: Options, shared: Arc<Shared>, tell: Sender<News>) -> io::Result<Self> {
        let in_words = |what: &str, e: io::Error| io::Error::new(e.kind(), format!("{what}: {e}"));
        // In this order: what is opened last is closed first when the process is killed, and a device takes its time. Sockets that are
        // closed tell peers that nobody listens any more.
        let device = match options.serves {
            Serves::Host { .. } => Device::open(&options.device)?,
            Serves::Port { .. } => Device::open_port(&options.device)?,
        };
        let openings = match options.serves.may_be_peers().is_empty() {
            true => None,
            false => {
                Some(Openings::open().map_err(|e| in_words("cannot see connections that are opened", e))?)
            }
        };
        let mut sockets = Vec::new();
        for any in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            match DataSocket::bind_alone(SocketAddr::new(any, options.port)) {
                Ok(socket) => {
                    listen_to_errors(socket.socket(), any.is_ipv4())?;
                    sockets.push(socket);
                }
                // A system without IPv6.
                Err(e) if any.is_ipv6() && e.raw_os_error() == Some(nix::libc::EAFNOSUPPORT) => {}
                Err(e) => return Err(in_words(&format!("UDP port {}", options.port), e)),
            }
        }
        let side = match &options.serves {
            Serves::Host { routing, chosen, .. } => {
                Side::host(device, options.mtu, routing, sockets.len() > 1, *chosen, tell)?
            }
            Serves::Port { other } => Side::port(device, options.mtu, *other, tell)?,
        };
        let poller = &shared.poller;
        poller.add(side.device(), DEVICE, Interest::Read)?;
        if let Some(openings) = &openings {
            poller.add(openings, OPENINGS, Interest::Read)?;
        }
        for (n, socket) in sockets.iter().enumerate() {
            poller.add(socket.socket(), SOCKETS + n, Interest::Read)?;
        }
        let seed = crate::random_bytes()?;
        // A datagram of IPv6 carries less, of a packet that has the longer header left out.
        let max_datagram_bytes = options.mtu - 40 - UDP_BYTES;
        let numbers_acknowledgements = matches!(options.serves, Serves::Port { .. });
        let config = Config {
            port: options.port,
            max_datagram_bytes,
            numbers_acknowledgements,
            ..options.layer.clone()
        };
        Ok(Engine {
            layer: Layer::new(config, &seed),
            without_way: options.serves.peers(),
            find_ways_at: Some(Time::ZERO),
            options,
            shared,
            clock: Clock::start(),
            side,
            openings,
            sockets,
            out: Outbox::default(),
        })
    }

    fn run(mut self) -> io::Result<()> {
        crate::sleep_precisely();
        let (mut events, mut buffers) = (Events::new(), Buffers::new());
        let mut packet = vec![0; MOST_BYTES];
        let mut give_back_at = self.clock.now() + GIVE_BACK;
        while !self.shared.stop.load(Ordering::SeqCst) {
            self.find_ways();
            self.flush();
            let due = self.layer.poll_timeout().into_iter().chain(self.find_ways_at).min();
            self.shared.poller.wait(&mut events, due.map(|at| at.since(self.clock.now())))?;
            for key in events.keys().collect::<Vec<_>>() {
                match key {
                    DEVICE => self.read_device(&mut packet)?,
                    OPENINGS => self.see_openings(),
                    _ => self.read_socket(key - SOCKETS, &mut buffers)?,
                }
            }
            let now = self.clock.now();
            if self.layer.poll_timeout().is_some_and(|at| at <= now) {
                let Engine { layer, out, side, .. } = &mut self;
                layer.handle_timeout(now, out, &mut |pair, ecn, carried| side.give(pair, ecn, carried));
                side.finish();
            }
            self.obey();
            self.tell_events();
            if give_back_at <= now {
                give_back_memory();
                give_back_at = now + GIVE_BACK;
            }
        }
        self.layer.leave(&mut self.out);
        self.flush();
        Ok(())
    }

    /// Looks for the peers that are named, once there is a way to them: a network may come up later.
    fn find_ways(&mut self) {
        let now = self.clock.now();
        if self.find_ways_at.is_none_or(|at| at > now) {
            return;
        }
        let (mut without, is_first) = (Vec::new(), self.find_ways_at == Some(Time::ZERO));
        for remote in std::mem::take(&mut self.without_way) {
            match local_address(SocketAddr::new(remote, self.options.port)) {
                Ok(local) => {
                    let pair = Pair { local, remote };
                    self.side.found(pair);
                    self.layer.look_for(now, pair, true, &mut self.out);
                }
                Err(e) => {
                    if is_first {
                        self.side.trouble(format!("no way to {remote} yet: {e}"));
                    }
                    without.push(remote);
                }
            }
        }
        self.without_way = without;
        self.find_ways_at = (!self.without_way.is_empty()).then(|| now + FIND_WAYS);
    }

    fn read_device(&mut self, packet: &mut [u8]) -> io::Result<()> {
        for _ in 0..BATCH {
            let now = self.clock.now();
            let Engine { layer, side, out, .. } = self;
            let mut stray = None;
            let is_there = side.read(packet, |look, head, rest| {
                if !layer.send(now, look, head, rest, out) {
                    stray = look.flow.map(|_| look.pair);
                }
            })?;
            if let Some(pair) = stray {
                // Another one of our addresses, or a route that is about to go.
                self.layer.look_for(now, pair, false, &mut self.out);
            }
            self.flush();
            if !is_there {
                break;
            }
        }
        Ok(())
    }

    fn see_openings(&mut self) {
        let may_be_peers = self.options.serves.may_be_peers();
        while let Some(pair) = self.openings.as_ref().and_then(Openings::next) {
            let is_local = pair.remote.is_loopback() || pair.remote == pair.local;
            if !is_local && may_be_peers.iter().any(|net| net.contains(&pair.remote)) {
                self.layer.look_for(self.clock.now(), pair, false, &mut self.out);
            }
        }
    }

    fn read_socket(&mut self, which: usize, buffers: &mut Buffers) -> io::Result<()> {
        let now = self.clock.now();
        let Engine { layer, out, side, sockets, .. } = self;
        sockets[which].receive(buffers, |received| {
            let (remote, port) = (received.from.ip().to_canonical(), received.from.port());
            let Some(local) = received.to.map(|to| to.to_canonical()) else { return };
            let arrival = Arrival { pair: Pair { local, remote }, port, ecn: received.ecn };
            for datagram in received.datagrams {
                let deliver = &mut |pair: &Pair, ecn, carried: &[u8]| side.give(pair, ecn, carried);
                layer.receive(now, arrival, datagram, out, deliver);
            }
        })?;
        side.finish();
        if !self.sockets[which].take_told() {
            return Ok(());
        }
        while let Some(said) = said(self.sockets[which].socket()) {
            match said {
                Said::Unreachable(remote) => self.layer.unreachable(now, remote),
                Said::TooLong(remote, mtu) => self.shorten(remote, mtu as usize),
            }
        }
        Ok(())
    }

    /// A path carries less than was thought.
    fn shorten(&mut self, remote: IpAddr, mtu: usize) {
        let peers = self.layer.peers().filter(|peer| peer.up && peer.pair.remote == remote);
        self.side.shorten(peers.map(|peer| peer.pair), mtu);
    }

    fn obey(&mut self) {
        let orders = std::mem::take(&mut *self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner));
        for order in orders {
            let tell = match order {
                Order::Tell(tell) => tell,
                Order::UseFor(pair, so) => {
                    self.side.use_for(pair, so);
                    continue;
                }
            };
            // Whoever has asked may have gone.
            let _ = tell.send(Statistics {
                device: self.side.device().name().to_owned(),
                peers: self.layer.peers().collect(),
                counters: self.layer.counters(),
                held_bytes: self.layer.held_bytes(),
                undelivered: self.side.undelivered,
                unsent: self.sockets.iter().map(DataSocket::refused).sum(),
            });
        }
    }

    fn tell_events(&mut self) {
        while let Some(event) = self.layer.poll_event() {
            self.side.on_event(event, self.options.port);
        }
    }

    fn flush(&mut self) {
        let Engine { out, sockets, .. } = self;
        out.drain(|burst| {
            let socket = sockets.iter().find(|socket| socket.is_ipv4() == burst.way.to.is_ipv4());
            if let Some(socket) = socket {
                // What there is no room for is lost, as on any link that is full.
                socket.send_with(
                    burst.ecn,
                    burst.way.to,
                    Some(burst.way.from),
                    &burst.bytes,
                    burst.segment_bytes,
                );
            }
        });
    }
}
