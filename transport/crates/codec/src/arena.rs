//! One stretch of zeroed memory that begins on a cache line, so that symbols in it can too.

use std::ops::{Deref, DerefMut};

/// Bytes of a cache line, and of the widest vector register.
pub(crate) const LINE_BYTES: usize = 64;

/// Zeroed, aligned bytes. The system gives the pages when they are first written.
#[derive(Debug)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Arena {
    pub(crate) fn new(len: usize) -> Self {
        let bytes = vec![0; len + LINE_BYTES];
        let start = bytes.as_ptr().addr().wrapping_neg() % LINE_BYTES;
        Arena { bytes, start, len }
    }

    /// In this memory, whose bytes are zero, or whatever was written there before.
    pub(crate) fn within(mut bytes: Vec<u8>, len: usize) -> Self {
        bytes.resize(len + LINE_BYTES, 0);
        let start = bytes.as_ptr().addr().wrapping_neg() % LINE_BYTES;
        Arena { bytes, start, len }
    }

    /// `count` symbols so many bytes apart, of which the first are those of a source of `source_bytes` that `read` writes.
    pub(crate) fn of_symbols<E>(
        memory: Vec<u8>,
        (symbol_bytes, stride, count): (usize, usize, usize),
        source_bytes: usize,
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut arena = Arena::within(memory, count * stride);
        if stride == symbol_bytes {
            read(&mut arena[..source_bytes])?;
            arena[source_bytes..].fill(0);
            return Ok(arena);
        }
        // It is read to the end and moved to the front symbol by symbol: no place reaches to a symbol that is yet to move.
        let end = arena.len();
        read(&mut arena[end - source_bytes..])?;
        let mut place = 0;
        for symbol in (end - source_bytes..end).step_by(symbol_bytes) {
            let bytes = symbol_bytes.min(end - symbol);
            arena.copy_within(symbol..symbol + bytes, place);
            arena[place + bytes..place + stride].fill(0);
            place += stride;
        }
        arena[place..].fill(0);
        Ok(arena)
    }

    /// The same of a source in memory. New memory is written once: to zero it first took a tenth of encoding's time.
    pub(crate) fn of_source(source: &[u8], (symbol_bytes, stride, count): (usize, usize, usize)) -> Self {
        let len = count * stride;
        let mut bytes: Vec<u8> = Vec::with_capacity(len + LINE_BYTES);
        let start = bytes.as_ptr().addr().wrapping_neg() % LINE_BYTES;
        bytes.resize(start, 0);
        if stride == symbol_bytes {
            bytes.extend_from_slice(source);
        } else {
            for symbol in source.chunks(symbol_bytes) {
                bytes.extend_from_slice(symbol);
                bytes.resize(bytes.len() + stride - symbol.len(), 0);
            }
        }
        bytes.resize(start + len, 0);
        Arena { bytes, start, len }
    }

    /// Its memory, for another one.
    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// Symbols of so many bytes lie so many bytes apart, so that no register that is read straddles two lines.
    pub(crate) fn stride(symbol_bytes: usize) -> usize {
        symbol_bytes.next_multiple_of(LINE_BYTES.min(symbol_bytes.next_power_of_two()))
    }

    /// The first `len` bytes, as a vector.
    pub(crate) fn into_front(mut self, len: usize) -> Vec<u8> {
        self.bytes.truncate(self.start + len);
        self.bytes.drain(..self.start);
        self.bytes
    }
}

impl Deref for Arena {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for Arena {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_begins_on_a_cache_line_and_is_zero() {
        for len in [0, 1, 63, 64, 1000] {
            let arena = Arena::new(len);
            assert_eq!((arena.len(), arena.as_ptr().addr() % LINE_BYTES), (len, 0));
            assert!(arena.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn symbols_lie_on_lines_or_several_on_one() {
        let strides = [1, 2, 3, 16, 33, 63, 64, 65, 1024, 1400, 65_535].map(Arena::stride);
        assert_eq!(strides, [1, 2, 4, 16, 64, 64, 64, 128, 1024, 1408, 65_536]);
    }

    #[test]
    fn symbols_of_a_source_are_padded_and_followed_by_zeros() {
        let source: Vec<u8> = (1..=200).collect();
        for (symbol_bytes, count) in
            [(1, 200), (3, 67), (3, 80), (65, 4), (64, 4), (128, 2), (199, 2), (200, 1)]
        {
            let stride = Arena::stride(symbol_bytes);
            let mut expected = vec![0; count * stride];
            for (place, symbol) in expected.chunks_mut(stride).zip(source.chunks(symbol_bytes)) {
                place[..symbol.len()].copy_from_slice(symbol);
            }
            let read = |bytes: &mut [u8]| {
                bytes.copy_from_slice(&source);
                Ok::<(), ()>(())
            };
            // What was in its memory before does not matter.
            let shape = (symbol_bytes, stride, count);
            for memory in [Vec::new(), vec![9; 100], vec![9; 1000]] {
                let arena = Arena::of_symbols(memory, shape, source.len(), read).unwrap();
                assert_eq!(arena.as_ptr().addr() % LINE_BYTES, 0);
                assert_eq!(&*arena, expected);
            }
            let arena = Arena::of_source(&source, shape);
            assert_eq!(arena.as_ptr().addr() % LINE_BYTES, 0);
            assert_eq!(&*arena, expected);
        }
    }

    #[test]
    fn an_empty_source_is_zeros() {
        let arena = Arena::of_symbols(vec![9; 100], (3, 4, 2), 0, |_| Ok::<(), ()>(())).unwrap();
        assert_eq!(&*arena, [0; 8]);
    }

    #[test]
    fn its_front_is_what_was_written_there() {
        let mut arena = Arena::new(200);
        arena[..3].copy_from_slice(&[1, 2, 3]);
        assert_eq!(arena.into_front(4), [1, 2, 3, 0]);
    }
}
