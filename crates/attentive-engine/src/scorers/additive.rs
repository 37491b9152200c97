//! The paper's scorer (R3): `a_i = W3 . tanh(W1 m_i + W2 h_hat)`, computed with cached exponentials.
//!
//! `tanh(p + q) = 1 - 2 / (1 + e^2p e^2q)`. The scorer caches `e^2p` beside each memory and computes `e^2q` once per
//! step. A score then costs one multiplication, one addition and half a division per element. Every score omits the
//! constant `sum(W3)`, because only differences of scores matter (R4, R6).
//!
//! A projection with an element beyond [`EXPONENT_LIMIT`] is cached raw, without the exponential. If the memory or the
//! query is raw, the scorer computes `e^2(p + q)` for this pair. The kernels then use it as the key, and ones as the
//! query. The choice is made for each pair separately, so a score's bits depend neither on other memories nor on how a
//! sequence is cut into calls.

use super::bounds::AdditiveBounds;
use super::{Cached, Keys, MemoryScorer, Room, ScoreBounds, ScoresBackward};
use crate::kernels::math::exp;
use crate::kernels::simd::{LANES, Simd};
use crate::kernels::{Isa, kernel_table};
use crate::parameters::{Gain, Parameter, Start};

/// R3.
pub(crate) struct Additive;

/// The note of a projection that is cached as `e^2p`.
const EXPONENTIAL: f32 = 1.0;
/// The note of a projection that is cached raw.
const RAW: f32 = 0.0;

impl Cached<'_> {
    pub(super) fn exponential(self) -> bool {
        self.note == EXPONENTIAL
    }
}

impl MemoryScorer for Additive {
    fn parameters(&self, hidden: usize) -> Vec<Parameter> {
        vec![
            Parameter::scorer("w1", &[hidden, hidden], Start::Uniform(Gain::Attention)),
            Parameter::scorer("w2", &[hidden, hidden], Start::Uniform(Gain::Attention)),
            Parameter::scorer("w3", &[hidden], Start::Uniform(Gain::Score)),
        ]
    }

    fn query_weight(&self) -> usize {
        1
    }

    fn vector(&self) -> Option<usize> {
        Some(2)
    }

    fn cache_key(&self, isa: Isa, values: &mut [f32]) -> f32 {
        // SAFETY: whole vectors; `isa` is the CPU's.
        let exponential = unsafe { (Kernels::of(isa).to_exponentials)(values.len(), values.as_mut_ptr()) };
        if exponential { EXPONENTIAL } else { RAW }
    }

    fn cache_query(&self, isa: Isa, _hidden: usize, values: &mut [f32]) -> f32 {
        self.cache_key(isa, values)
    }

    fn scores(
        &self, isa: Isa, keys: Keys<'_>, query: Cached<'_>, w3: &[f32], room: &mut Room, scores: &mut [f32],
    ) -> bool {
        let (kernels, padded, w3_start) = (Kernels::of(isa), w3.len(), w3.as_ptr());
        assert!(query.values.len() == padded && keys.values.len() == scores.len() * padded);
        let (query_start, slots) = (query.values.as_ptr(), scores.len());
        // No early exit: the compiler then compares several notes at once.
        let exponential = keys.notes.iter().fold(true, |all, note| all & (*note == EXPONENTIAL));
        if query.exponential() && exponential {
            // SAFETY: the lengths were just checked; `isa` is the CPU's.
            unsafe {
                (kernels.scores)(padded, slots, keys.values.as_ptr(), query_start, w3_start, scores.as_mut_ptr());
            }
            return false;
        }
        let mut lost = false;
        for (key, score) in keys.iter(padded).zip(scores) {
            let fast = key.exponential() && query.exponential();
            let (key, query) = if fast { (key.values.as_ptr(), query_start) } else { room.pair(isa, key, query) };
            // SAFETY: all of them have `padded` floats; `isa` is the CPU's.
            unsafe { (kernels.scores)(padded, 1, key, query, w3_start, score) };
            lost |= !fast && score.is_nan();
        }
        lost
    }

