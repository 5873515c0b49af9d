//! The command line.

mod acc;
mod atp;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use udp::Limits;
use udp::tls::Fingerprint;
use wire::packet;

pub(crate) use self::acc::{Acc, AccCommand, AccLayer, AccLink, AccStats, AccUp, Coding};
pub(crate) use self::atp::{AtpGet, AtpLimits, AtpPeers, AtpProxy, AtpServe};
use crate::select::Select;
use crate::target::{Host, Target};

const RECEIVER_PORT: u16 = 4870;

/// Fetch files from many servers at once over LTTP, or send files to one receiver over DFCP.
/// Both protocols send coded symbols, so that the repair of loss does not wait for a timeout.
///
///   A server:    fountain serve /srv/data
///   A client:    fountain fetch server:reports/2026.csv
///   A receiver:  fountain recv --client FINGERPRINT /srv/inbox
///   A sender:    fountain send --rate-from https://controller:8181 --token-file token receiver reports/
///   Over ATP:    fountain atp-serve /srv/data
///                fountain atp-get atp://server/reports/2026.csv
///   A proxy:     fountain atp-proxy atp://0.0.0.0:4880 tcp://localhost:6379      (beside a server of TCP)
///                fountain atp-proxy tcp://localhost:6379 atp://server         (beside its clients)
///   Beneath TCP: fountain acc up --key acc.key --to 10.0.0.0/8                (on each host)
///   In a pipe:   fountain fetch server:backup.tar -o - | tar x
///                tar c reports | fountain send --tfrc receiver - --name reports.tar
///
/// A host that is connected to for the first time shows its fingerprint, and you say whether it is the right one; from then
/// on it is known by it (--accept-new does so without a question). --fingerprint and --ca say beforehand whom to trust.
///
/// Exit status: 0 everything is complete; 1 something is missing; 2 the command line is wrong;
/// 130 interrupted (the data received so far is kept, and the same command resumes).
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
    AtpServe(AtpServe),
    AtpGet(AtpGet),
    AtpProxy(AtpProxy),
    Acc(Acc),
    Id(Id),
    Known(Known),
}

/// Print the fingerprint of your identity.
///
/// The identity is a certificate and its key. It is made when it is needed first, and kept in
/// $XDG_STATE_HOME/fountain/identity.pem, or ~/.local/state/fountain/identity.pem. Every command uses it where no --cert
/// is given, so that peers recognize you by one fingerprint.
#[derive(Debug, clap::Args)]
pub(crate) struct Id {
    /// Print a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the peers that are known, or forget one.
///
/// `fetch` and `send` keep the fingerprint of each host that was trusted once, in $XDG_STATE_HOME/fountain/known_peers or
/// ~/.local/state/fountain/known_peers. If the host shows another one later, nothing is exchanged with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Known {
    /// Forget this host: the next command that connects to it asks again. Without a port, at every port
    #[arg(long, value_name = "HOST[:PORT]", value_parser = host_at_any_port)]
    pub(crate) forget: Option<Host>,
    /// Print lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Serve the files of a directory.
///
/// Listens for control channels on TCP and for data on the same port of UDP. Clients recognize the server by its
/// fingerprint, which it prints, or by the authority of its --cert. Everyone may fetch, unless --client or --client-ca
/// say who.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Serve {
    /// The directory to serve: all regular files below it, but nothing outside of it that links lead to
    #[arg(required_unless_present = "config")]
    pub(crate) directory: Option<PathBuf>,
    /// A file of TOML with options and the directory, as in: directory = "/srv", listen = "0.0.0.0:4860", client = ["…", "…"].
    /// What is on the command line prevails
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:4860")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) identity: Identity,
    /// First sending rate, in bit/s; by default it follows from the round trip of the handshake (RFC 5348, section 4.2)
    #[arg(long, value_name = "BIT/S")]
    pub(crate) start_rate: Option<f64>,
    /// Do not ask switches for marks of congestion (ECN, RFC 3168)
    #[arg(long)]
    pub(crate) no_ecn: bool,
    /// Close a connection if its client sends nothing for this time while it is being served
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) silence: f64,
    #[command(flatten)]
    pub(crate) most: Most,
    /// Bytes that all connections together may make the server hold, beside 160 MiB for the process; those of one address at
    /// most an eighth of what the others leave for blocks, and as much for the rest
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    pub(crate) memory: usize,
    /// Never send faster than this to all clients together, in bit/s of whole Ethernet frames: 100M, 2.5G
    #[arg(long, value_name = "BIT/S", value_parser = limit)]
    pub(crate) limit: Option<f64>,
    /// Never send faster than this to one client
    #[arg(long, value_name = "BIT/S", value_parser = limit)]
    pub(crate) limit_per_client: Option<f64>,
    /// Print events as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The identity of a listening end, and the peers that it accepts.
