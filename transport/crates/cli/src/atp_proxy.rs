//! `fountain atp-proxy`: TCP connections over streams of ATP.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Notify};
use transport::atp::{Closed, Connection, ConnectionConfig, Endpoint, Stream};

use crate::Failure;
use crate::args::AtpProxy;
use crate::atp::{PAUSE, counted, reach};
use crate::console::{clean, complain, print, say};
use crate::retry::on_stop;
use crate::security::Security;
use crate::serve::{bounds, seconds};
use crate::target::{Host, Place};

/// Bytes that are read at once, in either direction.
const READ_BYTES: usize = 64 << 10;
/// What all streams together may have unread. The memory of all of them is what bounds them; a stream alone has far less.
const WINDOW_BYTES: u64 = 1 << 30;
const STREAM_BYTES: u64 = 1 << 20;
/// What streams are given up with.
const CODE_UNREACHABLE: u64 = 1;
const CODE_BROKEN: u64 = 2;
/// A client that says nothing for so long waits for its server to speak first.
const SPEAKS_FIRST: Duration = Duration::from_millis(2);
/// The system has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the proxy has carried.
#[derive(Default)]
struct Counts {
    opened: AtomicU64,
    closed: AtomicU64,
    failed: AtomicU64,
    to_atp_bytes: AtomicU64,
    from_atp_bytes: AtomicU64,
    reconnected: AtomicU64,
}

/// What all parts of the proxy need.
struct Proxy {
    endpoint: Endpoint,
    counts: Counts,
    retry: Duration,
    json: bool,
}

pub(crate) fn run(args: &AtpProxy) -> Result<ExitCode, Failure> {
    let config = ConnectionConfig {
        window_bytes: WINDOW_BYTES,
        max_window_bytes: WINDOW_BYTES,
        max_stream_window_bytes: STREAM_BYTES,
        send_bytes: WINDOW_BYTES as usize,
        stream_send_bytes: STREAM_BYTES as usize / 2,
        max_streams: args.max_streams,
        stays_open: true,
        ..args.atp.config()?
    };
    let retry = seconds("--retry", args.retry)?;
    let stats = args.stats.map(|every| seconds("--stats", every)).transpose()?;
    // Each stream has a connection of TCP.
    udp::raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::new)?;
    match (&args.from, &args.to) {
        (Place::Tcp(from), Place::Atp(to)) => {
            let (endpoint, security) = args.atp.connect(&args.peers, &[to], config, args.retry)?;
            let proxy = Arc::new(Proxy { endpoint, counts: Counts::default(), retry, json: args.json });
            let near = Near { proxy: proxy.clone(), to: to.clone(), security, link: Mutex::new(None) };
            let from = from.clone();
            runtime.block_on(async move {
                let listener = listen(&from).await?;
                let address = listener.local_addr().map_err(Failure::new)?;
                proxy.begun(&format!("tcp://{address}"), &args.to, args);
                proxy.until_stopped(stats, Arc::new(near).serve(listener)).await
            })
        }
        (Place::Atp(from), Place::Tcp(to)) => {
            let endpoint = args.atp.listen(&args.peers, from, config)?;
            let proxy = Arc::new(Proxy { endpoint, counts: Counts::default(), retry, json: args.json });
            proxy.begun(&format!("atp://{}", proxy.endpoint.address()), &args.to, args);
            let to = to.clone();
            runtime.block_on(async { proxy.until_stopped(stats, proxy.clone().serve(to)).await })
        }
        _ => Err(Failure::usage(
            "one end is TCP and the other one ATP: write tcp://ADDRESS:PORT atp://HOST, or atp://ADDRESS:PORT tcp://HOST:PORT",
        )),
    }
}

async fn listen(host: &Host) -> Result<TcpListener, Failure> {
    let cannot = |error| {
        Failure::new(format!(
            "cannot listen on {host}: {error}; choose another address, or end what listens there"
        ))
    };
    TcpListener::bind(host.to_string()).await.map_err(cannot)
}

impl Proxy {
    fn begun(&self, from: &str, to: &Place, args: &AtpProxy) {
        let fingerprint = self.endpoint.fingerprint().map(|fingerprint| fingerprint.to_string());
        if self.json {
            say(&json!({
                "event": "listening",
                "from": from,
                "to": to.to_string(),
                "fingerprint": fingerprint,
                "bounds": bounds(&args.atp.limits()),
            }));
            return;
        }
        print(format_args!("carrying {from} to {to}"));
        if let Some(fingerprint) = fingerprint {
            print(format_args!("the other proxy trusts this one with --fingerprint {fingerprint}"));
        }
    }

