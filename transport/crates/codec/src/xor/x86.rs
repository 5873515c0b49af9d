//! The kernels for AVX-512 and AVX2.

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_loadu_si256, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256,
    _mm512_loadu_si512, _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
};

use super::portable;

// Eight registers in one pass over the inputs were faster than four and than sixteen.
super::kernel!(
    #[target_feature(enable = "avx512f,avx2")]
    gather_avx512,
    subsets_avx512,
    __m512i,
    64,
    _mm512_setzero_si512(),
    _mm512_loadu_si512,
    _mm512_xor_si512,
    _mm512_storeu_si512,
    gather_avx2,
    subsets_avx2,
    [8, 4, 1]
);

super::kernel!(
    #[target_feature(enable = "avx2")]
    gather_avx2,
    subsets_avx2,
    __m256i,
    32,
    _mm256_setzero_si256(),
    _mm256_loadu_si256,
    _mm256_xor_si256,
    _mm256_storeu_si256,
    portable::gather,
    portable::subsets,
    [8, 1]
);
