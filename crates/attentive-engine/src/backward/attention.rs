//! The derivative of a step's attention (R3-R7, R10-R12).

use super::buffers::Total;
use super::lanes::Lane;
use super::sweep::Sweep;
use crate::scorers::{Cached, Room, ScoresBackward};
use crate::sparsifiers::{Choice, Weighting};

/// A thread's scratch space for the attention of one row.
#[derive(Default)]
pub(super) struct Scratch<'a> {
    scores: Vec<f32>,
    room: Room,
    choice: Choice,
    /// Adjoints of the chosen weights, then of the scores.
    adjoints: Vec<f32>,
    d_summary: Vec<f32>,
    /// For each memory whose score has an adjoint: this adjoint, the key, the key's adjoint, and whether nothing has
    /// been added to the key's adjoint before.
    d_scores: Vec<f32>,
    keys: Vec<Cached<'a>>,
    d_keys: Vec<*mut f32>,
    first: Vec<bool>,
    /// The memory that the next lane will touch.
    ahead: Vec<*const f32>,
}

impl<'a> Sweep<'a> {
    /// rows: computes the derivative of R3-R7 for one lane. Leaves the adjoint of the projected query in the chunk.
    pub(super) fn remind(&self, lane: Lane, index: usize, place: usize, t: usize, scratch: &mut Scratch<'a>) {
        let (problem, padded, row) = (self.problem, self.problem.padded, lane.row);
        let d_query = self.chunk.d_query_at(place);
        // SAFETY: see `Sweep`; rows. The slots of this row belong to this thread.
        unsafe {
            self.chunk.query_touched.set(place, false);
            // R12: gradient that has skipped does not leave through this step's attention.
            let leaves = !lane.skipped && {
                self.recall(row, t, scratch);
                // R5: nothing was chosen, so no gradient flows.
                scratch.choice.weighting != Weighting::Nothing
            };
            if !leaves {
                d_query.write_bytes(0, padded);
                return;
            }
            // R7: the adjoint of s is the adjoint of h plus the loss's own derivative with respect to s.
            scratch.d_summary.resize(padded, 0.0);
            let mut d_summary = Total::new(problem.kernels, padded, scratch.d_summary.as_mut_ptr());
            d_summary.add(self.lanes.at(self.lanes.d_h, index));
            self.add_output(self.outputs.summary, self.loss.summary, row, t, &mut d_summary);
            d_summary.finish();

            self.enter_memories(row, scratch);
            scratch.choice.backward(&mut scratch.adjoints);
            self.collect_scores(row, scratch);
            let vector_room = self.sums.vector_room;
            let backward = ScoresBackward {
                keys: &scratch.keys,
                d_scores: &scratch.d_scores,
                query: self.projections.queries.get(row, t),
                vector: self.projections.vector,
                d_query,
                d_keys: &scratch.d_keys,
                first: &scratch.first,
                d_vector: self.sums.vector.slice_mut(row * vector_room, vector_room),
            };
            problem.model.scorer.part().backward(problem.isa, problem.hidden, backward, &mut scratch.room);
            self.chunk.query_touched.set(place, true);
        }
    }

    /// rows: adds `weight_i * ds` to each chosen memory (R10, R11), and computes the adjoints of the weights, `m_i .
    /// ds`.
    ///
    /// # Safety
    /// As for `Sweep`; the row must belong to this thread.
    unsafe fn enter_memories(&self, row: usize, scratch: &mut Scratch<'a>) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let (memory, d_summary) = (&self.tape.memories[row], scratch.d_summary.as_ptr());
        let chosen = scratch.choice.chosen();
        scratch.adjoints.clear();
        for (&slot, &weight) in scratch.choice.slots.iter().zip(&scratch.choice.weights).take(chosen) {
            let state = self.states.memory(problem, row, memory, slot as usize);
            // SAFETY: guaranteed by the caller; each spans `padded` floats, and hidden states are only read.
            unsafe {
                scratch.adjoints.push((problem.kernels.dot)(padded, d_summary, state));
                if weight > 0.0 && problem.model.mental_updates && self.takes_gradient(row, slot as usize) {
                    let place = problem.slot(row, slot as usize);
                    let add = self.memories.touch_memory(place);
                    (problem.kernels.scaled)(padded, weight, d_summary, self.memories.memory_at(place), add);
                }
            }
        }
    }

    /// Whether gradient enters the state of a slot. That of a carried one belongs to an earlier call: it is data, unless
    /// the steps that led to it are known (R21).
    fn takes_gradient(&self, row: usize, slot: usize) -> bool {
        let led = || self.tape.segments.as_ref().is_some_and(|segments| segments.rows[row].slots[slot].is_some());
        self.tape.memories[row].is_new(slot) || led()
    }

    /// rows: collects the memories whose score has an adjoint.
    ///
    /// # Safety
    /// As for `Sweep`; the row must belong to this thread.
    unsafe fn collect_scores(&self, row: usize, scratch: &mut Scratch<'a>) {
        let Scratch { choice, adjoints, d_scores, keys, d_keys, first, .. } = scratch;
        d_scores.clear();
        keys.clear();
        d_keys.clear();
        first.clear();
        for (&slot, &d_score) in choice.slots.iter().zip(adjoints.iter()) {
            // R13: a score without an adjoint costs nothing, neither here nor at its memory's step.
            if d_score != 0.0 {
                let place = self.problem.slot(row, slot as usize);
                d_scores.push(d_score);
                d_keys.push(self.memories.key_at(place));
                // SAFETY: guaranteed by the caller.
                unsafe {
                    keys.push(self.projections.key(row, slot as usize));
                    first.push(!self.memories.touch_key(place));
                }
            }
        }
    }

    /// Prefetches the memories that [`remind`](Sweep::remind) will read and write for a lane, while another lane is
    /// computed. The memories of a row are larger than a cache near the core.
    pub(super) fn look_ahead(&self, lane: Lane, t: usize, scratch: &mut Scratch<'a>) {
        let (problem, row) = (self.problem, lane.row);
        let kept = self.tape.choices.slots(problem.choice_row(t, row)).filter(|_| !lane.skipped);
        let Some(slots) = kept else { return };
        scratch.ahead.clear();
        for slot in slots.iter().map(|slot| *slot as usize) {
            let place = problem.slot(row, slot);
            scratch.ahead.push(self.states.memory(problem, row, &self.tape.memories[row], slot));
            scratch.ahead.push(self.projections.keys_at(row, slot..slot + 1));
            scratch.ahead.push(self.memories.key_at(place));
            scratch.ahead.push(self.memories.memory_at(place));
        }
        // SAFETY: the kernels are those of this CPU.
        unsafe { (problem.kernels.prefetch_rows)(problem.padded, &scratch.ahead) };
    }

    /// Restores the choice of step `t` of a row: from the tape, or by computing it again if choices are too long to
    /// store. In the latter case no memory is ever evicted, so all slots of that time take part.
    fn recall(&self, row: usize, t: usize, scratch: &mut Scratch<'a>) {
        let problem = self.problem;
        if self.tape.choices.read(problem.choice_row(t, row), &mut scratch.choice) {
            return;
        }
        let slots = self.tape.memories[row].slots_at(t);
        self.projections.scores(row, t, std::iter::once(0..slots), &mut scratch.room, &mut scratch.scores);
        problem.model.sparsifier.part().choose(&scratch.scores, problem.model.most_chosen(), &mut scratch.choice);
    }
}
