//! The thread of a client: which server is asked for which blocks.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use proto::lttp::ClientConfig;
use proto::object::Layout;
use udp::{Fetching, Job, JobId, ServerAddress, Sink, Update};
use wire::control::{Entry, MAX_RUNS, Omitted, Parameters, Refusal, Run, Version};

use super::shared::Shared;
use crate::error::{Error, Result};
use crate::transfer::Completer;

/// How long the thread waits where nothing happens; orders wake it.
const TICK: Duration = Duration::from_secs(1);
/// Pieces of an object for each of its servers: the last ones to end are then not far apart.
const PIECES_OF_A_SERVER: u32 = 8;
/// Blocks of a piece at least, so that blocks stream.
const LEAST_PIECE_BLOCKS: u32 = 8;
/// Pieces of an object that one server is asked for at a time: the next is there when one ends.
const PIECES_AT_A_TIME: usize = 2;
/// Requests that one server has at a time, of all objects.
const REQUESTS_AT_A_TIME: usize = 64;

/// What becomes of a transfer: how many bytes it has.
pub(super) type Ended = Box<dyn FnOnce(Result<u64>) + Send>;
/// What lies below a path, and what of it cannot be fetched.
pub(super) type Listed = Completer<(Vec<Entry>, Vec<Omitted>)>;

/// What the thread is told.
pub(super) enum Order {
    Fetch { id: u64, path: String, sink: Box<dyn Sink>, bytes: Arc<AtomicU64>, done: Ended },
    List { path: String, done: Listed },
    Cancel(u64),
    Stop,
}

pub(super) struct Engine {
    fetching: Fetching,
    servers: Vec<Server>,
    symbol_bytes: u16,
    block_symbols: u16,
    orders: Receiver<Order>,
    fetches: BTreeMap<u64, Fetch>,
    jobs: HashMap<JobId, Piece>,
    /// Questions for the first server that answers.
    questions: VecDeque<(String, Listed)>,
    listings: HashMap<(usize, u16), Listing>,
}

struct Server {
    address: ServerAddress,
    ready: bool,
    gone: Option<String>,
    /// Requests under way.
    requests: usize,
}

struct Fetch {
    path: String,
    shared: Shared,
    done: Ended,
    version: Option<Version>,
    /// Servers that do not give it, and why.
    without: BTreeMap<usize, Why>,
    /// What no server has been asked for yet. No runs: all of the object.
    queue: VecDeque<Vec<Run>>,
    running: HashMap<JobId, usize>,
}

/// Part of an object that a server has been asked for.
struct Piece {
    fetch: u64,
    server: usize,
    runs: Vec<Run>,
    /// The rest is to be asked for once it is known how much that is.
    first: bool,
}

struct Listing {
    path: String,
    entries: Vec<Entry>,
    omitted: Vec<Omitted>,
    done: Listed,
}

/// Why a server does not give an object.
struct Why {
    refusal: Option<Refusal>,
    text: String,
}

impl Engine {
    pub(super) fn new(
        fetching: Fetching,
        servers: Vec<ServerAddress>,
        config: &ClientConfig,
        orders: Receiver<Order>,
    ) -> Self {
        let server = |address| Server { address, ready: false, gone: None, requests: 0 };
        Engine {
            fetching,
            servers: servers.into_iter().map(server).collect(),
            symbol_bytes: config.symbol_bytes,
            block_symbols: config.block_symbols,
            orders,
            fetches: BTreeMap::new(),
            jobs: HashMap::new(),
            questions: VecDeque::new(),
            listings: HashMap::new(),
        }
    }

    pub(super) fn run(mut self) {
        while self.take_orders() {
            self.ask();
            let updates = match self.fetching.wait(TICK) {
                Ok(updates) => updates,
                Err(e) => return self.fail(&e.into()),
            };
            for update in updates {
                self.on_update(update);
            }
        }
    }

