//! Algorithm 1 over a whole sequence, each thread with its rows or columns.

use super::kernels::Kernels;
use super::kernels::gemm::{PANEL, PackedMatrix, rows_at_a_time};
use super::pairs::Pairs;
use super::pool::Buffer;
use super::problem::{Inputs, Problem};
use super::scores::{ScoreView, memory};
use super::tape::Tape;
use super::team::{self, Barrier, Shared, Worker};
use super::weights::ForwardWeights;
use crate::memory::RowClock;
use crate::reminders::{Reminder, Reminders, keep_largest};
use crate::retrieval::Choice;
use std::ops::Range;
use std::sync::Arc;

/// Data of one call besides the parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallData<'a> {
    /// `[batch, time, input]`, empty for tokens.
    pub(crate) dense: &'a [f32],
    /// `[batch, hidden]`; empty: zero.
    pub(crate) hidden: &'a [f32],
    /// `[batch, hidden]`; empty: zero.
    pub(crate) cell: &'a [f32],
    /// `[batch, carried_room, hidden]`; empty: one slot of zeros for each row.
    pub(crate) memory: &'a [f32],
}

/// What a forward pass returns.
#[derive(Debug)]
pub(crate) struct ForwardResult {
    /// `[batch, time, hidden]`
    pub(super) hidden: Buffer,
    /// `[batch, time, hidden]`; empty without attention: all zero.
    pub(super) summary: Buffer,
    /// `[batch, hidden]`, after the last step.
    pub(crate) last_cell: Vec<f32>,
    pub(crate) reminders: Option<Reminders>,
    pub(crate) tape: Tape,
}

/// Copies rows of `hidden` floats into rows of `padded`, zeros behind; all zeros if `from` is empty.
fn pad_rows(problem: &Problem, from: &[f32], to: &mut [f32]) {
    to.fill(0.0);
    if !from.is_empty() {
        let rows = to.chunks_exact_mut(problem.padded).zip(from.chunks_exact(problem.hidden));
        rows.for_each(|(to, from)| to[..problem.hidden].copy_from_slice(from));
    }
}

