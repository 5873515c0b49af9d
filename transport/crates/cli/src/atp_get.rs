//! `fountain atp-get`: files by HTTP/1.1 over streams of ATP.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Bytes};
use hyper::header;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use indicatif::ProgressBar;
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use transport::atp::{Connection, ConnectionConfig, Endpoint};

use crate::Failure;
use crate::args::AtpGet;
use crate::atp::{counted, reach};
use crate::console::{bar, clean, complain, print, say};
use crate::fetch::destination::{Destination, Wanted};
use crate::retry::on_stop;
use crate::security::Security;
use crate::serve::seconds;
use crate::target::{AtpUrl, Host};

/// What an error's body is shown of.
const MOST_SAID_BYTES: usize = 300;

/// What all transfers need.
struct Client {
    endpoint: Endpoint,
    security: Security,
    destination: Destination,
    retry: Duration,
    bar: ProgressBar,
    json: bool,
}

/// What became of a round.
#[derive(Default)]
struct Round {
    seconds: f64,
    bytes: u64,
    failed: usize,
}

pub(crate) fn run(args: &AtpGet) -> Result<ExitCode, Failure> {
    if args.rounds > 1 && !args.discard {
        return Err(Failure::usage("--rounds: only with --discard"));
    }
    let wanted =
        Wanted { output: &args.output, single: args.urls.len() == 1, discard: args.discard, dry_run: false };
    let destination = Destination::of(&wanted)?;
    let hosts: Vec<&Host> = args.urls.iter().map(|url| &url.host).collect();
    let config = ConnectionConfig { stays_open: true, ..args.atp.config()? };
    let (endpoint, security) = args.atp.connect(&args.peers, &hosts, config, args.retry)?;
    let client = Arc::new(Client {
        endpoint,
        security,
        destination,
        retry: seconds("--retry", args.retry)?,
        bar: bar(!args.quiet && !args.json),
        json: args.json,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::new)?;
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    on_stop(move || stop.notify_one())?;
    runtime.block_on(async {
        tokio::select! {
            done = client.clone().fetch(args) => done,
            () = stopped.notified() => Err(Failure::interrupted()),
        }
    })
}

impl Client {
    async fn fetch(self: Arc<Self>, args: &AtpGet) -> Result<ExitCode, Failure> {
        let connections = Arc::new(self.connect(args).await?);
        let (began, mut rounds) = (Instant::now(), Vec::new());
        for _ in 0..args.rounds {
            let (round_began, mut round) = (Instant::now(), Round::default());
            let mut transfers = JoinSet::new();
            for url in &args.urls {
                let (client, connections, url) = (self.clone(), connections.clone(), url.clone());
                transfers.spawn(async move {
                    let got = client.get(&connections[&url.host], &url).await;
                    (url, got)
                });
            }
            while let Some(transfer) = transfers.join_next().await {
                let (url, got) = transfer.map_err(Failure::new)?;
                match got {
                    Ok(bytes) => round.bytes += bytes,
                    Err(_) => round.failed += 1,
                }
                self.tell(&url, got);
            }
            round.seconds = round_began.elapsed().as_secs_f64();
            rounds.push(round);
        }
        self.bar.finish_and_clear();
        let failed: usize = rounds.iter().map(|round| round.failed).sum();
        let bytes: u64 = rounds.iter().map(|round| round.bytes).sum();
        let seconds = began.elapsed().as_secs_f64();
        if self.json {
            say(&json!({
                "event": "done",
                "complete": failed == 0,
                "files": args.urls.len(),
                "failed": failed,
                "bytes": bytes,
                "seconds": seconds,
                "rounds": rounds.iter().map(|r| json!({"seconds": r.seconds, "bytes": r.bytes})).collect::<Vec<_>>(),
                "atp": counted(&self.endpoint.statistics()),
            }));
        } else {
            let count = args.urls.len() - failed.min(args.urls.len());
            let rate = bytes as f64 * 8e-6 / seconds;
            print(format_args!(
                "{count} of {} files, {bytes} bytes in {seconds:.3} s, {rate:.1} Mbit/s",
                args.urls.len()
            ));
        }
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// A connection to each server.
    async fn connect(&self, args: &AtpGet) -> Result<HashMap<Host, Connection>, Failure> {
        let mut connections = HashMap::new();
        for url in &args.urls {
            if !connections.contains_key(&url.host) {
                let until = Instant::now() + self.retry;
                let connection = reach(&self.endpoint, &self.security, &url.host, until).await;
                let connection = connection.map_err(Failure::new)?;
                connections.insert(url.host.clone(), connection);
            }
        }
        Ok(connections)
    }

    /// Fetches a file to where it belongs; returns its bytes.
    async fn get(&self, connection: &Connection, url: &AtpUrl) -> Result<u64, String> {
        let stream = connection.open_stream().await.map_err(|e| e.to_string())?;
        let (mut requests, transfer) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
        tokio::spawn(transfer);
        let request = Request::get(&url.path)
            .header(header::HOST, url.host.to_string())
            .header(header::CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(|e| e.to_string())?;
        let answer = requests.send_request(request).await.map_err(|e| in_words(&e))?;
        let status = answer.status();
        let mut body = answer.into_body();
        if status != StatusCode::OK {
            let mut said = Vec::new();
            while let Some(Ok(frame)) = body.frame().await
                && said.len() < MOST_SAID_BYTES
            {
                said.extend(frame.into_data().unwrap_or_default());
            }
            let said = String::from_utf8_lossy(&said[..said.len().min(MOST_SAID_BYTES)]).trim().to_owned();
            return Err(if said.is_empty() { status.to_string() } else { said });
        }
        self.bar.inc_length(body.size_hint().exact().unwrap_or_default());
        let mut output = Output::of(&self.destination, &url.name).map_err(|e| e.to_string())?;
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(|e| in_words(&e))?.into_data() {
                bytes += data.len() as u64;
                self.bar.inc(data.len() as u64);
                tokio::task::block_in_place(|| output.write(&data))
                    .map_err(|e| format!("cannot write {}: {e}", url.name))?;
            }
        }
        output.publish().map_err(|e| format!("cannot write {}: {e}", url.name))?;
        Ok(bytes)
    }

    fn tell(&self, url: &AtpUrl, got: Result<u64, String>) {
        match (got, self.json) {
            (Ok(bytes), true) => say(&json!({"event": "fetched", "url": url.to_string(), "bytes": bytes})),
            (Err(why), true) => {
                say(&json!({"event": "failed", "url": url.to_string(), "why": clean(&why)}));
            }
            (Ok(_), false) => {}
            (Err(why), false) => self.bar.suspend(|| complain(&format!("{url}: {why}"))),
        }
    }
}

/// What hyper says, with its cause.
fn in_words(error: &hyper::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

/// Where the bytes of a file go.
enum Output {
    Nothing,
    Stream(File),
    /// Beside its place, which it takes once it is whole.
    File {
        part: NamedTempFile,
        directory: std::path::PathBuf,
        name: String,
    },
}

impl Output {
    fn of(destination: &Destination, name: &str) -> io::Result<Self> {
        let file = |directory: &Path, name: &str| {
            std::fs::create_dir_all(directory)?;
            let mut builder = tempfile::Builder::new();
            // As any new file: what of it the umask leaves.
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
            let part = builder.prefix(".fountain-").permissions(permissions).tempfile_in(directory)?;
            Ok(Output::File { part, directory: directory.to_owned(), name: name.to_owned() })
        };
        match destination {
            Destination::Nothing => Ok(Output::Nothing),
            Destination::Stream(stream) => Ok(Output::Stream(stream.try_clone()?)),
            Destination::Directory(directory) => file(directory, name),
            Destination::File(directory, name) => file(directory, name),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Output::Nothing => Ok(()),
            Output::Stream(stream) => stream.write_all(bytes),
            Output::File { part, .. } => part.write_all(bytes),
        }
    }

    fn publish(self) -> io::Result<()> {
        if let Output::File { part, directory, name } = self {
            part.persist(directory.join(name)).map_err(|e| e.error)?;
        }
        Ok(())
    }
}
