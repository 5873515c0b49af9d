//! Where a file goes: a part that grows block by block, with a note of what it holds, until it is whole.
//!
//! `NAME.fountain-part` holds the blocks, `NAME.fountain-state` says which, of what. Both are gone when NAME is there.
//! A note is never of another part than the one beside it: it is removed before a part is begun anew. One process at a
//! time writes to a part. A directory is an object of no bytes.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proto::BlockSet;
use proto::object::Layout;
use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};
use udp::Sink;
use wire::control::{Entry, Parameters, Run, Version, is_directory};

use crate::place::{Attributes, Tree};

/// The note is brought up to date after so long.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);
const PART: &str = ".fountain-part";
const STATE: &str = ".fountain-state";
const FRESH_STATE: &str = ".fountain-state.new";

/// Endings of names that fetches use for themselves.
pub(crate) const RESERVED: [&str; 3] = [PART, STATE, FRESH_STATE];

/// Where files go; `None`: what comes is thrown away.
pub(crate) type Place = Option<Arc<Tree>>;

/// What of a part is there.
#[derive(Serialize, Deserialize, PartialEq)]
struct Note {
    version: [u8; 16],
    size: u64,
    symbol_bytes: u16,
    block_symbols: u16,
    /// Runs of blocks that are there: the first, and how many.
    complete: Vec<(u32, u32)>,
}

/// What would be done for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreseen {
    /// "new", "replace", "resume", or "there" if nothing would.
    pub(crate) what: &'static str,
    /// Its length.
    pub(crate) size: u64,
    /// Bytes that would come.
    pub(crate) bytes: u64,
}

/// A file, or a directory, to be given its name, its mode and its time.
struct Finishing {
    tree: Arc<Tree>,
    /// A directory has none: it has been made.
    part: Option<Arc<File>>,
    attributes: Attributes,
    state: String,
    from: String,
    name: String,
}

impl Finishing {
    fn finish(self) -> io::Result<()> {
        let Finishing { tree, part, attributes, state, from, name } = self;
        let Some(part) = part else {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            tree.set(&tree.file(&name, flags, Mode::empty())?, attributes);
            return Ok(());
        };
        tree.set(&part, attributes);
        part.sync_all()?;
        tree.remove(&state)?;
        tree.publish(&from, &name)
    }
}

/// A file that comes. What may wait for a disk is done without the lock that others look at it by.
pub(crate) struct Output {
    place: Place,
    name: String,
    symbol_bytes: u16,
    block_symbols: u16,
    parameters: Option<Parameters>,
    layout: Option<Layout>,
    /// Blocks that have not come, once the object is known.
    missing: BlockSet,
    bytes_done: u64,
    part: Option<Arc<File>>,
    noted: Instant,
    /// More has come since the last note.
    unnoted: bool,
    finished: bool,
}

/// A note to be written after what it speaks of is on the disk: without the lock, since that may take long.
struct Saving {
    tree: Arc<Tree>,
    part: Arc<File>,
    note: Vec<u8>,
    state: String,
    fresh: String,
}

impl Saving {
    fn save(self) -> io::Result<()> {
        self.part.sync_data()?;
        self.tree.remove(&self.fresh)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        self.tree.file(&self.fresh, flags, Mode::from_raw_mode(0o600))?.write_all(&self.note)?;
        self.tree.replace(&self.fresh, &self.state)
    }
}

impl Output {
    /// A file of this name, which comes in blocks of so many symbols of so many bytes.
    pub(crate) fn new(place: &Place, name: &str, symbol_bytes: u16, block_symbols: u16) -> Self {
        Output {
            place: place.clone(),
            name: name.to_owned(),
            symbol_bytes,
            block_symbols,
            parameters: None,
            layout: None,
            missing: BlockSet::default(),
            bytes_done: 0,
            part: None,
            noted: Instant::now(),
            unnoted: false,
            finished: false,
        }
    }

