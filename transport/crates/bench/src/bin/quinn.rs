//! `bench-quinn`: a QUIC transfer by quinn, to stand beside the coded transports in `make bench-transport`.
//!
//! One thread at each end, AES-128-GCM, packets as long as a frame of Ethernet carries: as ours. The receiver trusts every
//! certificate, since nothing but bytes is exchanged.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use clap::{Parser, Subcommand};
use proto::pinned::Pinned;
use quinn::congestion::CubicConfig;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::PrivateKeyDer;
use rustls::version::TLS13;
use serde_json::json;
use socket2::{Domain, Protocol, Socket, Type};

type Failure = Box<dyn std::error::Error>;

/// Bytes of UDP payload in a frame of Ethernet over IPv6.
const MTU_PAYLOAD_BYTES: u16 = 1452;
/// What is asked for, as by our sockets.
const BUFFER_BYTES: usize = 4 << 20;
const CHUNK_BYTES: usize = 256 << 10;

/// Bulk data over QUIC.
#[derive(Parser)]
#[command(name = "bench-quinn")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Bytes that may be in flight from the first moment on, instead of quinn's own windows
    #[arg(long, value_name = "BYTES", global = true)]
    window: Option<u32>,
}

#[derive(Subcommand)]
enum Command {
    /// Answer each stream with as many bytes as it asks for.
    Serve {
        /// The address to listen on
        listen: SocketAddr,
    },
    /// Ask for bytes, again and again on one connection, and discard them.
    Fetch {
        /// The server
        from: SocketAddr,
        /// Bytes of a round
        #[arg(long)]
        bytes: u64,
        /// How often
        #[arg(long, default_value_t = 1)]
        rounds: u32,
    },
}

fn main() -> Result<(), Failure> {
    let Arguments { command, window } = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match command {
            Command::Serve { listen } => serve(listen, window).await,
            Command::Fetch { from, bytes, rounds } => fetch(from, bytes, rounds, window).await,
        }
    })
}

async fn serve(listen: SocketAddr, window: Option<u32>) -> Result<(), Failure> {
    let made = rcgen::generate_simple_self_signed(vec!["bench".into()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    let tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport(window));
    let endpoint = endpoint(listen, Some(config))?;
    println!("{}", json!({"event": "listening", "addr": endpoint.local_addr()?.to_string()}));
    while let Some(incoming) = endpoint.accept().await {
        let connection = incoming.await?;
        // Until its end: the connections of a benchmark follow one another.
        while let Ok((mut send, mut receive)) = connection.accept_bi().await {
            let mut asked = [0; 8];
            receive.read_exact(&mut asked).await?;
            let chunk = vec![0x5a; CHUNK_BYTES];
            let mut left = u64::from_be_bytes(asked);
            while left > 0 {
                let next = left.min(chunk.len() as u64) as usize;
                send.write_all(&chunk[..next]).await?;
                left -= next as u64;
            }
            send.finish()?;
        }
    }
    Ok(())
}

async fn fetch(from: SocketAddr, bytes: u64, rounds: u32, window: Option<u32>) -> Result<(), Failure> {
    let tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned::new(provider(), |_, _| true)))
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport(window));
    let endpoint = endpoint(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0), None)?;
    let connection = endpoint.connect_with(config, from, "bench")?.await?;
    let mut done = Vec::new();
    for _ in 0..rounds {
        let begun = Instant::now();
        let (mut send, mut receive) = connection.open_bi().await?;
        send.write_all(&bytes.to_be_bytes()).await?;
        send.finish()?;
        let mut came = 0;
        while let Some(chunk) = receive.read_chunk(usize::MAX, true).await? {
            came += chunk.bytes.len() as u64;
        }
        if came != bytes {
            return Err(format!("{came} of {bytes} bytes").into());
        }
        done.push(json!({"bytes": bytes, "seconds": begun.elapsed().as_secs_f64()}));
    }
    connection.close(VarInt::from_u32(0), b"done");
    endpoint.wait_idle().await;
    println!("{}", json!({"event": "done", "rounds": done}));
    Ok(())
}

/// A socket with buffers as ours have.
fn endpoint(address: SocketAddr, server: Option<ServerConfig>) -> Result<Endpoint, Failure> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(BUFFER_BYTES)?;
    socket.set_send_buffer_size(BUFFER_BYTES)?;
    socket.bind(&address.into())?;
    let config = EndpointConfig::default();
    Ok(Endpoint::new(config, server, socket.into(), Arc::new(TokioRuntime))?)
}

fn transport(window: Option<u32>) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.initial_mtu(MTU_PAYLOAD_BYTES).mtu_discovery_config(None);
    if let Some(window) = window {
        let mut cubic = CubicConfig::default();
        cubic.initial_window(window.into());
        config
            .congestion_controller_factory(Arc::new(cubic))
            .send_window(window.into())
            .receive_window(window.into())
            .stream_receive_window(window.into());
    }
    Arc::new(config)
}

/// With the cipher that protects our datagrams, and no other.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.retain(|suite| *suite == ring::cipher_suite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}
