//! The command line of TCP-ACC.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

/// Spare TCP timeouts where packets are lost, beneath kernels and programs that stay as they are (TCP-ACC).
///
/// Hosts that run it and share a key send each other, with the packets of TCP, a few coded ones: as many as the losses that they see
/// call for, none where nothing is lost. What is lost is there again before TCP notices. Everyone else gets plain TCP.
///
///   Once:            fountain acc key acc.key                         (copied to all hosts, readable by root alone)
///   On each host:    fountain acc up --key acc.key --to 10.0.0.0/8
///   To see:          fountain acc stats
///
/// Where nothing is lost it spares nothing, and requests take longer by two ways through this program: 40 us each, which is
/// much where a request takes 60.
///
/// To try it without root, in a network of your own:
///   unshare --user --map-root-user --net fountain acc up --key acc.key --peer 192.0.2.1
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Acc {
    #[command(subcommand)]
    pub(crate) command: AccCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccCommand {
    Up(Box<AccUp>),
    Link(Box<AccLink>),
    Stats(AccStats),
    Key(AccKey),
}

/// Run the layer on this host, until it is interrupted.
///
/// It makes an interface, a rule and a table of routes: TCP's packets to hosts that are known to run it go through the interface, and out again
/// as UDP. Hosts are found by probes under the shared key. All of it goes away when the command ends, however
/// that is; connections go on without it, and when it begins, connections that are there go on with it.
///
/// What goes between peers is encrypted and authenticated, unless --clear says otherwise. Whoever has the key can speak for any host.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct AccUp {
    /// A file of TOML with options, as in: key = "/etc/fountain/acc.key", to = ["10.0.0.0/8"]. What is on the command line prevails
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A host that runs the layer, or will (may be given several times)
    #[arg(long = "peer", value_name = "ADDRESS", required_unless_present = "to")]
    pub(crate) peers: Vec<IpAddr>,
    /// Hosts that may run it: each is asked when a connection is opened to it (may be given several times)
    #[arg(long, value_name = "PREFIX")]
    pub(crate) to: Vec<ipnet::IpNet>,
    /// The longest packet of IP that the network carries; paths that are known to carry less are heeded
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u16).range(1280..))]
    pub(crate) mtu: u16,
    /// The table of routes, and the place of the rule that leads there
    #[arg(long, value_name = "NUMBER", default_value_t = 4881, value_parser = clap::value_parser!(u32).range(1..32766))]
    pub(crate) table: u32,
    /// The controller's HTTP API: only peers are sent to through the layer to or from which it sees packets lost
    #[arg(long, value_name = "URL", requires = "token_file")]
    pub(crate) losses_from: Option<String>,
    /// A file with a token with the scope read (weir-controller token)
    #[arg(long, value_name = "FILE", requires = "losses_from")]
    pub(crate) token_file: Option<PathBuf>,
    /// The authority that issued the controller's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "losses_from")]
    pub(crate) losses_ca: Option<PathBuf>,
    /// The share of a path's packets that has to be lost for a peer to be sent to through the layer
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, requires = "losses_from")]
    pub(crate) on_loss: f64,
    /// The share that may be lost for it to be sent to without the layer again
    #[arg(long, value_name = "SHARE", default_value_t = 0.0002, requires = "losses_from")]
    pub(crate) off_loss: f64,
    /// For how long no more than that must have been lost
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, requires = "losses_from")]
    pub(crate) hold: f64,
    #[command(flatten)]
    pub(crate) layer: AccLayer,
}

/// Make a port of a switch that is a link, with the layer on it, to another switch that has one. A prototype.
///
/// It makes an interface (TAP) to be added to the switch. Frames that leave by it come in by the other switch's: TCP's are protected, others
/// are carried. So hosts need nothing, and it pays for connections that the switch sends this way because their usual one loses packets.
/// The port has no carrier, and is down to the switch, as long as the other end is not there.
///
///   On each of the two:   fountain acc link --key acc.key --other 192.0.2.2 --device acc0
///                         ovs-vsctl add-port br0 acc0
///
/// Datagrams to the other end must not go out by this port: let the switch send TCP alone this way. Frames are 80 bytes longer
/// between the two (100 in IPv6), so what is between them has to carry packets of 1,600 bytes for hosts to have their 1,500.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true, verbatim_doc_comment)]
pub(crate) struct AccLink {
    /// The address of the other end, which need not be there yet
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) other: IpAddr,
    /// The longest packet of IP that the network between both ends carries
    #[arg(long, value_name = "BYTES", default_value_t = 1600, value_parser = clap::value_parser!(u16).range(1280..))]
    pub(crate) mtu: u16,
    #[command(flatten)]
    pub(crate) layer: AccLayer,
}

