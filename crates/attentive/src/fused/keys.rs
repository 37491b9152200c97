//! Scores where the cached exponentials do not serve: huge projections (see `EXPONENT_LIMIT`).
//!
//! A projection `W1 m` or `W2 h_hat` is kept as `e^2p` if all its elements allow it, otherwise as it is. A pair
//! of which either is kept as it is takes this path: plain, slow and exact. Each pair decides for itself, so a
//! row's bits depend neither on its neighbours nor on how a sequence is cut into calls.

/// A projection in one of its two forms.
#[derive(Clone, Copy)]
pub(super) struct Projection<'a> {
    pub(super) values: &'a [f32],
    pub(super) exponential: bool,
}

impl Projection<'_> {
    fn get(&self, i: usize) -> f32 {
        if self.exponential { 0.5 * self.values[i].ln() } else { self.values[i] }
    }
}

/// `1 - tanh(p + q)`, accurate where tanh is near 1.
fn complement(p: f32, q: f32) -> f32 {
    let exponent = 2.0 * (p + q);
    // Not `min`, which would turn a NaN into a number.
    2.0 / (1.0 + if exponent > 88.0 { 88.0_f32 } else { exponent }.exp())
}

/// The score less `sum(W3)`, as the fast kernel computes it.
pub(super) fn score(key: Projection<'_>, query: Projection<'_>, w3: &[f32]) -> f32 {
    -w3.iter().enumerate().map(|(i, w)| w * complement(key.get(i), query.get(i))).sum::<f32>()
}

/// The derivative of a score, added to `d_query`, `d_key` and `d_w3`.
pub(super) fn score_backward(
    key: Projection<'_>, query: Projection<'_>, w3: &[f32], d_score: f32, d_query: &mut [f32], d_key: &mut [f32],
    d_w3: &mut [f32],
) {
    for i in 0..w3.len() {
        let u = complement(key.get(i), query.get(i));
        // As in the fast kernel: a row's adjoints add up to 0.
        d_w3[i] -= d_score * u;
        let d = d_score * w3[i] * u * (2.0 - u);
        d_query[i] += d;
        d_key[i] += d;
    }
}
