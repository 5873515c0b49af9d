//! Something under way: a thread waits for it, or a task does.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// A transfer that has been begun. [`Transfer::wait`] waits for its end in this thread; in a task of any executor, `await` does.
///
/// To drop it before its end is to cancel the transfer.
#[must_use = "to drop it is to cancel the transfer: wait for it, or await it"]
pub struct Transfer<T> {
    shared: Arc<Shared<T>>,
    cancel: Option<Cancel>,
}

pub(crate) type Cancel = Box<dyn FnOnce() + Send + Sync>;

struct Shared<T> {
    state: Mutex<State<T>>,
    ended: Condvar,
    bytes: Arc<AtomicU64>,
}

enum State<T> {
    Pending(Option<Waker>),
    Ended(Result<T>),
    Taken,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing can panic while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result, once it is there.
fn take<T>(state: &mut State<T>) -> Option<Result<T>> {
    match std::mem::replace(state, State::Taken) {
        State::Ended(result) => Some(result),
        before => {
            *state = before;
            None
        }
    }
}

impl<T> Transfer<T> {
    /// One that can be cancelled, and what ends it.
    pub(crate) fn new(cancel: impl FnOnce() + Send + Sync + 'static) -> (Self, Completer<T>) {
        let (state, ended) = (Mutex::new(State::Pending(None)), Condvar::new());
        let shared = Arc::new(Shared { state, ended, bytes: Arc::default() });
        (Transfer { shared: shared.clone(), cancel: Some(Box::new(cancel)) }, Completer { shared })
    }

    /// One that has ended.
    pub(crate) fn ended(result: Result<T>) -> Self {
        let (transfer, completer) = Transfer::new(|| ());
        completer.complete(result);
        transfer
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// What has come between.
    pub fn wait(mut self) -> Result<T> {
        let mut state = self.shared.lock();
        loop {
            if let Some(result) = take(&mut state) {
                drop(state);
                self.cancel = None;
                return result;
            }
            state = self.shared.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until it has ended, but no longer than `patience`. `None`: it goes on.
    pub fn wait_for(&mut self, patience: Duration) -> Option<Result<T>> {
        let until = Instant::now() + patience;
        let mut state = self.shared.lock();
        loop {
            if let Some(result) = take(&mut state) {
                drop(state);
                self.cancel = None;
                return Some(result);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.shared.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Bytes that are through so far.
    pub fn bytes_done(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }
}

impl<T> Future for Transfer<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let mut state = self.shared.lock();
        if let Some(result) = take(&mut state) {
            drop(state);
            self.cancel = None;
            return Poll::Ready(result);
        }
        if let State::Pending(waker) = &mut *state {
            *waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

impl<T> Drop for Transfer<T> {
    fn drop(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel();
        }
    }
}

impl<T> fmt::Debug for Transfer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer").field("bytes_done", &self.bytes_done()).finish_non_exhaustive()
    }
}

/// Ends a [`Transfer`]; as [`Error::Closed`], if it is dropped.
pub(crate) struct Completer<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Completer<T> {
    pub(crate) fn complete(self, result: Result<T>) {
        self.end(result);
    }

    fn end(&self, result: Result<T>) {
        let mut state = self.shared.lock();
        if let State::Pending(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Ended(result);
            drop(state);
            self.shared.ended.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Counts the bytes that are through.
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        self.shared.bytes.clone()
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        self.end(Err(Error::Closed));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn it_ends_once_and_wakes_who_waits() {
        let (transfer, completer) = Transfer::new(|| panic!("it has ended"));
        let waits = std::thread::spawn(|| transfer.wait());
        completer.complete(Ok(7));
        assert_eq!(waits.join().unwrap().unwrap(), 7);
    }

    #[test]
    fn to_drop_it_is_to_cancel_it_and_to_drop_its_end_is_an_error() {
        let cancelled = Arc::new(AtomicBool::new(false));
        let cancel = {
            let cancelled = cancelled.clone();
            move || cancelled.store(true, Ordering::Relaxed)
        };
        let (mut transfer, completer) = Transfer::<()>::new(cancel);
        assert!(transfer.wait_for(Duration::ZERO).is_none());
        assert!(!cancelled.load(Ordering::Relaxed));
        drop(transfer);
        assert!(cancelled.load(Ordering::Relaxed));
        drop(completer);
        let (transfer, completer) = Transfer::<()>::new(|| ());
        drop(completer);
        assert!(matches!(transfer.wait(), Err(Error::Closed)));
    }
}
