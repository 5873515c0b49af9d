//! Receives objects from senders, over DFCP.

mod engine;
mod offer;

use std::net::SocketAddr;
use std::sync::Arc;

use proto::dfcp::ReceiverConfig;
use udp::tls::{Fingerprint, Identity, Trust};
use udp::{Limits, ReceiveOptions, Receiving};

use self::engine::{Engine, Order};
use self::offer::Queue;
pub use self::offer::{NextOffer, Offer};
use crate::client::MEMORY_BYTES;
use crate::engine::{Remote, spawn};
use crate::error::{Error, Result};
use crate::setup::{Listening, listen_address};

/// Receives objects from senders until it is dropped.
///
/// Each object that a sender has is an [`Offer`] first: the program says where it goes, or refuses it.
pub struct Receiver {
    remote: Remote<Order>,
    offers: Arc<Queue>,
    address: SocketAddr,
    fingerprint: Option<Fingerprint>,
}

/// What a receiver is made with.
#[must_use]
pub struct ReceiverBuilder {
    listening: Listening,
    anyone: bool,
    config: ReceiverConfig,
    limits: Limits,
    memory_bytes: u64,
}

impl Receiver {
    /// Sets up a receiver.
    pub fn builder() -> ReceiverBuilder {
        ReceiverBuilder {
            listening: Listening::default(),
            anyone: false,
            // What is offered waits in memory until the program looks at it.
            config: ReceiverConfig { max_objects: 64, ..ReceiverConfig::default() },
            limits: Limits { connections: 256, connections_of_an_address: 32, ..Limits::default() },
            memory_bytes: MEMORY_BYTES,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What senders know it by; none where it is insecure.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.fingerprint
    }

    /// The next object that somebody would send.
    pub fn offer(&self) -> NextOffer<'_> {
        self.offers.next()
    }

    /// One offer after the other, for ever: the end is an error.
    pub fn offers(&self) -> impl Iterator<Item = Result<Offer>> {
        std::iter::from_fn(|| Some(self.offer().wait()))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.remote.order(Order::Stop);
    }
}

impl ReceiverBuilder {
    /// Who it is; otherwise it gets a new identity, and with it a new fingerprint.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.listening.identity = Some(identity);
        self
    }

    /// Lets those with these certificates send, or those that an authority vouches for.
    pub fn clients(mut self, clients: impl Into<Trust>) -> Self {
        self.listening.clients = Some(clients.into());
        self
    }

    /// Lets everyone send who can reach it.
    pub fn anyone(mut self) -> Self {
        self.anyone = true;
        self
    }

    /// Neither encrypts nor authenticates anything, and lets everyone send: for experiments.
    pub fn insecure(mut self) -> Self {
        self.listening.insecure = true;
        self
    }

    /// The most bytes of an object that [`Offer::into_bytes`] takes into memory; 256 MiB otherwise.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// What all senders together, and those of one address, may make it hold.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How connections behave, for those who know the protocol.
    pub fn config(mut self, config: ReceiverConfig) -> Self {
        self.config = config;
        self
    }

    /// Receives at an address, written as `HOST:PORT`; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is not to be had; nobody may send; an identity that cannot be used.
    pub fn bind(self, address: &str) -> Result<Receiver> {
        let ReceiverBuilder { listening, anyone, config, limits, memory_bytes } = self;
        if listening.clients.is_none() && !anyone && !listening.insecure {
            let what =
                "say who may send: clients(FINGERPRINT), clients(Trust::Authorities(FILE)), or anyone()";
            return Err(Error::Setup(what.into()));
        }
        let listen = listen_address(address)?;
        let (tls, fingerprint) = listening.tls()?.unzip();
        let receiving = Receiving::bind(ReceiveOptions { listen, tls, config, decode: true, limits })?;
        let address = receiving.local_addr()?;
        let offers = Arc::new(Queue::default());
        let (remote, orders) = Remote::new(receiving.waker());
        let engine = Engine::new(receiving, orders, remote.clone(), offers.clone(), memory_bytes);
        spawn("receiver", move || engine.run())?;
        Ok(Receiver { remote, offers, address, fingerprint })
    }
}
