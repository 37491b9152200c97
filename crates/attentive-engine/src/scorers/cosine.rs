//! Cosine similarity (R16): `a_i = temperature * cos(W1 m_i, W1 h_hat)`. A zero vector scores 0.
//!
//! Memories and queries are cached as unit vectors, and the note is the norm. W1 projects both. The temperature is
//! learned.

use super::bounds::CosineBounds;
use super::{Cached, Keys, MemoryScorer, Room, ScoreBounds, ScoresBackward};
use crate::kernels::vector::square_sum;
use crate::kernels::{Isa, Kernels};
use crate::parameters::{Gain, Parameter, Start};

/// R16.
pub(crate) struct Cosine;

/// The initial temperature. Cosines lie close together, and their softmax should not be flat (R6).
const FIRST_TEMPERATURE: f64 = 10.0;

/// Divides a vector by its norm and returns the norm. The zero vector stays unchanged.
fn normalise(values: &mut [f32]) -> f32 {
    // In double precision no square overflows or underflows.
    let norm = square_sum(values).sqrt();
    if norm > 0.0 {
        values.iter_mut().for_each(|value| *value = (f64::from(*value) / norm) as f32);
    }
    norm as f32
}

/// `1 / norm`, or 0 for the zero vector, which has no direction and gets no gradient. The same holds for a vector so
/// short that the inverse overflows.
fn inverse(norm: f32) -> f32 {
    let inverse = 1.0 / norm;
    if inverse.is_finite() { inverse } else { 0.0 }
}

impl MemoryScorer for Cosine {
    fn parameters(&self, hidden: usize) -> Vec<Parameter> {
        vec![
            Parameter::scorer("w1", &[hidden, hidden], Start::Uniform(Gain::Attention)),
            Parameter::scorer("temperature", &[1], Start::Constant(FIRST_TEMPERATURE)),
        ]
    }

    fn query_weight(&self) -> usize {
        0
    }

    fn vector(&self) -> Option<usize> {
        Some(1)
    }

    fn cache_key(&self, _: Isa, values: &mut [f32]) -> f32 {
        normalise(values)
    }

    fn cache_query(&self, _: Isa, _: usize, values: &mut [f32]) -> f32 {
        normalise(values)
    }

    fn scores(
        &self, isa: Isa, keys: Keys<'_>, query: Cached<'_>, temperature: &[f32], _: &mut Room, scores: &mut [f32],
    ) -> bool {
        let (kernels, padded) = (Kernels::of(isa), query.values.len());
        let mut lost = false;
        for (key, score) in keys.iter(padded).zip(scores) {
            // SAFETY: both have `padded` floats; `isa` is the CPU's.
            let cosine = unsafe { (kernels.dot)(padded, key.values.as_ptr(), query.values.as_ptr()) };
            *score = temperature[0] * cosine;
            lost |= score.is_nan();
        }
        lost
    }

    unsafe fn backward(&self, isa: Isa, _: usize, row: ScoresBackward<'_>, _: &mut Room) {
        let (kernels, query) = (Kernels::of(isa), row.query);
        let padded = query.values.len();
        // SAFETY: guaranteed by the caller; `isa` is the CPU's.
        unsafe {
            row.d_query.write_bytes(0, padded);
            for (slot, (key, d_score)) in row.keys.iter().zip(row.d_scores).enumerate() {
                let cosine = (kernels.dot)(padded, key.values.as_ptr(), query.values.as_ptr());
                row.d_vector[0] += d_score * cosine;
                let d_cosine = row.vector[0] * d_score;
                // The derivative of a direction: the component along it has no effect.
                let (by_key, by_query) = (d_cosine * inverse(key.note), d_cosine * inverse(query.note));
                let d_key = row.d_keys[slot];
                (kernels.scaled)(padded, by_key, query.values.as_ptr(), d_key, !row.first[slot]);
                (kernels.scaled)(padded, -by_key * cosine, key.values.as_ptr(), d_key, true);
                (kernels.scaled)(padded, by_query, key.values.as_ptr(), row.d_query, true);
                (kernels.scaled)(padded, -by_query * cosine, query.values.as_ptr(), row.d_query, true);
            }
        }
    }

    fn bounds(&self) -> Option<&'static dyn ScoreBounds> {
        Some(&CosineBounds)
    }
}
