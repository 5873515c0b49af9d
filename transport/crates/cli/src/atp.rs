//! What the commands over ATP have in common: ends of connections, and what they count.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use transport::atp::{Connection, ConnectionConfig, Endpoint, EndpointBuilder, Statistics};
use udp::Limits;

use crate::Failure;
use crate::args::{AtpLimits, AtpPeers};
use crate::first_use::{Meeting, Speaks};
use crate::retry::interruption;
use crate::security::{self, Security};
use crate::serve::seconds;
use crate::target::Host;

/// Between attempts to reach somebody.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

impl AtpLimits {
    /// How connections behave by these options.
    pub(crate) fn config(&self) -> Result<ConnectionConfig, Failure> {
        Ok(ConnectionConfig {
            idle: seconds("--silence", self.silence)?,
            parity: !self.no_parity,
            ecn: !self.no_ecn,
            ..ConnectionConfig::default()
        })
    }

    pub(crate) fn limits(&self) -> Limits {
        self.connections.limits(self.memory)
    }

    fn builder(&self, config: ConnectionConfig) -> EndpointBuilder {
        Endpoint::builder().config(config).limits(self.limits())
    }

    /// An end that takes connections.
    pub(crate) fn listen(
        &self,
        peers: &AtpPeers,
        host: &Host,
        config: ConnectionConfig,
    ) -> Result<Endpoint, Failure> {
        let tls = security::server(&peers.identity())?;
        let mut builder = self.builder(config);
        if let Some((tls, fingerprint)) = tls {
            builder = builder.tls_server(tls, fingerprint);
        }
        builder.listen(&host.to_string()).map_err(Failure::new)
    }

    /// An end that connects to servers, and how they are known.
    pub(crate) fn connect(
        &self,
        peers: &AtpPeers,
        hosts: &[&Host],
        config: ConnectionConfig,
        retry: f64,
    ) -> Result<(Endpoint, Security), Failure> {
        let interrupted = interruption()?;
        let meeting = Meeting {
            speaks: Speaks::Atp,
            retry,
            silence: Duration::from_secs(5),
            interrupted: &interrupted,
        };
        let security = security::client(&peers.trust(), hosts, &meeting)?;
        let mut builder = self.builder(config);
        if let Some(tls) = &security.tls {
            builder = builder.tls_client(tls.clone());
        }
        Ok((builder.client().map_err(Failure::new)?, security))
    }
}

/// Connects to a server, again and again until there is no time left.
///
/// # Errors
/// Why not, for a person.
pub(crate) async fn reach(
    endpoint: &Endpoint,
    security: &Security,
    host: &Host,
    until: Instant,
) -> Result<Connection, String> {
    loop {
        let (endpoint, to) = (endpoint.clone(), host.to_string());
        let connecting = tokio::task::spawn_blocking(move || endpoint.connect(&to));
        let connected = tokio::time::timeout_at(until.into(), connecting).await;
        let connected = connected.map_err(|_| format!("{host} does not answer"))?;
        match connected.map_err(|error| error.to_string())? {
            Ok(connection) => return Ok(connection),
            Err(error) => {
                security.require_unchanged().map_err(|failure| failure.to_string())?;
                if Instant::now() + PAUSE >= until {
                    return Err(error.to_string());
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// What an end has counted, for programs.
pub(crate) fn counted(statistics: &Statistics) -> Value {
    let Statistics { connections, peak_bytes, endpoint, data } = statistics;
    json!({
        "connections": connections,
        "peak_bytes": peak_bytes,
        "accepted": endpoint.accepted,
        "connected": endpoint.connected,
        "refused": endpoint.refused,
        "retried": endpoint.retried,
        "strays": endpoint.strays,
        "packets": data.sent,
        "packet_bytes": data.sent_bytes,
        "parity": data.parity,
        "parity_bytes": data.parity_bytes,
        "requested": data.requested,
        "timed_out": data.timed_out,
        "timeouts": data.timeouts,
        "repaired": data.repaired,
        "repaired_at_peer": data.repaired_at_peer,
        "requests": data.requests,
        "ce": data.ce,
        "unexpected": data.unexpected,
        "forged": data.forged,
        "replayed": data.replayed,
    })
}
