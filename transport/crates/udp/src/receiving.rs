//! A DFCP receiver: any number of senders, one thread for its socket and one that decodes.

mod interface;
mod session;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use proto::dfcp::{AddressValidator, ReceiverConfig, ReceiverEvent, reset};
use proto::object::{Cut, Layout};
use proto::{Agenda, Time};
use ring::rand::{SecureRandom, SystemRandom};
use wire::control::{Offer, Refusal};
use wire::packet::{HEADER_BYTES, Header, Kind, Signal};

pub use self::interface::{ReceiveOptions, ReceiveStatistics, ReceiveUpdate, Taken};
use self::session::Session;
use crate::clock::Clock;
use crate::decoding::{Answer, Batch, Decoding, Order};
use crate::poller::{Interest, Poller};
use crate::pool::Pool;
use crate::process::file_limit;
use crate::serving::Error;
use crate::sink::JobId;
use crate::socket::{Buffers, DataSocket};
use crate::waiting::{Interrupt, Wait};
use proto::limits::Memory;

const SOCKET: usize = 0;
/// Batches of datagrams that are read before anything else has its turn.
const RECEIVE_BATCHES: usize = 8;
/// What everybody may have under way, however many there are.
const LEAST_WINDOW_BYTES: u64 = 1 << 20;
/// Between two answers to symbols of a connection that there is not.
const RESET_INTERVAL: Duration = Duration::from_millis(50);

/// Threads that open what objects go to, and those of them for one sender.
const OPENING: usize = 4;
const OPENING_OF_A_SENDER: usize = 1;

/// What a decoder has of its block's bytes: as many again for what came, and for tables.
const COST_OF_A_BYTE: u64 = 4;
/// And what it is counted as, of what its host may have it hold.
const COUNTED_FOR_A_BYTE: u64 = 3;

type Key = (SocketAddr, u32);

/// Where an object goes, or why it is not taken.
type Opened = (JobId, Result<Taken, (Refusal, String)>);

/// A receiver that is bound.
pub struct Receiving {
    clock: Clock,
    poller: Arc<Poller>,
    interrupt: Interrupt,
    socket: DataSocket,
    buffers: Buffers,
    tls: Option<Arc<rustls::ServerConfig>>,
    config: ReceiverConfig,
    limits: crate::Limits,
    memory: Memory,
    addresses: AddressValidator,
    sessions: HashMap<Key, Session>,
    agenda: Agenda<Key>,
    decoding: Decoding,
    /// Opens what objects go to.
    pool: Pool<Key>,
    opened: (mpsc::Sender<Opened>, mpsc::Receiver<Opened>),
    jobs: HashMap<JobId, Running>,
    next_job: u64,
    kept_back: Batch,
    updates: Vec<ReceiveUpdate>,
    unsent: Option<(SocketAddr, Option<IpAddr>, Vec<u8>)>,
    /// No symbol of an unknown connection is answered before.
    reset_at: Time,
    statistics: ReceiveStatistics,
}

struct Running {
    key: Key,
    request: u16,
    offer: Option<Offer>,
    blocks_left: u64,
}

impl Receiving {
    /// Binds the socket.
    ///
    /// # Errors
    /// [`Error::Listen`] if the address is not to be had.
    pub fn bind(options: ReceiveOptions) -> Result<Self, Error> {
        let ReceiveOptions { listen, tls, config, decode, limits } = options;
        let limits = limits.within(file_limit());
        let socket = DataSocket::bind(listen).map_err(|error| Error::Listen { address: listen, error })?;
        let poller = Arc::new(Poller::new()?);
        let mut secret = [0; 32];
        let fill = SystemRandom::new().fill(&mut secret);
        fill.map_err(|_| io::Error::other("the system gives no randomness"))?;
        let receiving = Receiving {
            clock: Clock::start(),
            socket,
            buffers: Buffers::new(),
            tls,
            config,
            limits,
            memory: Memory::new(&limits),
            addresses: AddressValidator::new(&secret),
            sessions: HashMap::new(),
            agenda: Agenda::new(),
            decoding: Decoding::start(poller.clone(), decode)?,
            pool: Pool::start("opening", OPENING, OPENING_OF_A_SENDER)?,
            opened: mpsc::channel(),
            interrupt: Interrupt::of(&poller),
            poller,
            jobs: HashMap::new(),
            next_job: 0,
            kept_back: Batch::default(),
            updates: Vec::new(),
            unsent: None,
            reset_at: Time::ZERO,
            statistics: ReceiveStatistics::default(),
        };
        receiving.poller.add(receiving.socket.socket(), SOCKET, Interest::Read)?;
        Ok(receiving)
    }