    unsafe fn backward(&self, isa: Isa, _hidden: usize, row: ScoresBackward<'_>, room: &mut Room) {
        let fast = row.query.exponential() && row.keys.iter().all(|key| key.exponential());
        room.pointers.clear();
        let query = if fast {
            room.pointers.extend(row.keys.iter().map(|key| key.values.as_ptr()));
            row.query.values.as_ptr()
        } else {
            room.join(isa, row.keys, row.query)
        };
        // SAFETY: guaranteed by the caller; pairs and ones span `padded` floats.
        unsafe { (Kernels::of(isa).backward)(row, &room.pointers, query) };
    }

    fn bounds(&self) -> Option<&'static dyn ScoreBounds> {
        Some(&AdditiveBounds)
    }
}

impl Room {
    /// The values that the kernels use as key and query of one pair, valid until the next call.
    fn pair(&mut self, isa: Isa, key: Cached<'_>, query: Cached<'_>) -> (*const f32, *const f32) {
        let ones = self.join(isa, &[key], query);
        (self.floats.as_ptr(), ones)
    }

    /// Writes the values that the kernels use as keys for one query to `pointers`, and returns those to use as the
    /// query. Both are valid until the next call.
    fn join(&mut self, isa: Isa, keys: &[Cached<'_>], query: Cached<'_>) -> *const f32 {
        let padded = query.values.len();
        self.floats.resize(keys.len() * padded, 0.0);
        self.ones.resize(padded, 1.0);
        self.pointers.clear();
        for (key, pair) in keys.iter().zip(self.floats.chunks_exact_mut(padded)) {
            // SAFETY: all of them have `padded` floats; `isa` is the CPU's.
            unsafe { (Kernels::of(isa).pair_exponentials)(*key, query, pair) };
            self.pointers.push(pair.as_ptr());
        }
        self.ones.as_ptr()
    }
}

kernel_table! {
    /// The additive scorer's kernels.
    Kernels {
        to_exponentials = to_exponentials(len: usize, projection: *mut f32) -> bool;
        pair_exponentials = pair_exponentials(key: Cached<'_>, query: Cached<'_>, pair: &mut [f32]);
        scores = scores(len: usize, slots: usize, keys: *const f32, query: *const f32, w3: *const f32,
            scores: *mut f32);
        backward = scores_backward(row: ScoresBackward<'_>, keys: &[*const f32], query: *const f32);
    }
}

/// Projections beyond this limit are cached raw instead of as exponentials (see the top of this file).
///
/// `e^80` and `e^-80` are normal floats, and the product of two of them is never a NaN.
const EXPONENT_LIMIT: f32 = 40.0;

/// Denominators are clamped to this limit, because two elements share a division and the product of their denominators
/// must stay finite. A tanh is 1 in single precision long before.
const LARGEST_DENOMINATOR: f32 = 1e19;

/// `1 + e^2p e^2q`, the denominator of `1 - tanh(p + q)`.
///
/// # Safety
/// The instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn denominator<S: Simd>(key: S::V, query: S::V) -> S::V {
    // SAFETY: the caller guarantees the instruction set; no memory is touched.
    unsafe { S::min(S::fma(key, query, S::splat(1.0)), S::splat(LARGEST_DENOMINATOR)) }
}

/// Replaces `p` by `e^2p` if all elements are within [`EXPONENT_LIMIT`]. Otherwise leaves it unchanged and returns
/// false.
///
/// # Safety
/// `projection` must span `len` floats, `len` a multiple of 8; the instruction set of `S` must be available.
#[inline(always)]
unsafe fn to_exponentials<S: Simd>(len: usize, projection: *mut f32) -> bool {
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

/// `pair = e^2(p + q)`, in whichever form the two are cached.
///
/// # Safety
/// All three must have the same length, a multiple of 8; the instruction set of `S` must be available.
#[inline(always)]
unsafe fn pair_exponentials<S: Simd>(key: Cached<'_>, query: Cached<'_>, pair: &mut [f32]) {
    // p + q is symmetric, so swap the two if needed: an exponential comes first.
    let (a, b) = if key.exponential() { (key, query) } else { (query, key) };
    let mut i = 0;
    while i < pair.len() {
        // SAFETY: i + LANES <= len.
        unsafe {
            let (x, y) = (S::load(a.values.as_ptr().add(i)), S::load(b.values.as_ptr().add(i)));
            let product = match (a.exponential(), b.exponential()) {
                (true, true) => S::mul(x, y),
                (true, false) => {
                    // Multiply by e^q twice: e^2q may overflow although e^2p compensates for it.
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
unsafe fn scores<S: Simd>(
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

/// The derivatives of a row's scores with respect to W3, `W1 m` and `W2 h_hat`, from cached exponentials.
///
/// # Safety
/// As for [`MemoryScorer::backward`]; `keys` and `query` must be exponentials as long as the vector; the instruction
/// set of `S` must be available.
#[inline(always)]
unsafe fn scores_backward<S: Simd>(row: ScoresBackward<'_>, keys: &[*const f32], query: *const f32) {
    let len = row.vector.len();
    let (w3_start, d_w3_start) = (row.vector.as_ptr(), row.d_vector.as_mut_ptr());
    // SAFETY: i + 16 <= len.
    unsafe {
        let two = S::splat(2.0);
        let mut i = 0;
        while i < len {
            let query_values = [S::load(query.add(i)), S::load(query.add(i + LANES))];
            let w3 = [S::load(w3_start.add(i)), S::load(w3_start.add(i + LANES))];
            let mut d_w3 = [S::load(d_w3_start.add(i)), S::load(d_w3_start.add(i + LANES))];
            let mut d_query = [S::splat(0.0); 2];
            for slot in 0..keys.len() {
                let key = keys.get_unchecked(slot).add(i);
                let d_key = row.d_keys.get_unchecked(slot).add(i);
                let d_score = S::splat(*row.d_scores.get_unchecked(slot));
                let first = *row.first.get_unchecked(slot);
                let x = denominator::<S>(S::load(key), query_values[0]);
                let y = denominator::<S>(S::load(key.add(LANES)), query_values[1]);
                // 2/x and 2/y with one division
                let quotient = S::div(two, S::mul(x, y));
                // u = 1 - tanh, so 1 - tanh^2 = u (2 - u)
                let u = [S::mul(quotient, y), S::mul(quotient, x)];
                for half in 0..2 {
                    // A row's adjoints sum to 0, so the 1 of tanh = 1 - u cancels. Including it would lose precision.
                    d_w3[half] = S::fnma(d_score, u[half], d_w3[half]);
                    let d = S::mul(S::mul(d_score, w3[half]), S::mul(u[half], S::sub(two, u[half])));
                    d_query[half] = S::add(d_query[half], d);
                    let to = d_key.add(half * LANES);
                    S::store(to, if first { d } else { S::add(S::load(to), d) });
                }
            }
            for half in 0..2 {
                S::store(d_w3_start.add(i + half * LANES), d_w3[half]);
                S::store(row.d_query.add(i + half * LANES), d_query[half]);
            }
            i += 2 * LANES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::tests::{both_isas, close, numbers};

    #[test]
    fn r3_scores_and_their_derivatives_agree_with_plain_code() {
        let (len, slots) = (48, 5);
        for isa in both_isas() {
            let kernels = Kernels::of(isa);
            let (p, q) = (numbers(slots * len, 12, EXPONENT_LIMIT), numbers(len, 13, EXPONENT_LIMIT));
            let w3 = numbers(len, 14, 1.0);
            let (mut keys, mut query) = (p.clone(), q.clone());
            // SAFETY: extents as the kernels require.
            unsafe {
                for slot in 0..slots {
                    assert!((kernels.to_exponentials)(len, keys[slot * len..].as_mut_ptr()));
                }
                assert!((kernels.to_exponentials)(len, query.as_mut_ptr()));
                let mut huge = q.clone();
                huge[len - 1] = EXPONENT_LIMIT * 1.01;
                let before = huge.clone();
                assert!(!(kernels.to_exponentials)(len, huge.as_mut_ptr()), "left unchanged");
                assert_eq!(huge, before);
            }
            let mut scores = vec![0.0; slots];
            // SAFETY: extents as the kernel requires.
            unsafe { (kernels.scores)(len, slots, keys.as_ptr(), query.as_ptr(), w3.as_ptr(), scores.as_mut_ptr()) };
            let tanh = |slot: usize, i: usize| (f64::from(p[slot * len + i]) + f64::from(q[i])).tanh();
            let right = |slot: usize| (0..len).map(|i| f64::from(w3[i]) * (tanh(slot, i) - 1.0)).sum::<f64>();
            close(&scores, (0..slots).map(right), 1e-5);

            let (chosen, d_scores) = ([3, 1], [0.7, -0.4]);
            let (mut d_query, mut d_w3) = (vec![f32::NAN; len], vec![0.5; len]);
            let (mut d_new, mut d_old) = (vec![f32::NAN; len], vec![1.0; len]);
            let row = ScoresBackward {
                keys: &chosen.map(|slot| Cached { values: &keys[slot * len..][..len], note: EXPONENTIAL }),
                d_scores: &d_scores,
                query: Cached { values: &query, note: EXPONENTIAL },
                vector: &w3,
                d_query: d_query.as_mut_ptr(),
                d_keys: &[d_new.as_mut_ptr(), d_old.as_mut_ptr()],
                first: &[true, false],
                d_vector: &mut d_w3,
            };
            // SAFETY: extents as the kernel requires.
            unsafe { Additive.backward(isa, len, row, &mut Room::default()) };
            let d = |j: usize, i: usize| f64::from(d_scores[j]) * f64::from(w3[i]) * (1.0 - tanh(chosen[j], i).powi(2));
            close(&d_new, (0..len).map(|i| d(0, i)), 1e-6);
            close(&d_old, (0..len).map(|i| 1.0 + d(1, i)), 1e-6);
            close(&d_query, (0..len).map(|i| d(0, i) + d(1, i)), 1e-6);
            // The adjoints of a row's scores sum to 0; the kernel omits the terms that cancel.
            let d_w = |i: usize| (0..2).map(|j| f64::from(d_scores[j]) * (tanh(chosen[j], i) - 1.0)).sum::<f64>();
            close(&d_w3, (0..len).map(|i| 0.5 + d_w(i)), 1e-6);
        }
    }

    #[test]
    fn r3_huge_projections_are_paired_in_whichever_form_they_are_cached() {
        let len = 96;
        for isa in both_isas() {
            let kernels = Kernels::of(isa);
            for (key_scale, query_scale) in [(1.0, 1.0), (2.0, 1.0), (1.0, 2.0), (3.0, 3.0), (1e6, 1.0), (1e6, 1e6)] {
                let p = numbers(len, 15, EXPONENT_LIMIT * key_scale);
                let mut q = numbers(len, 16, EXPONENT_LIMIT * query_scale);
                // Half of the sums nearly cancel, within the range of the query. Only there tanh is not ±1.
                let (near, most) = (numbers(len, 17, 3.0), EXPONENT_LIMIT * query_scale);
                for i in (0..len).step_by(2) {
                    q[i] = (near[i] - p[i]).clamp(-most, most);
                }
                let (mut key, mut query) = (p.clone(), q.clone());
                let mut pair = vec![f32::NAN; len];
                let key_note = Additive.cache_key(isa, &mut key);
                let query_note = Additive.cache_query(isa, len, &mut query);
                let kept = |scale: f32| if scale <= 1.0 { EXPONENTIAL } else { RAW };
                assert_eq!((key_note, query_note), (kept(key_scale), kept(query_scale)));
                let (key, query) =
                    (Cached { values: &key, note: key_note }, Cached { values: &query, note: query_note });
                // SAFETY: all have the same length, a multiple of 16.
                unsafe { (kernels.pair_exponentials)(key, query, &mut pair) };
                let tanh: Vec<f32> = pair.iter().map(|pair| 1.0 - 2.0 / (1.0 + pair)).collect();
                let right = |i: usize| (f64::from(p[i]) + f64::from(q[i])).tanh();
                close(&tanh, (0..len).map(right), 1e-5);
            }
            let (raw, fine) = (vec![f32::NAN; 16], vec![1.0; 16]);
            for note in [RAW, EXPONENTIAL] {
                let mut pair = vec![0.0; 16];
                let (key, query) = (Cached { values: &raw, note: RAW }, Cached { values: &fine, note });
                // SAFETY: as above.
                unsafe { (kernels.pair_exponentials)(key, query, &mut pair) };
                assert!(pair.iter().all(|x| x.is_nan()), "a NaN stays a NaN");
            }
        }
    }
}