#[derive(Debug, clap::Args)]
pub(crate) struct Identity {
    /// Certificate chain (PEM), for peers that trust its authority
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Accept the peer with this fingerprint, as `fountain id` prints it there (may be given several times)
    #[arg(long, value_name = "FINGERPRINT", conflicts_with_all = ["client_ca", "insecure"])]
    pub(crate) client: Vec<Fingerprint>,
    /// Accept only peers with a certificate of an authority in this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) client_ca: Option<PathBuf>,
    /// No encryption, and every peer is accepted: for experiments on a closed network only
    #[arg(long, conflicts_with_all = ["cert", "key"])]
    pub(crate) insecure: bool,
}

/// Limits of connections.
#[derive(Debug, clap::Args)]
pub(crate) struct MostConnections {
    /// Maximum number of connections at a time
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(crate) max_connections: usize,
    /// Maximum number of connections at a time from one address (IPv6: from one network of 64 bits)
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) max_connections_per_address: usize,
}

impl MostConnections {
    pub(crate) fn limits(&self, memory_bytes: usize) -> Limits {
        Limits {
            connections: self.max_connections,
            connections_of_an_address: self.max_connections_per_address,
            memory_bytes,
            ..Limits::default()
        }
    }
}

/// Limits of a listening end.
#[derive(Debug, clap::Args)]
pub(crate) struct Most {
    #[command(flatten)]
    pub(crate) connections: MostConnections,
    /// Maximum number of files open at a time for all connections, shared among addresses as the memory is
    #[arg(long, value_name = "N", default_value_t = 16_384)]
    pub(crate) max_files: usize,
}

impl Most {
    pub(crate) fn limits(&self, memory_bytes: usize) -> Limits {
        Limits { files: self.max_files, ..self.connections.limits(memory_bytes) }
    }
}

/// The peers that a connecting end trusts, and its own identity.
#[derive(Debug, clap::Args)]
pub(crate) struct Trust {
    /// Trust hosts that are not known with the certificate that they show, and remember it; without this, they are asked
    /// about on the terminal. One that shows another certificate than before is refused all the same
    #[arg(long, conflicts_with_all = ["fingerprint", "ca", "insecure"])]
    pub(crate) accept_new: bool,
    /// Trust the peer whose certificate has this fingerprint (may be given several times)
    #[arg(long, value_name = "FINGERPRINT", conflicts_with_all = ["ca", "insecure"])]
    pub(crate) fingerprint: Vec<Fingerprint>,
    /// Trust peers with a certificate of an authority in this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) ca: Option<PathBuf>,
    /// Own certificate chain (PEM), instead of the identity of `fountain id`
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "insecure")]
    pub(crate) cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// No encryption, and the peer is not authenticated: for experiments on a closed network only
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// Fetch files from one or many servers at once.
///
/// A source is HOST:PATH or HOST:PORT/PATH. Several hosts with copies of a file are separated by commas, and share the
/// work: HOST,HOST:PORT/PATH. After an interruption, run the same command again: the fetch resumes where it stopped.
#[derive(Debug, clap::Args)]
pub(crate) struct Fetch {
    /// What to fetch: HOST:PATH, HOST:PORT/PATH or HOST,HOST/PATH
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<Target>,
    /// The directory for the fetched files; of a single file, DIR/, its new name, or "-" for standard output: messages go to
    /// standard error then
    #[arg(short, long, value_name = "DIR|FILE|-", default_value = ".")]
    pub(crate) output: PathBuf,
    /// Fetch directories with everything below them
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Discard the received data: for measurements
    #[arg(long, conflicts_with_all = ["output", "recursive", "hash"])]
    pub(crate) discard: bool,
    /// Fetch everything N times; a round begins when the last one is complete (only with --discard)
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
    /// Bytes of a symbol, or "mtu": as many as the path carries, up to an Ethernet frame
    #[arg(long, value_name = "N|mtu", default_value = "mtu")]
    pub(crate) symbol_bytes: SymbolBytes,
    /// Symbols of a block: more are more efficient, fewer need less memory and are complete sooner
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=8192))]
    pub(crate) block_symbols: u16,
    /// How coded symbols choose their neighbours
    #[arg(long, value_enum, default_value_t = Draw::Dealt)]
    pub(crate) draw: Draw,
    /// The factor c of the robust soliton distribution (0.01 to 2): how many coded symbols have few neighbours
    #[arg(long, value_name = "C", default_value_t = proto::coding::PAPER_C)]
    pub(crate) soliton_c: f64,
    /// The failure probability delta of the robust soliton distribution (0.1 to 1)
    #[arg(long, value_name = "DELTA", default_value_t = proto::coding::PAPER_DELTA)]
    pub(crate) soliton_delta: f64,
    /// How blocks are decoded
    #[arg(long, value_enum, default_value_t = Decoder::Complete)]
    pub(crate) decoder: Decoder,
    /// What limits the data in flight from all servers: this client's credits, or only each server's TFRC, as in the paper
    #[arg(long, value_enum, default_value_t = Pacing::Client)]
    pub(crate) pacing: Pacing,
    /// Bytes on the wire that may be in flight to this client from all servers together; by default at least 40 KiB, and up to what the path is measured to hold
    #[arg(long, value_name = "BYTES")]
    pub(crate) window: Option<usize>,
    /// Never fetch faster than this from all servers together, in bit/s of whole Ethernet frames: 100M, 2.5G
    #[arg(long, value_name = "BIT/S", value_parser = limit)]
    pub(crate) limit: Option<f64>,
    #[command(flatten)]
    pub(crate) select: Select,
    /// Say what would be fetched, and what of it is there already, and fetch nothing
    #[arg(long, conflicts_with_all = ["discard", "hash"])]
    pub(crate) dry_run: bool,
    /// Keep trying for this time to reach servers that are gone
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub(crate) retry: f64,
    /// A server that sends nothing for this time is gone
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) silence: f64,
    /// Print progress and the result as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Receive files from any number of senders, over DFCP.
