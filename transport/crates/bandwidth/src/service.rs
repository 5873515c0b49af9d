//! The requests.

use std::io::{self, BufReader};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thiserror::Error;
use ureq::http::{Response, StatusCode, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, BodyReader};

use crate::Flow;
use crate::events::Events;

/// An answer takes no longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the service cannot be asked.
#[derive(Debug, Error)]
pub enum Error {
    /// An address that is none, or over which a token must not go.
    #[error("{url}: {why}")]
    Url {
        /// The address.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file that does not hold what it should.
    #[error("{file}: {why}")]
    File {
        /// Which.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no answer.
    #[error("{url}: {error}{remedy}", remedy = remedy(.error))]
    Unreachable {
        /// The address.
        url: String,
        /// Why.
        error: Box<ureq::Error>,
    },
    /// It says no.
    #[error("the controller says {status}: {detail}")]
    Refused {
        /// HTTP's number.
        status: u16,
        /// Why, for a person.
        detail: String,
    },
    /// It does not say what it should.
    #[error("the controller's answer cannot be understood: {0}")]
    Answer(String),
    /// No thread is to be had.
    #[error("{0}")]
    Thread(io::Error),
}

/// What to do about it, for a person. Errors of TLS come as text.
fn remedy(error: &ureq::Error) -> &'static str {
    let text = error.to_string();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["InvalidContentType", "InvalidMessage"]) {
        "; there is no TLS there: write http:// if it is on this machine, else give northbound.api a key and a certificate"
    } else if has(&["http parse fail"]) {
        "; it does not speak HTTP in clear: write https://"
    } else if has(&["UnknownIssuer"]) {
        "; name the authority that issued the controller's certificate with --rate-ca"
    } else if has(&["NotValidForName"]) {
        "; the controller's certificate is for another name or address: write that"
    } else if has(&["Connection refused"]) {
        "; nobody listens there: see northbound.api.listen of the controller"
    } else {
        ""
    }
}

/// What a flow may send.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Share {
    pub(crate) rate_bps: Option<f64>,
    /// What its packets are to bear.
    pub(crate) dscp: Option<u8>,
}

/// Of what is known of a path, what is asked here.
#[derive(Deserialize)]
struct PathAnswer {
    loss: Option<f64>,
    loss_error: Option<f64>,
}

/// The part of the packets that a path loses: probably `loss`, and within `error` of it in 95 % of all cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathLoss {
    /// Probably.
    pub loss: f64,
    /// So much more or less.
    pub error: f64,
}

impl PathLoss {
    /// It loses at least that.
    pub fn least(&self) -> f64 {
        (self.loss - self.error).max(0.0)
    }
}

/// The service of one controller.
#[derive(Clone)]
pub struct Service {
    url: String,
    token: String,
    /// For requests, and for streams.
    agents: [Agent; 2],
}

