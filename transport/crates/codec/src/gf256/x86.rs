//! The kernels for x86: products of halves of bytes by a shuffle (AVX2), or the multiplication as a matrix over GF(2) (GFNI).

use std::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_set1_epi64x,
    _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
    _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64, _mm512_storeu_si512,
    _mm512_xor_si512,
};

use super::{BY_HALVES, multiply, portable};

/// Of each element, the matrix that multiplies by it, as GFNI has it: the eighth byte is the row that gives bit 0.
static MATRICES: [i64; 256] = {
    let mut matrices = [0; 256];
    let mut by = 0;
    while by < 256 {
        let mut matrix = 0_u64;
        let mut column = 0;
        while column < 8 {
            let product = multiply(by as u8, 1 << column);
            let mut row = 0;
            while row < 8 {
                matrix |= (product as u64 >> row & 1) << (8 * (7 - row) + column);
                row += 1;
            }
            column += 1;
        }
        matrices[by] = matrix as i64;
        by += 1;
    }
    matrices
};

/// One kernel for registers of `$width` bytes, of which `$product` makes what is added; the rest is left to `$narrower`.
macro_rules! kernel {
    ($features:literal, $name:ident, $register:ty, $width:expr, $load:ident, $xor:ident, $store:ident,
     |$by:ident| $prepare:expr, |$prepared:ident, $from:ident| $product:expr, $narrower:expr) => {
        /// See [`super::MultiplyAdd`] for what it requires.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name(out: *mut u8, from: *const u8, $by: u8, len: usize) {
            let $prepared = $prepare;
            let mut at = 0;
            while at + $width <= len {
                // SAFETY: a register from `at` on lies within the `len` bytes.
                unsafe {
                    let $from: $register = $load(from.add(at).cast());
                    let to = out.add(at);
                    $store(to.cast(), $xor($load(to.cast_const().cast()), $product));
                }
                at += $width;
            }
            // SAFETY: what is left lies within them, too; the narrower kernel needs no more than this one.
            unsafe { $narrower(out.add(at), from.add(at), $by, len - at) }
        }
    };
}

kernel!(
    "avx512f,gfni,avx2",
    gfni_avx512,
    __m512i,
    64,
    _mm512_loadu_si512,
    _mm512_xor_si512,
    _mm512_storeu_si512,
    |by| _mm512_set1_epi64(MATRICES[usize::from(by)]),
    |matrix, from| _mm512_gf2p8affine_epi64_epi8::<0>(from, matrix),
    gfni_avx2
);

kernel!(
    "gfni,avx2",
    gfni_avx2,
    __m256i,
    32,
    _mm256_loadu_si256,
    _mm256_xor_si256,
    _mm256_storeu_si256,
    |by| _mm256_set1_epi64x(MATRICES[usize::from(by)]),
    |matrix, from| _mm256_gf2p8affine_epi64_epi8::<0>(from, matrix),
    portable::multiply_add
);

kernel!(
    "avx2",
    avx2,
    __m256i,
    32,
    _mm256_loadu_si256,
    _mm256_xor_si256,
    _mm256_storeu_si256,
    |by| halves(by),
    |halves, from| {
        let (low, high, mask) = halves;
        let upper = _mm256_and_si256(_mm256_srli_epi64::<4>(from), mask);
        _mm256_xor_si256(
            _mm256_shuffle_epi8(low, _mm256_and_si256(from, mask)),
            _mm256_shuffle_epi8(high, upper),
        )
    },
    portable::multiply_add
);

/// The products with lower and with higher halves, in both lanes, and what cuts a half out.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(by: u8) -> (__m256i, __m256i, __m256i) {
    let table = BY_HALVES[usize::from(by)].as_ptr();
    // SAFETY: a table has 32 bytes.
    let half = |at| unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(at).cast::<__m128i>())) };
    (half(0), half(16), _mm256_set1_epi8(15))
}
