//! A file that goes to a pipe: its blocks come in any order, and leave in that of the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::object::Layout;
use udp::Sink;
use wire::control::Parameters;

use crate::output::Writer;

/// Bytes that may have come and not been taken by the reader yet: no more of the file is asked for. All of them are held in
/// memory.
pub(crate) const AHEAD_BYTES: u64 = 64 << 20;

/// A file on its way to a pipe, with a thread that writes it.
pub(crate) struct Stream {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Blocks that have come and are not written, by their offsets.
    blocks: BTreeMap<u64, Vec<u8>>,
    /// Bytes that the reader has taken, which are the first ones of the file.
    written: u64,
    /// Bytes of the file, once that is known.
    size: Option<u64>,
    hasher: Option<blake3::Hasher>,
    failed: Option<io::Error>,
    /// Nothing more comes.
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes blocks as their turn comes, until nothing more comes.
    fn write(&self, mut to: File) {
        let mut state = self.lock();
        loop {
            let next = state.written;
            let Some(block) = state.blocks.remove(&next) else {
                if state.closed {
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if let Some(hasher) = &mut state.hasher {
                hasher.update(&block);
            }
            drop(state);
            let written = to.write_all(&block);
            state = self.lock();
            match written {
                Ok(()) => state.written += block.len() as u64,
                Err(e) => {
                    (state.failed, state.blocks) = (Some(e), BTreeMap::new());
                    self.changed.notify_all();
                    return;
                }
            }
            self.changed.notify_all();
        }
    }
}

impl Stream {
    /// Begins a stream to `to`; its BLAKE3 is found if it is to be `hashed`.
    ///
    /// # Errors
    /// There can be no more threads.
    pub(crate) fn to(to: File, hashed: bool) -> io::Result<Arc<Self>> {
        let state = State { hasher: hashed.then(blake3::Hasher::new), ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let writer = shared.clone();
        std::thread::Builder::new().name("stream".into()).spawn(move || writer.write(to))?;
        Ok(Arc::new(Stream { shared }))
    }

    /// Bytes that the reader has taken.
    pub(crate) fn written(&self) -> u64 {
        self.shared.lock().written
    }

    /// Whether the reader may have got something.
    pub(crate) fn has_begun(&self) -> bool {
        let state = self.shared.lock();
        state.written > 0 || !state.blocks.is_empty()
    }

    /// Why the reader gets nothing more, if writing has failed.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.shared.lock().failed.as_ref().map(copy)
    }

    /// BLAKE3 of what was written, if it is wanted.
    pub(crate) fn hash(&self) -> Option<String> {
        self.shared.lock().hasher.as_ref().map(|hasher| hasher.finalize().to_string())
    }

    /// Waits for the reader to take all of it, for `patience` at most. Whether it has, or will take nothing more.
    pub(crate) fn drain(&self, patience: Duration) -> bool {
        let busy = |state: &mut State| state.failed.is_none() && state.size.is_none_or(|s| state.written < s);
        let state = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(state, patience, busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn begin(&self, size: u64) {
        self.shared.lock().size = Some(size);
        self.shared.changed.notify_all();
    }

    fn put(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.shared.lock();
        if let Some(failed) = &state.failed {
            return Err(copy(failed));
        }
        if offset >= state.written && !bytes.is_empty() {
            state.blocks.insert(offset, bytes.to_vec());
        }
        self.shared.changed.notify_all();
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// A stream, or a piece of it, as a job writes to it.
pub(crate) struct StreamWriter {
    pub(crate) stream: Arc<Stream>,
    /// Knows which blocks have come.
    pub(crate) output: Writer,
}

impl Sink for StreamWriter {
    fn begin(&mut self, parameters: &Parameters, layout: Layout) -> io::Result<()> {
        self.output.begin(parameters, layout)?;
        self.stream.begin(parameters.size);
        Ok(())
    }

    fn block(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.stream.put(offset, bytes)?;
        self.output.block(offset, bytes)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.output.finish()
    }
}

/// Whether the reader of a pipe has gone away: that is its right, and nothing to complain of.
pub(crate) fn is_broken_pipe(error: &io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    fn pipe() -> (File, File) {
        let (read, write) = io::pipe().unwrap();
        let file = |fd: std::os::fd::OwnedFd| File::from(fd);
        (file(read.into()), file(write.into()))
    }

    #[test]
    fn blocks_leave_in_the_order_of_the_file() {
        let (mut reader, writer) = pipe();
        let stream = Stream::to(writer, true).unwrap();
        stream.begin(9);
        for (offset, bytes) in [(6, "ghi"), (3, "def"), (6, "ghi"), (0, "abc")] {
            assert_eq!(stream.written(), 0);
            stream.put(offset, bytes.as_bytes()).unwrap();
        }
        assert!(stream.drain(SOON));
        stream.put(3, b"def").unwrap();
        assert_eq!(stream.hash().unwrap(), blake3::hash(b"abcdefghi").to_string());
        drop(stream);
        let mut all = String::new();
        reader.read_to_string(&mut all).unwrap();
        assert_eq!(all, "abcdefghi");
    }

    #[test]
    fn a_reader_that_goes_away_ends_it() {
        let (reader, writer) = pipe();
        let stream = Stream::to(writer, false).unwrap();
        stream.begin(6);
        drop(reader);
        stream.put(0, b"abc").unwrap();
        assert!(stream.drain(SOON));
        assert!(is_broken_pipe(&stream.failure().unwrap()));
        assert!(is_broken_pipe(&stream.put(3, b"def").unwrap_err()));
    }

    #[test]
    fn what_waits_for_its_turn_is_not_drained() {
        let (_reader, writer) = pipe();
        let stream = Stream::to(writer, false).unwrap();
        assert!(!stream.drain(Duration::ZERO), "its size is not known");
        stream.begin(6);
        stream.put(3, b"def").unwrap();
        assert!(!stream.drain(Duration::ZERO));
        assert!(stream.has_begun());
    }
}
