//! QUIC by quinn with its defaults, in packets as long as a frame of Ethernet carries. No data goes with the handshake (0-RTT).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ::udp::tls::{self, Fingerprint, Identity, Trust};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, Incoming, ServerConfig, TransportConfig, VarInt};
use rustls::client::Resumption;
use tokio::runtime::Runtime;

use crate::timed::{Client, Marks};
use crate::{COMPLETE, Failure, LENGTH_BYTES, NAME, listening, pieces};

/// Bytes of UDP payload in a frame of Ethernet over IPv4.
const MTU_PAYLOAD_BYTES: u16 = 1472;

pub(crate) fn serve(listen: SocketAddr) -> Result<(), Failure> {
    let identity = Identity::generate()?;
    let fingerprint = identity.fingerprint();
    let mut tls = (*tls::server(identity, None)?).clone();
    tls.max_early_data_size = 0;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport());
    runtime()?.block_on(async {
        let endpoint = Endpoint::server(config, listen)?;
        listening(endpoint.local_addr()?, Some(fingerprint));
        while let Some(incoming) = endpoint.accept().await {
            // The client knows of what fails here: no answer comes.
            tokio::spawn(async { drop(take(incoming).await) });
        }
        Ok(())
    })
}

async fn take(incoming: Incoming) -> Result<(), Failure> {
    let connection = incoming.await?;
    let (mut send, mut receive) = connection.accept_bi().await?;
    let mut length = [0; LENGTH_BYTES];
    receive.read_exact(&mut length).await?;
    let mut left = u64::from_be_bytes(length).saturating_sub(LENGTH_BYTES as u64);
    while left > 0 {
        match receive.read_chunk(usize::MAX, true).await? {
            None => return Ok(()),
            Some(chunk) => left = left.saturating_sub(chunk.bytes.len() as u64),
        }
    }
    send.write_all(&[COMPLETE]).await?;
    send.finish()?;
    connection.closed().await;
    Ok(())
}

/// Flows to a server, all from one socket.
pub(crate) struct To {
    server: SocketAddr,
    runtime: Runtime,
    endpoint: Endpoint,
}

impl To {
    /// `resume` has connections resume the TLS session of one before.
    pub(crate) fn new(server: SocketAddr, certificate: Fingerprint, resume: bool) -> Result<Self, Failure> {
        let mut tls = (*tls::client(&Trust::Fingerprints(vec![certificate]), None)?).clone();
        if !resume {
            tls.resumption = Resumption::disabled();
        }
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        config.transport_config(transport());
        let runtime = runtime()?;
        let mut endpoint = {
            let _inside = runtime.enter();
            Endpoint::client(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?
        };
        endpoint.set_default_client_config(config);
        Ok(To { server, runtime, endpoint })
    }
}

impl Client for To {
    fn flow(&mut self, bytes: u64, marks: &mut Marks) -> Result<(), Failure> {
        let To { server, runtime, endpoint } = self;
        runtime.block_on(async {
            let left = marks.left();
            tokio::time::timeout(left, async {
                let connection = endpoint.connect(*server, NAME)?.await?;
                marks.connected();
                let (mut send, mut receive) = connection.open_bi().await?;
                for piece in pieces(bytes) {
                    send.write_all(&piece).await?;
                }
                send.finish()?;
                receive.read_exact(&mut [0]).await?;
                marks.complete();
                marks.retransmissions = u32::try_from(connection.stats().path.lost_packets).ok();
                connection.close(VarInt::from_u32(0), b"");
                Ok(())
            })
            .await
            .map_err(|_| "not complete in time")?
        })
    }

    fn rest(&mut self, gap: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(gap).await });
    }
}

fn runtime() -> Result<Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.initial_mtu(MTU_PAYLOAD_BYTES).mtu_discovery_config(None);
    Arc::new(config)
}
