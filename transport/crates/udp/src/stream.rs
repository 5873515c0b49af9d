//! The TCP connection of a control channel, which never waits.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use proto::channel::Channel;

/// Reads of up to 16 KiB before what has come is looked at.
const READS: usize = 16;

/// Bytes of a segment: any path carries so much (RFC 9293, section 3.7.1), and may come to carry no more without a word. Few
/// messages are longer.
pub(crate) const SEGMENT_BYTES: u32 = 536;

/// One end of it.
pub(crate) struct ControlStream {
    stream: TcpStream,
    /// Whether the channel had more to say than the socket took, when that was asked last.
    wanted_write: bool,
}

impl ControlStream {
    /// Over a TCP connection, which may not stand yet. `wants_write`: whether to be told when it can be written to.
    pub(crate) fn over(stream: TcpStream, wants_write: bool) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(ControlStream { stream, wanted_write: wants_write })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Takes what has come, or the first part of it: the rest is still readable then. False if nothing follows.
    pub(crate) fn read(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<bool> {
        let mut buffer = [0; 16 * 1024];
        for _ in 0..READS {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(n) => take(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Sends what the socket takes.
    pub(crate) fn flush(&mut self, channel: &mut Channel) -> io::Result<()> {
        loop {
            let bytes = channel.outgoing();
            if bytes.is_empty() {
                return Ok(());
            }
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => channel.written(n),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether it matters that the socket can be written to, if that is another answer than last time.
    pub(crate) fn interest_changed(&mut self, channel: &Channel) -> Option<bool> {
        let wants = channel.wants_write();
        (std::mem::replace(&mut self.wanted_write, wants) != wants).then_some(wants)
    }

    /// Sends the last of what there is, as far as the socket takes it.
    pub(crate) fn close(&mut self, channel: &mut Channel) {
        // The other side sees the end of the stream in any case, and one that is gone hears of nothing.
        let _ = self.flush(channel);
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
