//! exp, sigmoid and tanh on vectors, to a few units in the last place; divisions are shared where they can be.

use super::simd::{LANES, Simd};

/// `e^x`, with x held in -87..=88 so that the result is a normal number. A NaN stays a NaN.
///
/// Range reduction by ln 2 in two parts and a polynomial of degree six (the coefficients are those of the
/// Cephes library); the relative error is below 2e-7.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    // SAFETY: the caller promises the instruction set; no memory is touched.
    unsafe {
        let x = S::min(S::max(x, S::splat(-87.0)), S::splat(88.0));
        let n = S::round(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
        let r = S::fnma(n, S::splat(0.693_359_4), x);
        let r = S::fnma(n, S::splat(-2.121_944_4e-4), r);
        let mut y = S::splat(1.987_569_1e-4);
        for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
            y = S::fma(y, r, S::splat(coefficient));
        }
        let y = S::add(S::fma(y, S::mul(r, r), r), S::splat(1.0));
        S::mul(y, S::exp2_whole(n))
    }
}

/// Replaces each value by its [`exp`].
///
/// # Safety
/// `values` must span `len` floats, a multiple of 8; the instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn exponentials<S: Simd>(len: usize, values: *mut f32) {
    // SAFETY: i + LANES <= len.
    unsafe {
        let mut i = 0;
        while i < len {
            S::store(values.add(i), exp::<S>(S::load(values.add(i))));
            i += LANES;
        }
    }
}

/// The largest exponent of which two denominators can be multiplied: `(1 + e^43)^2` is a finite float.
const SHARED_LIMIT: f32 = 43.0;

/// `1 + e^-x`, the denominator of a sigmoid, with -x held below [`SHARED_LIMIT`]: a sigmoid is then never below 2e-19.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
unsafe fn sigmoid_denominator<S: Simd>(x: S::V) -> S::V {
    // SAFETY: as for `exp`.
    unsafe {
        let negated = S::min(S::sub(S::splat(0.0), x), S::splat(SHARED_LIMIT));
        S::add(S::splat(1.0), exp::<S>(negated))
    }
}

/// Two sigmoids with one division.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn two_sigmoids<S: Simd>(x: S::V, y: S::V) -> (S::V, S::V) {
    // SAFETY: as for `exp`.
    unsafe {
        let (x, y) = (sigmoid_denominator::<S>(x), sigmoid_denominator::<S>(y));
        let quotient = S::div(S::splat(1.0), S::mul(x, y));
        (S::mul(quotient, y), S::mul(quotient, x))
    }
}

/// A sigmoid and a tanh with one division.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn sigmoid_and_tanh<S: Simd>(x: S::V, y: S::V) -> (S::V, S::V) {
    // SAFETY: as for `exp`.
    unsafe {
        let denominator = sigmoid_denominator::<S>(x);
        let (p, q) = tanh_quotient::<S>(y);
        let quotient = S::div(S::splat(1.0), S::mul(denominator, q));
        // Two roundings more than a plain quotient could step over 1.
        let tanh = S::mul(S::mul(p, denominator), quotient);
        let tanh = S::min(S::max(tanh, S::splat(-1.0)), S::splat(1.0));
        (S::mul(quotient, q), S::saturate(tanh, y, TANH_IS_ONE))
    }
}

/// Beyond this tanh is ±1 in single precision, and its slope must be 0: weights of any size multiply it.
const TANH_IS_ONE: f32 = 9.02;

/// `tanh x` as a quotient of polynomials in x (the approximation that Eigen uses); the error is below 3e-7.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn tanh<S: Simd>(x: S::V) -> S::V {
    // SAFETY: as for `exp`.
    unsafe {
        let (p, q) = tanh_quotient::<S>(x);
        S::saturate(S::div(p, q), x, TANH_IS_ONE)
    }
}

/// Numerator and denominator of tanh up to ±7.9; the denominator lies between 0.004 and 1.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
unsafe fn tanh_quotient<S: Simd>(x: S::V) -> (S::V, S::V) {
    // SAFETY: as for `exp`.
    unsafe {
        // Beyond this bound the quotient would leave -1..=1.
        const BOUND: f32 = 7.905_311;
        let x = S::min(S::max(x, S::splat(-BOUND)), S::splat(BOUND));
        let square = S::mul(x, x);
        let mut p = S::splat(-2.760_768_5e-16);
        for coefficient in [2.000_188e-13, -8.604_672e-11, 5.122_297e-8, 1.485_722_4e-5, 6.372_619e-4, 4.893_524_6e-3] {
            p = S::fma(square, p, S::splat(coefficient));
        }
        let mut q = S::splat(1.198_258_4e-6);
        for coefficient in [1.185_347e-4, 2.268_434_6e-3, 4.893_525e-3] {
            q = S::fma(square, q, S::splat(coefficient));
        }
        (S::mul(x, p), q)
    }
}
