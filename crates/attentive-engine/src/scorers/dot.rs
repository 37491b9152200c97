//! The scaled dot product (R16): `a_i = (W1 m_i) . (W2 h_hat) / sqrt(hidden)`.
//!
//! A memory is cached as its projection, and a query as its projection divided by `sqrt(hidden)`.

use super::bounds::DotBounds;
use super::{Cached, Keys, MemoryScorer, Room, ScoreBounds, ScoresBackward};
use crate::kernels::{Isa, Kernels};
use crate::parameters::{Gain, Parameter, Start};

/// R16.
pub(crate) struct Dot;

fn scale(hidden: usize) -> f32 {
    1.0 / (hidden as f32).sqrt()
}

impl MemoryScorer for Dot {
    fn parameters(&self, hidden: usize) -> Vec<Parameter> {
        vec![
            Parameter::scorer("w1", &[hidden, hidden], Start::Uniform(Gain::Attention)),
            Parameter::scorer("w2", &[hidden, hidden], Start::Uniform(Gain::Attention)),
        ]
    }

    fn query_weight(&self) -> usize {
        1
    }

    fn vector(&self) -> Option<usize> {
        None
    }

    fn cache_key(&self, _: Isa, _: &mut [f32]) -> f32 {
        0.0
    }

    fn cache_query(&self, _: Isa, hidden: usize, values: &mut [f32]) -> f32 {
        let scale = scale(hidden);
        values.iter_mut().for_each(|value| *value *= scale);
        0.0
    }

    fn scores(&self, isa: Isa, keys: Keys<'_>, query: Cached<'_>, _: &[f32], _: &mut Room, scores: &mut [f32]) -> bool {
        let (kernels, padded) = (Kernels::of(isa), query.values.len());
        let mut lost = false;
        for (key, score) in keys.iter(padded).zip(scores) {
            // SAFETY: both have `padded` floats; `isa` is the CPU's.
            *score = unsafe { (kernels.dot)(padded, key.values.as_ptr(), query.values.as_ptr()) };
            lost |= score.is_nan();
        }
        lost
    }

    unsafe fn backward(&self, isa: Isa, hidden: usize, row: ScoresBackward<'_>, _: &mut Room) {
        let (kernels, query) = (Kernels::of(isa), row.query.values);
        let padded = query.len();
        // SAFETY: guaranteed by the caller; `isa` is the CPU's.
        unsafe {
            row.d_query.write_bytes(0, padded);
            for (slot, (key, d_score)) in row.keys.iter().zip(row.d_scores).enumerate() {
                (kernels.scaled)(padded, d_score * scale(hidden), key.values.as_ptr(), row.d_query, true);
                (kernels.scaled)(padded, *d_score, query.as_ptr(), row.d_keys[slot], !row.first[slot]);
            }
        }
    }

    fn bounds(&self) -> Option<&'static dyn ScoreBounds> {
        Some(&DotBounds)
    }
}
