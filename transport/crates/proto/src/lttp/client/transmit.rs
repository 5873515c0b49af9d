//! What a client sends: hellos, credits and feedback.

use super::{Client, Peer, ServerId};
use crate::pacer::FRAME_BYTES;
use crate::{RateCap, Time};

/// Credits that a window is divided into: while one is answered, the others are on their way.
const GRANTS: usize = 4;
/// Symbols of one credit: more than a server sends at once.
const MOST_GRANTED: usize = 64;

impl Client {
    /// Gives credit to the servers in turn, as long as the window lasts.
    pub(super) fn grant(&mut self, now: Time) {
        self.capped = false;
        // What a hello brings takes part of the window as well, and comes first.
        if !self.config.credits || self.peers.is_empty() || self.peers.iter().any(Peer::hello_due) {
            return;
        }
        self.update_rtt();
        let window = self.window.bytes();
        if self.cap.is_none() {
            self.cap = self.config.max_bps.map(|bps| RateCap::new(now, bps));
        }
        let mut idle = 0;
        while idle < self.peers.len() {
            let turn = self.turn % self.peers.len();
            let wire_bytes = self.wire_bytes(ServerId(turn));
            // Few servers at a time with some symbols each, rather than each with one: less to say, and they come in bursts.
            let quantum = (window / wire_bytes / GRANTS).clamp(1, MOST_GRANTED) as u16;
            let peer = &mut self.peers[turn];
            let Some((request, block, lacking)) = peer.neediest(self.config.max_blocks) else {
                idle += 1;
                self.turn = turn + 1;
                continue;
            };
            let mut symbols = lacking.min(quantum);
            if let Some(cap) = &self.cap {
                self.capped = cap.free_at() > now;
                if self.capped {
                    return;
                }
                symbols = symbols.min((cap.burst_bytes() / wire_bytes).clamp(1, usize::from(quantum)) as u16);
            }
            let bytes = usize::from(symbols) * wire_bytes;
            if self.outstanding_bytes > 0 && self.outstanding_bytes + bytes > window {
                return;
            }
            if let Some(cap) = &mut self.cap {
                cap.take(now, bytes);
            }
            peer.give(now, request, block, symbols, self.outstanding_bytes);
            self.outstanding_bytes += bytes;
            self.turn = turn + 1;
            idle = 0;
        }
    }

    /// The next datagram, appended to `out`, and the server whose data address it is for.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<ServerId> {
        if let Some(server) = self.hello(now, out) {
            return Some(server);
        }
        self.grant(now);
        let silence = self.config.silence;
        let mut servers = (0..self.peers.len()).map(ServerId);
        servers.find(|server| self.peers[server.0].poll_transmit(now, silence, out))
    }

    /// The next hello, if its answer has room in the window. A server that does not answer stands back for others.
    fn hello(&mut self, now: Time, out: &mut Vec<u8>) -> Option<ServerId> {
        let due = (0..self.peers.len()).filter(|server| self.peers[*server].hello_due());
        let server = ServerId(due.min_by_key(|server| self.peers[*server].hellos())?);
        let (ahead, bytes) = (self.outstanding_bytes, self.wire_bytes(server));
        if self.config.credits && ahead > 0 && ahead + bytes > self.window.bytes() {
            return None;
        }
        self.peers[server.0].hello(now, bytes - FRAME_BYTES, ahead, out);
        self.outstanding_bytes += bytes;
        Some(server)
    }

    /// The window is for the farthest of those that are asked for something.
    fn update_rtt(&mut self) {
        let busy = self.peers.iter().filter(|peer| !peer.requests.is_empty());
        if let Some(rtt) = busy.filter_map(|peer| peer.rtt).max() {
            self.window.set_rtt(rtt);
        }
    }
}
