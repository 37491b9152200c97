//! The derivative of a step's attention (R3-R7, R10-R12).

use super::super::kernels::attention::ScoresBackward;
use super::super::pairs::Pairs;
use super::super::scores::{ScoreView, memory};
use super::super::team::Shared;
use super::{Lane, Sweep, Total};
use crate::retrieval::{Choice, SOFTMAX};

/// A thread's room for one row's choice.
#[derive(Default)]
pub(super) struct Scratch {
    scores: Vec<f32>,
    pairs: Pairs,
    choice: Choice,
    d_scores: Vec<f32>,
    d_summary: Vec<f32>,
    /// Slots whose score has an adjoint, and the adjoint.
    moved: Vec<(usize, f32)>,
    memories: Vec<*const f32>,
    keys: Vec<*const f32>,
    d_keys: Vec<*mut f32>,
    first: Vec<bool>,
}

impl Sweep<'_> {
    /// rows: the derivative of R3-R7 for one lane. Leaves the adjoint of the query in the chunk.
    pub(super) fn remind(&self, lane: Lane, index: usize, place: usize, t: usize, scratch: &mut Scratch) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let (row, tape_row) = (lane.row, self.problem.tape_row(t, lane.row));
        let clock = problem.clocks[row];
        // SAFETY: see `Sweep`; rows. Slots of this row are this thread's.
        unsafe {
            let d_query = self.d_query.slice_mut(place * padded, padded);
            self.query_touched.set(place, false);
            if lane.skipped {
                // R12: gradient that has skipped does not leave through this step's attention.
                d_query.fill(0.0);
                return;
            }
            scratch.d_summary.resize(padded, 0.0);
            let d_summary = scratch.d_summary.as_mut_ptr();
            let mut total = Total::new(self.kernels, padded, d_summary);
            total.add(self.d_h.at(index * padded, padded));
            self.add_output(self.outputs.summary, self.loss[1], row, t, &mut total);
            total.finish();
            self.recall(row, t, scratch);
            if scratch.choice.normaliser == 0.0 {
                // R5: nothing was chosen, nothing learns.
                d_query.fill(0.0);
                return;
            }
            self.d_scores(row, scratch);
            let Scratch { pairs, choice, d_scores, moved, keys, d_keys, first, .. } = scratch;
            let d_w3 = self.d_w3.slice_mut(row * padded, padded);
            let view = self.view();
            let query = view.query(tape_row);
            let mut fast = query.exponential;
            moved.clear();
            keys.clear();
            d_keys.clear();
            first.clear();
            for ((&slot, &weight), &d_score) in choice.slots.iter().zip(&choice.weights).zip(d_scores.iter()) {
                let memory_place = problem.slot(row, slot as usize);
                // R13: a score without an adjoint makes no work, neither here nor at its memory's step.
                if d_score != 0.0 {
                    fast &= self.tape.key_exponential[memory_place];
                    moved.push((memory_place, d_score));
                    keys.push(view.key(memory_place).values.as_ptr());
                    d_keys.push(self.d_key.at(memory_place * padded, padded));
                    first.push(!self.key_touched.get(memory_place));
                    self.key_touched.set(memory_place, true);
                }
                // R10, R11: the state behind a carried slot belongs to an earlier call.
                if weight > 0.0 && problem.rules.mental_updates && clock.filled_at(slot as usize).is_some() {
                    let add = self.memory_touched.get(memory_place);
                    self.memory_touched.set(memory_place, true);
                    let d_memory = self.d_memory.at(memory_place * padded, padded);
                    (self.kernels.scaled)(padded, weight, d_summary, d_memory, add);
                }
            }
            let query = if fast {
                query.values.as_ptr()
            } else {
                let projections = moved.iter().map(|(place, _)| view.key(*place));
                pairs.join(self.kernels, projections, query, keys)
            };
            d_scores.clear();
            d_scores.extend(moved.iter().map(|(_, d_score)| *d_score));
            let (w3, d_query, d_w3) = (view.w3.as_ptr(), d_query.as_mut_ptr(), d_w3.as_mut_ptr());
            let row = ScoresBackward { keys, d_scores, query, w3, d_query, d_keys, first, d_w3 };
            (self.kernels.scores_backward)(padded, row);
            self.query_touched.set(place, true);
        }
    }

    /// Asks for what [`remind`](Sweep::remind) will read and write of a lane's memories, while another lane is computed: each
    /// row's memories are spread over more than a cache near the core holds.
    pub(super) fn look_ahead(&self, lane: Lane, t: usize, scratch: &mut Scratch) {
        let (problem, padded, row) = (self.problem, self.problem.padded, lane.row);
        let stored = problem.stored_choices();
        if stored == 0 || lane.skipped {
            return;
        }
        let tape_row = problem.tape_row(t, row);
        let len = self.tape.choice_lens[tape_row] as usize;
        let states = Shared::read_only(self.states.hidden);
        let ahead = &mut scratch.memories;
        ahead.clear();
        for &slot in &self.tape.choice_slots[tape_row * stored..][..len] {
            let place = problem.slot(row, slot as usize) * padded;
            ahead.push(memory(problem, states, self.states.carried, row, problem.clocks[row], slot as usize));
            ahead.push(self.tape.keys.as_slice()[place..].as_ptr());
            ahead.push(self.d_key.at(place, padded));
            ahead.push(self.d_memory.at(place, padded));
        }
        // SAFETY: the kernels are those of this CPU.
        unsafe { (self.kernels.prefetch_rows)(padded, ahead) };
    }

    /// rows: adjoints of the scores of a choice (R4, R6) from that of the summary; the threshold's comes last.
    fn d_scores(&self, row: usize, scratch: &mut Scratch) {
        let (problem, clock) = (self.problem, self.problem.clocks[row]);
        let Scratch { choice, d_scores, d_summary, memories, .. } = scratch;
        let chosen = choice.chosen();
        memories.clear();
        let states = Shared::read_only(self.states.hidden);
        memories.extend(
            choice.slots[..chosen]
                .iter()
                .map(|slot| memory(problem, states, self.states.carried, row, clock, *slot as usize)),
        );
        d_scores.clear();
        // SAFETY: each memory and the summary's adjoint span `padded` floats; hidden states are only read.
        d_scores.extend(
            memories.iter().map(|memory| unsafe { (self.kernels.dot)(problem.padded, d_summary.as_ptr(), *memory) }),
        );
        let mean: f32 = d_scores.iter().zip(&choice.weights).map(|(d, w)| d * w).sum();
        if choice.normaliser == SOFTMAX {
            d_scores.iter_mut().zip(&choice.weights).for_each(|(d, w)| *d = w * (*d - mean));
        } else {
            let mut total = 0.0;
            for (d, weight) in d_scores.iter_mut().zip(&choice.weights) {
                // The derivative of relu at 0 is 0.
                *d = if *weight > 0.0 { (*d - mean) / choice.normaliser } else { 0.0 };
                total += *d;
            }
            d_scores.push(-total);
        }
    }

    fn view(&self) -> ScoreView<'_> {
        let tape = self.tape;
        ScoreView {
            problem: self.problem,
            w3: &tape.weights.w3,
            keys: Shared::read_only(tape.keys.as_slice()),
            key_exponential: Shared::read_only(&tape.key_exponential),
            queries: Shared::read_only(tape.queries.as_slice()),
            query_exponential: Shared::read_only(&tape.query_exponential),
        }
    }

    /// What step `t` of a row was reminded of: from the tape, or scored again where choices are long.
    fn recall(&self, row: usize, t: usize, scratch: &mut Scratch) {
        let problem = self.problem;
        let tape_row = problem.tape_row(t, row);
        let stored = problem.stored_choices();
        let choice = &mut scratch.choice;
        if stored == 0 {
            self.view().scores(row, t, problem.clocks[row].slots_at(t), &mut scratch.pairs, &mut scratch.scores);
            choice.choose(&scratch.scores, problem.k_top());
            return;
        }
        let len = self.tape.choice_lens[tape_row] as usize;
        choice.slots.clear();
        choice.slots.extend_from_slice(&self.tape.choice_slots[tape_row * stored..][..len]);
        choice.weights.clear();
        choice.weights.extend_from_slice(&self.tape.choice_weights.as_slice()[tape_row * stored..][..len]);
        choice.normaliser = self.tape.choice_normalisers.as_slice()[tape_row];
    }
}
