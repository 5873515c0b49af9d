//! ATP: one thread for a socket and all of its connections, whose streams are read and written from any thread or task.
//!
//! Who writes sends at once, unless others do, too: then the socket's thread sends it along with what else there is. What waits is
//! a [`Context`]'s waker, so that threads and tasks of any executor wait in the same way; but a thread that waits can receive meanwhile.

mod blocking;
mod state;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use proto::atp::{
    Closed, ConnectError, ConnectionConfig, ConnectionId, Counters, Endpoint, EndpointConfig,
    EndpointCounters, Read, StreamId,
};
use proto::limits::Limits;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::{CertificateDer, ServerName};
use thiserror::Error;

use self::state::{State, Wakers};
use crate::clock::Clock;
use crate::poller::{Events, Interest, Poller};
use crate::socket::{Buffers, DataSocket};

const SOCKET: usize = 0;
/// Whoever writes so soon after somebody else who did leaves it to the socket's thread, which takes what others write meanwhile along.
const TOGETHER: Duration = Duration::from_micros(30);
/// The same while that thread is at work, and about to send in any case: only who comes after a pause does not wait for it.
const TOGETHER_AT_WORK: Duration = Duration::from_micros(200);
/// Batches of datagrams that are read before others may have the endpoint.
const RECEIVE_BATCHES: usize = 8;

/// How to set up an end of ATP's connections.
pub struct AtpOptions {
    /// The socket's address; port 0 takes a free one.
    pub bind: SocketAddr,
    /// Who it is for those that connect to it; `None`: nobody may.
    pub server: Option<Arc<rustls::ServerConfig>>,
    /// How connections behave.
    pub config: ConnectionConfig,
    /// What connections may make it hold.
    pub limits: Limits,
}

/// Why a stream cannot be read or written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StreamError {
    /// The peer has given it up, for this reason of its application.
    #[error("the other side has given the stream up ({0})")]
    Reset(u64),
    /// The peer wants no more of it, for this reason of its application.
    #[error("the other side wants no more of the stream ({0})")]
    Stopped(u64),
    /// This end has finished it, or given it up.
    #[error("the stream is not open for this any more")]
    NotOpen,
    /// The connection is over.
    #[error(transparent)]
    Closed(#[from] Closed),
}

/// A socket with all its connections. The thread that works for it ends when it has been closed and all connections are over.
pub struct Atp {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<io::Result<()>>>>,
}

struct Shared {
    /// Whoever receives has them. They are locked before the state, if both are.
    buffers: Mutex<Buffers>,
    state: Mutex<State>,
    socket: DataSocket,
    /// Where the socket's thread sleeps.
    poller: Poller,
    /// Where a thread sleeps that waits, and receives meanwhile.
    waiters: Poller,
    clock: Clock,
}

