//! What is to be fetched, what is there, and who has what: the work left, cut into pieces for the servers.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto::lttp::ClientConfig;
use proto::object::Layout;
use rustix::fs::{Mode, OFlags};
use udp::{Over, ServerAddress, Sink};
use wire::control::{Entry, MAX_RUNS, Omitted, Run, Version, is_directory};

use super::attempt::Attempt;
use super::destination::Destination;
use crate::Failure;
use crate::args::Fetch;
use crate::output::{Foreseen, Output, Place, RESERVED, Writer, is_clean};
use crate::place::{Attributes, Tree};
use crate::select::Selection;
use crate::stream::{AHEAD_BYTES, Stream, StreamWriter, is_broken_pipe};
use crate::symbols::Symbols;
use crate::target::{Host, Target};

/// Pieces of an object for each of its servers: the last ones to finish are then not far apart.
const PIECES_PER_SERVER: u32 = 8;
/// Blocks of a piece at least, so that blocks stream.
const LEAST_PIECE_BLOCKS: u32 = 8;
/// How often an interruption is looked for while a reader is waited for.
const TICK: Duration = Duration::from_millis(100);
/// Bytes of a piece of a stream.
const STREAM_PIECE_BYTES: u64 = 8 << 20;

/// Everything that one command fetches.
pub(super) struct Plan {
    /// What each server was called first.
    hosts: Vec<Host>,
    pub(super) servers: Vec<ServerAddress>,
    pub(super) files: Vec<File>,
    /// Directories whose listing has not come.
    pub(super) unlisted: Vec<Unlisted>,
    place: Place,
    /// Directories that were listed, each before those in it.
    directories: Vec<(String, Attributes)>,
    names: HashSet<String>,
    /// Of a single file, if not its own.
    name: Option<String>,
    selection: Selection,
    /// Directories may be fetched.
    recursive: bool,
    /// Nothing is fetched.
    dry_run: bool,
    config: ClientConfig,
    symbols: Symbols,
    kept: Option<Attempt>,
    done_before: u64,
}

/// What a server has listed.
#[derive(Default)]
pub(super) struct Listing {
    pub(super) entries: Vec<Entry>,
    pub(super) omitted: Vec<Omitted>,
}

/// A directory to list.
pub(super) struct Unlisted {
    pub(super) servers: Vec<usize>,
    pub(super) path: String,
}

/// A file to fetch.
pub(super) struct File {
    /// The servers that have it.
    pub(super) servers: Vec<usize>,
    pub(super) path: String,
    pub(super) object: Option<Object>,
    pub(super) output: Arc<Mutex<Output>>,
    /// What it is written to as it comes, if that is not a file.
    pub(super) stream: Option<Arc<Stream>>,
    /// The first block of a stream that it has not been asked for yet.
    unasked: u32,
    /// How often it failed in a way that may pass.
    pub(super) tries: u32,
    /// It was found to be another than the one begun with.
    pub(super) changed: bool,
    /// It will not come: why.
    pub(super) failed: Option<String>,
    /// What would be done for it, if nothing is.
    pub(super) foreseen: Option<Foreseen>,
}

/// What is known of a file once a server has told its parameters.
pub(super) struct Object {
    pub(super) layout: Layout,
    pub(super) version: Version,
}

impl File {
    fn new(servers: Vec<usize>, path: String, output: Arc<Mutex<Output>>) -> Self {
        let (object, stream, failed, foreseen) = (None, None, None, None);
        File { servers, path, object, output, stream, unasked: 0, tries: 0, changed: false, failed, foreseen }
    }

