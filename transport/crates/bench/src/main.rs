//! `bench-codec`: speed and reception overhead of the LT code beside its peers, in one run on one core.
//!
//! Prints a table and writes a flat JSON object of figures. Speeds are medians in 10^9 bytes of source data per
//! second. Encoding and decoding are of coded symbols alone: nothing is systematic. The code over windows of packets is beside the crate
//! rlnc, in nanoseconds a coded packet as well.

mod overhead;
mod report;
mod speed;
mod subjects;
mod windows;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use report::Report;

/// Speed and reception overhead of the LT code beside the crates raptorq, raptor-code and reed-solomon-simd, and of the code over windows
/// beside rlnc.
#[derive(Parser)]
#[command(name = "bench-codec")]
struct Arguments {
    /// Where the figures go, as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
    /// A tenth of the trials: to see that it runs, not to quote.
    #[arg(long)]
    quick: bool,
    /// Only the code over windows.
    #[arg(long, conflicts_with = "k")]
    windows_only: bool,
    /// Only this number of source symbols.
    #[arg(long)]
    k: Option<u16>,
    /// Only speed, no overhead.
    #[arg(long)]
    speed_only: bool,
    /// Seed of all trials.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const SYMBOL_BYTES: usize = 1024;
const BLOCKS: [u16; 4] = [64, 128, 256, 1024];

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let share = if arguments.quick { 10 } else { 1 };
    let mut report = Report::default();
    report.text("kernel", codec::xor::Kernel::best().name());
    report.figure("symbol_bytes", SYMBOL_BYTES as f64);
    report.figure("seed", arguments.seed as f64);
    if arguments.k.is_none() {
        windows::measure(100 / share, arguments.seed, &mut report);
    }
    let is_asked = |k: &u16| !arguments.windows_only && arguments.k.is_none_or(|only| only == *k);
    for k in BLOCKS.into_iter().filter(is_asked) {
        speed::measure(k, SYMBOL_BYTES, 100 / share, arguments.seed, &mut report);
        if !arguments.speed_only {
            overhead::measure(k, 10_000 / share, arguments.seed, &mut report);
        }
    }
    match arguments.out.map(|path| report.write(&path).map_err(|error| (path, error))) {
        Some(Err((path, error))) => {
            eprintln!("bench-codec: {}: {error}", path.display());
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
