//! Who an endpoint is: a certificate and its key.

use std::ffi::c_int;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::boundary::{EINVAL, Fault, attempt, free, made, named, named_bytes, place};

/// Bytes of SHA-256.
pub(crate) const FINGERPRINT_BYTES: usize = 32;

/// What a peer is known by: SHA-256 of its certificate.
pub(crate) type Fingerprint = [u8; FINGERPRINT_BYTES];

pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// A certificate chain and its key (`struct weir_identity`).
pub struct Identity(Arc<Keys>);

pub(crate) struct Keys {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Keys {
    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, Fault> {
        // What does not fit together is told here, and not when somebody connects.
        CertifiedKey::from_der(chain.clone(), key.clone_key(), &default_provider())
            .map_err(|e| Fault::invalid(format!("certificate and key are not good: {e}")))?;
        Ok(Keys { chain, key })
    }

    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.clone()
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }
}

impl Identity {
    pub(crate) fn keys(&self) -> Arc<Keys> {
        self.0.clone()
    }
}

fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(11).any(|window| window == b"-----BEGIN ")
}

fn chain(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    if !is_pem(bytes) {
        return Ok(vec![CertificateDer::from(bytes.to_vec())]);
    }
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let chain = chain.map_err(|e| Fault::invalid(format!("certificate is no good PEM: {e}")))?;
    if chain.is_empty() {
        return Err(Fault::invalid("certificate is PEM without a CERTIFICATE"));
    }
    Ok(chain)
}

fn private_key(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, Fault> {
    if is_pem(bytes) {
        PrivateKeyDer::from_pem_slice(bytes)
            .map_err(|e| Fault::invalid(format!("key is no good PEM of a private key: {e}")))
    } else {
        PrivateKeyDer::try_from(bytes.to_vec()).map_err(|e| {
            Fault::invalid(format!("key is neither PEM nor DER of PKCS #8, PKCS #1 or SEC 1: {e}"))
        })
    }
}

/// From a certificate and its key.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_identity_new(
    certificate: *const u8,
    n_certificate: usize,
    key: *const u8,
    n_key: usize,
) -> *mut Identity {
    made(|| {
        // SAFETY: the caller's promise.
        let certificate = unsafe { named_bytes("certificate", certificate, n_certificate) }?;
        // SAFETY: the caller's promise.
        let key = unsafe { named_bytes("key", key, n_key) }?;
        Ok(Identity(Arc::new(Keys::new(chain(certificate)?, private_key(key)?)?)))
    })
}

/// A new one, which signs itself.
#[unsafe(no_mangle)]
pub extern "C" fn weir_identity_generate() -> *mut Identity {
    made(|| {
        let failed =
            |what: String| Fault { status: EINVAL, what: format!("no certificate could be made: {what}") };
        let made =
            rcgen::generate_simple_self_signed(["weir".to_owned()]).map_err(|e| failed(e.to_string()))?;
        let key =
            PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(|e| failed(e.to_owned()))?;
        Ok(Identity(Arc::new(Keys::new(vec![made.cert.der().clone()], key)?)))
    })
}

/// What peers know it by.
///
/// # Safety
/// As the header says; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_identity_fingerprint(of: *const Identity, out: *mut Fingerprint) -> c_int {
    let told = attempt(|| {
        // SAFETY: the caller's promise.
        let keys = unsafe { named("identity", of) }?.keys();
        let out = place("fingerprint", out)?;
        // SAFETY: the caller's promise.
        unsafe { out.write(fingerprint(&keys.chain[0])) };
        Ok(0)
    });
    told.unwrap_or_else(|status| status)
}

/// Ends it; endpoints that were made with it go on.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_identity_free(identity: *mut Identity) {
    // SAFETY: the caller's promise.
    unsafe { free(identity) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_and_key_come_as_pem_or_as_der() {
        let made = rcgen::generate_simple_self_signed(["here".to_owned()]).unwrap();
        let (der, key) = (made.cert.der().to_vec(), made.signing_key.serialize_der());
        let pem = made.cert.pem() + &made.signing_key.serialize_pem();
        let of_der = Keys::new(chain(&der).unwrap(), private_key(&key).unwrap()).unwrap();
        let of_pem = Keys::new(chain(pem.as_bytes()).unwrap(), private_key(pem.as_bytes()).unwrap()).unwrap();
        assert_eq!(of_der.chain, of_pem.chain);
    }

    #[test]
    fn what_does_not_fit_together_is_refused_with_what_is_wrong() {
        let made = rcgen::generate_simple_self_signed(["here".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["there".to_owned()]).unwrap();
        let key = private_key(&other.signing_key.serialize_der()).unwrap();
        let fault = Keys::new(chain(made.cert.der()).unwrap(), key).err().unwrap();
        assert!(fault.what.contains("certificate and key"), "{fault:?}");
        assert!(private_key(b"nothing").unwrap_err().what.contains("PKCS #8"));
        let no_certificate = made.signing_key.serialize_pem();
        assert!(chain(no_certificate.as_bytes()).unwrap_err().what.contains("CERTIFICATE"));
        assert!(private_key(made.cert.pem().as_bytes()).is_err());
    }
}
