//! DFCP's signalling as a stream that a control channel runs over.

use std::io::{self, ErrorKind, Read, Write};

use proto::dfcp::Signalling;
use wire::packet::{HEADER_BYTES, Header, Kind, Signal};

use crate::channel::Stream;

/// What a peer may leave unacknowledged before writing has to wait.
const MOST_UNACKNOWLEDGED_BYTES: usize = 256 << 10;

pub(crate) struct SignalStream {
    pub(crate) signalling: Signalling,
    /// What has come and was not read; all before `read` was.
    arrived: Vec<u8>,
    read: usize,
    finished: bool,
}

impl SignalStream {
    pub(crate) fn new(signalling: Signalling) -> Self {
        SignalStream { signalling, arrived: Vec::new(), read: 0, finished: false }
    }
}

/// The header of a datagram that is a signal.
pub(crate) fn header_of_signal(datagram: &[u8]) -> Option<Header> {
    Header::parse(datagram).ok().filter(|header| header.kind == Kind::Signal)
}

/// The signal in clear that a datagram is, if it is one.
pub(crate) fn parse(datagram: &[u8]) -> Option<(Header, Signal, &[u8])> {
    let header = header_of_signal(datagram)?;
    let (signal, payload) = Signal::parse(&datagram[HEADER_BYTES..]).ok()?;
    Some((header, signal, payload))
}

impl Read for SignalStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.arrived.len() {
            (self.arrived, self.read) = (self.signalling.take(), 0);
        }
        let left = &self.arrived[self.read..];
        if left.is_empty() && !buffer.is_empty() {
            return if self.signalling.has_ended() { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.read += count;
        Ok(count)
    }
}

impl Write for SignalStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.finished {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if self.signalling.unacknowledged_bytes() >= MOST_UNACKNOWLEDGED_BYTES {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.signalling.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for SignalStream {
    fn finish(&mut self) {
        self.finished = true;
        self.signalling.end();
    }

    fn held_bytes(&self) -> usize {
        self.arrived.capacity() + self.signalling.held_bytes()
    }
}
