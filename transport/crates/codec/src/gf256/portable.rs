//! The kernel for any processor: two lookups a byte.

use super::BY_HALVES;

/// See [`super::MultiplyAdd`] for what it requires.
pub(super) unsafe fn multiply_add(out: *mut u8, from: *const u8, by: u8, len: usize) {
    let table = &BY_HALVES[usize::from(by)];
    for at in 0..len {
        // SAFETY: `at` is below `len`.
        unsafe {
            let byte = *from.add(at);
            *out.add(at) ^= table[usize::from(byte & 15)] ^ table[usize::from(16 | byte >> 4)];
        }
    }
}
