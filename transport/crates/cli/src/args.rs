//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use udp::Limits;
use udp::tls::Fingerprint;
use wire::packet;

use crate::target::{Host, Target};

const RECEIVER_PORT: u16 = 4870;

/// Files from many servers at once over LTTP, or to one receiver over DFCP: coded symbols, so that no loss waits for a
/// timeout.
///
///   A server:    fountain serve /srv/data
///   A client:    fountain fetch --fingerprint FINGERPRINT server:reports/2026.csv -o .
///   A receiver:  fountain recv /srv/inbox
///   A sender:    fountain send --fingerprint FINGERPRINT --rate-from https://controller:8181 --token-file token
///                receiver reports/
///
/// Exit status: 0 all is there; 1 something is not; 2 the command line is wrong;
/// 130 interrupted (what has come is kept, the same command goes on with it).
#[derive(Debug, Parser)]
#[command(name = "fountain", version, verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Serve),
    Fetch(Fetch),
    Recv(Recv),
    Send(Send),
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
    #[command(flatten)]
    pub(crate) identity: Identity,
    /// First sending rate, in bit/s; without it, from the round trip of the handshake (RFC 5348, section 4.2)
    #[arg(long, value_name = "BIT/S")]
    pub(crate) start_rate: Option<f64>,
    /// End connections whose client says nothing for so many seconds while it is being served
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) silence: f64,
    #[command(flatten)]
    pub(crate) most: Most,
    /// Print events as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who listens, and whom it lets in.
#[derive(Debug, clap::Args)]
pub(crate) struct Identity {
    /// Certificate chain (PEM), for peers that trust its authority
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Let in only peers with a certificate of an authority in this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Nothing is encrypted, and anyone is believed: for experiments on a closed network only
    #[arg(long, conflicts_with_all = ["cert", "key"])]
    pub(crate) insecure: bool,
}

/// What may be held for others.
#[derive(Debug, clap::Args)]
pub(crate) struct Most {
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(crate) max_connections: usize,
    /// Connections at a time from one address
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) max_connections_per_address: usize,
}

impl Most {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            connections: self.max_connections,
            connections_of_an_address: self.max_connections_per_address,
        }
    }
}

/// Whom to believe, and who asks.
#[derive(Debug, clap::Args)]
pub(crate) struct Trust {
    /// Believe those with these certificates (may be given several times)
    #[arg(long, value_name = "FINGERPRINT", conflicts_with_all = ["ca", "insecure"])]
    pub(crate) fingerprint: Vec<Fingerprint>,
    /// Believe those that an authority in this file vouches for (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) ca: Option<PathBuf>,
    /// Own certificate chain (PEM), for peers that ask for one
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "insecure")]
    pub(crate) cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Nothing is encrypted and nobody is who he says: for experiments on a closed network only
    #[arg(long)]
    pub(crate) insecure: bool,
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
    #[command(flatten)]
    pub(crate) trust: Trust,
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

/// Receive files from any number of senders, over DFCP.
///
/// Without --cert it makes itself a certificate and prints its fingerprint, by which senders know it. What is interrupted
/// goes on where it was when the sender comes again. A file that comes takes the place of one of its name.
#[derive(Debug, clap::Args)]
pub(crate) struct Recv {
    /// Where to put what comes
    pub(crate) directory: PathBuf,
    /// Where to listen (UDP); port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:4870")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) identity: Identity,
    /// Throw away what comes: to measure
    #[arg(long)]
    pub(crate) discard: bool,
    /// Only find out when there would be enough to decode a block: to measure what decoding costs
    #[arg(long, requires = "discard")]
    pub(crate) no_decode: bool,
    /// End when the first sender has gone: with status 0 if all that it offered is there
    #[arg(long)]
    pub(crate) once: bool,
    /// Bytes of blocks that a sender may have under way
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub(crate) window: u64,
    /// Bytes of blocks that all senders together may have under way, but for 1 MiB each
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    pub(crate) memory: u64,
    /// A sender that says nothing for so many seconds while something is to come is gone
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) silence: f64,
    #[command(flatten)]
    pub(crate) most: Most,
    /// Print events as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Send files or directories to a receiver, over DFCP.
