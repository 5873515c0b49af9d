//! Addresses of hosts, as C has them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::boundary::Fault;

/// An address of UDP (`struct weir_address`). It has no padding: C may compare addresses as bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    family: u16,
    port: u16,
    scope: u32,
    ip: [u8; 16],
}

impl Address {
    pub(crate) fn ip(&self) -> Result<IpAddr, Fault> {
        match self.family {
            4 => {
                let [a, b, c, d, ..] = self.ip;
                Ok(Ipv4Addr::new(a, b, c, d).into())
            }
            6 => Ok(Ipv6Addr::from(self.ip).into()),
            other => Err(Fault::invalid(format!("an address of the family {other}: it is 4 or 6"))),
        }
    }

    /// Somebody's address, whom something can be sent to.
    pub(crate) fn socket(&self) -> Result<SocketAddr, Fault> {
        let ip = self.ip()?;
        if self.port == 0 {
            return Err(Fault::invalid(format!("port 0 of {ip}: nobody can be there")));
        }
        Ok(match ip {
            IpAddr::V4(_) => (ip, self.port).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, self.port, 0, self.scope).into(),
        })
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        let mut ip = [0; 16];
        let family = match address {
            IpAddr::V4(v4) => {
                ip[..4].copy_from_slice(&v4.octets());
                4
            }
            IpAddr::V6(v6) => {
                ip = v6.octets();
                6
            }
        };
        Address { family, ip, ..Address::default() }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let scope = if let SocketAddr::V6(v6) = address { v6.scope_id() } else { 0 };
        Address { port: address.port(), scope, ..Address::from(address.ip()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_to_c_and_back() {
        for text in ["10.0.0.1:4000", "[2001:db8::1]:1", "[fe80::1%7]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Address::from(address).socket().unwrap(), address);
        }
    }

    #[test]
    fn addresses_of_nobody_are_refused() {
        assert!(Address::default().ip().is_err());
        assert!(Address::from(IpAddr::from([10, 0, 0, 1])).socket().is_err());
    }
}
