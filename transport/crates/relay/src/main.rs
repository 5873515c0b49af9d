//! The command `weir-relay`: carries frames between two interfaces, late, and loses some, as a long link does.
//!
//! For networks in namespaces where the kernel has no netem. Which frames are lost follows from a seed and their numbers
//! alone. It has no rate and no queue of its own: those are the switch's.

mod interface;
mod link;

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use polling::{Event, Events, PollMode, Poller};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::interface::Interface;
use crate::link::{Counters, Direction};

/// Frames that are read of one interface before the other has its turn.
const BATCH: usize = 64;

/// Carry frames between two interfaces, late, and lose some.
///
/// It says "ready" when it carries, goes on until SIGINT or SIGTERM, and then prints as JSON what it did. It needs the
/// capability to open raw sockets.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// One end
    a: String,
    /// The other
    b: String,
    /// How much later each frame comes out
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    delay_us: u64,
    /// Of frames from the first to the second interface, the share that is lost
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    loss_ab: f64,
    /// The same the other way
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    loss_ba: f64,
    /// Which frames are lost
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|p| (0.0..=1.0).contains(p))
        .ok_or_else(|| format!("{text:?}: a number from 0 to 1"))
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("weir-relay: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> io::Result<()> {
    let ended = Arc::new(AtomicBool::new(false));
    let poller = Arc::new(Poller::new()?);
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let (end, wake) = (ended.clone(), poller.clone());
    std::thread::spawn(move || {
        for _ in signals.forever() {
            end.store(true, Ordering::Relaxed);
            // It fails only when the poller is gone, and nobody waits.
            let _ = wake.notify();
        }
    });
    // By default the system may add 50 us to each wait. One that refuses is late by so much.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let ends = [Interface::open(&args.a)?, Interface::open(&args.b)?];
    let delay = Duration::from_micros(args.delay_us);
    let mut ways =
        [Direction::new(delay, args.loss_ab, args.seed), Direction::new(delay, args.loss_ba, !args.seed)];
    for (key, end) in ends.iter().enumerate() {
        // SAFETY: `ends` outlives the poller's last wait, and nothing else uses it.
        unsafe { poller.add_with_mode(&end.as_fd(), Event::readable(key), PollMode::Level)? };
    }
    println!("ready");
    let mut events = Events::new();
    while !ended.load(Ordering::Relaxed) {
        let due = ways.iter().filter_map(Direction::due).min();
        events.clear();
        match poller.wait(&mut events, due.map(|due| due.saturating_duration_since(Instant::now()))) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
        for (from, way) in ways.iter_mut().enumerate() {
            for _ in 0..BATCH {
                match ends[from].receive()? {
                    Some(frame) => way.enter(Instant::now(), frame),
                    None => break,
                }
            }
            while let Some(frame) = way.leave(Instant::now()) {
                let sent = ends[1 - from].send(frame);
                way.sent(sent);
            }
        }
    }
    let told = |way: &Direction| {
        let Counters { entered, lost, left, refused, late } = way.counters;
        let late_us = late.as_secs_f64() * 1e6 / (left.max(1) as f64);
        json!({"entered": entered, "lost": lost, "left": left, "refused": refused, "late_us": late_us})
    };
    println!("{}", json!({"ab": told(&ways[0]), "ba": told(&ways[1])}));
    Ok(())
}
