//! Scorers (R3, R16): how well a memory fits the query.
//!
//! Every scorer projects the memory and the query by a matrix each (or by one for both). It says what is cached beside a
//! memory: its projection in the form that makes scores cheap, and one number, the *note*.

mod additive;
mod cosine;
mod dot;

use crate::kernels::Isa;
use crate::parameters::{Parameter, SCORER};
use crate::registry::registry;

registry! {
    /// How a memory is scored against the query (R16).
    Scorer ("scorer"): dyn MemoryScorer {
        /// R3: `W3 . tanh(W1 m + W2 h_hat)`.
        Additive = "additive" => additive::Additive,
        /// `(W1 m) . (W2 h_hat) / sqrt(hidden)`.
        Dot = "dot" => dot::Dot,
        /// `temperature * cos(W1 m, W1 h_hat)`; a zero vector scores 0.
        Cosine = "cosine" => cosine::Cosine,
    }
}

impl Scorer {
    /// Where the model's parameters have the matrix that projects memories.
    pub(crate) fn key_weight(self) -> usize {
        SCORER
    }

    /// Where the model's parameters have the matrix that projects queries: the same one if both are tied.
    pub(crate) fn query_weight(self) -> usize {
        SCORER + self.part().query_weight()
    }

    /// Where the model's parameters have the vector that scores are made with, if there is one.
    pub(crate) fn vector(self) -> Option<usize> {
        self.part().vector().map(|place| SCORER + place)
    }
}

/// A projected memory or query in its cached form.
#[derive(Clone, Copy)]
pub(crate) struct Cached<'a> {
    /// `[padded]`
    pub(crate) values: &'a [f32],
    pub(crate) note: f32,
}

/// Consecutive memories of a row in their cached form.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    /// `[slots, padded]`
    pub(crate) values: &'a [f32],
    /// `[slots]`
    pub(crate) notes: &'a [f32],
}

impl<'a> Keys<'a> {
    /// One by one.
    pub(crate) fn iter(self, padded: usize) -> impl Iterator<Item = Cached<'a>> {
        self.values.chunks_exact(padded).zip(self.notes).map(|(values, note)| Cached { values, note: *note })
    }
}

/// What the derivative of one row's scores touches; pointers span `padded` floats.
pub(crate) struct ScoresBackward<'a> {
    /// The memories whose score has an adjoint, and the adjoints.
    pub(crate) keys: &'a [Cached<'a>],
    pub(crate) d_scores: &'a [f32],
    pub(crate) query: Cached<'a>,
    /// The scorer's vector, whole panels.
    pub(crate) vector: &'a [f32],
    /// Adjoint of the projected query, written.
    pub(crate) d_query: *mut f32,
    /// Adjoints of the projected memories, added to, or written where `first`.
    pub(crate) d_keys: &'a [*mut f32],
    pub(crate) first: &'a [bool],
    /// Adjoint of the vector, added to; as long as the vector.
    pub(crate) d_vector: &'a mut [f32],
}

/// A thread's room for what a scorer needs in between.
#[derive(Default)]
pub(crate) struct Room {
    floats: Vec<f32>,
    ones: Vec<f32>,
    pointers: Vec<*const f32>,
}

/// A scorer: what it caches, scores, and their derivative.
pub(crate) trait MemoryScorer: Sync {
    /// The matrix of memories first.
    fn parameters(&self, hidden: usize) -> Vec<Parameter>;

    /// Which of the parameters projects queries; 0 if it is the matrix of memories.
    fn query_weight(&self) -> usize;

    /// Which of the parameters is a vector that scores are made with.
    fn vector(&self) -> Option<usize>;

    /// Turns a projected memory into its cached form, in place, and returns its note.
    fn cache_key(&self, isa: Isa, values: &mut [f32]) -> f32;

    /// The same for a projected query of `hidden` units.
    fn cache_query(&self, isa: Isa, hidden: usize, values: &mut [f32]) -> f32;

    /// The scores of consecutive memories. Returns whether one is not a number although its projections are.
    fn scores(
        &self, isa: Isa, keys: Keys<'_>, query: Cached<'_>, vector: &[f32], room: &mut Room, scores: &mut [f32],
    ) -> bool;

    /// The derivative of [`scores`](MemoryScorer::scores) by the projections and the vector.
    ///
    /// # Safety
    /// Pointers must span what [`ScoresBackward`] says, no two of those written the same; the slices must be of one length.
    unsafe fn backward(&self, isa: Isa, hidden: usize, row: ScoresBackward<'_>, room: &mut Room);
}

#[cfg(test)]
mod tests;