    /// False: it is to stop.
    fn take_orders(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Fetch { id, path, sink, bytes, done }) => {
                    let shared = Shared::new(sink, bytes);
                    let (without, running) = Default::default();
                    let queue = VecDeque::from([Vec::new()]);
                    let fetch = Fetch { path, shared, done, version: None, without, queue, running };
                    self.fetches.insert(id, fetch);
                }
                Ok(Order::List { path, done }) => self.questions.push_back((path, done)),
                Ok(Order::Cancel(id)) => self.end(id, Err(Error::Closed)),
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    /// The system does not let it go on: whatever is under way fails, and whatever is ordered until the client is dropped.
    fn fail(self, why: &Error) {
        let Engine { fetching, orders, fetches, questions, listings, .. } = self;
        drop(fetching);
        for fetch in fetches.into_values() {
            (fetch.done)(Err(why.again()));
        }
        let questions = questions.into_iter().map(|(_, done)| done);
        for done in questions.chain(listings.into_values().map(|listing| listing.done)) {
            done.complete(Err(why.again()));
        }
        for order in orders {
            match order {
                Order::Fetch { done, .. } => done(Err(why.again())),
                Order::List { done, .. } => done.complete(Err(why.again())),
                Order::Cancel(_) => {}
                Order::Stop => break,
            }
        }
    }

    /// A fetch is over.
    fn end(&mut self, id: u64, result: Result<u64>) {
        let Some(fetch) = self.fetches.remove(&id) else { return };
        for (job, server) in fetch.running {
            self.fetching.cancel(job);
            self.jobs.remove(&job);
            self.servers[server].requests -= 1;
        }
        (fetch.done)(result);
    }

    /// Gives out what is to be done.
    fn ask(&mut self) {
        while let Some((path, done)) = self.questions.pop_front() {
            let ready = self.servers.iter().position(|server| server.ready && server.gone.is_none());
            match ready.and_then(|server| Some((server, self.fetching.list(server, path.clone())?))) {
                Some((server, request)) => {
                    let (entries, omitted) = Default::default();
                    self.listings.insert((server, request), Listing { path, entries, omitted, done });
                }
                None if self.servers.iter().all(|server| server.gone.is_some()) => {
                    done.complete(Err(self.why(&path, &BTreeMap::new())));
                }
                None => {
                    self.questions.push_front((path, done));
                    break;
                }
            }
        }
        for id in self.fetches.keys().copied().collect::<Vec<_>>() {
            if let Err(why) = self.ask_for(id) {
                self.end(id, Err(why));
            }
        }
    }

    fn ask_for(&mut self, id: u64) -> Result<()> {
        let Engine { fetching, servers, jobs, fetches, .. } = self;
        let Some(fetch) = fetches.get_mut(&id) else { return Ok(()) };
        let gives = |number: &usize| servers[*number].gone.is_none() && !fetch.without.contains_key(number);
        let giving: Vec<usize> = (0..servers.len()).filter(gives).collect();
        if giving.is_empty() {
            return Err(self.why(&self.fetches[&id].path, &self.fetches[&id].without));
        }
        while let Some(runs) = fetch.queue.pop_front() {
            let running = |server: usize| fetch.running.values().filter(|other| **other == server).count();
            let free = giving.iter().copied().filter(|number| {
                let server = &servers[*number];
                server.ready && server.requests < REQUESTS_AT_A_TIME && running(*number) < PIECES_AT_A_TIME
            });
            let Some(server) = free.min_by_key(|server| running(*server)) else {
                fetch.queue.push_front(runs);
                break;
            };
            // Of an object that several servers share, the first block tells the size.
            let first = fetch.version.is_none() && giving.len() > 1;
            let runs = if first { vec![Run { first: 0, count: 1 }] } else { runs };
            let (path, version) = (fetch.path.clone(), fetch.version);
            let sink = Box::new(fetch.shared.clone());
            let job = fetching.start(Job { server, path, runs: runs.clone(), version, sink });
            servers[server].requests += 1;
            fetch.running.insert(job, server);
            jobs.insert(job, Piece { fetch: id, server, runs, first });
        }
        Ok(())
    }