impl Service {
    /// The service at `url`, asked with a token; who it is, an authority of `ca` (PEM) says, or one that everybody knows.
    ///
    /// # Errors
    /// [`Error::Url`], [`Error::File`].
    pub fn new(url: &str, token: &str, ca: Option<&Path>) -> Result<Self, Error> {
        let bad = |why| Error::Url { url: url.to_owned(), why };
        let uri: Uri = url.parse().map_err(|_| bad("is no address; write e.g. https://10.0.0.1:8181"))?;
        let loopback = || {
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        };
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if loopback() => {}
            Some("http") => return Err(bad("a token goes over TLS only: write https://")),
            _ => return Err(bad("write https://HOST:PORT")),
        }
        let roots = match ca {
            None => RootCerts::WebPki,
            Some(path) => RootCerts::Specific(Arc::new(certificates(path)?)),
        };
        let agent = |whole: Option<Duration>| {
            Agent::config_builder()
                .tls_config(TlsConfig::builder().root_certs(roots.clone()).build())
                .http_status_as_error(false)
                .timeout_connect(Some(PATIENCE))
                .timeout_recv_response(Some(PATIENCE))
                .timeout_global(whole)
                .proxy(None)
                .build()
                .new_agent()
        };
        let agents = [agent(Some(PATIENCE)), agent(None)];
        Ok(Service { url: url.trim_end_matches('/').to_owned(), token: token.to_owned(), agents })
    }

    /// The part of the packets that links between switches lose on the path from one host to another; none if that is not known.
    ///
    /// # Errors
    /// The controller cannot be reached, refuses to answer, or knows no path.
    pub fn loss(&self, src: IpAddr, dst: IpAddr) -> Result<Option<PathLoss>, Error> {
        let url = format!("{}/v1/bandwidth?src={src}&dst={dst}", self.url);
        let request = self.agents[0].get(&url).header("Authorization", self.authorization());
        let PathAnswer { loss, loss_error } = parsed(self.answered(request.call(), &url)?)?;
        Ok(loss.map(|loss| PathLoss { loss, error: loss_error.unwrap_or(0.0) }))
    }

    pub(crate) fn announce(&self, flow: &Flow) -> Result<Share, Error> {
        let Flow { name, src, dst, most_bps } = flow;
        let mut said = json!({"src": src, "dst": dst});
        if let Some(bps) = most_bps {
            said["most_bps"] = json!(bps);
        }
        let url = self.flow(name);
        let request = self.agents[0].put(&url).header("Authorization", self.authorization());
        parsed(self.answered(request.send_json(&said), &url)?)
    }

    /// None: the controller does not know it any more.
    pub(crate) fn renew(&self, flow: &str) -> Result<Option<Share>, Error> {
        let url = self.flow(flow);
        let request = self.agents[0].patch(&url).header("Authorization", self.authorization());
        match self.answered(request.send_json(json!({})), &url) {
            Ok(answer) => parsed(answer).map(Some),
            Err(Error::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn withdraw(&self, flow: &str) -> Result<(), Error> {
        let url = self.flow(flow);
        let request = self.agents[0].delete(&url).header("Authorization", self.authorization());
        self.answered(request.call(), &url).map(drop)
    }

    /// The shares of a flow, from now on.
    pub(crate) fn stream(&self, flow: &str) -> Result<impl Iterator<Item = Share> + use<>, Error> {
        let url = format!("{}/v1/fountains/stream?flow={flow}", self.url);
        let request = self.agents[1].get(&url).header("Authorization", self.authorization());
        let answer = self.answered(request.call(), &url)?;
        let events: Events<BufReader<BodyReader<'static>>> =
            Events::of(BufReader::new(answer.into_body().into_reader()));
        Ok(events.map_while(|data| serde_json::from_str(&data).ok()))
    }

    fn flow(&self, name: &str) -> String {
        format!("{}/v1/fountains/{name}", self.url)
    }

    fn authorization(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn answered(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
        url: &str,
    ) -> Result<Response<Body>, Error> {
        let mut answer =
            answer.map_err(|error| Error::Unreachable { url: url.to_owned(), error: Box::new(error) })?;
        let status = answer.status();
        if status == StatusCode::OK {
            return Ok(answer);
        }
        let told: Value = answer.body_mut().read_json().unwrap_or_default();
        let detail = told["detail"].as_str().unwrap_or("it does not say why").to_owned();
        Err(Error::Refused { status: status.as_u16(), detail })
    }
}

fn parsed<T: DeserializeOwned>(mut answer: Response<Body>) -> Result<T, Error> {
    answer.body_mut().read_json().map_err(|error| Error::Answer(error.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<ureq::tls::Certificate<'static>>, Error> {
    let bad = |why: String| Error::File { file: path.display().to_string(), why };
    let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    let mut found = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| bad(error.to_string()))? {
            found.push(certificate.to_owned());
        }
    }
    if found.is_empty() {
        return Err(bad("holds no certificate (PEM)".into()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// What is said of a controller that answers any request so.
    fn told(scheme: &str, answer: &'static [u8]) -> String {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}", listening.local_addr().unwrap());
        let answering = thread::spawn(move || {
            let (mut peer, _) = listening.accept().unwrap();
            let _ = peer.read(&mut [0; 4096]);
            peer.write_all(answer).unwrap();
        });
        let error = Service::new(&url, "t", None).unwrap().renew("f").unwrap_err();
        answering.join().unwrap();
        error.to_string()
    }

    #[test]
    fn a_scheme_that_is_not_spoken_there_is_told() {
        let without_tls = told("https", b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        assert!(without_tls.contains("there is no TLS there: write http://"), "{without_tls}");
        let with_tls = told("http", b"\x15\x03\x03\x00\x02\x02\x46");
        assert!(with_tls.contains("write https://"), "{with_tls}");
    }

    #[test]
    fn tokens_go_nowhere_in_clear() {
        for good in
            ["https://controller:8181", "https://10.0.0.1", "http://127.0.0.1:8181/", "http://[::1]:80"]
        {
            assert!(Service::new(good, "t", None).is_ok(), "{good}");
        }
        for bad in ["http://10.0.0.1:8181", "ftp://a", "a", "", "http://localhost.example"] {
            let why = Service::new(bad, "t", None).map(drop).unwrap_err().to_string();
            assert!(why.contains("write"), "{why}");
        }
    }
}
