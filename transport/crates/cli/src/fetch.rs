//! `fountain fetch`.

mod attempt;
mod plan;
mod report;

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use proto::coding::{Method, lt_code};
use proto::lttp::ClientConfig;

use self::attempt::Attempt;
use self::plan::Plan;
use self::report::Report;
use crate::args::{self, Fetch};
use crate::serve::seconds;
use crate::trying::{Retry, interruption, status};
use crate::{Failure, security};

pub(crate) fn run(args: &Fetch) -> Result<ExitCode, Failure> {
    let interrupted = interruption()?;
    let tls = security::client(&args.trust)?;
    let config = config(args)?;
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
                None => Attempt::connect(&plan, tls.as_ref())?,
            };
            let before = plan.blocks_done();
            let whole = present.run(&mut plan, &mut report, &interrupted)?;
            if whole {
                attempt = Some(present);
                continue;
            }
            report.keep_servers(&present);
            plan.fit(present.has_swallowed());
            if plan.blocks_done() > before {
                retry.begin();
            }
            if plan.is_finished() || interrupted.load(Ordering::Relaxed) {
                break;
            }
            let Some(pause) = retry.pause() else { break };
            report.retrying(pause);
            std::thread::sleep(pause);
        }
        if let Some(attempt) = attempt {
            plan.keep_attempt(attempt);
        }
        if !plan.is_complete() {
            break;
        }
    }
    let stopped = interrupted.load(Ordering::Relaxed);
    plan.make_directories();
    let complete = report.finish(&mut plan, stopped);
    Ok(status(complete, &interrupted))
}

fn config(args: &Fetch) -> Result<ClientConfig, Failure> {
    let default = ClientConfig::default();
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
        ..default
    })
}