///
/// Who may send is said by --client, --client-ca or --anyone. Senders recognize the receiver by its fingerprint, which it
/// prints, or by the authority of its --cert. After an interruption, the transfer resumes where it stopped when the
/// sender connects again. Files that are there already are not replaced, unless --overwrite says so. Symbolic links below
/// the directory are not followed.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Recv {
    /// The directory for the received files
    #[arg(required_unless_present = "config")]
    pub(crate) directory: Option<PathBuf>,
    /// A file of TOML with options and the directory, as in: directory = "/srv/inbox", client = ["…", "…"], overwrite = true.
    /// What is on the command line prevails
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The address to listen on (UDP); port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:4870")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) identity: Identity,
    /// Accept files from everyone who reaches this port
    #[arg(long, conflicts_with_all = ["client", "client_ca"])]
    pub(crate) anyone: bool,
    /// Refuse files that would leave less than this free on the file system
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    pub(crate) keep_free: u64,
    /// Refuse files beyond this many bytes in all, of all senders, until it exits; a file that is offered again counts once
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_total: Option<u64>,
    /// Replace files that are there already with files of the same name that senders offer
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Discard the received data: for measurements
    #[arg(long)]
    pub(crate) discard: bool,
    /// Only determine when a block could be decoded, and do not decode it: to measure the cost of decoding
    #[arg(long, requires = "discard")]
    pub(crate) no_decode: bool,
    /// Exit when the first sender that offered something has disconnected, with status 0 if all of it is complete
    #[arg(long)]
    pub(crate) once: bool,
    /// Bytes of blocks that one sender may have in flight
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    pub(crate) window: u64,
    /// Bytes that all senders together may make the receiver hold, beside 160 MiB for the process; those of one address at
    /// most an eighth of what the others leave for blocks, and as much for the rest
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    pub(crate) memory: usize,
    /// Ask senders to be no faster than this together, in bit/s of whole Ethernet frames: 100M, 2.5G. Each gets an equal part
    #[arg(long, value_name = "BIT/S", value_parser = limit)]
    pub(crate) limit: Option<f64>,
    /// A sender that sends nothing for this time, while its files are incomplete, is gone
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
/// DFCP has no congestion control, so it needs a source of its rate: --rate-from, --rate or --tfrc. --rate-from announces
/// the flow to the controller of the fabric, follows its share, and withdraws the flow at the end. While the controller is
/// gone, TFRC's rate is used. After an interruption, the same command resumes where it stopped.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("source of the rate").args(["rate_from", "rate", "tfrc"]))]
pub(crate) struct Send {
    /// HOST or HOST:PORT
    #[arg(value_name = "RECEIVER", value_parser = receiver)]
    pub(crate) to: Host,
    /// What to send: files, or directories with everything below them; "-" is standard input, with --name
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// The name at the receiver of what comes from standard input. It is kept in a file of the temporary directory
    /// ($TMPDIR) first, of which a part stays free
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The controller's HTTP API, which sets the rate
    #[arg(long, value_name = "URL", requires = "token_file")]
    pub(crate) rate_from: Option<String>,
    /// A file with a token with the scopes read and announce (weir-controller token)
    #[arg(long, value_name = "FILE", requires = "rate_from")]
    pub(crate) token_file: Option<PathBuf>,
    /// The authority that issued the controller's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "rate_from")]
    pub(crate) rate_ca: Option<PathBuf>,
    /// The DSCP of sent packets, by which switches recognize them; by default, the controller's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=63))]
    pub(crate) dscp: Option<u8>,
    /// The flow's name at the controller; by default, a name is generated
    #[arg(long, value_name = "NAME", requires = "rate_from")]
    pub(crate) flow: Option<String>,
    /// The controller's rate is valid for this time, unless the controller confirms it
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub(crate) expiry: f64,
    /// Send at this fixed rate, in bit/s of whole Ethernet frames, whatever other traffic is on the path
    #[arg(long, value_name = "BIT/S", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Send at the rate of TFRC, as LTTP does (RFC 5348)
    #[arg(long)]
    pub(crate) tfrc: bool,
    /// Use at least this rate if the controller's rate is lower
    #[arg(long, value_name = "BIT/S", value_parser = rate)]
    pub(crate) floor: Option<f64>,
    /// Never send faster than this, whatever the source of the rate, in bit/s of whole Ethernet frames: 100M, 2.5G
    #[arg(long, visible_alias = "ceiling", value_name = "BIT/S", value_parser = limit)]
    pub(crate) limit: Option<f64>,
    #[command(flatten)]
    pub(crate) select: Select,
    /// Say what would be sent, and send nothing; the receiver is not asked what it has
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) trust: Trust,
    /// Bytes of a symbol, or "mtu": as many as the path carries, up to an Ethernet frame
    #[arg(long, value_name = "N|mtu", default_value = "mtu")]
    pub(crate) symbol_bytes: SymbolBytes,
    /// Symbols of a block: more are more efficient, fewer need less memory and are complete sooner
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=8192))]
    pub(crate) block_symbols: u16,
    /// The code of the blocks
    #[arg(long, value_enum, default_value_t = Code::Raptor)]
    pub(crate) code: Code,
    /// Blocks of the sliding window; by default, as many as the path holds
    #[arg(long, value_name = "N")]
    pub(crate) window: Option<usize>,
    /// Symbols to send in excess, in percent of the needed ones: for receivers that cannot report what they need
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    pub(crate) redundancy: f64,
    /// Send symbols of a block until its acknowledgement arrives, instead of until they are expected to be enough
    #[arg(long)]
    pub(crate) no_early_stop: bool,
    /// Send every block once and do not wait for acknowledgements: loss beyond the redundancy is not repaired
    #[arg(long)]
    pub(crate) no_acks: bool,
    /// Do not ask switches for marks of congestion (ECN, RFC 3168), which are asked for while the rate is TFRC's
    #[arg(long)]
    pub(crate) no_ecn: bool,
    /// Send unencoded bytes of the first block instead of every block's symbols: to measure the cost of encoding. The
    /// receiver must run with --no-decode
    #[arg(long)]
    pub(crate) no_encode: bool,
    /// Keep trying for this time to reach a receiver that is gone
    #[arg(long, value_name = "SECONDS", default_value_t = 20.0)]
    pub(crate) retry: f64,
    /// A receiver that sends nothing for this time is gone
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(crate) silence: f64,
    /// Print progress and the result as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

