//! `fountain atp-serve`: files by HTTP/1.1 (RFC 9112), of which each connection is a stream of ATP.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Channel, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use proto::object::Object;
use serde_json::json;
use tokio::sync::Notify;
use transport::atp::{Connection, ConnectionConfig, Endpoint};
use udp::{Refused, Root, Source, Store};
use wire::control::Refusal;

use crate::args::AtpServe;
use crate::atp::counted;
use crate::console::{clean, print, say};
use crate::retry::on_stop;
use crate::serve::bounds;
use crate::{Failure, config};

/// Bytes that are read of a file at once.
const READ_BYTES: usize = 256 << 10;
/// Reads that may wait to be sent, of one answer.
const READS_AHEAD: usize = 2;

type Answer = Response<BoxBody<Bytes, io::Error>>;

/// What all requests need.
struct Server {
    root: Arc<Root>,
    json: bool,
    requests: AtomicU64,
    failed: AtomicU64,
}

pub(crate) fn run(args: &AtpServe) -> Result<ExitCode, Failure> {
    let directory = config::directory(args.directory.as_ref(), None)?;
    let root = Root::open(&directory)
        .map_err(|e| Failure::new(format!("cannot serve {}: {e}", directory.display())))?;
    let config = ConnectionConfig { max_streams: args.max_requests, ..args.atp.config()? };
    udp::raise_file_limit();
    let endpoint = args.atp.listen(&args.peers, &args.listen, config)?;
    let (address, fingerprint) = (endpoint.address(), endpoint.fingerprint().map(|f| f.to_string()));
    if args.json {
        say(&json!({
            "event": "listening",
            "addr": address.to_string(),
            "fingerprint": fingerprint,
            "bounds": bounds(&args.atp.limits()),
        }));
    } else {
        print(format_args!("serving {} on atp://{address}", directory.display()));
        if let Some(fingerprint) = fingerprint {
            print(format_args!("clients trust this server with --fingerprint {fingerprint}"));
        }
    }
    let server = Arc::new(Server {
        root: Arc::new(root),
        json: args.json,
        requests: AtomicU64::new(0),
        failed: AtomicU64::new(0),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::new)?;
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    on_stop(move || stop.notify_one())?;
    runtime.block_on(async {
        tokio::select! {
            () = server.clone().serve(endpoint.clone()) => {}
            () = stopped.notified() => {}
        }
    });
    endpoint.shut_down(0, "the server is stopping").map_err(Failure::new)?;
    let (requests, failed) = (server.requests.load(Relaxed), server.failed.load(Relaxed));
    let statistics = endpoint.statistics();
    if args.json {
        say(
            &json!({"event": "stopped", "requests": requests, "failed": failed, "atp": counted(&statistics)}),
        );
    } else {
        let connections = statistics.endpoint.accepted;
        print(format_args!(
            "stopped: {connections} connections, {requests} requests, of which {failed} without success"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

impl Server {
    async fn serve(self: Arc<Self>, endpoint: Endpoint) {
        while let Some(connection) = endpoint.next().await {
            tokio::spawn(self.clone().attend(connection));
        }
    }

    /// Serves a client: each of its streams is a connection of HTTP.
    async fn attend(self: Arc<Self>, connection: Connection) {
        let peer = connection.remote();
        while let Ok(stream) = connection.next_stream().await {
            let server = self.clone();
            tokio::spawn(async move {
                let answer = |request| {
                    let server = server.clone();
                    async move { Ok::<_, Infallible>(server.answer(peer, request).await) }
                };
                // What fails is told to the client, or it is gone.
                let _ = hyper::server::conn::http1::Builder::new()
                    .half_close(true)
                    .serve_connection(TokioIo::new(stream), service_fn(answer))
                    .await;
            });
        }
    }

    async fn answer(&self, peer: SocketAddr, request: Request<Incoming>) -> Answer {
        let answer = self.find(&request).await.unwrap_or_else(|(status, why)| {
            let mut answer = Response::new(text(format!("{why}\n")));
            *answer.status_mut() = status;
            if status == StatusCode::METHOD_NOT_ALLOWED {
                answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            answer
        });
        let status = answer.status();
        self.requests.fetch_add(1, Relaxed);
        if !status.is_success() && status != StatusCode::NOT_MODIFIED {
            self.failed.fetch_add(1, Relaxed);
        }
        if self.json {
            say(&json!({
                "event": "answered",
                "peer": peer.to_string(),
                "method": request.method().as_str(),
                "path": clean(request.uri().path()),
                "status": status.as_u16(),
                "bytes": answer.body().size_hint().exact(),
            }));
        }
        answer
    }

    async fn find(&self, request: &Request<Incoming>) -> Result<Answer, (StatusCode, String)> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return Err((StatusCode::METHOD_NOT_ALLOWED, format!("{} is not done here", request.method())));
        }
        let path = percent_decode_str(request.uri().path().trim_start_matches('/'));
        let path = path
            .decode_utf8()
            .map_err(|_| (StatusCode::BAD_REQUEST, "a path that is not UTF-8".to_owned()))?;
        // The directory itself is there, and no file.
        let path = if path.is_empty() { ".".to_owned() } else { path.into_owned() };
        let source = self.open(path).await.map_err(|(why, detail)| (status_of(why), detail))?;
        let object = source.object();
        let tag = format!("\"{}\"", hex(&object.version.0));
        let mut answer = Response::new(text(String::new()));
        let headers = answer.headers_mut();
        headers.insert(header::ETAG, value(&tag));
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(header::LAST_MODIFIED, value(&httpdate::fmt_http_date(modified(&object))));
        let given = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let is_same = |known: &str| known == "*" || known.split(',').any(|one| one.trim() == tag);
        if given(header::IF_NONE_MATCH).is_some_and(is_same) {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(answer);
        }
        // Of a file that has changed since, all is sent (RFC 9110, section 13.1.5).
        let is_current = given(header::IF_RANGE).is_none_or(|known| known == tag);
        let part = given(header::RANGE).filter(|_| is_current && request.method() == Method::GET);
        let bytes = match part.map(|part| range_of(part, object.size)) {
            Some(Some(bytes)) => {
                *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
                let part = format!("bytes {}-{}/{}", bytes.start(), bytes.end(), object.size);
                answer.headers_mut().insert(header::CONTENT_RANGE, value(&part));
                *bytes.start()..bytes.end() + 1
            }
            Some(None) => {
                *answer.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
                let whole = value(&format!("bytes */{}", object.size));
                answer.headers_mut().insert(header::CONTENT_RANGE, whole);
                return Ok(answer);
            }
            None => 0..object.size,
        };
        answer.headers_mut().insert(header::CONTENT_LENGTH, (bytes.end - bytes.start).into());
        if request.method() == Method::GET {
            *answer.body_mut() = content(source, bytes).await?;
        }
        Ok(answer)
    }

    async fn open(&self, path: String) -> Result<Arc<dyn Source>, Refused> {
        if let Some(source) = self.root.open_at_once(&path) {
            return Ok(source);
        }
        let root = self.root.clone();
        waiting(move || root.open(&path)).await
    }
}

/// Does what may have to wait for a disk.
async fn waiting<T: Send + 'static>(
    does: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let done = tokio::task::spawn_blocking(does).await;
    done.unwrap_or_else(|error| Err((Refusal::Unreadable, error.to_string())))
}

/// Reads bytes of a file.
async fn read(source: &Arc<dyn Source>, offset: u64, count: usize) -> Result<Bytes, Refused> {
    let mut bytes = vec![0; count];
    if let Some(read) = source.read_at_once(offset, &mut bytes) {
        return read.map(|()| bytes.into());
    }
    let source = source.clone();
    waiting(move || source.read_at(offset, &mut bytes).map(|()| bytes.into())).await
}

/// The body of an answer: what is short is read before the answer begins, so that what goes wrong with it can be said.
async fn content(
    source: Arc<dyn Source>,
    bytes: std::ops::Range<u64>,
) -> Result<BoxBody<Bytes, io::Error>, (StatusCode, String)> {
    let of = |at: u64| (bytes.end - at).min(READ_BYTES as u64) as usize;
    let first = read(&source, bytes.start, of(bytes.start)).await;
    let first = first.map_err(|(why, detail)| (status_of(why), detail))?;
    let mut at = bytes.start + first.len() as u64;
    if at == bytes.end {
        return Ok(Full::new(first).map_err(|never| match never {}).boxed());
    }
    let (mut sender, body) = Channel::<Bytes, io::Error>::new(READS_AHEAD);
    let end = bytes.end;
    tokio::spawn(async move {
        let mut next = Ok(first);
        loop {
            match next {
                Ok(bytes) => {
                    // It fails when the client is gone.
                    if sender.send_data(bytes).await.is_err() || at == end {
                        return;
                    }
                }
                Err((_, detail)) => return sender.abort(io::Error::other(detail)),
            }
            let count = (end - at).min(READ_BYTES as u64) as usize;
            next = read(&source, at, count).await;
            at += count as u64;
        }
    });
    Ok(body.boxed())
}

fn text(text: String) -> BoxBody<Bytes, io::Error> {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

/// A header's value of characters that one can have.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// When it was changed; what was before 1970 counts as then, since HTTP knows no earlier dates.
fn modified(object: &Object) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(object.modified_ns.max(0) as u64)
}

/// The one range of bytes that is asked for; none if there is none such in so many bytes. Of several, whoever asks gets nothing.
fn range_of(part: &str, size: u64) -> Option<RangeInclusive<u64>> {
    let ranges = http_range_header::parse_range_header(part).ok()?.validate(size).ok()?;
    match ranges.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    }
}

fn status_of(why: Refusal) -> StatusCode {
    match why {
        Refusal::NotFound => StatusCode::NOT_FOUND,
        Refusal::BadPath => StatusCode::BAD_REQUEST,
        Refusal::Busy => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
