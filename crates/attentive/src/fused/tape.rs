//! What the forward pass leaves for the backward pass: O(time * hidden) for each row.

use super::pool::Buffer;
use super::problem::Problem;
use super::weights::ForwardWeights;
use std::sync::Arc;

/// The record of one forward pass. Buffers are time-major, `[time, batch, ...]`, unless said.
#[derive(Debug)]
pub(crate) struct Tape {
    pub(super) problem: Problem,
    pub(super) weights: Arc<ForwardWeights>,
    /// Activations of the gates, `[time, batch, 4 * padded]`.
    pub(super) gates: Buffer,
    /// Cells, the initial ones first, `[time + 1, batch, padded]`.
    pub(super) cells: Buffer,
    /// `W2 h_hat`, as exponentials where `query_exponential`, `[time, batch, padded]`.
    pub(super) queries: Buffer,
    pub(super) query_exponential: Vec<bool>,
    /// `W1 m` of each memory, as exponentials where `key_exponential`, `[batch, slot_room, padded]`.
    pub(super) keys: Buffer,
    pub(super) key_exponential: Vec<bool>,
    /// `h(t)` `[batch, time, padded]` where it cannot share the output's memory, because hidden is no multiple of 16.
    pub(super) hidden: Buffer,
    /// Initial hidden state, `[batch, padded]`.
    pub(super) initial_hidden: Buffer,
    /// Carried memory, `[batch, carried_room, padded]`.
    pub(super) carried: Buffer,
    /// Choices of each step, `[time, batch, stored_choices]`.
    pub(super) choice_slots: Vec<u32>,
    pub(super) choice_weights: Buffer,
    /// How many entries of a choice are filled, and its normaliser, `[time, batch]`.
    pub(super) choice_lens: Vec<u32>,
    pub(super) choice_normalisers: Buffer,
}

impl Tape {
    /// The sizes of the call.
    pub(crate) fn problem(&self) -> &Problem {
        &self.problem
    }

    pub(super) fn new(problem: Problem, weights: Arc<ForwardWeights>) -> Self {
        let (batch, padded) = (problem.batch, problem.padded);
        let steps = problem.tape_steps();
        let slots = problem.if_attends(batch * problem.slot_room);
        let choices = problem.if_attends(steps * batch);
        Self {
            gates: Buffer::take(steps * batch * 4 * padded),
            cells: Buffer::take((steps + 1) * batch * padded),
            queries: Buffer::take(problem.if_attends(steps * batch * padded)),
            query_exponential: vec![false; choices],
            keys: Buffer::take(slots * padded),
            key_exponential: vec![false; slots],
            hidden: Buffer::take(if problem.hidden == padded { 0 } else { batch * problem.time * padded }),
            initial_hidden: Buffer::take(batch * padded),
            carried: Buffer::take(problem.if_attends(batch * problem.carried_room * padded)),
            choice_slots: vec![0; choices * problem.stored_choices()],
            choice_weights: Buffer::take(choices * problem.stored_choices()),
            choice_lens: vec![0; choices],
            choice_normalisers: Buffer::take(choices),
            problem,
            weights,
        }
    }
}
