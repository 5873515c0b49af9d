//! The kernel for NEON.

use std::arch::aarch64::{uint8x16_t, vdupq_n_u8, veorq_u8, vld1q_u8, vst1q_u8};

use super::portable;

super::kernel!(
    #[target_feature(enable = "neon")]
    gather,
    subsets,
    uint8x16_t,
    16,
    vdupq_n_u8(0),
    vld1q_u8,
    veorq_u8,
    vst1q_u8,
    portable::gather,
    portable::subsets,
    [16, 4, 1]
);
