//! The command line of what goes over ATP.

use std::path::PathBuf;

use udp::tls::Fingerprint;

use super::{Identity, MostConnections, Trust};
use crate::target::{AtpUrl, DEFAULT_ATP_PORT, Host, Place};

/// Carry TCP connections over ATP between two hosts.
///
/// ATP spares short requests the timeouts that TCP meets where packets are lost. Programs stay as
/// they are: clients connect to a proxy on their own host, that one to a proxy on the server's
/// host, and that one to the server.
///
///   Beside the server:    fountain atp-proxy atp://0.0.0.0:4880 tcp://localhost:6379
///   Beside the clients:   fountain atp-proxy tcp://localhost:6379 atp://server:4880
///
/// All TCP connections of a proxy are streams of one ATP connection, which is kept open. It is
/// always encrypted; the proxies know each other as `serve` and `fetch` do: by fingerprints, an
/// authority, or trust on first use.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true, verbatim_doc_comment)]
pub(crate) struct AtpProxy {
    /// Where connections come from: tcp://ADDRESS:PORT or atp://ADDRESS:PORT
    #[arg(value_name = "FROM")]
    pub(crate) from: Place,
    /// Where they go: atp://HOST:PORT or tcp://HOST:PORT
    #[arg(value_name = "TO")]
    pub(crate) to: Place,
    #[command(flatten)]
    pub(crate) peers: AtpPeers,
    #[command(flatten)]
    pub(crate) atp: AtpLimits,
    /// Streams that the other proxy may have open at a time: each TCP connection is one
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_streams: u64,
    /// Keep trying for this time to reach a server of TCP, or a proxy, that is gone
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub(crate) retry: f64,
    /// Print counters this often
    #[arg(long, value_name = "SECONDS")]
    pub(crate) stats: Option<f64>,
    /// Print events as lines of JSON, of each TCP connection two
    #[arg(long)]
    pub(crate) json: bool,
}

/// Serve the files of a directory over ATP.
///
/// Clients speak HTTP/1.1 with it, each on a stream of ATP: GET and HEAD, ranges, If-None-Match. `atp-get` is one of them; through
/// `atp-proxy` any other is, as curl. Clients recognize the server as those of `serve` do.
///
///   A server:               fountain atp-serve /srv/data
///   A client:               fountain atp-get atp://server/reports/2026.csv
///   Any client of HTTP:     fountain atp-proxy tcp://localhost:8080 atp://server
///                           curl http://localhost:8080/reports/2026.csv
#[derive(Debug, clap::Args)]
#[command(args_override_self = true, verbatim_doc_comment)]
pub(crate) struct AtpServe {
    /// The directory to serve: all regular files below it, but nothing outside of it that links lead to
    pub(crate) directory: Option<PathBuf>,
    /// The address to listen on; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:4880", value_parser = atp_host)]
    pub(crate) listen: Host,
    #[command(flatten)]
    pub(crate) peers: AtpPeers,
    #[command(flatten)]
    pub(crate) atp: AtpLimits,
    /// Requests that a client may have open at a time
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_requests: u64,
    /// Print events as lines of JSON, one of each request
    #[arg(long)]
    pub(crate) json: bool,
}

/// Fetch files over ATP, all at once.
///
/// From servers as `atp-serve`: each file is asked for by HTTP/1.1 on a stream of its own. Files that are there already are replaced,
/// once the new one is whole.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct AtpGet {
    /// What to fetch: atp://HOST/PATH or atp://HOST:PORT/PATH
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<AtpUrl>,
    /// The directory for the fetched files; of a single file, DIR/, its new name, or "-" for standard output: messages go to
    /// standard error then
    #[arg(short, long, value_name = "DIR|FILE|-", default_value = ".")]
    pub(crate) output: PathBuf,
    /// Discard the received data: for measurements
    #[arg(long, conflicts_with = "output")]
    pub(crate) discard: bool,
    /// Fetch everything N times; a round begins when the last one is complete (only with --discard)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) peers: AtpPeers,
    #[command(flatten)]
    pub(crate) atp: AtpLimits,
    /// Keep trying for this time to reach a server
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub(crate) retry: f64,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print events as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn atp_host(text: &str) -> Result<Host, String> {
    Host::with_port(text, DEFAULT_ATP_PORT)
}

/// Who the ends of ATP's connections are.
#[derive(Debug, clap::Args)]
pub(crate) struct AtpPeers {
    /// Trust a server that is not known with the certificate that it shows, and remember it; without this, it is asked about on the
    /// terminal. One that shows another certificate than before is refused all the same
    #[arg(long, conflicts_with_all = ["fingerprint", "ca"])]
    pub(crate) accept_new: bool,
    /// Trust the server whose certificate has this fingerprint (may be given several times)
    #[arg(long, value_name = "FINGERPRINT", conflicts_with = "ca")]
    pub(crate) fingerprint: Vec<Fingerprint>,
    /// Trust servers with a certificate of an authority in this file (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Listening: accept the client with this fingerprint, as `fountain id` prints it there (may be given several times); otherwise everyone
    #[arg(long, value_name = "FINGERPRINT", conflicts_with = "client_ca")]
    pub(crate) client: Vec<Fingerprint>,
    /// Listening: accept only clients with a certificate of an authority in this file (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca: Option<PathBuf>,
    /// Own certificate chain (PEM), instead of the identity of `fountain id`
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
}

impl AtpPeers {
    pub(crate) fn trust(&self) -> Trust {
        let AtpPeers { accept_new, fingerprint, ca, cert, key, .. } = self;
        Trust {
            accept_new: *accept_new,
            fingerprint: fingerprint.clone(),
            ca: ca.clone(),
            cert: cert.clone(),
            key: key.clone(),
            insecure: false,
        }
    }

    pub(crate) fn identity(&self) -> Identity {
        let AtpPeers { client, client_ca, cert, key, .. } = self;
        Identity {
            cert: cert.clone(),
            key: key.clone(),
            client: client.clone(),
            client_ca: client_ca.clone(),
            insecure: false,
        }
    }
}

/// How ATP's connections behave, and what they may cost.
#[derive(Debug, clap::Args)]
pub(crate) struct AtpLimits {
    #[command(flatten)]
    pub(crate) connections: MostConnections,
    /// Bytes that all connections together may make it hold, beside 160 MiB for the process; those of one address at most an eighth of
    /// what the others leave
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    pub(crate) memory: usize,
    /// A peer that says nothing for this time is gone
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub(crate) silence: f64,
    /// Send no parity: what is lost has to be asked for
    #[arg(long)]
    pub(crate) no_parity: bool,
    /// Do not ask switches for marks of congestion (ECN, RFC 3168)
    #[arg(long)]
    pub(crate) no_ecn: bool,
}
