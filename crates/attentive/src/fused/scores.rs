//! Scores of one row's memories (R3), and where the memories lie: what both directions need.

use super::kernels::attention::Projection;
use super::pairs::Pairs;
use super::problem::Problem;
use super::team::Shared;
use crate::memory::RowClock;

/// Where the state that a slot remembers lies: among the carried memories, or in this call's hidden states.
pub(super) fn memory(
    problem: &Problem, hidden: Shared<'_, f32>, carried: &[f32], row: usize, clock: RowClock, slot: usize,
) -> *const f32 {
    match clock.filled_at(slot) {
        Some(t) => hidden.at(problem.sequence_row(row, t), problem.padded),
        None => {
            let start = (row * problem.carried_room + slot) * problem.padded;
            carried[start..start + problem.padded].as_ptr()
        }
    }
}

/// What scores are computed from; the backward pass uses it to compute long choices again.
pub(super) struct ScoreView<'a> {
    pub(super) problem: &'a Problem,
    pub(super) w3: &'a [f32],
    pub(super) keys: Shared<'a, f32>,
    pub(super) key_exponential: Shared<'a, bool>,
    pub(super) queries: Shared<'a, f32>,
    pub(super) query_exponential: Shared<'a, bool>,
}

impl ScoreView<'_> {
    pub(super) fn scores(&self, row: usize, t: usize, slots: usize, pairs: &mut Pairs, scores: &mut Vec<f32>) {
        let padded = self.problem.padded;
        let tape_row = self.problem.tape_row(t, row);
        let first = self.problem.slot(row, 0);
        scores.resize(slots, 0.0);
        // SAFETY: this row's keys and queries belong to the calling thread, or are written no more.
        unsafe {
            let exponential = self.key_exponential.slice(first, slots);
            let query = self.query(tape_row);
            if query.exponential && exponential.iter().all(|e| *e) {
                let keys = self.keys.at(first * padded, slots * padded);
                let kernel = self.problem.kernels.scores;
                kernel(padded, slots, keys, query.values.as_ptr(), self.w3.as_ptr(), scores.as_mut_ptr());
                return;
            }
            let mut lost = false;
            for (slot, score) in scores.iter_mut().enumerate() {
                let key = self.key(first + slot);
                if key.exponential && query.exponential {
                    let kernel = self.problem.kernels.scores;
                    kernel(padded, 1, key.values.as_ptr(), query.values.as_ptr(), self.w3.as_ptr(), score);
                } else {
                    *score = pairs.score(self.problem.kernels, key, query, self.w3);
                    lost |= score.is_nan();
                }
            }
            if lost {
                // One score that is no number would simply not be chosen; all of them make the state NaN, which is
                // reported.
                scores.fill(f32::NAN);
            }
        }
    }

    /// # Safety
    /// No other thread may be writing this key.
    pub(super) unsafe fn key(&self, index: usize) -> Projection<'_> {
        let padded = self.problem.padded;
        // SAFETY: the caller's promise.
        unsafe {
            Projection { values: self.keys.slice(index * padded, padded), exponential: self.key_exponential.get(index) }
        }
    }

    /// # Safety
    /// No other thread may be writing this query.
    pub(super) unsafe fn query(&self, tape_row: usize) -> Projection<'_> {
        let padded = self.problem.padded;
        // SAFETY: the caller's promise.
        unsafe {
            Projection {
                values: self.queries.slice(tape_row * padded, padded),
                exponential: self.query_exponential.get(tape_row),
            }
        }
    }
}
