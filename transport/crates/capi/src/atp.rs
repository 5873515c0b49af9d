//! ATP: endpoints with all their connections. A program brings datagrams and the time, sends what is to be sent, and reads and writes streams.

mod config;
mod connections;
mod counters;
mod events;
mod streams;
mod traffic;

use std::collections::{HashMap, HashSet};
use std::ffi::{CString, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proto::Time;
use proto::atp::{ALPN, Connection, ConnectionId, EndpointConfig};
use proto::pinned::Pinned;
use proto::protect::cryptography;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use self::config::AtpConfig;
use crate::boundary::{EPANIC, Fault, attempt, free, made, named};
use crate::identity::{FINGERPRINT_BYTES, Fingerprint, Identity, Keys, fingerprint};

const ECLOSED: c_int = -3;
const ESTOPPED: c_int = -4;
const ERESET: c_int = -5;
const ENOROOM: c_int = -6;
const EAGAIN: c_int = -7;

/// The protocol has the codes from here on; applications have those below.
const CODES: u64 = proto::atp::CODE_VIOLATION;

/// The time that the program told last. TLS tells by it how old tickets are, so that nothing here has a clock.
#[derive(Debug, Default)]
struct Told(AtomicU64);

impl TimeProvider for Told {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_nanos(self.0.load(Ordering::Relaxed))))
    }
}

/// An endpoint (`struct weir_atp`).
pub struct Endpoint {
    inner: proto::atp::Endpoint,
    told: Arc<Told>,
    early: bool,
    /// Who it is for servers that ask.
    keys: Option<Arc<Keys>>,
    /// By the server's fingerprint. Each keeps the tickets of its servers.
    clients: HashMap<Fingerprint, Arc<ClientConfig>>,
    /// Connections that were made from here, and whose end was not told yet.
    mine: HashSet<ConnectionId>,
    /// What the last outputs point to.
    datagrams: Vec<u8>,
    message: CString,
    reason: Vec<u8>,
    /// While a call is carried out: if it is left set, that call has failed half-way.
    busy: bool,
}

/// Does something with an endpoint. Returns a number, or what is wrong as one below zero.
///
/// # Safety
/// As the header says: null, or an endpoint that was not freed and that nobody else uses.
unsafe fn act<T: From<c_int>>(
    endpoint: *mut Endpoint,
    does: impl FnOnce(&mut Endpoint) -> Result<T, Fault>,
) -> T {
    let done = attempt(|| {
        // SAFETY: the caller's promise.
        let endpoint = unsafe { endpoint.as_mut() }.ok_or_else(|| Fault::invalid("the endpoint is NULL"))?;
        if endpoint.busy {
            let what = "the library has failed with this endpoint before: it can only be freed".to_owned();
            return Err(Fault { status: EPANIC, what });
        }
        endpoint.busy = true;
        let done = does(endpoint);
        endpoint.busy = false;
        done
    });
    done.unwrap_or_else(T::from)
}

impl Endpoint {
    fn new(
        config: &AtpConfig,
        keys: Option<Arc<Keys>>,
        clients: Option<Vec<Fingerprint>>,
    ) -> Result<Self, Fault> {
        let (connection, limits) = config.checked()?;
        let (told, early) = (Arc::new(Told::default()), connection.early);
        let server = match (&keys, clients) {
            (Some(keys), Some(clients)) => Some(server(keys, clients, told.clone(), early)?),
            _ => None,
        };
        let inner = proto::atp::Endpoint::new(EndpointConfig { connection, limits, server, key: config.key });
        Ok(Endpoint {
            inner,
            told,
            early,
            keys,
            clients: HashMap::new(),
            mine: HashSet::new(),
            datagrams: Vec::new(),
            message: CString::default(),
            reason: Vec::new(),
            busy: false,
        })
    }

    /// The time, which does not go back.
    fn at(&mut self, now_ns: u64) -> Result<Time, Fault> {
        let before = self.told.0.load(Ordering::Relaxed);
        if now_ns < before {
            return Err(Fault::invalid(format!(
                "time goes back: now_ns is {now_ns}, and was {before} before"
            )));
        }
        self.told.0.store(now_ns, Ordering::Relaxed);
        Ok(Time::from_nanos(now_ns))
    }

