//! Sparsifiers (R4-R6, R17). A sparsifier turns scores into weights.

mod choice;
mod prominence;
mod softmax;

pub(crate) use choice::{Choice, Weighting};

use crate::registry::registry;

registry! {
    /// How scores become weights (R17).
    Sparsifier ("sparsifier"): dyn WeightSparsifier {
        /// R4-R6: prominence over the (k_top+1)-th score.
        Prominence = "prominence" => prominence::Prominence,
        /// Softmax over the `k_top` best scores.
        Softmax = "softmax" => softmax::Softmax,
    }
}

/// Chooses among scores. The derivative is part of [`Choice`].
pub(crate) trait WeightSparsifier: Sync {
    /// Chooses at most `k_top` of `scores`; `None` means no limit. There is one score per slot, oldest first. Of two
    /// equal scores, the older wins.
    fn choose(&self, scores: &[f32], k_top: Option<usize>, choice: &mut Choice);
}
