//! The sizes of one call, and where everything lies in its buffers.

use crate::config::KTop;
use crate::memory::RowClock;
use crate::replay::Rules;
use std::sync::Arc;

use super::kernels::Kernels;
use super::kernels::gemm::PANEL;

/// From this many units on the weights do not fit a second-level cache, and the threads split columns instead of rows.
const TOGETHER_FROM_UNITS: usize = 320;

/// Choices of at most this many memories are stored; longer ones are scored again in the backward pass, so that
/// memory stays O(time * hidden).
const STORED_CHOICES: usize = 64;

/// What comes in.
#[derive(Clone, Debug)]
pub(crate) enum Inputs {
    /// `[batch, time]` rows of the input weights.
    Tokens(Arc<Vec<u32>>),
    /// `[batch, time, input]`, held elsewhere.
    Dense,
}

/// One call of the engine.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) batch: usize,
    pub(crate) time: usize,
    pub(crate) input: usize,
    pub(crate) hidden: usize,
    /// `hidden` rounded up to whole panels. Padding units have zero weights and stay exactly zero.
    pub(crate) padded: usize,
    pub(crate) inputs: Inputs,
    pub(crate) rules: Rules,
    /// Where each row stands.
    pub(crate) clocks: Vec<RowClock>,
    /// Slots for which there is room in each row.
    pub(crate) slot_room: usize,
    /// Slots of the carried memory, `[batch, carried_room, hidden]`.
    pub(crate) carried_room: usize,
    /// Whether a backward pass may follow.
    pub(crate) tracked: bool,
    pub(crate) threads: usize,
    pub(crate) kernels: &'static Kernels,
    /// How many reminders to report for each step.
    pub(crate) reminders: Option<usize>,
}

impl Problem {
    /// Sizes that follow from the others: call once when the fields are known.
    pub(crate) fn with_derived_sizes(mut self) -> Self {
        self.padded = self.hidden.next_multiple_of(PANEL);
        self.slot_room = self.clocks.iter().map(|clock| clock.slots_at(self.time)).max().unwrap_or(1);
        self.reminders = self.reminders.map(|most| self.rules.most_reminders(most, self.slot_room));
        self
    }

    /// Whether all threads work on all rows, or each on rows of its own (see [`super::team::Worker`]).
    pub(super) fn together(&self) -> bool {
        self.hidden >= TOGETHER_FROM_UNITS
    }

    /// Threads that have something to do.
    pub(super) fn workers(&self) -> usize {
        // Multiplications of the whole call. Below this it is over before the threads have started.
        const WORTH_A_THREAD: usize = 1 << 21;
        let work = self.batch * self.time * 4 * self.padded * self.padded;
        let pieces = if self.together() { self.padded / PANEL } else { self.batch };
        self.threads.clamp(1, pieces.min(work / WORTH_A_THREAD).max(1))
    }

    /// The length of what only attention needs: 0 for a plain LSTM (R6).
    pub(super) fn if_attends(&self, len: usize) -> usize {
        if self.rules.attends() { len } else { 0 }
    }

    /// Width of the recurrent product's left side: `[h, x, 1]` for dense inputs, `[h]` for tokens.
    pub(super) fn recurrent_width(&self) -> usize {
        match self.inputs {
            Inputs::Tokens(_) => self.padded,
            Inputs::Dense => self.padded + self.input + 1,
        }
    }

    /// `k_top` as the sparsifier takes it.
    pub(super) fn k_top(&self) -> Option<usize> {
        match self.rules.k_top {
            KTop::Count(count) => Some(count),
            KTop::All => None,
        }
    }

    /// How many entries of each choice are stored; 0: none, they are computed again.
    pub(super) fn stored_choices(&self) -> usize {
        match self.rules.k_top {
            KTop::Count(count) if count < STORED_CHOICES => count + 1,
            _ => 0,
        }
    }

    /// Steps that the tape holds.
    pub(super) fn tape_steps(&self) -> usize {
        if self.tracked { self.time } else { 1 }
    }

    /// Where the tape has step `t` of row `row`: time first, so that a step's rows lie together.
    pub(super) fn tape_row(&self, t: usize, row: usize) -> usize {
        (if self.tracked { t } else { 0 }) * self.batch + row
    }

    /// Where `[batch, time, padded]` has step `t` of row `row`.
    pub(super) fn sequence_row(&self, row: usize, t: usize) -> usize {
        (row * self.time + t) * self.padded
    }

    /// Where `[batch, slot_room, padded]` has a slot.
    pub(super) fn slot(&self, row: usize, slot: usize) -> usize {
        row * self.slot_room + slot
    }
}
