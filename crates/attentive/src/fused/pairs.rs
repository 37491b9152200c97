//! Pairs of a memory and a query that the cached exponentials do not serve: huge projections (see `EXPONENT_LIMIT`).
//!
//! Where either of a pair is kept as it is, `e^2(p + q)` is computed for the pair itself; the kernels then take it for the
//! key, and ones for the query. Each pair decides for itself, so a score's bits depend neither on other memories nor on how
//! a sequence is cut into calls.

use super::kernels::Kernels;
use super::kernels::attention::Projection;

/// A thread's room for such pairs.
#[derive(Default)]
pub(super) struct Pairs {
    /// `e^2(p + q)`, `[pair, padded]`
    exponentials: Vec<f32>,
    ones: Vec<f32>,
}

impl Pairs {
    /// The score less `sum(W3)`, as the kernel computes it for a pair of exponentials (R3).
    pub(super) fn score(&mut self, kernels: &Kernels, key: Projection<'_>, query: Projection<'_>, w3: &[f32]) -> f32 {
        self.make_room(1, w3.len());
        let mut score = 0.0;
        // SAFETY: all of them are w3.len() floats, a multiple of 16; the kernels are those of this CPU.
        unsafe {
            (kernels.pair_exponentials)(key, query, &mut self.exponentials);
            let (pair, ones) = (self.exponentials.as_ptr(), self.ones.as_ptr());
            (kernels.scores)(w3.len(), 1, pair, ones, w3.as_ptr(), &raw mut score);
        }
        score
    }

    /// What stands for the keys of some pairs with one query, put into `joined`, and what for the query. Both are valid until
    /// the next call.
    pub(super) fn join<'a>(
        &mut self, kernels: &Kernels, keys: impl ExactSizeIterator<Item = Projection<'a>>, query: Projection<'a>,
        joined: &mut Vec<*const f32>,
    ) -> *const f32 {
        let padded = query.values.len();
        self.make_room(keys.len(), padded);
        joined.clear();
        for (key, pair) in keys.zip(self.exponentials.chunks_exact_mut(padded)) {
            // SAFETY: all of them are `padded` floats, a multiple of 16; the kernels are those of this CPU.
            unsafe { (kernels.pair_exponentials)(key, query, pair) };
            joined.push(pair.as_ptr());
        }
        self.ones.as_ptr()
    }

    fn make_room(&mut self, pairs: usize, padded: usize) {
        self.exponentials.resize(pairs * padded, 0.0);
        self.ones.resize(padded, 1.0);
    }
}
