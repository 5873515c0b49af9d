//! A client: pulls objects from many servers at once, on one thread for all its sockets.

mod interface;
mod link;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use proto::channel::Security;
use proto::lttp::{ClientConfig, ClientEndpoint, ClientEvent, ServerId, ServerReport};
use proto::object::{Cut, Layout};
use rustls::pki_types::ServerName;
use wire::control::{Parameters, Refusal, Run};

pub use self::interface::{Error, Job, ServerAddress, Update};
use self::link::Link;
use crate::clock::Clock;
use crate::decoding::{Answer, Batch, Decoding, Order};
use crate::poller::{Interest, Poller};
use crate::sink::{JobId, Sink};
use crate::socket::{Buffers, DataSocket};
use crate::waiting::{Interrupt, Wait};

/// Batches of datagrams that are read before anything else has its turn.
const RECEIVE_BATCHES: usize = 8;
const FIRST_LINK: usize = 2;

/// Many servers, many objects, one window.
pub struct Fetching {
    clock: Clock,
    poller: Arc<Poller>,
    interrupt: Interrupt,
    config: ClientConfig,
    endpoint: ClientEndpoint,
    /// By server.
    links: Vec<Link>,
    server_of: HashMap<SocketAddr, ServerId>,
    /// One socket for each family that is needed.
    sockets: Vec<DataSocket>,
    buffers: Buffers,
    decoding: Decoding,
    jobs: HashMap<JobId, Running>,
    job_of: HashMap<(ServerId, u16), JobId>,
    next_job: u64,
    next_listing: u16,
    updates: Vec<Update>,
    unsent: Option<(usize, SocketAddr, Vec<u8>)>,
    /// Symbols that the decoding thread has not been given yet.
    kept_back: Batch,
}

struct Running {
    server: ServerId,
    request: u16,
    /// Until its parameters have come.
    sink: Option<Box<dyn Sink>>,
    /// Symbols that came before the parameters.
    early: Batch,
    /// Hashes that did.
    early_hashes: Vec<(u32, wire::control::Hash)>,
    blocks_left: u64,
    runs: Vec<Run>,
    known: bool,
}

impl Fetching {
    /// Begins to connect to all of `servers`; how that went is told by [`Update::Ready`] and [`Update::Lost`].
    ///
    /// # Errors
    /// [`enum@Error`]; a server that cannot be reached is none.
    pub fn connect(
        servers: &[ServerAddress],
        tls: Option<&Arc<rustls::ClientConfig>>,
        config: ClientConfig,
    ) -> Result<Self, Error> {
        let poller = Arc::new(Poller::new()?);
        let mut fetching = Fetching {
            clock: Clock::start(),
            endpoint: ClientEndpoint::new(config.clone()),
            config,
            links: Vec::new(),
            server_of: HashMap::new(),
            sockets: Vec::new(),
            buffers: Buffers::new(),
            decoding: Decoding::start(poller.clone(), true)?,
            interrupt: Interrupt::of(&poller),
            poller,
            jobs: HashMap::new(),
            job_of: HashMap::new(),
            next_job: 0,
            next_listing: 0,
            updates: Vec::new(),
            unsent: None,
            kept_back: Batch::default(),
        };
        let families = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        for (key, any) in families.into_iter().enumerate() {
            if servers.iter().any(|s| s.address.is_ipv4() == any.is_ipv4()) {
                let socket = DataSocket::bind(SocketAddr::new(any, 0))?;
                fetching.poller.add(socket.socket(), fetching.sockets.len(), Interest::Read)?;
                debug_assert!(key < FIRST_LINK);
                fetching.sockets.push(socket);
            }
        }
        for server in servers {
            fetching.add(server, tls)?;
        }
        // Whoever starts a job of a server that failed at once is told first that it is gone.
        fetching.take_events();
        Ok(fetching)
    }

