//! The kernel for NEON: products of halves of bytes by table lookups.

use std::arch::aarch64::{vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8};

use super::{BY_HALVES, portable};

const WIDTH: usize = 16;

/// See [`super::MultiplyAdd`] for what it requires.
#[target_feature(enable = "neon")]
pub(super) unsafe fn multiply_add(out: *mut u8, from: *const u8, by: u8, len: usize) {
    let table = BY_HALVES[usize::from(by)].as_ptr();
    let mut at = 0;
    // SAFETY: a table has 32 bytes; a register from `at` on lies within the `len` bytes, and so does what is left.
    unsafe {
        let (low, high) = (vld1q_u8(table), vld1q_u8(table.add(16)));
        while at + WIDTH <= len {
            let bytes = vld1q_u8(from.add(at));
            let lower = vqtbl1q_u8(low, vandq_u8(bytes, vdupq_n_u8(15)));
            let product = veorq_u8(lower, vqtbl1q_u8(high, vshrq_n_u8::<4>(bytes)));
            vst1q_u8(out.add(at), veorq_u8(vld1q_u8(out.add(at)), product));
            at += WIDTH;
        }
        portable::multiply_add(out.add(at), from.add(at), by, len - at);
    }
}
