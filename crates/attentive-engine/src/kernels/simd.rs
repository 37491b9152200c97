//! Vectors of eight floats: one source per kernel, two instruction sets.
//!
//! A kernel is a function generic over [`Simd`]. It is always inlined into an entry point that enables the instruction
//! set (see [`super::Kernels`]). [`Portable`] uses plain Rust arrays, which the compiler turns into the target's
//! default instructions. [`Avx2`] needs AVX2 and FMA.

/// How many floats one vector holds.
pub(crate) const LANES: usize = 8;

/// Added to a small number, this leaves no bits for a fraction, so the sum is rounded to the nearest whole number n.
/// The low bits of the sum are then n + 127, the exponent of `2^n`.
pub(crate) const EXPONENT_SHIFT: f32 = 12_582_912.0 + 127.0;

/// The vector operations that the kernels are written in.
///
/// Every operation is `unsafe`: the instruction set must be available at run time, and pointers must be valid for
/// [`LANES`] floats. `min` and `max` return `x` if it is NaN, so that a NaN is never clamped away.
pub(crate) trait Simd: Copy {
    type V: Copy;
    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(from: *const f32) -> Self::V;
    unsafe fn store(to: *mut f32, v: Self::V);
    /// Prefetches the cache line at `at`, which need not be valid.
    fn prefetch(at: *const f32);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a * b`
    unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    unsafe fn min(x: Self::V, bound: Self::V) -> Self::V;
    unsafe fn max(x: Self::V, bound: Self::V) -> Self::V;
    /// `2^n` from `n + EXPONENT_SHIFT`, for a whole number n in -126..=127.
    unsafe fn power_of_two(shifted: Self::V) -> Self::V;
    /// The sum of all lanes, always in the same order.
    unsafe fn sum(v: Self::V) -> f32;
    /// `value`, or ±1 with the sign of `x` where x is beyond `limit`. A NaN is not beyond the limit.
    unsafe fn saturate(value: Self::V, x: Self::V, limit: f32) -> Self::V;
    /// Whether every lane is in `-limit..=limit` (a NaN is not).
    unsafe fn all_within(v: Self::V, limit: f32) -> bool;
}

/// Plain Rust, for CPUs without AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

#[inline(always)]
fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    // Without an FMA instruction, `mul_add` is a slow library call.
    if cfg!(any(target_arch = "aarch64", target_feature = "fma")) { a.mul_add(b, c) } else { a * b + c }
}

impl Simd for Portable {
    type V = [f32; LANES];
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        // SAFETY: the caller guarantees LANES readable floats; f32 arrays have no stricter alignment than f32.
        unsafe { *from.cast::<Self::V>() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        // SAFETY: the caller guarantees LANES writable floats.
        unsafe { *to.cast::<Self::V>() = v }
    }
    #[inline(always)]
    fn prefetch(_: *const f32) {}
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| multiply_add(a[i], b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| multiply_add(-a[i], b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn min(x: Self::V, bound: Self::V) -> Self::V {
        zip(x, bound, |x, bound| if bound < x { bound } else { x })
    }
    #[inline(always)]
    unsafe fn max(x: Self::V, bound: Self::V) -> Self::V {
        zip(x, bound, |x, bound| if bound > x { bound } else { x })
    }
    #[inline(always)]
    unsafe fn power_of_two(shifted: Self::V) -> Self::V {
        shifted.map(|x| f32::from_bits(x.to_bits() << 23))
    }
    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
    }
    #[inline(always)]
    unsafe fn saturate(value: Self::V, x: Self::V, limit: f32) -> Self::V {
        zip(value, x, |value, x| if x.abs() > limit { 1.0_f32.copysign(x) } else { value })
    }
    #[inline(always)]
    unsafe fn all_within(v: Self::V, limit: f32) -> bool {
        v.iter().all(|x| x.abs() <= limit)
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::Simd;
    use std::arch::x86_64::*;

    /// AVX2 and FMA.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2;

    // SAFETY of every block below: callers of `Simd` guarantee that the CPU has AVX2 and FMA and that pointers are
    // valid. Loads and stores are unaligned.
    #[allow(clippy::undocumented_unsafe_blocks)]
    impl Simd for Avx2 {
        type V = __m256;
        #[inline(always)]
        unsafe fn splat(x: f32) -> __m256 {
            unsafe { _mm256_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m256 {
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: __m256) {
            unsafe { _mm256_storeu_ps(to, v) }
        }
        #[inline(always)]
        fn prefetch(at: *const f32) {
            // SAFETY: every x86-64 CPU has this instruction, and it never faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
        }
        #[inline(always)]
        unsafe fn add(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn sub(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_sub_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn div(a: __m256, b: __m256) -> __m256 {
            unsafe { _mm256_div_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn fnma(a: __m256, b: __m256, c: __m256) -> __m256 {
            unsafe { _mm256_fnmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn min(x: __m256, bound: __m256) -> __m256 {
            // The instruction returns its second operand when either is NaN.
            unsafe { _mm256_min_ps(bound, x) }
        }
        #[inline(always)]
        unsafe fn max(x: __m256, bound: __m256) -> __m256 {
            unsafe { _mm256_max_ps(bound, x) }
        }
        #[inline(always)]
        unsafe fn power_of_two(shifted: __m256) -> __m256 {
            unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(shifted))) }
        }
        #[inline(always)]
        unsafe fn sum(v: __m256) -> f32 {
            unsafe {
                let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
            }
        }
        #[inline(always)]
        unsafe fn saturate(value: __m256, x: __m256, limit: f32) -> __m256 {
            unsafe {
                let sign = _mm256_set1_ps(-0.0);
                let beyond = _mm256_cmp_ps::<_CMP_GT_OQ>(_mm256_andnot_ps(sign, x), _mm256_set1_ps(limit));
                let one = _mm256_or_ps(_mm256_and_ps(sign, x), _mm256_set1_ps(1.0));
                _mm256_blendv_ps(value, one, beyond)
            }
        }
        #[inline(always)]
        unsafe fn all_within(v: __m256, limit: f32) -> bool {
            unsafe {
                let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), v);
                let inside = _mm256_cmp_ps::<_CMP_LE_OQ>(magnitude, _mm256_set1_ps(limit));
                _mm256_movemask_ps(inside) == 0xff
            }
        }
    }
}