    fn add(&mut self, server: &ServerAddress, tls: Option<&Arc<rustls::ClientConfig>>) -> Result<(), Error> {
        let security = match tls {
            None => Security::Clear,
            Some(config) => {
                let name = ServerName::try_from(server.name.clone());
                let name = name.map_err(|_| Error::Name(server.name.clone()))?;
                Some(rustls::ClientConnection::new(config.clone(), name)?).into()
            }
        };
        let id = self.endpoint.connect(self.clock.now(), security);
        let link = Link::begin(server.address).unwrap_or_else(|error| {
            self.endpoint.stream_ended(id, Some(error));
            Link::gone(server.address)
        });
        if let Some(stream) = link.stream() {
            self.poller.add(stream, FIRST_LINK + id.0, Interest::ReadAndWrite)?;
        }
        self.links.push(link);
        self.server_of.insert(server.address, id);
        Ok(())
    }

    /// Pulls an object, as soon as its server is there.
    pub fn start(&mut self, job: Job) -> JobId {
        let id = JobId(self.next_job);
        self.next_job += 1;
        let Job { server, path, runs, version, sink } = job;
        let server = ServerId(server);
        let client = self.endpoint.client();
        let Some(request) = client.fetch(server, path, runs.clone(), version) else {
            let why = if client.is_gone(server) { "its server is gone" } else { "it has too many requests" };
            self.updates.push(Update::Failed { job: id, refusal: None, why: why.into() });
            return id;
        };
        let running = Running {
            server,
            request,
            sink: Some(sink),
            early: Batch::default(),
            early_hashes: Vec::new(),
            blocks_left: 0,
            runs,
            known: false,
        };
        self.jobs.insert(id, running);
        self.job_of.insert((server, request), id);
        id
    }

