//! The control channel's TCP connection to one server, from the first SYN to its end.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};

use proto::channel::Channel;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::stream::{ControlStream, SEGMENT_BYTES};

pub(super) struct Link {
    address: SocketAddr,
    stage: Stage,
}

enum Stage {
    Connecting(ControlStream),
    Connected(ControlStream),
    Gone,
}

impl Link {
    /// Begins to connect.
    pub(super) fn begin(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_mss(SEGMENT_BYTES)?;
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(e) if e.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
            Err(e) => return Err(e),
        }
        let stream = ControlStream::over(socket.into(), true)?;
        Ok(Link { address, stage: Stage::Connecting(stream) })
    }

    /// One that could not even begin.
    pub(super) fn gone(address: SocketAddr) -> Self {
        Link { address, stage: Stage::Gone }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn stream(&self) -> Option<&TcpStream> {
        match &self.stage {
            Stage::Connecting(stream) | Stage::Connected(stream) => Some(stream.stream()),
            Stage::Gone => None,
        }
    }

    /// The socket is ready: it is connected, or something has come. False if nothing follows.
    pub(super) fn read(&mut self, take: impl FnMut(&[u8])) -> io::Result<bool> {
        if let Stage::Connecting(stream) = &self.stage {
            if let Some(error) = stream.stream().take_error()? {
                return Err(error);
            }
            match stream.stream().peer_addr() {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::NotConnected => return Ok(true),
                Err(e) => return Err(e),
            }
        }
        self.stage = match std::mem::replace(&mut self.stage, Stage::Gone) {
            Stage::Connecting(stream) => Stage::Connected(stream),
            stage => stage,
        };
        let Stage::Connected(stream) = &mut self.stage else { return Ok(true) };
        stream.read(take)
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self, channel: &mut Channel) -> io::Result<()> {
        let Stage::Connected(stream) = &mut self.stage else { return Ok(()) };
        stream.flush(channel)
    }

    /// The stream, and whether it matters that it can be written to, if that has changed.
    pub(super) fn interest_changed(&mut self, channel: &Channel) -> Option<(&TcpStream, bool)> {
        let Stage::Connected(stream) = &mut self.stage else { return None };
        let write = stream.interest_changed(channel)?;
        Some((stream.stream(), write))
    }

    /// Sends the last of what there is, as far as the socket takes it.
    pub(super) fn close(&mut self, channel: &mut Channel) {
        if let Stage::Connected(mut stream) = std::mem::replace(&mut self.stage, Stage::Gone) {
            stream.close(channel);
        }
    }
}