pub(crate) fn forward(problem: Problem, weights: Arc<ForwardWeights>, data: CallData<'_>) -> ForwardResult {
    let threads = problem.workers();
    let mut tape = Tape::new(problem, weights);
    let problem = tape.problem.clone();
    let (batch, time, hidden, padded) = (problem.batch, problem.time, problem.hidden, problem.padded);
    let attends = problem.rules.attends();

    pad_rows(&problem, data.hidden, &mut tape.initial_hidden.as_mut_slice()[..batch * padded]);
    pad_rows(&problem, data.cell, &mut tape.cells.as_mut_slice()[..batch * padded]);
    if attends {
        pad_rows(&problem, data.memory, &mut tape.carried.as_mut_slice()[..batch * problem.carried_room * padded]);
    }

    let width = problem.recurrent_width();
    let mut recurrent = Buffer::take(batch * width);
    let mut h_hat = Buffer::take(problem.if_attends(batch * padded));
    let mut projected = Buffer::take(batch * padded);
    let mut padded_summary = Buffer::take(if hidden == padded { 0 } else { problem.if_attends(batch * padded) });
    let mut hidden_states = Buffer::take(batch * time * hidden);
    let mut summaries = Buffer::take(problem.if_attends(batch * time * hidden));
    let mut reminders = problem.reminders.filter(|_| attends).map(|most| Reminders::new(batch, time, most));

    let (hidden_out, summary_out) = (hidden_states.as_mut_slice(), summaries.as_mut_slice());
    // Where hidden is a multiple of 16 the outputs are the buffers that the engine works in; otherwise rows are
    // copied out of padded ones as they are made.
    let (hidden_rows, hidden_copy): (&mut [f32], &mut [f32]) =
        if hidden == padded { (hidden_out, &mut []) } else { (tape.hidden.as_mut_slice(), hidden_out) };
    let (summary_rows, summary_copy): (&mut [f32], &mut [f32]) =
        if hidden == padded { (summary_out, &mut []) } else { (padded_summary.as_mut_slice(), summary_out) };
    let barrier = Barrier::new(threads);
    let sequence = Sequence {
        kernels: problem.kernels,
        problem: &problem,
        weights: &tape.weights,
        dense: data.dense,
        gates: Shared::new(tape.gates.as_mut_slice()),
        cells: Shared::new(tape.cells.as_mut_slice()),
        queries: Shared::new(tape.queries.as_mut_slice()),
        query_exponential: Shared::new(&mut tape.query_exponential),
        keys: Shared::new(tape.keys.as_mut_slice()),
        key_exponential: Shared::new(&mut tape.key_exponential),
        hidden: Shared::new(hidden_rows),
        summary: Shared::new(summary_rows),
        initial_hidden: tape.initial_hidden.as_slice(),
        carried: tape.carried.as_slice(),
        choice_slots: Shared::new(&mut tape.choice_slots),
        choice_weights: Shared::new(tape.choice_weights.as_mut_slice()),
        choice_lens: Shared::new(&mut tape.choice_lens),
        choice_normalisers: Shared::new(tape.choice_normalisers.as_mut_slice()),
        recurrent: Shared::new(recurrent.as_mut_slice()),
        h_hat: Shared::new(h_hat.as_mut_slice()),
        projected: Shared::new(projected.as_mut_slice()),
    };
    let unpadded = Unpadded { hidden: Shared::new(hidden_copy), summary: Shared::new(summary_copy) };
    let reported = reminders.as_mut().map(|reminders| SharedReminders {
        most: reminders.most(),
        counts: Shared::new(&mut reminders.counts),
        entries: Shared::new(&mut reminders.entries),
    });
    team::run(threads, |index| {
        let worker = Worker::new(batch, index, problem.together(), &barrier);
        sequence.run(&worker, &unpadded, reported.as_ref());
    });

    let last = problem.tape_steps() * batch * padded;
    let last_cells = if problem.tracked { &tape.cells.as_slice()[last..] } else { tape.cells.as_slice() };
    let last_cell = last_cells[..batch * padded].chunks_exact(padded).flat_map(|row| &row[..hidden]).copied().collect();
    ForwardResult { hidden: hidden_states, summary: summaries, last_cell, reminders, tape }
}

/// Outputs without padding, written only where the padded ones cannot serve as outputs; empty otherwise.
struct Unpadded<'a> {
    hidden: Shared<'a, f32>,
    summary: Shared<'a, f32>,
}

/// [`Reminders`] that several threads fill, each its own rows.
struct SharedReminders<'a> {
    most: usize,
    counts: Shared<'a, u32>,
    entries: Shared<'a, Reminder>,
}

/// All that the threads of one forward pass work on.
///
/// SAFETY of every access below: in the phases marked *rows* a thread touches only its own rows, in the phases marked
/// *columns* only its part of the columns (of all its rows, which it may share); `sync()` lies between a phase that
/// writes and one in which another thread reads.
pub(super) struct Sequence<'a> {
    kernels: &'static Kernels,
    problem: &'a Problem,
    weights: &'a ForwardWeights,
    dense: &'a [f32],
    gates: Shared<'a, f32>,
    cells: Shared<'a, f32>,
    queries: Shared<'a, f32>,
    query_exponential: Shared<'a, bool>,
    keys: Shared<'a, f32>,
    key_exponential: Shared<'a, bool>,
    hidden: Shared<'a, f32>,
    summary: Shared<'a, f32>,
    initial_hidden: &'a [f32],
    carried: &'a [f32],
    choice_slots: Shared<'a, u32>,
    choice_weights: Shared<'a, f32>,
    choice_lens: Shared<'a, u32>,
    choice_normalisers: Shared<'a, f32>,
    /// `[batch, recurrent_width]`: what the gates are computed from.
    recurrent: Shared<'a, f32>,
    /// `[batch, padded]`; empty without attention.
    h_hat: Shared<'a, f32>,
    /// `[batch, padded]`: `W1 h` of the step's new memories.
    projected: Shared<'a, f32>,
}

/// A thread's room for one row's scores and choice.
#[derive(Default)]
struct Scratch {
    scores: Vec<f32>,
    pairs: Pairs,
    choice: Choice,
    memories: Vec<*const f32>,
}

