//! What can be sent and served.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ring::rand::{SecureRandom, SystemRandom};
use udp::{Attributes, Memory, Source, Stream};

use crate::error::{Error, Result};

/// The content of an object, ready to be sent or served.
pub type AnySource = Arc<dyn Source>;

/// What an object can be made of: bytes, text, a file, a path, or any [`Source`].
///
/// For readers there are [`reader`] and [`spool`].
pub trait IntoSource {
    /// Makes it.
    ///
    /// # Errors
    /// It cannot be opened.
    fn into_source(self) -> Result<AnySource>;
}

impl IntoSource for AnySource {
    fn into_source(self) -> Result<AnySource> {
        Ok(self)
    }
}

impl IntoSource for Arc<[u8]> {
    fn into_source(self) -> Result<AnySource> {
        Ok(Arc::new(Memory::new(self, now())))
    }
}

impl IntoSource for Vec<u8> {
    fn into_source(self) -> Result<AnySource> {
        Arc::<[u8]>::from(self).into_source()
    }
}

impl IntoSource for &[u8] {
    fn into_source(self) -> Result<AnySource> {
        Arc::<[u8]>::from(self).into_source()
    }
}

impl<const N: usize> IntoSource for &[u8; N] {
    fn into_source(self) -> Result<AnySource> {
        self[..].into_source()
    }
}

impl IntoSource for &str {
    /// The bytes of the text; a file is a [`Path`].
    fn into_source(self) -> Result<AnySource> {
        self.as_bytes().into_source()
    }
}

impl IntoSource for File {
    /// All of a regular file, wherever its cursor is.
    fn into_source(self) -> Result<AnySource> {
        udp::open(self, "the file").map_err(|(_, why)| Error::Setup(why))
    }
}

impl IntoSource for &Path {
    fn into_source(self) -> Result<AnySource> {
        let name = self.display().to_string();
        let file = File::open(self).map_err(|e| Error::failed(&name, e))?;
        udp::open(file, &name).map_err(|(_, why)| Error::Setup(why))
    }
}

impl IntoSource for PathBuf {
    fn into_source(self) -> Result<AnySource> {
        self.as_path().into_source()
    }
}

/// The next `size` bytes of a reader, which are read while they are sent. They can be read but once, so they can be sent to one
/// receiver; what is to be served goes through [`spool`].
///
/// # Errors
/// The system gives no randomness.
pub fn reader(reader: impl Read + Send + 'static, size: u64) -> Result<AnySource> {
    let mut version = [0; 16];
    let filled = SystemRandom::new().fill(&mut version);
    filled.map_err(|_| std::io::Error::other("the system gives no randomness"))?;
    Ok(Arc::new(Stream::new(reader, size, version, now())))
}

/// All that a reader gives, whose length is not known: it is read to its end first, into a temporary file, and may have at most
/// `most_bytes`.
///
/// # Errors
/// The reader's, or that of the file; there is more.
pub fn spool(reader: impl Read, most_bytes: u64) -> Result<AnySource> {
    Ok(udp::spool(reader, most_bytes, now())?)
}

fn now() -> Attributes {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Attributes { modified_ns: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX), ..Attributes::default() }
}
