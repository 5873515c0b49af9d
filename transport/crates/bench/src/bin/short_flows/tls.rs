//! TLS 1.3 over the system's TCP: what is as safe as the protocols that are always encrypted.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use ::udp::tls::{self, Fingerprint, Identity, Trust};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};

use crate::timed::{Client, Marks};
use crate::{COMPLETE, Failure, NAME, listening, pieces, take_all};

pub(crate) fn serve(listen: SocketAddr) -> Result<(), Failure> {
    let identity = Identity::generate()?;
    let fingerprint = identity.fingerprint();
    let config = tls::server(identity, None)?;
    let listener = TcpListener::bind(listen)?;
    listening(listener.local_addr()?, Some(fingerprint));
    for stream in listener.incoming() {
        let (stream, config) = (stream?, config.clone());
        // The client knows of what fails here: no answer comes.
        thread::spawn(move || take(stream, config));
    }
    Ok(())
}

fn take(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let tls = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(tls, stream);
    take_all(&mut stream)?;
    stream.write_all(&[COMPLETE])?;
    // The client closes first, as in `tcp`.
    stream.sock.read(&mut [0]).map(|_| ())
}

/// Flows to a server: the second connection and those after it resume the session of one before.
pub(crate) struct To {
    server: SocketAddr,
    config: Arc<ClientConfig>,
}

impl To {
    pub(crate) fn new(server: SocketAddr, certificate: Fingerprint) -> Result<Self, Failure> {
        Ok(To { server, config: tls::client(&Trust::Fingerprints(vec![certificate]), None)? })
    }
}

impl Client for To {
    fn flow(&mut self, bytes: u64, marks: &mut Marks) -> Result<(), Failure> {
        let stream = TcpStream::connect_timeout(&self.server, marks.left())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(marks.left()))?;
        stream.set_write_timeout(Some(marks.left()))?;
        let tls = ClientConnection::new(self.config.clone(), ServerName::try_from(NAME)?)?;
        let mut stream = StreamOwned::new(tls, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        marks.connected();
        for piece in pieces(bytes) {
            stream.write_all(&piece)?;
        }
        let read = stream.read_exact(&mut [0]);
        marks.complete();
        marks.retransmissions = crate::tcp::retransmissions(&stream.sock);
        Ok(read?)
    }
}
