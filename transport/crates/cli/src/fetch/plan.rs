//! What is to be fetched, what is there, and who has what: the work left, cut into pieces for the servers.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use proto::lttp::ClientConfig;
use proto::object::Layout;
use rustix::fs::{Mode, OFlags};
use udp::Source;
use wire::control::{Entry, MAX_RUNS, Omitted, Run, Version, is_directory};

use super::attempt::Attempt;
use crate::Failure;
use crate::args::Fetch;
use crate::output::{Output, Place, RESERVED, is_clean};
use crate::place::{Attributes, Tree};
use crate::symbols::Symbols;
use crate::target::{Host, Target};

/// Pieces of an object for each of its servers: the last ones to finish are then not far apart.
const PIECES_PER_SERVER: u32 = 8;
/// Blocks of a piece at least, so that blocks stream.
const LEAST_PIECE_BLOCKS: u32 = 8;

/// Everything that one command fetches.
pub(super) struct Plan {
    pub(super) servers: Vec<Source>,
    pub(super) files: Vec<File>,
    /// Directories whose listing has not come.
    pub(super) unlisted: Vec<Unlisted>,
    place: Place,
    /// Directories that were listed, each before those in it.
    directories: Vec<(String, Attributes)>,
    names: HashSet<String>,
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
    /// How often it failed in a way that may pass.
    pub(super) tries: u32,
    /// It was found to be another than the one begun with.
    pub(super) changed: bool,
    /// It will not come: why.
    pub(super) failed: Option<String>,
}

/// What is known of a file once a server has told its parameters.
pub(super) struct Object {
    pub(super) layout: Layout,
    pub(super) version: Version,
}

impl File {
    /// Whether nothing of it is left to do.
    pub(super) fn is_over(&self) -> bool {
        self.failed.is_some() || self.is_complete()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.lock().is_finished()
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Output> {
        // A thread that panicked while it held the lock ends the whole command.
        self.output.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// What is missing, in pieces for as many servers.
    pub(super) fn pieces(&self, servers: usize) -> Vec<Vec<Run>> {
        let Some(object) = &self.object else {
            // Of a file that several servers share, the first block tells its size.
            let first = Run { first: 0, count: 1 };
            return vec![if servers < 2 { Vec::new() } else { vec![first] }];
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
        let mut servers = Vec::new();
        for host in args.sources.iter().flat_map(|target| &target.hosts) {
            if !numbers.contains_key(host) {
                let address = host.resolve()?;
                // One server may have several names.
                let known = servers.iter().position(|s: &Source| s.address == address);
                numbers.insert(host.clone(), known.unwrap_or(servers.len()));
                if known.is_none() {
                    servers.push(Source { address, name: host.name.clone() });
                }
            }
        }
        let open = || Tree::open(&args.output, true).map(Arc::new);
        let place = (!args.discard).then(open).transpose();
        let place =
            place.map_err(|e| Failure::new(format!("cannot write to {}: {e}", args.output.display())))?;
        let mut plan = Plan {
            servers,
            files: Vec::new(),
            unlisted: Vec::new(),
            place,
            directories: Vec::new(),
            names: HashSet::new(),
            config: config.clone(),
            symbols: Symbols::new(args.symbol_bytes, args.block_symbols, !args.trust.insecure),
            kept: None,
            done_before: 0,
        };
        plan.fit(false);
        for Target { hosts, path } in &args.sources {
            let mut servers: Vec<usize> = Vec::new();
            for host in hosts {
                if !servers.contains(&numbers[host]) {
                    servers.push(numbers[host]);
                }
            }
            if args.recursive {
                plan.unlisted.push(Unlisted { servers, path: path.trim_end_matches('/').to_owned() });
            } else {
                let name = path.rsplit('/').next().unwrap_or(path).to_owned();
                plan.add(servers, path.clone(), name)?;
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
        self.files.push(File { servers, path, object, tries: 0, output, changed: false, failed: None });
        Ok(())
    }

    /// What is in a directory has been listed.
    pub(super) fn listed(&mut self, directory: &Unlisted, listing: Listing) -> Result<(), Failure> {
        // A file is listed as itself; of a directory the last part of its name is kept.
        let parent = directory.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        for entry in listing.entries {
            let name = entry.path.strip_prefix(parent).unwrap_or(&entry.path).trim_start_matches('/');
            // A server chooses no names but those below what it was asked for.
            if !is_below(&entry.path, &directory.path) || !is_clean(name) {
                return Err(Failure::new(format!("refused a file that the server names {:?}", entry.path)));
            }
            if is_directory(entry.mode) {
                let attributes = Attributes { modified_ns: entry.modified_ns, mode: entry.mode };
                self.directories.push((name.to_owned(), attributes));
            } else {
                self.add(directory.servers.clone(), entry.path.clone(), name.to_owned())?;
            }
        }
        for Omitted { path, why } in listing.omitted {
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
        let (object, tries, changed, failed) = (None, 0, false, Some(why));
        self.files.push(File { servers, path, object, tries, output, changed, failed });
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

    /// Cuts blocks anew before the next attempt: as the paths have become, and shorter if one has `swallowed` datagrams.
    pub(super) fn fit(&mut self, swallowed: bool) {
        let symbols = self.symbols.fit(self.servers.iter().map(|server| server.address));
        self.symbols =
            if swallowed && symbols == self.symbols { symbols.shorter().unwrap_or(symbols) } else { symbols };
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
