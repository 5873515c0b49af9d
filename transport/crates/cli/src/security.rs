//! Who is who, from the options of the command line.

use std::sync::Arc;

use udp::tls::{self, Fingerprint};
use udp::{TlsClientConfig, TlsServerConfig};

use crate::Failure;
use crate::args::{Identity, Trust};

/// What who connects needs; `None` if nothing is to be protected.
pub(crate) fn client(trust: &Trust) -> Result<Option<Arc<TlsClientConfig>>, Failure> {
    if trust.insecure {
        return Ok(None);
    }
    let believed = match (&trust.ca, trust.fingerprint.is_empty()) {
        (Some(file), _) => tls::Trust::Authorities(file.clone()),
        (None, false) => tls::Trust::Fingerprints(trust.fingerprint.clone()),
        (None, true) => {
            return Err(Failure::usage(
                "who is to be believed? --fingerprint (as `fountain serve` and `fountain recv` print it), --ca FILE, or \
                 --insecure for experiments",
            ));
        }
    };
    let identity = match (&trust.cert, &trust.key) {
        (Some(cert), Some(key)) => Some(tls::Identity::load(cert, key).map_err(Failure::new)?),
        _ => None,
    };
    tls::client(&believed, identity).map(Some).map_err(Failure::new)
}

/// What who listens needs, and by what peers know it; `None` if nothing is to be protected.
pub(crate) fn server(identity: &Identity) -> Result<Option<(Arc<TlsServerConfig>, Fingerprint)>, Failure> {
    if identity.insecure {
        eprintln!("fountain: --insecure: nothing is encrypted, and anyone is believed");
        return Ok(None);
    }
    let known = match (&identity.cert, &identity.key) {
        (Some(cert), Some(key)) => tls::Identity::load(cert, key),
        _ => tls::Identity::generate(),
    };
    let known = known.map_err(Failure::new)?;
    let fingerprint = known.fingerprint();
    let config = tls::server(known, identity.client_ca.as_deref()).map_err(Failure::new)?;
    Ok(Some((config, fingerprint)))
}
