//! What a client's endpoint remembers of servers.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use crate::atp::KnownServer;

/// Servers that are remembered; of more, those that were met first are forgotten.
const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Servers {
    known: HashMap<SocketAddr, KnownServer>,
    order: VecDeque<SocketAddr>,
}

impl Servers {
    /// What is known of a server: nothing, perhaps.
    pub(super) fn get(&self, server: SocketAddr) -> KnownServer {
        self.known.get(&server).cloned().unwrap_or_default()
    }

    pub(super) fn learn(&mut self, server: SocketAddr, known: KnownServer) {
        if self.known.insert(server, known).is_none() {
            self.order.push_back(server);
            if self.order.len() > MOST {
                self.order.pop_front().map(|oldest| self.known.remove(&oldest));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_learnt_last_counts_and_no_more_servers_are_kept_than_may_be() {
        let server = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let known = |byte| KnownServer { token: vec![byte], rtt: None };
        let mut servers = Servers::default();
        servers.learn(server(0), known(1));
        servers.learn(server(0), known(2));
        assert_eq!(servers.get(server(0)).token, [2]);
        for port in 1..=MOST as u16 {
            servers.learn(server(port), known(3));
        }
        assert_eq!(servers.get(server(0)), KnownServer::default());
        assert_eq!((servers.known.len(), servers.order.len()), (MOST, MOST));
    }
}
