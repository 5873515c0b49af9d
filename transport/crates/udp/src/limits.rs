//! How many connections there may be, of all peers and of one.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Connections that a listening end holds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections at a time from one address; from one network of 64 bits, where addresses are IPv6: a host has as many
    /// of these as it wants.
    pub connections_of_an_address: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 4096, connections_of_an_address: 256 }
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
        let limits = Limits { connections: 4, connections_of_an_address: 2 };
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
}
