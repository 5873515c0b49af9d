//! `bench-tun`: TCP between two hosts through an interface of TUN and UDP, and nothing else: beside `fountain acc up`.

use std::net::IpAddr;

use clap::Parser;

/// Carry TCP's packets to one host through TUN and UDP, unchanged and in clear.
#[derive(Debug, Parser)]
struct Args {
    /// This host's address
    #[arg(long)]
    local: IpAddr,
    /// The other one's
    #[arg(long)]
    remote: IpAddr,
    /// The interface's name
    #[arg(long, default_value = "tun%d")]
    device: String,
    /// The port of UDP
    #[arg(long, default_value_t = 4882)]
    port: u16,
}

fn main() -> std::io::Result<()> {
    let Args { local, remote, device, port } = Args::parse();
    udp::tun::plain(local, remote, port, &device, || {
        println!("{{\"event\":\"up\"}}");
    })
}
