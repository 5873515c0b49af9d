//! The time that the state machines are given: nanoseconds since the driver began.

use std::num::NonZeroU64;
use std::time::Instant;

use proto::Time;

/// A monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// The time since its start.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
}

/// Makes this thread's sleeps end when they should: by default Linux may add 50 µs to each, which is half of what
/// a burst lasts.
pub(crate) fn sleep_precisely() {
    // A kernel that refuses paces more coarsely; nothing else depends on it.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
