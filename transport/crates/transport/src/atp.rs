//! Streams of bytes over ATP, whose short flows are spared TCP's timeouts: connect, listen, read and write, in threads or tasks.
//!
//! ```
//! use std::io::{Read, Write};
//! use weir_transport::atp::Endpoint;
//!
//! # fn main() -> weir_transport::Result<()> {
//! let server = Endpoint::builder().listen("127.0.0.1:0")?;
//! let (address, fingerprint) = (server.address(), server.fingerprint().unwrap());
//! std::thread::spawn(move || -> std::io::Result<()> {
//!     while let Some(connection) = server.accept() {
//!         let mut stream = connection.accept_stream()?;
//!         let mut request = String::new();
//!         stream.read_to_string(&mut request)?;
//!         stream.write_all(request.to_uppercase().as_bytes())?;
//!         stream.finish()?;
//!     }
//!     Ok(())
//! });
//!
//! let client = Endpoint::builder().trust(fingerprint).client()?;
//! let connection = client.connect(&address.to_string())?;
//! let mut stream = connection.open()?;
//! stream.write_all(b"hello")?;
//! stream.finish()?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert_eq!(answer, "HELLO");
//! # Ok(())
//! # }
//! ```

mod stream;

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use udp::rustls::pki_types::ServerName;
use udp::tls::{Fingerprint, Identity, Trust};
use udp::{Atp, AtpOptions, Limits, TlsClientConfig, TlsServerConfig, atp_client};

pub use proto::atp::{Closed, ConnectionConfig, Counters, EndpointCounters};
pub use udp::AtpStatistics as Statistics;

pub use self::stream::{ReadHalf, Stream, WriteHalf};

use crate::error::{Error, Result};
use crate::setup::{Connecting, Listening, Peer, listen_address};

/// An attempt to connect begins so long after the one before (RFC 8305, section 8).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// A socket with all its connections, to it and from it. Clones are the same one. When the last one is dropped, with all connections,
/// a thread goes on until peers have got all that was written; a program that ends before waits for that with [`Endpoint::leave`].
#[derive(Clone)]
pub struct Endpoint {
    atp: Arc<Atp>,
    tls: Option<Arc<TlsClientConfig>>,
    address: SocketAddr,
    fingerprint: Option<Fingerprint>,
}

/// What an endpoint is made with.
#[must_use]
#[derive(Default)]
pub struct EndpointBuilder {
    connecting: Connecting,
    listening: Listening,
    tls_client: Option<Arc<TlsClientConfig>>,
    tls_server: Option<(Arc<TlsServerConfig>, Fingerprint)>,
    config: ConnectionConfig,
    limits: Limits,
}

/// One end of a connection. Clones are the same one. When the last one is dropped, and all its streams, it ends once the peer has got
/// all that was written.
#[derive(Clone)]
pub struct Connection(Arc<Held>);

/// A connection that somebody still has.
struct Held {
    atp: Arc<Atp>,
    id: proto::atp::ConnectionId,
    remote: SocketAddr,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.atp.forget(self.id, 0, "");
    }
}

impl Endpoint {
    /// Sets up an endpoint.
    pub fn builder() -> EndpointBuilder {
        EndpointBuilder::default()
    }

