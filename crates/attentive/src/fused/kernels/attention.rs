//! Scores of memories (R3) by cached exponentials, the summary (R7), and the scorer's derivative.
//!
//! `tanh(p + q) = 1 - 2 / (1 + e^2p e^2q)`, so with `e^2p` kept beside each memory and `e^2q` computed once a
//! step, a score costs a multiplication, an addition and half a division for each element. The constant
//! `sum(W3)` is left out of every score: only differences of scores ever matter (R4, R6).

use super::gemm::prefetch_row;
use super::math::exp;
use super::simd::{LANES, Simd};

/// Projections beyond this are kept as they are instead of as exponentials (see [`Projection`]).
///
/// `e^80` and `e^-80` are normal floats, and the product of two of them is never a NaN.
pub(crate) const EXPONENT_LIMIT: f32 = 40.0;

/// Denominators are held below this: two elements share a division, so that their product must stay a finite float. A
/// tanh is 1 in single precision long before.
const LARGEST_DENOMINATOR: f32 = 1e19;

/// `1 + e^2p e^2q`, the denominator of `1 - tanh(p + q)`.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
unsafe fn denominator<S: Simd>(key: S::V, query: S::V) -> S::V {
    // SAFETY: the caller promises the instruction set; no memory is touched.
    unsafe { S::min(S::fma(key, query, S::splat(1.0)), S::splat(LARGEST_DENOMINATOR)) }
}

/// Replaces `p` by `e^2p` if all of it is within [`EXPONENT_LIMIT`]; otherwise leaves it and returns false.
///
/// # Safety
/// `projection` must span `len` floats, `len` a multiple of 8; the instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn to_exponentials<S: Simd>(len: usize, projection: *mut f32) -> bool {
    // SAFETY: i + LANES <= len.
    unsafe {
        let mut i = 0;
        while i < len {
            if !S::all_within(S::load(projection.add(i)), EXPONENT_LIMIT) {
                return false;
            }
            i += LANES;
        }
        let mut i = 0;
        while i < len {
            let p = S::load(projection.add(i));
            S::store(projection.add(i), exp::<S>(S::add(p, p)));
            i += LANES;
        }
        true
    }
}

/// A projection `W1 m` or `W2 h_hat`: as `e^2p`, or as it is where an element is beyond [`EXPONENT_LIMIT`].
#[derive(Clone, Copy)]
pub(crate) struct Projection<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) exponential: bool,
}

/// `pair = e^2(p + q)`, whichever way the two are kept.
///
/// # Safety
/// The three must be of one length, a multiple of 8; the instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn pair_exponentials<S: Simd>(key: Projection<'_>, query: Projection<'_>, pair: &mut [f32]) {
    // A sum has no order: what is kept as an exponential comes first.
    let (a, b) = if key.exponential { (key, query) } else { (query, key) };
    let mut i = 0;
    while i < pair.len() {
        // SAFETY: i + LANES <= len.
        unsafe {
            let (x, y) = (S::load(a.values.as_ptr().add(i)), S::load(b.values.as_ptr().add(i)));
            let product = match (a.exponential, b.exponential) {
                (true, true) => S::mul(x, y),
                (true, false) => {
                    // Half of it at a time: e^2q may be no float where e^2p makes up for it.
                    let half = exp::<S>(y);
                    S::mul(S::mul(x, half), half)
                }
                (false, _) => {
                    let sum = S::add(x, y);
                    exp::<S>(S::add(sum, sum))
                }
            };
            S::store(pair.as_mut_ptr().add(i), product);
        }
        i += LANES;
    }
}

/// `scores[j] = -2 * sum(W3 / (1 + keys[j] * query))` for `slots` consecutive keys.
///
/// # Safety
/// `keys` must span `slots * len` floats, `query` and `w3` `len` (a multiple of 16), `scores` `slots`; the
/// instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn scores<S: Simd>(
    len: usize, slots: usize, keys: *const f32, query: *const f32, w3: *const f32, scores: *mut f32,
) {
    for slot in 0..slots {
        // SAFETY: slot < slots and i + 16 <= len.
        unsafe {
            let key = keys.add(slot * len);
            let mut sum = S::splat(0.0);
            let mut i = 0;
            while i < len {
                let x = denominator::<S>(S::load(key.add(i)), S::load(query.add(i)));
                let y = denominator::<S>(S::load(key.add(i + LANES)), S::load(query.add(i + LANES)));
                // w/x + v/y with one division
                let numerator = S::fma(S::load(w3.add(i)), y, S::mul(S::load(w3.add(i + LANES)), x));
                sum = S::add(sum, S::div(numerator, S::mul(x, y)));
                i += 2 * LANES;
            }
            *scores.add(slot) = -2.0 * S::sum(sum);
        }
    }
}

