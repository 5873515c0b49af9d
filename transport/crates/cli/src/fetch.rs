//! `fountain fetch`.

mod attempt;
pub(crate) mod destination;
mod plan;
mod report;

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use proto::coding::{Method, lt_code};
use proto::lttp::ClientConfig;
use signal_hook::consts::SIGPIPE;

use self::attempt::Attempt;
use self::plan::Plan;
use self::report::Report;
use crate::args::{self, Fetch};
use crate::first_use::{Meeting, Speaks};
use crate::retry::{Retry, interruption, status};
use crate::serve::seconds;
use crate::target::Host;
use crate::{Failure, security};

pub(crate) fn run(args: &Fetch) -> Result<ExitCode, Failure> {
    let interrupted = interruption()?;
    let config = config(args)?;
    let meeting = Meeting {
        speaks: Speaks::Lttp,
        retry: args.retry,
        silence: config.silence,
        interrupted: &interrupted,
    };
    let hosts: Vec<&Host> = args.sources.iter().flat_map(|target| &target.hosts).collect();
    let security = security::client(&args.trust, &hosts, &meeting)?;
    if args.select.is_any() && !args.recursive {
        return Err(Failure::usage("--include and --exclude: they are for directories, with --recursive"));
    }
    let mut plan = Plan::new(args, &config)?;
    let mut report = Report::new(args);
    let mut retry = Retry::new(args.retry)?;
    for round in 0..args.rounds {
        if round > 0 {
            plan.again();
        }
        // Connections are kept from round to round.
        let mut attempt: Option<Attempt> = plan.take_attempt();
        retry.begin();
        while !plan.is_finished() && !interrupted.load(Ordering::Relaxed) {
            let mut present = match attempt.take() {
                Some(attempt) => attempt,
                None => Attempt::connect(&plan, security.tls.as_ref())?,
            };
            let before = plan.blocks_done();
            let whole = present.run(&mut plan, &mut report, &interrupted)?;
            if whole {
                attempt = Some(present);
                continue;
            }
            report.keep_servers(&present);
            security.require_unchanged()?;
            plan.fit();
            if plan.blocks_done() > before {
                retry.begin();
            }
            if plan.is_finished() || interrupted.load(Ordering::Relaxed) {
                break;
            }
            let Some(pause) = retry.pause() else { break };
            report.retrying(pause);
            std::thread::sleep(pause);
            plan.reach_again()?;
        }
        if let Some(attempt) = attempt {
            plan.keep_attempt(attempt);
        }
        if args.dry_run || !plan.is_complete() {
            break;
        }
    }
    let stopped = interrupted.load(Ordering::Relaxed);
    if args.dry_run {
        let complete = report.dry_run(&plan, interrupted.load(Ordering::Relaxed));
        return Ok(status(complete, &interrupted));
    }
    plan.drain(&interrupted);
    plan.make_directories();
    let complete = report.finish(&mut plan, stopped || interrupted.load(Ordering::Relaxed));
    if plan.lost_reader() {
        // As cat and others end then.
        signal_hook::low_level::emulate_default_handler(SIGPIPE).map_err(Failure::new)?;
    }
    Ok(status(complete, &interrupted))
}

fn config(args: &Fetch) -> Result<ClientConfig, Failure> {
    let default = ClientConfig::default();
    if args.limit.is_some() && args.pacing == args::Pacing::Tfrc {
        return Err(Failure::usage("--limit: with --pacing tfrc the servers alone say how fast"));
    }
    Ok(ClientConfig {
        code: lt_code(args.draw == args::Draw::Dealt, args.soliton_c, args.soliton_delta)
            .map_err(|e| Failure::usage(format!("--soliton-c, --soliton-delta: {e}")))?,
        method: match args.decoder {
            args::Decoder::Complete => Method::Complete,
            args::Decoder::Peeling => Method::Peeling,
        },
        credits: args.pacing == args::Pacing::Client,
        window_floor_bytes: args.window.unwrap_or(default.window_floor_bytes),
        window_ceiling_bytes: args.window.unwrap_or(default.window_ceiling_bytes),
        silence: seconds("--silence", args.silence)?,
        max_bps: args.limit,
        ..default
    })
}
