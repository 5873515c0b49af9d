//! Peers by the thousand that do their worst: `fountain serve` and `fountain recv` stay within the memory, the files and the
//! disk that they state, and serve who behaves.
//!
//! `WEIR_HOSTILE_PEERS=4096` has as many of them as there may be connections: `make hostile-transport`.

#[path = "../common/mod.rs"]
mod common;
mod dfcp;
mod lttp;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Folder, Said, Server, fountain};
use serde_json::Value;
use udp::rustls::ClientConfig;

const OF_AN_ADDRESS: usize = 256;

/// How many there are, from how many addresses, and the memory that is to do for them.
struct Crowd {
    peers: usize,
    hosts: usize,
    memory: usize,
    files: usize,
}

fn crowd() -> Crowd {
    match std::env::var("WEIR_HOSTILE_PEERS") {
        Ok(peers) => {
            let peers = peers.parse().unwrap();
            Crowd { peers, hosts: peers.div_ceil(OF_AN_ADDRESS), memory: 1 << 30, files: 8_192 }
        }
        Err(_) => Crowd { peers: 128, hosts: 4, memory: 64 << 20, files: 400 },
    }
}

impl Crowd {
    fn arguments(&self) -> Vec<String> {
        // One more, who behaves.
        let connections = self.peers + 1;
        let numbers = [("memory", self.memory), ("max-files", self.files), ("max-connections", connections)];
        numbers.iter().flat_map(|(name, value)| [format!("--{name}"), value.to_string()]).collect()
    }

    /// Where the peer with this number comes from.
    fn address(&self, peer: usize) -> IpAddr {
        Ipv4Addr::new(127, 0, 1, 1 + (peer % self.hosts) as u8).into()
    }
}

fn trust(server: &Server) -> Arc<ClientConfig> {
    let fingerprint = server.fingerprint.as_ref().unwrap().parse().unwrap();
    udp::tls::client(&udp::tls::Trust::Fingerprints(vec![fingerprint]), None).unwrap()
}

/// What belongs to no connection.
fn litter(socket: &UdpSocket, to: SocketAddr, round: u64) {
    for n in 0..64_u64 {
        let mut garbage = vec![(round ^ n) as u8; 20 + 20 * n as usize];
        garbage[0] = 0x10 | (n % 8) as u8;
        garbage[1..9].copy_from_slice(&(round * 64 + n).to_be_bytes());
        let _ = socket.send_to(&garbage, to);
    }
}

/// Lets `turn` do its worst until `good` has ended, and for a while at least.
fn endure(to: SocketAddr, mut good: Child, mut turn: impl FnMut(u64)) -> Said {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let begun = Instant::now();
    let mut round = 0;
    loop {
        litter(&socket, to, round);
        turn(round);
        round += 1;
        let over = good.try_wait().unwrap().is_some() && round >= 40;
        if over {
            return Said::of(&good.wait_with_output().unwrap());
        }
        assert!(begun.elapsed() < Duration::from_secs(1_200), "the good transfer does not end");
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Checks what a server held against what it has said it may.
fn within_bounds(server: Server, crowd: &Crowd) -> Value {
    let bounds = server.told["bounds"].clone();
    let resident = server.peak_resident_bytes();
    let did = server.stop();
    println!("{bounds} {did} {resident} bytes in memory");
    assert_eq!(number(&bounds["memory"]), crowd.memory as u64);
    assert!(resident <= number(&bounds["resident"]), "{resident} bytes in memory: {did}");
    assert!(number(&did["peak_bytes"]) <= number(&bounds["memory"]));
    assert!(number(&did["peak_files"]) <= number(&bounds["files"]));
    // They did press against the bounds.
    assert!(number(&did["peak_bytes"]) >= number(&bounds["memory"]) / 4, "{did}");
    assert!(number(&did["peak_files"]) >= number(&bounds["files"]) / 4, "{did}");
    did
}

/// Bytes on the disk below a directory.
fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let bytes = |entry: std::fs::DirEntry| {
        let metadata = entry.metadata().unwrap();
        512 * metadata.blocks() + if metadata.is_dir() { disk_bytes(&entry.path()) } else { 0 }
    };
    entries.map(bytes).sum()
}

#[test]
fn a_receiver_stays_within_its_bounds_whatever_its_senders_do() {
    let crowd = crowd();
    let (sent, into) = (Folder::new(), Folder::new());
    sent.put("good", 20_000_000);
    let arguments = crowd.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let receiver = Server::receive_at("127.0.0.1:0", into.path(), &arguments);
    let (to, tls) = (receiver.address.parse().unwrap(), trust(&receiver));
    let worst = |n: usize| dfcp::ALL[n / crowd.hosts % dfcp::ALL.len()];
    let new = |n: usize| dfcp::Peer::new(worst(n), crowd.address(n), to, &tls, n as u32);
    let mut peers: Vec<_> = (0..crowd.peers).map(new).collect();
    let good = fountain(&["send", "--json", &receiver.address, sent.path().join("good").to_str().unwrap()])
        .args(["--fingerprint", receiver.fingerprint.as_ref().unwrap(), "--tfrc", "--retry", "600"])
        .spawn()
        .unwrap();
    endure(to, good, |_| peers.iter_mut().for_each(dfcp::Peer::turn)).succeeded();
    assert_eq!(std::fs::read(into.path().join("good")).unwrap(), sent.files()["good"]);
    let disk = disk_bytes(into.path());
    let did = within_bounds(receiver, &crowd);
    assert!(number(&did["connections"]) as usize > crowd.peers, "{did}");
    // Besides the good file there are names of what never came.
    assert!(disk < 20_000_000 + 64_000 * crowd.files as u64, "{disk} bytes on the disk");
}

#[test]
fn a_server_stays_within_its_bounds_whatever_its_clients_do() {
    let crowd = crowd();
    let (served, into) = (Folder::new(), Folder::new());
    served.put("good", 20_000_000).put("large", 50_000_000);
    for n in 0..2_000 {
        served.put(&format!("many/{}{n}", "n".repeat(100)), 0);
    }
    let arguments = crowd.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let server = Server::start(served.path(), &arguments);
    let (to, tls) = (server.address.parse().unwrap(), trust(&server));
    let worst = |n: usize| lttp::ALL[n / crowd.hosts % lttp::ALL.len()];
    let new = |n: usize| lttp::Peer::new(worst(n), crowd.address(n), to, &tls);
    let mut peers: Vec<_> = (0..crowd.peers).map(new).collect();
    let good = fountain(&["fetch", "--json", "-o", into.path().to_str().unwrap(), &server.source("good")])
        .args(["--fingerprint", server.fingerprint.as_ref().unwrap(), "--retry", "600"])
        .spawn()
        .unwrap();
    let turns = |_| {
        for (n, peer) in peers.iter_mut().enumerate() {
            if !peer.as_mut().is_some_and(lttp::Peer::turn) {
                *peer = new(n);
            }
        }
    };
    endure(to, good, turns).succeeded();
    assert_eq!(std::fs::read(into.path().join("good")).unwrap(), served.files()["good"]);
    within_bounds(server, &crowd);
}
