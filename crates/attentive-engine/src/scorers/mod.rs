//! Scorers (R3, R16). A scorer computes how well a memory matches the query.
//!
//! Every scorer projects the memory and the query with a matrix each, or with one matrix for both. Beside each memory
//! it caches the projection, in the form that makes scores cheap, and one number, the *note*.

mod additive;
mod bounds;
mod cosine;
mod dot;

pub(crate) use bounds::ScoreBounds;

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
    /// The position of the matrix that projects memories among the model's parameters.
    pub(crate) fn key_weight(self) -> usize {
        SCORER
    }

    /// The position of the matrix that projects queries among the model's parameters; the same one if both are tied.
    pub(crate) fn query_weight(self) -> usize {
        SCORER + self.part().query_weight()
    }

    /// The position of the scorer's vector among the model's parameters, if it has one.
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
    /// The memories one by one.
    pub(crate) fn iter(self, padded: usize) -> impl Iterator<Item = Cached<'a>> {
        self.values.chunks_exact(padded).zip(self.notes).map(|(values, note)| Cached { values, note: *note })
    }
}

/// The arguments of [`MemoryScorer::backward`] for one row. Pointers span `padded` floats.
pub(crate) struct ScoresBackward<'a> {
    /// The memories whose scores have an adjoint, and these adjoints.
    pub(crate) keys: &'a [Cached<'a>],
    pub(crate) d_scores: &'a [f32],
    pub(crate) query: Cached<'a>,
    /// The scorer's vector, in whole panels.
    pub(crate) vector: &'a [f32],
    /// Receives the adjoint of the projected query.
    pub(crate) d_query: *mut f32,
    /// Adjoints of the projected memories. The kernel writes them where `first` is set, and adds to them elsewhere.
    pub(crate) d_keys: &'a [*mut f32],
    pub(crate) first: &'a [bool],
    /// Adjoint of the vector, as long as the vector. The kernel adds to it.
    pub(crate) d_vector: &'a mut [f32],
}

/// A thread's scratch space for a scorer.
#[derive(Default)]
pub(crate) struct Room {
    floats: Vec<f32>,
    ones: Vec<f32>,
    pointers: Vec<*const f32>,
}

/// A scorer: cached forms, scores, and their derivative.
pub(crate) trait MemoryScorer: Sync {
    /// The declared parameters; the first is the matrix that projects memories.
    fn parameters(&self, hidden: usize) -> Vec<Parameter>;

    /// Which of the parameters projects queries; 0 if memories and queries share a matrix.
    fn query_weight(&self) -> usize;

    /// Which of the parameters is the vector that turns projections into scores, if any.
    fn vector(&self) -> Option<usize>;

    /// Turns a projected memory into its cached form, in place, and returns its note.
    fn cache_key(&self, isa: Isa, values: &mut [f32]) -> f32;

    /// The same for a projected query of `hidden` units.
    fn cache_query(&self, isa: Isa, hidden: usize, values: &mut [f32]) -> f32;

    /// The scores of consecutive memories. Returns whether a score is NaN although its projections are finite.
    fn scores(
        &self, isa: Isa, keys: Keys<'_>, query: Cached<'_>, vector: &[f32], room: &mut Room, scores: &mut [f32],
    ) -> bool;

    /// The derivative of [`scores`](MemoryScorer::scores) with respect to the projections and the vector.
    ///
    /// # Safety
    /// Pointers must span the lengths given at [`ScoresBackward`], no two written ones may be equal, and the slices
    /// must have the same length.
    unsafe fn backward(&self, isa: Isa, hidden: usize, row: ScoresBackward<'_>, room: &mut Room);

    /// Bounds of the scores of many memories at once, for an index (R19). Without them every memory is scored.
    fn bounds(&self) -> Option<&'static dyn ScoreBounds> {
        None
    }
}

#[cfg(test)]
mod tests;
