//! Metrics of the layer, as Prometheus reads them (the text format 0.0.4).

use std::convert::Infallible;
use std::fmt::Write;
use std::net::SocketAddr;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use proto::acc::PeerStatistics;
use udp::acc::{Handle, Statistics};

use crate::Failure;

type Value = fn(&PeerStatistics) -> f64;

/// Of each peer: name, kind, help, and what it is.
const OF_PEERS: &[(&str, &str, &str, Value)] = &[
    ("up", "gauge", "Whether the host is a peer.", |peer| f64::from(u8::from(peer.up))),
    ("rtt_seconds", "gauge", "Round trip, smoothed.", |peer| peer.rtt.unwrap_or_default().as_secs_f64()),
    ("loss_ratio", "gauge", "Share of the packets sent that is lost.", |peer| peer.loss),
    ("flows", "gauge", "Flows that are sent.", |peer| peer.flows.len() as f64),
    ("held_bytes", "gauge", "Bytes held of what the peer has sent.", |peer| peer.held_bytes as f64),
    ("packets_sent_total", "counter", "Packets of TCP sent.", |peer| peer.sent as f64),
    ("packets_received_total", "counter", "Packets of TCP received.", |peer| peer.came as f64),
    ("packets_lost_total", "counter", "Packets that were missed, recovered or not.", |peer| peer.lost as f64),
    ("packets_recovered_total", "counter", "Packets recovered by coded ones.", |peer| {
        peer.receiver.recovered as f64
    }),
    ("coded_window_total", "counter", "Coded packets sent at ends of windows (c1).", |peer| {
        peer.sender.at_ends as f64
    }),
    ("coded_loss_total", "counter", "Coded packets sent on losses (c2).", |peer| {
        peer.sender.on_losses as f64
    }),
    ("coded_received_total", "counter", "Coded packets received.", |peer| peer.receiver.coded as f64),
    ("coded_useless_total", "counter", "Coded packets received that were of no use.", |peer| {
        peer.receiver.useless as f64
    }),
    ("timeouts_avoided_total", "counter", "Timeouts of TCP avoided, as likely as they were.", |peer| {
        peer.sender.timeouts_avoided
    }),
];

fn of_layer(all: &Statistics) -> [(&'static str, &'static str, u64); 6] {
    let counters = &all.counters;
    [
        ("malformed", "malformed", counters.malformed),
        ("forged", "forged or replayed", counters.forged),
        ("unknown", "of no session", counters.unknown),
        ("refused", "probes under another key", counters.refused),
        ("undelivered", "not taken by the host", all.undelivered),
        ("unsent", "not taken by the network", all.unsent),
    ]
}

/// All of them.
fn text(all: &Statistics) -> String {
    let mut text = String::new();
    for (name, kind, help, value) in OF_PEERS {
        let _ = writeln!(text, "# HELP weir_acc_{name} {help}\n# TYPE weir_acc_{name} {kind}");
        for peer in &all.peers {
            let _ = writeln!(text, "weir_acc_{name}{{peer=\"{}\"}} {}", peer.pair.remote, value(peer));
        }
    }
    let _ = writeln!(
        text,
        "# HELP weir_acc_dropped_total What was dropped, by reason.\n# TYPE weir_acc_dropped_total counter"
    );
    for (reason, _, count) in of_layer(all) {
        let _ = writeln!(text, "weir_acc_dropped_total{{reason=\"{reason}\"}} {count}");
    }
    text
}

/// Serves them from now on, in a thread. Returns where.
pub(super) fn serve(address: SocketAddr, layer: Handle) -> Result<SocketAddr, Failure> {
    let told = |e| Failure::new(format!("cannot serve metrics on {address}: {e}"));
    let listener = std::net::TcpListener::bind(address).map_err(told)?;
    listener.set_nonblocking(true).map_err(told)?;
    let bound = listener.local_addr().map_err(told)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(told)?;
    std::thread::spawn(move || {
        runtime.block_on(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            while let Ok((stream, _)) = listener.accept().await {
                let layer = layer.clone();
                let answer = service_fn(move |request: Request<Incoming>| {
                    let layer = layer.clone();
                    async move { Ok::<_, Infallible>(answer(&request, &layer)) }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
                );
            }
        });
    });
    Ok(bound)
}

fn answer(request: &Request<Incoming>, layer: &Handle) -> Response<Full<Bytes>> {
    let status = |status| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = status;
        response
    };
    if request.uri().path() != "/metrics" {
        return status(StatusCode::NOT_FOUND);
    }
    let Some(all) = layer.statistics() else { return status(StatusCode::SERVICE_UNAVAILABLE) };
    let mut response = Response::new(Full::from(text(&all)));
    let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
