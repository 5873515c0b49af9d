//! What a source, or a host, on the command line means.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use udp::Over;

use crate::Failure;

/// The port of a server that names none.
const DEFAULT_PORT: u16 = 4860;
/// The same of a server of ATP.
pub(crate) const DEFAULT_ATP_PORT: u16 = 4880;

/// A host that has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Host {
    /// Its name or address, without brackets.
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl fmt::Display for Host {
    /// `HOST:PORT`; an IPv6 address in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

impl Host {
    /// The same host, written in one way only: names in small letters, addresses as the system writes them.
    pub(crate) fn canonical(&self) -> Self {
        let name = match self.name.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => self.name.trim_end_matches('.').to_lowercase(),
        };
        Host { name, port: self.port }
    }

    /// All of its addresses, the one that the system prefers first.
    pub(crate) fn resolve(&self) -> Result<Vec<SocketAddr>, Failure> {
        let cannot = |why: String| Failure::new(format!("cannot find {}: {why}", self.name));
        let found = (self.name.as_str(), self.port).to_socket_addrs().map_err(|e| cannot(e.to_string()))?;
        let found: Vec<_> = found.collect();
        if found.is_empty() { Err(cannot("it has no address".into())) } else { Ok(found) }
    }

    /// The address that answers first. If none does, the one that the system prefers: whoever connects to it says why not.
    pub(crate) fn reach(&self, over: Over, patience: Duration) -> Result<SocketAddr, Failure> {
        let all = self.resolve()?;
        Ok(udp::first_to_answer(&all, over, patience).unwrap_or(all[0]))
    }

    /// `HOST` or `HOST:PORT`; an IPv6 address in brackets.
    pub(crate) fn with_port(text: &str, default: u16) -> Result<Self, String> {
        let (name, port) = match split_port(text) {
            Some((name, port)) => {
                let port = port.parse().map_err(|_| format!("{port:?} is not a port"))?;
                (name, port)
            }
            None => (text, default),
        };
        let name = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
        if name.is_empty() || name.contains(['[', ']']) {
            return Err(format!("{text:?} has no host"));
        }
        Ok(Host { name: name.to_owned(), port })
    }
}

/// Something to fetch, and the hosts that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) hosts: Vec<Host>,
    pub(crate) path: String,
}

impl FromStr for Target {
    type Err = String;

    /// `HOST:PATH`, `HOST:PORT/PATH` or `HOST/PATH`, the host being a list with commas; an IPv6 address in brackets.
    fn from_str(text: &str) -> Result<Self, String> {
        let (before, mut path) =
            text.split_once('/').map_or((text, String::new()), |(b, p)| (b, p.to_owned()));
        let mut hosts: Vec<&str> = before.split(',').collect();
        // HOST:PATH, where the path may begin before the first slash.
        if let Some((host, rest)) = hosts.last().and_then(|last| split_port(last))
            && rest.parse::<u16>().is_err()
        {
            path = if text.contains('/') { format!("{rest}/{path}") } else { rest.to_owned() };
            let last = hosts.len() - 1;
            hosts[last] = host;
        }
        let path = path.trim_start_matches('/').to_owned();
        if path.is_empty() {
            return Err("it names no file; write HOST:PATH or HOST:PORT/PATH".into());
        }
        let hosts =
            hosts.into_iter().map(|host| Host::with_port(host, DEFAULT_PORT)).collect::<Result<_, _>>()?;
        Ok(Target { hosts, path })
    }
}

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
        let written = host.strip_suffix('/').unwrap_or(host);
        match scheme {
            "tcp" => {
                let host = Host::with_port(written, 0)?;
                if host.port == 0 && !written.ends_with(":0") {
                    return Err(format!("{text:?} has no port"));
                }
                Ok(Place::Tcp(host))
            }
            "atp" => Ok(Place::Atp(Host::with_port(written, DEFAULT_ATP_PORT)?)),
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

/// A file of a server of ATP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AtpUrl {
    pub(crate) host: Host,
    /// As it stands in a request: from the slash on, escaped.
    pub(crate) path: String,
    /// What a file is called that is made of it.
    pub(crate) name: String,
}

