//! Waiting for something to happen, up to a point.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::poller::{Events, Poller};

/// Ends a wait from any thread.
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    poller: Arc<Poller>,
}

impl Interrupt {
    pub(crate) fn of(poller: &Arc<Poller>) -> Self {
        Interrupt { asked: Arc::default(), poller: poller.clone() }
    }

    /// What asks for it.
    pub(crate) fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let (asked, poller) = (self.asked.clone(), self.poller.clone());
        Arc::new(move || {
            asked.store(true, Ordering::Relaxed);
            // It fails only when the poller is gone, and nobody waits.
            let _ = poller.notify();
        })
    }

    /// Whether it has been asked for since this was called last.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }
}

/// A wait that ends, in as many pieces as it takes.
pub(crate) struct Wait {
    until: Instant,
    pub(crate) events: Events,
}

impl Wait {
    pub(crate) fn for_at_most(patience: Duration) -> Self {
        Wait { until: Instant::now() + patience, events: Events::new() }
    }

    /// Sleeps so long, whatever happens meanwhile. False: patience is at an end.
    pub(crate) fn sleep(&mut self, time: Duration) -> bool {
        self.events.clear();
        let left = self.until.saturating_duration_since(Instant::now());
        std::thread::sleep(time.min(left));
        !left.is_zero()
    }

    /// Waits for events, or until something is due after `timeout`. False: patience is at an end.
    pub(crate) fn next(&mut self, poller: &Poller, timeout: Option<Duration>) -> io::Result<bool> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        poller.wait(&mut self.events, Some(timeout.map_or(left, |timeout| timeout.min(left))))?;
        Ok(true)
    }
}
