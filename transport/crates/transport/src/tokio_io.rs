//! Tokio's readers and writers as sources and sinks. Threads that may wait poll them; a runtime drives their sockets and timers.

use std::io::{self, Read, Write};
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::runtime::Handle;

use crate::error::{Error, Result};
use crate::source::{AnySource, reader, spool};

/// The next `size` bytes of an asynchronous reader, as [`reader`](crate::reader) has them. To be called within a runtime.
///
/// # Errors
/// There is no runtime; the system gives no randomness.
pub fn async_reader(read: impl AsyncRead + Send + 'static, size: u64) -> Result<AnySource> {
    reader(Bridge::new(read)?, size)
}

/// All that an asynchronous reader gives, as [`spool`](crate::spool) has it. To be called within a runtime.
///
/// # Errors
/// There is no runtime; the reader's, or that of the temporary file; there are more than `most_bytes`.
pub async fn async_spool(read: impl AsyncRead + Send + 'static, most_bytes: u64) -> Result<AnySource> {
    let bridge = Bridge::new(read)?;
    let spooled = tokio::task::spawn_blocking(move || spool(bridge, most_bytes)).await;
    spooled.map_err(io::Error::other)?
}

/// A writer for [`Client::fetch_to`](crate::Client::fetch_to) and [`Offer::write_to`](crate::Offer::write_to) that writes to an
/// asynchronous one. To be called within a runtime.
///
/// # Errors
/// There is no runtime.
pub fn async_writer(write: impl AsyncWrite + Send + 'static) -> Result<impl Write + Send + 'static> {
    Bridge::new(write)
}

struct Bridge<T> {
    inner: Pin<Box<T>>,
    runtime: Handle,
}

impl<T> Bridge<T> {
    fn new(inner: T) -> Result<Self> {
        let runtime = Handle::try_current().map_err(|e| Error::Setup(e.to_string()))?;
        Ok(Bridge { inner: Box::pin(inner), runtime })
    }
}

impl<T: AsyncRead> Read for Bridge<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.runtime.block_on(self.inner.read(bytes))
    }
}

impl<T: AsyncWrite> Write for Bridge<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.runtime.block_on(self.inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.runtime.block_on(self.inner.flush())
    }
}
