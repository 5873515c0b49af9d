//! A server: one thread for its listener, its UDP socket and all its control channels.

mod connection;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use proto::ecn::Codepoint;
use proto::lttp::{ServerConfig, ServerCounters, ServerEndpoint, Transmit};
use proto::{Agenda, RateCap, Time};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use wire::packet::Header;

use self::connection::{Connection, Shelf};
use crate::clock::Clock;
use crate::disk::Disk;
use crate::poller::{Events, Interest, Poller};
use crate::process::file_limit;
use crate::socket::{Buffers, DataSocket};
use crate::store::Store;
use crate::stream::SEGMENT_BYTES;
use crate::waiting::Interrupt;
use proto::limits::{CONNECTION_BYTES, Limits, Memory, Room};

const LISTENER: usize = 0;
const DATA: usize = 1;
const FIRST_CONNECTION: usize = 2;
/// Batches of datagrams that are read before anything else has its turn.
const RECEIVE_BATCHES: usize = 8;
/// Bursts of each connection that are sent before what has come in is looked at.
const TRANSMIT_TURNS: usize = 8;
/// After the system had no room for another open file.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Threads that wait for disks.
const DISK_THREADS: usize = 16;

/// How to serve.
pub struct Options {
    /// TCP for control, UDP for data, on the same port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// What is served: a directory ([`crate::Root`]), objects by name ([`crate::Objects`]), or what you make of it.
    pub store: Arc<dyn Store>,
    /// TLS, or `None` to send everything in clear, for experiments.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// How connections behave.
    pub config: ServerConfig,
    /// What may be held.
    pub limits: Limits,
}

/// Why a server cannot go on.
#[derive(Debug, Error)]
pub enum Error {
    /// It cannot listen where it should.
    #[error("cannot listen on {address}: {error}; choose another address, or end what listens there")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// The system refuses what any server needs.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// What a server did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that were turned away.
    pub refused: u64,
    /// Requests whose blocks were all complete.
    pub completed: u64,
    /// Requests that ended before.
    pub abandoned: u64,
    /// Datagrams for no connection.
    pub strays: u64,
    /// Bursts that the system would not send.
    pub unsendable: u64,
    /// The most bytes that were held for connections at a time.
    pub peak_bytes: u64,
    /// The most files that were open at a time.
    pub peak_files: u64,
    /// What the connections that have ended counted.
    pub data: ServerCounters,
}

/// Ends [`Serving::run`] from anywhere.
#[derive(Clone)]
pub struct Stop(Arc<dyn Fn() + Send + Sync>);

impl Stop {
    /// Asks the server to say goodbye to its clients and to end.
    pub fn stop(&self) {
        (self.0)();
    }
}

/// A server that is bound.
pub struct Serving {
    tls: Option<Arc<rustls::ServerConfig>>,
    config: ServerConfig,
    limits: Limits,
    memory: Memory,
    clock: Clock,
    random: SystemRandom,
    poller: Arc<Poller>,
    listener: TcpListener,
    data: DataSocket,
    buffers: Buffers,
    shelf: Shelf,
    interrupt: Interrupt,
    connections: HashMap<usize, Connection>,
    agenda: Agenda<usize>,
    /// The key of each connection's name on the data channel.
    keys: HashMap<u32, usize>,
    next_key: usize,
    /// A burst, while it is made and sent.
    buffer: Vec<u8>,
    /// Datagrams that the socket had no room for.
    unsent: Option<Unsent>,
    /// The cap of what all connections send.
    cap: Option<RateCap>,
    /// Connections that the cap has held back, in the order of their turns.
    held_back: VecDeque<usize>,
    /// There was no room for another open file.
    accept_again: Option<Time>,
    statistics: Statistics,
}

struct Unsent {
    to: SocketAddr,
    from: Option<IpAddr>,
    contents: Vec<u8>,
    segment_bytes: usize,
    ecn: Codepoint,
}

