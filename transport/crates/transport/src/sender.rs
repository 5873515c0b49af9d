//! Sends objects to a receiver, over DFCP.

mod engine;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use proto::dfcp::{RateConfig, SenderConfig};
use udp::tls::{Identity, Trust};
use udp::{Over, SendOptions, Sending};

use self::engine::{Engine, Order};
use crate::engine::{Remote, aside, spawn};
use crate::error::{Error, Result};
use crate::setup::{Connecting, Peer, symbol_bytes};
use crate::source::IntoSource;
use crate::transfer::Transfer;

/// Sends objects to one receiver.
pub struct Sender {
    remote: Remote<Order>,
    receiver: SocketAddr,
    next: AtomicU64,
}

/// What a sender is made with.
#[must_use]
#[derive(Default)]
pub struct SenderBuilder {
    connecting: Connecting,
    config: SenderConfig,
    rate_bps: Option<f64>,
}

impl Sender {
    /// Sets up a sender.
    pub fn builder() -> SenderBuilder {
        SenderBuilder::default()
    }

    /// Sends an object under a name: a relative path with `/` between its parts. The transfer ends when the receiver has stored all
    /// of it.
    pub fn send(&self, name: &str, source: impl IntoSource) -> Transfer<()> {
        let source = match source.into_source() {
            Ok(source) => source,
            Err(e) => return Transfer::ended(Err(e)),
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let remote = self.remote.clone();
        let (transfer, done) = Transfer::new(move || remote.order(Order::Cancel(id)));
        self.remote.order(Order::Send { id, name: name.to_owned(), source, done });
        transfer
    }

    /// Sends at this rate from now on: bit/s of whole Ethernet frames.
    pub fn set_rate(&self, bps: f64) {
        self.remote.order(Order::Rate(bps));
    }

    /// Where it sends.
    pub fn receiver(&self) -> SocketAddr {
        self.receiver
    }

    /// Tells the receiver that nothing more comes, once all that was sent is there or has failed. Dropped instead, a sender leaves what
    /// is on its way.
    pub fn finish(self) -> Transfer<()> {
        let (transfer, done) = Transfer::new(|| ());
        self.remote.order(Order::Finish(done));
        transfer
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.remote.order(Order::Stop);
    }
}

impl SenderBuilder {
    /// Believes receivers with these certificates, or those that an authority vouches for.
    pub fn trust(mut self, receivers: impl Into<Trust>) -> Self {
        self.connecting.trust = Some(receivers.into());
        self
    }

    /// Shows this certificate: receivers take objects of those whom they know.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.connecting.identity = Some(identity);
        self
    }

    /// Neither encrypts nor authenticates anything: for experiments.
    pub fn insecure(mut self) -> Self {
        self.connecting.insecure = true;
        self
    }

    /// Sends at this rate: bit/s of whole Ethernet frames. Without one, TFRC (RFC 5348) finds what the path has to give.
    pub fn rate(mut self, bps: f64) -> Self {
        self.rate_bps = Some(bps);
        self
    }

    /// How the connection behaves, for those who know the protocol.
    pub fn config(mut self, config: SenderConfig) -> Self {
        self.config = config;
        self
    }

    /// Connects to a receiver, written as `HOST:PORT`. Of a name with several addresses it takes the one that answers first
    /// (RFC 8305), for which it waits, at most as long as [`SenderConfig::silence`]. It does not wait for the receiver otherwise:
    /// one that cannot be reached, or is not whom it should be, fails what is sent to it.
    ///
    /// # Errors
    /// A name without an address; a setup that cannot be meant.
    pub fn connect(self, receiver: &str) -> Result<Sender> {
        let receiver = Peer::resolve(receiver)?;
        self.connect_to(receiver)
    }

    /// The same in a thread of its own, so that a task can await it.
    pub fn connect_async(self, receiver: impl Into<String>) -> Transfer<Sender> {
        let receiver = receiver.into();
        aside("connecting", move || self.connect(&receiver))
    }

    fn connect_to(self, receiver: Peer) -> Result<Sender> {
        let SenderBuilder { connecting, mut config, rate_bps } = self;
        if let Some(bps) = rate_bps {
            if !(bps.is_finite() && bps > 0.0) {
                return Err(Error::Setup(format!("a rate of {bps} bit/s: it has to be above 0")));
            }
            // What the program says holds.
            config.rate = RateConfig { expiry: None, fallback: false, ..config.rate };
        }
        let tls = connecting.tls("receiver")?;
        let (to, name) = (receiver.reach(Over::Signals, config.silence), receiver.name);
        config.symbol_bytes = config.symbol_bytes.min(symbol_bytes([to], tls.is_some()));
        let sending = Sending::connect(SendOptions { to, name, tls, config })?;
        let (remote, orders) = Remote::new(sending.waker());
        spawn("sender", move || Engine::new(sending, to, rate_bps, orders).run())?;
        Ok(Sender { remote, receiver: to, next: AtomicU64::new(0) })
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::receiver::Receiver;

    #[test]
    fn a_receiver_is_reached_by_the_one_of_its_addresses_that_answers() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let receiver = Receiver::builder().insecure().bind("127.0.0.1:0").unwrap();
        let addresses = vec![silent.local_addr().unwrap(), receiver.address()];
        let host = Peer { addresses, name: "host".into() };
        let sender = Sender::builder().insecure().connect_to(host).unwrap();
        assert_eq!(sender.receiver(), receiver.address());
        let sent = sender.send("it", "text");
        assert_eq!(receiver.offer().wait().unwrap().into_bytes().wait().unwrap(), b"text");
        sent.wait().unwrap();
    }
}
