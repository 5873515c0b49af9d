//! What may wait for a disk, done by threads: a cold or slow one holds up nobody but those who asked for it.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use polling::Poller;
use proto::object::Object;
use rustix::io::ReadWriteFlags;
use wire::control::{Entry, Omitted};

use crate::files::{Refused, Root, read_block, require_unchanged};
use crate::walking::{Found, Walk};

/// Threads that are busy for one client at a time.
pub(crate) const OF_A_CLIENT: usize = 2;
/// Bytes of paths and reasons in one part of a listing, the last of them not counted.
const LISTING_BYTES: usize = 48 << 10;
/// What an entry has besides its path, at most.
const ENTRY_BYTES: usize = 32;

/// A request, and which of those that have had its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) request: u16,
    pub(crate) serial: u64,
}

/// What is to be done.
pub(crate) enum Job {
    /// Open a file.
    Open { ticket: Ticket, root: Arc<Root>, path: String },
    /// Read a block.
    Load(Load),
    /// Find out what lies below a path.
    List { request: u16, root: Arc<Root>, path: String },
    /// Go on with that.
    ListOn { request: u16, walk: Walk },
}

/// A block to read.
pub(crate) struct Load {
    pub(crate) ticket: Ticket,
    pub(crate) block: u32,
    pub(crate) file: Arc<File>,
    pub(crate) object: Object,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
}

/// What was done.
pub(crate) enum Done {
    Opened { ticket: Ticket, opened: Result<(File, Object), Refused> },
    Loaded { ticket: Ticket, block: u32, bytes: Result<Arc<[u8]>, Refused> },
    Listed { request: u16, part: Result<Part, Refused> },
}

/// Part of a listing.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) entries: Vec<Entry>,
    pub(crate) omitted: Vec<Omitted>,
    /// What finds the rest, unless this was all.
    pub(crate) rest: Option<Walk>,
}

/// The threads, and what they have done.
pub(crate) struct Disk {
    queue: Arc<Queue>,
    done: Receiver<(u64, Done)>,
}

impl Disk {
    /// Starts so many threads, which wake the poller.
    pub(crate) fn start(poller: &Arc<Poller>, threads: usize) -> io::Result<Self> {
        let queue = Arc::<Queue>::default();
        let (finished, done) = channel();
        // From here on the threads end with it.
        let disk = Disk { queue, done };
        for _ in 0..threads {
            let (queue, finished, poller) = (disk.queue.clone(), finished.clone(), poller.clone());
            thread::Builder::new().name("disk".into()).spawn(move || {
                while let Some((client, job)) = queue.take() {
                    let done = carry_out(job);
                    queue.finished(client);
                    if finished.send((client, done)).is_err() || poller.notify().is_err() {
                        return;
                    }
                }
            })?;
        }
        Ok(disk)
    }

    /// Has a job done for a client; [`Disk::next`] tells of it.
    pub(crate) fn order(&self, client: u64, job: Job) {
        self.queue.put(client, job);
    }

    /// The block if that takes no waiting; else it is ordered.
    pub(crate) fn read(&self, client: u64, load: Load) -> Option<Result<Arc<[u8]>, Refused>> {
        if let Some(block) = read_cached(&load) {
            return Some(require_unchanged(&load.file, &load.object).map(|()| block));
        }
        self.order(client, Job::Load(load));
        None
    }

    /// Nothing that a client has ordered is begun any more.
    pub(crate) fn forget(&self, client: u64) {
        self.queue.lock().waiting.remove(&client);
    }

    /// What was done next, and for whom.
    pub(crate) fn next(&self) -> Option<(u64, Done)> {
        self.done.try_recv().ok()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mut jobs = self.queue.lock();
        jobs.waiting.clear();
        jobs.over = true;
        drop(jobs);
        self.queue.changed.notify_all();
    }
}

fn carry_out(job: Job) -> Done {
    match job {
        Job::Open { ticket, root, path } => Done::Opened { ticket, opened: root.file(&path) },
        Job::Load(Load { ticket, block, file, object, offset, bytes }) => {
            Done::Loaded { ticket, block, bytes: read_block(&file, &object, offset, bytes) }
        }
        Job::List { request, root, path } => {
            Done::Listed { request, part: Walk::below(root, &path).map(part) }
        }
        Job::ListOn { request, walk } => Done::Listed { request, part: Ok(part(walk)) },
    }
}

