//! exp, sigmoid and tanh on vectors, to a few units in the last place.

use super::simd::{EXPONENT_SHIFT, LANES, Simd};

/// `e^x`, with x clamped to -87..=87 so that the result and its inverse are normal numbers. A NaN stays a NaN.
///
/// Range reduction by ln 2 in two parts, then a polynomial of degree six with the coefficients of the Cephes library.
/// The relative error is below 2e-7.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
pub(crate) unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller guarantees the instruction set; no memory is touched.
    unsafe {
        let x = S::min(S::max(x, S::splat(-87.0)), S::splat(87.0));
        let shifted = S::fma(x, S::splat(std::f32::consts::LOG2_E), S::splat(EXPONENT_SHIFT));
        let n = S::sub(shifted, S::splat(EXPONENT_SHIFT));
        let r = S::fnma(n, S::splat(0.693_359_4), x);
        let r = S::fnma(n, S::splat(-2.121_944_4e-4), r);
        let mut y = S::splat(1.987_569_1e-4);
        for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
            y = S::fma(y, r, S::splat(coefficient));
        }
        let y = S::add(S::fma(y, S::mul(r, r), r), S::splat(1.0));
        S::mul(y, S::power_of_two(shifted))
    }
}

/// Replaces each value by its [`exp`].
///
/// # Safety
/// `values` must span `len` floats, a multiple of 8; the instruction set of `S` must be available.
#[inline(always)]
pub(crate) unsafe fn exponentials<S: Simd>(len: usize, values: *mut f32) {
    // SAFETY: i + LANES <= len.
    unsafe {
        let mut i = 0;
        while i < len {
            S::store(values.add(i), exp::<S>(S::load(values.add(i))));
            i += LANES;
        }
    }
}

/// `1 / (1 + e^-x)`
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
pub(crate) unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    // SAFETY: as for `exp`.
    unsafe {
        let one = S::splat(1.0);
        S::div(one, S::add(one, exp::<S>(S::sub(S::splat(0.0), x))))
    }
}

/// Beyond this limit tanh is ±1 in single precision. Its slope must then be exactly 0, because weights of any size
/// multiply it.
const TANH_IS_ONE: f32 = 9.02;

/// `tanh x` as a quotient of polynomials in x, the approximation that Eigen uses. The error is below 3e-7.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
pub(crate) unsafe fn tanh<S: Simd>(x: S::V) -> S::V {
    // SAFETY: as for `exp`.
    unsafe {
        // Beyond this bound the quotient would leave -1..=1.
        const BOUND: f32 = 7.905_311;
        let held = S::min(S::max(x, S::splat(-BOUND)), S::splat(BOUND));
        let square = S::mul(held, held);
        let mut p = S::splat(-2.760_768_5e-16);
        for coefficient in [2.000_188e-13, -8.604_672e-11, 5.122_297e-8, 1.485_722_4e-5, 6.372_619e-4, 4.893_524_6e-3] {
            p = S::fma(square, p, S::splat(coefficient));
        }
        let mut q = S::splat(1.198_258_4e-6);
        for coefficient in [1.185_347e-4, 2.268_434_6e-3, 4.893_525e-3] {
            q = S::fma(square, q, S::splat(coefficient));
        }
        S::saturate(S::div(S::mul(held, p), q), x, TANH_IS_ONE)
    }
}

/// The number of sums that [`multiply_adds`] computes in parallel, enough to hide the latency of any CPU.
pub(crate) const CHAINS: usize = 12;

/// Only multiplies and adds in registers, `rounds * CHAINS` vectors.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
pub(crate) unsafe fn multiply_adds<S: Simd>(rounds: usize) -> f32 {
    // SAFETY: the caller guarantees the instruction set; no memory is touched.
    unsafe {
        let (factor, addend) = (S::splat(0.999_999), S::splat(1e-7));
        let mut sums = [S::splat(1.0); CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = S::fma(*sum, factor, addend);
            }
        }
        sums.into_iter().map(|sum| S::sum(sum)).sum()
    }
}