impl Atp {
    /// Binds a socket, and starts the thread that works for it.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(options: AtpOptions) -> io::Result<Self> {
        let AtpOptions { bind, server, config: connection, limits } = options;
        let mut key = [0; 32];
        SystemRandom::new().fill(&mut key).map_err(|_| io::Error::other("the system gives no randomness"))?;
        let server = server.map(|server| Arc::new(with_protocol(&server, connection.early)));
        let endpoint = Endpoint::new(EndpointConfig { connection, limits, server, key });
        let socket = DataSocket::bind(bind)?;
        let poller = Poller::new()?;
        let waiters = Poller::new()?;
        for poller in [&poller, &waiters] {
            poller.add(socket.socket(), SOCKET, Interest::Read)?;
        }
        let (buffers, state) = (Mutex::new(Buffers::new()), Mutex::new(State::new(endpoint)));
        let shared = Arc::new(Shared { buffers, state, socket, poller, waiters, clock: Clock::start() });
        let of_thread = shared.clone();
        let thread = thread::Builder::new().name("atp".into()).spawn(move || of_thread.run())?;
        Ok(Atp { shared, thread: Mutex::new(Some(thread)) })
    }

    /// The socket's address.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.shared.socket.local_addr()
    }

    /// Begins to connect to a server, which has to be `name`.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(
        &self,
        remote: SocketAddr,
        name: ServerName<'static>,
        tls: Arc<rustls::ClientConfig>,
    ) -> Result<ConnectionId, ConnectError> {
        let remote = match remote.ip() {
            IpAddr::V4(v4) if !self.shared.socket.is_ipv4() => (v4.to_ipv6_mapped(), remote.port()).into(),
            _ => remote,
        };
        self.act(|state, now| {
            if state.closed {
                return Err(ConnectError::Closed);
            }
            let id = state.endpoint.connect(now, remote, name, tls)?;
            state.add(id);
            Ok(id)
        })
    }

    /// The next connection that somebody has made to this end; none once it is closed.
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<Option<ConnectionId>> {
        let mut state = self.shared.lock();
        match state.accepted.pop_front() {
            Some(id) => Poll::Ready(Some(id)),
            None if state.closed => Poll::Ready(None),
            None => {
                state.accepting.add(context);
                Poll::Pending
            }
        }
    }

    /// Whether a connection's handshake is through.
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn poll_connected(&self, id: ConnectionId, context: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        let mut state = self.shared.lock();
        let waiting = state.waiting(id)?;
        if waiting.connected {
            return Poll::Ready(Ok(()));
        }
        waiting.news.add(context);
        Poll::Pending
    }

    /// Waits until a connection is over, and says why it is.
    pub fn poll_closed(&self, id: ConnectionId, context: &mut Context<'_>) -> Poll<Closed> {
        let mut state = self.shared.lock();
        match state.waiting(id) {
            Err(why) => Poll::Ready(why),
            Ok(waiting) => {
                waiting.news.add(context);
                Poll::Pending
            }
        }
    }

    /// Opens a stream of a connection, as soon as the peer lets another one be open.
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn poll_open(&self, id: ConnectionId, context: &mut Context<'_>) -> Poll<Result<StreamId, Closed>> {
        let mut state = self.shared.lock();
        state.waiting(id)?;
        match state.endpoint.with(id, proto::atp::Connection::open).flatten() {
            Some(stream) => Poll::Ready(Ok(stream)),
            None => {
                state.waiting(id)?.news.add(context);
                Poll::Pending
            }
        }
    }

    /// The next stream that the peer has opened.
    ///
    /// # Errors
    /// Why the connection is over.
    pub fn poll_accept_stream(
        &self,
        id: ConnectionId,
        context: &mut Context<'_>,
    ) -> Poll<Result<StreamId, Closed>> {
        let mut state = self.shared.lock();
        if let Some(stream) = state.next_stream(id) {
            return Poll::Ready(Ok(stream));
        }
        state.waiting(id)?.news.add(context);
        Poll::Pending
    }

    /// Reads from a stream. 0 bytes: it has ended.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn poll_read(
        &self,
        id: ConnectionId,
        stream: StreamId,
        context: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<Result<usize, StreamError>> {
        if out.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut state = self.shared.lock();
        let now = self.shared.clock.now();
        let read = state.endpoint.with(id, |connection| {
            let read = connection.read(now, stream, out);
            (read, connection.has_notices())
        });
        let (read, tells) = read.unwrap_or((Read::NotOpen, false));
        if tells && state.is_asleep() {
            // The peer may send more.
            let _ = self.shared.poller.notify();
        }
        match read {
            Read::Bytes(count) => Poll::Ready(Ok(count)),
            Read::End => Poll::Ready(Ok(0)),
            Read::Reset(code) => Poll::Ready(Err(StreamError::Reset(code))),
            Read::NotOpen => Poll::Ready(Err(state.not_open(id))),
            Read::Nothing => {
                state.waiting(id)?.readers.entry(stream).or_default().add(context);
                Poll::Pending
            }
        }
    }

    /// Writes to a stream as much as there is room for.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn poll_write(
        &self,
        id: ConnectionId,
        stream: StreamId,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, StreamError>> {
        self.act(|state, now| state.write(now, id, stream, context, bytes))
    }

    /// Writes what a stream ends with, if there is room for all of it. Returns how much has been written: all, and the stream has ended,
    /// or a part.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn poll_write_last(
        &self,
        id: ConnectionId,
        stream: StreamId,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, StreamError>> {
        self.act(|state, now| {
            let written = state.write(now, id, stream, context, bytes);
            if matches!(written, Poll::Ready(Ok(count)) if count == bytes.len()) {
                state.finish(id, stream)?;
            }
            written
        })
    }

    /// Nobody waits any more for what comes on a stream: who did has waited long enough.
    pub fn give_up_reading(&self, id: ConnectionId, stream: StreamId) {
        if let Ok(waiting) = self.shared.lock().waiting(id) {
            waiting.readers.remove(&stream);
        }
    }

    /// Nobody waits any more for room on a stream.
    pub fn give_up_writing(&self, id: ConnectionId, stream: StreamId) {
        if let Ok(waiting) = self.shared.lock().waiting(id) {
            waiting.writers.remove(&stream);
        }
    }

    /// Tells the peer of a stream that was opened, before there is anything to send on it.
    pub fn announce(&self, id: ConnectionId, stream: StreamId) {
        self.act(|state, _| state.endpoint.with(id, |connection| connection.announce(stream)));
    }

    /// A stream ends with what was written.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn finish(&self, id: ConnectionId, stream: StreamId) -> Result<(), StreamError> {
        self.act(|state, _| state.finish(id, stream))
    }

    /// Gives up writing a stream, unless it has been finished; for a reason of the application.
    pub fn reset(&self, id: ConnectionId, stream: StreamId, code: u64) {
        self.act(|state, _| {
            state.endpoint.with(id, |connection| connection.reset(stream, code));
            if let Ok(waiting) = state.waiting(id) {
                waiting.writers.remove(&stream);
                waiting.stopped.remove(&stream);
            }
        });
    }

    /// Wants no more of a stream, for a reason of the application.
    pub fn stop(&self, id: ConnectionId, stream: StreamId, code: u64) {
        self.act(|state, _| {
            state.endpoint.with(id, |connection| connection.stop(stream, code));
            if let Ok(waiting) = state.waiting(id) {
                waiting.readers.remove(&stream);
            }
        });
    }

    /// Ends a connection at once; what is on its way is lost.
    pub fn close_connection(&self, id: ConnectionId, code: u64, reason: &str) {
        self.act(|state, now| {
            state.endpoint.with(id, |connection| connection.close(now, code, reason));
        });
    }

    /// Nobody asks for a connection any more: it ends once the peer has got all that was written.
    pub fn forget(&self, id: ConnectionId, code: u64, reason: &str) {
        self.act(|state, now| {
            state.endpoint.forget(now, id, code, reason);
            state.forget(id);
        });
    }

    /// Where the other end is; `None` if the connection is gone.
    pub fn remote(&self, id: ConnectionId) -> Option<SocketAddr> {
        let remote = self.shared.lock().endpoint.remote(id)?;
        Some((remote.ip().to_canonical(), remote.port()).into())
    }

    /// The peer's certificate, if it has shown one and the handshake is through.
    pub fn peer_certificate(&self, id: ConnectionId) -> Option<CertificateDer<'static>> {
        self.shared.lock().endpoint.connection(id)?.peer_certificate()
    }

    /// What a connection has counted, and its round trip if that is known; `None` if it is gone.
    pub fn counters(&self, id: ConnectionId) -> Option<(Counters, Option<Duration>)> {
        let state = self.shared.lock();
        let connection = state.endpoint.connection(id)?;
        Some((connection.counters(), connection.rtt()))
    }

    /// What all connections have counted, and the endpoint; how many there are; and the most bytes that they have held at a time.
    pub fn statistics(&self) -> AtpStatistics {
        let state = self.shared.lock();
        AtpStatistics {
            connections: state.endpoint.len(),
            peak_bytes: state.endpoint.peak_bytes(),
            endpoint: state.endpoint.counters(),
            data: state.endpoint.connection_counters(),
        }
    }

    /// Ends all connections at once, and makes and takes no more. Those that wait are told.
    pub fn close(&self, code: u64, reason: &str) {
        self.act(|state, now| {
            state.close();
            state.endpoint.close(now, code, reason);
        });
        // The thread finds out whether there is anything left to do.
        let _ = self.shared.poller.notify();
    }

    /// Makes and takes no more connections; each ends once its peer has got all that was written.
    pub fn leave(&self) {
        self.act(|state, now| {
            state.close();
            state.endpoint.leave(now, 0, "");
        });
        let _ = self.shared.poller.notify();
    }

    /// Waits until all connections are over, after [`Atp::close`] or [`Atp::leave`].
    ///
    /// # Errors
    /// What the system has failed the socket with.
    pub fn join(&self) -> io::Result<()> {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread.map_or(Ok(()), |thread| {
            thread.join().map_err(|_| io::Error::other("its thread has panicked"))?
        })
    }

    /// Does something with the state, and sends what comes of it, unless others have just done so: then the socket's thread is to.
    fn act<T>(&self, does: impl FnOnce(&mut State, proto::Time) -> T) -> T {
        let mut state = self.shared.lock();
        let now = self.shared.clock.now();
        let done = does(&mut state, now);
        let mut woken = Wakers::default();
        let together = if state.is_asleep() { TOGETHER } else { TOGETHER_AT_WORK };
        let sends = state.sent <= now - together;
        if sends {
            state.sent = now;
            self.shared.transmit(&mut state);
            state.take_events(now, &mut woken);
        }
        if state.oversleeps() || !sends && state.is_asleep() {
            // It fails only when the poller is gone, and nobody waits.
            let _ = self.shared.poller.notify();
        }
        drop(state);
        woken.wake();
        done
    }
}