    /// Serves until somebody ends it, and tells what was done.
    async fn until_stopped(
        &self,
        stats: Option<Duration>,
        serving: impl Future<Output = ()>,
    ) -> Result<ExitCode, Failure> {
        let stop = Arc::new(Notify::new());
        let stopped = stop.clone();
        on_stop(move || stop.notify_one())?;
        let telling = async {
            let Some(every) = stats else { return std::future::pending().await };
            loop {
                tokio::time::sleep(every).await;
                self.tell("stats");
            }
        };
        tokio::select! {
            () = serving => {}
            () = stopped.notified() => {}
            () = telling => {}
        }
        let endpoint = self.endpoint.clone();
        let left = tokio::task::spawn_blocking(move || endpoint.shut_down(0, "the proxy has ended")).await;
        self.tell("stopped");
        left.map_err(Failure::new)?.map_err(Failure::new)?;
        Ok(ExitCode::SUCCESS)
    }

    fn tell(&self, event: &str) {
        let Counts { opened, closed, failed, to_atp_bytes, from_atp_bytes, reconnected } = &self.counts;
        let (opened, closed, failed) = (opened.load(Relaxed), closed.load(Relaxed), failed.load(Relaxed));
        let (to, from) = (to_atp_bytes.load(Relaxed), from_atp_bytes.load(Relaxed));
        let statistics = self.endpoint.statistics();
        if self.json {
            say(&json!({
                "event": event,
                "opened": opened,
                "closed": closed,
                "failed": failed,
                "to_atp_bytes": to,
                "from_atp_bytes": from,
                "reconnected": reconnected.load(Relaxed),
                "atp": counted(&statistics),
            }));
            return;
        }
        let data = statistics.data;
        print(format_args!(
            "{event}: {opened} connections, {} open, {failed} failed; {to} bytes to ATP, {from} from it; of {} packets {} were parity, \
             {} were asked for again, {} timed out; parity repaired {} here and {} there",
            opened - closed,
            data.sent,
            data.parity,
            data.requested,
            data.timed_out,
            data.repaired,
            data.repaired_at_peer,
        ));
    }

    fn say(&self, what: impl FnOnce() -> Value) {
        if self.json {
            say(&what());
        }
    }

    /// The side of the servers: takes streams, and connects each to one.
    async fn serve(self: Arc<Self>, to: Host) {
        while let Some(connection) = self.endpoint.next().await {
            let (proxy, to) = (self.clone(), to.clone());
            tokio::spawn(async move {
                let peer = connection.remote();
                proxy.say(|| {
                    let fingerprint = connection.peer().map(|fingerprint| fingerprint.to_string());
                    json!({"event": "connected", "peer": peer.to_string(), "fingerprint": fingerprint})
                });
                while let Ok(stream) = connection.next_stream().await {
                    let (proxy, to) = (proxy.clone(), to.clone());
                    tokio::spawn(async move { proxy.forward(stream, peer, &to).await });
                }
                let why = connection.ended().await;
                proxy.say(
                    || json!({"event": "lost", "peer": peer.to_string(), "why": clean(&why.to_string())}),
                );
            });
        }
    }

    async fn forward(&self, stream: Stream, peer: SocketAddr, to: &Host) {
        let began = Instant::now();
        let id = self.opened(peer);
        let reached = loop {
            match TcpStream::connect((to.name.as_str(), to.port)).await {
                Err(error) if began.elapsed() + PAUSE >= self.retry => break Err(error),
                Err(_) => tokio::time::sleep(PAUSE).await,
                reached => break reached,
            }
        };
        match reached {
            Ok(tcp) => self.carry(id, began, tcp, stream).await,
            Err(error) => {
                stream.abort(CODE_UNREACHABLE);
                self.fail(id, began, format!("{to} cannot be reached: {error}"));
            }
        }
    }

    fn opened(&self, from: SocketAddr) -> u64 {
        let id = self.counts.opened.fetch_add(1, Relaxed);
        self.say(|| json!({"event": "opened", "id": id, "from": from.to_string()}));
        id
    }

    fn fail(&self, id: u64, began: Instant, why: String) {
        self.counts.failed.fetch_add(1, Relaxed);
        let closed = Ended { id, began, sent: 0, received: 0, error: Some(why) };
        self.closed(closed);
    }

    fn closed(&self, ended: Ended) {
        let Ended { id, began, sent, received, error } = ended;
        self.counts.closed.fetch_add(1, Relaxed);
        if self.json {
            say(&json!({
                "event": "closed",
                "id": id,
                "to_atp_bytes": sent,
                "from_atp_bytes": received,
                "seconds": began.elapsed().as_secs_f64(),
                "error": error.as_deref().map(clean),
            }));
        } else if let Some(error) = error {
            complain(&clean(&error));
        }
    }

