//! The control channel to one server, from the first SYN to its end.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use proto::channel::Security;
use proto::lttp::ServerId;
use proto::protect::{LTTP_LABEL, Protection, Side};
use rustix::io::Errno;
use rustls::pki_types::ServerName;
use socket2::{Domain, Protocol, Socket, Type};
use wire::control;

use super::{Error, ServerAddress};
use crate::channel::{Broken, TcpChannel};

pub(super) struct Link {
    address: SocketAddr,
    stage: Stage,
    failure: Option<String>,
    wanted_write: bool,
}

enum Stage {
    Connecting(TcpChannel),
    /// TCP stands; TLS may not yet.
    Connected(TcpChannel),
    /// Its server is known to the state machine.
    Open(TcpChannel, ServerId),
    Gone(Option<ServerId>),
}

impl Link {
    /// Begins to connect. A failure at once is kept for [`Link::take_failure`].
    pub(super) fn connect(
        server: &ServerAddress,
        tls: Option<&Arc<rustls::ClientConfig>>,
    ) -> Result<Self, Error> {
        let security = match tls {
            None => Security::Clear,
            Some(config) => {
                let name = ServerName::try_from(server.name.clone());
                let name = name.map_err(|_| Error::Name(server.name.clone()))?;
                Some(rustls::ClientConnection::new(config.clone(), name)?).into()
            }
        };
        let mut link =
            Link { address: server.address, stage: Stage::Gone(None), failure: None, wanted_write: true };
        match begin(server.address).and_then(|stream| TcpChannel::new(stream, security)) {
            Ok(channel) => link.stage = Stage::Connecting(channel),
            Err(e) => link.failure = Some(e.to_string()),
        }
        Ok(link)
    }

    pub(super) fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    fn channel(&mut self) -> Option<&mut TcpChannel> {
        match &mut self.stage {
            Stage::Connecting(channel) | Stage::Connected(channel) | Stage::Open(channel, _) => Some(channel),
            Stage::Gone(_) => None,
        }
    }

    pub(super) fn stream(&self) -> Option<&TcpStream> {
        match &self.stage {
            Stage::Connecting(channel) | Stage::Connected(channel) | Stage::Open(channel, _) => {
                Some(channel.stream())
            }
            Stage::Gone(_) => None,
        }
    }

    /// Neither open nor gone.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self.stage, Stage::Connecting(_) | Stage::Connected(_))
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self.stage, Stage::Gone(_))
    }

    /// What the state machine calls it, if it ever was open.
    pub(super) fn server(&self) -> Option<ServerId> {
        match self.stage {
            Stage::Open(_, server) => Some(server),
            Stage::Gone(server) => server,
            _ => None,
        }
    }

    /// The socket is ready: connects, shakes hands, reads.
    pub(super) fn read(&mut self) -> Result<(), Broken> {
        if let Stage::Connecting(channel) = &mut self.stage {
            if let Some(error) = channel.stream().take_error()? {
                return Err(error.into());
            }
            match channel.stream().peer_addr() {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::NotConnected => return Ok(()),
                Err(e) => return Err(e.into()),
            }
            let Stage::Connecting(channel) = std::mem::replace(&mut self.stage, Stage::Gone(None)) else {
                return Ok(());
            };
            self.stage = Stage::Connected(channel);
        }
        let Some(channel) = self.channel() else { return Ok(()) };
        channel.flush()?;
        channel.read()
    }

    /// The protection of its data channel, once, when messages can pass.
    pub(super) fn opened(&mut self) -> Option<Result<Protection, Broken>> {
        let Stage::Connected(channel) = &self.stage else { return None };
        if !channel.inner.is_open() {
            return None;
        }
        Some(channel.inner.protection(LTTP_LABEL, Side::Client))
    }

    pub(super) fn set_server(&mut self, server: ServerId) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Gone(Some(server))) {
            Stage::Connecting(channel) | Stage::Connected(channel) | Stage::Open(channel, _) => {
                Stage::Open(channel, server)
            }
            gone @ Stage::Gone(_) => gone,
        };
    }

    pub(super) fn message(&mut self) -> Result<Option<control::Server>, Broken> {
        self.channel().map_or(Ok(None), |channel| channel.inner.message())
    }

    pub(super) fn send(&mut self, message: &control::Client) -> Result<(), Broken> {
        self.channel().map_or(Ok(()), |channel| channel.inner.send(message))
    }

    pub(super) fn flush(&mut self) -> Result<(), Broken> {
        match &mut self.stage {
            Stage::Connected(channel) | Stage::Open(channel, _) => channel.flush(),
            Stage::Connecting(_) | Stage::Gone(_) => Ok(()),
        }
    }

    /// The stream, and whether its being writable matters, if that has changed.
    pub(super) fn interest_changed(&mut self) -> Option<(&TcpStream, bool)> {
        let write = match &self.stage {
            Stage::Connecting(_) => true,
            Stage::Connected(channel) | Stage::Open(channel, _) => channel.inner.wants_write(),
            Stage::Gone(_) => return None,
        };
        if std::mem::replace(&mut self.wanted_write, write) == write {
            return None;
        }
        self.stream().map(|stream| (stream, write))
    }

    pub(super) fn close(&mut self) {
        if let Some(channel) = self.channel() {
            channel.close();
        }
        self.stage = Stage::Gone(self.server());
    }
}

fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {}
        Err(e) => return Err(e),
    }
    Ok(socket.into())
}
