//! `fountain fetch`.

mod attempt;
mod plan;
mod report;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proto::lttp::ClientConfig;
use signal_hook::consts::{SIGINT, SIGTERM};
use wire::control;

use self::attempt::Attempt;
use self::plan::Plan;
use self::report::Report;
use crate::args::{self, Fetch};
use crate::serve::seconds;
use crate::{Failure, security};

/// Exit status after an interrupt, as shells have it.
const INTERRUPTED: u8 = 130;
/// Between attempts to reach servers that are gone.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

pub(crate) fn run(args: &Fetch) -> Result<ExitCode, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The second one ends it at once.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), interrupted.clone())
            .map_err(Failure::new)?;
        signal_hook::flag::register(signal, interrupted.clone()).map_err(Failure::new)?;
    }
    let tls = security::client(&args.trust)?;
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

fn config(args: &Fetch) -> Result<ClientConfig, Failure> {
    let symbol_bytes = args.symbol_bytes.exactly(!args.trust.insecure);
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
