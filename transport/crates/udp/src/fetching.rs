//! A client: pulls objects from many servers at once, on one thread for all its sockets.

mod interface;
mod link;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use proto::Time;
use proto::lttp::{Client, ClientConfig, ClientEvent, Lost, ServerId, ServerReport};
use proto::object::{Cut, Layout};
use thiserror::Error;
use wire::control::{Parameters, Refusal, Run, Version};

pub use self::interface::{Error, Job, ServerAddress, Update};
use self::link::Link;
use crate::clock::Clock;
use crate::decoding::{Answer, Batch, Decoding, Order};
use crate::poller::{Interest, Poller};
use crate::sink::{JobId, Sink};
use crate::socket::DataSocket;
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
    client: Client,
    links: Vec<Link>,
    /// The links of the state machine's servers.
    link_of: HashMap<ServerId, usize>,
    server_of: HashMap<SocketAddr, ServerId>,
    /// One socket for each family that is needed.
    sockets: Vec<DataSocket>,
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
    link: usize,
    /// Until it is asked for.
    waiting: Option<(String, Vec<Run>, Option<Version>)>,
    /// Until its parameters have come.
    sink: Option<Box<dyn Sink>>,
    request: Option<(ServerId, u16)>,
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
            client: Client::new(config.clone()),
            config,
            links: Vec::new(),
            link_of: HashMap::new(),
            server_of: HashMap::new(),
            sockets: Vec::new(),
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
        for (index, server) in servers.iter().enumerate() {
            let link = Link::connect(server, tls)?;
            if let Some(stream) = link.stream() {
                fetching.poller.add(stream, FIRST_LINK + index, Interest::ReadAndWrite)?;
            }
            fetching.links.push(link);
        }
        for index in 0..fetching.links.len() {
            // One that failed at once has no jobs, and is in no poller.
            if let Some(why) = fetching.links[index].take_failure() {
                fetching.updates.push(Update::Lost { server: index, why, swallowed: false });
            }
        }
        Ok(fetching)
    }

    /// Pulls an object, as soon as its server is there.
    pub fn start(&mut self, job: Job) -> JobId {
        let id = JobId(self.next_job);
        self.next_job += 1;
        let Job { server, path, runs, version, sink } = job;
        let running = Running {
            link: server,
            waiting: Some((path, runs.clone(), version)),
            sink: Some(sink),
            request: None,
            early: Batch::default(),
            early_hashes: Vec::new(),
            blocks_left: 0,
            runs,
            known: false,
        };
        self.jobs.insert(id, running);
        self.ask(id);
        id
    }

    fn ask(&mut self, id: JobId) {
        let Some(running) = self.jobs.get_mut(&id) else { return };
        let Some(link) = self.links.get(running.link).filter(|link| !link.is_gone()) else {
            return self.fail(id, None, "its server is gone".into());
        };
        let Some(server) = link.server() else { return };
        let Some((path, runs, version)) = running.waiting.take() else { return };
        match self.client.fetch(server, path, runs, version) {
            Some(request) => {
                running.request = Some((server, request));
                self.job_of.insert((server, request), id);
            }
            None => self.fail(id, None, "its server is gone, or has too many requests".into()),
        }
    }

    /// Ends a [`Fetching::wait`] from any thread.
    pub fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        self.interrupt.waker()
    }

    /// Gives a job up.
    pub fn cancel(&mut self, job: JobId) {
        let Some(running) = self.jobs.remove(&job) else { return };
        if let Some((server, request)) = running.request {
            self.job_of.remove(&(server, request));
            self.client.cancel(server, request);
        }
        self.decoding.order(Order::Forget { job });
    }

    /// Asks a server, which must be ready, what lies under a path. The answer is an [`Update`] with the same number.
    pub fn list(&mut self, server: usize, path: String) -> Option<u16> {
        let id = self.links.get(server)?.server()?;
        let request = self.next_listing;
        self.next_listing = self.next_listing.wrapping_add(1);
        self.client.list(self.clock.now(), id, request, path);
        Some(request)
    }

    /// What came of a server so far, and its round trip; `None` if its control channel never opened.
    pub fn report(&self, server: usize) -> Option<(ServerReport, Option<Duration>)> {
        let id = self.links.get(server)?.server()?;
        Some((self.client.report(id)?, self.client.rtt(id)))
    }

    /// The present window in bytes on the wire.
    pub fn window_bytes(&self) -> usize {
        self.client.window_bytes()
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
        let opening = self.links.iter().any(Link::is_opening).then(|| Time::ZERO + self.config.silence);
        let client = self.client.poll_timeout().filter(|_| self.unsent.is_none());
        client.into_iter().chain(opening).min().map(|at| at.since(self.clock.now()))
    }

    fn on_link(&mut self, index: usize) {
        let now = self.clock.now();
        let Some(link) = self.links.get_mut(index) else { return };
        let broken = link.read().err();
        if let Some(protection) = link.opened() {
            match protection {
                Ok(protection) => {
                    let server = self.client.add_server(now, protection);
                    link.set_server(server);
                    self.link_of.insert(server, index);
                    self.server_of.insert(link.address(), server);
                    let waiting: Vec<JobId> =
                        self.jobs.iter().filter(|(_, r)| r.link == index).map(|(id, _)| *id).collect();
                    for job in waiting {
                        self.ask(job);
                    }
                }
                Err(broken) => return self.lose(index, broken.to_string()),
            }
        }
        let Some(link) = self.links.get_mut(index) else { return };
        let Some(server) = link.server() else {
            if let Some(broken) = broken {
                self.lose(index, broken.to_string());
            }
            return;
        };
        // What was said before the end may tell why.
        let broken = loop {
            match link.message() {
                Ok(Some(message)) => self.client.handle_control(now, server, message),
                Ok(None) => break broken,
                Err(malformed) => break Some(malformed),
            }
        };
        if let Some(broken) = broken {
            self.client.disconnected(server, broken.to_string());
        }
    }

    /// Gives up servers whose control channel does not open.
    fn give_up_unopened(&mut self, now: Time) {
        let silence = self.config.silence;
        for index in 0..self.links.len() {
            if self.links[index].is_opening() && now.since(Time::ZERO) >= silence {
                self.lose(index, format!("it did not answer within {} s", silence.as_secs_f64()));
            }
        }
    }

    fn receive(&mut self, socket: usize) -> Result<(), Error> {
        let mut enough = false;
        let now = self.clock.now();
        for _ in 0..RECEIVE_BATCHES {
            let Fetching { sockets, client, server_of, job_of, jobs, kept_back, .. } = self;
            let more = sockets[socket].receive(|received| {
                let Some(server) = server_of.get(&received.from) else { return };
                for datagram in received.datagrams {
                    let arrival = client.handle_datagram(now, *server, received.ecn, datagram);
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
        if self.client.poll_timeout().is_some_and(|at| at <= now) {
            self.client.handle_timeout(now);
        }
        self.give_up_unopened(now);
        while let Some(event) = self.client.poll_event() {
            self.on_event(event);
        }
        while let Some((server, message)) = self.client.poll_control(now) {
            let Some(index) = self.link_of.get(&server) else { continue };
            if let Err(broken) = self.links[*index].send(&message) {
                self.client.disconnected(server, broken.to_string());
            }
        }
        for index in 0..self.links.len() {
            if let Err(broken) = self.links[index].flush() {
                match self.links[index].server() {
                    Some(server) => self.client.disconnected(server, broken.to_string()),
                    None => self.lose(index, broken.to_string()),
                }
            } else if let Some((stream, write)) = self.links[index].interest_changed() {
                self.poller.modify(stream, FIRST_LINK + index, Interest::with(write))?;
            }
        }
        while let Some(event) = self.client.poll_event() {
            self.on_event(event);
        }
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
        while let Some(server) = self.client.poll_transmit(now, &mut datagram) {
            let Some(index) = self.link_of.get(&server) else { continue };
            let to = self.links[*index].address();
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
                if let Some((server, request)) = self.jobs.get(&job).and_then(|r| r.request) {
                    self.client.needs(server, request, block, symbols);
                }
            }
            Answer::Complete { job, block, bytes } => {
                let Some(running) = self.jobs.get_mut(&job) else { return };
                if let Some((server, request)) = running.request {
                    self.client.complete(server, request, block);
                }
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
                if let Some((server, request)) = self.jobs.get(&job).and_then(|r| r.request) {
                    self.client.cancel(server, request);
                }
                self.fail(job, None, why);
            }
        }
    }

    fn on_event(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Ready { server } => {
                self.updates.extend(self.link_of.get(&server).map(|link| Update::Ready { server: *link }));
            }
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
                let Some(link) = self.link_of.get(&server) else { return };
                self.updates.push(Update::Listing { server: *link, request, entries, omitted, last });
            }
            ClientEvent::Unlisted { server, request, detail } => {
                let Some(link) = self.link_of.get(&server) else { return };
                self.updates.push(Update::Unlisted { server: *link, request, why: detail });
            }
            ClientEvent::Refused { server, request, why, detail } => {
                if let Some(job) = self.job_of.get(&(server, request)) {
                    self.fail(*job, Some(why), detail);
                }
            }
            ClientEvent::Lost { server, reason } => {
                if let Some(index) = self.link_of.get(&server) {
                    self.give_up(*index, reason.to_string(), matches!(reason, Lost::NoData(_)));
                }
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
                self.client.cancel(server, parameters.request);
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

    fn lose(&mut self, index: usize, why: String) {
        self.give_up(index, why, false);
    }

    /// A server is gone; whether its path has swallowed datagrams that are as long as symbols.
    fn give_up(&mut self, index: usize, why: String, swallowed: bool) {
        if self.links[index].is_gone() {
            return;
        }
        if let Some(stream) = self.links[index].stream() {
            // It was added when the connection began.
            let _ = self.poller.delete(stream);
        }
        self.server_of.remove(&self.links[index].address());
        self.links[index].close();
        // First, so that whoever hears of the jobs knows that it was not they that failed.
        self.updates.push(Update::Lost { server: index, why: why.clone(), swallowed });
        let jobs: Vec<JobId> = self.jobs.iter().filter(|(_, r)| r.link == index).map(|(id, _)| *id).collect();
        for job in jobs {
            self.fail(job, None, format!("its server is gone: {why}"));
        }
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        for link in &mut self.links {
            link.close();
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