impl Sequence<'_> {
    fn run(&self, worker: &Worker<'_>, unpadded: &Unpadded<'_>, reminders: Option<&SharedReminders<'_>>) {
        let problem = self.problem;
        let mut scratch = Scratch::default();
        self.start(worker);
        worker.sync();
        for t in 0..problem.time {
            self.cell(worker, t);
            worker.sync();
            if problem.rules.attends() {
                // columns: W2 h_hat of all rows
                let (rows, padded, w2) = (&worker.rows, problem.padded, &self.weights.w2);
                let from = self.h_hat.at(rows.start * padded, rows.len() * padded);
                let to = self.queries.at(problem.tape_row(t, rows.start) * padded, rows.len() * padded);
                self.multiply(worker.part(w2.panels()), rows.len(), from, padded, w2, to);
                worker.sync();
                for row in worker.own_rows() {
                    self.remind(row, t, &mut scratch, unpadded, reminders);
                }
            } else {
                for row in worker.own_rows() {
                    self.without_attention(row, t, unpadded);
                }
            }
            self.feed(worker, t + 1);
            worker.sync();
            if problem.rules.attends() {
                self.store(worker, t);
            }
        }
    }

    /// rows: the initial hidden state, the first input and the keys of the carried memories.
    fn start(&self, worker: &Worker<'_>) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let width = problem.recurrent_width();
        for row in worker.own_rows() {
            // SAFETY: see `Sequence`; rows.
            let recurrent = unsafe { self.recurrent.slice_mut(row * width, width) };
            recurrent[..padded].copy_from_slice(&self.initial_hidden[row * padded..(row + 1) * padded]);
            if problem.rules.attends() {
                let slots = problem.clocks[row].carried_slots();
                let keys = self.keys.at(problem.slot(row, 0) * padded, slots * padded);
                let memories = &self.carried[row * problem.carried_room * padded..][..slots * padded];
                let w1 = &self.weights.w1;
                self.multiply(0..w1.panels(), slots, memories.as_ptr(), padded, w1, keys);
                for slot in 0..slots {
                    self.finish_key(row, slot);
                }
            }
        }
        self.feed(worker, 0);
    }

    /// rows: the dense input of step `t`, beside the hidden state.
    fn feed(&self, worker: &Worker<'_>, t: usize) {
        let problem = self.problem;
        if t < problem.time && matches!(problem.inputs, Inputs::Dense) {
            let (width, input) = (problem.recurrent_width(), problem.input);
            for row in worker.own_rows() {
                // SAFETY: see `Sequence`; rows.
                let recurrent = unsafe { self.recurrent.slice_mut(row * width, width) };
                let x = &self.dense[(row * problem.time + t) * input..][..input];
                recurrent[problem.padded..problem.padded + input].copy_from_slice(x);
                recurrent[problem.padded + input] = 1.0;
            }
        }
    }

    /// columns: gates, cell and h_hat of all rows (R1).
    fn cell(&self, worker: &Worker<'_>, t: usize) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let (first, rows, width) = (worker.rows.start, worker.rows.len(), problem.recurrent_width());
        let unit_panels = worker.part(padded / PANEL);
        let units = (unit_panels.start * PANEL, unit_panels.end * PANEL);
        let recurrent = self.recurrent.at(first * width, rows * width);
        let gates = self.gates.at(problem.tape_row(t, first) * 4 * padded, rows * 4 * padded);
        for gate in 0..4 {
            let of_gate = gate * padded / PANEL;
            let panels = of_gate + unit_panels.start..of_gate + unit_panels.end;
            self.multiply(panels, rows, recurrent, width, &self.weights.gates, gates);
        }
        for row in worker.rows.clone() {
            let tape_row = problem.tape_row(t, row);
            // Untracked, the tape has one step, and the new cell replaces the old one.
            let cell_row = if problem.tracked { tape_row + problem.batch } else { tape_row };
            let input = match &problem.inputs {
                Inputs::Tokens(tokens) => {
                    let token = tokens[row * problem.time + t] as usize;
                    self.weights.token_table[token * 4 * padded..][..4 * padded].as_ptr()
                }
                Inputs::Dense => std::ptr::null(),
            };
            // SAFETY: see `Sequence`; columns. `at` and the slice above checked the extents, units are whole panels.
            unsafe {
                (self.kernels.cell_forward)(
                    padded,
                    units,
                    self.gates.at(tape_row * 4 * padded, 4 * padded),
                    input,
                    self.cells.at(tape_row * padded, padded),
                    self.cells.at(cell_row * padded, padded),
                    self.new_hidden(row, t),
                );
            }
        }
    }

    /// Where the cell puts h_hat. Without attention it is `h` (R6).
    fn new_hidden(&self, row: usize, t: usize) -> *mut f32 {
        let (problem, padded) = (self.problem, self.problem.padded);
        if problem.rules.attends() {
            self.h_hat.at(row * padded, padded)
        } else {
            self.hidden.at(problem.sequence_row(row, t), padded)
        }
    }

    /// `c[rows][padded] = a[rows][k] * b` for some panels of `b`.
    fn multiply(
        &self, panels: Range<usize>, rows: usize, a: *const f32, a_stride: usize, b: &PackedMatrix, c: *mut f32,
    ) {
        let c_stride = b.panels() * PANEL;
        let block = rows_at_a_time(rows, b.k());
        for first in (0..rows).step_by(block) {
            let rows = block.min(rows - first);
            for panel in panels.clone() {
                // SAFETY: the callers took `a` for rows * a_stride >= rows * k floats and `c` for rows * c_stride; see
                // `Sequence` for who else may touch them.
                unsafe {
                    let (a, c) = (a.add(first * a_stride), c.add(first * c_stride + panel * PANEL));
                    (self.kernels.multiply_panel)(
                        rows,
                        b.k(),
                        a,
                        a_stride,
                        b.panel(panel).as_ptr(),
                        c,
                        c_stride,
                        false,
                    );
                }
            }
        }
    }

    /// Scores, sparsifier, summary and final hidden state of one row (R3-R7).
    fn remind(
        &self, row: usize, t: usize, scratch: &mut Scratch, unpadded: &Unpadded<'_>,
        reminders: Option<&SharedReminders<'_>>,
    ) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let clock = problem.clocks[row];
        let tape_row = problem.tape_row(t, row);
        let slots = clock.slots_at(t);
        // SAFETY: see `Sequence`; rows. Keys of this row were written by this thread or before a sync.
        unsafe {
            let exponential = (self.kernels.to_exponentials)(padded, self.queries.at(tape_row * padded, padded));
            self.query_exponential.set(tape_row, exponential);
        }
        self.scores(row, t, slots, scratch);
        let choice = &mut scratch.choice;
        choice.choose(&scratch.scores, problem.k_top());
        // SAFETY: see `Sequence`; rows.
        unsafe {
            self.choice_lens.set(tape_row, choice.slots.len() as u32);
            self.choice_normalisers.set(tape_row, choice.normaliser);
            let stored = problem.stored_choices();
            if stored > 0 {
                let len = choice.slots.len();
                self.choice_slots.slice_mut(tape_row * stored, len).copy_from_slice(&choice.slots);
                self.choice_weights.slice_mut(tape_row * stored, len).copy_from_slice(&choice.weights);
            }
        }
        let chosen = choice.chosen();
        scratch.memories.clear();
        scratch.memories.extend(choice.slots[..chosen].iter().map(|slot| self.memory(row, clock, *slot as usize)));
        let in_place = problem.hidden == padded;
        let sequence_row = problem.sequence_row(row, t);
        let summary_row = if in_place { sequence_row } else { row * padded };
        // SAFETY: see `Sequence`; rows. Memories are rows that earlier steps of this row wrote.
        unsafe {
            (self.kernels.summarise)(
                padded,
                &choice.weights[..chosen],
                &scratch.memories,
                self.h_hat.at(row * padded, padded),
                self.summary.at(summary_row, padded),
                self.hidden.at(sequence_row, padded),
                self.recurrent.at(row * problem.recurrent_width(), padded),
            );
            if !in_place {
                let to = (row * problem.time + t) * problem.hidden;
                let summary = self.summary.slice(summary_row, problem.hidden);
                unpadded.summary.slice_mut(to, problem.hidden).copy_from_slice(summary);
                let hidden = self.hidden.slice(sequence_row, problem.hidden);
                unpadded.hidden.slice_mut(to, problem.hidden).copy_from_slice(hidden);
            }
        }
        if let Some(reminders) = reminders {
            let step = row * problem.time + t;
            let slots = choice.slots.iter().map(|slot| *slot as usize);
            let chosen = slots.zip(choice.weights.iter().copied()).take(chosen);
            // SAFETY: see `Sequence`; rows.
            unsafe {
                let entries = reminders.entries.slice_mut(step * reminders.most, reminders.most);
                reminders.counts.set(step, keep_largest(entries, problem.rules.k_att, chosen));
            }
        }
    }

    /// Scores of one row's first `slots` memories against its query (R3).
    fn scores(&self, row: usize, t: usize, slots: usize, scratch: &mut Scratch) {
        let view = ScoreView {
            problem: self.problem,
            w3: &self.weights.w3,
            keys: self.keys,
            key_exponential: self.key_exponential,
            queries: self.queries,
            query_exponential: self.query_exponential,
        };
        view.scores(row, t, slots, &mut scratch.pairs, &mut scratch.scores);
    }

    /// rows: the hidden state of a plain LSTM is there already (R6); the next step needs it too.
    fn without_attention(&self, row: usize, t: usize, unpadded: &Unpadded<'_>) {
        let (problem, padded) = (self.problem, self.problem.padded);
        // SAFETY: see `Sequence`; rows.
        unsafe {
            let hidden = self.hidden.slice(problem.sequence_row(row, t), padded);
            self.recurrent.slice_mut(row * problem.recurrent_width(), padded).copy_from_slice(hidden);
            if problem.hidden != padded {
                let to = (row * problem.time + t) * problem.hidden;
                unpadded.hidden.slice_mut(to, problem.hidden).copy_from_slice(&hidden[..problem.hidden]);
            }
        }
    }

    /// Stores h(t) of the rows whose turn it is (R2): its key is all that is computed, the state itself is there.
    fn store(&self, worker: &Worker<'_>, t: usize) {
        let (problem, padded) = (self.problem, self.problem.padded);
        // The last step's memory can only be used by a later call, which computes its key itself.
        let clocks = &problem.clocks[worker.rows.clone()];
        if t + 1 == problem.time || !clocks.iter().any(|clock| clock.slot_filled_by(t).is_some()) {
            return;
        }
        // columns: W1 h of all rows; rows that store nothing are rare (only after a reset of single rows)
        let (width, rows, w1) = (problem.recurrent_width(), worker.rows.len(), &self.weights.w1);
        let from = self.recurrent.at(worker.rows.start * width, rows * width);
        let to = self.projected.at(worker.rows.start * padded, rows * padded);
        self.multiply(worker.part(w1.panels()), rows, from, width, w1, to);
        worker.sync();
        for row in worker.own_rows() {
            if let Some(slot) = problem.clocks[row].slot_filled_by(t) {
                // SAFETY: see `Sequence`; rows.
                unsafe {
                    let key = self.keys.slice_mut(problem.slot(row, slot) * padded, padded);
                    key.copy_from_slice(self.projected.slice(row * padded, padded));
                }
                self.finish_key(row, slot);
            }
        }
        worker.sync();
    }

    /// rows: turns a projected memory into its cached form.
    fn finish_key(&self, row: usize, slot: usize) {
        let index = self.problem.slot(row, slot);
        let key = self.keys.at(index * self.problem.padded, self.problem.padded);
        // SAFETY: see `Sequence`; rows.
        unsafe {
            let exponential = (self.kernels.to_exponentials)(self.problem.padded, key);
            self.key_exponential.set(index, exponential);
        }
    }

    fn memory(&self, row: usize, clock: RowClock, slot: usize) -> *const f32 {
        memory(self.problem, self.hidden, self.carried, row, clock, slot)
    }
}
