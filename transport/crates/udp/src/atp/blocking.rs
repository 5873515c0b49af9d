//! Threads that wait for what tasks are polled for.
//!
//! A thread that waits for its peer receives meanwhile, if no other thread does: what comes for it need not come through the socket's
//! thread, and be handed over. The socket's thread goes on keeping the time.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, TryLockError};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::state::State;
use super::{Atp, Shared};
use crate::poller::Events;
use crate::socket::Buffers;

const WITHOUT_DEADLINE: &str = "without a deadline it waits until there is something";

/// A thread that waits.
struct Waiter {
    thread: Thread,
    woken: AtomicBool,
    /// It sleeps at the socket, where this wakes it.
    at_socket: AtomicBool,
    shared: Arc<Shared>,
}

impl Wake for Waiter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Either this sees that the waiter is at the socket, or the waiter sees that it is woken.
        self.woken.store(true, Ordering::SeqCst);
        if self.at_socket.load(Ordering::SeqCst) {
            // It fails only when the poller is gone, and nobody waits.
            let _ = self.shared.waiters.notify();
        } else {
            self.thread.unpark();
        }
    }
}

impl Atp {
    /// Waits in this thread until something is ready, for as long as it takes. Receiving is left to other threads: for what may well be
    /// long, or has little to do with one peer.
    pub fn wait<T>(&self, poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        Waiter::new(&self.shared).wait(None, false, poll).expect(WITHOUT_DEADLINE)
    }

    /// Waits in this thread until something is ready that a peer does, and receives meanwhile, if no other thread does.
    pub fn wait_receiving<T>(&self, poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        self.wait_receiving_until(None, poll).expect(WITHOUT_DEADLINE)
    }

    /// The same, up to a point; `None`: that has come first.
    pub fn wait_receiving_until<T>(
        &self,
        deadline: Option<Instant>,
        poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        Waiter::new(&self.shared).wait(deadline, true, poll)
    }
}

impl Waiter {
    fn new(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Waiter {
            thread: thread::current(),
            woken: AtomicBool::new(false),
            at_socket: AtomicBool::new(false),
            shared: shared.clone(),
        })
    }

    fn wait<T>(
        self: Arc<Self>,
        deadline: Option<Instant>,
        receives: bool,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        let waker = self.clone().into();
        let mut context = Context::from_waker(&waker);
        let mut place: Option<Place<'_>> = None;
        loop {
            if let Poll::Ready(done) = poll(&mut context) {
                return Some(done);
            }
            // A thread may be woken for other reasons.
            while !self.woken.swap(false, Ordering::SeqCst) {
                let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                if left.is_some_and(|left| left.is_zero()) {
                    return None;
                }
                if receives && place.is_none() {
                    place = Place::take(&self.shared);
                }
                match (&mut place, left) {
                    (Some(taken), _) => {
                        if let Err(error) = taken.turn(&self, left) {
                            self.shared.fail(error);
                            place = None;
                        }
                    }
                    (None, None) => thread::park(),
                    (None, Some(left)) => thread::park_timeout(left),
                }
            }
        }
    }

    /// Sleeps at the socket until there is something to receive, or the thread is woken.
    fn sleep(&self, events: &mut Events, left: Option<Duration>) -> io::Result<()> {
        self.at_socket.store(true, Ordering::SeqCst);
        let slept = if self.woken.load(Ordering::SeqCst) {
            events.clear();
            Ok(())
        } else {
            self.shared.waiters.wait(events, left)
        };
        self.at_socket.store(false, Ordering::SeqCst);
        slept
    }
}

/// The place at the socket, in which one thread that waits receives instead of the socket's thread.
struct Place<'a> {
    shared: &'a Shared,
    events: Events,
    /// None once it is left.
    buffers: Option<MutexGuard<'a, Buffers>>,
}

