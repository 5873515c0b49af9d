//! Arithmetic of the field with 256 elements, and its one operation over long stretches: a multiple of one is added to another.
//!
//! Elements are polynomials over GF(2) modulo x^8 + x^4 + x^3 + x^2 + 1, as in RFC 6330 (section 5.7). To add is to XOR. The instruction
//! set is chosen when the program runs.

#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::LazyLock;

/// x^8 is this.
const X8: u8 = 0x1d;

/// The product of two elements.
pub const fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 != 0 {
            product ^= a;
        }
        let carry = a & 0x80 != 0;
        a <<= 1;
        if carry {
            a ^= X8;
        }
        b >>= 1;
    }
    product
}

/// What multiplied by `a` is 1; of zero, zero.
pub fn inverse(a: u8) -> u8 {
    INVERSES[usize::from(a)]
}

static INVERSES: [u8; 256] = {
    let mut inverses = [0; 256];
    let mut a = 0;
    while a < 256 {
        // a^254: the nonzero elements are a group of 255.
        let (mut power, mut square, mut n) = (1, multiply(a as u8, a as u8), 1);
        while n < 8 {
            power = multiply(power, square);
            square = multiply(square, square);
            n += 1;
        }
        inverses[a] = power;
        a += 1;
    }
    inverses
};

/// Of each element, its products with all that only the lower four bits are set of, and those with all that only the higher ones are.
static BY_HALVES: [[u8; 32]; 256] = {
    let mut tables = [[0; 32]; 256];
    let mut by = 0;
    while by < 256 {
        let mut half = 0;
        while half < 16 {
            tables[by][half] = multiply(by as u8, half as u8);
            tables[by][16 + half] = multiply(by as u8, (half << 4) as u8);
            half += 1;
        }
        by += 1;
    }
    tables
};

/// Adds to the `len` bytes at `out` `by` times those at `from`.
///
/// Requires: they are readable and writable there; the two are the same or apart; the processor has the instructions.
type MultiplyAdd = unsafe fn(out: *mut u8, from: *const u8, by: u8, len: usize);

/// The way to multiply on one instruction set. A value exists only for what this processor has.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    name: &'static str,
    run: MultiplyAdd,
}

impl Kernel {
    /// The fastest on this processor.
    pub fn best() -> Kernel {
        static BEST: LazyLock<Kernel> = LazyLock::new(|| Kernel::available().swap_remove(0));
        *BEST
    }

    /// All that this processor can run, the fastest first.
    pub fn available() -> Vec<Kernel> {
        let mut kernels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let has_avx2 = is_x86_feature_detected!("avx2");
            let has_gfni = has_avx2 && is_x86_feature_detected!("gfni");
            if has_gfni && is_x86_feature_detected!("avx512f") {
                kernels.push(Kernel { name: "gfni-avx512", run: x86::gfni_avx512 });
            }
            if has_gfni {
                kernels.push(Kernel { name: "gfni-avx2", run: x86::gfni_avx2 });
            }
            if has_avx2 {
                kernels.push(Kernel { name: "avx2", run: x86::avx2 });
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            kernels.push(Kernel { name: "neon", run: neon::multiply_add });
        }
        kernels.push(Kernel { name: "portable", run: portable::multiply_add });
        kernels
    }

    /// What it is called: `gfni-avx512`, `gfni-avx2`, `avx2`, `neon` or `portable`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Adds to `out` `by` times `from`.
    ///
    /// # Panics
    /// If they are not equally long.
    pub fn multiply_add(&self, out: &mut [u8], from: &[u8], by: u8) {
        assert_eq!(out.len(), from.len(), "stretches of different lengths");
        if by != 0 {
            // SAFETY: both are as long, and apart, as `out` is borrowed exclusively.
            unsafe { (self.run)(out.as_mut_ptr(), from.as_ptr(), by, out.len()) }
        }
    }

    /// Makes `bytes` `by` times what they are.
    pub fn multiply(&self, bytes: &mut [u8], by: u8) {
        let at = bytes.as_mut_ptr();
        // What is added is one time less, as what is there stays.
        // SAFETY: `out` and `from` are the same, and derive from one exclusive borrow.
        unsafe { (self.run)(at, at.cast_const(), by ^ 1, bytes.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// All elements, or so many that an interpreter is not busy for minutes.
    fn elements() -> impl Iterator<Item = u8> {
        const FEW: [u8; 8] = [0, 1, 2, 0x1d, 0x53, 0x80, 0xca, 0xff];
        (0..=255).filter(|a| !cfg!(miri) || FEW.contains(a))
    }

    #[test]
    fn it_is_a_field() {
        // RFC 6330, section 5.7.3: its OCT_EXP begins 1, 2, 4, ..., 128, 29, 58.
        assert_eq!((multiply(128, 2), multiply(29, 2)), (29, 58));
        assert_eq!(inverse(0), 0);
        for a in elements().filter(|a| *a != 0) {
            assert_eq!(multiply(a, inverse(a)), 1);
            for b in elements() {
                assert_eq!(multiply(a, b), multiply(b, a));
                assert_eq!(multiply(multiply(a, b), 77), multiply(a, multiply(b, 77)));
                assert_eq!(multiply(a, b ^ 77), multiply(a, b) ^ multiply(a, 77));
            }
        }
    }

    fn bytes(random: &mut Random, count: usize) -> Vec<u8> {
        (0..count).map(|_| random.bits() as u8).collect()
    }

    #[test]
    fn every_kernel_multiplies_as_the_definition_does() {
        let mut random = Random::new(1);
        let lengths = if cfg!(miri) { vec![0, 1, 31, 33, 65, 98] } else { (0..300).collect() };
        for kernel in Kernel::available() {
            for &len in &lengths {
                let (from, before) = (bytes(&mut random, len), bytes(&mut random, len));
                for by in [0, 1, 2, 0x1d, 0x80, 0xff, random.bits() as u8] {
                    let mut out = before.clone();
                    kernel.multiply_add(&mut out, &from, by);
                    let expected: Vec<u8> =
                        before.iter().zip(&from).map(|(out, from)| out ^ multiply(*from, by)).collect();
                    assert_eq!(out, expected, "{}, {len} bytes, by {by}", kernel.name());
                    let mut scaled = from.clone();
                    kernel.multiply(&mut scaled, by);
                    let expected: Vec<u8> = from.iter().map(|byte| multiply(*byte, by)).collect();
                    assert_eq!(scaled, expected, "{}, {len} bytes, by {by}", kernel.name());
                }
            }
        }
    }

    #[test]
    fn every_kernel_multiplies_every_pair() {
        let all: Vec<u8> = (0..=255).collect();
        for kernel in Kernel::available() {
            for by in elements() {
                let mut out = all.clone();
                kernel.multiply(&mut out, by);
                assert!(
                    out.iter().zip(&all).all(|(out, byte)| *out == multiply(*byte, by)),
                    "{}",
                    kernel.name()
                );
            }
        }
    }

    #[test]
    #[should_panic(expected = "different lengths")]
    fn stretches_of_different_lengths_are_refused() {
        Kernel::best().multiply_add(&mut [0; 3], &[0; 4], 2);
    }
}