    /// What it may be made to hold, in a process that may open as many files as this one.
    pub fn limits(&self) -> crate::Limits {
        self.limits
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Ends a [`Receiving::wait`] from any thread.
    pub fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        self.interrupt.waker()
    }

    /// Works until something has happened, at most for `patience`.
    ///
    /// # Errors
    /// [`Error::System`]; what senders do comes as updates.
    pub fn wait(&mut self, patience: Duration) -> Result<Vec<ReceiveUpdate>, Error> {
        let mut wait = Wait::for_at_most(patience);
        loop {
            self.drive()?;
            let ended = !self.updates.is_empty() || self.interrupt.was_asked();
            if ended || !wait.next(&self.poller, self.next_timeout())? {
                return Ok(std::mem::take(&mut self.updates));
            }
            if wait.events.keys().next().is_some() {
                self.receive()?;
            }
        }
    }

    fn next_timeout(&self) -> Option<Duration> {
        // As long as the socket is full, nothing is sent in time.
        let soonest = self.agenda.next().filter(|_| self.unsent.is_none())?;
        Some(soonest.since(self.clock.now()))
    }

    fn receive(&mut self) -> Result<(), Error> {
        let now = self.clock.now();
        let mut enough = false;
        let mut answers = Vec::new();
        for _ in 0..RECEIVE_BATCHES {
            let Receiving {
                socket, buffers, sessions, agenda, memory, addresses, kept_back, statistics, ..
            } = self;
            let reset_at = &mut self.reset_at;
            let (tls, limits, config) = (&self.tls, &self.limits, &self.config);
            let more = socket.receive(buffers, |received| {
                let (from, to) = (received.from, received.to);
                for datagram in received.datagrams {
                    let Ok(header) = Header::parse(datagram) else {
                        statistics.strays += 1;
                        continue;
                    };
                    let key = (from, header.connection);
                    if let Some(session) = sessions.get_mut(&key) {
                        agenda.wake(key);
                        session.local = to.filter(|to| !to.is_multicast());
                        enough |= session.handle(now, received.ecn, datagram, kept_back);
                        continue;
                    }
                    statistics.strays += 1;
                    let mut answer = Vec::new();
                    match signal_of(&header, datagram) {
                        Some((signal, payload)) => {
                            let known = &*sessions;
                            let room = || limits.have_room(from, known.keys().map(|(address, _)| *address));
                            let connection = header.connection;
                            if addresses.admits(now, from, connection, &signal, payload, &mut answer) {
                                let session = room().then(|| {
                                    Session::accept(
                                        now,
                                        connection,
                                        config,
                                        tls.as_ref(),
                                        memory.of(from.ip()),
                                    )
                                });
                                match session.flatten() {
                                    Some(mut session) => {
                                        session.local = to.filter(|to| !to.is_multicast());
                                        session.handle(now, received.ecn, datagram, kept_back);
                                        sessions.insert(key, session);
                                        agenda.wake(key);
                                        statistics.connections += 1;
                                        statistics.strays -= 1;
                                    }
                                    None => {
                                        statistics.refused += 1;
                                        reset(connection, &mut answer);
                                    }
                                }
                            }
                        }
                        // A sender that does not know yet that this receiver has forgotten it.
                        None if matches!(header.kind, Kind::Symbol | Kind::Signal) && now >= *reset_at => {
                            *reset_at = now + RESET_INTERVAL;
                            reset(header.connection, &mut answer);
                        }
                        None => {}
                    }
                    if !answer.is_empty() {
                        answers.push((from, to.filter(|to| !to.is_multicast()), answer));
                    }
                }
            })?;
            for (to, from, answer) in answers.drain(..) {
                // One that does not go is asked for again.
                self.socket.send(to, from, &answer, answer.len());
            }
            self.decoding.hand_over(&mut self.kept_back, std::mem::take(&mut enough));
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn drive(&mut self) -> Result<(), Error> {
        while let Some(answer) = self.decoding.answer()? {
            self.on_answer(answer);
        }
        while let Ok((job, opened)) = self.opened.1.try_recv() {
            match opened {
                Ok(taken) => self.take(job, taken),
                Err((why, detail)) => self.refuse(job, why, detail),
            }
        }
        if !self.transmit_unsent()? {
            return Ok(());
        }
        let now = self.clock.now();
        let keys = self.agenda.take(now);
        let mut others_share = false;
        for key in &keys {
            self.drive_session(now, *key);
            others_share |= self.note_share(*key);
        }
        if others_share {
            self.share_limit();
        }
        self.transmit(&keys)
    }

    /// Whether this one has a share of what is taken at most that it had not, or no longer has one.
    fn note_share(&mut self, key: Key) -> bool {
        let Some(session) = self.sessions.get_mut(&key) else { return true };
        let shares = session.endpoint.window_bytes() > 0;
        std::mem::replace(&mut session.shares, shares) != shares
    }

    /// Tells senders what each of them may send of what is taken at most. There may be thousands that are idle: only when
    /// others share it.
    fn share_limit(&mut self) {
        let Some(bps) = self.limits.bps else { return };
        let senders = self.sessions.values().filter(|session| session.shares).count();
        let share = (bps / senders.max(1) as f64) as u64;
        for (key, session) in self.sessions.iter_mut().filter(|(_, session)| session.shares) {
            if session.endpoint.receiver().is_some_and(|receiver| receiver.cap(share)) {
                self.agenda.wake(*key);
            }
        }
    }

    /// What one that opens from `address` may have under way, beside the connections that there are. What came beyond what it may
    /// hold would be lost.
    fn window_bytes(&mut self, address: IpAddr) -> u64 {
        let granted_bytes: u64 = self.sessions.values().map(|s| s.endpoint.window_bytes()).sum();
        let left_bytes = (self.limits.memory_bytes as u64 / COST_OF_A_BYTE).saturating_sub(granted_bytes);
        let of_its_host = self.memory.of(address).blocks.most() as u64 / COUNTED_FOR_A_BYTE;
        self.config.window_bytes.min((left_bytes / 2).min(of_its_host).max(LEAST_WINDOW_BYTES))
    }

    fn drive_session(&mut self, now: Time, key: Key) {
        let opens = self.sessions.get(&key).is_some_and(|session| session.endpoint.is_opening());
        let window_bytes = if opens { self.window_bytes(key.0.ip()) } else { 0 };
        let Some(Session { endpoint, .. }) = self.sessions.get_mut(&key) else { return };
        if opens {
            endpoint.open(now, window_bytes);
            self.updates.push(ReceiveUpdate::Connected { from: key.0 });
        }
        if endpoint.poll_timeout().is_some_and(|at| at <= now) {
            endpoint.handle_timeout(now);
        }
        if let Some(session) = self.sessions.get_mut(&key) {
            session.hold(now);
        }
        while let Some(event) = self.sessions.get_mut(&key).and_then(|s| s.endpoint.poll_event(now)) {
            self.on_event(key, event);
        }
        let Some(session) = self.sessions.get_mut(&key) else { return };
        if session.endpoint.is_over(now) {
            self.statistics.data += session.endpoint.counters();
            self.sessions.remove(&key);
            self.agenda.remove(key);
        }
    }

    fn on_event(&mut self, key: Key, event: ReceiverEvent) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        match event {
            ReceiverEvent::Offer(offer) => {
                let job = JobId(self.next_job);
                self.next_job += 1;
                let request = offer.parameters.request;
                session.jobs.insert(request, job);
                let running = Running { key, request, offer: Some(offer.clone()), blocks_left: 0 };
                self.jobs.insert(job, running);
                self.updates.push(ReceiveUpdate::Offered { job, from: key.0, offer });
            }
            ReceiverEvent::BlockHash { request, block, hash } => {
                if let Some(job) = session.jobs.get(&request) {
                    self.decoding.order(Order::Hash { job: *job, block, hash });
                }
            }
            ReceiverEvent::Withdrawn { request, detail } => {
                if let Some(job) = session.jobs.get(&request).copied() {
                    self.fail(job, detail);
                }
            }
            ReceiverEvent::Ended { reason, .. } => self.lose(key, &reason),
        }
    }

    /// Takes or refuses an object that was offered as `open` says, which may wait for a disk: a thread calls it.
    pub fn open(&self, job: JobId, open: impl FnOnce() -> Result<Taken, (Refusal, String)> + Send + 'static) {
        let Some(running) = self.jobs.get(&job) else { return };
        let (opened, poller) = (self.opened.0.clone(), self.poller.clone());
        self.pool.put(running.key, move || {
            // Both fail only when nobody waits any more.
            let _ = opened.send((job, open()));
            let _ = poller.notify();
        });
    }

    /// Takes an object that was offered.
    pub fn take(&mut self, job: JobId, taken: Taken) {
        let Some(running) = self.jobs.get_mut(&job) else { return };
        let Some(offer) = running.offer.take() else { return };
        self.agenda.wake(running.key);
        let (request, parameters) = (running.request, offer.parameters);
        let session = self.sessions.get_mut(&running.key);
        let Some(receiver) = session.and_then(|session| session.endpoint.receiver()) else { return };
        let cut = Layout::new(offer.symbol_bytes, offer.block_symbols, parameters.size)
            // The state machine has looked at it before.
            .ok_or_else(|| "no object is cut like this".to_owned())
            .and_then(|layout| {
                let (seed, last_seed) = (parameters.seed, parameters.last_seed);
                Cut::new(layout, offer.code, seed, last_seed).map_err(|e| e.to_string())
            });
        let cut = match cut {
            Ok(cut) => cut,
            Err(why) => return self.refuse(job, Refusal::BadParameters, why),
        };
        let Taken { missing, sink } = taken;
        running.blocks_left = receiver.accept(request, &missing);
        self.decoding.order(Order::Begin { job, parameters, cut, sink });
        if running.blocks_left == 0 {
            self.decoding.order(Order::Finish { job });
        }
    }

    /// Does not take it, or not any more.
    pub fn refuse(&mut self, job: JobId, why: Refusal, detail: String) {
        let Some(running) = self.jobs.remove(&job) else { return };
        self.agenda.wake(running.key);
        if let Some(session) = self.sessions.get_mut(&running.key) {
            session.jobs.remove(&running.request);
            if let Some(receiver) = session.endpoint.receiver() {
                receiver.refuse(running.request, why, detail.clone());
            }
        }
        self.decoding.order(Order::Forget { job });
        self.statistics.failed += 1;
        self.updates.push(ReceiveUpdate::Failed { job, why: detail });
    }

    fn on_answer(&mut self, answer: Answer) {
        let now = self.clock.now();
        let (Answer::Needs { job, .. }
        | Answer::Complete { job, .. }
        | Answer::Finished { job }
        | Answer::Failed { job, .. }) = answer;
        let Some(running) = self.jobs.get_mut(&job) else { return };
        self.agenda.wake(running.key);
        let session = self.sessions.get_mut(&running.key);
        let Some(receiver) = session.and_then(|session| session.endpoint.receiver()) else { return };
        match answer {
            Answer::Needs { block, symbols, .. } => receiver.needs(now, running.request, block, symbols),
            Answer::Complete { block, bytes, .. } => {
                receiver.complete(now, running.request, block);
                self.updates.push(ReceiveUpdate::Block { job, bytes });
                running.blocks_left = running.blocks_left.saturating_sub(1);
                if running.blocks_left == 0 {
                    self.decoding.order(Order::Finish { job });
                }
            }
            Answer::Finished { .. } => {
                receiver.stored(running.request);
                if let Some(running) = self.jobs.remove(&job)
                    && let Some(session) = self.sessions.get_mut(&running.key)
                {
                    session.jobs.remove(&running.request);
                }
                self.statistics.stored += 1;
                self.updates.push(ReceiveUpdate::Stored { job });
            }
            Answer::Failed { why, .. } => {
                receiver.refuse(running.request, Refusal::Unreadable, why.clone());
                self.fail(job, why);
            }
        }
    }

    fn fail(&mut self, job: JobId, why: String) {
        let Some(running) = self.jobs.remove(&job) else { return };
        if let Some(session) = self.sessions.get_mut(&running.key) {
            session.jobs.remove(&running.request);
        }
        self.decoding.order(Order::Forget { job });
        self.statistics.failed += 1;
        self.updates.push(ReceiveUpdate::Failed { job, why });
    }

    /// A sender is gone.
    fn lose(&mut self, key: Key, why: &str) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        self.agenda.wake(key);
        let connected = session.endpoint.was_open();
        let jobs: Vec<JobId> = session.jobs.values().copied().collect();
        for job in jobs {
            self.fail(job, format!("its sender is gone: {why}"));
        }
        if connected {
            self.updates.push(ReceiveUpdate::Disconnected { from: key.0, why: why.to_owned() });
        }
    }

