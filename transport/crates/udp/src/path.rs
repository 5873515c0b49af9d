//! What the system knows of the way to a peer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{getsockopt, sockopt};

/// A socket that would send to `to`; nothing is sent.
fn towards(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(to)?;
    Ok(socket)
}

/// Our address as one at `to` sees it, as far as this system can tell.
///
/// # Errors
/// There is no way there.
pub fn local_address(to: SocketAddr) -> io::Result<IpAddr> {
    Ok(towards(to)?.local_addr()?.ip().to_canonical())
}

/// Bytes of an IP packet that the way to `to` carries, as far as this system knows: its interface's MTU, or less if a
/// router has said so (RFC 1191, RFC 8201). A way that swallows large packets without a word is not found out.
///
/// # Errors
/// There is no way there.
pub fn path_mtu(to: SocketAddr) -> io::Result<usize> {
    let socket = towards(to)?;
    let mtu = if to.is_ipv4() { getsockopt(&socket, sockopt::IpMtu)? } else { ipv6_mtu(&socket)? };
    usize::try_from(mtu).map_err(io::Error::other)
}

fn ipv6_mtu(socket: &UdpSocket) -> io::Result<libc::c_int> {
    let mut mtu: libc::c_int = 0;
    let mut length = size_of_val(&mtu) as libc::socklen_t;
    // SAFETY: the value and its length are valid for the call, and the kernel writes no more than `length` bytes.
    let done = unsafe {
        let value = (&raw mut mtu).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_MTU, value, &raw mut length)
    };
    if done == 0 { Ok(mtu) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_carries_what_its_interface_says() {
        let said = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        let said: usize = said.trim().parse().unwrap();
        for to in ["127.0.0.1:9", "[::1]:9"] {
            let mtu = path_mtu(to.parse().unwrap()).unwrap();
            // No packet of IPv4 is longer, whatever the interface carries.
            assert!(mtu == said || mtu == said.min(65_535), "{to}: {mtu} of {said}");
        }
    }
}