impl<'a> Place<'a> {
    /// None if it is taken, or the socket's thread is at work.
    fn take(shared: &'a Shared) -> Option<Self> {
        let buffers = shared.try_receive()?;
        let mut state = shared.lock();
        if !state.is_asleep() {
            return None;
        }
        shared.set_relieved(&mut state, true);
        Some(Place { shared, events: Events::new(), buffers: Some(buffers) })
    }

    /// Sleeps, and receives what has come then.
    fn turn(&mut self, waiter: &Waiter, left: Option<Duration>) -> io::Result<()> {
        waiter.sleep(&mut self.events, left)?;
        match &mut self.buffers {
            Some(buffers) if self.events.keys().next().is_some() => self.shared.receive(buffers),
            _ => Ok(()),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        self.shared.set_relieved(&mut state, false);
        // Before the state is free: whoever is told of datagrams from now on is to find the place free.
        self.buffers = None;
    }
}

impl Shared {
    /// What to receive with, unless another thread has it.
    pub(super) fn try_receive(&self) -> Option<MutexGuard<'_, Buffers>> {
        match self.buffers.try_lock() {
            Ok(buffers) => Some(buffers),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A thread that waits receives, or none does any more: then the socket's thread does it again.
    fn set_relieved(&self, state: &mut State, relieved: bool) {
        state.relieved = relieved;
        self.watch(state);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::mpsc::channel;
    use std::task::Waker;

    use proto::atp::ConnectionConfig;
    use proto::limits::Limits;

    use super::super::AtpOptions;
    use super::*;

    /// One whose thread sleeps, and has no reason to wake.
    fn end() -> Atp {
        let end = Atp::bind(AtpOptions {
            bind: (Ipv4Addr::LOCALHOST, 0).into(),
            server: None,
            config: ConnectionConfig::default(),
            limits: Limits::default(),
        })
        .unwrap();
        until(&end, State::is_asleep);
        end
    }

    fn until(end: &Atp, is_so: impl Fn(&State) -> bool) {
        let begun = Instant::now();
        while !is_so(&end.shared.lock()) {
            assert!(begun.elapsed() < Duration::from_secs(20), "not in 20 s");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_thread_receives_while_it_waits_and_no_longer() {
        let end = end();
        thread::scope(|scope| {
            let (tell, told) = channel::<Waker>();
            let is_ready = Arc::new(AtomicBool::new(false));
            let (end, ready) = (&end, is_ready.clone());
            let waiting = scope.spawn(move || {
                end.wait_receiving(|context| {
                    let _ = tell.send(context.waker().clone());
                    if ready.load(Ordering::SeqCst) { Poll::Ready(7) } else { Poll::Pending }
                })
            });
            let waker = told.recv().unwrap();
            until(end, |state| state.relieved);
            // Another one that waits leaves it to this.
            let soon = Some(Instant::now() + Duration::from_millis(20));
            assert_eq!(end.wait_receiving_until(soon, |_| Poll::<()>::Pending), None);
            assert!(end.shared.lock().relieved);
            is_ready.store(true, Ordering::SeqCst);
            waker.wake();
            assert_eq!(waiting.join().unwrap(), 7);
            until(end, |state| !state.relieved);
        });
    }

    #[test]
    fn a_deadline_and_a_close_end_a_wait_at_the_socket() {
        let end = end();
        let soon = Instant::now() + Duration::from_millis(50);
        assert_eq!(end.wait_receiving_until(Some(soon), |_| Poll::<()>::Pending), None);
        assert!(Instant::now() >= soon && !end.shared.lock().relieved);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| end.wait_receiving(|context| end.poll_accept(context)));
            until(&end, |state| state.relieved);
            end.close(0, "");
            assert_eq!(waiting.join().unwrap(), None);
        });
        end.join().unwrap();
        assert!(!end.shared.lock().relieved);
    }

    #[test]
    fn what_fails_a_thread_at_the_socket_ends_the_sockets_own() {
        let end = end();
        end.shared.fail(io::Error::other("a broken socket"));
        assert_eq!(end.join().unwrap_err().to_string(), "a broken socket");
    }
}
