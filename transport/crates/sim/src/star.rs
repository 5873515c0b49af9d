//! The many-to-one case: servers around one switch, and the port towards the client.

use std::time::Duration;

use crate::{Discipline, LinkConfig, LinkId, Network, NodeId};

/// A star's measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StarConfig {
    /// The link of every server to the switch.
    pub uplink_bps: u64,
    /// The port towards the client.
    pub port_bps: u64,
    /// Its buffer.
    pub buffer_bytes: u64,
    /// ECN-capable datagrams are marked above this.
    pub mark_above_bytes: Option<u64>,
    /// How it queues.
    pub discipline: Discipline,
    /// There and back over empty queues, the time to put a datagram on a link not counted.
    pub base_rtt: Duration,
}

impl Default for StarConfig {
    /// The testbed's star: 100 Mb/s with 64 KB towards the client.
    fn default() -> Self {
        StarConfig {
            uplink_bps: 1_000_000_000,
            port_bps: 100_000_000,
            buffer_bytes: 65_536,
            mark_above_bytes: None,
            discipline: Discipline::DropTail,
            base_rtt: Duration::from_micros(300),
        }
    }
}

/// A star of servers whose datagrams meet in one port. The way back is free of queues.
#[derive(Clone, Debug)]
pub struct Star {
    config: StarConfig,
    /// The port.
    pub port: LinkId,
}

impl Star {
    /// The switch, without servers yet.
    pub fn new(network: &mut Network, config: StarConfig) -> Self {
        let port = network.add_link(LinkConfig {
            mark_above_bytes: config.mark_above_bytes,
            discipline: config.discipline,
            ..LinkConfig::new(config.port_bps, config.base_rtt / 4, config.buffer_bytes)
        });
        Star { config, port }
    }

    /// Attaches `server`, which sends to `client` through the port, and opens a control pipe between them.
    /// Returns its uplink and its link back. (A client may be one node for all servers or one for each: the
    /// port is the same.)
    pub fn attach(&self, network: &mut Network, server: NodeId, client: NodeId) -> (LinkId, LinkId) {
        let quarter = self.config.base_rtt / 4;
        let uplink = network.add_link(LinkConfig::new(self.config.uplink_bps, quarter, u64::MAX));
        let back = network.add_link(LinkConfig::delay(2 * quarter));
        network.route(server, client, &[uplink, self.port]);
        network.route(client, server, &[back]);
        network.pipe(server, client, 2 * quarter);
        (uplink, back)
    }
}
