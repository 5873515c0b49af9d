//! `bench-short-flows`: connections that each carry a little data, one after another, over one protocol: what `make
//! bench-short-flows` measures. The client sends, as in the ATP paper (section III); a flow is complete when the server has all.
//!
//! A protocol is a module with `serve` and a client that makes flows, and one arm in each `match` below.

mod atp;
mod quic;
mod tcp;
mod timed;
mod tls;
mod udp_load;

use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ::udp::tls::Fingerprint;
use clap::{Parser, Subcommand, ValueEnum};
use serde_json::json;

use crate::timed::{Client, Flow, Report};

type Failure = Box<dyn std::error::Error>;

/// A flow that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is written at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Every flow begins with its length, and the server answers its last byte with this one.
const LENGTH_BYTES: usize = 8;
const COMPLETE: u8 = 1;
/// What servers are called that are known by their fingerprint.
const NAME: &str = "bench";

/// Short flows over one protocol.
#[derive(Parser)]
#[command(name = "bench-short-flows")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Take flows, many at once, until a signal ends it.
    Serve {
        protocol: Protocol,
        /// The address to listen on
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Make connections one after another, send on each, and print how long each took.
    Run {
        protocol: Protocol,
        /// The server
        #[arg(long)]
        connect: SocketAddr,
        /// The fingerprint of its certificate, where the protocol has one
        #[arg(long)]
        certificate: Option<Fingerprint>,
        /// How many connections
        #[arg(long, default_value_t = 1000)]
        count: u32,
        /// More connections before these, which do not count
        #[arg(long, default_value_t = 0)]
        warm_up: u32,
        /// Bytes that each sends
        #[arg(long, default_value_t = 8500)]
        bytes: u64,
        /// Milliseconds between the end of one and the beginning of the next
        #[arg(long, default_value_t = 2)]
        gap_ms: u64,
        /// Begin none after this many seconds of those that count
        #[arg(long)]
        seconds: Option<f64>,
    },
    /// Send datagrams at a rate, evenly, until a signal ends it.
    Load {
        /// Where to
        #[arg(long)]
        connect: SocketAddr,
        /// Bits of whole Ethernet frames a second
        #[arg(long)]
        rate_bps: u64,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Protocol {
    /// ATP; the second connection and those after it resume the session of one before
    Atp,
    /// ATP without parity
    AtpBare,
    /// The system's TCP, in clear
    Tcp,
    /// TLS 1.3 over the system's TCP; the second connection and those after it resume the session of one before
    Tls,
    /// quinn; the second connection and those after it resume the session of one before
    Quic,
    /// quinn, a full handshake for each connection
    QuicCold,
}

fn main() -> Result<(), Failure> {
    match Arguments::parse().command {
        Command::Serve { protocol, listen } => match protocol {
            Protocol::Atp => atp::serve(listen, true),
            Protocol::AtpBare => atp::serve(listen, false),
            Protocol::Tcp => tcp::serve(listen),
            Protocol::Tls => tls::serve(listen),
            Protocol::Quic | Protocol::QuicCold => quic::serve(listen),
        },
        Command::Run { protocol, connect, certificate, count, warm_up, bytes, gap_ms, seconds } => {
            if bytes < LENGTH_BYTES as u64 {
                return Err(format!("--bytes: at least {LENGTH_BYTES}").into());
            }
            let certificate = || certificate.ok_or("--certificate: this protocol needs the server's");
            let mut client: Box<dyn Client> = match protocol {
                Protocol::Atp => Box::new(atp::To::new(connect, certificate()?, true)?),
                Protocol::AtpBare => Box::new(atp::To::new(connect, certificate()?, false)?),
                Protocol::Tcp => Box::new(tcp::To(connect)),
                Protocol::Tls => Box::new(tls::To::new(connect, certificate()?)?),
                Protocol::Quic => Box::new(quic::To::new(connect, certificate()?, true)?),
                Protocol::QuicCold => Box::new(quic::To::new(connect, certificate()?, false)?),
            };
            let gap = Duration::from_millis(gap_ms);
            let end = seconds.map(Duration::try_from_secs_f64).transpose()?;
            let mut report = Report::default();
            let mut begun = Instant::now();
            for number in 0..warm_up + count {
                if number <= warm_up {
                    begun = Instant::now();
                } else if end.is_some_and(|end| begun.elapsed() >= end) {
                    break;
                }
                let flow = Flow::timed(client.as_mut(), bytes);
                if number >= warm_up {
                    report.add(number - warm_up, flow);
                }
                client.rest(gap);
            }
            println!("{}", report.as_json());
            Ok(())
        }
        Command::Load { connect, rate_bps } => udp_load::send(connect, rate_bps),
    }
}

/// Says that flows are taken from now on.
fn listening(address: SocketAddr, certificate: Option<Fingerprint>) {
    let certificate = certificate.map(|it| it.to_string());
    println!(
        "{}",
        json!({"event": "listening", "listening": address.to_string(), "certificate": certificate})
    );
}

/// Reads a flow to its end from a stream of which reading waits.
fn take_all(stream: &mut impl Read) -> io::Result<()> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length)?;
    let mut left = u64::from_be_bytes(length).saturating_sub(LENGTH_BYTES as u64);
    let mut buffer = vec![0; CHUNK_BYTES];
    while left > 0 {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => left = left.saturating_sub(count as u64),
        }
    }
    Ok(())
}

/// The pieces of a flow of `bytes`: its length first.
fn pieces(bytes: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut left = bytes;
    let mut head = bytes.to_be_bytes().to_vec();
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let length = left.min(CHUNK_BYTES as u64) as usize;
        left -= length as u64;
        let mut piece = std::mem::take(&mut head);
        piece.resize(length, 0x5a);
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_has_its_length_in_front_and_is_as_long() {
        for bytes in [8, 8500, CHUNK_BYTES as u64 + 1] {
            let all: Vec<u8> = pieces(bytes).flatten().collect();
            assert_eq!(all.len() as u64, bytes);
            assert_eq!(all[..LENGTH_BYTES], bytes.to_be_bytes());
        }
    }
}
