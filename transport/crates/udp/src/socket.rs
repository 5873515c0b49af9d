//! A UDP socket with segmentation offload, large buffers and path-MTU discovery.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg, setsockopt, sockopt};
use proto::ecn::Codepoint;
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// What is asked for; the kernel grants `net.core.rmem_max` at most.
const BUFFER_BYTES: usize = 4 << 20;
/// The longest datagram, or batch of coalesced ones, that is read at once.
const READ_BYTES: usize = 64 << 10;

/// A bound socket.
pub(crate) struct DataSocket {
    socket: UdpSocket,
    is_ipv4: bool,
    state: UdpSocketState,
    refused: AtomicU64,
    /// The network has said something of a datagram.
    told: AtomicBool,
    dscp: u8,
    /// The traffic class of the socket. Where a DSCP is to be sent, one thread sends.
    class: AtomicU8,
}

/// Where what is received is read to.
pub(crate) struct Buffers(Vec<u8>);

impl Buffers {
    pub(crate) fn new() -> Self {
        Buffers(vec![0; READ_BYTES * BATCH_SIZE])
    }
}

/// One datagram, or several of one size that came together.
pub(crate) struct Received<'a> {
    pub(crate) from: SocketAddr,
    /// Which of our addresses it was sent to, if the system tells.
    pub(crate) to: Option<IpAddr>,
    /// What all of them bear.
    pub(crate) ecn: Codepoint,
    pub(crate) datagrams: std::slice::ChunksMut<'a, u8>,
}

impl DataSocket {
    /// One that receives IPv4 as well, if it is of IPv6.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::bind_as(address, false)
    }

    /// One for the address's family alone.
    pub(crate) fn bind_alone(address: SocketAddr) -> io::Result<Self> {
        Self::bind_as(address, true)
    }

    fn bind_as(address: SocketAddr, alone: bool) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        // What the kernel does not grant costs losses under bursts, and nothing else.
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(BUFFER_BYTES);
        if address.is_ipv6() {
            socket.set_only_v6(alone)?;
        }
        socket.bind(&address.into())?;
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // quinn-udp asks for time stamps, too, and its buffer has no place for all of it: with datagrams that came together, what
        // came last, the ECN field, would be cut off.
        setsockopt(&socket, sockopt::ReceiveTimestampns, &false)?;
        Ok(DataSocket {
            socket,
            is_ipv4: address.is_ipv4(),
            state,
            refused: AtomicU64::new(0),
            told: AtomicBool::new(false),
            dscp: 0,
            class: AtomicU8::new(0),
        })
    }

    /// Has what is sent from now on bear a DSCP (RFC 2474), of six bits.
    pub(crate) fn mark(&mut self, dscp: u8) -> io::Result<()> {
        self.dscp = dscp;
        self.set_class(Codepoint::NotEct)
    }

    fn set_class(&self, ecn: Codepoint) -> io::Result<()> {
        let class = self.dscp << 2 | ecn as u8;
        if class == self.class.load(Relaxed) {
            return Ok(());
        }
        let socket = SockRef::from(&self.socket);
        if self.is_ipv4 {
            socket.set_tos_v4(class.into())?;
        } else {
            socket.set_tclass_v6(class.into())?;
        }
        self.class.store(class, Relaxed);
        Ok(())
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Whether it is bound to an address of IPv4.
    pub(crate) fn is_ipv4(&self) -> bool {
        self.is_ipv4
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Calls to send that the system refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Whether a call has failed since the last time that this was asked: then there is something to read in the queue of errors.
    pub(crate) fn take_told(&self) -> bool {
        self.told.swap(false, Relaxed)
    }

    /// Datagrams that one call may send.
    pub(crate) fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends `contents`, datagrams of `segment_bytes` each, from `from`, not ECN-capable. False: the socket's buffer is full.
    pub(crate) fn send(
        &self,
        to: SocketAddr,
        from: Option<IpAddr>,
        contents: &[u8],
        segment_bytes: usize,
    ) -> bool {
        self.send_with(Codepoint::NotEct, to, from, contents, segment_bytes)
    }

    /// The same with `ecn` in their IP headers.
    pub(crate) fn send_with(
        &self,
        ecn: Codepoint,
        to: SocketAddr,
        from: Option<IpAddr>,
        contents: &[u8],
        segment_bytes: usize,
    ) -> bool {
        let segment_size = (contents.len() > segment_bytes).then_some(segment_bytes);
        let sent = if self.dscp == 0 {
            let ecn = EcnCodepoint::from_bits(ecn as u8);
            let transmit = Transmit { destination: to, ecn, contents, segment_size, src_ip: from };
            self.state.try_send(UdpSockRef::from(&self.socket), &transmit)
        } else {
            self.set_class(ecn).and_then(|()| self.send_marked(to, contents, segment_size))
        };
        match sent {
            Ok(()) => true,
            Err(e) if e.kind() == ErrorKind::WouldBlock => false,
            // What the system says of one destination, of a size or of a route must stop nobody else: the datagrams are
            // lost, and the state machine finds that out as it does of any loss.
            Err(_) => {
                self.refused.fetch_add(1, Relaxed);
                self.told.store(true, Relaxed);
                true
            }
        }
    }

    /// As quinn-udp sends, which would write a DSCP of 0 into every datagram. The system chooses the source.
    fn send_marked(&self, to: SocketAddr, contents: &[u8], segment_size: Option<usize>) -> io::Result<()> {
        let to = SockaddrStorage::from(to);
        let send = |contents: &[u8], segment: Option<&u16>| {
            let segments = segment.map(ControlMessage::UdpGsoSegments);
            let iov = [io::IoSlice::new(contents)];
            sendmsg(self.socket.as_raw_fd(), &iov, segments.as_slice(), MsgFlags::empty(), Some(&to))
                .map(drop)
        };
        let Some(size) = segment_size else { return Ok(send(contents, None)?) };
        match u16::try_from(size).map_err(|_| Errno::EINVAL).and_then(|size| send(contents, Some(&size))) {
            // The device of this route cannot cut them apart.
            Err(Errno::EIO | Errno::EINVAL) => {
                Ok(contents.chunks(size).try_for_each(|datagram| send(datagram, None))?)
            }
            sent => Ok(sent?),
        }
    }

    /// Reads a batch and gives it to `each`. False: there is nothing more.
    pub(crate) fn receive(
        &self,
        buffers: &mut Buffers,
        mut each: impl FnMut(Received<'_>),
    ) -> io::Result<bool> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<IoSliceMut<'_>> =
            buffers.0.chunks_exact_mut(READ_BYTES).map(IoSliceMut::new).collect();
        let count = match self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas) {
            Ok(count) => count,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) if is_of_the_path(&e) || e.kind() == ErrorKind::Interrupted => {
                self.told.store(true, Relaxed);
                return Ok(true);
            }
            Err(e) => return Err(e),
        };
        for (meta, slice) in metas.iter().zip(&mut slices).take(count) {
            each(Received {
                from: meta.addr,
                to: meta.dst_ip,
                ecn: meta.ecn.map_or(Codepoint::NotEct, |ecn| Codepoint::from_bits(ecn as u8)),
                datagrams: slice[..meta.len].chunks_mut(meta.stride.max(1)),
            });
        }
        Ok(count == BATCH_SIZE)
    }
}

