//! Memory of packets that were kept for a while.

use std::collections::VecDeque;

/// Shorter packets are allocated as they are: in the memory of a long one, a short one would keep all of it.
const LEAST_BYTES: usize = 512;
/// A queue of so many places may stay as it is.
const FEW: usize = 64;

/// Memory of packets that are not kept any more, for others.
#[derive(Clone, Debug)]
pub struct Spare {
    of: Vec<Vec<u8>>,
    most: usize,
}

impl Spare {
    /// That of so many packets at most.
    pub fn new(most: usize) -> Self {
        Spare { of: Vec::new(), most }
    }

    /// A copy of a packet.
    pub fn copy(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut memory =
            if bytes.len() < LEAST_BYTES { Vec::new() } else { self.of.pop().unwrap_or_default() };
        memory.clear();
        memory.extend_from_slice(bytes);
        memory
    }

    /// A packet is not kept any more.
    pub fn give(&mut self, packet: Vec<u8>) {
        if packet.capacity() >= LEAST_BYTES && self.of.len() < self.most {
            self.of.push(packet);
        }
    }

    /// Frees it: nothing may be kept again for long.
    pub fn free(&mut self) {
        self.of = Vec::new();
    }
}

/// Frees most of the places of a queue if hardly any are taken: it may have been long only once.
pub fn shrink<T>(queue: &mut VecDeque<T>) {
    if queue.capacity() > FEW && queue.len() < queue.capacity() / 8 {
        queue.shrink_to(queue.capacity() / 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_but_for_short_packets() {
        let mut spare = Spare::new(8);
        let long = spare.copy(&[1; 1400]);
        let at = long.as_ptr();
        spare.give(long);
        let short = spare.copy(&[2; 50]);
        assert!(short == [2; 50] && short.capacity() < LEAST_BYTES);
        spare.give(short);
        let again = spare.copy(&[3; 1000]);
        assert!(again == [3; 1000] && again.as_ptr() == at);
        for _ in 0..20 {
            spare.give(vec![0; 1400]);
        }
        assert_eq!(spare.of.len(), 8);
        spare.free();
        assert_eq!(spare.of.capacity(), 0);
    }

    #[test]
    fn a_queue_that_was_long_once_is_short_again() {
        let mut queue: VecDeque<u32> = (0..1000).collect();
        for expected in 0..1000 {
            assert_eq!(queue.pop_front(), Some(expected));
            shrink(&mut queue);
        }
        assert!(queue.capacity() <= 4 * FEW, "{}", queue.capacity());
    }
}
