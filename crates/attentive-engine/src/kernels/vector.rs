//! Loops over the floats of one row: summaries (R7), dot products, sums.

use super::gemm::prefetch_row;
use super::simd::{LANES, Simd};

/// `summary = sum(weights[j] * memories[j])`, `hidden = h_hat + summary` (R7); `hidden` goes to two places.
///
/// # Safety
/// Each memory and the other pointers must span `len` floats, a multiple of 16; the instruction set of `S` must
/// be available.
#[inline(always)]
pub(crate) unsafe fn summarise<S: Simd>(
    len: usize, weights: &[f32], memories: &[*const f32], h_hat: *const f32, summary: *mut f32, hidden: *mut f32,
    hidden_copy: *mut f32,
) {
    // SAFETY: i + LANES <= len.
    unsafe {
        let mut i = 0;
        // Two vectors at a time use a whole cache line of each memory.
        while i < len {
            let mut sums = [S::splat(0.0); 2];
            for (weight, memory) in weights.iter().zip(memories) {
                let weight = S::splat(*weight);
                sums[0] = S::fma(weight, S::load(memory.add(i)), sums[0]);
                sums[1] = S::fma(weight, S::load(memory.add(i + LANES)), sums[1]);
            }
            for (half, sum) in sums.into_iter().enumerate() {
                let i = i + half * LANES;
                S::store(summary.add(i), sum);
                let h = S::add(S::load(h_hat.add(i)), sum);
                S::store(hidden.add(i), h);
                S::store(hidden_copy.add(i), h);
            }
            i += 2 * LANES;
        }
    }
}

/// Prefetches rows of `len` floats that the next lane will touch. The pointers need not be valid.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
pub(crate) unsafe fn prefetch_rows<S: Simd>(len: usize, rows: &[*const f32]) {
    rows.iter().for_each(|row| prefetch_row::<S>(*row, len));
}

/// `sum(a * b)`
///
/// # Safety
/// `a` and `b` must span `len` floats, a multiple of 16; the instruction set of `S` must be available.
#[inline(always)]
pub(crate) unsafe fn dot<S: Simd>(len: usize, a: *const f32, b: *const f32) -> f32 {
    // SAFETY: i + 16 <= len.
    unsafe {
        let (mut even, mut odd) = (S::splat(0.0), S::splat(0.0));
        let mut i = 0;
        while i < len {
            even = S::fma(S::load(a.add(i)), S::load(b.add(i)), even);
            odd = S::fma(S::load(a.add(i + LANES)), S::load(b.add(i + LANES)), odd);
            i += 2 * LANES;
        }
        S::sum(S::add(even, odd))
    }
}

/// The highest (or lowest) [`dot`] product with `b` of a vector between `low` and `high`, added up in the same order:
/// no such vector has a higher (lower) one, rounding included.
///
/// # Safety
/// `high`, `low` and `b` must span `len` floats, a multiple of 16; the instruction set of `S` must be available.
#[inline(always)]
pub(crate) unsafe fn dot_bound<S: Simd>(
    len: usize, high: *const f32, low: *const f32, b: *const f32, highest: bool,
) -> f32 {
    // SAFETY: i + 16 <= len.
    unsafe {
        let mut sums = [S::splat(0.0); 2];
        let mut i = 0;
        while i < len {
            for (half, sum) in sums.iter_mut().enumerate() {
                let at = i + half * LANES;
                let b = S::load(b.add(at));
                let (up, down) = (S::fma(S::load(high.add(at)), b, *sum), S::fma(S::load(low.add(at)), b, *sum));
                *sum = if highest { S::max(up, down) } else { S::min(up, down) };
            }
            i += 2 * LANES;
        }
        S::sum(S::add(sums[0], sums[1]))
    }
}

/// `to = scale * from`, or `to += scale * from` if `add`.
///
/// # Safety
/// `from` and `to` must span `len` floats, a multiple of 8; the instruction set of `S` must be available.
#[inline(always)]
pub(crate) unsafe fn scaled<S: Simd>(len: usize, scale: f32, from: *const f32, to: *mut f32, add: bool) {
    // SAFETY: i + LANES <= len.
    unsafe {
        let scale = S::splat(scale);
        let mut i = 0;
        while i < len {
            let v = S::load(from.add(i));
            let v = if add { S::fma(scale, v, S::load(to.add(i))) } else { S::mul(scale, v) };
            S::store(to.add(i), v);
            i += LANES;
        }
    }
}

/// `to = a + b`
///
/// # Safety
/// The pointers must span `len` floats, a multiple of 8; the instruction set of `S` must be available.
#[inline(always)]
pub(crate) unsafe fn sum<S: Simd>(len: usize, a: *const f32, b: *const f32, to: *mut f32) {
    // SAFETY: i + LANES <= len.
    unsafe {
        let mut i = 0;
        while i < len {
            S::store(to.add(i), S::add(S::load(a.add(i)), S::load(b.add(i))));
            i += LANES;
        }
    }
}

/// `sum(values^2)` in double precision, in which no square of a float overflows. The bits are the same on every
/// instruction set.
pub(crate) fn square_sum(values: &[f32]) -> f64 {
    // Eight sums side by side: the compiler vectorises them without changing their order.
    let mut sums = [0.0_f64; LANES];
    for eight in values.chunks(LANES) {
        for (sum, value) in sums.iter_mut().zip(eight) {
            *sum += f64::from(*value) * f64::from(*value);
        }
    }
    sums.iter().sum()
}

/// `sum((a - b)^2)` in double precision, as [`square_sum`].
pub(crate) fn square_distance(a: &[f32], b: &[f32]) -> f64 {
    let mut sums = [0.0_f64; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            let difference = f64::from(*a) - f64::from(*b);
            *sum += difference * difference;
        }
    }
    sums.iter().sum()
}
