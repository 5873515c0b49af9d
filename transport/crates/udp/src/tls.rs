//! Who is who: TLS 1.3 for control channels, by authority or by fingerprint.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use proto::pinned::Pinned;
use proto::protect::cryptography;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, version::TLS13};
use thiserror::Error;

/// What is wrong with keys and certificates.
#[derive(Debug, Error)]
pub enum Error {
    /// A file that does not hold what it should.
    #[error("{}: {what}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Not 64 hexadecimal digits.
    #[error("{0:?} is no fingerprint: 64 hexadecimal digits, as `fountain serve` prints them")]
    Fingerprint(String),
    /// rustls will not have it.
    #[error("{0}")]
    Refused(#[from] rustls::Error),
    /// No certificate could be made.
    #[error("no certificate could be made: {0}")]
    Generation(#[from] rcgen::Error),
}

/// SHA-256 of a certificate: names a peer whose certificate no authority has signed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        Fingerprint(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = Error;

    /// Hexadecimal digits; colons between them and a `sha256:` before them are allowed.
    fn from_str(text: &str) -> Result<Self, Error> {
        let digits: Vec<u8> = text.trim_start_matches("sha256:").bytes().filter(|b| *b != b':').collect();
        let bad = || Error::Fingerprint(text.to_owned());
        let mut bytes = [0; 32];
        if digits.len() != 64 {
            return Err(bad());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| bad())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(Fingerprint(bytes))
    }
}

/// A certificate chain and its key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// From PEM files, which may be the same one.
    ///
    /// # Errors
    /// A file that cannot be read or holds no certificate, or no key.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, Error> {
        Ok(Identity {
            chain: certificates(certificate)?,
            key: PrivateKeyDer::from_pem_file(key).map_err(|e| file(key, e))?,
        })
    }

    /// A new one that signs itself: peers know it by its fingerprint.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn generate() -> Result<Self, Error> {
        Identity::generate_pem().map(|(identity, _)| identity)
    }

    /// The same, and the PEM file that [`Identity::load`] reads it from: its certificate and its key.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn generate_pem() -> Result<(Self, String), Error> {
        let made = rcgen::generate_simple_self_signed(["fountain".to_owned()])?;
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
            .map_err(|e| rustls::Error::General(e.to_owned()))?;
        let pem = made.cert.pem() + &made.signing_key.serialize_pem();
        Ok((Identity { chain: vec![made.cert.der().clone()], key }, pem))
    }

    /// Of its own certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }
}

fn file(path: &Path, what: impl fmt::Display) -> Error {
    Error::File { path: path.to_owned(), what: what.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(|e| file(path, e))?
        .collect::<Result<_, _>>()
        .map_err(|e| file(path, e))?;
    if chain.is_empty() {
        return Err(file(path, "holds no certificate (PEM)"));
    }
    Ok(chain)
}

fn authorities(path: &Path) -> Result<Arc<RootCertStore>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|e| file(path, e))?;
    }
    Ok(Arc::new(roots))
}

/// Which peers are who they should be.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those that an authority of this file vouches for; of servers, under the name that they are connected to by.
    Authorities(PathBuf),
    /// Those with one of these certificates.
    Fingerprints(Vec<Fingerprint>),
    /// Each under its name with a certificate of its own. Of clients, which have no names here, those with any of them.
    Known(Arc<KnownPeers>),
}

/// Peers that are known by their names, and what those showed that were not: for trust on first use.
#[derive(Debug, Default)]
pub struct KnownPeers {
    known: HashMap<String, Vec<Fingerprint>>,
    strange: Mutex<HashMap<String, Fingerprint>>,
}

impl KnownPeers {
    /// Peers under the names that they are connected to by, each perhaps with several certificates.
    pub fn new<'a>(known: impl IntoIterator<Item = (&'a str, Fingerprint)>) -> Self {
        let mut peers = KnownPeers::default();
        for (name, fingerprint) in known {
            peers.known.entry(written(name)).or_default().push(fingerprint);
        }
        peers
    }

    /// The fingerprint that was shown under this name last, if it was not one of those that are known.
    pub fn strange(&self, name: &str) -> Option<Fingerprint> {
        self.strange.lock().unwrap_or_else(PoisonError::into_inner).get(&written(name)).copied()
    }

    fn knows(&self, name: &str, shown: Fingerprint) -> bool {
        let known = self.known.get(name).is_some_and(|known| known.contains(&shown));
        if !known {
            self.strange.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), shown);
        }
        known
    }

    fn all(&self) -> Vec<Fingerprint> {
        self.known.values().flatten().copied().collect()
    }
}

/// A name as TLS writes it: addresses in one way only.
fn written(name: &str) -> String {
    ServerName::try_from(name).map_or_else(|_| name.to_owned(), |name| name.to_str().to_ascii_lowercase())
}

impl From<Fingerprint> for Trust {
    fn from(known: Fingerprint) -> Self {
        Trust::Fingerprints(vec![known])
    }
}

impl From<Vec<Fingerprint>> for Trust {
    fn from(known: Vec<Fingerprint>) -> Self {
        Trust::Fingerprints(known)
    }
}

/// A server's configuration; `clients` are let in, or everyone if that is `None`.
///
/// # Errors
/// [`enum@Error`].
pub fn server(identity: Identity, clients: Option<&Trust>) -> Result<Arc<ServerConfig>, Error> {
    let provider = cryptography();
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13])?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(Trust::Authorities(path)) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(authorities(path)?, provider)
                .build()
                .map_err(|e| file(path, e))?;
            builder.with_client_cert_verifier(verifier)
        }
        Some(Trust::Fingerprints(known)) => {
            builder.with_client_cert_verifier(pinned(provider, known.clone()))
        }
        Some(Trust::Known(peers)) => builder.with_client_cert_verifier(pinned(provider, peers.all())),
    };
    Ok(Arc::new(builder.with_single_cert(identity.chain, identity.key)?))
}

/// A client's configuration, with its own identity if it has one.
///
/// # Errors
/// [`enum@Error`].
pub fn client(trust: &Trust, identity: Option<Identity>) -> Result<Arc<ClientConfig>, Error> {
    let provider = cryptography();
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13])?;
    let builder = match trust {
        Trust::Authorities(path) => {
            let verifier = WebPkiServerVerifier::builder_with_provider(authorities(path)?, provider)
                .build()
                .map_err(|e| file(path, e))?;
            builder.with_webpki_verifier(verifier)
        }
        Trust::Fingerprints(known) => {
            builder.dangerous().with_custom_certificate_verifier(pinned(provider, known.clone()))
        }
        Trust::Known(peers) => {
            let peers = peers.clone();
            let knows = move |shown: &CertificateDer<'_>, name: &str| {
                peers.knows(&name.to_ascii_lowercase(), Fingerprint::of(shown))
            };
            let verifier = Pinned::new(provider, knows);
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    Ok(Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => builder.with_client_auth_cert(identity.chain, identity.key)?,
    }))
}

/// Believes certificates with one of these fingerprints, whoever shows them.
fn pinned(provider: Arc<CryptoProvider>, known: Vec<Fingerprint>) -> Arc<Pinned> {
    Arc::new(Pinned::new(provider, move |shown, _| known.contains(&Fingerprint::of(shown))))
}
