//! How many connections there may be, and what they may hold: of all peers, and of one.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use proto::Budget;

/// What a listening end may be made to hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections at a time from one address; from one network of 64 bits, where addresses are IPv6: a host has as many
    /// of these as it wants.
    pub connections_of_an_address: usize,
    /// Bytes of blocks of all connections together: what a server holds, of which one address may have a quarter, and what
    /// a receiver's senders may have under way.
    pub memory_bytes: usize,
}

/// The part of the memory that the connections of one address may have.
const OF_AN_ADDRESS: usize = 4;

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 4096, connections_of_an_address: 256, memory_bytes: 1 << 30 }
    }
}

impl Limits {
    /// Whether one more may come from `address` beside those that there are.
    pub(crate) fn have_room(&self, address: SocketAddr, present: impl Iterator<Item = SocketAddr>) -> bool {
        let (mut all, mut of_it) = (0, 0);
        for other in present {
            all += 1;
            of_it += usize::from(network(other.ip()) == network(address.ip()));
        }
        all < self.connections && of_it < self.connections_of_an_address
    }
}

/// What all connections may hold, and those of each host.
#[derive(Debug)]
pub(crate) struct Memory {
    all: Budget,
    hosts: HashMap<IpAddr, Budget>,
}

impl Memory {
    pub(crate) fn new(limits: &Limits) -> Self {
        Memory { all: Budget::new(limits.memory_bytes), hosts: HashMap::new() }
    }

    /// What a connection from `address` may hold, along with the others from there.
    pub(crate) fn of(&mut self, address: IpAddr) -> Budget {
        let part = || self.all.part(self.all.most() / OF_AN_ADDRESS);
        self.hosts.entry(network(address)).or_insert_with(part).clone()
    }

    /// A connection from `address` has ended, and these are left.
    pub(crate) fn forget(&mut self, address: IpAddr, present: impl Iterator<Item = SocketAddr>) {
        let host = network(address);
        if !present.map(|other| network(other.ip())).any(|other| other == host) {
            self.hosts.remove(&host);
        }
    }

    /// The most that was held at a time.
    pub(crate) fn peak(&self) -> usize {
        self.all.peak()
    }
}

/// What belongs to one host, as far as its address tells.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_host_count_together() {
        let limits = Limits { connections: 4, connections_of_an_address: 2, ..Limits::default() };
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 1);
        let room = |text, present: &[&str]| limits.have_room(at(text), present.iter().map(|text| at(text)));
        assert!(room("10.0.0.1", &["10.0.0.1", "10.0.0.2"]));
        assert!(!room("10.0.0.1", &["10.0.0.1", "::ffff:10.0.0.1"]), "mapped addresses are the same host");
        assert!(room("::ffff:10.0.0.1", &["::ffff:10.0.0.2", "::ffff:10.0.0.3"]));
        assert!(
            !room("2001:db8::1", &["2001:db8::2", "2001:db8::ffff:1:2"]),
            "a host has a network of 64 bits"
        );
        assert!(room("2001:db8:0:1::1", &["2001:db8::2", "2001:db8::3"]));
        assert!(!room("10.0.0.9", &["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]));
    }

    #[test]
    fn one_host_leaves_memory_to_others() {
        let limits = Limits { memory_bytes: 400, ..Limits::default() };
        let mut memory = Memory::new(&limits);
        let of = |memory: &mut Memory, text: &str| memory.of(text.parse().unwrap());
        let one = of(&mut memory, "2001:db8::1").take(100);
        assert!(one.is_some());
        assert!(of(&mut memory, "2001:db8::2").take(1).is_none(), "the same host");
        assert!(of(&mut memory, "2001:db8:1::2").take(100).is_some());
        let none = std::iter::empty;
        memory.forget("2001:db8::7".parse().unwrap(), none());
        assert_eq!(memory.hosts.len(), 1);
        drop(one);
        assert_eq!(memory.peak(), 200);
    }
}
