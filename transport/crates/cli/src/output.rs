//! Where a file goes: a part that grows block by block, with a note of what it holds, until it is whole.
//!
//! `NAME.fountain-part` holds the blocks, `NAME.fountain-state` says which, of what. Both are gone when NAME is there.
//! A note is never of another part than the one beside it: it is removed before a part is begun anew. Links in the
//! place of these files are not followed, and one process at a time writes to a part.

use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use proto::object::Layout;
use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};
use udp::Sink;
use wire::control::{Parameters, Run, Version};

/// The note is brought up to date after so long.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);
const PART: &str = ".fountain-part";
const STATE: &str = ".fountain-state";
const FRESH_STATE: &str = ".fountain-state.new";

/// Endings of names that fetches use for themselves.
pub(crate) const RESERVED: [&str; 3] = [PART, STATE, FRESH_STATE];

/// Where files go.
pub(crate) enum Place {
    Directory(PathBuf),
    Nowhere,
}

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

/// A file that comes.
pub(crate) struct Output {
    /// `None`: what comes is thrown away.
    path: Option<PathBuf>,
    symbol_bytes: u16,
    block_symbols: u16,
    parameters: Option<Parameters>,
    layout: Option<Layout>,
    complete: Vec<bool>,
    left: usize,
    bytes_done: u64,
    part: Option<Arc<File>>,
    noted: Instant,
    /// More has come since the last note.
    unnoted: bool,
    finished: bool,
}

/// A note to be written after what it speaks of is on the disk: without the lock, since that may take long.
struct Saving {
    part: Arc<File>,
    note: Vec<u8>,
    state: PathBuf,
    fresh: PathBuf,
}

impl Saving {
    fn save(self) -> io::Result<()> {
        self.part.sync_data()?;
        remove(&self.fresh)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).open(&self.fresh)?.write_all(&self.note)?;
        fs::rename(&self.fresh, &self.state)
    }
}

impl Output {
    /// A file of this name, which comes in blocks of so many symbols of so many bytes.
    pub(crate) fn new(place: &Place, name: &str, symbol_bytes: u16, block_symbols: u16) -> io::Result<Self> {
        let path = match place {
            Place::Nowhere => None,
            Place::Directory(directory) => {
                let path = directory.join(name);
                if let Some(parent) = path.parent() {
                    fs::create_dir_all(parent)?;
                }
                Some(path)
            }
        };
        Ok(Output {
            path,
            symbol_bytes,
            block_symbols,
            parameters: None,
            layout: None,
            complete: Vec::new(),
            left: 0,
            bytes_done: 0,
            part: None,
            noted: Instant::now(),
            unnoted: false,
            finished: false,
        })
    }