/// What the derivative of one row's scores touches; pointers span `len` floats unless said.
#[derive(Clone, Copy)]
pub(crate) struct ScoresBackward<'a> {
    /// Keys of the slots, as exponentials; or pairs as exponentials, with ones for a query.
    pub(crate) keys: &'a [*const f32],
    /// Adjoints of their scores.
    pub(crate) d_scores: &'a [f32],
    pub(crate) query: *const f32,
    pub(crate) w3: *const f32,
    /// Adjoint of `W2 h_hat`, written.
    pub(crate) d_query: *mut f32,
    /// Adjoints of `W1 m`, added to, or written where `first`.
    pub(crate) d_keys: &'a [*mut f32],
    pub(crate) first: &'a [bool],
    /// Adjoint of W3, added to.
    pub(crate) d_w3: *mut f32,
}

/// The derivative of a row's scores by W3, by `W1 m` and by `W2 h_hat`, from cached exponentials.
///
/// # Safety
/// The pointers must span `len` floats, a multiple of 16, no two of those written the same; the slices must be of one
/// length; the instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn scores_backward<S: Simd>(len: usize, row: ScoresBackward<'_>) {
    // SAFETY: i + 16 <= len.
    unsafe {
        let two = S::splat(2.0);
        let mut i = 0;
        while i < len {
            let query = [S::load(row.query.add(i)), S::load(row.query.add(i + LANES))];
            let w3 = [S::load(row.w3.add(i)), S::load(row.w3.add(i + LANES))];
            let mut d_w3 = [S::load(row.d_w3.add(i)), S::load(row.d_w3.add(i + LANES))];
            let mut d_query = [S::splat(0.0); 2];
            for slot in 0..row.keys.len() {
                let key = row.keys.get_unchecked(slot).add(i);
                let d_key = row.d_keys.get_unchecked(slot).add(i);
                let d_score = S::splat(*row.d_scores.get_unchecked(slot));
                let first = *row.first.get_unchecked(slot);
                let x = denominator::<S>(S::load(key), query[0]);
                let y = denominator::<S>(S::load(key.add(LANES)), query[1]);
                // 2/x and 2/y with one division
                let quotient = S::div(two, S::mul(x, y));
                // u = 1 - tanh, so 1 - tanh^2 = u (2 - u)
                let u = [S::mul(quotient, y), S::mul(quotient, x)];
                for half in 0..2 {
                    // A row's adjoints add up to 0, so the 1 of tanh = 1 - u can be left out: it would drown the rest.
                    d_w3[half] = S::fnma(d_score, u[half], d_w3[half]);
                    let d = S::mul(S::mul(d_score, w3[half]), S::mul(u[half], S::sub(two, u[half])));
                    d_query[half] = S::add(d_query[half], d);
                    let to = d_key.add(half * LANES);
                    S::store(to, if first { d } else { S::add(S::load(to), d) });
                }
            }
            for half in 0..2 {
                S::store(row.d_w3.add(i + half * LANES), d_w3[half]);
                S::store(row.d_query.add(i + half * LANES), d_query[half]);
            }
            i += 2 * LANES;
        }
    }
}

/// `summary = sum(weights[j] * memories[j])`, `hidden = h_hat + summary` (R7); `hidden` goes to two places.
///
/// # Safety
/// Each memory and the other pointers must span `len` floats, a multiple of 16; the instruction set of `S` must
/// be available.
#[inline(always)]
pub(super) unsafe fn summarise<S: Simd>(
    len: usize, weights: &[f32], memories: &[*const f32], h_hat: *const f32, summary: *mut f32, hidden: *mut f32,
    hidden_copy: *mut f32,
) {
    // SAFETY: i + LANES <= len.
    unsafe {
        let mut i = 0;
        // Two vectors at a time use up a cache line of each memory.
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

/// Asks for rows of `len` floats that the next lane will touch; changes nothing, wherever they point.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn prefetch_rows<S: Simd>(len: usize, rows: &[*const f32]) {
    rows.iter().for_each(|row| prefetch_row::<S>(*row, len));
}

/// `sum(a * b)`
///
/// # Safety
/// `a` and `b` must span `len` floats, a multiple of 16; the instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn dot<S: Simd>(len: usize, a: *const f32, b: *const f32) -> f32 {
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

/// `to = scale * from`, or `to += scale * from` if `add`.
///
/// # Safety
/// `from` and `to` must span `len` floats, a multiple of 8; the instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn scaled<S: Simd>(len: usize, scale: f32, from: *const f32, to: *mut f32, add: bool) {
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
pub(super) unsafe fn sum<S: Simd>(len: usize, a: *const f32, b: *const f32, to: *mut f32) {
    // SAFETY: i + LANES <= len.
    unsafe {
        let mut i = 0;
        while i < len {
            S::store(to.add(i), S::add(S::load(a.add(i)), S::load(b.add(i))));
            i += LANES;
        }
    }
}
