//! The directory that files go into. No link below it is followed, and nothing is made or replaced outside of it.

use std::fs::{self, File, FileTimes, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

/// Names are resolved below the directory by the kernel, and only through directories.
const WITHIN: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// A directory; names within it are relative, with `/` between their parts.
#[derive(Debug)]
pub(crate) struct Tree {
    path: PathBuf,
    directory: OwnedFd,
    replace: bool,
    umask: u32,
}

/// What a name does not have to do with what has come: a time and a mode from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) modified_ns: i64,
    pub(crate) mode: u32,
}

impl Attributes {
    pub(crate) fn modified(&self) -> SystemTime {
        let since_1970 = Duration::from_nanos(u64::try_from(self.modified_ns).unwrap_or_default());
        SystemTime::UNIX_EPOCH + since_1970
    }
}

impl Tree {
    /// The directory at `path`, which is made if there is none. Whether what is there already may be replaced is the
    /// caller's to say.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn open(path: &Path, replace: bool) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        udp::require_openat2(&directory)?;
        Ok(Tree { path: path.to_owned(), directory, replace, umask: umask()? })
    }

    /// Bytes that its file system has left for this user.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        let has = rustix::fs::fstatvfs(&self.directory)?;
        Ok(has.f_bavail.saturating_mul(has.f_frsize))
    }

    /// Where `name` is, for people.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file below it.
    pub(crate) fn file(&self, name: &str, flags: OFlags, mode: Mode) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(&self.directory, name, flags, mode, WITHIN)?.into())
    }

    /// What is known of `name`, of a link itself.
    pub(crate) fn metadata(&self, name: &str) -> io::Result<Metadata> {
        self.file(name, OFlags::PATH, Mode::empty())?.metadata()
    }

    /// The contents of a small file.
    pub(crate) fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut self.file(name, OFlags::RDONLY, Mode::empty())?, &mut bytes)?;
        Ok(bytes)
    }

    /// The directory that `name` is in, and its last part.
    fn parent<'a>(&self, name: &'a str) -> io::Result<(OwnedFd, &'a str)> {
        let (parent, last) = name.rsplit_once('/').unwrap_or((".", name));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok((rustix::fs::openat2(&self.directory, parent, flags, Mode::empty(), WITHIN)?, last))
    }

    /// Makes the directory that `name` is in, and those that it is in.
    pub(crate) fn make_parents(&self, name: &str) -> io::Result<()> {
        match name.rsplit_once('/') {
            Some((parent, _)) => self.make_directory(parent),
            None => Ok(()),
        }
    }

    /// Makes a directory, and those that it is in.
    pub(crate) fn make_directory(&self, name: &str) -> io::Result<()> {
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        for name in ends.map(|end| &name[..end]) {
            let (parent, last) = self.parent(name)?;
            match rustix::fs::mkdirat(&parent, last, Mode::from_raw_mode(0o777)) {
                Err(Errno::EXIST) if !self.metadata(name)?.is_dir() => {
                    let path = self.path(name);
                    return Err(io::Error::other(format!("{} is no directory", path.display())));
                }
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Removes a file, if there is one.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self
            .parent(name)
            .and_then(|(parent, last)| Ok(rustix::fs::unlinkat(parent, last, AtFlags::empty())?));
        match removed {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Gives a file another name, instead of what has that name.
    pub(crate) fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        let (parent, from) = self.parent(from)?;
        let (beside, to) = self.parent(to)?;
        Ok(rustix::fs::renameat(parent, from, beside, to)?)
    }

    /// The same, where nothing has that name unless it may be replaced.
    pub(crate) fn publish(&self, from: &str, to: &str) -> io::Result<()> {
        if self.replace {
            return self.replace(from, to);
        }
        let ((parent, last), (beside, name)) = (self.parent(from)?, self.parent(to)?);
        match rustix::fs::renameat_with(parent, last, beside, name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(self.is_taken(to)),
            // Some file systems know no such flag.
            Err(Errno::INVAL | Errno::NOSYS) => {
                self.require_free(to)?;
                self.replace(from, to)
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Whether something may get this name.
    ///
    /// # Errors
    /// There is something of that name, and it may not be replaced.
    pub(crate) fn require_free(&self, name: &str) -> io::Result<()> {
        match self.metadata(name) {
            Ok(_) if !self.replace => Err(self.is_taken(name)),
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn is_taken(&self, name: &str) -> io::Error {
        let path = self.path(name);
        let what = format!("{} exists already, with other contents or another time", path.display());
        io::Error::new(ErrorKind::AlreadyExists, what)
    }

    /// Gives a file or a directory its mode, as far as the umask allows, and its time.
    pub(crate) fn set(&self, file: &File, attributes: Attributes) {
        let mode = attributes.mode & 0o777 & !self.umask;
        // Some file systems have neither times nor permissions; the bytes are what was asked for.
        let _ = file.set_permissions(Permissions::from_mode(mode));
        let _ = file.set_times(FileTimes::new().set_modified(attributes.modified()));
    }
}

/// The process's umask. It can only be read by being set: threads that make files come later.
pub(crate) fn umask() -> io::Result<u32> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let written = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    if let Some(umask) = written.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()) {
        return Ok(umask);
    }
    let mask = rustix::process::umask(Mode::from_raw_mode(0o077));
    rustix::process::umask(mask);
    Ok(mask.bits())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_is_followed_wherever_it_is() {
        let (within, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tree = Tree::open(within.path(), true).unwrap();
        symlink(outside.path(), within.path().join("link")).unwrap();
        fs::write(within.path().join("file"), "x").unwrap();
        fs::write(outside.path().join("precious"), "x").unwrap();
        for name in ["link", "link/a", "link/a/b", "file/a"] {
            assert!(tree.make_directory(name).is_err(), "{name}");
        }
        let flags = OFlags::WRONLY | OFlags::CREATE;
        assert!(tree.file("link/new", flags, Mode::RWXU).is_err());
        assert!(tree.replace("file", "link/file").is_err());
        assert!(tree.remove("link/precious").is_err());
        assert!(tree.file("../x", flags, Mode::RWXU).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "nothing was made there, or removed");
    }

    #[test]
    fn what_is_there_is_not_replaced_unless_it_may_be() {
        let within = tempfile::tempdir().unwrap();
        let put = |name: &str| fs::write(within.path().join(name), name).unwrap();
        let tree = Tree::open(within.path(), false).unwrap();
        put("part");
        put("file");
        assert_eq!(tree.publish("part", "file").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(tree.require_free("file").unwrap_err().kind(), ErrorKind::AlreadyExists);
        tree.require_free("other").unwrap();
        tree.publish("part", "other").unwrap();
        assert_eq!(fs::read(within.path().join("file")).unwrap(), b"file");
        let tree = Tree::open(within.path(), true).unwrap();
        tree.publish("other", "file").unwrap();
        assert_eq!(fs::read(within.path().join("file")).unwrap(), b"part");
    }
}
