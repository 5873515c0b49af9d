//! ATP, in packets as long as a frame of Ethernet carries. No data goes with the handshake (0-RTT).

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use ::udp::tls::Fingerprint;
use transport::atp::{ConnectionConfig, Endpoint, Stream};

use crate::timed::{Client, Marks};
use crate::{COMPLETE, Failure, NAME, listening, pieces, take_all};

/// Bytes of UDP payload in a frame of Ethernet over IPv4.
const MTU_PAYLOAD_BYTES: u16 = 1472;

/// `parity`: without it, what is lost has to be asked for.
fn config(parity: bool) -> ConnectionConfig {
    ConnectionConfig { datagram_bytes: MTU_PAYLOAD_BYTES, parity, ..ConnectionConfig::default() }
}

pub(crate) fn serve(listen: SocketAddr, parity: bool) -> Result<(), Failure> {
    let endpoint = Endpoint::builder().config(config(parity)).listen(&listen.to_string())?;
    listening(endpoint.address(), endpoint.fingerprint());
    while let Some(connection) = endpoint.accept() {
        // The client knows of what fails here: no answer comes.
        std::thread::spawn(move || {
            let stream = connection.accept_stream()?;
            take(stream)?;
            connection.closed();
            std::io::Result::Ok(())
        });
    }
    Ok(())
}

fn take(mut stream: Stream) -> std::io::Result<()> {
    take_all(&mut stream)?;
    stream.finish_with(&[COMPLETE])
}

/// Flows to a server, all from one socket.
pub(crate) struct To {
    server: SocketAddr,
    endpoint: Endpoint,
}

impl To {
    pub(crate) fn new(server: SocketAddr, certificate: Fingerprint, parity: bool) -> Result<Self, Failure> {
        let endpoint = Endpoint::builder().trust(certificate).config(config(parity)).client()?;
        Ok(To { server, endpoint })
    }
}

impl Client for To {
    fn flow(&mut self, bytes: u64, marks: &mut Marks) -> Result<(), Failure> {
        let connection = self.endpoint.begin(self.server, NAME)?;
        connection.connected()?;
        marks.connected();
        let mut stream = connection.open()?;
        let mut pieces = pieces(bytes).peekable();
        while let Some(piece) = pieces.next() {
            stream.set_timeout(Some(marks.left()));
            match pieces.peek() {
                Some(_) => stream.write_all(&piece)?,
                None => stream.finish_with(&piece)?,
            }
        }
        stream.set_timeout(Some(marks.left()));
        stream.read_exact(&mut [0])?;
        marks.complete();
        let counters = connection.counters();
        marks.retransmissions = u32::try_from(counters.requested + counters.timed_out).ok();
        connection.close(0, "");
        Ok(())
    }

    fn rest(&mut self, gap: Duration) {
        std::thread::sleep(gap);
    }
}