fn host_at_any_port(text: &str) -> Result<Host, String> {
    Host::with_port(text, 0)
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
        .ok_or_else(|| format!("{text:?} is not a rate; write bit/s, e.g. 95M or 2.5G"))
}

/// A cap of a rate: high enough for a datagram before a peer that hears nothing gives up.
fn limit(text: &str) -> Result<f64, String> {
    const LEAST_BPS: f64 = 64e3;
    rate(text).and_then(|bps| if bps < LEAST_BPS { Err("write at least 64k".to_owned()) } else { Ok(bps) })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Code {
    /// Weir's Raptor code
    Raptor,
    /// An LT code with dealt neighbours, as in LTTP
    Lt,
    /// RaptorQ (RFC 6330) of the crate raptorq: for comparison
    #[cfg(feature = "raptorq")]
    Raptorq,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Draw {
    /// Dealt from shuffled decks: needs fewer symbols
    Dealt,
    /// Drawn independently, as in the paper
    Independent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Decoder {
    /// As soon as the symbols determine the block
    Complete,
    /// By peeling alone, Algorithm 2 of the LTTP paper: needs a third more symbols
    Peeling,
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
            _ => Err(format!("write \"mtu\", or a number from {} to {}", bounds.start(), bounds.end())),
        }
    }
}
