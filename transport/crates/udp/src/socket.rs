//! A UDP socket with segmentation offload, large buffers and path-MTU discovery.

use std::cell::Cell;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};

/// What is asked for; the kernel grants `net.core.rmem_max` at most.
const BUFFER_BYTES: usize = 4 << 20;
/// The longest datagram, or batch of coalesced ones, that is read at once.
const READ_BYTES: usize = 64 << 10;

/// A bound socket.
pub(crate) struct DataSocket {
    socket: UdpSocket,
    state: UdpSocketState,
    buffers: Vec<u8>,
    refused: Cell<u64>,
}

/// One datagram, or several of one size that came together.
pub(crate) struct Received<'a> {
    pub(crate) from: SocketAddr,
    /// Which of our addresses it was sent to, if the system tells.
    pub(crate) to: Option<IpAddr>,
    pub(crate) ce: bool,
    pub(crate) datagrams: std::slice::ChunksMut<'a, u8>,
}

impl DataSocket {
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        // What the kernel does not grant costs losses under bursts, and nothing else.
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(BUFFER_BYTES);
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.bind(&address.into())?;
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        Ok(DataSocket { socket, state, buffers: vec![0; READ_BYTES * BATCH_SIZE], refused: Cell::new(0) })
    }

    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Calls to send that the system refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Datagrams that one call may send.
    pub(crate) fn max_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends `contents`, datagrams of `segment_bytes` each, from `from`. False: the socket's buffer is full.
    pub(crate) fn send(
        &self,
        to: SocketAddr,
        from: Option<IpAddr>,
        contents: &[u8],
        segment_bytes: usize,
    ) -> bool {
        let segment_size = (contents.len() > segment_bytes).then_some(segment_bytes);
        let transmit = Transmit { destination: to, ecn: None, contents, segment_size, src_ip: from };
        match self.state.try_send(UdpSockRef::from(&self.socket), &transmit) {
            Ok(()) => true,
            Err(e) if e.kind() == ErrorKind::WouldBlock => false,
            // What the system says of one destination, of a size or of a route must stop nobody else: the datagrams are
            // lost, and the state machine finds that out as it does of any loss.
            Err(_) => {
                self.refused.set(self.refused.get() + 1);
                true
            }
        }
    }

    /// Reads a batch and gives it to `each`. False: there is nothing more.
    pub(crate) fn receive(&mut self, mut each: impl FnMut(Received<'_>)) -> io::Result<bool> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<IoSliceMut<'_>> =
            self.buffers.chunks_exact_mut(READ_BYTES).map(IoSliceMut::new).collect();
        let count = match self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas) {
            Ok(count) => count,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) if is_of_the_path(&e) || e.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(e) => return Err(e),
        };
        for (meta, slice) in metas.iter().zip(&mut slices).take(count) {
            each(Received {
                from: meta.addr,
                to: meta.dst_ip,
                ce: meta.ecn == Some(quinn_udp::EcnCodepoint::Ce),
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
