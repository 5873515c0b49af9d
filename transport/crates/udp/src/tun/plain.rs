//! A tunnel and nothing else: what a layer in its place costs is measured against it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use proto::acc::packet::Pair;
use proto::acc::{Outbox, Way};
use proto::ecn::Codepoint;

use super::{Device, Joining, MOST_BYTES, Routes, Routing, split};
use crate::poller::{Events, Interest, Poller};
use crate::socket::{Buffers, DataSocket};

const DEVICE: usize = 0;
const SOCKET: usize = 1;
const BATCH: usize = 16;
const IP_AND_UDP_BYTES: usize = 48;

/// Carries TCP's packets to `remote`, as they are, in UDP between the same port of both hosts, until the process ends. `ready` is called when it is
/// set up.
///
/// # Errors
/// The system refuses a device, a route or a socket.
pub fn plain(local: IpAddr, remote: IpAddr, port: u16, device: &str, ready: impl FnOnce()) -> io::Result<()> {
    let device = Device::open(device)?;
    let socket = DataSocket::bind_alone(SocketAddr::new(local, port))?;
    let mtu = 1500 - IP_AND_UDP_BYTES;
    let routes = Routes::set_up(device.name(), mtu, &Routing::default(), remote.is_ipv6())?;
    routes.add(&Pair { local, remote }, mtu)?;
    let poller = Poller::new()?;
    poller.add(&device, DEVICE, Interest::Read)?;
    poller.add(socket.socket(), SOCKET, Interest::Read)?;
    ready();
    let way = Way { from: local, to: SocketAddr::new(remote, port) };
    let (mut events, mut buffers, mut packet) = (Events::new(), Buffers::new(), vec![0; MOST_BYTES]);
    let (mut out, mut joining) = (Outbox::default(), Joining::new());
    let write = |packet: &[u8]| {
        // What the host does not take is lost.
        device.write(packet);
    };
    loop {
        poller.wait(&mut events, None)?;
        for key in events.keys().collect::<Vec<_>>() {
            if key == SOCKET {
                socket.receive(&mut buffers, |received| {
                    for datagram in received.datagrams {
                        joining.add(|to| to.extend_from_slice(datagram), write);
                    }
                })?;
                joining.finish(write);
                continue;
            }
            for _ in 0..BATCH {
                let Some(length) = device.read(&mut packet)? else { break };
                let _ = split(&mut packet[..length], |head, rest| {
                    out.write(way, Codepoint::NotEct, |bytes| {
                        bytes.extend_from_slice(head);
                        bytes.extend_from_slice(rest);
                    });
                });
                out.drain(|burst| {
                    socket.send(burst.way.to, Some(burst.way.from), &burst.bytes, burst.segment_bytes);
                });
            }
        }
    }
}