/// Errors by which a socket tells what became of datagrams sent before.
fn is_of_the_path(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::PermissionDenied
    ) || error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{ControlMessageOwned, recvmsg};

    /// Sends `datagrams` of 1,000 bytes at once; what of a traffic class each has come with.
    fn classes_of(address: &str, dscp: u8, ecn: Codepoint, datagrams: usize) -> Vec<u8> {
        let address: SocketAddr = address.parse().unwrap();
        let receiver = UdpSocket::bind(address).unwrap();
        let options = SockRef::from(&receiver);
        let asked =
            if address.is_ipv4() { options.set_recv_tos_v4(true) } else { options.set_recv_tclass_v6(true) };
        asked.unwrap();
        let mut sender = DataSocket::bind(address).unwrap();
        sender.mark(dscp).unwrap();
        let contents = vec![7; 1000 * datagrams];
        assert!(sender.send_with(ecn, receiver.local_addr().unwrap(), None, &contents, 1000));
        assert_eq!(sender.refused(), 0);
        let receive = |_| {
            let (mut buffer, mut control) = ([0; 2000], nix::cmsg_space!(i32));
            let mut iov = [IoSliceMut::new(&mut buffer)];
            let received = recvmsg::<SockaddrStorage>(
                receiver.as_raw_fd(),
                &mut iov,
                Some(&mut control),
                MsgFlags::empty(),
            )
            .unwrap();
            assert_eq!(received.bytes, 1000);
            match received.cmsgs().unwrap().next() {
                Some(ControlMessageOwned::Ipv4Tos(class)) => class,
                Some(ControlMessageOwned::Ipv6TClass(class)) => class as u8,
                other => panic!("{other:?}"),
            }
        };
        (0..datagrams).map(receive).collect()
    }

    #[test]
    fn what_a_datagram_bears_is_read_with_it() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let mut buffers = Buffers::new();
            let receiver = DataSocket::bind(address.parse().unwrap()).unwrap();
            let sender = DataSocket::bind(address.parse().unwrap()).unwrap();
            let to = receiver.local_addr().unwrap();
            for ecn in [Codepoint::Ect0, Codepoint::NotEct, Codepoint::Ce, Codepoint::Ect1] {
                assert!(sender.send_with(ecn, to, None, &[7; 3000], 1000));
                let mut came = Vec::new();
                while came.len() < 3 {
                    receiver
                        .receive(&mut buffers, |got| came.extend(got.datagrams.map(|_| got.ecn)))
                        .unwrap();
                }
                assert_eq!(came, [ecn; 3], "{address}");
            }
        }
    }

    #[test]
    fn a_socket_writes_dscp_and_ecn_into_every_datagram() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            for (ecn, bits) in [(Codepoint::NotEct, 0), (Codepoint::Ect0, 2)] {
                assert_eq!(classes_of(address, 11, ecn, 1), [44 + bits], "{address}");
                assert_eq!(classes_of(address, 11, ecn, 5), [44 + bits; 5], "{address}");
                assert_eq!(classes_of(address, 0, ecn, 5), [bits; 5], "{address}");
            }
        }
    }
}