impl Drop for Atp {
    fn drop(&mut self) {
        self.leave();
    }
}

/// What an end has counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtpStatistics {
    /// Connections that are not over.
    pub connections: usize,
    /// The most bytes that connections have held at a time.
    pub peak_bytes: usize,
    /// Of whom it has let in, and whom not.
    pub endpoint: EndpointCounters,
    /// Of all connections together.
    pub data: Counters,
}

/// Tells all who wait that nothing comes any more, however the socket's thread ends: also if it panics.
struct Fails<'a>(&'a Shared);

impl Drop for Fails<'_> {
    fn drop(&mut self) {
        let mut woken = Wakers::default();
        self.0.lock().fail(&mut woken);
        woken.wake();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is to be sent.
    fn transmit(&self, state: &mut State) {
        let was_full = state.is_full();
        state.transmit(self.clock.now(), &self.socket);
        if state.is_full() != was_full {
            self.watch(state);
        }
    }

    /// Has the socket's thread woken by what it is to do.
    fn watch(&self, state: &State) {
        let interest = Interest::of(!state.relieved, state.is_full());
        // It fails only for a socket that is none.
        let _ = self.poller.modify(self.socket.socket(), SOCKET, interest);
    }

    /// The socket has failed a thread that has received: its own is to end with that.
    fn fail(&self, error: io::Error) {
        self.lock().failure = Some(error);
        let _ = self.poller.notify();
    }

    /// Takes what connections have to tell, and wakes who waits for it; then sends. Whoever is woken runs meanwhile, and what it writes
    /// may go along.
    fn flush<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let mut woken = Wakers::default();
        state.take_events(self.clock.now(), &mut woken);
        if !woken.is_empty() {
            drop(state);
            woken.wake();
            state = self.lock();
        }
        self.transmit(&mut state);
        state
    }

    fn run(&self) -> io::Result<()> {
        let _fails = Fails(self);
        self.serve()
    }

    fn serve(&self) -> io::Result<()> {
        let mut events = Events::new();
        loop {
            let mut state = self.lock();
            state.wake_up();
            if let Some(error) = state.failure.take() {
                return Err(error);
            }
            state = self.flush(state);
            if state.has_news() {
                // What was sent has made something happen.
                continue;
            }
            if state.is_done() {
                return Ok(());
            }
            let until = state.sleep();
            drop(state);
            let timeout = until.map(|until| until.since(self.clock.now()));
            self.poller.wait(&mut events, timeout)?;
            if events.keys().next().is_some() {
                self.lock().wake_up();
                if let Some(mut buffers) = self.try_receive() {
                    self.receive(&mut buffers)?;
                }
            }
        }
    }

    fn receive(&self, buffers: &mut Buffers) -> io::Result<()> {
        for _ in 0..RECEIVE_BATCHES {
            let mut locked: Option<MutexGuard<'_, State>> = None;
            let more = self.socket.receive(buffers, |received| {
                let state = locked.get_or_insert_with(|| self.lock());
                let now = self.clock.now();
                for datagram in received.datagrams {
                    state.endpoint.handle_datagram(now, received.from, received.to, received.ecn, datagram);
                }
            })?;
            if let Some(state) = locked
                && self.flush(state).oversleeps()
            {
                let _ = self.poller.notify();
            }
            if !more {
                break;
            }
        }
        Ok(())
    }
}

/// The same for ATP: with its name among the protocols, and tickets that are good for data at once where that is `early`.
fn with_protocol(server: &rustls::ServerConfig, early: bool) -> rustls::ServerConfig {
    let mut server = server.clone();
    server.alpn_protocols = vec![proto::atp::ALPN.to_vec()];
    server.max_early_data_size = if early { u32::MAX } else { 0 };
    server
}

/// What a client of ATP is configured with: `client`, with ATP's name among the protocols. Whoever connects more than once with the same
/// one is known by its tickets; `early` lets what is written first go with the first datagram then.
pub fn atp_client(client: &rustls::ClientConfig, early: bool) -> Arc<rustls::ClientConfig> {
    let mut client = client.clone();
    client.alpn_protocols = vec![proto::atp::ALPN.to_vec()];
    client.enable_early_data = early;
    Arc::new(client)
}
