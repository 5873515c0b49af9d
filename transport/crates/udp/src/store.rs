//! What a server serves: objects by their paths.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use proto::object::Object;
use wire::control::{Entry, Refusal};

use crate::files::Root;
use crate::source::{Refused, Source};
use crate::walking::{Found, Walk};

/// Files and directories below a path, and what cannot be fetched of it, found step by step.
pub trait Listing: Iterator<Item = Found> + Send {
    /// Bytes of memory that it takes between two steps. They count among those that its connection holds
    /// ([`crate::Limits::memory_bytes`]): a client may read as slowly as it likes.
    fn held_bytes(&self) -> usize;
}

/// Objects by their paths. Threads that may wait call it, but for [`Store::open_at_once`].
pub trait Store: Send + Sync {
    /// Opens an object for a request.
    ///
    /// # Errors
    /// Why not, for the client and for a person.
    fn open(&self, path: &str) -> Result<Arc<dyn Source>, Refused>;

    /// The same, if it takes no waiting: the thread of the network calls it. `None`: [`Store::open`] has to be called.
    fn open_at_once(&self, path: &str) -> Option<Arc<dyn Source>> {
        let _ = path;
        None
    }

    /// What lies below a path; a file is found as itself, and everything below ".".
    ///
    /// # Errors
    /// There is nothing of that name.
    fn list(self: Arc<Self>, path: &str) -> Result<Box<dyn Listing>, Refused>;
}

impl Store for Root {
    fn open(&self, path: &str) -> Result<Arc<dyn Source>, Refused> {
        self.file(path)
    }

    fn open_at_once(&self, path: &str) -> Option<Arc<dyn Source>> {
        self.file_at_once(path)
    }

    fn list(self: Arc<Self>, path: &str) -> Result<Box<dyn Listing>, Refused> {
        Ok(Box::new(Walk::below(self, path)?))
    }
}

impl Listing for Walk {
    fn held_bytes(&self) -> usize {
        Walk::held_bytes(self)
    }
}

/// Objects by name, which come and go while they are served. Names may have slashes: `a/b` lies below `a`.
#[derive(Default)]
pub struct Objects(RwLock<BTreeMap<String, Arc<dyn Source>>>);

impl Objects {
    /// None yet.
    pub fn new() -> Self {
        Objects::default()
    }

    /// Serves an object under a name; what had the name before is returned. Who is fetching that goes on to do so.
    pub fn insert(&self, name: impl Into<String>, source: Arc<dyn Source>) -> Option<Arc<dyn Source>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name.into(), source)
    }

    /// Serves it no more; clients that have begun to fetch it get the rest.
    pub fn remove(&self, name: &str) -> Option<Arc<dyn Source>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Arc<dyn Source>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Objects {
    fn open(&self, path: &str) -> Result<Arc<dyn Source>, Refused> {
        self.open_at_once(path).ok_or_else(|| absent(path))
    }

    fn open_at_once(&self, path: &str) -> Option<Arc<dyn Source>> {
        self.read().get(path).cloned()
    }

    fn list(self: Arc<Self>, path: &str) -> Result<Box<dyn Listing>, Refused> {
        let path = path.trim_end_matches('/').to_owned();
        let names = Names { objects: self, path, last: None };
        if names.path != "." && names.entry().is_none() {
            return Err(absent(&names.path));
        }
        Ok(Box::new(names))
    }
}

/// Names of [`Objects`] below a path. Objects that come meanwhile are found if their names are still ahead.
struct Names {
    objects: Arc<Objects>,
    path: String,
    /// The name that was found last.
    last: Option<String>,
}

impl Names {
    fn entry(&self) -> Option<Entry> {
        let objects = self.objects.read();
        let found = |(name, source): (&String, &Arc<dyn Source>)| {
            let Object { size, modified_ns, mode, .. } = source.object();
            Entry { path: name.clone(), size, modified_ns, mode }
        };
        // What has this very name comes first: in the order of names, others lie between it and those below.
        if self.last.is_none()
            && let Some(itself) = objects.get_key_value(&self.path)
        {
            return Some(found(itself));
        }
        let below = if self.path == "." { String::new() } else { format!("{}/", self.path) };
        let after = self.last.as_deref().filter(|last| last.starts_with(&below));
        let from = after.map_or(Bound::Included(below.as_str()), Bound::Excluded);
        let next = objects.range::<str, _>((from, Bound::Unbounded)).next();
        next.filter(|(name, _)| name.starts_with(&below)).map(found)
    }
}

impl Iterator for Names {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        let entry = self.entry()?;
        self.last = Some(entry.path.clone());
        Some(Found::Entry(entry))
    }
}

impl Listing for Names {
    fn held_bytes(&self) -> usize {
        self.path.len() + self.last.as_ref().map_or(0, String::len)
    }
}

fn absent(path: &str) -> Refused {
    (Refusal::NotFound, format!("{path} does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Attributes, Memory};

    fn names(objects: &Arc<Objects>, path: &str) -> Vec<String> {
        let found = objects.clone().list(path).unwrap();
        found.map(|found| if let Found::Entry(entry) = found { entry.path } else { panic!() }).collect()
    }

    #[test]
    fn objects_are_found_by_their_names_and_below_them() {
        let objects = Arc::new(Objects::new());
        let source = |text: &'static str| Arc::new(Memory::new(text.as_bytes(), Attributes::default()));
        for name in ["a", "a/b", "a/c", "ab"] {
            assert!(objects.insert(name, source(name)).is_none());
        }
        assert_eq!(names(&objects, "."), ["a", "a/b", "a/c", "ab"]);
        assert_eq!(names(&objects, "a/"), ["a", "a/b", "a/c"]);
        assert_eq!(names(&objects, "ab"), ["ab"]);
        assert_eq!(objects.open("a/b").unwrap().object().size, 3);
        let before = objects.insert("ab", source("longer"));
        assert_eq!(before.unwrap().object().size, 2);
        assert_eq!(objects.open("ab").unwrap().object().size, 6);
        assert!(objects.remove("ab").is_some() && objects.remove("ab").is_none());
        assert_eq!(objects.open("ab").err().unwrap().0, Refusal::NotFound);
        assert!(objects.clone().list("ab").is_err());
        assert!(names(&Arc::default(), ".").is_empty());
    }
}
