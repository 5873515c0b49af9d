//! What a sender would send, until the program says where it goes.

use std::collections::VecDeque;
use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use udp::{JobId, Sink};
use wire::control::{self, Refusal, is_directory};

use super::engine::{Ended, Order};
use crate::engine::Remote;
use crate::error::{Error, Result};
use crate::sink::{Bytes, InOrder};
use crate::transfer::Transfer;

/// An object that a sender would send. To drop it is to refuse it.
pub struct Offer {
    pub(super) job: JobId,
    pub(super) from: SocketAddr,
    pub(super) offer: control::Offer,
    pub(super) remote: Remote<Order>,
    pub(super) memory_bytes: u64,
    pub(super) taken: bool,
}

impl Offer {
    /// Its name: a relative path without `.` and `..`. It may have characters that control a terminal.
    pub fn name(&self) -> &str {
        &self.offer.path
    }

    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.offer.parameters.size
    }

    /// Who has it.
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    /// When it was changed at the sender, in nanoseconds since 1970.
    pub fn modified_ns(&self) -> i64 {
        self.offer.parameters.modified_ns
    }

    /// Its type and its permission bits, as POSIX has them in `st_mode`.
    pub fn mode(&self) -> u32 {
        self.offer.parameters.mode
    }

    /// Whether it is a directory, as an object of no bytes.
    pub fn is_directory(&self) -> bool {
        is_directory(self.mode())
    }

    /// Takes it into memory.
    pub fn into_bytes(self) -> Transfer<Vec<u8>> {
        let (sink, take) = Bytes::new(self.memory_bytes);
        self.begin(sink, take)
    }

    /// Takes it into a writer, from front to back; returns how many bytes it has. A thread that may wait writes.
    pub fn write_to(self, writer: impl Write + Send + 'static) -> Transfer<u64> {
        self.begin(InOrder::new(writer), |size| size)
    }

    /// Takes it block by block, in the order in which blocks are complete; returns how many bytes it has.
    pub fn take(self, sink: impl Sink + 'static) -> Transfer<u64> {
        self.begin(sink, |size| size)
    }

    /// Refuses it; the sender is told why.
    pub fn refuse(mut self, refusal: Refusal, why: &str) {
        self.taken = true;
        self.remote.order(Order::Refuse { job: self.job, refusal, why: why.to_owned() });
    }

    fn begin<T: Send + 'static>(
        mut self,
        sink: impl Sink + 'static,
        result: impl FnOnce(u64) -> T + Send + 'static,
    ) -> Transfer<T> {
        self.taken = true;
        let (job, remote, size) = (self.job, self.remote.clone(), self.size());
        let cancel = move || {
            let why = "the receiver has cancelled it".to_owned();
            remote.order(Order::Refuse { job, refusal: Refusal::Unreadable, why });
        };
        let (transfer, completer) = Transfer::new(cancel);
        let bytes = completer.counter();
        let done: Ended = Box::new(move |ended: Result<()>| completer.complete(ended.map(|()| result(size))));
        let offer = self.offer.clone();
        self.remote.order(Order::Take { job, offer, sink: Box::new(sink), bytes, done });
        transfer
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if !self.taken {
            let why = "the receiver does not take it".to_owned();
            self.remote.order(Order::Refuse { job: self.job, refusal: Refusal::Unreadable, why });
        }
    }
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, size) = (self.name(), self.size());
        f.debug_struct("Offer").field("name", &name).field("size", &size).field("from", &self.from).finish()
    }
}

/// Offers that the program has not looked at yet.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    offers: VecDeque<Offer>,
    wakers: Vec<Waker>,
    /// Why there will be none any more.
    closed: Option<Error>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing can panic while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn put(&self, offer: Offer) {
        self.change(|state| state.offers.push_back(offer));
    }

    /// The sender of these has gone.
    pub(super) fn forget(&self, job: JobId) {
        let mut state = self.lock();
        let at = state.offers.iter().position(|offer| offer.job == job);
        let forgotten = at.and_then(|at| state.offers.remove(at));
        drop(state);
        drop(forgotten);
    }

    /// There will be no more offers, for this reason.
    pub(super) fn close(&self, why: Error) {
        let mut offers = VecDeque::new();
        self.change(|state| {
            state.closed = Some(why);
            offers = std::mem::take(&mut state.offers);
        });
    }

    pub(super) fn next(&self) -> NextOffer<'_> {
        NextOffer { queue: self }
    }
}

impl State {
    fn next(&mut self) -> Option<Result<Offer>> {
        let offer = self.offers.pop_front().map(Ok);
        offer.or_else(|| self.closed.as_ref().map(|why| Err(why.again())))
    }
}

/// The next offer: a thread waits for it, or a task does. To drop it before is to lose nothing.
#[must_use = "wait for it, or await it"]
pub struct NextOffer<'a> {
    queue: &'a Queue,
}

impl NextOffer<'_> {
    /// Waits until there is one.
    ///
    /// # Errors
    /// [`Error::System`]: the system has failed the receiver, so there will be none.
    pub fn wait(self) -> Result<Offer> {
        let mut state = self.queue.lock();
        loop {
            if let Some(next) = state.next() {
                return next;
            }
            state = self.queue.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The same, but no longer than `patience`. `None`: there is none yet.
    ///
    /// # Errors
    /// As [`NextOffer::wait`].
    pub fn wait_for(self, patience: Duration) -> Result<Option<Offer>> {
        let until = Instant::now() + patience;
        let mut state = self.queue.lock();
        loop {
            if let Some(next) = state.next() {
                return next.map(Some);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.queue.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Future for NextOffer<'_> {
    type Output = Result<Offer>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Offer>> {
        let mut state = self.queue.lock();
        if let Some(next) = state.next() {
            return Poll::Ready(next);
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}
