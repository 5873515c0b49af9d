//! Identities and trust, from the options of the command line.

use std::sync::Arc;

use udp::tls::{self, Fingerprint, KnownPeers};
use udp::{TlsClientConfig, TlsServerConfig};

use crate::args::{Identity, Trust};
use crate::console::complain;
use crate::first_use::{Meeting, introduce};
use crate::known::Known;
use crate::target::Host;
use crate::{Failure, identity};

/// How a connecting end knows its peers.
pub(crate) struct Security {
    /// `None` with `--insecure`.
    pub(crate) tls: Option<Arc<TlsClientConfig>>,
    /// Peers that were met before, where neither `--fingerprint` nor `--ca` says whom to trust.
    known: Option<(Arc<KnownPeers>, Vec<Met>)>,
}

/// A host, and what it is known by.
type Met = (Host, Fingerprint);

/// Security for connections to these hosts. One that was never met is asked about, or accepted with `--accept-new`.
pub(crate) fn client(trust: &Trust, hosts: &[&Host], meeting: &Meeting) -> Result<Security, Failure> {
    if trust.insecure {
        return Ok(Security { tls: None, known: None });
    }
    let mut known = None;
    let trusted = match (&trust.ca, trust.fingerprint.is_empty()) {
        (Some(file), _) => tls::Trust::Authorities(file.clone()),
        (None, false) => tls::Trust::Fingerprints(trust.fingerprint.clone()),
        (None, true) => {
            let met = met(hosts, trust.accept_new, meeting)?;
            let by_name = met.iter().map(|(host, fingerprint)| (host.name.as_str(), *fingerprint));
            let peers = Arc::new(KnownPeers::new(by_name));
            known = Some((peers.clone(), met));
            tls::Trust::Known(peers)
        }
    };
    let identity = identity::of(trust.cert.as_deref(), trust.key.as_deref())?;
    let tls = tls::client(&trusted, Some(identity)).map_err(Failure::new)?;
    Ok(Security { tls: Some(tls), known })
}

/// What is known of these hosts, once all are.
fn met(hosts: &[&Host], accept: bool, meeting: &Meeting) -> Result<Vec<Met>, Failure> {
    let file = Known::of_user()?;
    let mut entries = file.entries()?;
    let mut met = Vec::new();
    for host in hosts {
        let asked = host.canonical();
        if !entries.iter().any(|(known, _)| *known == asked) {
            let fingerprint = introduce(host, accept, &entries, meeting)?;
            file.add(host, fingerprint)?;
            complain(&format!("{host} is known from now on ({})", file.path().display()));
            entries.push((asked.clone(), fingerprint));
        }
        let of_it = entries.iter().filter(|(known, _)| *known == asked);
        met.extend(of_it.map(|(_, fingerprint)| (Host::clone(host), *fingerprint)));
    }
    Ok(met)
}

impl Security {
    /// Fails, loudly, if a host has shown another certificate than the one that it is known by.
    pub(crate) fn require_unchanged(&self) -> Result<(), Failure> {
        let Some((peers, met)) = &self.known else { return Ok(()) };
        let changed = met.iter().find_map(|(host, known)| Some((host, known, peers.strange(&host.name)?)));
        let Some((host, known, shown)) = changed else { return Ok(()) };
        complain(&format!("WARNING: {host} IS NOT WHO IT WAS, or somebody is between you and it"));
        complain(&format!("  known fingerprint: {known}"));
        complain(&format!("  shown now:         {shown}"));
        Err(Failure::new(format!(
            "nothing was exchanged with it. Ask who runs {host} whether its identity is new. If it is, run \
             `fountain known --forget {host}` and then this command again"
        )))
    }
}

/// TLS for a listening end, and its fingerprint; `None` with `--insecure`.
pub(crate) fn server(options: &Identity) -> Result<Option<(Arc<TlsServerConfig>, Fingerprint)>, Failure> {
    if options.insecure {
        complain("--insecure: nothing is encrypted, and every peer is accepted");
        return Ok(None);
    }
    let known = identity::of(options.cert.as_deref(), options.key.as_deref())?;
    let fingerprint = known.fingerprint();
    let clients = match (&options.client_ca, options.client.is_empty()) {
        (Some(file), _) => Some(tls::Trust::Authorities(file.clone())),
        (None, false) => Some(tls::Trust::Fingerprints(options.client.clone())),
        (None, true) => None,
    };
    let config = tls::server(known, clients.as_ref()).map_err(Failure::new)?;
    Ok(Some((config, fingerprint)))
}