    /// Its final path.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn beside(&self, ending: &str) -> Option<PathBuf> {
        let mut name = self.path.clone()?.into_os_string();
        name.push(ending);
        Some(name.into())
    }

    /// What an interruption has left: its version and size, if it can be gone on with.
    pub(crate) fn interrupted(&self) -> Option<(Version, u64)> {
        let note = self.note()?;
        Some((Version(note.version), note.size))
    }

    fn note(&self) -> Option<Note> {
        let text = fs::read(self.beside(STATE)?).ok()?;
        let note: Note = serde_json::from_slice(&text).ok()?;
        let same = note.symbol_bytes == self.symbol_bytes && note.block_symbols == self.block_symbols;
        let part = fs::symlink_metadata(self.beside(PART)?).ok()?;
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
        let blocks = layout.blocks() as usize;
        if self.is_there(&parameters) {
            (self.layout, self.parameters, self.finished) = (Some(layout), Some(parameters), true);
            (self.complete, self.bytes_done) = (vec![true; blocks], parameters.size);
            return Ok(());
        }
        let note = self.note().filter(|n| n.version == parameters.version.0 && n.size == parameters.size);
        if let (Some(path), Some(state)) = (self.beside(PART), self.beside(STATE)) {
            if note.is_none() {
                remove(&state)?;
            }
            self.part = Some(Arc::new(open_part(&path, layout.size(), note.is_none())?));
        }
        self.complete = vec![false; blocks];
        self.left = blocks;
        self.bytes_done = 0;
        self.layout = Some(layout);
        self.parameters = Some(parameters);
        for (first, count) in note.map_or_else(Vec::new, |n| n.complete) {
            for block in first..first.saturating_add(count) {
                self.mark(block);
            }
        }
        Ok(())
    }

    /// The file is there already, as far as its size and its time tell.
    fn is_there(&self, parameters: &Parameters) -> bool {
        let metadata = self.path.as_ref().and_then(|path| fs::symlink_metadata(path).ok());
        metadata.is_some_and(|m| {
            m.is_file() && m.len() == parameters.size && m.modified().ok() == Some(modified(parameters))
        })
    }

    fn mark(&mut self, block: u32) {
        let Some(layout) = self.layout else { return };
        if let Some(complete) = self.complete.get_mut(block as usize).filter(|c| !**c) {
            *complete = true;
            self.left -= 1;
            self.bytes_done += layout.block_bytes(block) as u64;
        }
    }

    /// A verified block. What is to be saved now, if it is time for that.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<Option<Saving>> {
        if self.finished {
            return Ok(None);
        }
        let Some(layout) = self.layout else { return Err(io::Error::other("no parameters")) };
        if let Some(part) = &self.part {
            part.write_all_at(bytes, offset)?;
        }
        let block = offset / (layout.symbol_bytes() as u64 * u64::from(layout.whole_k()));
        self.mark(block as u32);
        self.unnoted = true;
        Ok(if self.noted.elapsed() >= NOTE_INTERVAL { self.saving() } else { None })
    }

    fn saving(&mut self) -> Option<Saving> {
        let (part, parameters) = (self.part.clone()?, self.parameters.as_ref()?);
        let note = Note {
            version: parameters.version.0,
            size: parameters.size,
            symbol_bytes: self.symbol_bytes,
            block_symbols: self.block_symbols,
            complete: runs(&self.complete, true).into_iter().map(|r| (r.first, r.count)).collect(),
        };
        let note = serde_json::to_vec(&note).ok()?;
        (self.noted, self.unnoted) = (Instant::now(), false);
        Some(Saving { part, note, state: self.beside(STATE)?, fresh: self.beside(FRESH_STATE)? })
    }

    /// Brings the note up to date.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        self.saving().map_or(Ok(()), Saving::save)
    }

    /// Makes a part that is whole the file.
    fn finish(&mut self) -> io::Result<()> {
        if self.left > 0 || self.finished {
            return Ok(());
        }
        if let (Some(part), Some(path), Some(parameters)) = (&self.part, &self.path, &self.parameters) {
            // Some file systems have neither times nor permissions; the bytes are what was asked for.
            let _ = part.set_permissions(Permissions::from_mode(parameters.mode & 0o777));
            let _ = part.set_times(FileTimes::new().set_modified(modified(parameters)));
            part.sync_all()?;
            if let (Some(part), Some(state)) = (self.beside(PART), self.beside(STATE)) {
                remove(&state)?;
                fs::rename(part, path)?;
            }
        }
        self.part = None;
        self.finished = true;
        Ok(())
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
        (self.complete.len() - self.left) as u64
    }

    /// What has not come of so many blocks.
    pub(crate) fn missing(&self, blocks: u32) -> Vec<Run> {
        if self.layout.is_some() {
            return runs(&self.complete, false);
        }
        let mut complete = vec![false; blocks as usize];
        for (first, count) in self.note().map_or_else(Vec::new, |n| n.complete) {
            complete.iter_mut().skip(first as usize).take(count as usize).for_each(|c| *c = true);
        }
        runs(&complete, false)
    }

    /// Throws away what has come: the file is another now.
    pub(crate) fn discard(&mut self) {
        for ending in [STATE, PART] {
            // What cannot be removed is of another version, and not gone on with.
            let _ = self.beside(ending).map(|path| remove(&path));
        }
        (self.parameters, self.layout, self.part) = (None, None, None);
        self.complete.clear();
        (self.left, self.bytes_done) = (0, 0);
    }

    /// Throws away what has come, to fetch it again.
    pub(crate) fn restart(&mut self) {
        self.complete.fill(false);
        self.left = self.complete.len();
        self.bytes_done = 0;
        self.finished = false;
    }
}

