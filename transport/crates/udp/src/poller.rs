//! Waits for sockets, for a time and for other threads, by one call of the system: epoll with times in nanoseconds.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

/// The key of what other threads wake the poller by.
const WAKER: u64 = u64::MAX;
/// Events of one wait; those that there is no room for come with the next one.
const EVENTS: usize = 64;

/// What of a socket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Nothing for now.
    Nothing,
    /// That it can be read.
    Read,
    /// That it can be written.
    Write,
    /// That it can be read or written.
    ReadAndWrite,
}

impl Interest {
    /// That it can be read, and written if something waits for that.
    pub(crate) fn with(write: bool) -> Self {
        Interest::of(true, write)
    }

    pub(crate) fn of(read: bool, write: bool) -> Self {
        match (read, write) {
            (false, false) => Interest::Nothing,
            (true, false) => Interest::Read,
            (false, true) => Interest::Write,
            (true, true) => Interest::ReadAndWrite,
        }
    }

    fn flags(self) -> epoll::EventFlags {
        match self {
            Interest::Nothing => epoll::EventFlags::empty(),
            Interest::Read => epoll::EventFlags::IN,
            Interest::Write => epoll::EventFlags::OUT,
            Interest::ReadAndWrite => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        }
    }
}

/// Sockets that are waited for, level-triggered. One that is closed is waited for no longer.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    waker: OwnedFd,
    /// The waker has been written to, and not read.
    woken: AtomicBool,
}

/// What a wait has found.
pub(crate) struct Events(Vec<epoll::Event>);

impl Events {
    pub(crate) fn new() -> Self {
        Events(Vec::with_capacity(EVENTS))
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The keys of the sockets that are ready.
    pub(crate) fn keys(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|event| event.data.u64()).filter(|key| *key != WAKER).map(|key| key as usize)
    }
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &waker, epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)?;
        Ok(Poller { epoll, waker, woken: AtomicBool::new(false) })
    }

    pub(crate) fn add(&self, socket: impl AsFd, key: usize, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, epoll::EventData::new_u64(key as u64), interest.flags())?)
    }

    pub(crate) fn modify(&self, socket: impl AsFd, key: usize, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(key as u64), interest.flags())?)
    }

    pub(crate) fn delete(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Waits until something is ready, another thread wakes it, a signal comes, or `timeout` is over.
    pub(crate) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.0.clear();
        // One that is too long to be written as such is as good as none.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match epoll::wait(&self.epoll, spare_capacity(&mut events.0), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        if events.0.iter().any(|event| event.data.u64() == WAKER) {
            // It is not empty: nobody else reads it.
            let _ = rustix::io::read(&self.waker, &mut [0; 8]);
            // Only now: what was to be told before the next write is there for whoever looks from here on.
            self.woken.store(false, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Ends a wait, the present one or the next, from any thread.
    pub(crate) fn notify(&self) -> io::Result<()> {
        if !self.woken.swap(true, Ordering::SeqCst) {
            rustix::io::write(&self.waker, &1_u64.to_ne_bytes())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;

    const LONG: Option<Duration> = Some(Duration::from_secs(20));
    const NO_TIME: Option<Duration> = Some(Duration::ZERO);

    fn ready(poller: &Poller, timeout: Option<Duration>) -> Vec<usize> {
        let mut events = Events::new();
        poller.wait(&mut events, timeout).unwrap();
        events.keys().collect()
    }

    #[test]
    fn sockets_are_ready_as_long_as_there_is_something_and_as_they_are_asked_for() {
        let poller = Poller::new().unwrap();
        let (one, other) = UnixDatagram::pair().unwrap();
        poller.add(&one, 7, Interest::Read).unwrap();
        assert_eq!(ready(&poller, NO_TIME), []);
        other.send(b"x").unwrap();
        assert_eq!(ready(&poller, LONG), [7]);
        assert_eq!(ready(&poller, LONG), [7], "it was not read");
        poller.modify(&one, 7, Interest::Nothing).unwrap();
        assert_eq!(ready(&poller, NO_TIME), []);
        poller.modify(&one, 7, Interest::Write).unwrap();
        assert_eq!(ready(&poller, LONG), [7]);
        one.recv(&mut [0]).unwrap();
        poller.modify(&one, 7, Interest::ReadAndWrite).unwrap();
        assert_eq!(ready(&poller, LONG), [7], "it can be written");
        poller.delete(&one).unwrap();
        assert_eq!(ready(&poller, NO_TIME), []);
    }

    #[test]
    fn a_wait_is_never_shorter_than_asked_for_by_a_part_of_a_millisecond() {
        let poller = Poller::new().unwrap();
        for micros in [1, 300, 1_700] {
            let (begun, timeout) = (Instant::now(), Duration::from_micros(micros));
            assert_eq!(ready(&poller, Some(timeout)), []);
            assert!(begun.elapsed() >= timeout);
        }
    }

    #[test]
    fn each_time_that_it_is_woken_a_wait_ends() {
        let poller = Arc::new(Poller::new().unwrap());
        let (tell, told) = std::sync::mpsc::channel();
        let other = poller.clone();
        let waking = std::thread::spawn(move || {
            for n in 0..1_000 {
                tell.send(n).unwrap();
                other.notify().unwrap();
            }
        });
        let mut count = 0;
        while count < 1_000 {
            assert_eq!(ready(&poller, LONG), []);
            count += told.try_iter().count();
        }
        waking.join().unwrap();
        ready(&poller, NO_TIME);
        poller.notify().unwrap();
        poller.notify().unwrap();
        assert_eq!(ready(&poller, None), [], "once more");
    }
}
