//! `fountain fetch`.

mod attempt;
mod output;
mod plan;
mod report;
pub(crate) mod target;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proto::lttp::ClientConfig;
use signal_hook::consts::{SIGINT, SIGTERM};
use udp::tls::{self, Identity, Trust};
use wire::control;
use wire::packet;

use self::attempt::Attempt;
use self::plan::Plan;
use self::report::Report;
use crate::Failure;
use crate::args::{self, Fetch, SymbolBytes};
use crate::serve::seconds;

/// Exit status after an interrupt, as shells have it.
const INTERRUPTED: u8 = 130;
/// Between attempts to reach servers that are gone.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);
/// IPv6 and UDP, within an Ethernet frame's 1,500 bytes.
const MTU_PAYLOAD_BYTES: usize = 1500 - 40 - 8;

pub(crate) fn run(args: &Fetch) -> Result<ExitCode, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The second one ends it at once.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), interrupted.clone())
            .map_err(Failure::new)?;
        signal_hook::flag::register(signal, interrupted.clone()).map_err(Failure::new)?;
    }
    let tls = security(args)?;
    let config = config(args)?;
    let mut plan = Plan::new(args, &config)?;
    let mut report = Report::new(args);
    let retry =
        Duration::try_from_secs_f64(args.retry).map_err(|e| Failure::usage(format!("--retry: {e}")))?;
    for round in 0..args.rounds {
        if round > 0 {
            plan.again();
        }
        // Connections are kept from round to round.
        let mut attempt: Option<Attempt> = plan.take_attempt();
        let mut progress = Instant::now();
        let mut pause = FIRST_PAUSE;
        while !plan.is_finished() && !interrupted.load(Ordering::Relaxed) {
            let mut present = match attempt.take() {
                Some(attempt) => attempt,
                None => Attempt::connect(&plan, tls.as_ref(), &config)?,
            };
            let before = plan.blocks_done();
            let whole = present.run(&mut plan, &mut report, &interrupted)?;
            if whole {
                attempt = Some(present);
                continue;
            }
            report.keep_servers(&present);
            if plan.blocks_done() > before {
                (progress, pause) = (Instant::now(), FIRST_PAUSE);
            }
            if plan.is_finished() || interrupted.load(Ordering::Relaxed) || progress.elapsed() >= retry {
                break;
            }
            report.retrying(pause);
            std::thread::sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
        if let Some(attempt) = attempt {
            plan.keep_attempt(attempt);
        }
        if !plan.is_complete() {
            break;
        }
    }
    let stopped = interrupted.load(Ordering::Relaxed);
    let complete = report.finish(&mut plan, stopped);
    Ok(match (complete, stopped) {
        (true, _) => ExitCode::SUCCESS,
        (false, true) => ExitCode::from(INTERRUPTED),
        (false, false) => ExitCode::FAILURE,
    })
}

fn security(args: &Fetch) -> Result<Option<Arc<udp::TlsClientConfig>>, Failure> {
    if args.insecure {
        return Ok(None);
    }
    let trust = match (&args.ca, args.fingerprint.is_empty()) {
        (Some(file), _) => Trust::Authorities(file.clone()),
        (None, false) => Trust::Fingerprints(args.fingerprint.clone()),
        (None, true) => {
            return Err(Failure::usage(
                "which servers are to be believed? --fingerprint (as `fountain serve` prints it), --ca FILE, or \
                 --insecure for experiments",
            ));
        }
    };
    let identity = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => Some(Identity::load(cert, key).map_err(Failure::new)?),
        _ => None,
    };
    tls::client(&trust, identity).map(Some).map_err(Failure::new)
}

fn config(args: &Fetch) -> Result<ClientConfig, Failure> {
    let symbol_bytes = match args.symbol_bytes {
        SymbolBytes::Exactly(bytes) => bytes,
        // Symbols are fastest in multiples of a cache line's quarter.
        SymbolBytes::Mtu => {
            let around = packet::symbol_datagram_bytes(0, !args.insecure);
            ((MTU_PAYLOAD_BYTES - around) & !15) as u16
        }
    };
    let default = ClientConfig::default();
    Ok(ClientConfig {
        symbol_bytes,
        block_symbols: args.block_symbols,
        draw: match args.draw {
            args::Draw::Dealt => control::Draw::Dealt,
            args::Draw::Independent => control::Draw::Independent,
        },
        credits: args.pacing == args::Pacing::Client,
        window_floor_bytes: args.window.unwrap_or(default.window_floor_bytes),
        window_ceiling_bytes: args.window.unwrap_or(default.window_ceiling_bytes),
        silence: seconds("--silence", args.silence)?,
        ..default
    })
}
