//! Keys of both ends of a connection under TLS 1.3.

use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, quic};

/// A server named "here", and clients that believe it.
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// With a certificate of its own.
    pub fn new() -> Self {
        Tls::of(["here".to_owned()])
    }

    /// With a certificate of 5 kB.
    #[allow(dead_code)] // Each test program uses a part of it.
    pub fn with_a_long_certificate() -> Self {
        Tls::of(["here".to_owned()].into_iter().chain((0..400).map(|n| format!("{n:05}.here"))))
    }

    fn of(names: impl IntoIterator<Item = String>) -> Self {
        let made = rcgen::generate_simple_self_signed(names.into_iter().collect::<Vec<_>>()).unwrap();
        let (certificate, key) = (made.cert.der().clone(), made.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let provider = Arc::new(default_provider());
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], PrivateKeyDer::try_from(key).unwrap())
            .unwrap();
        Tls { client: Arc::new(client), server: Arc::new(server) }
    }

    /// The same, with tickets by which clients may send data before the server has answered.
    #[allow(dead_code)]
    pub fn early() -> Self {
        let mut tls = Tls::new();
        Arc::get_mut(&mut tls.client).unwrap().enable_early_data = true;
        Arc::get_mut(&mut tls.server).unwrap().max_early_data_size = u32::MAX;
        tls
    }

    /// The server has forgotten all tickets.
    #[allow(dead_code)]
    pub fn forget(&mut self) {
        let mut server = (*self.server).clone();
        server.session_storage = rustls::server::ServerSessionMemoryCache::new(16);
        self.server = Arc::new(server);
    }

    /// What a client and a server are configured with.
    #[allow(dead_code)]
    pub fn configs(&self) -> (Arc<ClientConfig>, Arc<ServerConfig>) {
        (self.client.clone(), self.server.clone())
    }

    /// The ends of a handshake without TLS's records.
    #[allow(dead_code)]
    pub fn bare(&self, name: &'static str) -> (quic::ClientConnection, quic::ServerConnection) {
        let (name, version) = (name.try_into().unwrap(), quic::Version::V1);
        (
            quic::ClientConnection::new(self.client.clone(), version, name, Vec::new()).unwrap(),
            quic::ServerConnection::new(self.server.clone(), version, Vec::new()).unwrap(),
        )
    }

    /// The client's end of a connection to `name`.
    #[allow(dead_code)]
    pub fn client(&self, name: &'static str) -> ClientConnection {
        ClientConnection::new(self.client.clone(), name.try_into().unwrap()).unwrap()
    }

    /// The server's end.
    #[allow(dead_code)]
    pub fn server(&self) -> ServerConnection {
        ServerConnection::new(self.server.clone()).unwrap()
    }
}
