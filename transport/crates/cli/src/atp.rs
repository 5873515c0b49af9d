//! What the commands over ATP have in common: places as they are written, and ends of connections.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};
use transport::atp::{ConnectionConfig, Endpoint, EndpointBuilder, Statistics};
use udp::{Limits, Over};

use crate::Failure;
use crate::args::{AtpLimits, AtpPeers};
use crate::first_use::Meeting;
use crate::retry::interruption;
use crate::security::{self, Security};
use crate::serve::seconds;
use crate::target::Host;

/// The port of a server that names none.
const DEFAULT_PORT: u16 = 4880;

/// Where connections come from, or go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp(Host),
    Atp(Host),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, host) = text.split_once("://").ok_or_else(|| {
            format!("{text:?} says not what is spoken there: write tcp://HOST:PORT or atp://HOST:PORT")
        })?;
        let host = host.strip_suffix('/').unwrap_or(host);
        match scheme {
            "tcp" => {
                let host = Host::with_port(host, 0)?;
                if host.port == 0 && !text.ends_with(":0") {
                    return Err(format!("{text:?} has no port"));
                }
                Ok(Place::Tcp(host))
            }
            "atp" => Ok(Place::Atp(Host::with_port(host, DEFAULT_PORT)?)),
            other => Err(format!("{other:?} is neither tcp nor atp")),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(host) => write!(f, "tcp://{host}"),
            Place::Atp(host) => write!(f, "atp://{host}"),
        }
    }
}

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
        Limits {
            connections: self.max_connections,
            connections_of_an_address: self.max_connections_per_address,
            memory_bytes: self.memory,
            ..Limits::default()
        }
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

    /// An end that connects to a server, and how that is known.
    pub(crate) fn connect(
        &self,
        peers: &AtpPeers,
        host: &Host,
        config: ConnectionConfig,
        retry: f64,
    ) -> Result<(Endpoint, Security), Failure> {
        let interrupted = interruption()?;
        let meeting =
            Meeting { over: Over::Atp, retry, silence: Duration::from_secs(5), interrupted: &interrupted };
        let security = security::client(&peers.trust(), &[host], &meeting)?;
        let mut builder = self.builder(config);
        if let Some(tls) = &security.tls {
            builder = builder.tls_client(tls.clone());
        }
        Ok((builder.client().map_err(Failure::new)?, security))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_with_what_is_spoken_there() {
        let place = |text: &str| text.parse::<Place>().map(|place| place.to_string());
        assert_eq!(place("tcp://localhost:6379").unwrap(), "tcp://localhost:6379");
        assert_eq!(place("tcp://[::1]:0/").unwrap(), "tcp://[::1]:0");
        assert_eq!(place("atp://server").unwrap(), "atp://server:4880");
        assert_eq!(place("atp://[fe80::1]:5").unwrap(), "atp://[fe80::1]:5");
        for wrong in ["localhost:6379", "tcp://localhost", "http://localhost:80", "tcp://:80", "atp://a:b"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
