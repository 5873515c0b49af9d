//! One sender at a receiver.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use proto::dfcp::{ReceiverConfig, ReceiverEndpoint};
use proto::ecn::Codepoint;
use proto::{Held, Time};

use crate::decoding::Batch;
use crate::sink::JobId;
use proto::limits::{CONNECTION_BYTES, Room};

pub(super) struct Session {
    pub(super) endpoint: ReceiverEndpoint,
    /// Our address as the sender's datagrams name it.
    pub(super) local: Option<IpAddr>,
    pub(super) jobs: HashMap<u16, JobId>,
    /// Whether it has a share of what is taken at most.
    pub(super) shares: bool,
    /// What it makes this side hold, but for blocks and objects.
    held: Held,
}

impl Session {
    /// None: there is no room for it, or TLS will not have it.
    pub(super) fn accept(
        now: Time,
        connection: u32,
        config: &ReceiverConfig,
        tls: Option<&Arc<rustls::ServerConfig>>,
        room: Room,
    ) -> Option<Self> {
        let held = room.state.take(CONNECTION_BYTES)?;
        let tls = tls.map(|config| rustls::ServerConnection::new(config.clone())).transpose().ok()?;
        let Room { blocks: budget, state, files: objects } = room;
        let config = ReceiverConfig { budget, state, objects, ..config.clone() };
        let endpoint = ReceiverEndpoint::accept(config, now, connection, tls.into());
        Some(Session { endpoint, local: None, jobs: HashMap::new(), shares: false, held })
    }

    /// Whether there are enough symbols of a block now.
    pub(super) fn handle(
        &mut self,
        now: Time,
        ecn: Codepoint,
        datagram: &mut [u8],
        batch: &mut Batch,
    ) -> bool {
        let Some(arrival) = self.endpoint.handle_datagram(now, ecn, datagram) else { return false };
        let Some(job) = self.jobs.get(&arrival.request) else { return false };
        batch.push(*job, arrival.block, arrival.index, arrival.payload);
        arrival.enough
    }

    /// Holds what its channel takes, or ends it.
    pub(super) fn hold(&mut self, now: Time) {
        if !self.held.resize(CONNECTION_BYTES + self.endpoint.held_bytes()) {
            self.endpoint.end(now, "no memory is left for what it sends, or does not read".into());
        }
    }
}
