//! Threads that wait for what tasks are polled for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::Instant;

struct Parked {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Waits in this thread until something is ready.
pub(super) fn wait_for<T>(poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    wait_until(None, poll).expect("without a deadline it waits until there is something")
}

/// The same, up to a point; `None`: that has come first.
pub(super) fn wait_until<T>(
    deadline: Option<Instant>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    let parked = Arc::new(Parked { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = parked.clone().into();
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = poll(&mut context) {
            return Some(done);
        }
        // A thread may be unparked for other reasons.
        while !parked.woken.swap(false, Ordering::Acquire) {
            match deadline {
                None => thread::park(),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    thread::park_timeout(left);
                }
            }
        }
    }
}
