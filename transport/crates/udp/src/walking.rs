//! What lies below a path of a [`Root`], found step by step: nothing is left out without a word.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::fs::{Dir, FileType};
use wire::control::{Entry, MAX_PATH_BYTES, Omitted};

use crate::files::{Follow, Root, modified_ns, refusal};
use crate::source::Refused;

/// Files and directories below a path, each directory before what is in it, names in the order of their bytes.
///
/// Links to files are found as these files, under the link's name. Links to directories are not followed: a walk ends.
#[derive(Debug)]
pub struct Walk {
    root: Arc<Root>,
    /// What is to be looked at, the next one last.
    left: Vec<String>,
    /// What was found where `left` could not say it.
    found: VecDeque<Found>,
}

/// A step of a [`Walk`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A file or a directory.
    Entry(Entry),
    /// What can be neither read nor named.
    Omitted(Omitted),
}

impl Found {
    fn held_bytes(&self) -> usize {
        match self {
            Found::Entry(entry) => entry.path.capacity(),
            Found::Omitted(omitted) => omitted.path.capacity() + omitted.why.capacity(),
        }
    }
}

impl Walk {
    /// Begins at `path`: a file is found as itself, and "." as what is in it.
    ///
    /// # Errors
    /// There is nothing of that name, for a person.
    pub fn new(root: Arc<Root>, path: &str) -> Result<Self, String> {
        Walk::below(root, path).map_err(|(_, detail)| detail)
    }

    pub(crate) fn below(root: Arc<Root>, path: &str) -> Result<Self, Refused> {
        let path = if path == "." { path } else { path.trim_end_matches('/') };
        let metadata = root.look(path, Follow::Links)?;
        let mut walk = Walk { root, left: Vec::new(), found: VecDeque::new() };
        if metadata.is_dir() {
            walk.enter(path, &metadata);
        } else {
            walk.left.push(path.to_owned());
        }
        Ok(walk)
    }

    /// Bytes of memory that it takes between two steps.
    pub(crate) fn held_bytes(&self) -> usize {
        let left: usize = self.left.iter().map(String::capacity).sum();
        let found: usize = self.found.iter().map(Found::held_bytes).sum();
        let places = self.left.capacity() * size_of::<String>() + self.found.capacity() * size_of::<Found>();
        left + found + places
    }

    fn look(&mut self, path: String) -> Option<Found> {
        let metadata = match self.root.look(&path, Follow::NoLinks) {
            Ok(metadata) => metadata,
            Err((_, why)) => return Some(omitted(path, why)),
        };
        match FileType::from_raw_mode(metadata.mode()) {
            FileType::RegularFile => Some(entry(path, &metadata)),
            FileType::Directory => {
                self.enter(&path, &metadata);
                self.found.pop_front()
            }
            FileType::Symlink => Some(match self.root.look(&path, Follow::Links) {
                Ok(metadata) if metadata.is_file() => entry(path, &metadata),
                Ok(metadata) if metadata.is_dir() => {
                    omitted(path, "a link to a directory, which is not followed")
                }
                Ok(_) => omitted(path, "a link to what is no regular file"),
                Err((_, why)) => omitted(path, format!("a link: {why}")),
            }),
            _ => Some(omitted(path, "no regular file, directory or link")),
        }
    }

    /// Finds a directory, and puts what is in it before all that is left.
    fn enter(&mut self, path: &str, metadata: &Metadata) {
        // What is asked for by "." has no name of its own.
        if path != "." {
            self.found.push_back(entry(path.to_owned(), metadata));
        }
        let mut names = Vec::new();
        let read = self.root.directory(path).and_then(|directory| {
            let cannot = |e: rustix::io::Errno| refusal(path, &e.into());
            for item in Dir::read_from(directory).map_err(cannot)? {
                let item = item.map_err(cannot)?;
                if !matches!(item.file_name().to_bytes(), b"." | b"..") {
                    names.push(item.file_name().to_owned());
                }
            }
            Ok(())
        });
        if let Err((_, why)) = read {
            self.found.push_back(omitted(path.to_owned(), why));
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        for name in names {
            let below = if path == "." { String::new() } else { format!("{path}/") };
            match name.to_str() {
                Ok(name) if below.len() + name.len() <= MAX_PATH_BYTES => self.left.push(below + name),
                Ok(name) => {
                    let why = format!("its path is longer than {MAX_PATH_BYTES} bytes");
                    self.found.push_back(omitted(below + name, why));
                }
                Err(_) => self.found.push_back(omitted(below + &written(&name), "its name is not UTF-8")),
            }
        }
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Some(found);
            }
            let path = self.left.pop()?;
            if let Some(found) = self.look(path) {
                return Some(found);
            }
        }
    }
}