    /// Whether nothing of it is left to do.
    pub(super) fn is_over(&self) -> bool {
        self.failed.is_some() || self.foreseen.is_some() || self.is_complete()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.lock().is_finished()
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Output> {
        // A thread that panicked while it held the lock ends the whole command.
        self.output.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Where a job of it writes to.
    pub(super) fn sink(&self) -> Box<dyn Sink> {
        let output = Writer(self.output.clone());
        match &self.stream {
            Some(stream) => Box::new(StreamWriter { stream: stream.clone(), output }),
            None => Box::new(output),
        }
    }

    /// What is to be asked for now, in pieces; `idle`: nothing of it is under way.
    pub(super) fn pieces(&mut self, idle: bool) -> Vec<Vec<Run>> {
        match (&self.object, &self.stream) {
            (Some(Object { layout, .. }), Some(stream)) if layout.blocks() > 0 => {
                let (layout, written) = (*layout, stream.written());
                self.pieces_ahead(idle, layout, written)
            }
            _ if idle => self.all_pieces(self.servers.len()),
            _ => Vec::new(),
        }
    }

    /// Pieces of a stream of which so much is written, as far ahead as it may be.
    fn pieces_ahead(&mut self, idle: bool, layout: Layout, written: u64) -> Vec<Vec<Run>> {
        let block_bytes = layout.block_bytes(0) as u64;
        let piece = (STREAM_PIECE_BYTES / block_bytes).max(1) as u32;
        let end = ((written + AHEAD_BYTES) / block_bytes).min(layout.blocks().into()) as u32;
        if idle {
            // What was asked for and did not come is asked for again.
            self.unasked = 0;
        } else if end < layout.blocks() && end < self.unasked.saturating_add(piece) {
            return Vec::new();
        }
        let begin = self.unasked;
        self.unasked = begin.max(end);
        let mut pieces = Vec::new();
        for Run { first, count } in self.lock().missing(layout.blocks()) {
            let (mut first, last) = (first.max(begin), (first + count).min(end));
            while first < last {
                let count = piece.min(last - first);
                pieces.push(vec![Run { first, count }]);
                first += count;
            }
        }
        pieces
    }

    /// What is missing, in pieces for as many servers.
    fn all_pieces(&self, servers: usize) -> Vec<Vec<Run>> {
        let Some(object) = &self.object else {
            // Of a file that several servers share, the first block tells its size; so it does of a stream.
            let first = Run { first: 0, count: 1 };
            let whole = servers < 2 && self.stream.is_none();
            return vec![if whole { Vec::new() } else { vec![first] }];
        };
        if object.layout.blocks() == 0 {
            return vec![Vec::new()];
        }
        let missing = self.lock().missing(object.layout.blocks());
        let blocks: u32 = missing.iter().map(|run| run.count).sum();
        if missing.is_empty() {
            // Interrupted between its last block and its end.
            return vec![vec![Run { first: 0, count: 1 }]];
        }
        if servers < 2 {
            return missing.chunks(MAX_RUNS).map(<[Run]>::to_vec).collect();
        }
        let most = (blocks / (servers as u32 * PIECES_PER_SERVER)).max(LEAST_PIECE_BLOCKS);
        let mut pieces = Vec::new();
        for mut run in missing {
            while run.count > 0 {
                let count = run.count.min(most);
                pieces.push(vec![Run { first: run.first, count }]);
                run = Run { first: run.first + count, count: run.count - count };
            }
        }
        pieces
    }
}

impl Plan {
    pub(super) fn new(args: &Fetch, config: &ClientConfig) -> Result<Self, Failure> {
        let mut numbers: BTreeMap<Host, usize> = BTreeMap::new();
        let (mut hosts, mut servers) = (Vec::new(), Vec::new());
        let mut all: Vec<&Host> = Vec::new();
        for host in args.sources.iter().flat_map(|target| &target.hosts) {
            if !numbers.contains_key(host) {
                numbers.insert(host.clone(), 0);
                all.push(host);
            }
        }
        for (host, address) in all.iter().zip(reach(&all, config.silence)) {
            let address = address?;
            // One server may have several names.
            let known = servers.iter().position(|s: &ServerAddress| s.address == address);
            numbers.insert(Host::clone(host), known.unwrap_or(servers.len()));
            if known.is_none() {
                hosts.push(Host::clone(host));
                servers.push(ServerAddress { address, name: host.name.clone() });
            }
        }
        let open = |path: &Path| {
            let cannot = |e| Failure::new(format!("cannot write to {}: {e}", path.display()));
            if args.dry_run && !path.exists() {
                return Ok(None);
            }
            Ok(Some(Arc::new(Tree::open(path, true).map_err(cannot)?)))
        };
        let (place, name, mut stream) = match Destination::of(&args.into())? {
            Destination::Directory(path) => (open(&path)?, None, None),
            Destination::File(path, name) => (open(&path)?, Some(name), None),
            Destination::Stream(to) => (None, None, Some(Stream::to(to, args.hash).map_err(Failure::new)?)),
            Destination::Nothing => (None, None, None),
        };
        let mut plan = Plan {
            hosts,
            servers,
            files: Vec::new(),
            unlisted: Vec::new(),
            place,
            directories: Vec::new(),
            names: HashSet::new(),
            name,
            selection: args.select.selection()?,
            recursive: args.recursive,
            dry_run: args.dry_run,
            config: config.clone(),
            symbols: Symbols::new(args.symbol_bytes, args.block_symbols, !args.trust.insecure),
            kept: None,
            done_before: 0,
        };
        plan.fit();
        for Target { hosts, path } in &args.sources {
            let mut servers: Vec<usize> = Vec::new();
            for host in hosts {
                if !servers.contains(&numbers[host]) {
                    servers.push(numbers[host]);
                }
            }
            if args.recursive || args.dry_run {
                plan.unlisted.push(Unlisted { servers, path: path.trim_end_matches('/').to_owned() });
            } else {
                let own = path.rsplit('/').next().unwrap_or(path).to_owned();
                let name = plan.name.take().unwrap_or(own);
                plan.add(servers, path.clone(), name)?;
                if let Some(file) = plan.files.last_mut() {
                    file.stream = stream.take();
                }
            }
        }
        Ok(plan)
    }

    fn add(&mut self, servers: Vec<usize>, path: String, name: String) -> Result<(), Failure> {
        if self.place.is_some() {
            if RESERVED.iter().any(|ending| name.ends_with(ending)) {
                return Err(Failure::new(format!(
                    "{path}: names with this ending are reserved for parts of files"
                )));
            }
            if !self.names.insert(name.clone()) {
                return Err(Failure::new(format!(
                    "two files would have the name {name}: fetch them to different directories"
                )));
            }
        }
        let ClientConfig { symbol_bytes, block_symbols, .. } = self.config;
        let output = Output::new(&self.place, &name, symbol_bytes, block_symbols);
        let begun = output.interrupted();
        let object = begun.and_then(|(version, size)| Some(Object { layout: self.layout(size)?, version }));
        let output = Arc::new(Mutex::new(output));
        self.files.push(File { object, ..File::new(servers, path, output) });
        Ok(())
    }

    /// What is in a directory has been listed.
    pub(super) fn listed(&mut self, directory: &Unlisted, listing: Listing) -> Result<(), Failure> {
        // A file is listed as itself; of a directory the last part of its name is kept.
        let parent = directory.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let below = |path: &str| path.strip_prefix(parent).unwrap_or(path).trim_start_matches('/').to_owned();
        let is_one = listing.entries.len() == 1 && listing.entries[0].path == directory.path;
        let found = listing.entries.into_iter().map(|entry| (below(&entry.path), entry)).collect::<Vec<_>>();
        let kept =
            self.selection.of(found.iter().map(|(name, entry)| (name.as_str(), is_directory(entry.mode))));
        for ((name, entry), kept) in found.into_iter().zip(kept) {
            // A server chooses no names but those below what it was asked for.
            if !is_below(&entry.path, &directory.path) || !is_clean(&name) {
                return Err(Failure::new(format!("refused a file that the server names {:?}", entry.path)));
            }
            // What is named itself is always fetched.
            if !kept && entry.path != directory.path {
                continue;
            }
            if is_directory(entry.mode) && !self.recursive {
                let why = "it is a directory: fetch it with --recursive".to_owned();
                self.fail(directory.servers.clone(), entry.path, why);
                return Ok(());
            }
            if is_directory(entry.mode) {
                let attributes = Attributes { modified_ns: entry.modified_ns, mode: entry.mode };
                self.directories.push((name, attributes));
            } else {
                let name = self.name.take().filter(|_| is_one).unwrap_or(name);
                self.add(directory.servers.clone(), entry.path.clone(), name)?;
                if let (true, Some(file)) = (self.dry_run, self.files.last_mut()) {
                    let foreseen = file.lock().foresee(&entry);
                    file.foreseen = Some(foreseen);
                }
            }
        }
        let omitted = listing.omitted;
        let names: Vec<String> = omitted.iter().map(|omitted| below(&omitted.path)).collect();
        let kept = self.selection.of(names.iter().map(|name| (name.as_str(), false)));
        for (Omitted { path, why }, _) in omitted.into_iter().zip(kept).filter(|(_, kept)| *kept) {
            self.fail(directory.servers.clone(), path, why);
        }
        Ok(())
    }

    /// A directory will not be listed.
    pub(super) fn unlistable(&mut self, directory: Unlisted, why: String) {
        self.fail(directory.servers, directory.path, why);
    }

    /// Something will not come.
    fn fail(&mut self, servers: Vec<usize>, path: String, why: String) {
        let ClientConfig { symbol_bytes, block_symbols, .. } = self.config;
        let output = Arc::new(Mutex::new(Output::new(&None, "", symbol_bytes, block_symbols)));
        self.files.push(File { failed: Some(why), ..File::new(servers, path, output) });
    }

    /// Makes the directories that were listed, empty ones too, with their modes and times: once all files are in them.
    pub(super) fn make_directories(&mut self) {
        let Some(tree) = self.place.clone() else { return };
        for (name, attributes) in std::mem::take(&mut self.directories).into_iter().rev() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let made = tree.make_directory(&name).and_then(|()| tree.file(&name, flags, Mode::empty()));
            match made {
                Ok(directory) => tree.set(&directory, attributes),
                Err(e) => self.fail(Vec::new(), name, e.to_string()),
            }
        }
    }

    /// Waits for the reader of a stream to take what has come; not once that is interrupted.
    pub(super) fn drain(&mut self, interrupted: &AtomicBool) {
        for file in self.files.iter_mut().filter(|file| file.failed.is_none() && file.is_complete()) {
            let Some(stream) = &file.stream else { continue };
            while !stream.drain(TICK) && !interrupted.load(Ordering::Relaxed) {}
            let failure = stream.failure().map(|e| e.to_string());
            let unwritten = || Some("interrupted before all of it was written".to_owned());
            file.failed = failure.or_else(|| unwritten().filter(|_| !stream.drain(Duration::ZERO)));
        }
    }

    /// Whether the reader of a stream went away before it had everything.
    pub(super) fn lost_reader(&self) -> bool {
        let failures = self.files.iter().filter_map(|file| file.stream.as_ref()?.failure());
        failures.into_iter().any(|e| is_broken_pipe(&e))
    }

    /// Looks for the servers anew: another of their addresses may answer now.
    pub(super) fn reach_again(&mut self) -> Result<(), Failure> {
        let hosts: Vec<&Host> = self.hosts.iter().collect();
        for (server, address) in self.servers.iter_mut().zip(reach(&hosts, self.config.silence)) {
            server.address = address?;
        }
        Ok(())
    }

    /// Everything is to be fetched once more.
    pub(super) fn again(&mut self) {
        self.done_before = self.blocks_done();
        for file in &mut self.files {
            file.lock().restart();
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.unlisted.is_empty() && self.files.iter().all(File::is_over)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.unlisted.is_empty() && self.files.iter().all(|file| file.failed.is_none() && file.is_complete())
    }

    /// Blocks that have come, of all rounds.
    pub(super) fn blocks_done(&self) -> u64 {
        self.done_before + self.files.iter().map(|f| f.lock().blocks_done()).sum::<u64>()
    }

    /// Cuts blocks anew before the next attempt, as the paths have become.
    pub(super) fn fit(&mut self) {
        self.symbols = self.symbols.fit(self.servers.iter().map(|server| server.address));
        let Symbols { bytes, of_a_block, .. } = self.symbols;
        (self.config.symbol_bytes, self.config.block_symbols) = (bytes, of_a_block);
        for file in &mut self.files {
            if let Some(object) = &mut file.object
                && let Some(layout) = Layout::new(bytes, of_a_block, object.layout.size())
            {
                object.layout = layout;
            }
        }
    }

    /// How connections behave.
    pub(super) fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// How an object of `size` bytes is cut.
    pub(super) fn layout(&self, size: u64) -> Option<Layout> {
        Layout::new(self.config.symbol_bytes, self.config.block_symbols, size)
    }

    pub(super) fn keep_attempt(&mut self, attempt: Attempt) {
        self.kept = Some(attempt);
    }

    pub(super) fn take_attempt(&mut self) -> Option<Attempt> {
        self.kept.take()
    }
}

/// The addresses of these hosts that answer, all looked for at once.
fn reach(hosts: &[&Host], patience: Duration) -> Vec<Result<SocketAddr, Failure>> {
    let look = |host: &Host| host.reach(Over::Tcp, patience);
    std::thread::scope(|scope| {
        let looking: Vec<_> = hosts.iter().map(|host| scope.spawn(move || look(host))).collect();
        let ended = |_| Err(Failure::new("the resolver has ended"));
        looking.into_iter().map(|looking| looking.join().unwrap_or_else(ended)).collect()
    })
}

fn is_below(path: &str, directory: &str) -> bool {
    let rest = if directory == "." { Some(path) } else { path.strip_prefix(directory) };
    rest.is_some_and(|rest| directory == "." || rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::is_below;

    #[test]
    fn a_server_names_only_what_lies_below_what_it_was_asked_for() {
        for (path, directory) in [("a/b", "a"), ("a", "a"), ("a/b/c", "a/b"), ("x", ".")] {
            assert!(is_below(path, directory), "{path} {directory}");
        }
        for (path, directory) in [(".ssh/keys", "a"), ("ab", "a"), ("a", "a/b"), ("", "a")] {
            assert!(!is_below(path, directory), "{path} {directory}");
        }
    }
}
