//! What a sender and a server read the blocks of an object from.

mod stream;

use std::fs::File;
use std::io;
use std::sync::Arc;

use proto::object::Object;
use rustix::io::ReadWriteFlags;
use wire::control::{Refusal, Version};

pub use self::stream::{Stream, spool};

/// Why something is not sent: for the protocol, and for a person.
pub type Refused = (Refusal, String);

/// The content of an object. Threads that may wait read it, two of them at a time: a slow source delays no other.
pub trait Source: Send + Sync {
    /// What the peer learns of the object before its first byte. It never changes.
    fn object(&self) -> Object;

    /// Fills `bytes`, whatever was in them, with what is at `offset`. Both lie within the object.
    ///
    /// # Errors
    /// Why the object cannot be sent any more, for the peer and for a person.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Refused>;

    /// The same, if it takes no waiting: the thread of the network calls it for small blocks. `None`: [`Source::read_at`] has
    /// to be called.
    fn read_at_once(&self, offset: u64, bytes: &mut [u8]) -> Option<Result<(), Refused>> {
        let _ = (offset, bytes);
        None
    }
}

/// Whether it could be read without waiting for a disk.
pub(crate) fn read_cached(file: &File, offset: u64, bytes: &mut [u8]) -> bool {
    let whole = bytes.len();
    let slices = &mut [io::IoSliceMut::new(bytes)];
    rustix::io::preadv2(file, slices, offset, ReadWriteFlags::NOWAIT).is_ok_and(|read| read == whole)
}

/// Bytes in memory.
pub struct Memory {
    bytes: Arc<[u8]>,
    object: Object,
}

impl Memory {
    /// An object of these bytes; equal bytes are the same version, so an interrupted transfer can be resumed.
    pub fn new(bytes: impl Into<Arc<[u8]>>, attributes: Attributes) -> Self {
        let bytes = bytes.into();
        let version = version_of(blake3::hash(&bytes));
        let object = attributes.object(bytes.len() as u64, version);
        Memory { bytes, object }
    }
}

impl Source for Memory {
    fn object(&self) -> Object {
        self.object
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Refused> {
        let begin = usize::try_from(offset).ok();
        let all = begin.and_then(|begin| self.bytes.get(begin..begin.checked_add(bytes.len())?));
        bytes.copy_from_slice(all.ok_or_else(|| unreadable("the object has fewer bytes"))?);
        Ok(())
    }

    fn read_at_once(&self, offset: u64, bytes: &mut [u8]) -> Option<Result<(), Refused>> {
        Some(self.read_at(offset, bytes))
    }
}

/// What a peer learns of an object besides its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// When it was changed, in nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its type and its permission bits, as POSIX has them in `st_mode`.
    pub mode: u32,
}

impl Attributes {
    fn object(self, size: u64, version: Version) -> Object {
        let Attributes { modified_ns, mode } = self;
        Object { size, version, modified_ns, mode }
    }
}

impl Default for Attributes {
    /// Of 1970, for its owner to write and for all to read.
    fn default() -> Self {
        Attributes { modified_ns: 0, mode: 0o644 }
    }
}

fn version_of(hash: blake3::Hash) -> Version {
    let mut version = [0; 16];
    version.copy_from_slice(&hash.as_bytes()[..16]);
    Version(version)
}

pub(crate) fn unreadable(why: impl std::fmt::Display) -> Refused {
    (Refusal::Unreadable, why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_gives_what_is_there_and_no_more() {
        let memory = Memory::new(&b"0123456789"[..], Attributes::default());
        assert_eq!(memory.object().size, 10);
        let mut bytes = [0; 4];
        memory.read_at(3, &mut bytes).unwrap();
        assert_eq!(&bytes, b"3456");
        memory.read_at_once(9, &mut bytes[..1]).unwrap().unwrap();
        assert_eq!(bytes[0], b'9');
        for (offset, bytes) in [(10, 1), (0, 11), (u64::MAX, 2)] {
            assert!(memory.read_at(offset, &mut vec![0; bytes]).is_err(), "{offset} {bytes}");
        }
        let other = Memory::new(&b"0123456780"[..], Attributes::default());
        let same = Memory::new(&b"0123456789"[..], Attributes { modified_ns: 7, mode: 0o600 });
        assert_ne!(memory.object().version, other.object().version);
        assert_eq!(memory.object().version, same.object().version);
    }
}
