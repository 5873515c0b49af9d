//! Commands that go on trying, until all is there, they are interrupted, or there was no progress for too long.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::Failure;

/// Exit status after an interrupt, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Set by the first SIGINT or SIGTERM; the second one ends the process at once.
pub(crate) fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED.into(), interrupted.clone())
            .map_err(Failure::new)?;
        signal_hook::flag::register(signal, interrupted.clone()).map_err(Failure::new)?;
    }
    Ok(interrupted)
}

/// Calls `stop` at each SIGINT or SIGTERM, in a thread.
pub(crate) fn on_stop(stop: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(Failure::new)?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            stop();
        }
    });
    Ok(())
}

/// The exit status of what is `complete`, or was interrupted.
pub(crate) fn status(complete: bool, interrupted: &AtomicBool) -> ExitCode {
    match (complete, interrupted.load(Ordering::Relaxed)) {
        (true, _) => ExitCode::SUCCESS,
        (false, true) => ExitCode::from(INTERRUPTED),
        (false, false) => ExitCode::FAILURE,
    }
}

/// How long to wait before the next attempt, and whether there is to be one.
pub(crate) struct Retry {
    patience: Duration,
    progress: Instant,
    pause: Duration,
}

impl Retry {
    /// Gives up when there was no progress for so many seconds (the option `--retry`).
    pub(crate) fn new(seconds: f64) -> Result<Self, Failure> {
        let patience =
            Duration::try_from_secs_f64(seconds).map_err(|e| Failure::usage(format!("--retry: {e}")))?;
        Ok(Retry { patience, progress: Instant::now(), pause: FIRST_PAUSE })
    }

    /// There was progress, or there is something else to do.
    pub(crate) fn begin(&mut self) {
        (self.progress, self.pause) = (Instant::now(), FIRST_PAUSE);
    }

    /// The pause before the next attempt; `None` if it is time to give up.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        let pause = self.pause;
        self.pause = (2 * pause).min(LONGEST_PAUSE);
        (self.progress.elapsed() < self.patience).then_some(pause)
    }
}
