//! Sources that can be read but once, and from front to back.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use proto::object::{MAX_BLOCK_BYTES, Object};
use wire::control::{Refusal, Version};

use super::{Attributes, Refused, Source, read_cached, unreadable, version_of};

/// Bytes that are kept of what was passed over: two threads read blocks, so one may be a block ahead.
const KEPT_BYTES: usize = 2 * MAX_BLOCK_BYTES;
const PIECE_BYTES: usize = 64 << 10;

/// A reader of known length. Its blocks are read in their order, once: enough for one sender to one receiver. What is to be
/// read twice, as a server's objects, or has no known length, goes through [`spool`].
pub struct Stream {
    object: Object,
    state: Mutex<State>,
}

struct State {
    reader: Box<dyn Read + Send>,
    position: u64,
    /// What was passed over, and where it begins.
    passed: VecDeque<(u64, Vec<u8>)>,
}

impl Stream {
    /// An object of the next `size` bytes of `reader`. What follows them is not read. `version` tells these bytes from others
    /// with the same name: random ones will do where transfers are not resumed.
    pub fn new(
        reader: impl Read + Send + 'static,
        size: u64,
        version: [u8; 16],
        attributes: Attributes,
    ) -> Self {
        let object = attributes.object(size, Version(version));
        let state = State { reader: Box::new(reader), position: 0, passed: VecDeque::new() };
        Stream { object, state: Mutex::new(state) }
    }
}

impl Source for Stream {
    fn object(&self) -> Object {
        self.object
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Refused> {
        // A reader that has panicked has been somewhere since: what is read would be from elsewhere.
        let mut state = self.state.lock().map_err(|_| unreadable("its reader has panicked"))?;
        state.read_at(offset, bytes).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => {
                let size = self.object.size;
                (Refusal::Changed, format!("its reader ended before its {size} bytes"))
            }
            _ => unreadable(e),
        })
    }
}

impl State {
    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if offset < self.position {
            return self.read_again(offset, bytes);
        }
        if offset > self.position {
            self.pass(offset)?;
        }
        self.reader.read_exact(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// What was passed over: the block before this one, or blocks that are with the receiver.
    fn read_again(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let piece = self.passed.iter().find_map(|(begin, piece)| {
            let from = usize::try_from(offset.checked_sub(*begin)?).ok()?;
            piece.get(from..from.checked_add(bytes.len())?)
        });
        bytes.copy_from_slice(piece.ok_or_else(|| io::Error::other("its reader can be read but once"))?);
        Ok(())
    }

    fn pass(&mut self, to: u64) -> io::Result<()> {
        let mut left = to - self.position;
        // What is further back is of blocks that nobody waits for.
        while left > KEPT_BYTES as u64 {
            let bytes = (left - KEPT_BYTES as u64).min(PIECE_BYTES as u64);
            self.reader.read_exact(&mut vec![0; bytes as usize])?;
            (self.position, left) = (self.position + bytes, left - bytes);
        }
        let mut piece = vec![0; left as usize];
        self.reader.read_exact(&mut piece)?;
        self.passed.push_back((self.position, piece));
        self.position = to;
        let mut kept: usize = self.passed.iter().map(|(_, piece)| piece.len()).sum();
        while kept > KEPT_BYTES
            && let Some((_, piece)) = self.passed.pop_front()
        {
            kept -= piece.len();
        }
        Ok(())
    }
}

/// Reads all of `reader` into a temporary file without a name, at most `most_bytes`, which can then be read as often as need be.
///
/// # Errors
/// The reader's or the file's; [`ErrorKind::FileTooLarge`] if there is more.
pub fn spool(mut reader: impl Read, most_bytes: u64, attributes: Attributes) -> io::Result<Arc<dyn Source>> {
    let mut file = tempfile::tempfile()?;
    let (mut hasher, mut size, mut piece) = (blake3::Hasher::new(), 0, vec![0; PIECE_BYTES]);
    loop {
        let read = match reader.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        size += read as u64;
        if size > most_bytes {
            let what = format!("there are more than the {most_bytes} bytes that may be spooled");
            return Err(io::Error::new(ErrorKind::FileTooLarge, what));
        }
        hasher.update(&piece[..read]);
        file.write_all(&piece[..read])?;
    }
    let object = attributes.object(size, version_of(hasher.finalize()));
    Ok(Arc::new(Spooled { file, object }))
}

/// A file that nobody else can reach.
struct Spooled {
    file: File,
    object: Object,
}

impl Source for Spooled {
    fn object(&self) -> Object {
        self.object
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Refused> {
        self.file.read_exact_at(bytes, offset).map_err(unreadable)
    }

    fn read_at_once(&self, offset: u64, bytes: &mut [u8]) -> Option<Result<(), Refused>> {
        read_cached(&self.file, offset, bytes).then_some(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_block(source: &dyn Source, offset: u64, bytes: usize) -> Result<Vec<u8>, Refused> {
        let mut block = vec![0; bytes];
        source.read_at(offset, &mut block).map(|()| block)
    }

    fn content(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|n| (n % 251) as u8).collect()
    }

    fn stream(content: &[u8], size: usize) -> Stream {
        Stream::new(io::Cursor::new(content.to_vec()), size as u64, [1; 16], Attributes::default())
    }

    #[test]
    fn blocks_are_read_in_order_and_one_that_was_overtaken_as_well() {
        let content = content(100_000);
        let stream = stream(&content, content.len());
        for (from, to) in [(0, 10), (30, 40), (10, 20), (20, 30), (40, 100_000)] {
            assert_eq!(read_block(&stream, from as u64, to - from).unwrap(), content[from..to], "{from}");
        }
        let (_, why) = read_block(&stream, 0, 10).unwrap_err();
        assert!(why.contains("but once"), "{why}");
    }

    #[test]
    fn passing_over_what_the_receiver_has_takes_bounded_memory() {
        let reader = io::repeat(7).take(1 << 30);
        let stream = Stream::new(reader, 1 << 30, [1; 16], Attributes::default());
        assert_eq!(read_block(&stream, 100 << 20, 5).unwrap(), [7; 5]);
        assert_eq!(read_block(&stream, (100 << 20) - 5, 5).unwrap(), [7; 5]);
        assert!(read_block(&stream, 0, 5).is_err());
        for n in 1..10 {
            read_block(&stream, (100 << 20) + n * 3 * MAX_BLOCK_BYTES as u64, 5).unwrap();
            let passed = &stream.state.lock().unwrap().passed;
            assert!(passed.iter().map(|(_, piece)| piece.len()).sum::<usize>() <= KEPT_BYTES);
        }
    }

    #[test]
    fn a_reader_that_ends_early_is_told_of() {
        let stream = stream(&content(99), 100);
        let (refusal, why) = read_block(&stream, 0, 100).unwrap_err();
        assert_eq!(refusal, Refusal::Changed);
        assert_eq!(why, "its reader ended before its 100 bytes");
    }

    #[test]
    fn what_is_spooled_can_be_read_again_and_is_bounded() {
        let content = content(200_000);
        let spooled = spool(&content[..], 200_000, Attributes::default()).unwrap();
        assert_eq!(spooled.object().size, 200_000);
        for _ in 0..2 {
            assert_eq!(read_block(&*spooled, 7, 150_000).unwrap(), content[7..150_007]);
        }
        let memory = super::super::Memory::new(content, Attributes::default());
        assert_eq!(memory.object().version, spooled.object().version, "the same bytes are the same object");
        let error = spool(io::repeat(0), 1_000_000, Attributes::default()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }
}
