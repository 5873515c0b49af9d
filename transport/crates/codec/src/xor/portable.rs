//! The kernel for any processor: words of eight bytes, which compilers put into what vectors they know.

#[inline]
unsafe fn load(from: *const u64) -> u64 {
    // SAFETY: the kernel's caller vouches for the bytes.
    unsafe { from.read_unaligned() }
}

#[inline]
unsafe fn store(to: *mut u64, word: u64) {
    // SAFETY: the kernel's caller vouches for the bytes.
    unsafe { to.write_unaligned(word) }
}

#[inline]
unsafe fn xor(a: u64, b: u64) -> u64 {
    a ^ b
}

super::kernel!(gather, subsets, u64, 8, 0, load, xor, store, gather_bytes, subsets_bytes, [8, 1]);

/// See [`super::Gather`] for what it requires.
unsafe fn gather_bytes(out: *mut u8, base: *const u8, offsets: &[u32], len: usize) {
    for at in 0..len {
        // SAFETY: `at` is below `len`.
        unsafe {
            let byte = offsets.iter().fold(0, |sum, &offset| sum ^ *base.add(offset as usize + at));
            *out.add(at) = byte;
        }
    }
}

/// See [`super::Subsets`] for what it requires.
unsafe fn subsets_bytes(base: *mut u8, offsets: &[u32], out: usize, stride: usize, len: usize) {
    for at in 0..len {
        let mut sum = 0;
        for number in 1usize..1 << offsets.len() {
            let member = offsets[number.trailing_zeros() as usize] as usize;
            // SAFETY: `at` is below `len`.
            unsafe {
                sum ^= *base.add(member + at);
                *base.add(out + ((number ^ (number >> 1)) - 1) * stride + at) = sum;
            }
        }
    }
}