    /// Where its socket is bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What clients know it by; none if it takes no connections.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.fingerprint
    }

    /// Connects to a server, written as `HOST:PORT`, and waits until it has answered. If it has several addresses, each is tried a quarter
    /// of a second after the one before, and the first that answers is taken (RFC 8305).
    ///
    /// # Errors
    /// A name without an address; nobody who is believed answers; the endpoint was told of nobody to believe.
    pub fn connect(&self, server: &str) -> Result<Connection> {
        let peer = Peer::resolve(server)?;
        let mut addresses = peer.addresses.iter();
        let (mut trying, mut failure) = (Vec::<Connection>::new(), Error::Closed);
        loop {
            let next = addresses.next();
            match next.map(|address| self.begin(*address, &peer.name)).transpose() {
                Ok(begun) => trying.extend(begun),
                Err(error) => failure = error,
            }
            let until = (addresses.len() > 0).then(|| Instant::now() + ATTEMPT_DELAY);
            let answer = self.atp.wait_receiving_until(until, |context| {
                let mut at = 0;
                while let Some(connection) = trying.get(at) {
                    match connection.poll_connected(context) {
                        Poll::Pending => at += 1,
                        Poll::Ready(Ok(())) => return Poll::Ready(Some(trying.swap_remove(at))),
                        Poll::Ready(Err(why)) => {
                            failure = Error::lost(connection.remote(), &why.to_string());
                            trying.remove(at);
                        }
                    }
                }
                if trying.is_empty() { Poll::Ready(None) } else { Poll::Pending }
            });
            match answer {
                Some(Some(connection)) => return Ok(connection),
                Some(None) if addresses.len() == 0 => return Err(failure),
                _ => {}
            }
        }
    }

    /// Connects to the server of this name at an address.
    ///
    /// # Errors
    /// Nobody who is believed answers; the endpoint was told of nobody to believe.
    pub async fn connect_to(&self, address: SocketAddr, name: &str) -> Result<Connection> {
        let connection = self.begin(address, name)?;
        let connected = poll_fn(|context| connection.poll_connected(context)).await;
        connected.map_err(|why| Error::lost(address, &why.to_string()))?;
        Ok(connection)
    }

    /// The same without waiting: streams can be opened and written at once. What is written is sent when the server has answered; or
    /// before, to a server that is known, if [it may be early](ConnectionConfig::early).
    ///
    /// # Errors
    /// The endpoint was told of nobody to believe, or has no room for another connection.
    pub fn begin(&self, address: SocketAddr, name: &str) -> Result<Connection> {
        let Some(tls) = self.tls.clone() else {
            return Err(Error::Setup(
                "say which server is meant: trust(FINGERPRINT), or trust(Trust::Authorities(FILE))".into(),
            ));
        };
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| Error::Setup(format!("{name:?} cannot be the name of a server")))?;
        let id = self.atp.connect(address, name, tls).map_err(|e| Error::lost(address, &e.to_string()))?;
        Ok(Connection(Arc::new(Held { atp: self.atp.clone(), id, remote: address })))
    }

    /// Waits for the next connection that somebody has made to it; none once it is closed.
    pub fn accept(&self) -> Option<Connection> {
        self.atp.wait(|context| self.atp.poll_accept(context)).map(|id| self.accepted(id))
    }

    /// The same in a task.
    pub async fn next(&self) -> Option<Connection> {
        poll_fn(|context| self.atp.poll_accept(context)).await.map(|id| self.accepted(id))
    }

    fn accepted(&self, id: proto::atp::ConnectionId) -> Connection {
        // It is gone only if it has ended already.
        let remote = self.atp.remote(id).unwrap_or((Ipv6Addr::UNSPECIFIED, 0).into());
        Connection(Arc::new(Held { atp: self.atp.clone(), id, remote }))
    }

    /// Ends all connections, for a reason of the application, and makes and takes no more of them.
    pub fn close(&self, code: u64, reason: &str) {
        self.atp.close(code, reason);
    }

    /// Closes it, and waits until peers have been told so.
    ///
    /// # Errors
    /// What the system has failed the socket with.
    pub fn shut_down(&self, code: u64, reason: &str) -> Result<()> {
        self.atp.close(code, reason);
        Ok(self.atp.join()?)
    }

    /// Makes and takes no more connections, and waits until peers have got all that was written.
    ///
    /// # Errors
    /// What the system has failed the socket with.
    pub fn leave(&self) -> Result<()> {
        self.atp.leave();
        Ok(self.atp.join()?)
    }

    /// What it has counted.
    pub fn statistics(&self) -> Statistics {
        self.atp.statistics()
    }
}

impl EndpointBuilder {
    /// Which servers are believed when it connects: a fingerprint, several, or an authority's file.
    pub fn trust(mut self, trust: impl Into<Trust>) -> Self {
        self.connecting.trust = Some(trust.into());
        self
    }

    /// Who it is; an endpoint that listens gets a new identity otherwise, and with it a new fingerprint.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.listening.identity = Some(identity);
        self
    }

    /// Lets those connect who have these certificates, or that an authority vouches for; otherwise everyone.
    pub fn clients(mut self, clients: impl Into<Trust>) -> Self {
        self.listening.clients = Some(clients.into());
        self
    }

    /// Whom it believes, and who it is, when it connects: a configuration of TLS that was made otherwise.
    pub fn tls_client(mut self, tls: Arc<TlsClientConfig>) -> Self {
        self.tls_client = Some(tls);
        self
    }

    /// Who it is when it listens, and whom it lets in: a configuration of TLS that was made otherwise.
    pub fn tls_server(mut self, tls: Arc<TlsServerConfig>, fingerprint: Fingerprint) -> Self {
        self.tls_server = Some((tls, fingerprint));
        self
    }

    /// What its peers together, and those of one address, may make it hold.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How connections behave, for those who know the protocol.
    pub fn config(mut self, config: ConnectionConfig) -> Self {
        self.config = config;
        self
    }

    /// An endpoint that connects, from any port. It shows its [identity](EndpointBuilder::identity) if it has one.
    ///
    /// # Errors
    /// There is no socket to be had.
    pub fn client(mut self) -> Result<Endpoint> {
        self.connecting.identity = self.listening.identity.take();
        let bind = |address: IpAddr| AtpOptions {
            bind: (address, 0).into(),
            server: None,
            config: self.config.clone(),
            limits: self.limits,
        };
        // A socket of IPv6 reaches IPv4, too; but there may be none.
        let atp = Atp::bind(bind(Ipv6Addr::UNSPECIFIED.into()))
            .or_else(|_| Atp::bind(bind(Ipv4Addr::UNSPECIFIED.into())))?;
        let tls = of_client(self.tls_client, self.connecting, self.config.early)?;
        let address = atp.local_addr()?;
        Ok(Endpoint { atp: Arc::new(atp), tls, address, fingerprint: None })
    }

    /// An endpoint that takes connections at an address, written as `HOST:PORT`; port 0 takes a free one. It can connect as well, if it
    /// was told whom to [trust](EndpointBuilder::trust).
    ///
    /// # Errors
    /// The address is not to be had; an identity that cannot be used.
    pub fn listen(self, address: &str) -> Result<Endpoint> {
        let bind = listen_address(address)?;
        let EndpointBuilder { connecting, listening, tls_client, tls_server, config, limits } = self;
        let tls = of_client(tls_client, connecting, config.early)?;
        let (server, fingerprint) = tls_server.map_or_else(|| listening.tls(), |tls| Ok(Some(tls)))?.unzip();
        let atp = Atp::bind(AtpOptions { bind, server, config, limits }).map_err(|error| {
            Error::Setup(format!(
                "cannot listen on {bind}: {error}; choose another address, or end what listens there"
            ))
        })?;
        let address = atp.local_addr()?;
        Ok(Endpoint { atp: Arc::new(atp), tls, address, fingerprint })
    }
}

