//! A stream of a connection: bytes both ways, each way with an end of its own.

use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use proto::atp::{Closed, StreamId};
use udp::StreamError;

use super::Connection;

/// A stream. It is read and written by threads ([`Read`], [`Write`]) or tasks (tokio's `AsyncRead` and `AsyncWrite`).
///
/// [`Stream::finish`] ends what is written, as a TCP connection that is shut down for writing; one that is dropped before is given up,
/// and the peer is told so. What the peer sends can be read to its end either way.
pub struct Stream {
    read: ReadHalf,
    write: WriteHalf,
}

/// What is read of a stream.
pub struct ReadHalf {
    one: Arc<One>,
    timeout: Option<Duration>,
    ended: bool,
}

/// What is written to a stream.
pub struct WriteHalf {
    one: Arc<One>,
    timeout: Option<Duration>,
    finished: bool,
}

/// A stream, and the connection that it is one of.
struct One {
    connection: Connection,
    id: StreamId,
    /// The code that it is given up with by whoever drops it.
    code: Mutex<u64>,
}

impl One {
    fn atp(&self) -> &udp::Atp {
        &self.connection.0.atp
    }

    fn too_late_to_write(&self) -> io::Result<usize> {
        self.atp().give_up_writing(self.connection.0.id, self.id);
        too_late()
    }

    fn code(&self) -> u64 {
        *self.code.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    pub(super) fn new(connection: Connection, id: StreamId) -> Self {
        let one = Arc::new(One { connection, id, code: Mutex::new(0) });
        Stream {
            read: ReadHalf { one: one.clone(), timeout: None, ended: false },
            write: WriteHalf { one, timeout: None, finished: false },
        }
    }

    /// Its number: even if the client has opened it, odd if the server has.
    pub fn id(&self) -> u64 {
        self.read.one.id.0
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.read.one.connection
    }

    /// Tells the peer of a stream that was opened, without anything written: where it is to speak first.
    pub fn announce(&self) {
        let connection = &self.read.one.connection.0;
        connection.atp.announce(connection.id, self.read.one.id);
    }

    /// Ends what is written. It can still be read.
    ///
    /// # Errors
    /// The peer wants no more of it; it has been given up; the connection is over.
    pub fn finish(&mut self) -> io::Result<()> {
        self.write.finish()
    }

    /// Writes all of these bytes, and ends what is written with them: the last ones and the end go in one packet.
    ///
    /// # Errors
    /// As those of [`Stream::finish`].
    pub fn finish_with(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write.finish_with(bytes)
    }

    /// Parts what is read from what is written, for two threads or tasks.
    pub fn split(self) -> (ReadHalf, WriteHalf) {
        (self.read, self.write)
    }

    /// Gives it up in both directions, for a reason of the application.
    pub fn abort(mut self, code: u64) {
        self.write.set_code(code);
    }

    /// A thread that reads or writes waits so long at most, and gets [`ErrorKind::TimedOut`] then; `None`: as long as it takes.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        (self.read.timeout, self.write.timeout) = (timeout, timeout);
    }
}

impl ReadHalf {
    fn poll_read(&mut self, context: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.ended {
            return Poll::Ready(Ok(0));
        }
        let One { connection, id, .. } = &*self.one;
        let read = std::task::ready!(connection.0.atp.poll_read(connection.0.id, *id, context, out));
        self.ended |= !out.is_empty() && matches!(read, Ok(0) | Err(StreamError::Reset(_)));
        Poll::Ready(read.map_err(of_stream))
    }

    /// A thread that reads waits so long at most.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }
}