impl FromStr for AtpUrl {
    type Err = String;

    /// `atp://HOST/PATH` or `atp://HOST:PORT/PATH`. What a URL does not take in its path is escaped.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: write atp://HOST/PATH or atp://HOST:PORT/PATH");
        let (host, path) =
            text.strip_prefix("atp://").and_then(|rest| rest.split_once('/')).ok_or_else(wrong)?;
        let host = Host::with_port(host, DEFAULT_ATP_PORT)?;
        let last = path.rsplit('/').next().unwrap_or_default();
        let name =
            percent_decode_str(last).decode_utf8().map_err(|_| format!("{text:?}: its name is not UTF-8"))?;
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
            return Err(format!("{text:?} names no file"));
        }
        let (name, path) = (name.into_owned(), format!("/{}", utf8_percent_encode(path, NOT_IN_PATHS)));
        Ok(AtpUrl { host, path, name })
    }
}

impl fmt::Display for AtpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "atp://{}{}", self.host, self.path)
    }
}

/// What is escaped in the path of a URL (RFC 3986, section 3.3). What is escaped already stays as it is.
const NOT_IN_PATHS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b']')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// What follows the colon after a host, if there is one.
fn split_port(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('[') {
        Some(rest) => {
            let (_, after) = rest.split_once(']')?;
            let host = &text[..text.len() - after.len()];
            Some((host, after.strip_prefix(':')?))
        }
        None => text.split_once(':'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Vec<(String, u16)>, String) {
        let target: Target = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        (target.hosts.into_iter().map(|h| (h.name, h.port)).collect(), target.path)
    }

    #[test]
    fn sources_are_read_as_people_write_them() {
        let one = |name: &str, port, path: &str| (vec![(name.to_owned(), port)], path.to_owned());
        assert_eq!(parsed("a:b"), one("a", 4860, "b"));
        assert_eq!(parsed("a:b/c"), one("a", 4860, "b/c"));
        assert_eq!(parsed("a:/b/c"), one("a", 4860, "b/c"));
        assert_eq!(parsed("a/b/c"), one("a", 4860, "b/c"));
        assert_eq!(parsed("a:5000/b"), one("a", 5000, "b"));
        assert_eq!(parsed("10.0.0.1:5000/2026/x"), one("10.0.0.1", 5000, "2026/x"));
        assert_eq!(parsed("[::1]:5000/b"), one("::1", 5000, "b"));
        assert_eq!(parsed("[::1]:b"), one("::1", 4860, "b"));
        assert_eq!(parsed("[fe80::1]/b"), one("fe80::1", 4860, "b"));
        assert_eq!(parsed("a,b:c").0, [("a".to_owned(), 4860), ("b".to_owned(), 4860)]);
        let many = (vec![("a".to_owned(), 4860), ("b".to_owned(), 5000)], "c/d".to_owned());
        assert_eq!(parsed("a,b:5000/c/d"), many);
    }

    #[test]
    fn what_names_no_file_or_no_host_is_refused() {
        for text in ["", "a", "a:5000", "a:5000/", ":b", "/b", "a,,b/c", "[::1/b", "a:70000,b/c"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

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

    #[test]
    fn urls_name_a_file() {
        let url = |text: &str| text.parse::<AtpUrl>().map(|url| (url.to_string(), url.name));
        let is = |text: &str, written: &str, name: &str| {
            assert_eq!(url(text), Ok((written.to_owned(), name.to_owned())), "{text}");
        };
        is("atp://server/a/b.csv", "atp://server:4880/a/b.csv", "b.csv");
        is("atp://[::1]:5/a b", "atp://[::1]:5/a%20b", "a b");
        is("atp://server/caf%C3%A9", "atp://server:4880/caf%C3%A9", "café");
        is("atp://server/what?", "atp://server:4880/what%3F", "what?");
        for wrong in [
            "server/a",
            "http://server/a",
            "atp://server",
            "atp://server/",
            "atp://server/a/",
            "atp://server/..",
            "atp://server/%2e%2e",
            "atp://server/a%2fb",
            "atp://server/%ff",
            "atp://:5/a",
            "atp://server:x/a",
        ] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
