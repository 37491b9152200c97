//! [`Tape`]: the record that the forward pass leaves for the backward pass, O(time * hidden) per row.

use crate::memory::RowMemory;
use crate::pool::Buffer;
use crate::problem::Problem;
use crate::projections::Projections;
use crate::segments::Segments;
use crate::sparsifiers::{Choice, Weighting};
use crate::state::{Keys, Slots};
use crate::team::Shared;
use crate::weights::PackedWeights;
use std::sync::Arc;

/// The record of one forward pass. Buffers are time-major, `[time, batch, ...]`, unless stated otherwise.
#[derive(Debug)]
pub struct Tape {
    pub(crate) problem: Problem,
    pub(crate) weights: Arc<PackedWeights>,
    /// The gate blocks as the cell left them, `[time, batch, blocks * padded]`.
    pub(crate) gates: Buffer,
    /// Cell states, the initial ones first, `[time + 1, batch, padded]`; empty for a cell without a cell state.
    pub(crate) cells: Buffer,
    /// Of a replayed tape, the cell state before every `GRID`-th step, `[time / GRID, batch, padded]` (R20).
    pub(crate) grid: Buffer,
    pub(crate) projections: Projections,
    pub(crate) choices: Choices,
    /// The memory of each row; empty until the pass ends.
    pub(crate) memories: Vec<RowMemory>,
    /// `h(t)`, `[batch, time, padded]`, if it cannot share the output's memory because hidden is not a multiple of 16.
    pub(crate) hidden: Buffer,
    /// Initial hidden state, `[batch, padded]`.
    pub(crate) initial_hidden: Buffer,
    /// The carried memories.
    pub(crate) carried: Arc<Slots>,
    /// The steps that led to the carried memories (R21).
    pub(crate) segments: Option<Segments>,
}

impl Tape {
    pub(crate) fn new(
        mut problem: Problem, weights: Arc<PackedWeights>, carried: Arc<Slots>, keys: Option<Keys>,
    ) -> Self {
        let (batch, padded) = (problem.batch, problem.padded);
        let steps = problem.tape_steps();
        Self {
            projections: Projections::new(&mut problem, keys, weights.id),
            gates: Buffer::take(steps * batch * problem.gate_width()),
            cells: Buffer::take(problem.if_carries((steps + 1) * batch * padded)),
            grid: Buffer::take(problem.if_carries(problem.grid_steps() * batch * padded)),
            choices: Choices::new(&problem),
            memories: Vec::new(),
            hidden: Buffer::take(if problem.hidden == padded { 0 } else { batch * problem.time * padded }),
            initial_hidden: Buffer::take(batch * padded),
            carried,
            segments: None,
            problem,
            weights,
        }
    }

    /// Whether inputs are dense.
    pub fn is_dense(&self) -> bool {
        matches!(self.problem.inputs, crate::problem::Inputs::Dense)
    }
}

/// The choices of all steps, `[time, batch]`. Long choices are not stored but computed again.
#[derive(Debug)]
pub(crate) struct Choices {
    /// The number of entries that each choice has room for; 0 means that no choice is stored.
    room: usize,
    slots: Vec<u32>,
    weights: Buffer,
    lens: Vec<u32>,
    weightings: Vec<Weighting>,
}

impl Choices {
    fn new(problem: &Problem) -> Self {
        let room = problem.stored_choices();
        let steps = if room == 0 { 0 } else { problem.if_attends(problem.choice_steps() * problem.batch) };
        Self {
            room,
            slots: vec![0; steps * room],
            weights: Buffer::take(steps * room),
            lens: vec![0; steps],
            weightings: vec![Weighting::Nothing; steps],
        }
    }

    pub(crate) fn share(&mut self) -> ChoiceWriter<'_> {
        ChoiceWriter {
            room: self.room,
            slots: Shared::new(&mut self.slots),
            weights: Shared::new(self.weights.as_mut_slice()),
            lens: Shared::new(&mut self.lens),
            weightings: Shared::new(&mut self.weightings),
        }
    }

    /// The slots of a choice, if choices are stored.
    pub(crate) fn slots(&self, row: usize) -> Option<&[u32]> {
        (self.room > 0).then(|| &self.slots[row * self.room..][..self.lens[row] as usize])
    }

    /// Reads a choice. Returns false if choices are not stored.
    pub(crate) fn read(&self, row: usize, choice: &mut Choice) -> bool {
        let Some(slots) = self.slots(row) else { return false };
        choice.slots.clear();
        choice.slots.extend_from_slice(slots);
        choice.weights.clear();
        choice.weights.extend_from_slice(&self.weights.as_slice()[row * self.room..][..slots.len()]);
        choice.weighting = self.weightings[row];
        true
    }
}

/// [`Choices`] written by several threads, each writing its own rows.
#[derive(Clone, Copy)]
pub(crate) struct ChoiceWriter<'a> {
    room: usize,
    slots: Shared<'a, u32>,
    weights: Shared<'a, f32>,
    lens: Shared<'a, u32>,
    weightings: Shared<'a, Weighting>,
}

impl ChoiceWriter<'_> {
    /// # Safety
    /// The row must belong to the calling thread.
    pub(crate) unsafe fn write(&self, row: usize, choice: &Choice) {
        if self.room == 0 {
            return;
        }
        let len = choice.slots.len();
        assert!(len <= self.room);
        // SAFETY: the caller's promise.
        unsafe {
            self.lens.set(row, len as u32);
            self.weightings.set(row, choice.weighting);
            self.slots.slice_mut(row * self.room, len).copy_from_slice(&choice.slots);
            self.weights.slice_mut(row * self.room, len).copy_from_slice(&choice.weights);
        }
    }
}
