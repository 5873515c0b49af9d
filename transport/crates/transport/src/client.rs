//! Fetches objects from servers, over LTTP.

mod engine;
mod shared;

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use proto::lttp::ClientConfig;
use udp::tls::{Identity, Trust};
use udp::{Fetching, ServerAddress, Sink};
use wire::control::{Entry, Omitted};

use self::engine::{Ended, Engine, Order};
use crate::engine::{Remote, aside, spawn};
use crate::error::Result;
use crate::setup::{Connecting, Peer, reach_all, symbol_bytes};
use crate::sink::{Bytes, InOrder};
use crate::transfer::Transfer;

/// Bytes of an object that may come into memory, unless the program says otherwise.
pub(crate) const MEMORY_BYTES: u64 = 256 << 20;

/// Fetches objects from servers.
///
/// All servers of a client are to have the same objects: each object is fetched from all of them at once, a part from each, and
/// from the others if one goes away. The data of all fits one window, however many there are.
pub struct Client {
    remote: Remote<Order>,
    memory_bytes: u64,
    next: AtomicU64,
}

/// What a client is made with.
#[must_use]
pub struct ClientBuilder {
    connecting: Connecting,
    config: ClientConfig,
    memory_bytes: u64,
}

impl Client {
    /// Sets up a client.
    pub fn builder() -> ClientBuilder {
        let (connecting, config) = Default::default();
        ClientBuilder { connecting, config, memory_bytes: MEMORY_BYTES }
    }

    /// Fetches an object into memory.
    pub fn fetch(&self, path: &str) -> Transfer<Vec<u8>> {
        let (sink, take) = Bytes::new(self.memory_bytes);
        self.begin(path, sink, take)
    }

    /// Fetches an object into a writer, from front to back; returns how many bytes it has. A thread that may wait writes.
    pub fn fetch_to(&self, path: &str, writer: impl Write + Send + 'static) -> Transfer<u64> {
        self.begin(path, InOrder::new(writer), |size| size)
    }

    /// Fetches an object block by block, in the order in which blocks are complete; returns how many bytes it has.
    pub fn fetch_into(&self, path: &str, sink: impl Sink + 'static) -> Transfer<u64> {
        self.begin(path, sink, |size| size)
    }

    /// Everything below a path: files and directories, and what cannot be fetched. "." is all that there is.
    pub fn list(&self, path: &str) -> Transfer<(Vec<Entry>, Vec<Omitted>)> {
        let (transfer, done) = Transfer::new(|| ());
        self.remote.order(Order::List { path: path.to_owned(), done });
        transfer
    }

    fn begin<T: Send + 'static>(
        &self,
        path: &str,
        sink: impl Sink + 'static,
        result: impl FnOnce(u64) -> T + Send + 'static,
    ) -> Transfer<T> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let remote = self.remote.clone();
        let (transfer, completer) = Transfer::new(move || remote.order(Order::Cancel(id)));
        let bytes = completer.counter();
        let done: Ended = Box::new(move |ended| completer.complete(ended.map(result)));
        self.remote.order(Order::Fetch { id, path: path.to_owned(), sink: Box::new(sink), bytes, done });
        transfer
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.remote.order(Order::Stop);
    }
}

impl ClientBuilder {
    /// Believes servers with these certificates, or those that an authority vouches for.
    pub fn trust(mut self, servers: impl Into<Trust>) -> Self {
        self.connecting.trust = Some(servers.into());
        self
    }

    /// Shows this certificate to servers that ask who the client is.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.connecting.identity = Some(identity);
        self
    }

    /// Neither encrypts nor authenticates anything: for experiments.
    pub fn insecure(mut self) -> Self {
        self.connecting.insecure = true;
        self
    }

    /// The most bytes of an object that [`Client::fetch`] takes into memory; 256 MiB otherwise.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// How connections behave, for those who know the protocol.
    pub fn config(mut self, config: ClientConfig) -> Self {
        self.config = config;
        self
    }

    /// Connects to servers, each written as `HOST:PORT`. Of a name with several addresses it takes the one that answers first
    /// (RFC 8305), for which it waits, at most as long as [`ClientConfig::silence`]. It does not wait for servers otherwise: one
    /// that cannot be reached is found out by what is fetched from it.
    ///
    /// # Errors
    /// A name without an address; a setup that cannot be meant.
    pub fn connect<S: AsRef<str>>(self, servers: impl IntoIterator<Item = S>) -> Result<Client> {
        let servers = servers.into_iter().map(|server| Peer::resolve(server.as_ref()));
        self.connect_to(servers.collect::<Result<_>>()?)
    }

    /// The same in a thread of its own, so that a task can await it.
    pub fn connect_async<S: Into<String>>(self, servers: impl IntoIterator<Item = S>) -> Transfer<Client> {
        let servers: Vec<String> = servers.into_iter().map(Into::into).collect();
        aside("connecting", move || self.connect(servers))
    }

    fn connect_to(self, servers: Vec<Peer>) -> Result<Client> {
        let ClientBuilder { connecting, mut config, memory_bytes } = self;
        let tls = connecting.tls("server")?;
        let reached = reach_all(&servers, config.silence)?;
        config.symbol_bytes = config.symbol_bytes.min(symbol_bytes(reached.iter().copied(), tls.is_some()));
        let named = |(address, Peer { name, .. })| ServerAddress { address, name };
        let addresses: Vec<_> = reached.into_iter().zip(servers).map(named).collect();
        let fetching = Fetching::connect(&addresses, tls.as_ref(), config.clone())?;
        let (remote, orders) = Remote::new(fetching.waker());
        spawn("client", move || Engine::new(fetching, addresses, &config, orders).run())?;
        Ok(Client { remote, memory_bytes, next: AtomicU64::new(0) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use udp::Objects;

    use super::*;
    use crate::server::Server;
    use crate::source::IntoSource;

    #[test]
    fn a_server_is_reached_by_the_one_of_its_addresses_that_answers() {
        let objects = Arc::new(Objects::new());
        objects.insert("it", "text".into_source().unwrap());
        let server = Server::builder().insecure().bind("127.0.0.1:0", objects).unwrap();
        let addresses = vec!["127.0.0.1:1".parse().unwrap(), server.address()];
        let host = Peer { addresses, name: "host".into() };
        let client = Client::builder().insecure().connect_to(vec![host]).unwrap();
        assert_eq!(client.fetch("it").wait().unwrap(), b"text");
    }
}