fn open_part(path: &Path, size: u64, anew: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // What is in it is looked at only when nobody else writes to it.
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let part = options.open(path)?;
    rustix::fs::flock(&part, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| io::Error::other(format!("another process is writing to {}", path.display())))?;
    if anew {
        part.set_len(0)?;
    }
    part.set_len(size)?;
    Ok(part)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn modified(parameters: &Parameters) -> SystemTime {
    let since_1970 = Duration::from_nanos(u64::try_from(parameters.modified_ns).unwrap_or_default());
    SystemTime::UNIX_EPOCH + since_1970
}

/// A relative path that stays where it is.
pub(crate) fn is_clean(name: &str) -> bool {
    !name.is_empty()
        && !name.contains('\0')
        && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Runs of blocks that are complete, or that are not.
fn runs(complete: &[bool], wanted: bool) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (block, _) in complete.iter().enumerate().filter(|(_, c)| **c == wanted) {
        let block = block as u32;
        match runs.last_mut() {
            Some(run) if run.first + run.count == block => run.count += 1,
            _ => runs.push(Run { first: block, count: 1 }),
        }
    }
    runs
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
        self.with(|output| output.write(offset, bytes))?.map_or(Ok(()), Saving::save)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.with(Output::finish)
    }
}

#[cfg(test)]
mod tests {
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

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("weir-output-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Directory(path)
        }

        fn output(&self, symbol_bytes: u16) -> Output {
            Output::new(&Place::Directory(self.0.clone()), "name", symbol_bytes, 2).unwrap()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn begun(directory: &Directory, symbol_bytes: u16, version: u8) -> Output {
        let mut output = directory.output(symbol_bytes);
        let layout = Layout::new(symbol_bytes, 2, 100).unwrap();
        output.open(parameters(version, 100), layout).unwrap();
        output
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
        let directory = Directory::new("resume");
        let mut output = begun(&directory, 16, 1);
        output.write(32, &[CONTENT; 32]).unwrap();
        output.save().unwrap();
        drop(output);
        let mut output = begun(&directory, 16, 1);
        assert_eq!(output.bytes_done(), 32);
        assert_eq!(output.missing(4), [Run { first: 0, count: 1 }, Run { first: 2, count: 2 }]);
        for (offset, bytes) in [(0, 32), (64, 32), (96, 4)] {
            output.write(offset, &vec![CONTENT; bytes]).unwrap();
        }
        output.finish().unwrap();
        assert!(output.is_finished());
        assert_eq!(fs::read(directory.0.join("name")).unwrap(), [CONTENT; 100]);
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 1, "nothing else is left");
        let mut again = begun(&directory, 16, 1);
        assert!(again.is_finished(), "it is there");
        again.write(0, &[0; 32]).unwrap();
        assert_eq!(fs::read(directory.0.join("name")).unwrap(), [CONTENT; 100]);
    }

    #[test]
    fn a_note_never_speaks_of_another_part() {
        let directory = Directory::new("note");
        let mut output = begun(&directory, 16, 1);
        output.write(0, &[CONTENT; 32]).unwrap();
        output.save().unwrap();
        drop(output);
        // Another cut, interrupted before its first note.
        drop(begun(&directory, 32, 1));
        assert_eq!(begun(&directory, 16, 1).bytes_done(), 0, "what was of the first part is gone with it");
    }

    #[test]
    fn another_version_is_begun_anew() {
        let directory = Directory::new("version");
        let mut output = begun(&directory, 16, 1);
        output.write(0, &[CONTENT; 32]).unwrap();
        output.save().unwrap();
        drop(output);
        assert_eq!(begun(&directory, 16, 2).bytes_done(), 0);
    }

    #[test]
    fn two_fetches_do_not_write_to_one_part() {
        let directory = Directory::new("lock");
        let first = begun(&directory, 16, 1);
        let mut second = directory.output(16);
        let layout = Layout::new(16, 2, 100).unwrap();
        assert!(second.open(parameters(1, 100), layout).is_err());
        drop(first);
        assert!(second.open(parameters(1, 100), layout).is_ok());
    }

    #[test]
    fn a_link_in_the_place_of_a_part_is_not_followed() {
        let directory = Directory::new("link");
        let outside = directory.0.join("precious");
        fs::write(&outside, "precious").unwrap();
        std::os::unix::fs::symlink(&outside, directory.0.join("name.fountain-part")).unwrap();
        let layout = Layout::new(16, 2, 100).unwrap();
        assert!(directory.output(16).open(parameters(1, 100), layout).is_err());
        assert_eq!(fs::read_to_string(outside).unwrap(), "precious");
    }
}
