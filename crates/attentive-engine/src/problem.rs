//! [`Problem`]: the sizes of one call, and the layout of its buffers.

use crate::cells::Layout;
use crate::error::{EngineError, Result, all_finite, check_length};
use crate::kernels::gemm::PANEL;
use crate::kernels::{InstructionSet, Isa, Kernels};
use crate::memory::RowStart;
use crate::model::Model;
use crate::options::{LARGE_TAPE, Replay, Retrieval};
use crate::state::State;
use std::sync::Arc;

/// From this many units on, the weights do not fit into a second-level cache, and threads split columns instead of
/// rows.
const TOGETHER_FROM_UNITS: usize = 320;

/// Choices of at most this many memories are stored. Longer ones are computed again in the backward pass, so that the
/// memory use stays O(time * hidden).
const STORED_CHOICES: usize = 64;

/// Every so many steps, a replayed tape holds the cell state before the step (R20). A visit replays at most so many
/// steps, and the grid takes little beside the outputs of the call.
pub(crate) const GRID: usize = 8;

/// The input of a call.
#[derive(Clone, Debug)]
pub enum Inputs {
    /// `[batch, time]`; each token selects a row of the input weights.
    Tokens(Arc<Vec<u32>>),
    /// `[batch, time, input]`, passed beside the call.
    Dense,
}

/// One call of the engine.
#[derive(Clone, Debug)]
pub struct Call {
    /// The model.
    pub model: Model,
    /// Number of steps.
    pub time: usize,
    /// The input.
    pub inputs: Inputs,
    /// Whether a backward pass may follow.
    pub tracked: bool,
    /// What the tape of a tracked call holds. It does not change a bit of the results.
    pub replay: Replay,
    /// How the best memories are found. It does not change a bit of the results.
    pub retrieval: Retrieval,
    /// Number of threads. It does not change a bit of the results.
    pub threads: usize,
    /// Which instructions to use.
    pub instructions: InstructionSet,
    /// How many reminders to report per step.
    pub reminders: Option<usize>,
}

/// One checked call, with everything derived from it.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) batch: usize,
    pub(crate) time: usize,
    pub(crate) model: Model,
    pub(crate) layout: Layout,
    pub(crate) input: usize,
    pub(crate) hidden: usize,
    /// `hidden` rounded up to whole panels. Padding units have zero weights and stay exactly zero.
    pub(crate) padded: usize,
    pub(crate) inputs: Inputs,
    /// The number of slots that each row has room for.
    pub(crate) slot_room: usize,
    pub(crate) tracked: bool,
    /// Whether the tape of a tracked call holds only a grid of cell states (R20).
    pub(crate) replayed: bool,
    /// Whether an index may find the best memories (R19).
    pub(crate) searches: bool,
    pub(crate) threads: usize,
    pub(crate) isa: Isa,
    pub(crate) kernels: &'static Kernels,
    /// How many reminders to report per step.
    pub(crate) reminders: Option<usize>,
}

impl Problem {
    /// Checks the whole call. The engine can compute every call that passes.
    pub(crate) fn new(call: Call, state: &State, dense: &[f32]) -> Result<Self> {
        let Call { model, time, inputs, tracked, replay, retrieval, threads, instructions, reminders } = call;
        model.check()?;
        let (batch, hidden, input) = (state.batch(), model.hidden, model.input);
        for (what, size) in [("rows", batch), ("steps", time)] {
            if size == 0 {
                return Err(EngineError::Length { what, got: 0, expected: 1 });
            }
        }
        state.check(&model)?;
        if let Some(segments) = state.segments.as_ref().filter(|_| model.credit_across_calls) {
            segments.check_inputs(matches!(inputs, Inputs::Dense))?;
        }
        match &inputs {
            Inputs::Tokens(tokens) => {
                check_length("tokens", tokens.len(), batch * time)?;
                if let Some(place) = tokens.iter().position(|token| *token as usize >= input) {
                    let (row, step, token) = (place / time, place % time, tokens[place]);
                    return Err(EngineError::Token { row, step, token, input });
                }
            }
            Inputs::Dense => {
                check_length("input", dense.len(), batch * time * input)?;
                if !all_finite(dense) {
                    let place = dense.iter().position(|x| !x.is_finite()).unwrap_or(0) / input;
                    let place = format!(" in row {} at step {}", place / time, place % time);
                    return Err(EngineError::NonFinite { what: "input", place });
                }
            }
        }
        let room = |row: &RowStart| row.slot_steps.len() + model.store.most_stored(row.steps, time);
        let slot_room = state.rows.iter().map(room).max().unwrap_or(1);
        let isa = Isa::from(instructions);
        let (layout, padded) = (model.cell.part().layout(), hidden.next_multiple_of(PANEL));
        // Gates, the cell state and the query of every step.
        let whole_tape = (layout.blocks + 2) * padded * size_of::<f32>() * batch * time;
        Ok(Self {
            batch,
            time,
            layout,
            input,
            hidden,
            padded,
            inputs,
            slot_room,
            tracked,
            replayed: tracked
                && match replay {
                    Replay::Auto => whole_tape > LARGE_TAPE,
                    Replay::Never => false,
                    Replay::Always => true,
                },
            searches: retrieval == Retrieval::Auto,
            threads: threads.max(1),
            isa,
            kernels: Kernels::of(isa),
            reminders: reminders.map(|most| model.most_reminders(most, slot_room)),
            model,
        })
    }