///
/// DFCP has no congestion control: somebody has to say how fast it may send, or it does not. --rate-from announces the
/// flow to the controller of the fabric, follows its share, and withdraws it; while the controller is gone, TFRC's rate is
/// used. The same command goes on where it was interrupted.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("source of the rate").required(true).args(["rate_from", "rate", "tfrc"]))]
pub(crate) struct Send {
    /// HOST or HOST:PORT
    #[arg(value_name = "RECEIVER", value_parser = receiver)]
    pub(crate) to: Host,
    /// What to send: files, or directories with all that is below them
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// The controller's HTTP API, which says how fast to send
    #[arg(long, value_name = "URL", requires = "token_file")]
    pub(crate) rate_from: Option<String>,
    /// A token with the scopes read and announce, in a file (weir-controller token)
    #[arg(long, value_name = "FILE", requires = "rate_from")]
    pub(crate) token_file: Option<PathBuf>,
    /// The authority that vouches for the controller (PEM)
    #[arg(long, value_name = "FILE", requires = "rate_from")]
    pub(crate) rate_ca: Option<PathBuf>,
    /// The DSCP of what is sent, by which switches may know it; without it what the controller says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=63))]
    pub(crate) dscp: Option<u8>,
    /// The flow's name at the controller; one is made up without it
    #[arg(long, value_name = "NAME", requires = "rate_from")]
    pub(crate) flow: Option<String>,
    /// What the controller has said counts for so many seconds, unless it confirms it
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub(crate) expiry: f64,
    /// Send at this rate, in bit/s of whole Ethernet frames, whatever else is on the path
    #[arg(long, value_name = "BIT/S", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Send at the rate of TFRC, as LTTP does (RFC 5348)
    #[arg(long)]
    pub(crate) tfrc: bool,
    /// What the controller says counts for this at least
    #[arg(long, value_name = "BIT/S", value_parser = rate)]
    pub(crate) floor: Option<f64>,
    /// Never send faster, whoever says so
    #[arg(long, value_name = "BIT/S", value_parser = rate)]
    pub(crate) ceiling: Option<f64>,
    #[command(flatten)]
    pub(crate) trust: Trust,
    /// Bytes of a symbol, or "mtu": as many as fit an Ethernet frame
    #[arg(long, value_name = "N|mtu", default_value = "mtu")]
    pub(crate) symbol_bytes: SymbolBytes,
    /// Symbols of a block: more are more efficient, fewer need less memory and come sooner
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=8192))]
    pub(crate) block_symbols: u16,
    /// The code of the blocks
    #[arg(long, value_enum, default_value_t = Code::Raptor)]
    pub(crate) code: Code,
    /// Blocks of the sliding window; without it, as many as the path holds
    #[arg(long, value_name = "N")]
    pub(crate) window: Option<usize>,
    /// Symbols to send in vain, in percent of those needed: for receivers that cannot say what they need
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub(crate) redundancy: f64,
    /// Send of a block until its acknowledgement comes, not until enough is thought to have been sent
    #[arg(long)]
    pub(crate) no_early_stop: bool,
    /// Send every block once and wait for no acknowledgement: what is lost beyond the redundancy is lost
    #[arg(long)]
    pub(crate) no_acks: bool,
    /// Send bytes of the first block as they are, instead of every block's symbols: to measure what encoding costs. The
    /// receiver has to run with --no-decode
    #[arg(long)]
    pub(crate) no_encode: bool,
    /// Go on trying to reach a receiver that is gone for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub(crate) retry: f64,
    /// A receiver that says nothing for so many seconds is gone
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) silence: f64,
    /// Print progress and the outcome as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

fn receiver(text: &str) -> Result<Host, String> {
    Host::with_port(text, RECEIVER_PORT)
}

/// A rate in bit/s: a number, perhaps with k, M or G.
fn rate(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.char_indices().next_back() {
        Some((at, 'k')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let bps = digits.parse::<f64>().ok().map(|n| n * factor);
    bps.filter(|bps| bps.is_finite() && *bps > 0.0)
        .ok_or_else(|| format!("{text:?} is no rate; write bit/s, e.g. 95M or 2.5G"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Code {
    /// Weir's Raptor code
    Raptor,
    /// An LT code with dealt neighbours, as LTTP has it
    Lt,
    /// RaptorQ (RFC 6330), of the crate raptorq: to compare with
    #[cfg(feature = "raptorq")]
    Raptorq,
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

/// IPv6 and UDP, within an Ethernet frame's 1,500 bytes.
const MTU_PAYLOAD_BYTES: usize = 1500 - 40 - 8;

impl SymbolBytes {
    /// As many as fit a frame if that is what was asked for.
    pub(crate) fn exactly(self, protected: bool) -> u16 {
        match self {
            SymbolBytes::Exactly(bytes) => bytes,
            // Symbols are fastest in multiples of a cache line's quarter.
            SymbolBytes::Mtu => {
                ((MTU_PAYLOAD_BYTES - packet::symbol_datagram_bytes(0, protected)) & !15) as u16
            }
        }
    }
}

impl std::str::FromStr for SymbolBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "mtu" {
            return Ok(SymbolBytes::Mtu);
        }
        let bounds = proto::object::SYMBOL_BYTES;
        match text.parse() {
            Ok(bytes) if bounds.contains(&bytes) => Ok(SymbolBytes::Exactly(bytes)),
            _ => Err(format!("\"mtu\", or a number from {} to {}", bounds.start(), bounds.end())),
        }
    }
}
