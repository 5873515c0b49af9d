//! Fused gather-XOR: one output is the XOR of many inputs, each read once, the sum kept in registers, one store.
//!
//! It is what encoding and decoding spend their time in. The instruction set is chosen when the program runs.
//! All inputs lie in one stretch of memory and are named by their offsets in it, so that the checks are few and
//! the output can be one of the inputs.

#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::LazyLock;

/// Writes to `out` the XOR of the `len` bytes at each offset from `base`.
///
/// Requires: `offsets` is not empty; `len` bytes are readable at every offset and writable at `out`; `out` is
/// either one of the inputs or apart from all of them; the processor has the instructions.
type Gather = unsafe fn(out: *mut u8, base: *const u8, offsets: &[u32], len: usize);

/// Writes the XOR of each subset of the `len` bytes at `offsets`, but the empty one: subset `s`, whose bit i stands
/// for `offsets[i]`, to `base + out + (s - 1) * stride`.
///
/// Requires: `len` bytes are readable at every offset from `base` and writable at all those places, which are apart
/// from the inputs; the processor has the instructions.
type Subsets = unsafe fn(base: *mut u8, offsets: &[u32], out: usize, stride: usize, len: usize);

/// The way to XOR on one instruction set. A value exists only for what this processor has.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    name: &'static str,
    run: Gather,
    subsets: Subsets,
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
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx2") {
                kernels.push(Kernel {
                    name: "avx512",
                    run: x86::gather_avx512,
                    subsets: x86::subsets_avx512,
                });
            }
            if is_x86_feature_detected!("avx2") {
                kernels.push(Kernel { name: "avx2", run: x86::gather_avx2, subsets: x86::subsets_avx2 });
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            kernels.push(Kernel { name: "neon", run: neon::gather, subsets: neon::subsets });
        }
        kernels.push(Kernel { name: "portable", run: portable::gather, subsets: portable::subsets });
        kernels
    }

    /// What it is called: `avx512`, `avx2`, `neon` or `portable`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Writes to `out` the XOR of the parts of `source` that begin at `offsets` and are as long as `out`. The XOR
    /// of nothing is zero.
    ///
    /// # Panics
    /// If a part does not lie within `source`.
    #[inline]
    pub fn gather(&self, out: &mut [u8], source: &[u8], offsets: &[u32]) {
        if offsets.is_empty() {
            out.fill(0);
            return;
        }
        check(source.len(), offsets, out.len());
        // SAFETY: every part lies within `source`; `out` is borrowed exclusively, so it is apart from it.
        unsafe { (self.run)(out.as_mut_ptr(), source.as_ptr(), offsets, out.len()) }
    }

    /// The same within one stretch of memory: the `len` bytes at `out` become the XOR of those at `offsets`,
    /// among which `out` may be. Parts that overlap otherwise give no useful result.
    ///
    /// # Panics
    /// If a part does not lie within `bytes`.
    #[inline]
    pub fn gather_within(&self, bytes: &mut [u8], out: u32, len: usize, offsets: &[u32]) {
        check(bytes.len(), &[out], len);
        check(bytes.len(), offsets, len);
        // SAFETY: every part lies within `bytes`.
        unsafe { self.gather_within_unchecked(bytes, out, len, offsets) }
    }

    /// Sums of all subsets of a few parts of one stretch of memory, as long as `len`, by one read and one write each.
    /// That of subset `s`, whose bit i stands for `offsets[i]`, goes to `out + (s - 1) * stride`; the empty subset
    /// has none.
    ///
    /// # Panics
    /// If a part or a place does not lie within `bytes`, or a part lies where sums go.
    pub fn subsets_within(&self, bytes: &mut [u8], offsets: &[u32], out: u32, stride: usize, len: usize) {
        let sums = out as usize..out as usize + ((1 << offsets.len()) - 1) * stride;
        assert!(
            len <= stride && sums.end <= bytes.len(),
            "sums of {len} bytes to {sums:?} of {}",
            bytes.len()
        );
        check(bytes.len(), offsets, len);
        let apart = |&offset: &u32| offset as usize + len <= sums.start || offset as usize >= sums.end;
        assert!(offsets.iter().all(apart), "a part at which sums go");
        if offsets.is_empty() {
            // There are no sums, and perhaps no memory that a pointer could go through.
            return;
        }
        // SAFETY: every part and every place lies within `bytes`, and they are apart.
        unsafe { (self.subsets)(bytes.as_mut_ptr(), offsets, sums.start, stride, len) }
    }

    /// [`Kernel::gather_within`] without the checks, which cost as much as a tenth of a decoder's time.
    ///
    /// # Safety
    /// Every part lies within `bytes`.
    #[inline]
    pub(crate) unsafe fn gather_within_unchecked(
        &self,
        bytes: &mut [u8],
        out: u32,
        len: usize,
        offsets: &[u32],
    ) {
        let base = bytes.as_mut_ptr();
        // SAFETY: every part lies within `bytes`, as the caller says, and all pointers derive from one exclusive
        // borrow of it. Parts that overlap in another way than the kernel's contract says are read and written
        // within their bounds nevertheless.
        unsafe {
            let out = base.add(out as usize);
            if offsets.is_empty() {
                out.write_bytes(0, len);
            } else {
                (self.run)(out, base, offsets, len);
            }
        }
    }
}