    fn with<T>(
        &mut self,
        connection: u64,
        does: impl FnOnce(&mut Connection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.inner.with(ConnectionId(connection), does).unwrap_or_else(|| Err(gone(connection)))
    }

    /// What a connection to the server with this fingerprint is made with.
    fn client(&mut self, server: Fingerprint) -> Result<Arc<ClientConfig>, Fault> {
        if let Some(config) = self.clients.get(&server) {
            return Ok(config.clone());
        }
        let provider = cryptography();
        let pinned = Pinned::new(provider.clone(), move |shown, _| fingerprint(shown) == server);
        let builder = ClientConfig::builder_with_details(provider, self.told.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(tls)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned));
        let mut config = match &self.keys {
            None => builder.with_no_client_auth(),
            Some(keys) => builder.with_client_auth_cert(keys.chain(), keys.key()).map_err(tls)?,
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.enable_early_data = self.early;
        Ok(self.clients.entry(server).or_insert(Arc::new(config)).clone())
    }
}

/// What a server is made with, to which `clients` may connect; anyone, if they are none.
fn server(
    keys: &Keys,
    clients: Vec<Fingerprint>,
    told: Arc<Told>,
    early: bool,
) -> Result<Arc<ServerConfig>, Fault> {
    let provider = cryptography();
    let builder = ServerConfig::builder_with_details(provider.clone(), told)
        .with_protocol_versions(&[&TLS13])
        .map_err(tls)?;
    let builder = if clients.is_empty() {
        builder.with_no_client_auth()
    } else {
        let pinned = Pinned::new(provider, move |shown, _| clients.contains(&fingerprint(shown)));
        builder.with_client_cert_verifier(Arc::new(pinned))
    };
    let mut config = builder.with_single_cert(keys.chain(), keys.key()).map_err(tls)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.max_early_data_size = if early { u32::MAX } else { 0 };
    Ok(Arc::new(config))
}

fn tls(error: rustls::Error) -> Fault {
    Fault::invalid(format!("TLS: {error}"))
}

fn gone(connection: u64) -> Fault {
    let what = format!("connection {connection} is over, or never was");
    Fault { status: ECLOSED, what }
}

fn code(code: u64) -> Result<u64, Fault> {
    match code {
        0..CODES => Ok(code),
        _ => {
            Err(Fault::invalid(format!("code {code} is the protocol's: an application has those below 2^32")))
        }
    }
}

/// An endpoint that others can connect to.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_server_new(
    config: *const AtpConfig,
    identity: *const Identity,
    clients: *const Fingerprint,
    n_clients: usize,
) -> *mut Endpoint {
    made(|| {
        // SAFETY: the caller's promise.
        let (config, identity) = unsafe { (named("config", config)?, named("identity", identity)?) };
        let clients = match (clients.is_null(), n_clients) {
            (_, 0) => Vec::new(),
            (true, _) => return Err(Fault::invalid(format!("clients is NULL, but is to have {n_clients}"))),
            _ if n_clients > isize::MAX as usize / FINGERPRINT_BYTES => {
                return Err(Fault::invalid(format!("clients cannot have {n_clients} fingerprints")));
            }
            // SAFETY: the caller's promise.
            _ => unsafe { std::slice::from_raw_parts(clients, n_clients) }.to_vec(),
        };
        Endpoint::new(config, Some(identity.keys()), Some(clients))
    })
}

/// An endpoint that connects to others.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_client_new(
    config: *const AtpConfig,
    identity: *const Identity,
) -> *mut Endpoint {
    made(|| {
        // SAFETY: the caller's promise.
        let (config, identity) = unsafe { (named("config", config)?, identity.as_ref()) };
        Endpoint::new(config, identity.map(Identity::keys), None)
    })
}

/// Ends an endpoint at once. Peers are not told.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weir_atp_free(endpoint: *mut Endpoint) {
    // SAFETY: the caller's promise.
    unsafe { free(endpoint) };
}
