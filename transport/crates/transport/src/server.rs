//! Serves objects to clients, over LTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use proto::lttp::ServerConfig;
use udp::tls::{Fingerprint, Identity, Trust};
use udp::{Limits, ServeError, ServeOptions, Serving, Statistics, Stop, Store};

use crate::engine::spawn;
use crate::error::{Error, Result};
use crate::setup::{Listening, listen_address};

/// Serves objects to clients until it is stopped or dropped.
pub struct Server {
    address: SocketAddr,
    fingerprint: Option<Fingerprint>,
    stop: Stop,
    thread: Option<JoinHandle<Result<Statistics, ServeError>>>,
}

/// What a server is made with.
#[must_use]
#[derive(Default)]
pub struct ServerBuilder {
    listening: Listening,
    config: ServerConfig,
    limits: Limits,
}

impl Server {
    /// Sets up a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What clients know it by; none where it is insecure.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.fingerprint
    }

    /// Waits until it has stopped: for ever, unless the system fails it.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn wait(mut self) -> Result<Statistics> {
        self.join()
    }

    /// Says goodbye to its clients and stops; returns what it has done.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn stop(mut self) -> Result<Statistics> {
        self.stop.stop();
        self.join()
    }

    fn join(&mut self) -> Result<Statistics> {
        let Some(thread) = self.thread.take() else { return Err(Error::Closed) };
        let did = thread.join().map_err(|_| Error::Setup("the server's thread has panicked".into()))?;
        Ok(did?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its thread ends by itself.
        self.stop.stop();
    }
}

impl ServerBuilder {
    /// Who it is; otherwise it gets a new identity, and with it a new fingerprint.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.listening.identity = Some(identity);
        self
    }

    /// Serves those with these certificates, or those that an authority vouches for; otherwise everyone.
    pub fn clients(mut self, clients: impl Into<Trust>) -> Self {
        self.listening.clients = Some(clients.into());
        self
    }

    /// Neither encrypts nor authenticates anything: for experiments.
    pub fn insecure(mut self) -> Self {
        self.listening.insecure = true;
        self
    }

    /// What all clients together, and those of one address, may make it hold.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How connections behave, for those who know the protocol.
    pub fn config(mut self, config: ServerConfig) -> Self {
        self.config = config;
        self
    }

    /// Serves what is in `store` at an address, written as `HOST:PORT`; port 0 takes a free one. Store is a
    /// [`Directory`](crate::Directory), [`Objects`](crate::Objects), or what you make of it.
    ///
    /// # Errors
    /// The address is not to be had; an identity that cannot be used.
    pub fn bind(self, address: &str, store: Arc<dyn Store>) -> Result<Server> {
        let ServerBuilder { listening, config, limits } = self;
        let listen = listen_address(address)?;
        let (tls, fingerprint) = listening.tls()?.unzip();
        let mut serving = Serving::bind(ServeOptions { listen, store, tls, config, limits })?;
        let (address, stop) = (serving.local_addr()?, serving.stopper());
        let thread = spawn("server", move || serving.run())?;
        Ok(Server { address, fingerprint, stop, thread: Some(thread) })
    }
}