/// What an endpoint connects with, if it was told whom to believe.
fn of_client(
    made: Option<Arc<TlsClientConfig>>,
    connecting: Connecting,
    early: bool,
) -> Result<Option<Arc<TlsClientConfig>>> {
    let tls = match made {
        None if connecting.trust.is_none() => None,
        None => connecting.tls("server")?,
        made => made,
    };
    Ok(tls.map(|tls| atp_client(&tls, early)))
}

impl Connection {
    fn poll_connected(&self, context: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        self.0.atp.poll_connected(self.0.id, context)
    }

    /// Where the other end is.
    pub fn remote(&self) -> SocketAddr {
        self.0.remote
    }

    /// The fingerprint of the peer's certificate, if it has shown one.
    pub fn peer(&self) -> Option<Fingerprint> {
        Some(Fingerprint::of(&self.0.atp.peer_certificate(self.0.id)?))
    }

    /// Waits until the server has answered, after [`Endpoint::begin`].
    ///
    /// # Errors
    /// Why it has not.
    pub fn connected(&self) -> io::Result<()> {
        self.0.atp.wait_receiving(|context| self.poll_connected(context)).map_err(stream::of_closed)
    }

    /// Opens a stream; waits as long as the peer lets no more of them be open.
    ///
    /// # Errors
    /// The connection is over.
    pub fn open(&self) -> io::Result<Stream> {
        let opened = self.0.atp.wait_receiving(|context| self.0.atp.poll_open(self.0.id, context));
        opened.map(|id| Stream::new(self.clone(), id)).map_err(stream::of_closed)
    }

    /// The same in a task.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn open_stream(&self) -> io::Result<Stream> {
        let opened = poll_fn(|context| self.0.atp.poll_open(self.0.id, context)).await;
        opened.map(|id| Stream::new(self.clone(), id)).map_err(stream::of_closed)
    }

    /// Waits for the next stream that the peer opens. It comes with the first byte of it.
    ///
    /// # Errors
    /// The connection is over.
    pub fn accept_stream(&self) -> io::Result<Stream> {
        let opened = self.0.atp.wait_receiving(|context| self.0.atp.poll_accept_stream(self.0.id, context));
        opened.map(|id| Stream::new(self.clone(), id)).map_err(stream::of_closed)
    }

    /// The same in a task.
    ///
    /// # Errors
    /// The connection is over.
    pub async fn next_stream(&self) -> io::Result<Stream> {
        let opened = poll_fn(|context| self.0.atp.poll_accept_stream(self.0.id, context)).await;
        opened.map(|id| Stream::new(self.clone(), id)).map_err(stream::of_closed)
    }

    /// Ends it at once, for a reason of the application: what is on its way is lost.
    pub fn close(&self, code: u64, reason: &str) {
        self.0.atp.close_connection(self.0.id, code, reason);
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.0.atp.poll_closed(self.0.id, &mut context).is_ready()
    }

    /// Waits until it is over, and says why it is.
    pub fn closed(&self) -> Closed {
        self.0.atp.wait(|context| self.0.atp.poll_closed(self.0.id, context))
    }

    /// The same in a task.
    pub async fn ended(&self) -> Closed {
        poll_fn(|context| self.0.atp.poll_closed(self.0.id, context)).await
    }

    /// What it has counted; nothing once it is over.
    pub fn counters(&self) -> Counters {
        self.0.atp.counters(self.0.id).map(|(counters, _)| counters).unwrap_or_default()
    }

    /// The smoothed round trip, once one was measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.0.atp.counters(self.0.id)?.1
    }
}