    /// Ends a [`Fetching::wait`] from any thread.
    pub fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        self.interrupt.waker()
    }

    /// Gives a job up.
    pub fn cancel(&mut self, job: JobId) {
        let Some(running) = self.jobs.remove(&job) else { return };
        let Running { server, request, .. } = running;
        self.job_of.remove(&(server, request));
        self.endpoint.client().cancel(server, request);
        self.decoding.order(Order::Forget { job });
    }

    /// Asks a server, which must be ready, what lies under a path. The answer is an [`Update`] with the same number.
    pub fn list(&mut self, server: usize, path: String) -> Option<u16> {
        let (now, request) = (self.clock.now(), self.next_listing);
        let asked = self.endpoint.client().list(now, ServerId(server), request, path);
        self.next_listing = self.next_listing.wrapping_add(asked.into());
        asked.then_some(request)
    }

    /// What came of a server so far, and its round trip; `None` if its control channel never opened.
    pub fn report(&self, server: usize) -> Option<(ServerReport, Option<Duration>)> {
        let (client, server) = (self.endpoint.data(), ServerId(server));
        Some((client.report(server)?, client.rtt(server)))
    }

    /// The present window in bytes on the wire.
    pub fn window_bytes(&self) -> usize {
        self.endpoint.data().window_bytes()
    }

    /// Works until something has happened, at most for `patience`.
    ///
    /// # Errors
    /// [`Error::System`]; what servers do comes as updates.
    pub fn wait(&mut self, patience: Duration) -> Result<Vec<Update>, Error> {
        let mut wait = Wait::for_at_most(patience);
        loop {
            self.drive()?;
            let ended = !self.updates.is_empty() || self.interrupt.was_asked();
            if ended || !wait.next(&self.poller, self.next_timeout())? {
                return Ok(std::mem::take(&mut self.updates));
            }
            let mut readable = Vec::new();
            // Control before data: parameters must not come after the symbols that need them.
            for key in wait.events.keys() {
                match key.checked_sub(FIRST_LINK) {
                    Some(link) => self.on_link(link),
                    None => readable.push(key),
                }
            }
            for socket in readable {
                self.receive(socket)?;
            }
        }
    }

    fn next_timeout(&self) -> Option<Duration> {
        let due = self.endpoint.poll_timeout().filter(|_| self.unsent.is_none());
        due.map(|at| at.since(self.clock.now()))
    }

    fn on_link(&mut self, index: usize) {
        let (now, server) = (self.clock.now(), ServerId(index));
        let Fetching { links, endpoint, .. } = self;
        let Some(link) = links.get_mut(index) else { return };
        match link.read(|bytes| endpoint.receive(now, server, bytes)) {
            Ok(true) => {}
            Ok(false) => endpoint.stream_ended(server, None),
            Err(error) => endpoint.stream_ended(server, Some(error)),
        }
    }

    fn receive(&mut self, socket: usize) -> Result<(), Error> {
        let mut enough = false;
        let now = self.clock.now();
        for _ in 0..RECEIVE_BATCHES {
            let Fetching { sockets, buffers, endpoint, server_of, job_of, jobs, kept_back, .. } = self;
            let more = sockets[socket].receive(buffers, |received| {
                let Some(server) = server_of.get(&received.from) else { return };
                for datagram in received.datagrams {
                    let arrival = endpoint.handle_datagram(now, *server, received.ecn, datagram);
                    let Some(arrival) = arrival else { continue };
                    let Some(job) = job_of.get(&(*server, arrival.request)) else { continue };
                    let Some(running) = jobs.get_mut(job) else { continue };
                    let batch = if running.known { &mut *kept_back } else { &mut running.early };
                    enough |= running.known && arrival.enough;
                    batch.push(*job, arrival.block, arrival.index, arrival.payload);
                }
            })?;
            if !more {
                break;
            }
        }
        self.decoding.hand_over(&mut self.kept_back, enough);
        Ok(())
    }

    /// Does what is due, and sends what there is to send.
    fn drive(&mut self) -> Result<(), Error> {
        while let Some(answer) = self.decoding.answer()? {
            self.on_answer(answer);
        }
        let now = self.clock.now();
        self.endpoint.handle_timeout(now);
        self.take_events();
        self.endpoint.speak(now);
        for (index, link) in self.links.iter_mut().enumerate() {
            let channel = self.endpoint.channel_mut(ServerId(index));
            if let Err(error) = link.flush(channel) {
                self.endpoint.stream_ended(ServerId(index), Some(error));
            } else if let Some((stream, write)) = link.interest_changed(channel) {
                self.poller.modify(stream, FIRST_LINK + index, Interest::with(write))?;
            }
        }
        self.take_events();
        self.transmit()
    }

    fn transmit(&mut self) -> Result<(), Error> {
        if let Some((socket, to, datagram)) = self.unsent.take() {
            if !self.sockets[socket].send(to, None, &datagram, datagram.len()) {
                self.unsent = Some((socket, to, datagram));
                return Ok(());
            }
            self.poller.modify(self.sockets[socket].socket(), socket, Interest::Read)?;
        }
        let mut datagram = Vec::new();
        let now = self.clock.now();
        while let Some(server) = self.endpoint.poll_transmit(now, &mut datagram) {
            let to = self.links[server.0].address();
            let same = |s: &DataSocket| s.is_ipv4() == to.is_ipv4();
            let Some(socket) = self.sockets.iter().position(same) else { continue };
            if !self.sockets[socket].send(to, None, &datagram, datagram.len()) {
                self.unsent = Some((socket, to, datagram));
                self.poller.modify(self.sockets[socket].socket(), socket, Interest::ReadAndWrite)?;
                return Ok(());
            }
            datagram.clear();
        }
        Ok(())
    }

    fn on_answer(&mut self, answer: Answer) {
        match answer {
            Answer::Needs { job, block, symbols } => {
                if let Some(Running { server, request, .. }) = self.jobs.get(&job) {
                    self.endpoint.client().needs(*server, *request, block, symbols);
                }
            }
            Answer::Complete { job, block, bytes } => {
                let Some(running) = self.jobs.get_mut(&job) else { return };
                self.endpoint.client().complete(running.server, running.request, block);
                self.updates.push(Update::Block { job, block, bytes });
                running.blocks_left = running.blocks_left.saturating_sub(1);
                if running.blocks_left == 0 {
                    self.decoding.order(Order::Finish { job });
                }
            }
            Answer::Finished { job } => {
                if let Some(running) = self.jobs.remove(&job) {
                    self.job_of.retain(|_, j| *j != job);
                    debug_assert_eq!(running.blocks_left, 0);
                    self.updates.push(Update::Finished { job });
                }
            }
            Answer::Failed { job, why } => {
                if let Some(Running { server, request, .. }) = self.jobs.get(&job) {
                    self.endpoint.client().cancel(*server, *request);
                }
                self.fail(job, None, why);
            }
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Ready { server } => self.updates.push(Update::Ready { server: server.0 }),
            ClientEvent::Parameters { server, parameters } => self.on_parameters(server, parameters),
            ClientEvent::BlockHash { server, request, block, hash } => {
                let Some(job) = self.job_of.get(&(server, request)) else { return };
                let Some(running) = self.jobs.get_mut(job) else { return };
                if running.known {
                    self.decoding.order(Order::Hash { job: *job, block, hash });
                } else {
                    running.early_hashes.push((block, hash));
                }
            }
            ClientEvent::Listing { server, request, entries, omitted, last } => {
                self.updates.push(Update::Listing { server: server.0, request, entries, omitted, last });
            }
            ClientEvent::Unlisted { server, request, detail } => {
                self.updates.push(Update::Unlisted { server: server.0, request, why: detail });
            }
            ClientEvent::Refused { server, request, why, detail } => {
                if let Some(job) = self.job_of.get(&(server, request)) {
                    self.fail(*job, Some(why), detail);
                }
            }
            ClientEvent::Lost { server, reason } => {
                self.give_up(server, reason.to_string());
            }
        }
    }

    fn on_parameters(&mut self, server: ServerId, parameters: Parameters) {
        let Some(job) = self.job_of.get(&(server, parameters.request)).copied() else { return };
        let Some(running) = self.jobs.get_mut(&job) else { return };
        let ClientConfig { symbol_bytes, block_symbols, code, method, .. } = self.config;
        // The state machine has looked at them before.
        let Some(layout) = Layout::new(symbol_bytes, block_symbols, parameters.size) else { return };
        let cut = match Cut::new(layout, code, parameters.seed, parameters.last_seed) {
            Ok(cut) => cut.decoded_by(method),
            Err(e) => {
                self.endpoint.client().cancel(server, parameters.request);
                return self.fail(job, None, e.to_string());
            }
        };
        let Some(sink) = running.sink.take() else { return };
        running.known = true;
        running.blocks_left = blocks(&running.runs, layout.blocks());
        self.updates.push(Update::Began { job, parameters });
        self.decoding.order(Order::Begin { job, parameters, cut, sink });
        for (block, hash) in running.early_hashes.drain(..) {
            self.decoding.order(Order::Hash { job, block, hash });
        }
        let early = std::mem::take(&mut running.early);
        if !early.is_empty() {
            self.decoding.order(Order::Symbols(early));
        }
        if running.blocks_left == 0 {
            self.decoding.order(Order::Finish { job });
        }
    }

    fn fail(&mut self, job: JobId, refusal: Option<Refusal>, why: String) {
        if self.jobs.remove(&job).is_some() {
            self.job_of.retain(|_, j| *j != job);
            self.decoding.order(Order::Forget { job });
            self.updates.push(Update::Failed { job, refusal, why });
        }
    }

    /// A server is gone.
    fn give_up(&mut self, server: ServerId, why: String) {
        let link = &mut self.links[server.0];
        if let Some(stream) = link.stream() {
            // It was added when the connection began.
            let _ = self.poller.delete(stream);
        }
        self.server_of.remove(&link.address());
        self.endpoint.close(server);
        link.close(self.endpoint.channel_mut(server));
        // First, so that whoever hears of the jobs knows that it was not they that failed.
        self.updates.push(Update::Lost { server: server.0, why: why.clone() });
        let of_it = |(id, running): (&JobId, &Running)| (running.server == server).then_some(*id);
        for job in self.jobs.iter().filter_map(of_it).collect::<Vec<_>>() {
            self.fail(job, None, format!("its server is gone: {why}"));
        }
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        for (index, link) in self.links.iter_mut().enumerate() {
            self.endpoint.close(ServerId(index));
            link.close(self.endpoint.channel_mut(ServerId(index)));
        }
    }
}

/// How many of `all` blocks the runs name.
fn blocks(runs: &[Run], all: u32) -> u64 {
    if runs.is_empty() {
        return all.into();
    }
    runs.iter().map(|run| u64::from(run.count.min(all.saturating_sub(run.first)))).sum()
}