impl WriteHalf {
    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let One { connection, id, .. } = &*self.one;
        connection.0.atp.poll_write(connection.0.id, *id, context, bytes).map_err(of_stream)
    }

    /// Ends what is written.
    ///
    /// # Errors
    /// The peer wants no more of it; the connection is over.
    pub fn finish(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        let One { connection, id, .. } = &*self.one;
        connection.0.atp.finish(connection.0.id, *id).map_err(of_stream)
    }

    /// Writes all of these bytes, and ends what is written with them.
    ///
    /// # Errors
    /// As those of [`WriteHalf::finish`].
    pub fn finish_with(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let one = self.one.clone();
            let written =
                one.atp().wait_receiving_until(deadline, |context| self.poll_write_last(context, bytes));
            bytes = &bytes[written.unwrap_or_else(|| one.too_late_to_write())?..];
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// The same in a task.
    ///
    /// # Errors
    /// As those of [`WriteHalf::finish`].
    pub async fn end_with(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            bytes = &bytes[poll_fn(|context| self.poll_write_last(context, bytes)).await?..];
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    fn poll_write_last(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let One { connection, id, .. } = &*self.one;
        let written = connection.0.atp.poll_write_last(connection.0.id, *id, context, bytes);
        let written = std::task::ready!(written).map_err(of_stream);
        self.finished |= matches!(written, Ok(count) if count == bytes.len());
        Poll::Ready(written)
    }

    /// If it is dropped before it is finished, the peer is told this code of the application.
    pub fn set_code(&mut self, code: u64) {
        *self.one.code.lock().unwrap_or_else(PoisonError::into_inner) = code;
    }

    /// A thread that writes waits so long at most.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }
}

impl Drop for ReadHalf {
    fn drop(&mut self) {
        if !self.ended {
            let connection = &self.one.connection.0;
            connection.atp.stop(connection.id, self.one.id, self.one.code());
        }
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        if !self.finished {
            let connection = &self.one.connection.0;
            connection.atp.reset(connection.id, self.one.id, self.one.code());
        }
    }
}

impl Read for ReadHalf {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let one = self.one.clone();
        let read = one.atp().wait_receiving_until(deadline, |context| self.poll_read(context, out));
        read.unwrap_or_else(|| {
            one.atp().give_up_reading(one.connection.0.id, one.id);
            too_late()
        })
    }
}

impl Write for WriteHalf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let one = self.one.clone();
        let written = one.atp().wait_receiving_until(deadline, |context| self.poll_write(context, bytes));
        written.unwrap_or_else(|| one.too_late_to_write())
    }

    /// What is written is sent at once in any case.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.read.read(out)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(feature = "tokio")]
mod of_tokio {
    use std::pin::Pin;

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::{Context, Poll, ReadHalf, Stream, WriteHalf, io};

    impl AsyncRead for ReadHalf {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            out: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let count =
                std::task::ready!(ReadHalf::poll_read(&mut self, context, out.initialize_unfilled()))?;
            out.advance(count);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for WriteHalf {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            WriteHalf::poll_write(&mut self, context, bytes)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(self.finish())
        }
    }

    impl AsyncRead for Stream {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            out: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.read).poll_read(context, out)
        }
    }

    impl AsyncWrite for Stream {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.write).poll_write(context, bytes)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(self.write.finish())
        }
    }
}

fn too_late<T>() -> io::Result<T> {
    Err(io::Error::new(ErrorKind::TimedOut, "the other side has not answered in time"))
}

fn of_stream(error: StreamError) -> io::Error {
    match error {
        StreamError::Closed(why) => of_closed(why),
        StreamError::Reset(_) => io::Error::new(ErrorKind::ConnectionReset, error),
        StreamError::Stopped(_) => io::Error::new(ErrorKind::BrokenPipe, error),
        StreamError::NotOpen => io::Error::new(ErrorKind::NotConnected, error),
    }
}

pub(super) fn of_closed(why: Closed) -> io::Error {
    let kind = match why {
        Closed::Locally => ErrorKind::NotConnected,
        Closed::ByPeer { .. } => ErrorKind::ConnectionAborted,
        Closed::Refused { .. } => ErrorKind::ConnectionRefused,
        Closed::Tls(_) => ErrorKind::PermissionDenied,
        Closed::Unanswered(_) | Closed::Silent(_) => ErrorKind::TimedOut,
        Closed::Violation(_) => ErrorKind::InvalidData,
    };
    io::Error::new(kind, crate::error::clean(&why.to_string()))
}