fn part(mut walk: Walk) -> Part {
    let (mut bytes, mut part) = (0, Part::default());
    while bytes < LISTING_BYTES {
        match walk.next() {
            Some(Found::Entry(entry)) => {
                bytes += entry.path.len() + ENTRY_BYTES;
                part.entries.push(entry);
            }
            Some(Found::Omitted(omitted)) => {
                bytes += omitted.path.len() + omitted.why.len();
                part.omitted.push(omitted);
            }
            None => return part,
        }
    }
    part.rest = Some(walk);
    part
}

fn read_cached(load: &Load) -> Option<Arc<[u8]>> {
    let mut block: Arc<[u8]> = std::iter::repeat_n(0, load.bytes).collect();
    let place = Arc::get_mut(&mut block)?;
    let slices = &mut [IoSliceMut::new(place)];
    let read = rustix::io::preadv2(&*load.file, slices, load.offset, ReadWriteFlags::NOWAIT).ok()?;
    (read == load.bytes).then_some(block)
}

/// Jobs, first come, first served, as long as a client has not as many threads as it may have.
#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    /// Of each client, its jobs and when the first of them was put.
    waiting: HashMap<u64, VecDeque<(u64, Job)>>,
    /// How many threads each client has.
    running: HashMap<u64, NonZero<usize>>,
    put: u64,
    over: bool,
}

impl Jobs {
    fn take(&mut self) -> Option<(u64, Job)> {
        let may = |client: &u64| self.running.get(client).is_none_or(|n| n.get() < OF_A_CLIENT);
        let clients = self.waiting.iter().filter(|(client, _)| may(client));
        let client = *clients.min_by_key(|(_, jobs)| jobs.front().map(|(at, _)| *at))?.0;
        let jobs = self.waiting.get_mut(&client)?;
        let (_, job) = jobs.pop_front()?;
        if jobs.is_empty() {
            self.waiting.remove(&client);
        }
        self.running.entry(client).and_modify(|n| *n = n.saturating_add(1)).or_insert(NonZero::<usize>::MIN);
        Some((client, job))
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        // Whatever panicked has left the queue whole.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, client: u64, job: Job) {
        let mut jobs = self.lock();
        jobs.put += 1;
        let at = jobs.put;
        jobs.waiting.entry(client).or_default().push_back((at, job));
        drop(jobs);
        self.changed.notify_one();
    }

    /// The next job, when there is one; `None` at the end.
    fn take(&self) -> Option<(u64, Job)> {
        let mut jobs = self.lock();
        loop {
            if jobs.over {
                return None;
            }
            if let Some(taken) = jobs.take() {
                return Some(taken);
            }
            jobs = self.changed.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finished(&self, client: u64) {
        let mut jobs = self.lock();
        let left = jobs.running.remove(&client).and_then(|n| NonZero::new(n.get() - 1));
        if let Some(left) = left {
            jobs.running.insert(client, left);
        }
        drop(jobs);
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(path: &str) -> Job {
        let root = Arc::new(Root::open(std::path::Path::new("/")).unwrap());
        Job::Open { ticket: Ticket { request: 0, serial: 0 }, root, path: path.to_owned() }
    }

    fn path(taken: Option<(u64, Job)>) -> Option<String> {
        match taken?.1 {
            Job::Open { path, .. } => Some(path),
            _ => None,
        }
    }

    #[test]
    fn a_client_whose_disk_is_slow_leaves_threads_to_others() {
        let queue = Queue::default();
        for n in 0..100 {
            queue.put(1, job(&format!("slow {n}")));
        }
        queue.put(2, job("other"));
        let next = || path(queue.lock().take());
        assert_eq!(next().as_deref(), Some("slow 0"));
        assert_eq!(next().as_deref(), Some("slow 1"));
        assert_eq!(next().as_deref(), Some("other"), "two threads wait for the slow disk, no more");
        assert_eq!(next(), None);
        queue.finished(1);
        assert_eq!(path(queue.lock().take()).as_deref(), Some("slow 2"));
    }

    #[test]
    fn jobs_are_done_in_the_order_in_which_they_came() {
        let queue = Queue::default();
        for n in 0..40 {
            queue.put(n % 20, job(&n.to_string()));
        }
        let taken: Vec<_> = std::iter::from_fn(|| path(queue.lock().take())).collect();
        assert_eq!(taken, (0..40).map(|n| n.to_string()).collect::<Vec<_>>());
    }
}
