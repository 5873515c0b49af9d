//! What may wait for a disk, done by threads: a cold or slow one holds up nobody but those who asked for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use proto::coding::{self, Prepared};
use proto::object::{Cut, Layout};
use wire::control::{Entry, Fetch, Omitted, Refusal};

use crate::poller::Poller;
use crate::pool::Pool;
use crate::source::{Refused, Source, unreadable};
use crate::store::{Listing, Store};
use crate::walking::Found;

/// Threads that are busy for one client at a time.
pub(crate) const OF_A_CLIENT: usize = 2;
/// Blocks of more bytes are read by a thread even if that takes no waiting: reading, hashing and laying out a large one takes
/// as long as a burst lasts.
const AT_ONCE_BYTES: usize = 64 << 10;
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
    /// Open an object, and find the seeds that it is sent with from `start` on: that takes long enough to be done here.
    Open { ticket: Ticket, store: Arc<dyn Store>, fetch: Fetch, start: u64 },
    /// Read a block.
    Load(Load),
    /// Find out what lies below a path.
    List { request: u16, store: Arc<dyn Store>, path: String },
    /// Go on with that.
    ListOn { request: u16, listing: Box<dyn Listing> },
}

/// A block to read.
pub(crate) struct Load {
    pub(crate) ticket: Ticket,
    pub(crate) block: u32,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) offset: u64,
    pub(crate) bytes: usize,
    /// What makes of it what can be sent; `None`: its bytes are wanted as they are.
    pub(crate) cut: Option<Cut>,
}

/// A block that was read.
pub(crate) enum Block {
    Prepared(Prepared),
    Bytes(Arc<[u8]>),
}

impl Load {
    /// Reads it as `read` does.
    fn load(&self, read: impl FnOnce(&mut [u8]) -> Result<(), Refused>) -> Result<Block, Refused> {
        match &self.cut {
            Some(cut) => {
                let read = |bytes: &mut [u8]| read(bytes).map_err(Unprepared::Refused);
                Ok(Block::Prepared(cut.prepare(self.block, read)?))
            }
            None => {
                let mut block: Arc<[u8]> = std::iter::repeat_n(0, self.bytes).collect();
                read(Arc::get_mut(&mut block).expect("nobody else has it yet"))?;
                Ok(Block::Bytes(block))
            }
        }
    }

    /// Reads it if that takes no waiting.
    fn load_at_once(&self) -> Option<Result<Block, Refused>> {
        let mut waits = false;
        let loaded = self.load(|bytes| {
            self.source.read_at_once(self.offset, bytes).unwrap_or_else(|| {
                waits = true;
                Err(unreadable("it would have to be waited for"))
            })
        });
        (!waits).then_some(loaded)
    }
}

/// Why a block was not prepared.
enum Unprepared {
    Refused(Refused),
    Code(coding::Error),
}

impl From<coding::Error> for Unprepared {
    fn from(error: coding::Error) -> Self {
        Unprepared::Code(error)
    }
}

impl From<Unprepared> for Refused {
    fn from(why: Unprepared) -> Self {
        match why {
            Unprepared::Refused(refused) => refused,
            Unprepared::Code(error) => (Refusal::BadParameters, error.to_string()),
        }
    }
}

/// What was done.
pub(crate) enum Done {
    Opened { ticket: Ticket, opened: Result<Arc<dyn Source>, Refused> },
    Loaded { ticket: Ticket, block: u32, loaded: Result<Block, Refused> },
    Listed { request: u16, part: Result<Part, Refused> },
}

/// What is left of a listing, and the bytes that it holds.
pub(crate) struct Rest {
    pub(crate) listing: Box<dyn Listing>,
    pub(crate) held_bytes: usize,
}

/// Part of a listing.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) entries: Vec<Entry>,
    pub(crate) omitted: Vec<Omitted>,
    /// Unless this was all.
    pub(crate) rest: Option<Rest>,
}

/// The threads, and what they have done.
pub(crate) struct Disk {
    pool: Pool<usize>,
    finished: Sender<(usize, Done)>,
    done: Receiver<(usize, Done)>,
    poller: Arc<Poller>,
}

impl Disk {
    /// Starts so many threads, which wake the poller.
    pub(crate) fn start(poller: &Arc<Poller>, threads: usize) -> io::Result<Self> {
        let (finished, done) = channel();
        let pool = Pool::start("disk", threads, OF_A_CLIENT)?;
        Ok(Disk { pool, finished, done, poller: poller.clone() })
    }

    /// Has a job done for a client; [`Disk::next`] tells of it.
    pub(crate) fn order(&self, client: usize, job: Job) {
        let (finished, poller) = (self.finished.clone(), self.poller.clone());
        self.pool.put(client, move || {
            // Both fail only when nobody waits any more.
            let _ = finished.send((client, carry_out(job)));
            let _ = poller.notify();
        });
    }

    /// The object if that takes no waiting, and no search for seeds from `start` on; else it is ordered.
    pub(crate) fn open(
        &self,
        client: usize,
        ticket: Ticket,
        store: &Arc<dyn Store>,
        fetch: Fetch,
        start: u64,
    ) -> Option<Arc<dyn Source>> {
        let opened = store.open_at_once(&fetch.path).filter(|source| {
            let layout = Layout::new(fetch.symbol_bytes, fetch.block_symbols, source.object().size);
            layout.is_none_or(|layout| Cut::is_chosen(layout, fetch.code, start))
        });
        if opened.is_none() {
            self.order(client, Job::Open { ticket, store: store.clone(), fetch, start });
        }
        opened
    }

    /// The block if that takes neither waiting nor long; else it is ordered.
    pub(crate) fn read(&self, client: usize, load: Load) -> Option<Result<Block, Refused>> {
        if load.bytes <= AT_ONCE_BYTES
            && let Some(loaded) = load.load_at_once()
        {
            return Some(loaded);
        }
        self.order(client, Job::Load(load));
        None
    }

    /// Nothing that a client has ordered is begun any more.
    pub(crate) fn forget(&self, client: usize) {
        self.pool.forget(client);
    }

    /// What was done next, and for whom.
    pub(crate) fn next(&self) -> Option<(usize, Done)> {
        self.done.try_recv().ok()
    }
}

fn carry_out(job: Job) -> Done {
    match job {
        Job::Open { ticket, store, fetch, start } => {
            let opened = store.open(&fetch.path);
            let size = opened.as_ref().map(|source| source.object().size);
            if let Ok(size) = size
                && let Some(layout) = Layout::new(fetch.symbol_bytes, fetch.block_symbols, size)
            {
                // They are remembered; what is wrong is told by who asks for them.
                let _ = Cut::choose(layout, fetch.code, start);
            }
            Done::Opened { ticket, opened }
        }
        Job::Load(load) => {
            let loaded = load.load(|bytes| load.source.read_at(load.offset, bytes));
            Done::Loaded { ticket: load.ticket, block: load.block, loaded }
        }
        Job::List { request, store, path } => Done::Listed { request, part: store.list(&path).map(part) },
        Job::ListOn { request, listing } => Done::Listed { request, part: Ok(part(listing)) },
    }
}

fn part(mut listing: Box<dyn Listing>) -> Part {
    let (mut bytes, mut part) = (0, Part::default());
    while bytes < LISTING_BYTES {
        match listing.next() {
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
    part.rest = Some(Rest { held_bytes: listing.held_bytes(), listing });
    part
}