    /// Carries bytes both ways, each way to its end. If one way breaks, so does the other.
    async fn carry(&self, id: u64, began: Instant, mut tcp: TcpStream, stream: Stream) {
        // What is written is sent at once, as on the way here.
        let _ = tcp.set_nodelay(true);
        let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
        let (mut from_tcp, mut to_tcp) = tcp.split();
        let (mut from_atp, mut to_atp) = stream.split();
        let carried = tokio::try_join!(
            copy(&mut from_tcp, &mut to_atp, [&sent, &self.counts.to_atp_bytes]),
            copy(&mut from_atp, &mut to_tcp, [&received, &self.counts.from_atp_bytes]),
        );
        if carried.is_err() {
            // Neither end is to take this for a good one: TCP resets, and the stream is given up as it is dropped.
            let _ = tcp.set_zero_linger();
            to_atp.set_code(CODE_BROKEN);
            self.counts.failed.fetch_add(1, Relaxed);
        }
        let error = carried.err().map(|error| error.to_string());
        let (sent, received) = (sent.into_inner(), received.into_inner());
        self.closed(Ended { id, began, sent, received, error });
    }
}

/// A TCP connection that is over.
struct Ended {
    id: u64,
    began: Instant,
    sent: u64,
    received: u64,
    error: Option<String>,
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    counts: [&AtomicU64; 2],
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..count]).await?;
        for counted in counts {
            counted.fetch_add(count as u64, Relaxed);
        }
    }
}

/// The side of the clients: takes TCP connections, and opens a stream for each.
struct Near {
    proxy: Arc<Proxy>,
    to: Host,
    security: Security,
    /// The connection that all share, as long as it lasts.
    link: Mutex<Option<Connection>>,
}

impl Near {
    async fn serve(self: Arc<Self>, listener: TcpListener) {
        // The first connection is to find everything ready.
        let ahead = self.clone();
        tokio::spawn(async move {
            if let Err(why) = ahead.linked().await {
                complain(&why);
            }
        });
        let accepting = async {
            loop {
                match listener.accept().await {
                    Ok((tcp, from)) => {
                        let near = self.clone();
                        tokio::spawn(async move { near.take(tcp, from).await });
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
        };
        // Nobody connects to this end of ATP: that is over when its socket has failed, and then so is the proxy.
        let failed = async { while self.proxy.endpoint.next().await.is_some() {} };
        tokio::select! {
            () = accepting => {}
            () = failed => {}
        }
    }

    async fn take(&self, tcp: TcpStream, from: SocketAddr) {
        let began = Instant::now();
        let id = self.proxy.opened(from);
        match self.stream().await {
            Ok(stream) => {
                if tokio::time::timeout(SPEAKS_FIRST, tcp.peek(&mut [0])).await.is_err() {
                    stream.announce();
                }
                self.proxy.carry(id, began, tcp, stream).await;
            }
            Err(why) => {
                let _ = tcp.set_zero_linger();
                self.proxy.fail(id, began, why);
            }
        }
    }

    /// A new stream. If the connection is over, of a new one.
    async fn stream(&self) -> Result<Stream, String> {
        let connection = self.linked().await?;
        match connection.open_stream().await {
            Ok(stream) => Ok(stream),
            Err(_) => self.linked().await?.open_stream().await.map_err(|error| error.to_string()),
        }
    }

    /// The connection that all share.
    async fn linked(&self) -> Result<Connection, String> {
        let until = Instant::now() + self.proxy.retry;
        // One tries to connect; the others wait for that, each no longer than it would try itself.
        let link = tokio::time::timeout_at(until.into(), self.link.lock()).await;
        let mut link = link.map_err(|_| format!("{} does not answer", self.to))?;
        if let Some(connection) = link.take_if(|connection| connection.is_over()) {
            self.proxy.counts.reconnected.fetch_add(1, Relaxed);
            let why = connection.ended().await;
            self.lost(&why);
        }
        if let Some(connection) = &*link {
            return Ok(connection.clone());
        }
        let connection = reach(&self.proxy.endpoint, &self.security, &self.to, until).await?;
        let peer = connection.remote().to_string();
        self.proxy.say(|| json!({"event": "connected", "peer": peer}));
        Ok(link.insert(connection).clone())
    }

    fn lost(&self, why: &Closed) {
        let why = clean(&why.to_string());
        if self.proxy.json {
            say(&json!({"event": "lost", "peer": self.to.to_string(), "why": why}));
        } else {
            complain(&format!("{} is gone: {why}", self.to));
        }
    }
}
