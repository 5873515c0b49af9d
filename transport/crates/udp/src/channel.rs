//! A control channel over TCP, without ever waiting.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

pub(crate) use proto::channel::Broken;
use proto::channel::{Channel, Security};

/// Reads of up to 16 KiB before what has come is looked at.
const READS: usize = 16;

/// One end of it.
pub(crate) struct TcpChannel {
    stream: TcpStream,
    /// What is said.
    pub(crate) inner: Channel,
}

impl TcpChannel {
    /// To a server that was connected to.
    pub(crate) fn new(stream: TcpStream, security: Security) -> io::Result<Self> {
        TcpChannel::over(stream, Channel::new(security))
    }

    /// To a client that has connected.
    pub(crate) fn of_a_stranger(stream: TcpStream, security: Security) -> io::Result<Self> {
        TcpChannel::over(stream, Channel::of_a_stranger(security))
    }

    fn over(stream: TcpStream, inner: Channel) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(TcpChannel { stream, inner })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads what has come, or the first part of it: the rest is still readable then.
    pub(crate) fn read(&mut self) -> Result<(), Broken> {
        let mut buffer = [0; 16 * 1024];
        for _ in 0..READS {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(self.inner.ended()),
                Ok(n) => self.inner.receive(&buffer[..n])?,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::ConnectionReset && !self.inner.is_open() => {
                    return Err(self.inner.ended());
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Sends what the socket takes.
    pub(crate) fn flush(&mut self) -> Result<(), Broken> {
        loop {
            let bytes = self.inner.outgoing();
            if bytes.is_empty() {
                return Ok(());
            }
            match self.stream.write(bytes) {
                Ok(0) => return Err(Broken::Closed),
                Ok(n) => self.inner.written(n),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Says goodbye as far as the socket takes it.
    pub(crate) fn close(&mut self) {
        // The other side sees the end of the stream in any case, and one that is gone hears of nothing.
        let _ = self.flush();
        self.inner.close();
        let _ = self.flush();
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
