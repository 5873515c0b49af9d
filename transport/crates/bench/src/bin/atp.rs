//! `bench-atp`: a server and a client of ATP, for `make bench-transport`: bytes of one stream, and many small requests.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transport::atp::{Connection, ConnectionConfig, Endpoint, Stream};
use udp::tls::Fingerprint;

type Failure = Box<dyn Error + Send + Sync>;

/// A connection's window, which is there from the first moment on.
const WINDOW_BYTES: u64 = 16 << 20;
/// What is read or written at once.
const CHUNK_BYTES: usize = 256 << 10;
/// Streams of requests that are open together.
const STREAMS: u64 = 4096;
/// The request that asks for bytes instead of for itself.
const BULK_BYTES: usize = 8;

/// A server and a client of ATP.
#[derive(Parser)]
#[command(name = "bench-atp")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Bytes of a datagram
    #[arg(long, global = true, default_value_t = 1472)]
    datagram_bytes: u16,
}

#[derive(Subcommand)]
enum Command {
    /// Answer streams, until a signal ends it.
    Serve { listen: SocketAddr },
    /// Fetch bytes by one stream, and print how long that took.
    Fetch {
        from: SocketAddr,
        #[arg(long)]
        certificate: Fingerprint,
        #[arg(long)]
        bytes: u64,
        #[arg(long, default_value_t = 1)]
        rounds: u32,
    },
    /// Make small requests, a stream each, so many at a time, and print how many a second were answered.
    Requests {
        to: SocketAddr,
        #[arg(long)]
        certificate: Fingerprint,
        #[arg(long, default_value_t = 64)]
        bytes: usize,
        #[arg(long, default_value_t = 256)]
        at_once: usize,
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
    },
}

fn main() -> Result<(), Failure> {
    let Arguments { command, datagram_bytes } = Arguments::parse();
    let config = ConnectionConfig {
        datagram_bytes,
        window_bytes: WINDOW_BYTES,
        max_streams: STREAMS,
        ..ConnectionConfig::default()
    };
    match command {
        Command::Serve { listen } => serve(listen, config),
        Command::Fetch { from, certificate, bytes, rounds } => {
            fetch(from, certificate, bytes, rounds, config)
        }
        Command::Requests { to, certificate, bytes, at_once, seconds } => {
            requests(to, certificate, bytes, at_once, Duration::from_secs_f64(seconds), config)
        }
    }
}

fn serve(listen: SocketAddr, config: ConnectionConfig) -> Result<(), Failure> {
    let endpoint = Endpoint::builder().config(config).listen(&listen.to_string())?;
    let certificate = endpoint.fingerprint().map(|it| it.to_string());
    println!(
        "{}",
        json!({"event": "listening", "addr": endpoint.address().to_string(), "certificate": certificate})
    );
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        while let Some(connection) = endpoint.next().await {
            tokio::spawn(async move {
                while let Ok(stream) = connection.next_stream().await {
                    // The client knows of what fails here.
                    tokio::spawn(async move { drop(answer(stream).await) });
                }
            });
        }
        Ok(())
    })
}

async fn answer(stream: Stream) -> std::io::Result<()> {
    let (mut read, mut write) = stream.split();
    let mut asked = Vec::new();
    read.read_to_end(&mut asked).await?;
    let Ok(count) = <[u8; BULK_BYTES]>::try_from(&asked[..]) else { return write.end_with(&asked).await };
    let chunk = vec![0x5a; CHUNK_BYTES];
    let mut left = u64::from_be_bytes(count);
    while left > 0 {
        let next = left.min(chunk.len() as u64) as usize;
        write.write_all(&chunk[..next]).await?;
        left -= next as u64;
    }
    write.shutdown().await
}

fn connect(
    to: SocketAddr,
    certificate: Fingerprint,
    config: ConnectionConfig,
) -> Result<Connection, Failure> {
    Ok(Endpoint::builder().trust(certificate).config(config).client()?.connect(&to.to_string())?)
}

fn fetch(
    from: SocketAddr,
    certificate: Fingerprint,
    bytes: u64,
    rounds: u32,
    config: ConnectionConfig,
) -> Result<(), Failure> {
    let connection = connect(from, certificate, config)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut done = Vec::new();
    for _ in 0..rounds {
        let begun = Instant::now();
        let mut stream = connection.open()?;
        stream.finish_with(&bytes.to_be_bytes())?;
        let mut came = 0;
        loop {
            match std::io::Read::read(&mut stream, &mut buffer)? {
                0 => break,
                count => came += count as u64,
            }
        }
        if came != bytes {
            return Err(format!("{came} of {bytes} bytes").into());
        }
        done.push(json!({"bytes": bytes, "seconds": begun.elapsed().as_secs_f64()}));
    }
    println!("{}", json!({"event": "done", "rounds": done}));
    connection.close(0, "done");
    Ok(())
}

fn requests(
    to: SocketAddr,
    certificate: Fingerprint,
    bytes: usize,
    at_once: usize,
    duration: Duration,
    config: ConnectionConfig,
) -> Result<(), Failure> {
    if bytes == BULK_BYTES {
        return Err("--bytes: 8 are a request for more".into());
    }
    let connection = connect(to, certificate, config)?;
    let count = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut askers = tokio::task::JoinSet::new();
        for _ in 0..at_once {
            let (connection, count) = (connection.clone(), count.clone());
            askers.spawn(async move {
                let request = vec![0x5a; bytes];
                let mut slowest = Duration::ZERO;
                while begun.elapsed() < duration {
                    let began = Instant::now();
                    let (mut read, mut write) = connection.open_stream().await?.split();
                    write.end_with(&request).await?;
                    let mut got = Vec::with_capacity(bytes);
                    read.read_to_end(&mut got).await?;
                    if got != request {
                        return Err("another answer".into());
                    }
                    count.fetch_add(1, Relaxed);
                    slowest = slowest.max(began.elapsed());
                }
                Ok::<_, Failure>(slowest)
            });
        }
        let mut slowest = Duration::ZERO;
        while let Some(asked) = askers.join_next().await {
            slowest = slowest.max(asked??);
        }
        let (count, seconds) = (count.load(Relaxed), begun.elapsed().as_secs_f64());
        println!(
            "{}",
            json!({
                "event": "done",
                "requests": count,
                "seconds": seconds,
                "per_second": count as f64 / seconds,
                "slowest_ms": slowest.as_secs_f64() * 1e3,
                "packets": connection.counters().sent,
            })
        );
        Ok(())
    })
}