    /// Its name below the place.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its final path.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.place.as_ref().map(|tree| tree.path(&self.name))
    }

    fn beside(&self, ending: &str) -> String {
        format!("{}{ending}", self.name)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.parameters.is_some_and(|parameters| is_directory(parameters.mode))
    }

    /// What an interruption has left: its version and size, if it can be gone on with.
    pub(crate) fn interrupted(&self) -> Option<(Version, u64)> {
        let note = self.note()?;
        Some((Version(note.version), note.size))
    }

    fn note(&self) -> Option<Note> {
        let tree = self.place.as_ref()?;
        let note: Note = serde_json::from_slice(&tree.read(&self.beside(STATE)).ok()?).ok()?;
        // Symbols may have been of another length, on another path, if blocks are not.
        let block_bytes = |bytes: u16, symbols: u16| u32::from(bytes) * u32::from(symbols);
        let same = block_bytes(note.symbol_bytes, note.block_symbols)
            == block_bytes(self.symbol_bytes, self.block_symbols);
        let part = tree.metadata(&self.beside(PART)).ok()?;
        (same && part.is_file() && part.len() == note.size).then_some(note)
    }

    /// The object is known: goes on with what is there of it, or begins anew.
    pub(crate) fn open(&mut self, parameters: Parameters, layout: Layout) -> io::Result<()> {
        if self.parameters.is_some_and(|p| p.version == parameters.version && p.size == parameters.size) {
            return Ok(());
        }
        if self.parameters.is_some() {
            return Err(io::Error::other("copies of the file differ, or it changed while it was fetched"));
        }
        if self.is_there(&parameters) {
            (self.layout, self.parameters, self.finished) = (Some(layout), Some(parameters), true);
            (self.missing, self.bytes_done) = (BlockSet::default(), parameters.size);
            return Ok(());
        }
        let note = self.note().filter(|n| n.version == parameters.version.0 && n.size == parameters.size);
        if is_directory(parameters.mode) {
            if parameters.size > 0 {
                return Err(io::Error::other("a directory of more than 0 bytes"));
            }
            self.place.as_ref().map_or(Ok(()), |tree| tree.make_directory(&self.name))?;
        } else if let Some(tree) = &self.place {
            tree.make_parents(&self.name)?;
            tree.require_free(&self.name)?;
            if note.is_none() {
                tree.remove(&self.beside(STATE))?;
            }
            self.part = Some(Arc::new(open_part(tree, &self.beside(PART), layout.size(), note.is_none())?));
        }
        self.missing = BlockSet::all(layout.blocks());
        self.bytes_done = 0;
        self.layout = Some(layout);
        self.parameters = Some(parameters);
        let complete = note.map_or_else(Vec::new, |note| note.complete);
        for block in within(&complete, layout.blocks()) {
            self.mark(block);
        }
        Ok(())
    }

    /// The file is there already, as far as its size and its time tell.
    fn is_there(&self, parameters: &Parameters) -> bool {
        !is_directory(parameters.mode) && self.has(parameters.size, attributes(parameters))
    }

    fn has(&self, size: u64, attributes: Attributes) -> bool {
        let metadata = self.place.as_ref().and_then(|tree| tree.metadata(&self.name).ok());
        metadata.is_some_and(|m| {
            m.is_file() && m.len() == size && m.modified().ok() == Some(attributes.modified())
        })
    }

    /// What would be done for a file that is listed like this.
    pub(crate) fn foresee(&self, entry: &Entry) -> Foreseen {
        let Entry { size, modified_ns, mode, .. } = *entry;
        if self.has(size, Attributes { modified_ns, mode }) {
            return Foreseen { what: "there", size, bytes: 0 };
        }
        // Whether it is another version by now is known once it is asked for.
        if let Some(note) = self.note().filter(|note| note.size == size) {
            let block_bytes = u64::from(note.symbol_bytes) * u64::from(note.block_symbols);
            let blocks: u64 = note.complete.iter().map(|(_, count)| u64::from(*count)).sum();
            return Foreseen { what: "resume", size, bytes: size.saturating_sub(blocks * block_bytes) };
        }
        let exists = self.place.as_ref().is_some_and(|tree| tree.metadata(&self.name).is_ok());
        Foreseen { what: if exists { "replace" } else { "new" }, size, bytes: size }
    }

    fn mark(&mut self, block: u32) {
        let Some(layout) = self.layout else { return };
        if self.missing.remove(block) {
            self.bytes_done += layout.block_bytes(block) as u64;
        }
    }

    /// Where a verified block goes; `None` if nothing is to be written.
    fn target(&self) -> io::Result<Option<Arc<File>>> {
        match self.layout {
            None => Err(io::Error::other("no parameters")),
            Some(_) => Ok(self.part.clone().filter(|_| !self.finished)),
        }
    }

    /// A verified block is where it goes. What is to be saved now, if it is time for that.
    fn wrote(&mut self, offset: u64) -> Option<Saving> {
        let layout = self.layout.filter(|_| !self.finished)?;
        let block = offset / (layout.symbol_bytes() as u64 * u64::from(layout.whole_k()));
        self.mark(block as u32);
        self.unnoted = true;
        if self.noted.elapsed() >= NOTE_INTERVAL { self.saving() } else { None }
    }

    fn saving(&mut self) -> Option<Saving> {
        let (tree, part) = (self.place.clone()?, self.part.clone()?);
        let parameters = self.parameters.as_ref()?;
        let complete = self.missing.complement(self.layout?.blocks());
        let note = Note {
            version: parameters.version.0,
            size: parameters.size,
            symbol_bytes: self.symbol_bytes,
            block_symbols: self.block_symbols,
            complete: complete.runs().iter().map(|run| (run.first, run.count)).collect(),
        };
        let note = serde_json::to_vec(&note).ok()?;
        (self.noted, self.unnoted) = (Instant::now(), false);
        let (state, fresh) = (self.beside(STATE), self.beside(FRESH_STATE));
        Some(Saving { tree, part, note, state, fresh })
    }

    /// Brings the note up to date.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        self.saving().map_or(Ok(()), Saving::save)
    }

    /// How a part that is whole becomes the file, unless it is there already.
    fn finishing(&self) -> Option<Finishing> {
        if !self.missing.is_empty() || self.finished {
            return None;
        }
        let (tree, attributes) = (self.place.clone()?, attributes(self.parameters.as_ref()?));
        let (name, part) = (self.name.clone(), self.part.clone());
        Some(Finishing { tree, part, attributes, state: self.beside(STATE), from: self.beside(PART), name })
    }

    /// What was to be finished is.
    fn finished(&mut self) {
        if self.missing.is_empty() {
            (self.part, self.finished) = (None, true);
        }
    }

    /// Lets go of the part, with a note of what is there: another may go on with it.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        let saved = if self.unnoted { self.save() } else { Ok(()) };
        (self.part, self.finished) = (None, true);
        saved
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    pub(crate) fn size(&self) -> u64 {
        self.layout.map_or(0, |layout| layout.size())
    }

    /// Bytes of the blocks that are there.
    pub(crate) fn bytes_done(&self) -> u64 {
        self.bytes_done
    }

    pub(crate) fn blocks_done(&self) -> u64 {
        self.layout.map_or(0, |layout| u64::from(layout.blocks()) - self.missing.len())
    }

    /// What has not come of so many blocks.
    pub(crate) fn missing(&self, blocks: u32) -> Vec<Run> {
        if self.layout.is_some() {
            return self.missing.runs().to_vec();
        }
        let mut missing = BlockSet::all(blocks);
        let complete = self.note().map_or_else(Vec::new, |note| note.complete);
        for block in within(&complete, blocks) {
            missing.remove(block);
        }
        missing.runs().to_vec()
    }

    /// Throws away what has come: the file is another now.
    pub(crate) fn discard(&mut self) {
        for ending in [STATE, PART] {
            // What cannot be removed is of another version, and not gone on with.
            let _ = self.place.as_ref().map(|tree| tree.remove(&self.beside(ending)));
        }
        (self.parameters, self.layout, self.part) = (None, None, None);
        (self.missing, self.bytes_done) = (BlockSet::default(), 0);
    }

    /// Throws away what has come, to fetch it again.
    pub(crate) fn restart(&mut self) {
        self.missing = BlockSet::all(self.layout.map_or(0, |layout| layout.blocks()));
        self.bytes_done = 0;
        self.finished = false;
    }
}

