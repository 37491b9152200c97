//! Bounds of the paper's scores.
//!
//! Each unit's term of a score, `-2 W3 / (1 + e^2p e^2q)`, grows with the key `e^2p` if W3 is positive, and falls if
//! W3 is negative. So the *corner* of a block, which takes the largest key of each unit where W3 >= 0 and the
//! smallest elsewhere, scores at least as high as every memory of the block: exactly so in exact arithmetic, up to a
//! slack in floats.

use super::super::additive::denominator;
use super::{Cached, ScoreBounds};
use crate::kernels::simd::{LANES, Simd};
use crate::kernels::{Isa, kernel_table};

/// A block keeps its corner, and a slack for each pair of units that share a division.
pub(crate) struct AdditiveBounds;

/// Larger elements of W3 have no bounds: sums of their terms could overflow.
const LARGEST_WEIGHT: f32 = 1e12;

impl ScoreBounds for AdditiveBounds {
    fn width(&self, padded: usize) -> usize {
        padded + padded / 2
    }

    fn bounds_query(&self, query: Cached<'_>, w3: &[f32]) -> bool {
        query.exponential() && w3.iter().all(|w3| w3.abs() < LARGEST_WEIGHT)
    }

    fn bounds_key(&self, key: Cached<'_>) -> bool {
        key.exponential()
    }

    fn first(&self, key: &[f32], block: &mut [f32]) {
        let (corner, slacks) = block.split_at_mut(key.len());
        corner.copy_from_slice(key);
        slacks.fill(0.0);
    }

    fn widen(&self, key: &[f32], w3: &[f32], block: &mut [f32]) {
        const PAIRS: usize = 2 * LANES;
        let (corner, slacks) = block.split_at_mut(key.len());
        let pairs = corner.chunks_exact_mut(PAIRS).zip(key.chunks_exact(PAIRS)).zip(w3.chunks_exact(PAIRS));
        for (((corner, key), w3), slacks) in pairs.zip(slacks.chunks_exact_mut(LANES)) {
            for i in 0..LANES {
                if corner[i] != key[i] || corner[i + LANES] != key[i + LANES] {
                    slacks[i] = slack(w3[i], w3[i + LANES]);
                }
            }
            for ((corner, key), w3) in corner.iter_mut().zip(key).zip(w3) {
                *corner = if *w3 >= 0.0 { corner.max(*key) } else { corner.min(*key) };
            }
        }
    }

    fn join(&self, other: &[f32], w3: &[f32], block: &mut [f32]) {
        let (corner, slacks) = other.split_at(w3.len());
        self.widen(corner, w3, block);
        block[w3.len()..].iter_mut().zip(slacks).for_each(|(slack, other)| *slack = slack.max(*other));
    }

    fn highest(&self, isa: Isa, block: &[f32], query: Cached<'_>, w3: &[f32]) -> f32 {
        let padded = w3.len();
        assert!(query.values.len() == padded && block.len() == self.width(padded));
        let (corner, slacks) = block.split_at(padded);
        // SAFETY: the lengths were just checked; `isa` is the CPU's.
        unsafe {
            let (corner, slacks) = (corner.as_ptr(), slacks.as_ptr());
            (Kernels::of(isa).bound)(padded, corner, slacks, query.values.as_ptr(), w3.as_ptr())
        }
    }
}

/// By how much rounding may break the order of the terms of a pair of units with the weights `w` and `v`.
///
/// Two units share a division: `(w y + v x) / (x y)`, where the denominators x and y are at least 1. A denominator
/// carries at most two roundings (one with a multiply-add), the numerator three, the product and the quotient one
/// each. So a computed term differs from the exact one by less than 8 u (|w| + |v|), where u = 2^-24, and the order
/// of two terms holds up to 16 u (|w| + |v|). Subtracting the slack rounds once more. 24 u covers all of it, and the
/// constant covers denormal numbers.
fn slack(w: f32, v: f32) -> f32 {
    let sum = f64::from(w.abs()) + f64::from(v.abs());
    // Terms with zero weights are exactly zero.
    if sum == 0.0 { 0.0 } else { (24.0 * sum / f64::from(1 << 24) + 1e-42) as f32 }
}

kernel_table! {
    /// The kernel of the bounds.
    Kernels {
        bound = bound(len: usize, corner: *const f32, slacks: *const f32, query: *const f32, w3: *const f32) -> f32;
    }
}

/// The score of a corner, every term moved up by its slack. Terms are added in the order of the scorer's own kernel,
/// and a sum rounds no lower if one of its terms grows, so the result is no lower than the score of any memory in the
/// block.
///
/// # Safety
/// `corner`, `query` and `w3` must span `len` floats (a multiple of 16), `slacks` half as many; the instruction set
/// of `S` must be available.
#[inline(always)]
unsafe fn bound<S: Simd>(len: usize, corner: *const f32, slacks: *const f32, query: *const f32, w3: *const f32) -> f32 {
    // SAFETY: i + 16 <= len, so i / 2 + 8 <= len / 2.
    unsafe {
        let mut sum = S::splat(0.0);
        let mut i = 0;
        while i < len {
            let x = denominator::<S>(S::load(corner.add(i)), S::load(query.add(i)));
            let y = denominator::<S>(S::load(corner.add(i + LANES)), S::load(query.add(i + LANES)));
            let numerator = S::fma(S::load(w3.add(i)), y, S::mul(S::load(w3.add(i + LANES)), x));
            let term = S::sub(S::div(numerator, S::mul(x, y)), S::load(slacks.add(i / 2)));
            sum = S::add(sum, term);
            i += 2 * LANES;
        }
        -2.0 * S::sum(sum)
    }
}