#[inline]
fn check(room: usize, offsets: &[u32], len: usize) {
    if offsets.is_empty() {
        return;
    }
    let last = offsets.iter().fold(0, |last, &offset| last.max(offset)) as usize;
    assert!(len <= room && last <= room - len, "{len} bytes at {last} of {room}");
}

/// One kernel: `$gather` and `$subsets` for a register of `$width` bytes, made of `$load`, `$xor` and `$store`.
/// Lengths that are no multiple of the width end with a register that overlaps the one before. In `$gather` it is
/// read first, since the output may be an input. Lengths below one register are left to `$narrower`.
macro_rules! kernel {
    ($(#[$attribute:meta])* $gather:ident, $subsets:ident, $register:ty, $width:expr, $zero:expr, $load:expr, $xor:expr, $store:expr,
     $narrower:expr, $narrower_subsets:expr, [$($registers:literal),*]) => {
        /// See [`super::Gather`] for what it requires.
        $(#[$attribute])*
        pub(super) unsafe fn $gather(out: *mut u8, base: *const u8, offsets: &[u32], len: usize) {
            const WIDTH: usize = $width;

            #[inline]
            $(#[$attribute])*
            unsafe fn sum<const N: usize>(base: *const u8, offsets: &[u32]) -> [$register; N] {
                let mut sum = [$zero; N];
                let Some((&first, others)) = offsets.split_first() else { return sum };
                // SAFETY: the caller's part at each offset goes on for N registers at least.
                unsafe {
                    for (i, sum) in sum.iter_mut().enumerate() {
                        *sum = $load(base.add(first as usize + i * WIDTH).cast());
                    }
                    for &offset in others {
                        for (i, sum) in sum.iter_mut().enumerate() {
                            *sum = $xor(*sum, $load(base.add(offset as usize + i * WIDTH).cast()));
                        }
                    }
                }
                sum
            }

            // SAFETY: all registers lie within the `len` bytes of each part: `at` goes on in steps that fit, and
            // the last register ends where they end.
            unsafe {
                if len < WIDTH {
                    return $narrower(out, base, offsets, len);
                }
                let rest = len % WIDTH;
                let last = if rest == 0 { None } else { Some(sum::<1>(base.add(len - WIDTH), offsets)) };
                let mut at = 0;
                $(
                    while at + $registers * WIDTH <= len {
                        let sum = sum::<$registers>(base.add(at), offsets);
                        for (i, &register) in sum.iter().enumerate() {
                            $store(out.add(at + i * WIDTH).cast(), register);
                        }
                        at += $registers * WIDTH;
                    }
                )*
                if let Some([register]) = last {
                    $store(out.add(len - WIDTH).cast(), register);
                }
            }
        }

        /// See [`super::Subsets`] for what it requires.
        $(#[$attribute])*
        pub(super) unsafe fn $subsets(base: *mut u8, offsets: &[u32], out: usize, stride: usize, len: usize) {
            const WIDTH: usize = $width;

            /// In the order of the Gray code, in which a subset differs from the one before by one member.
            #[inline]
            $(#[$attribute])*
            unsafe fn walk<const N: usize>(base: *mut u8, offsets: &[u32], out: usize, stride: usize) {
                let mut sum = [$zero; N];
                for number in 1usize..1 << offsets.len() {
                    let member = offsets[number.trailing_zeros() as usize] as usize;
                    let place = ((number ^ (number >> 1)) - 1) * stride;
                    // SAFETY: members and places go on for N registers at least.
                    unsafe {
                        let (from, to) = (base.add(member), base.add(out + place));
                        for (i, sum) in sum.iter_mut().enumerate() {
                            *sum = $xor(*sum, $load(from.add(i * WIDTH).cast_const().cast()));
                            $store(to.add(i * WIDTH).cast(), *sum);
                        }
                    }
                }
            }

            // SAFETY: as above.
            unsafe {
                if len < WIDTH {
                    return $narrower_subsets(base, offsets, out, stride, len);
                }
                let mut at = 0;
                while at + 4 * WIDTH <= len {
                    walk::<4>(base.add(at), offsets, out, stride);
                    at += 4 * WIDTH;
                }
                while at + WIDTH <= len {
                    walk::<1>(base.add(at), offsets, out, stride);
                    at += WIDTH;
                }
                if at < len {
                    walk::<1>(base.add(len - WIDTH), offsets, out, stride);
                }
            }
        }
    };
}
use kernel;
