//! A directory whose files are objects, and nothing outside it.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto::object::Object;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use wire::control::{MAX_PATH_BYTES, Refusal, Version};

use crate::source::{Refused, Source, read_cached, unreadable};

/// Nothing above the directory is reached, however links lead.
const WITHIN: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// A directory; paths are resolved beneath it by the kernel, symbolic links included.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    directory: OwnedFd,
}

impl Root {
    /// Opens the directory.
    ///
    /// # Errors
    /// It is none, or may not be read, or [what is below it cannot be](require_openat2).
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        require_openat2(&directory)?;
        Ok(Root { path: path.to_owned(), directory })
    }

    /// The directory's path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open_as(&self, path: &str, flags: OFlags, resolve: ResolveFlags) -> rustix::io::Result<File> {
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), resolve).map(File::from)
    }

    fn resolve(&self, path: &str, flags: OFlags) -> Result<File, Refused> {
        let path = checked(path)?;
        self.open_as(path, flags, WITHIN).map_err(|errno| refusal(path, &errno.into()))
    }

    /// Opens a file.
    pub(crate) fn file(&self, path: &str) -> Result<Arc<dyn Source>, Refused> {
        open(self.resolve(path, OFlags::empty())?, path)
    }

    /// The same if that takes no waiting: the kernel knows the way, and need not ask a disk for it.
    pub(crate) fn file_at_once(&self, path: &str) -> Option<Arc<dyn Source>> {
        let resolve = WITHIN | ResolveFlags::CACHED;
        let file = self.open_as(checked(path).ok()?, OFlags::empty(), resolve).ok()?;
        open(file, path).ok()
    }

    /// Opens a file, or a directory as an object of no bytes.
    ///
    /// # Errors
    /// There is none, or it may not be read.
    pub fn object(&self, path: &str) -> Result<Arc<dyn Source>, Refused> {
        if self.look(path, Follow::Links)?.is_dir() {
            let file = self.resolve(path, OFlags::DIRECTORY)?;
            let object = object(&file.metadata().map_err(|e| refusal(path, &e))?);
            return Ok(Arc::new(OpenFile { file, object }));
        }
        self.file(path)
    }

    /// What is known of `path` without opening it: devices take no notice.
    pub(crate) fn look(&self, path: &str, follow: Follow) -> Result<Metadata, Refused> {
        let path = checked(path)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let flags = if follow == Follow::Links { flags } else { flags | OFlags::NOFOLLOW };
        let fd = rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), WITHIN);
        let metadata = fd.map_err(Into::into).and_then(|fd| File::from(fd).metadata());
        metadata.map_err(|e| refusal(path, &e))
    }

    /// Opens a directory, to read what is in it.
    pub(crate) fn directory(&self, path: &str) -> Result<File, Refused> {
        self.resolve(path, OFlags::DIRECTORY)
    }
}

/// Tells whether this process may call openat2(2), by which paths are resolved beneath a directory.
///
/// # Errors
/// The kernel is older than Linux 5.6, or a filter of system calls forbids it.
pub fn require_openat2(directory: impl AsFd) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat2(directory, ".", flags, Mode::empty(), WITHIN) {
        Err(Errno::NOSYS | Errno::PERM) => Err(io::Error::new(
            ErrorKind::Unsupported,
            "the system call openat2 is needed to stay inside a directory. It is not there before Linux 5.6, and where a filter of \
             system calls forbids it: with systemd, that is RestrictSUIDSGID=, which DynamicUser= brings along",
        )),
        opened => opened.map(drop).map_err(Into::into),
    }
}

/// A regular file, opened for reading, as the content of an object. `name` stands in errors.
///
/// # Errors
/// It is none.
pub fn open(file: File, name: &str) -> Result<Arc<dyn Source>, Refused> {
    let metadata = file.metadata().map_err(|e| refusal(name, &e))?;
    if !metadata.is_file() {
        return Err((Refusal::NotFound, format!("{name} is no regular file")));
    }
    Ok(Arc::new(OpenFile { file, object: object(&metadata) }))
}

/// A file, or a directory as an object of no bytes.
struct OpenFile {
    file: File,
    object: Object,
}

impl Source for OpenFile {
    fn object(&self) -> Object {
        self.object
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Refused> {
        let read = self.file.read_exact_at(bytes, offset);
        require_unchanged(&self.file, &self.object)?;
        read.map_err(unreadable)
    }

    fn read_at_once(&self, offset: u64, bytes: &mut [u8]) -> Option<Result<(), Refused>> {
        read_cached(&self.file, offset, bytes).then(|| require_unchanged(&self.file, &self.object))
    }
}

/// What a regular file or a directory is sent as.
fn object(metadata: &Metadata) -> Object {
    let size = if metadata.is_dir() { 0 } else { metadata.len() };
    let modified_ns = modified_ns(metadata);
    Object { size, version: version(size, modified_ns), modified_ns, mode: metadata.mode() }
}

/// Whether a link at the end of a path stands for what it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Links,
    NoLinks,
}

pub(crate) fn modified_ns(metadata: &Metadata) -> i64 {
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

pub(crate) fn refusal(path: &str, error: &io::Error) -> Refused {
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
fn require_unchanged(file: &File, object: &Object) -> Result<(), Refused> {
    let metadata = file.metadata().map_err(|e| (Refusal::Unreadable, e.to_string()))?;
    if (metadata.len(), modified_ns(&metadata)) == (object.size, object.modified_ns) {
        Ok(())
    } else {
        Err((Refusal::Changed, "the file has changed since it was asked for".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_changed_is_another_object() {
        let scratch = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(scratch.path(), "0123456789").unwrap();
        let source = open(scratch.reopen().unwrap(), "it").unwrap();
        let mut bytes = [0; 2];
        source.read_at(8, &mut bytes).unwrap();
        assert_eq!(&bytes, b"89");
        std::fs::write(scratch.path(), "012345678").unwrap();
        assert_eq!(source.read_at(0, &mut bytes).unwrap_err().0, Refusal::Changed);
    }
}
