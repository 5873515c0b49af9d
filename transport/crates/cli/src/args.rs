//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use udp::tls::Fingerprint;

use crate::fetch::target::Target;

/// Files from many servers at once, over LTTP: LT-coded symbols, so that no loss waits for a timeout.
///
/// A server:  fountain serve /srv/data
/// A client:  fountain fetch --fingerprint FINGERPRINT server:reports/2026.csv -o .
///
/// Exit status: 0 all is there; 1 something is not; 2 the command line is wrong;
/// 130 interrupted (what has come is kept, the same command goes on with it).
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Serve),
    Fetch(Fetch),
}

/// Serve the files of a directory.
///
/// Listens for control channels on TCP and for data on the same port of UDP. Without --cert it makes itself a
/// certificate and prints its fingerprint, by which clients know it; it is another one after each start.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// What is served: regular files below it, and nothing that links lead to outside of it
    pub(crate) directory: PathBuf,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:4860")]
    pub(crate) listen: SocketAddr,
    /// Certificate chain (PEM), for clients that trust its authority
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Let in only clients with a certificate of an authority in this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Send everything in clear and believe anyone: for experiments on a closed network only
    #[arg(long, conflicts_with_all = ["cert", "key"])]
    pub(crate) insecure: bool,
    /// First sending rate, in bit/s; without it, from the round trip of the handshake (RFC 5348, section 4.2)
    #[arg(long, value_name = "BIT/S")]
    pub(crate) start_rate: Option<f64>,
    /// End connections whose client says nothing for so many seconds while it is being served
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) silence: f64,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(crate) max_connections: usize,
    /// Connections at a time from one address
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) max_connections_per_address: usize,
    /// Print events as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Fetch files from one or many servers at once.
///
/// A source is HOST:PATH or HOST:PORT/PATH. Several hosts with copies of a file are separated by commas, and share the
/// work: HOST,HOST:PORT/PATH. What is interrupted goes on where it was when the same command is run again.
#[derive(Debug, clap::Args)]
pub(crate) struct Fetch {
    /// What to fetch: HOST:PATH, HOST:PORT/PATH or HOST,HOST/PATH
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<Target>,
    /// Where to put it
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub(crate) output: PathBuf,
    /// Fetch directories with all that is below them
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Throw away what comes: to measure
    #[arg(long, conflicts_with_all = ["output", "recursive", "hash"])]
    pub(crate) discard: bool,
    /// Fetch everything so many times, each time when all of the last time is there (only with --discard)
    #[arg(long, value_name = "N", default_value_t = 1, requires = "discard")]
    pub(crate) rounds: u32,
    /// Rounds begin together: the default, and the only way
    #[arg(long, hide = true)]
    pub(crate) barrier: bool,
    /// Print the BLAKE3 of each file
    #[arg(long)]
    pub(crate) hash: bool,
    /// Servers are those with these certificates (may be given several times)
    #[arg(long, value_name = "FINGERPRINT", conflicts_with_all = ["ca", "insecure"])]
    pub(crate) fingerprint: Vec<Fingerprint>,
    /// Servers are those that an authority in this file vouches for (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) ca: Option<PathBuf>,
    /// Own certificate chain (PEM), for servers that ask for one
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "insecure")]
    pub(crate) cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Nothing is encrypted and nobody is who he says: for experiments on a closed network only
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Bytes of a symbol, or "mtu": as many as fit an Ethernet frame
    #[arg(long, value_name = "N|mtu", default_value = "mtu")]
    pub(crate) symbol_bytes: SymbolBytes,
    /// Symbols of a block: more are more efficient, fewer need less memory and come sooner
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=8192))]
    pub(crate) block_symbols: u16,
    /// How coded symbols choose their neighbours
    #[arg(long, value_enum, default_value_t = Draw::Dealt)]
    pub(crate) draw: Draw,
    /// Who keeps the sum of what is under way small: this client by its credits, or nobody but each server's TFRC, as in the paper
    #[arg(long, value_enum, default_value_t = Pacing::Client)]
    pub(crate) pacing: Pacing,
    /// Bytes on the wire that may be under way to this client, all servers together; without it, at least 40 KiB and up to what the path is found to hold
    #[arg(long, value_name = "BYTES")]
    pub(crate) window: Option<usize>,
    /// Go on trying to reach servers that are gone for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub(crate) retry: f64,
    /// A server that says nothing for so many seconds is gone
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) silence: f64,
    /// Print progress and the outcome as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Draw {
    /// Dealt from shuffled decks: fewer symbols are needed
    Dealt,
    /// Each independently, as in the paper
    Independent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pacing {
    Client,
    Tfrc,
}

/// Bytes of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolBytes {
    Mtu,
    Exactly(u16),
}

impl std::str::FromStr for SymbolBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "mtu" {
            return Ok(SymbolBytes::Mtu);
        }
        let bounds = proto::lttp::SYMBOL_BYTES;
        match text.parse() {
            Ok(bytes) if bounds.contains(&bytes) => Ok(SymbolBytes::Exactly(bytes)),
            _ => Err(format!("\"mtu\", or a number from {} to {}", bounds.start(), bounds.end())),
        }
    }
}
