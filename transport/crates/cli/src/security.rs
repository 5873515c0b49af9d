//! Identities and trust, from the options of the command line.

use std::sync::Arc;

use udp::tls::{self, Fingerprint};
use udp::{TlsClientConfig, TlsServerConfig};

use crate::args::{Identity, Trust};
use crate::telling::complain;
use crate::{Failure, identity};

/// TLS for a connecting end; `None` with `--insecure`.
pub(crate) fn client(trust: &Trust) -> Result<Option<Arc<TlsClientConfig>>, Failure> {
    if trust.insecure {
        return Ok(None);
    }
    let believed = match (&trust.ca, trust.fingerprint.is_empty()) {
        (Some(file), _) => tls::Trust::Authorities(file.clone()),
        (None, false) => tls::Trust::Fingerprints(trust.fingerprint.clone()),
        (None, true) => {
            return Err(Failure::usage(
                "give the peer's --fingerprint (printed by `fountain serve` and `fountain recv`), --ca FILE, or --insecure \
                 for experiments",
            ));
        }
    };
    let identity = identity::of(trust.cert.as_deref(), trust.key.as_deref())?;
    tls::client(&believed, Some(identity)).map(Some).map_err(Failure::new)
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
