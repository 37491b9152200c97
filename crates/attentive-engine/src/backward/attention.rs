//! The derivative of a step's attention (R3-R7, R10-R12).

use super::buffers::Total;
use super::lanes::Lane;
use super::sweep::Sweep;
use crate::scorers::{Cached, Room, ScoresBackward};
use crate::sparsifiers::{Choice, Weighting};

/// A thread's room for one row's choice.
#[derive(Default)]
pub(super) struct Scratch<'a> {
    scores: Vec<f32>,
    room: Room,
    choice: Choice,
    /// Adjoints of the chosen weights, then of the scores.
    adjoints: Vec<f32>,
    d_summary: Vec<f32>,
    /// The memories whose score has an adjoint: the adjoint, the key, its adjoint, and whether that is the first.
    d_scores: Vec<f32>,
    keys: Vec<Cached<'a>>,
    d_keys: Vec<*mut f32>,
    first: Vec<bool>,
    /// What the next lane will touch.
    ahead: Vec<*const f32>,
}

impl<'a> Sweep<'a> {
    /// rows: the derivative of R3-R7 for one lane. Leaves the adjoint of the projected query in the chunk.
    pub(super) fn remind(&self, lane: Lane, index: usize, place: usize, t: usize, scratch: &mut Scratch<'a>) {
        let (problem, padded, row) = (self.problem, self.problem.padded, lane.row);
        let d_query = self.chunk.d_query_at(place);
        // SAFETY: see `Sweep`; rows. Slots of this row are this thread's.
        unsafe {
            self.chunk.query_touched.set(place, false);
            // R12: gradient that has skipped does not leave through this step's attention.
            let leaves = !lane.skipped && {
                self.recall(row, t, scratch);
                // R5: nothing was chosen, nothing learns.
                scratch.choice.weighting != Weighting::Nothing
            };
            if !leaves {
                d_query.write_bytes(0, padded);
                return;
            }
            // R7: the adjoint of s is that of h, and what the loss has of its own.
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
                query: self.projections.query(row, t),
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

    /// rows: `weight_i * ds` into each chosen memory (R10, R11), and the adjoints of the weights, `m_i . ds`.
    ///
    /// # Safety
    /// As for `Sweep`; the row must be this thread's.
    unsafe fn enter_memories(&self, row: usize, scratch: &mut Scratch<'a>) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let (memory, d_summary) = (&self.tape.memories[row], scratch.d_summary.as_ptr());
        let chosen = scratch.choice.chosen();
        scratch.adjoints.clear();
        for (&slot, &weight) in scratch.choice.slots.iter().zip(&scratch.choice.weights).take(chosen) {
            let state = self.states.memory(problem, row, memory, slot as usize);
            // SAFETY: the caller's promise; each spans `padded` floats, and hidden states are only read.
            unsafe {
                scratch.adjoints.push((problem.kernels.dot)(padded, d_summary, state));
                // The state behind a carried slot belongs to an earlier call.
                if weight > 0.0 && problem.model.mental_updates && memory.is_new(slot as usize) {
                    let place = problem.slot(row, slot as usize);
                    let add = self.memories.touch_memory(place);
                    (problem.kernels.scaled)(padded, weight, d_summary, self.memories.memory_at(place), add);
                }
            }
        }
    }

    /// rows: the memories whose score has an adjoint.
    ///
    /// # Safety
    /// As for `Sweep`; the row must be this thread's.
    unsafe fn collect_scores(&self, row: usize, scratch: &mut Scratch<'a>) {
        let Scratch { choice, adjoints, d_scores, keys, d_keys, first, .. } = scratch;
        d_scores.clear();
        keys.clear();
        d_keys.clear();
        first.clear();
        for (&slot, &d_score) in choice.slots.iter().zip(adjoints.iter()) {
            // R13: a score without an adjoint makes no work, neither here nor at its memory's step.
            if d_score != 0.0 {
                let place = self.problem.slot(row, slot as usize);
                d_scores.push(d_score);
                d_keys.push(self.memories.key_at(place));
                // SAFETY: the caller's promise.
                unsafe {
                    keys.push(self.projections.key(row, slot as usize));
                    first.push(!self.memories.touch_key(place));
                }
            }
        }
    }

    /// Asks for what [`remind`](Sweep::remind) will read and write of a lane's memories, while another lane is computed: each
    /// row's memories are spread over more than a cache near the core holds.
    pub(super) fn look_ahead(&self, lane: Lane, t: usize, scratch: &mut Scratch<'a>) {
        let (problem, row) = (self.problem, lane.row);
        let kept = self.tape.choices.slots(problem.tape_row(t, row)).filter(|_| !lane.skipped);
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

    /// What step `t` of a row was reminded of: from the tape, or scored again where choices are long. Then nothing has been
    /// forgotten in this call, so all slots of that time count.
    fn recall(&self, row: usize, t: usize, scratch: &mut Scratch<'a>) {
        let problem = self.problem;
        if self.tape.choices.read(problem.tape_row(t, row), &mut scratch.choice) {
            return;
        }
        let slots = self.tape.memories[row].slots_at(t);
        self.projections.scores(row, t, std::iter::once(0..slots), &mut scratch.room, &mut scratch.scores);
        problem.model.sparsifier.part().choose(&scratch.scores, problem.model.most_chosen(), &mut scratch.choice);
    }
}