fn entry(path: String, metadata: &Metadata) -> Found {
    let size = if metadata.is_dir() { 0 } else { metadata.len() };
    Found::Entry(Entry { path, size, modified_ns: modified_ns(metadata), mode: metadata.mode() })
}

fn omitted(path: String, why: impl Into<String>) -> Found {
    Found::Omitted(Omitted { path, why: why.into() })
}

/// A name for people: what is no UTF-8 is written as `\xNN`.
fn written(name: &CStr) -> String {
    name.to_bytes()
        .utf8_chunks()
        .flat_map(|chunk| {
            let invalid = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
            std::iter::once(chunk.valid().to_owned()).chain(invalid)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;

    fn walk(root: &TempDir, path: &str) -> Vec<(String, String)> {
        let root = Arc::new(Root::open(root.path()).unwrap());
        let told = |found| match found {
            Found::Entry(entry) => (entry.path, format!("{:o} {}", entry.mode, entry.size)),
            Found::Omitted(omitted) => (omitted.path, omitted.why),
        };
        Walk::below(root, path).unwrap().map(told).collect()
    }

    #[test]
    fn everything_is_found_or_named() {
        let scratch = tempfile::tempdir().unwrap();
        let top = scratch.path();
        fs::create_dir_all(top.join("a/empty")).unwrap();
        fs::create_dir_all(top.join("a-b")).unwrap();
        fs::write(top.join("a/file"), "four").unwrap();
        fs::write(top.join(std::ffi::OsStr::from_bytes(b"a/bad\xff\nname")), "").unwrap();
        symlink("file", top.join("a/link")).unwrap();
        symlink("empty", top.join("a/to-directory")).unwrap();
        symlink("nothing", top.join("a/to-nothing")).unwrap();
        symlink("/etc/passwd", top.join("a/to-outside")).unwrap();
        let pipe = top.join("a/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, pipe, FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        for (path, mode) in [("a", 0o750), ("a/empty", 0o711), ("a-b", 0o755), ("a/file", 0o640)] {
            fs::set_permissions(top.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        let found = walk(&scratch, ".");
        let found: Vec<_> = found.iter().map(|(path, what)| (path.as_str(), what.as_str())).collect();
        assert_eq!(
            found,
            [
                ("a", "40750 0"),
                ("a/bad\\xff\nname", "its name is not UTF-8"),
                ("a/empty", "40711 0"),
                ("a/file", "100640 4"),
                ("a/link", "100640 4"),
                ("a/pipe", "no regular file, directory or link"),
                ("a/to-directory", "a link to a directory, which is not followed"),
                ("a/to-nothing", "a link: a/to-nothing does not exist"),
                ("a/to-outside", "a link: a/to-outside leads out of what is served"),
                ("a-b", "40755 0"),
            ]
        );
        assert_eq!(walk(&scratch, "a/empty/"), [("a/empty".to_owned(), "40711 0".to_owned())]);
        assert_eq!(walk(&scratch, "a/link"), [("a/link".to_owned(), "100640 4".to_owned())]);
    }

    #[test]
    fn a_path_that_is_too_long_to_be_asked_for_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let mut path = scratch.path().to_owned();
        for _ in 0..20 {
            path.push("d".repeat(200));
            fs::create_dir(&path).unwrap();
        }
        // The system's own limit is for one call: below a directory that is open there is no other.
        let within = fs::File::open(&path).unwrap();
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mkdirat(&within, "e".repeat(200), mode).unwrap();
        let found = walk(&scratch, ".");
        assert_eq!(found.len(), 21);
        assert_eq!(found[20].1, format!("its path is longer than {MAX_PATH_BYTES} bytes"));
    }

    #[test]
    fn what_goes_away_meanwhile_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::create_dir(scratch.path().join(name)).unwrap();
        }
        let mut walk = Walk::new(Arc::new(Root::open(scratch.path()).unwrap()), ".").unwrap();
        assert!(matches!(walk.next(), Some(Found::Entry(entry)) if entry.path == "a"));
        fs::remove_dir(scratch.path().join("b")).unwrap();
        assert_eq!(walk.next(), Some(omitted("b".into(), "b does not exist")));
        assert_eq!(walk.next(), None);
    }

    #[test]
    fn a_file_beneath_no_directory_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let root = Arc::new(Root::open(scratch.path()).unwrap());
        for path in ["nothing", "", "/etc", "../x"] {
            assert!(Walk::below(root.clone(), path).is_err(), "{path}");
        }
    }
}
