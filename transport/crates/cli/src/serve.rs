//! `fountain serve`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use proto::lttp::ServerConfig;
use serde_json::{Value, json};
use udp::{Limits, Root, ServeOptions, Serving};

use crate::args::Serve;
use crate::console::{print, say};
use crate::retry::on_stop;
use crate::{Failure, config as configuration, security};

pub(crate) fn run(args: &Serve, configured: Option<PathBuf>) -> Result<ExitCode, Failure> {
    let directory = configuration::directory(args.directory.as_ref(), configured)?;
    let root = Root::open(&directory)
        .map_err(|e| Failure::new(format!("cannot serve {}: {e}", directory.display())))?;
    let (tls, fingerprint) = security::server(&args.identity)?.unzip();
    let config = ServerConfig {
        start_bytes_per_s: args.start_rate.map(|bits| bits / 8.0),
        silence: seconds("--silence", args.silence)?,
        ecn: !args.no_ecn,
        ..ServerConfig::default()
    };
    let limits = Limits {
        bps: args.limit,
        bps_of_a_connection: args.limit_per_client,
        ..args.most.limits(args.memory)
    };
    // Each client has a connection, and each of its requests a file.
    udp::raise_file_limit();
    let options = ServeOptions { listen: args.listen, store: Arc::new(root), tls, config, limits };
    let mut serving = Serving::bind(options).map_err(Failure::new)?;
    let address = serving.local_addr().map_err(Failure::new)?;
    let stop = serving.stopper();
    on_stop(move || stop.stop())?;
    let fingerprint = fingerprint.map(|f| f.to_string());
    if args.json {
        say(&json!({
            "event": "listening",
            "addr": address.to_string(),
            "fingerprint": fingerprint,
            "bounds": bounds(&serving.limits()),
        }));
    } else {
        print(format_args!("serving {} on {address}", directory.display()));
        if let Some(fingerprint) = fingerprint {
            print(format_args!("clients trust this server with --fingerprint {fingerprint}"));
        }
    }
    let did = serving.run().map_err(Failure::new)?;
    if args.json {
        say(&json!({
            "event": "stopped",
            "connections": did.connections,
            "refused": did.refused,
            "completed": did.completed,
            "abandoned": did.abandoned,
            "strays": did.strays,
            "unsendable": did.unsendable,
            "peak_bytes": did.peak_bytes,
            "peak_files": did.peak_files,
            "symbols": did.data.symbols,
            "ect": did.data.ect,
            "ce": did.data.ce,
            "ecn_cleared": did.data.ecn_cleared,
            "ecn_dropped": did.data.ecn_dropped,
            "feedback": did.data.feedback,
            "unexpected": did.data.unexpected,
            "forged": did.data.forged,
            "replayed": did.data.replayed,
        }));
    } else {
        print(format_args!(
            "stopped: {} connections, {} requests complete, {} abandoned, {} symbols sent",
            did.connections, did.completed, did.abandoned, did.data.symbols
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// What all connections together may cost, for programs.
pub(crate) fn bounds(limits: &udp::Limits) -> Value {
    json!({
        "connections": limits.connections,
        "connections_per_address": limits.connections_of_an_address,
        "memory": limits.memory_bytes,
        "resident": limits.resident_bytes(),
        "files": limits.files,
        "bps": limits.bps,
        "bps_per_connection": limits.bps_of_a_connection,
    })
}

/// A length of time from the command line.
pub(crate) fn seconds(option: &str, seconds: f64) -> Result<Duration, Failure> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|d| !d.is_zero())
        .ok_or_else(|| Failure::usage(format!("{option} {seconds}: write a time in seconds above 0")))
}
