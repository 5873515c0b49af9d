//! Who the peers are, and where.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use udp::tls::{self, Fingerprint, Identity, Trust};
use udp::{Over, TlsClientConfig, TlsServerConfig};
use wire::packet::symbol_datagram_bytes;

use crate::error::{Error, Result};

/// Bytes of a symbol: paths that swallow longer datagrams without a word are not rare.
const SYMBOL_BYTES: u16 = 1024;
/// Below this, symbols are not shortened.
const LEAST_SYMBOL_BYTES: u16 = 256;
const UDP_BYTES: usize = 8;

/// What a connecting end believes, and who it is.
#[derive(Default)]
pub(crate) struct Connecting {
    pub(crate) trust: Option<Trust>,
    pub(crate) identity: Option<Identity>,
    pub(crate) insecure: bool,
}

impl Connecting {
    /// TLS; none where it is `insecure`.
    pub(crate) fn tls(self, peer: &str) -> Result<Option<Arc<TlsClientConfig>>> {
        if self.insecure {
            return Ok(None);
        }
        let Some(trust) = self.trust else {
            return Err(Error::Setup(format!(
                "say which {peer} is meant: trust(FINGERPRINT), trust(Trust::Authorities(FILE)), or insecure() for experiments"
            )));
        };
        Ok(Some(tls::client(&trust, self.identity)?))
    }
}

/// Whom a listening end lets in, and who it is.
#[derive(Default)]
pub(crate) struct Listening {
    pub(crate) identity: Option<Identity>,
    pub(crate) clients: Option<Trust>,
    pub(crate) insecure: bool,
}

impl Listening {
    /// TLS, and the own fingerprint; none where it is `insecure`.
    pub(crate) fn tls(self) -> Result<Option<(Arc<TlsServerConfig>, Fingerprint)>> {
        if self.insecure {
            return Ok(None);
        }
        let identity = self.identity.map_or_else(Identity::generate, Ok)?;
        let fingerprint = identity.fingerprint();
        Ok(Some((tls::server(identity, self.clients.as_ref())?, fingerprint)))
    }
}

/// The identity in a PEM file, which holds certificate and key. It is made if there is none; only its owner may read it.
///
/// # Errors
/// The file cannot be read or made, or others may read it.
pub fn identity_at(path: impl AsRef<Path>) -> Result<Identity> {
    let path = path.as_ref();
    if !path.exists() {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let (_, pem) = Identity::generate_pem()?;
        // Only its owner may read a temporary file.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(pem.as_bytes())?;
        match file.persist_noclobber(path) {
            // Another process has been faster.
            Err(e) if e.error.kind() != ErrorKind::AlreadyExists => return Err(e.error.into()),
            _ => {}
        }
    }
    if std::fs::metadata(path)?.mode() & 0o077 != 0 {
        let path = path.display();
        return Err(Error::Setup(format!("{path}: others may read this key: chmod 600 {path}")));
    }
    Ok(Identity::load(path, path)?)
}

/// A peer to connect to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// All of its addresses, the one that the system prefers first.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The name that its certificate has to bear where an authority vouches for it.
    pub(crate) name: String,
}

impl Peer {
    /// The one that is written as `HOST:PORT`.
    pub(crate) fn resolve(peer: &str) -> Result<Self> {
        let cannot = |why: String| Error::Address { name: peer.to_owned(), why };
        let found = peer.to_socket_addrs().map_err(|e| cannot(format!("{e}; write HOST:PORT")))?;
        let addresses: Vec<SocketAddr> = found.collect();
        if addresses.is_empty() {
            return Err(cannot("it has no address".into()));
        }
        let host = peer.rsplit_once(':').map_or(peer, |(host, _)| host);
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        Ok(Peer { addresses, name: host.to_owned() })
    }

    /// The address that answers first. If none does, the one that the system prefers: whoever connects to it says why not.
    pub(crate) fn reach(&self, over: Over, patience: Duration) -> SocketAddr {
        udp::first_to_answer(&self.addresses, over, patience).unwrap_or(self.addresses[0])
    }
}

/// The addresses of these servers that answer first, all looked for at once.
///
/// # Errors
/// The system gives no threads.
pub(crate) fn reach_all(servers: &[Peer], patience: Duration) -> Result<Vec<SocketAddr>> {
    thread::scope(|scope| {
        let look = |server| {
            thread::Builder::new().spawn_scoped(scope, move || Peer::reach(server, Over::Tcp, patience))
        };
        let looking = servers.iter().map(look).collect::<io::Result<Vec<_>>>()?;
        let panicked = |_| Error::Setup("a thread that looks for a server has panicked".into());
        looking.into_iter().map(|looking| looking.join().map_err(panicked)).collect()
    })
}

/// Where to listen.
pub(crate) fn listen_address(address: &str) -> Result<SocketAddr> {
    Peer::resolve(address).map(|peer| peer.addresses[0])
}

/// The longest symbols that all these paths carry, as far as the system knows them.
pub(crate) fn symbol_bytes(peers: impl IntoIterator<Item = SocketAddr>, protected: bool) -> u16 {
    let room = peers.into_iter().filter_map(|peer| {
        // Where there is no way, connecting tells why.
        let mtu = udp::path_mtu(peer).ok()?;
        Some(mtu.saturating_sub(UDP_BYTES + if peer.is_ipv4() { 20 } else { 40 }))
    });
    let room = room.min().unwrap_or(usize::MAX);
    let fits = |bytes: &u16| symbol_datagram_bytes((*bytes).into(), protected) <= room;
    let shorter = (LEAST_SYMBOL_BYTES..=SYMBOL_BYTES).rev().filter(|bytes| bytes % 16 == 0);
    shorter.into_iter().find(fits).unwrap_or(LEAST_SYMBOL_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_and_kept_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/identity.pem");
        let made = identity_at(&path).unwrap().fingerprint();
        assert_eq!(identity_at(&path).unwrap().fingerprint(), made);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let told = identity_at(&path).err().unwrap().to_string();
        assert!(told.contains("chmod 600"), "{told}");
    }

    #[test]
    fn peers_are_written_as_host_and_port() {
        let peer = Peer { addresses: vec!["[::1]:5".parse().unwrap()], name: "::1".into() };
        assert_eq!(Peer::resolve("[::1]:5").unwrap(), peer);
        assert_eq!(Peer::resolve("127.0.0.1:5").unwrap().name, "127.0.0.1");
        let told = Peer::resolve("127.0.0.1").unwrap_err().to_string();
        assert!(told.contains("HOST:PORT"), "{told}");
    }
}