    fn on_update(&mut self, update: Update) {
        match update {
            Update::Ready { server } => self.servers[server].ready = true,
            Update::Lost { server, why, .. } => {
                self.servers[server].gone = Some(why);
                let lost: HashSet<_> =
                    self.listings.keys().filter(|(of, _)| *of == server).copied().collect();
                for question in lost {
                    let listing = self.listings.remove(&question);
                    self.questions.extend(listing.map(|listing| (listing.path, listing.done)));
                }
            }
            Update::Began { job, parameters } => self.on_began(job, &parameters),
            Update::Block { .. } => {}
            Update::Finished { job } => {
                let Some(piece) = self.take(job) else { return };
                let Some(fetch) = self.fetches.get(&piece.fetch) else { return };
                if fetch.shared.is_finished() {
                    let size = fetch.shared.size();
                    self.end(piece.fetch, Ok(size));
                }
            }
            Update::Failed { job, refusal, why } => self.on_failed(job, refusal, why),
            Update::Listing { server, request, entries, omitted, last } => {
                let Some(listing) = self.listings.get_mut(&(server, request)) else { return };
                listing.entries.extend(entries);
                listing.omitted.extend(omitted);
                if last && let Some(listing) = self.listings.remove(&(server, request)) {
                    listing.done.complete(Ok((listing.entries, listing.omitted)));
                }
            }
            Update::Unlisted { server, request, why } => {
                if let Some(listing) = self.listings.remove(&(server, request)) {
                    listing.done.complete(Err(Error::failed(&listing.path, why)));
                }
            }
        }
    }

    /// A job is over.
    fn take(&mut self, job: JobId) -> Option<Piece> {
        let piece = self.jobs.remove(&job)?;
        self.servers[piece.server].requests -= 1;
        if let Some(fetch) = self.fetches.get_mut(&piece.fetch) {
            fetch.running.remove(&job);
        }
        Some(piece)
    }

    /// An object is known: what its first piece has not asked for is cut into pieces for all servers.
    fn on_began(&mut self, job: JobId, parameters: &Parameters) {
        let Some(piece) = self.jobs.get_mut(&job) else { return };
        let first = std::mem::take(&mut piece.first);
        let Some(fetch) = self.fetches.get_mut(&piece.fetch) else { return };
        fetch.version.get_or_insert(parameters.version);
        let layout = Layout::new(self.symbol_bytes, self.block_symbols, parameters.size);
        let Some(blocks) = layout.map(|layout| layout.blocks()).filter(|_| first) else { return };
        let servers = self.servers.iter().filter(|server| server.gone.is_none()).count() as u32;
        let most = (blocks / (servers.max(1) * PIECES_OF_A_SERVER)).max(LEAST_PIECE_BLOCKS);
        let mut next = 1;
        while next < blocks {
            let count = most.min(blocks - next);
            fetch.queue.push_back(vec![Run { first: next, count }]);
            next += count;
        }
    }

    /// What a server does not give is asked for elsewhere.
    fn on_failed(&mut self, job: JobId, refusal: Option<Refusal>, why: String) {
        let Some(piece) = self.take(job) else { return };
        let Some(fetch) = self.fetches.get_mut(&piece.fetch) else { return };
        if fetch.shared.has_failed() {
            let error = Error::failed(&fetch.path, why);
            return self.end(piece.fetch, Err(error));
        }
        if fetch.version.is_none() {
            fetch.queue.push_back(Vec::new());
        } else {
            let missing = fetch.shared.missing(&piece.runs);
            fetch.queue.extend(missing.chunks(MAX_RUNS).map(<[Run]>::to_vec));
        }
        fetch.without.insert(piece.server, Why { refusal, text: why });
    }

    /// Why nobody gives an object.
    fn why(&self, path: &str, without: &BTreeMap<usize, Why>) -> Error {
        if let Some((refusal, text)) = without.values().find_map(|why| Some((why.refusal?, &why.text))) {
            return Error::refused(path, refusal, text);
        }
        let gone =
            self.servers.iter().find_map(|server| Some((server.address.address, server.gone.as_ref()?)));
        match (gone, without.values().next()) {
            (Some((address, why)), _) => Error::lost(address, why),
            (None, Some(why)) => Error::failed(path, &why.text),
            (None, None) => Error::Setup("the client has no servers: name one to connect to".into()),
        }
    }
}