fn open_part(tree: &Tree, name: &str, size: u64, anew: bool) -> io::Result<File> {
    // What is in it is looked at only when nobody else writes to it.
    let part = tree.file(name, OFlags::WRONLY | OFlags::CREATE, Mode::from_raw_mode(0o600))?;
    rustix::fs::flock(&part, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let what = format!("another process is writing to {}", tree.path(name).display());
        io::Error::new(io::ErrorKind::WouldBlock, what)
    })?;
    if anew {
        part.set_len(0)?;
    }
    part.set_len(size)?;
    Ok(part)
}

/// The blocks of a note's runs, of an object of so many.
fn within(runs: &[(u32, u32)], blocks: u32) -> impl Iterator<Item = u32> {
    runs.iter().flat_map(move |(first, count)| *first..first.saturating_add(*count).min(blocks))
}

fn attributes(parameters: &Parameters) -> Attributes {
    Attributes { modified_ns: parameters.modified_ns, mode: parameters.mode }
}

/// A relative path that stays where it is.
pub(crate) fn is_clean(name: &str) -> bool {
    !name.is_empty()
        && !name.contains('\0')
        && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// An output, or a piece of it, as a job writes to it.
pub(crate) struct Writer(pub(crate) Arc<Mutex<Output>>);

impl Writer {
    fn with<T>(&self, act: impl FnOnce(&mut Output) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Sink for Writer {
    fn begin(&mut self, parameters: &Parameters, layout: Layout) -> io::Result<()> {
        self.with(|output| output.open(*parameters, layout))
    }

    fn block(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(part) = self.with(|output| output.target())? {
            part.write_all_at(bytes, offset)?;
        }
        self.with(|output| output.wrote(offset)).map_or(Ok(()), Saving::save)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.with(|output| output.finishing()).map_or(Ok(()), Finishing::finish)?;
        self.with(Output::finished);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    const CONTENT: u8 = 7;

    fn parameters(version: u8, size: u64) -> Parameters {
        Parameters {
            request: 0,
            size,
            version: Version([version; 16]),
            modified_ns: 1_000_000_000,
            mode: 0o640,
            seed: 0,
            last_seed: 0,
        }
    }

    struct Directory(TempDir);

    impl Directory {
        fn new() -> Self {
            Directory(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn output(&self, symbol_bytes: u16) -> Output {
            let tree = Tree::open(self.0.path(), true).unwrap();
            Output::new(&Some(Arc::new(tree)), "name", symbol_bytes, 2)
        }
    }

    fn begun(directory: &Directory, symbol_bytes: u16, version: u8) -> Output {
        let mut output = directory.output(symbol_bytes);
        let layout = Layout::new(symbol_bytes, 2, 100).unwrap();
        output.open(parameters(version, 100), layout).unwrap();
        output
    }

    fn put(output: &mut Output, offset: u64, bytes: usize) {
        output.target().unwrap().unwrap().write_all_at(&vec![CONTENT; bytes], offset).unwrap();
        assert!(output.wrote(offset).is_none(), "it is not time for a note");
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        for name in ["", "..", "../x", "a/../../x", "/etc/passwd", "a//b", "./a", "a\0b"] {
            assert!(!is_clean(name), "{name:?}");
        }
        assert!(is_clean("a") && is_clean("a/b.c/d") && is_clean("..a"));
    }

    #[test]
    fn what_was_interrupted_is_gone_on_with_and_becomes_the_file() {
        let directory = Directory::new();
        let mut output = begun(&directory, 16, 1);
        put(&mut output, 32, 32);
        output.save().unwrap();
        drop(output);
        let mut output = begun(&directory, 16, 1);
        assert_eq!(output.bytes_done(), 32);
        assert_eq!(output.missing(4), [Run { first: 0, count: 1 }, Run { first: 2, count: 2 }]);
        for (offset, bytes) in [(0, 32), (64, 32), (96, 4)] {
            put(&mut output, offset, bytes);
        }
        output.finishing().unwrap().finish().unwrap();
        output.finished();
        assert!(output.is_finished());
        assert_eq!(fs::read(directory.path("name")).unwrap(), [CONTENT; 100]);
        assert_eq!(fs::read_dir(directory.0.path()).unwrap().count(), 1, "nothing else is left");
        let again = begun(&directory, 16, 1);
        assert!(again.is_finished(), "it is there");
        assert!(again.target().unwrap().is_none() && again.finishing().is_none());
        assert_eq!(fs::read(directory.path("name")).unwrap(), [CONTENT; 100]);
    }

    #[test]
    fn a_note_never_speaks_of_another_part() {
        let directory = Directory::new();
        let mut output = begun(&directory, 16, 1);
        put(&mut output, 0, 32);
        output.save().unwrap();
        drop(output);
        // Another cut, interrupted before its first note.
        drop(begun(&directory, 32, 1));
        assert_eq!(begun(&directory, 16, 1).bytes_done(), 0, "what was of the first part is gone with it");
    }

    #[test]
    fn another_version_is_begun_anew() {
        let directory = Directory::new();
        let mut output = begun(&directory, 16, 1);
        put(&mut output, 0, 32);
        output.save().unwrap();
        drop(output);
        assert_eq!(begun(&directory, 16, 2).bytes_done(), 0);
    }

    #[test]
    fn two_fetches_do_not_write_to_one_part() {
        let directory = Directory::new();
        let first = begun(&directory, 16, 1);
        let mut second = directory.output(16);
        let layout = Layout::new(16, 2, 100).unwrap();
        assert!(second.open(parameters(1, 100), layout).is_err());
        drop(first);
        assert!(second.open(parameters(1, 100), layout).is_ok());
    }

    #[test]
    fn a_link_in_the_place_of_a_part_is_not_followed() {
        let directory = Directory::new();
        let outside = directory.path("precious");
        fs::write(&outside, "precious").unwrap();
        std::os::unix::fs::symlink(&outside, directory.path("name.fountain-part")).unwrap();
        let layout = Layout::new(16, 2, 100).unwrap();
        assert!(directory.output(16).open(parameters(1, 100), layout).is_err());
        assert_eq!(fs::read_to_string(outside).unwrap(), "precious");
    }
}