/// What the layer is like, for a host or a link.
#[derive(Debug, clap::Args)]
pub(crate) struct AccLayer {
    /// The key that all hosts share, as `fountain acc key` makes it
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// The interface's name; %d is a number
    #[arg(long, value_name = "NAME", default_value = "acc%d")]
    pub(crate) device: String,
    /// The port of UDP, the same at all hosts
    #[arg(long, value_name = "PORT", default_value_t = proto::acc::DEFAULT_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// What is sent beside TCP's packets
    #[arg(long, value_enum, default_value_t = Coding::Acc)]
    pub(crate) coding: Coding,
    /// V: what a timeout costs, in coded packets times Q (acc, paper)
    #[arg(long, value_name = "V", default_value_t = Policy::default().timeout_cost)]
    pub(crate) timeout_cost: f64,
    /// Lambda: coded packets in a round trip of a flow that cost nothing; by default 4 for paper, 0 for acc
    #[arg(long, value_name = "PACKETS")]
    pub(crate) free_packets: Option<f64>,
    /// Coded packets that cost nothing, for each packet of TCP; by default 0.1 for acc, 0 for paper
    #[arg(long, value_name = "SHARE")]
    pub(crate) free_share: Option<f64>,
    /// The least that a coded packet costs; by default 10 for acc, 0 for paper
    #[arg(long, value_name = "Q")]
    pub(crate) least_queue: Option<f64>,
    /// S: how far the cost of a coded packet may grow (acc, paper)
    #[arg(long, value_name = "S", default_value_t = Policy::default().longest_queue)]
    pub(crate) longest_queue: f64,
    /// C_max: coded packets at a time (acc, paper)
    #[arg(long, value_name = "PACKETS", default_value_t = Policy::default().most_packets, value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(crate) most_coded: u32,
    /// Packets that follow on a lost one are kept back for so long at most; usually it is one and a half round trips
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 10.0)]
    pub(crate) patience: f64,
    /// Bytes that peers may make the layer hold at most
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    pub(crate) memory: usize,
    /// Leave TCP's packets in clear, as they are without the layer, and authenticate only its own headers: a fifth less work
    #[arg(long)]
    pub(crate) clear: bool,
    /// Where `stats` is answered; by default /run/fountain/acc-DEVICE.sock, or the same below
    /// $XDG_RUNTIME_DIR where that is not allowed
    #[arg(long, value_name = "FILE")]
    pub(crate) control: Option<PathBuf>,
    /// Serve metrics for Prometheus here: http://ADDRESS:PORT/metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Print counters this often
    #[arg(long, value_name = "SECONDS")]
    pub(crate) stats: Option<f64>,
    /// Print events as lines of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

use proto::acc::redundancy::Policy;

/// What is sent beside TCP's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Coding {
    /// As many coded packets as pay (TCP-ACC, as Weir has it)
    Acc,
    /// The same, as the paper has it
    Paper,
    /// Nothing
    Off,
    /// The last packet of each window three times more (GIP)
    Gip,
    /// One coded packet a window (Corrective)
    Ccr,
}

/// Show peers and flows of a layer that runs on this host.
#[derive(Debug, clap::Args)]
pub(crate) struct AccStats {
    /// The interface, if there are several
    #[arg(long, value_name = "NAME", default_value = "acc0")]
    pub(crate) device: String,
    /// Where it answers, if that is not the usual place
    #[arg(long, value_name = "FILE")]
    pub(crate) control: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make a key for hosts to share.
#[derive(Debug, clap::Args)]
pub(crate) struct AccKey {
    /// The file, which must not be there yet
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