impl Serving {
    /// Binds both sockets.
    ///
    /// # Errors
    /// [`Error::Listen`] if the address is not to be had.
    pub fn bind(options: Options) -> Result<Self, Error> {
        let Options { listen, store, tls, mut config, limits } = options;
        let limits = limits.within(file_limit());
        let (listener, data) = bind(listen).map_err(|error| Error::Listen { address: listen, error })?;
        let poller = Arc::new(Poller::new()?);
        let random = SystemRandom::new();
        config.seed = u64::from_be_bytes(bytes(&random)?);
        let disk = Disk::start(&poller, DISK_THREADS)?;
        let interrupt = Interrupt::of(&poller);
        let shelf = Shelf { store, disk, seed: config.seed };
        let clock = Clock::start();
        let cap = limits.bps.map(|bps| RateCap::new(clock.now(), bps));
        let serving = Serving {
            tls,
            config,
            limits,
            memory: Memory::new(&limits),
            clock,
            random,
            shelf,
            poller,
            listener,
            data,
            buffers: Buffers::new(),
            interrupt,
            connections: HashMap::new(),
            agenda: Agenda::new(),
            keys: HashMap::new(),
            next_key: FIRST_CONNECTION,
            buffer: Vec::new(),
            unsent: None,
            cap,
            held_back: VecDeque::new(),
            accept_again: None,
            statistics: Statistics::default(),
        };
        serving.poller.add(&serving.listener, LISTENER, Interest::Read)?;
        serving.poller.add(serving.data.socket(), DATA, Interest::Read)?;
        Ok(serving)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What it may be made to hold, in a process that may open as many files as this one.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A handle that ends it.
    pub fn stopper(&self) -> Stop {
        Stop(self.interrupt.waker())
    }

    /// Serves until it is told to stop.
    ///
    /// # Errors
    /// [`Error::System`]; what a client does is no error.
    pub fn run(&mut self) -> Result<Statistics, Error> {
        let mut events = Events::new();
        while !self.interrupt.was_asked() {
            self.poller.wait(&mut events, self.next_timeout())?;
            // Control before data: a credit must not overtake the request that it belongs to.
            let mut data = false;
            for key in events.keys() {
                match key {
                    LISTENER => self.accept()?,
                    DATA => data = true,
                    key => self.read_control(key),
                }
            }
            if data {
                self.receive()?;
            }
            self.take_done();
            if self.accept_again.is_some_and(|at| at <= self.clock.now()) {
                self.accept_again = None;
                self.poller.modify(&self.listener, LISTENER, Interest::Read)?;
            }
            self.drive()?;
        }
        self.remove_all();
        self.statistics.unsendable = self.data.refused();
        self.statistics.peak_bytes = self.memory.peak_bytes() as u64;
        self.statistics.peak_files = self.memory.peak_files() as u64;
        Ok(self.statistics)
    }

    fn next_timeout(&self) -> Option<Duration> {
        // As long as the socket is full, nothing of theirs is sent in time.
        let connections = self.agenda.next().filter(|_| self.unsent.is_none());
        let soonest = connections.into_iter().chain(self.accept_again).min()?;
        Some(soonest.since(self.clock.now()))
    }

    fn accept(&mut self) -> Result<(), Error> {
        loop {
            let (stream, address) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if is_out_of_files(&e) => {
                    // Who waits goes on waiting; to ask again at once would be all that is done.
                    self.poller.modify(&self.listener, LISTENER, Interest::Nothing)?;
                    self.accept_again = Some(self.clock.now() + ACCEPT_PAUSE);
                    return Ok(());
                }
                // The connection is gone already.
                Err(_) => continue,
            };
            if !self.limits.have_room(address, self.connections.values().map(Connection::address)) {
                self.statistics.refused += 1;
                continue;
            }
            let Some(connection) = self.welcome(stream, address)? else {
                self.statistics.refused += 1;
                continue;
            };
            let key = self.next_key;
            self.next_key += 1;
            if self.poller.add(connection.stream(), key, Interest::Read).is_err() {
                self.statistics.refused += 1;
                continue;
            }
            self.keys.insert(connection.name(), key);
            self.connections.insert(key, connection);
            self.agenda.wake(key);
            self.statistics.connections += 1;
        }
    }

    /// A client has connected; `None` if there is no room for it, or it is gone already.
    fn welcome(&mut self, stream: TcpStream, address: SocketAddr) -> Result<Option<Connection>, Error> {
        let now = self.clock.now();
        let Room { blocks: budget, state, files } = self.memory.of(address.ip());
        let Some(held) = state.take(CONNECTION_BYTES) else { return Ok(None) };
        let tls =
            self.tls.clone().map(rustls::ServerConnection::new).transpose().map_err(io::Error::other)?;
        let (name, token) = (self.free_name()?, bytes(&self.random)?);
        let config = ServerConfig { budget, state, files, ..self.config.clone() };
        let client = address.ip().to_canonical();
        let endpoint = ServerEndpoint::accept(config, now, tls.into(), client, name, token);
        let cap = self.limits.bps_of_a_connection.map(|bps| RateCap::new(now, bps));
        Ok(Connection::new(stream, address, endpoint, name, held, cap).ok())
    }

    /// A name that no connection has on the data channel.
    fn free_name(&self) -> io::Result<u32> {
        loop {
            let name = u32::from_be_bytes(bytes(&self.random)?);
            if !self.keys.contains_key(&name) {
                return Ok(name);
            }
        }
    }

    fn read_control(&mut self, key: usize) {
        if let Some(connection) = self.connections.get_mut(&key) {
            self.agenda.wake(key);
            connection.read(self.clock.now());
        }
    }

    fn receive(&mut self) -> Result<(), Error> {
        let now = self.clock.now();
        for _ in 0..RECEIVE_BATCHES {
            let Serving { data, buffers, keys, connections, agenda, statistics, .. } = self;
            let more = data.receive(buffers, |received| {
                for datagram in received.datagrams {
                    let key = Header::parse(datagram).ok().and_then(|header| keys.get(&header.connection));
                    match key.and_then(|key| Some((*key, connections.get_mut(key)?))) {
                        Some((key, connection)) => {
                            agenda.wake(key);
                            connection.handle_datagram(now, received.from, received.to, datagram);
                        }
                        None => statistics.strays += 1,
                    }
                }
            })?;
            if !more {
                break;
            }
        }
        Ok(())
    }