    /// Whether there is nothing left that the socket had no room for.
    fn transmit_unsent(&mut self) -> Result<bool, Error> {
        let Some((to, from, datagram)) = self.unsent.take() else { return Ok(true) };
        if !self.socket.send(to, from, &datagram, datagram.len()) {
            self.unsent = Some((to, from, datagram));
            return Ok(false);
        }
        self.poller.modify(self.socket.socket(), SOCKET, Interest::Read)?;
        Ok(true)
    }

    /// Sends what these connections have to send, and notes when it is their turn again.
    fn transmit(&mut self, keys: &[Key]) -> Result<(), Error> {
        let mut datagram = Vec::new();
        let now = self.clock.now();
        for key in keys {
            let Some(session) = self.sessions.get_mut(key) else { continue };
            while self.unsent.is_none() && session.endpoint.poll_transmit(now, &mut datagram) {
                if self.socket.send(key.0, session.local, &datagram, datagram.len()) {
                    datagram.clear();
                } else {
                    self.unsent = Some((key.0, session.local, std::mem::take(&mut datagram)));
                    self.poller.modify(self.socket.socket(), SOCKET, Interest::ReadAndWrite)?;
                }
            }
            self.agenda.set(*key, session.endpoint.poll_timeout());
        }
        Ok(())
    }

    /// Says goodbye to all senders.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn stop(&mut self) -> Result<ReceiveStatistics, Error> {
        let now = self.clock.now();
        for key in self.sessions.keys().copied().collect::<Vec<_>>() {
            if let Some(receiver) = self.sessions.get_mut(&key).and_then(|s| s.endpoint.receiver()) {
                receiver.end("the receiver is stopping".into());
            }
            self.drive_session(now, key);
        }
        let keys: Vec<Key> = self.sessions.keys().copied().collect();
        if self.transmit_unsent()? {
            self.transmit(&keys)?;
        }
        for session in self.sessions.values() {
            self.statistics.data += session.endpoint.counters();
        }
        self.statistics.peak_bytes = self.memory.peak_bytes() as u64;
        self.statistics.peak_files = self.memory.peak_files() as u64;
        Ok(self.statistics)
    }
}

/// The signal in clear that a datagram is, if it is one.
fn signal_of<'a>(header: &Header, datagram: &'a [u8]) -> Option<(Signal, &'a [u8])> {
    let body = datagram.get(HEADER_BYTES..).filter(|_| header.kind == Kind::Signal)?;
    Signal::parse(body).ok()
}
