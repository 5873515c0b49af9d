//! Trust on first use: a host that was never met shows its certificate, and whoever runs the command says whether it is
//! the right one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::dfcp::SenderConfig;
use proto::lttp::ClientConfig;
use transport::atp::{ConnectionConfig, Endpoint};
use udp::tls::{self, Fingerprint, KnownPeers};
use udp::{Fetching, Over, SendOptions, SendUpdate, Sending, ServerAddress, TlsClientConfig, Update};

use crate::Failure;
use crate::advice::advised;
use crate::console::clean;
use crate::retry::Retry;
use crate::target::Host;

/// How often an interruption, and the certificate, are looked for.
const TICK: Duration = Duration::from_millis(50);

/// What a host speaks.
#[derive(Clone, Copy)]
pub(crate) enum Speaks {
    Lttp,
    Dfcp,
    Atp,
}

/// How a host is met.
pub(crate) struct Meeting<'a> {
    pub(crate) speaks: Speaks,
    /// The options `--retry` and `--silence`.
    pub(crate) retry: f64,
    pub(crate) silence: Duration,
    pub(crate) interrupted: &'a AtomicBool,
}

/// The fingerprint of a host that is not among those that are known.
///
/// # Errors
/// It is not accepted, or cannot be reached.
pub(crate) fn introduce(
    host: &Host,
    accept: bool,
    known: &[(Host, Fingerprint)],
    meeting: &Meeting,
) -> Result<Fingerprint, Failure> {
    // Standard input may be what is to be sent.
    let terminal = (!accept && io::stderr().is_terminal())
        .then(|| File::options().read(true).write(true).open("/dev/tty"))
        .and_then(Result::ok);
    if !accept && terminal.is_none() {
        return Err(Failure::usage(format!(
            "{host} is not known, and there is no terminal to ask on: give the --fingerprint that it prints, --ca FILE, or \
             --accept-new to trust what it shows now, and only that from then on"
        )));
    }
    let shown = meeting.certificate(host)?;
    let Some(mut terminal) = terminal else { return Ok(shown) };
    let same = known.iter().filter(|(_, other)| *other == shown).map(|(host, _)| host.to_string());
    let accepted = ask(&mut terminal, host, shown, &same.collect::<Vec<_>>());
    match accepted.map_err(|e| Failure::new(format!("/dev/tty: {e}")))? {
        true => Ok(shown),
        false => Err(Failure::new(format!("{host} is not trusted, and nothing was transferred"))),
    }
}

fn ask(terminal: &mut File, host: &Host, shown: Fingerprint, same: &[String]) -> io::Result<bool> {
    let host = clean(&host.to_string());
    writeln!(terminal, "{host} is not known. The fingerprint that it shows:\n    {shown}")?;
    if same.is_empty() {
        writeln!(terminal, "Compare it with the one that it prints itself.")?;
    } else {
        writeln!(terminal, "The same is known of {}.", clean(&same.join(", ")))?;
    }
    let mut lines = BufReader::new(terminal.try_clone()?).lines();
    loop {
        write!(terminal, "Trust it, now and from now on (yes, no, or the fingerprint that you expect)? ")?;
        let Some(answer) = lines.next().transpose()? else { return Ok(false) };
        match answer.trim().to_lowercase().as_str() {
            "yes" => return Ok(true),
            "no" => return Ok(false),
            other if other.parse().is_ok_and(|expected: Fingerprint| expected == shown) => return Ok(true),
            other if other.parse::<Fingerprint>().is_ok() => {
                writeln!(terminal, "That is another fingerprint.")?;
                return Ok(false);
            }
            _ => {}
        }
    }
}

impl Meeting<'_> {
    /// What a host shows. Nothing is told it: the connection is not completed.
    fn certificate(&self, host: &Host) -> Result<Fingerprint, Failure> {
        let peers = Arc::new(KnownPeers::default());
        let tls = tls::client(&tls::Trust::Known(peers.clone()), None).map_err(Failure::new)?;
        let mut retry = Retry::new(self.retry)?;
        loop {
            let (place, why) = match self.speaks {
                Speaks::Atp => (host.to_string(), self.begin(host, &tls)?),
                Speaks::Lttp => {
                    let address = host.reach(Over::Tcp, self.silence)?;
                    (format!("{host} ({address})"), self.fetch(host, address, &tls, &peers)?)
                }
                Speaks::Dfcp => {
                    let address = host.reach(Over::Signals, self.silence)?;
                    (format!("{host} ({address})"), self.send(host, address, &tls, &peers)?)
                }
            };
            if let Some(shown) = peers.strange(&host.name) {
                return Ok(shown);
            }
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Failure::interrupted());
            }
            let Some(pause) = retry.pause() else {
                return Err(Failure::new(format!("{place} cannot be reached: {}", advised(&why))));
            };
            std::thread::sleep(pause);
        }
    }

    /// Connects, until a certificate was shown or why there was none is known.
    fn fetch(
        &self,
        host: &Host,
        address: SocketAddr,
        tls: &Arc<TlsClientConfig>,
        peers: &KnownPeers,
    ) -> Result<String, Failure> {
        let source = ServerAddress { address, name: host.name.clone() };
        let config = ClientConfig { silence: self.silence, ..ClientConfig::default() };
        let mut fetching = Fetching::connect(&[source], Some(tls), config).map_err(Failure::new)?;
        while self.goes_on(host, peers) {
            for update in fetching.wait(TICK).map_err(Failure::new)? {
                if let Update::Lost { why, .. } = update {
                    return Ok(why);
                }
            }
        }
        Ok("interrupted".to_owned())
    }

    /// The same for a receiver.
    fn send(
        &self,
        host: &Host,
        to: SocketAddr,
        tls: &Arc<TlsClientConfig>,
        peers: &KnownPeers,
    ) -> Result<String, Failure> {
        let config = SenderConfig { silence: self.silence, ..SenderConfig::default() };
        let options = SendOptions { to, name: host.name.clone(), tls: Some(tls.clone()), config };
        let mut sending = Sending::connect(options).map_err(Failure::new)?;
        while self.goes_on(host, peers) {
            for update in sending.wait(TICK).map_err(Failure::new)? {
                if let SendUpdate::Lost { why } = update {
                    return Ok(why);
                }
            }
        }
        Ok("interrupted".to_owned())
    }

    /// The same for a server of ATP.
    fn begin(&self, host: &Host, tls: &Arc<TlsClientConfig>) -> Result<String, Failure> {
        let config = ConnectionConfig { opening: self.silence, ..ConnectionConfig::default() };
        let endpoint =
            Endpoint::builder().tls_client(tls.clone()).config(config).client().map_err(Failure::new)?;
        Ok(endpoint.connect(&host.to_string()).err().map_or_else(String::new, |error| error.to_string()))
    }

    fn goes_on(&self, host: &Host, peers: &KnownPeers) -> bool {
        peers.strange(&host.name).is_none() && !self.interrupted.load(Ordering::Relaxed)
    }
}
