//! The directory that a server serves, and nothing outside it.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto::object::Object;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use wire::control::{Entry, MAX_PATH_BYTES, Refusal, Version};

/// A directory; paths are resolved beneath it by the kernel, symbolic links included.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    directory: OwnedFd,
}

/// Why something is not served: for the protocol, and for a person.
pub(crate) type Refused = (Refusal, String);

impl Root {
    /// Opens the directory.
    ///
    /// # Errors
    /// It is none, or may not be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Root { path: path.to_owned(), directory })
    }

    /// The directory's path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn resolve(&self, path: &str, flags: OFlags) -> Result<File, Refused> {
        let path = checked(path)?;
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let fd = rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), resolve);
        fd.map(File::from).map_err(|errno| refusal(path, &errno.into()))
    }

    /// Opens a file for a request.
    pub(crate) fn file(&self, path: &str) -> Result<(File, Object), Refused> {
        let file = self.resolve(path, OFlags::empty())?;
        let metadata = file.metadata().map_err(|e| refusal(path, &e))?;
        if !metadata.is_file() {
            return Err((Refusal::NotFound, format!("{path} is no regular file")));
        }
        let modified_ns = modified_ns(&metadata);
        let object = Object {
            size: metadata.len(),
            version: version(metadata.len(), modified_ns),
            modified_ns,
            mode: metadata.mode() & 0o7777,
        };
        Ok((file, object))
    }

    /// The file at `path`, or all regular files below it, sorted. Links are not followed out of the directory, nor
    /// to directories: a listing ends.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<Entry>, Refused> {
        if let Ok((_, object)) = self.file(path) {
            return Ok(vec![entry(path.to_owned(), &object)]);
        }
        let mut found = Vec::new();
        let top = if path == "." { "" } else { path.trim_end_matches('/') };
        let mut directories = vec![top.to_owned()];
        while let Some(directory) = directories.pop() {
            let shown = if directory.is_empty() { "." } else { &directory };
            let open = self.resolve(shown, OFlags::DIRECTORY);
            let items = open
                .and_then(|open| rustix::fs::Dir::read_from(&open).map_err(|e| refusal(shown, &e.into())));
            let items = match items {
                Ok(items) => items,
                Err(refused) if directory == top => return Err(refused),
                // What is gone, or may not be read, is not served; the rest is.
                Err(_) => continue,
            };
            for item in items {
                let item = item.map_err(|e| refusal(shown, &e.into()))?;
                // A name that is no UTF-8 cannot be asked for.
                let Ok(name) = item.file_name().to_str() else { continue };
                if matches!(name, "." | "..") {
                    continue;
                }
                let below =
                    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
                if item.file_type() == rustix::fs::FileType::Directory {
                    directories.push(below);
                } else if let Ok((_, object)) = self.file(&below) {
                    found.push(entry(below, &object));
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }
}

fn entry(path: String, object: &Object) -> Entry {
    Entry { path, size: object.size, modified_ns: object.modified_ns, mode: object.mode }
}

fn modified_ns(metadata: &std::fs::Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}

/// The same for copies of a file on several servers, as long as they keep its time.
fn version(size: u64, modified_ns: i64) -> Version {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&size.to_be_bytes());
    hasher.update(&modified_ns.to_be_bytes());
    let mut version = [0; 16];
    hasher.finalize_xof().fill(&mut version);
    Version(version)
}

fn checked(path: &str) -> Result<&str, Refused> {
    let bad = |why: &str| Err((Refusal::BadPath, format!("{path:?}: {why}")));
    if path.is_empty() || path.len() > MAX_PATH_BYTES {
        return bad("a path has 1 to 4096 bytes");
    }
    if path.starts_with('/') || path.split('/').any(|part| part == "..") || path.contains('\0') {
        return bad("a path is relative to what is served, and does not leave it");
    }
    Ok(path)
}

fn refusal(path: &str, error: &io::Error) -> Refused {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            (Refusal::NotFound, format!("{path} does not exist"))
        }
        // What openat2 answers to a path that leaves the directory.
        ErrorKind::CrossesDevices => (Refusal::BadPath, format!("{path} leads out of what is served")),
        _ => (Refusal::Unreadable, format!("{path}: {error}")),
    }
}

/// Whether a file is still the object that it was opened as.
///
/// # Errors
/// It is not, or that cannot be told.
pub(crate) fn require_unchanged(file: &File, object: &Object) -> Result<(), Refused> {
    let metadata = file.metadata().map_err(|e| (Refusal::Unreadable, e.to_string()))?;
    if (metadata.len(), modified_ns(&metadata)) == (object.size, object.modified_ns) {
        Ok(())
    } else {
        Err((Refusal::Changed, "the file has changed since it was asked for".into()))
    }
}

/// Reads a block whole, of an object that has not changed until then.
///
/// # Errors
/// The file is another now, or cannot be read.
pub(crate) fn read_block(
    file: &File,
    object: &Object,
    offset: u64,
    bytes: usize,
) -> Result<Arc<[u8]>, Refused> {
    let mut block: Arc<[u8]> = std::iter::repeat_n(0, bytes).collect();
    let place = Arc::get_mut(&mut block).expect("nobody else has it yet");
    let read = file.read_exact_at(place, offset);
    require_unchanged(file, object)?;
    read.map_err(|e| (Refusal::Unreadable, e.to_string()))?;
    Ok(block)
}
