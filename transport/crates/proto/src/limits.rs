//! How many connections there may be, and what they may hold: of all peers, and of one.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::Budget;

/// What a listening end may be made to hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections at a time from one address; from one network of 64 bits, where addresses are IPv6: a host has as many
    /// of these as it wants.
    pub connections_of_an_address: usize,
    /// Bytes that all connections together may make it hold, whatever they are for. One address gets nothing that would
    /// leave less than seven times as much as it has: alone an eighth of all, and the next one an eighth of the rest.
    pub memory_bytes: usize,
    /// Files open for all connections together, shared in the same way.
    pub files: usize,
    /// What is sent, or received, at most: in bit/s of whole Ethernet frames.
    pub bps: Option<f64>,
    /// The same of one connection; a server's only.
    pub bps_of_a_connection: Option<f64>,
}

/// What each connection costs for as long as it lasts: TLS with a handshake of 64 KiB that never becomes whole, and what
/// belongs to its state machine. What else it makes this side hold is counted as it comes.
pub const CONNECTION_BYTES: usize = 96 << 10;
/// What a process takes that holds nothing for anybody: its program and threads, buffers of sockets, symbols on their way
/// to be decoded, decoders that are kept for blocks to come, and what the allocator has not given back.
const PROCESS_BYTES: usize = 160 << 20;
/// Files that are open in any case.
const OTHER_FILES: usize = 64;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 4096,
            connections_of_an_address: 256,
            memory_bytes: 1 << 30,
            files: 16_384,
            bps: None,
            bps_of_a_connection: None,
        }
    }
}

impl Limits {
    /// Bytes that the process has in memory at most.
    pub fn resident_bytes(&self) -> usize {
        self.memory_bytes.saturating_add(PROCESS_BYTES)
    }

    /// The same limits in a process that may have `open_files`: one that has none left serves nobody.
    pub fn within(self, open_files: usize) -> Self {
        let half = (open_files.saturating_sub(OTHER_FILES) / 2).max(1);
        Limits { connections: self.connections.min(half), files: self.files.min(half), ..self }
    }

    /// Whether one more may come from `address` beside those that there are.
    pub fn have_room(&self, address: SocketAddr, present: impl Iterator<Item = SocketAddr>) -> bool {
        let (mut all, mut of_it) = (0, 0);
        for other in present {
            all += 1;
            of_it += usize::from(network(other.ip()) == network(address.ip()));
        }
        all < self.connections && of_it < self.connections_of_an_address
    }
}

/// What may be held. Whoever has no memory left for blocks has some for what is said of those that there are.
#[derive(Clone, Debug)]
pub struct Room {
    /// Bytes of what is carried.
    pub blocks: Budget,
    /// Bytes of what is said of it.
    pub state: Budget,
    /// Open files.
    pub files: Budget,
}

/// What all connections may hold, and those of each host.
#[derive(Debug)]
pub struct Memory {
    bytes: Budget,
    files: Budget,
    hosts: HashMap<IpAddr, Room>,
    /// Hosts that are remembered before those are forgotten that hold nothing.
    most_hosts: usize,
}

impl Memory {
    /// Nothing is held yet.
    pub fn new(limits: &Limits) -> Self {
        let (bytes, files) = (Budget::new(limits.memory_bytes), Budget::new(limits.files));
        Memory { bytes, files, hosts: HashMap::new(), most_hosts: 2 * limits.connections.max(1) }
    }

    /// What a connection from `address` may hold, along with the others from there.
    pub fn of(&mut self, address: IpAddr) -> Room {
        if self.hosts.len() >= self.most_hosts {
            self.hosts.retain(|_, room| room.blocks.taken() + room.state.taken() > 0);
        }
        let share =
            || Room { blocks: self.bytes.share(), state: self.bytes.share(), files: self.files.share() };
        self.hosts.entry(network(address)).or_insert_with(share).clone()
    }

    /// The most bytes that were held at a time.
    pub fn peak_bytes(&self) -> usize {
        self.bytes.peak()
    }

    /// The most files that were open at a time.
    pub fn peak_files(&self) -> usize {
        self.files.peak()
    }
}

/// What belongs to one host, as far as its address tells.
pub(crate) fn network(address: IpAddr) -> IpAddr {
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
        let limits = Limits { memory_bytes: 800, ..Limits::default() };
        let mut memory = Memory::new(&limits);
        let of = |memory: &mut Memory, text: &str| memory.of(text.parse().unwrap()).blocks;
        let one = of(&mut memory, "2001:db8::1").take(100);
        assert!(one.is_some());
        assert!(of(&mut memory, "2001:db8::2").take(1).is_none(), "the same host");
        assert!(
            memory.of("2001:db8::2".parse().unwrap()).state.take(1).is_some(),
            "it may still say something"
        );
        let other = of(&mut memory, "2001:db8:1::2");
        assert!(other.take(88).is_none(), "it leaves some to a third one");
        assert!(other.take(87).is_some());
        drop(one);
        assert_eq!(memory.peak_bytes(), 187);
    }

    #[test]
    fn hosts_that_hold_nothing_are_forgotten() {
        let mut memory = Memory::new(&Limits { connections: 4, ..Limits::default() });
        let _held = memory.of([10, 0, 0, 1].into()).state.take(1);
        for n in 2..=255 {
            memory.of([10, 0, 0, n].into());
            assert!(memory.hosts.len() <= 8);
        }
        assert_eq!(memory.of([10, 0, 0, 1].into()).state.taken(), 1);
    }

    #[test]
    fn a_process_that_may_open_few_files_takes_fewer_connections() {
        let limits = Limits::default();
        let all = limits.within(1 << 20);
        assert_eq!((all.connections, all.files), (limits.connections, limits.files));
        let few = limits.within(1024);
        assert_eq!((few.connections, few.files), (480, 480));
        assert_eq!(limits.within(0).files, 1);
    }
}
