//! Where objects go.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use proto::object::Layout;
use udp::Sink;
use wire::control::Parameters;

/// Bytes of blocks that wait in memory for one before them; more wait in a temporary file.
const WAITING_BYTES: usize = 16 << 20;

/// Into memory.
pub(crate) struct Bytes {
    bytes: Arc<Mutex<Vec<u8>>>,
    most_bytes: u64,
}

impl Bytes {
    /// One of at most so many bytes, and what takes them out once they are there.
    pub(crate) fn new(most_bytes: u64) -> (Self, impl FnOnce(u64) -> Vec<u8> + Send) {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let filled = bytes.clone();
        let take = move |_| std::mem::take(&mut *filled.lock().unwrap_or_else(PoisonError::into_inner));
        (Bytes { bytes, most_bytes }, take)
    }
}

impl Sink for Bytes {
    fn begin(&mut self, parameters: &Parameters, _: Layout) -> io::Result<()> {
        let size = parameters.size;
        if size > self.most_bytes {
            let most = self.most_bytes;
            let what = format!("it has {size} bytes, and {most} may come into memory; take it with a writer");
            return Err(io::Error::new(ErrorKind::FileTooLarge, what));
        }
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        // The system gives the pages as they are written.
        *bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
        Ok(())
    }

    fn block(&mut self, offset: u64, block: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = offset as usize;
        let place = bytes.get_mut(begin..begin + block.len());
        place.ok_or_else(|| io::Error::other("the block lies outside of the object"))?.copy_from_slice(block);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Into a writer, from front to back: blocks that come early wait, in memory or in a temporary file.
pub(crate) struct InOrder<W> {
    writer: W,
    position: u64,
    /// Where blocks begin that wait, and how many bytes they have.
    waiting: BTreeMap<u64, Waiting>,
    in_memory: usize,
    spool: Option<File>,
}

enum Waiting {
    InMemory(Vec<u8>),
    Spooled(usize),
}

impl<W> InOrder<W> {
    pub(crate) fn new(writer: W) -> Self {
        InOrder { writer, position: 0, waiting: BTreeMap::new(), in_memory: 0, spool: None }
    }
}

impl<W: Write + Send> Sink for InOrder<W> {
    fn begin(&mut self, _: &Parameters, _: Layout) -> io::Result<()> {
        Ok(())
    }

    fn block(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset > self.position {
            let waiting = if self.in_memory + bytes.len() <= WAITING_BYTES {
                self.in_memory += bytes.len();
                Waiting::InMemory(bytes.to_vec())
            } else {
                let spool = match &mut self.spool {
                    Some(spool) => spool,
                    none => none.insert(tempfile::tempfile()?),
                };
                spool.write_all_at(bytes, offset)?;
                Waiting::Spooled(bytes.len())
            };
            self.waiting.insert(offset, waiting);
            return Ok(());
        }
        self.write(bytes)?;
        while let Some(next) = self.waiting.remove(&self.position) {
            match next {
                Waiting::InMemory(bytes) => {
                    self.in_memory -= bytes.len();
                    self.write(&bytes)?;
                }
                Waiting::Spooled(length) => {
                    let mut bytes = vec![0; length];
                    let spool = self.spool.as_ref().ok_or_else(|| io::Error::other("there is no spool"))?;
                    spool.read_exact_at(&mut bytes, self.position)?;
                    self.write(&bytes)?;
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl<W: Write> InOrder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_gets_bytes_in_their_order_and_little_waits_in_memory() {
        const BLOCK: usize = 1 << 20;
        let content: Vec<u8> = (0..40 * BLOCK + 7).map(|n| (n / 1000 % 251) as u8).collect();
        let mut written = Vec::new();
        let mut sink = InOrder::new(&mut written);
        for (number, block) in content.chunks(BLOCK).enumerate().skip(1) {
            sink.block((number * BLOCK) as u64, block).unwrap();
            assert!(sink.in_memory <= WAITING_BYTES);
        }
        assert!(sink.writer.is_empty() && sink.spool.is_some());
        sink.block(0, &content[..BLOCK]).unwrap();
        sink.finish().unwrap();
        assert!(sink.waiting.is_empty());
        assert!(written == content);
    }
}