    /// Takes what the disk has done.
    fn take_done(&mut self) {
        while let Some((client, done)) = self.shelf.disk.next() {
            if let Some(connection) = self.connections.get_mut(&client) {
                self.agenda.wake(client);
                connection.on_done(done);
            }
        }
    }

    /// Lets every connection whose turn it is do what it has to, and sends in turns.
    fn drive(&mut self) -> Result<(), Error> {
        if let Some(unsent) = self.unsent.take() {
            if !self.data.send_with(
                unsent.ecn,
                unsent.to,
                unsent.from,
                &unsent.contents,
                unsent.segment_bytes,
            ) {
                self.unsent = Some(unsent);
                return Ok(());
            }
            self.poller.modify(self.data.socket(), DATA, Interest::Read)?;
        }
        let now = self.clock.now();
        let keys = self.agenda.take(now);
        for key in &keys {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            connection.drive(now, *key, &self.shelf);
            if connection.is_over() {
                self.remove(*key, "");
            } else if let Some(write) = connection.interest_changed() {
                self.poller.modify(connection.stream(), *key, Interest::with(write))?;
            }
        }
        self.transmit(&keys)?;
        // Nothing is sent before the cap allows it; timers that are due meanwhile are a burst late at most.
        let free_at = self.cap.as_ref().map_or(Time::ZERO, RateCap::free_at);
        for key in self.held_back.iter().chain(&keys) {
            if let Some(connection) = self.connections.get(key) {
                let at = connection.poll_timeout(self.clock.now());
                self.agenda.set(*key, at.map(|at| at.max(free_at)));
            }
        }
        Ok(())
    }

    /// Sends what these connections have to send, in turns; those that the cap held back come first.
    fn transmit(&mut self, keys: &[usize]) -> Result<(), Error> {
        let most = self.data.max_segments();
        let mut sending = std::mem::take(&mut self.held_back);
        let were_held_back: HashSet<usize> = sending.iter().copied().collect();
        sending.extend(keys.iter().filter(|key| !were_held_back.contains(key)));
        let mut bursts = TRANSMIT_TURNS * sending.len();
        while bursts > 0
            && let Some(key) = sending.pop_front()
        {
            let now = self.clock.now();
            if self.cap.as_ref().is_some_and(|cap| cap.free_at() > now) {
                sending.push_front(key);
                self.held_back = sending;
                return Ok(());
            }
            let Some(connection) = self.connections.get_mut(&key) else { continue };
            let most = self.cap.as_ref().map_or(most, |cap| cap.burst_datagrams(most));
            self.buffer.clear();
            let Some((transmit, from)) = connection.poll_transmit(now, &mut self.buffer, most) else {
                continue;
            };
            let Transmit { to, segment_bytes, ecn } = transmit;
            if let Some(cap) = &mut self.cap {
                cap.take_datagrams(now, self.buffer.len(), segment_bytes);
            }
            if !self.data.send_with(ecn, to, from, &self.buffer, segment_bytes) {
                let contents = std::mem::take(&mut self.buffer);
                self.unsent = Some(Unsent { to, from, contents, segment_bytes, ecn });
                self.poller.modify(self.data.socket(), DATA, Interest::ReadAndWrite)?;
                break;
            }
            sending.push_back(key);
            bursts -= 1;
        }
        Ok(())
    }

    fn remove(&mut self, key: usize, reason: &str) {
        let Some(connection) = self.connections.remove(&key) else { return };
        self.agenda.remove(key);
        self.keys.remove(&connection.name());
        self.shelf.disk.forget(key);
        connection.close(reason, &mut self.statistics);
    }

    fn remove_all(&mut self) {
        for key in self.connections.keys().copied().collect::<Vec<_>>() {
            self.remove(key, "the server is stopping");
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.remove_all();
    }
}

fn is_out_of_files(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].iter().any(|e| errno == Some(e.raw_os_error()))
}

/// Both sockets on one port.
fn bind(address: SocketAddr) -> io::Result<(TcpListener, DataSocket)> {
    const TRIES: usize = 16;
    for attempt in 1.. {
        let listener = listen(address)?;
        match DataSocket::bind(listener.local_addr()?) {
            Ok(data) => return Ok((listener, data)),
            // The free TCP port was not free for UDP.
            Err(e) if address.port() == 0 && attempt < TRIES && e.kind() == ErrorKind::AddrInUse => {}
            Err(e) => return Err(e),
        }
    }
    unreachable!("the last attempt returns")
}

/// A listener; one on [::] takes IPv4 as well, whatever the system's habit.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_mss(SEGMENT_BYTES)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

fn bytes<const N: usize>(random: &SystemRandom) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    random.fill(&mut bytes).map_err(|_| io::Error::other("the system gives no randomness"))?;
    Ok(bytes)
}