    /// Whether all threads work on all rows together, instead of each on its own rows (see [`crate::team::Worker`]).
    pub(crate) fn together(&self) -> bool {
        self.hidden >= TOGETHER_FROM_UNITS
    }

    /// The number of threads that are worth starting.
    pub(crate) fn workers(&self) -> usize {
        // Multiplications of the whole call. A smaller call ends before another thread has started.
        const WORTH_A_THREAD: usize = 1 << 21;
        let work = self.batch * self.time * self.gate_width() * self.padded;
        let pieces = if self.together() { self.padded / PANEL } else { self.batch };
        self.threads.clamp(1, pieces.min(work / WORTH_A_THREAD).max(1))
    }

    /// `len`, or 0 for a plain recurrent network, which has no attention (R6).
    pub(crate) fn if_attends(&self, len: usize) -> usize {
        if self.model.attends() { len } else { 0 }
    }

    /// `len`, or 0 for a cell without a cell state (R15).
    pub(crate) fn if_carries(&self, len: usize) -> usize {
        if self.layout.carries { len } else { 0 }
    }

    /// Number of floats in all gate blocks of one row.
    pub(crate) fn gate_width(&self) -> usize {
        self.layout.blocks * self.padded
    }

    /// Width of the recurrent product's left side: `[h, x, 1]` for dense inputs, `[h]` for tokens.
    pub(crate) fn recurrent_width(&self) -> usize {
        match self.inputs {
            Inputs::Tokens(_) => self.padded,
            Inputs::Dense => self.padded + self.input + 1,
        }
    }

    /// Number of floats of the scorer's vector, in whole panels.
    pub(crate) fn vector_room(&self) -> usize {
        let declared = self.model.parameters();
        self.model.scorer.vector().map_or(0, |place| declared[place].len().next_multiple_of(PANEL))
    }

    /// How many entries of each choice are stored; 0 means none: they are computed again.
    pub(crate) fn stored_choices(&self) -> usize {
        // A choice of k also stores the threshold (R4), and has at most as many entries as there are memories.
        let k_top = self.model.most_chosen().map_or(usize::MAX, |count| count.saturating_add(1));
        match self.model.store.capacity {
            // Memories that were evicted later cannot be scored again.
            Some(capacity) => k_top.min(capacity + 1).min(self.slot_room),
            None if k_top <= STORED_CHOICES => k_top,
            None => 0,
        }
    }

    /// The number of steps whose gates, cell state and query the tape has room for. Of a replayed tape only the latest
    /// are there.
    pub(crate) fn tape_steps(&self) -> usize {
        match (self.tracked, self.replayed) {
            (false, _) => 1,
            (true, false) => self.time,
            (true, true) => GRID,
        }
    }

    /// The index of step `t` of row `row` among them. The tape is time-major, so that a step's rows are adjacent.
    pub(crate) fn tape_row(&self, t: usize, row: usize) -> usize {
        let place = match (self.tracked, self.replayed) {
            (false, _) => 0,
            (true, false) => t,
            (true, true) => t % GRID,
        };
        place * self.batch + row
    }

    /// The index of the cell state after step `t`, where that before it has the index [`tape_row`](Problem::tape_row).
    pub(crate) fn cell_row_after(&self, t: usize, row: usize) -> usize {
        // Without a backward pass the tape has one step, and the new cell state replaces the old one.
        self.tape_row(t, row) + if self.tracked { self.batch } else { 0 }
    }

    /// The number of steps whose choices are on the tape.
    pub(crate) fn choice_steps(&self) -> usize {
        if self.tracked { self.time } else { 1 }
    }

    /// The index of step `t` of row `row` among them.
    pub(crate) fn choice_row(&self, t: usize, row: usize) -> usize {
        (if self.tracked { t } else { 0 }) * self.batch + row
    }

    /// How many steps have their cell state on the grid of a replayed tape (R20).
    pub(crate) fn grid_steps(&self) -> usize {
        if self.replayed { self.time.div_ceil(GRID) } else { 0 }
    }

    /// The offset of step `t` of row `row` in `[batch, time, padded]`.
    pub(crate) fn sequence_row(&self, row: usize, t: usize) -> usize {
        (row * self.time + t) * self.padded
    }

    /// The index of a slot in `[batch, slot_room, padded]`.
    pub(crate) fn slot(&self, row: usize, slot: usize) -> usize {
        row * self.slot_room + slot
    }
}
