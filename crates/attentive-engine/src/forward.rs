//! Algorithm 1 over a whole sequence, each thread with its rows or columns.

use crate::cells::CellForward;
use crate::error::{EngineError, Result, all_finite};
use crate::kernels::gemm::{PANEL, PackedMatrix, rows_at_a_time};
use crate::memory::{RowEnd, RowMemory};
use crate::pool::Buffer;
use crate::problem::{Call, CallData, Inputs, Problem};
use crate::projections::{ProjectionView, States};
use crate::reminders::{Reminder, Reminders, keep_largest};
use crate::scorers::Room;
use crate::sparsifiers::Choice;
use crate::tape::{ChoiceWriter, Tape};
use crate::team::{self, Barrier, Shared, Worker};
use crate::weights::PackedWeights;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// What a forward pass returns.
#[derive(Debug)]
pub struct Forward {
    /// `[batch, time, hidden]`
    pub hidden: Buffer,
    /// `[batch, time, hidden]`; empty without attention: all zero.
    pub summary: Buffer,
    /// `[batch, hidden]`, after the last step; empty without a cell state.
    pub last_cell: Vec<f32>,
    /// What each row remembers.
    pub rows: Vec<RowEnd>,
    /// What each step was reminded of, if it was asked for.
    pub reminders: Option<Reminders>,
    /// What [`backward`](crate::backward()) needs.
    pub tape: Tape,
}

/// Copies rows of `hidden` floats into rows of `padded`, zeros behind; all zeros if `from` is empty.
fn pad_rows(problem: &Problem, from: &[f32], to: &mut [f32]) {
    to.fill(0.0);
    if !from.is_empty() {
        let rows = to.chunks_exact_mut(problem.padded).zip(from.chunks_exact(problem.hidden));
        rows.for_each(|(to, from)| to[..problem.hidden].copy_from_slice(from));
    }
}

/// Runs a sequence. The weights must have been packed for the call's model and kind of input.
pub fn forward(call: Call, weights: Arc<PackedWeights>, data: CallData<'_>) -> Result<Forward> {
    if !weights.fits(&call.model, &call.inputs) {
        let hint = "the packed weights are those of another model or kind of input".into();
        return Err(EngineError::Model { field: "model", value: format!("{:?}", call.model), hint });
    }
    let mut tape = Tape::new(Problem::new(call, &data)?, weights);
    let problem = tape.problem.clone();
    let threads = problem.workers();
    let (batch, time, hidden, padded) = (problem.batch, problem.time, problem.hidden, problem.padded);

    pad_rows(&problem, data.hidden, &mut tape.initial_hidden.as_mut_slice()[..batch * padded]);
    pad_rows(&problem, data.cell, &mut tape.cells.as_mut_slice()[..problem.if_carries(batch * padded)]);
    if problem.reads_memories() {
        pad_rows(&problem, data.memory, &mut tape.carried.as_mut_slice()[..batch * problem.carried_room * padded]);
    }

    let mut work = Work::new(&problem);
    let mut hidden_states = Buffer::take(batch * time * hidden);
    let mut summaries = Buffer::take(problem.if_attends(batch * time * hidden));
    let most_reminders = problem.reminders.filter(|_| problem.model.attends());
    let mut reminders = most_reminders.map(|most| Reminders::new(batch, time, most));

    // Where hidden is a multiple of 16 the outputs are the buffers that the engine works in; otherwise rows are
    // copied out of padded ones as they are made.
    let (hidden_out, summary_out) = (hidden_states.as_mut_slice(), summaries.as_mut_slice());
    let (hidden_rows, hidden_copy): (&mut [f32], &mut [f32]) =
        if hidden == padded { (hidden_out, &mut []) } else { (tape.hidden.as_mut_slice(), hidden_out) };
    let (summary_rows, summary_copy): (&mut [f32], &mut [f32]) =
        if hidden == padded { (summary_out, &mut []) } else { (work.summary.as_mut_slice(), summary_out) };
    let sequence = Sequence {
        problem: &problem,
        weights: &tape.weights,
        gates: Shared::new(tape.gates.as_mut_slice()),
        cells: Shared::new(tape.cells.as_mut_slice()),
        projections: tape.projections.share(&problem, &tape.weights.vector),
        choices: tape.choices.share(),
        states: States {
            dense: data.dense,
            hidden: Shared::new(hidden_rows),
            initial_hidden: tape.initial_hidden.as_slice(),
            carried: tape.carried.as_slice(),
        },
        summary: Shared::new(summary_rows),
        unpadded: [Shared::new(hidden_copy), Shared::new(summary_copy)],
        recurrent: Shared::new(work.recurrent.as_mut_slice()),
        h_hat: Shared::new(work.h_hat.as_mut_slice()),
        projected: Shared::new(work.projected.as_mut_slice()),
        stores: Shared::new(&mut work.stores),
        reminders: reminders.as_mut().map(SharedReminders::new),
    };
    let finished = Mutex::new(Vec::with_capacity(batch));
    let barrier = Barrier::new(threads);
    team::run(threads, |index| {
        let worker = Worker::new(batch, index, problem.together(), &barrier);
        let memories = sequence.run(&worker);
        let rows = worker.own_rows().zip(memories);
        finished.lock().unwrap_or_else(PoisonError::into_inner).extend(rows);
    });
    let mut memories = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    memories.sort_unstable_by_key(|(row, _)| *row);
    tape.memories = memories.into_iter().map(|(_, memory)| memory).collect();

    // A NaN in a row's state stays in it to the end, so the last one tells.
    let last = |row: usize| &hidden_states.as_slice()[(row * time + time - 1) * hidden..][..hidden];
    if let Some(row) = (0..batch).find(|row| !all_finite(last(*row))) {
        let place = format!(" in row {row}: the products overflowed");
        return Err(EngineError::NonFinite { what: "hidden", place });
    }
    let cells = tape.cells.as_slice();
    let last_cells = if problem.tracked { &cells[problem.if_carries(time * batch * padded)..] } else { cells };
    let last_cells = &last_cells[..problem.if_carries(batch * padded)];
    Ok(Forward {
        last_cell: last_cells.chunks_exact(padded).flat_map(|row| &row[..hidden]).copied().collect(),
        hidden: hidden_states,
        summary: summaries,
        rows: tape.memories.iter().map(|memory| memory.end(time)).collect(),
        reminders,
        tape,
    })
}

/// Buffers that only the pass itself needs.
struct Work {
    /// `[batch, recurrent_width]`: what the gates are computed from.
    recurrent: Buffer,
    /// `[batch, padded]`; empty without attention.
    h_hat: Buffer,
    /// `[batch, padded]`: projections of the step's new memories.
    projected: Buffer,
    /// `[batch, padded]`, where summaries cannot be computed in their place.
    summary: Buffer,
    /// `[batch]`: the slot that the step fills, if it fills one.
    stores: Vec<Option<u32>>,
}

impl Work {
    fn new(problem: &Problem) -> Self {
        let rows = problem.batch * problem.padded;
        Self {
            recurrent: Buffer::take(problem.batch * problem.recurrent_width()),
            h_hat: Buffer::take(problem.if_attends(rows)),
            projected: Buffer::take(problem.if_attends(rows)),
            summary: Buffer::take(if problem.hidden == problem.padded { 0 } else { problem.if_attends(rows) }),
            stores: vec![None; problem.batch],
        }
    }
}

/// [`Reminders`] that several threads fill, each its own rows.
struct SharedReminders<'a> {
    most: usize,
    counts: Shared<'a, u32>,
    entries: Shared<'a, Reminder>,
}

impl<'a> SharedReminders<'a> {
    fn new(reminders: &'a mut Reminders) -> Self {
        Self {
            most: reminders.most(),
            counts: Shared::new(&mut reminders.counts),
            entries: Shared::new(&mut reminders.entries),
        }
    }
}

/// All that the threads of one forward pass work on.
///
/// SAFETY of every access below: in the phases marked *rows* a thread touches only its own rows, in the phases marked
/// *columns* only its part of the columns (of all its rows, which it may share); `sync()` lies between a phase that
/// writes and one in which another thread reads.
struct Sequence<'a> {
    problem: &'a Problem,
    weights: &'a PackedWeights,
    /// The tape.
    gates: Shared<'a, f32>,
    cells: Shared<'a, f32>,
    projections: ProjectionView<'a>,
    choices: ChoiceWriter<'a>,
    /// Hidden states are written here.
    states: States<'a>,
    summary: Shared<'a, f32>,
    /// Hidden states and summaries without padding, written only where the padded ones cannot serve as outputs.
    unpadded: [Shared<'a, f32>; 2],
    /// See [`Work`].
    recurrent: Shared<'a, f32>,
    h_hat: Shared<'a, f32>,
    projected: Shared<'a, f32>,
    stores: Shared<'a, Option<u32>>,
    reminders: Option<SharedReminders<'a>>,
}

/// A thread's room for one row's scores and choice.
#[derive(Default)]
struct Scratch {
    scores: Vec<f32>,
    room: Room,
    choice: Choice,
    memories: Vec<*const f32>,
}

impl Sequence<'_> {
    /// Takes a thread's rows through all steps; returns what its own rows remember.
    fn run(&self, worker: &Worker<'_>) -> Vec<RowMemory> {
        let (problem, attends) = (self.problem, self.problem.model.attends());
        let mut scratch = Scratch::default();
        let mut memories: Vec<RowMemory> =
            worker.own_rows().map(|row| RowMemory::new(&problem.model, &problem.rows[row])).collect();
        self.start(worker, &memories);
        worker.sync();
        for t in 0..problem.time {
            self.cell(worker, t);
            worker.sync();
            if attends {
                // columns: the projected h_hat of all rows
                let (rows, padded, query) = (&worker.rows, problem.padded, self.weights.query());
                let from = self.h_hat.at(rows.start * padded, rows.len() * padded);
                let to = self.projections.queries_at(t, rows.clone());
                self.multiply(worker.part(query.panels()), rows.len(), (from, padded), query, 0..query.k(), to);
                worker.sync();
            }
            for (row, memory) in worker.own_rows().zip(&mut memories) {
                if attends {
                    self.remind(row, t, memory, &mut scratch);
                } else {
                    self.without_attention(row, t);
                }
                self.decide(row, t, memory);
            }
            self.feed(worker, t + 1);
            worker.sync();
            if attends {
                self.store(worker, t);
            }
        }
        memories
    }

    /// rows: the initial hidden state, the first input and the keys of the carried memories.
    fn start(&self, worker: &Worker<'_>, memories: &[RowMemory]) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let width = problem.recurrent_width();
        for (row, memory) in worker.own_rows().zip(memories) {
            // SAFETY: see `Sequence`; rows.
            let recurrent = unsafe { self.recurrent.slice_mut(row * width, width) };
            recurrent[..padded].copy_from_slice(&self.states.initial_hidden[row * padded..(row + 1) * padded]);
            if problem.model.attends() {
                let (slots, key) = (memory.carried(), &self.weights.key);
                let to = self.projections.keys_at(row, 0..slots);
                let carried = &self.states.carried[row * problem.carried_room * padded..][..slots * padded];
                self.multiply(0..key.panels(), slots, (carried.as_ptr(), padded), key, 0..key.k(), to);
                // SAFETY: see `Sequence`; rows.
                (0..slots).for_each(|slot| unsafe { self.projections.finish_key(row, slot) });
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
                let x = &self.states.dense[(row * problem.time + t) * input..][..input];
                recurrent[problem.padded..problem.padded + input].copy_from_slice(x);
                recurrent[problem.padded + input] = 1.0;
            }
        }
    }

    /// columns: gates, cell and h_hat of all rows (R1, R15).
    fn cell(&self, worker: &Worker<'_>, t: usize) {
        let (problem, padded, layout) = (self.problem, self.problem.padded, self.problem.layout);
        let (first, rows, width) = (worker.rows.start, worker.rows.len(), problem.recurrent_width());
        let unit_panels = worker.part(padded / PANEL);
        let units = (unit_panels.start * PANEL, unit_panels.end * PANEL);
        let recurrent = self.recurrent.at(first * width, rows * width);
        let gate_width = problem.gate_width();
        let gates = self.gates.at(problem.tape_row(t, first) * gate_width, rows * gate_width);
        for block in 0..layout.blocks {
            let of_block = block * padded / PANEL;
            let panels = of_block + unit_panels.start..of_block + unit_panels.end;
            // The left side is [h, x, 1]; a block may need only a part of it.
            let from = if layout.hidden.contains(&block) { 0 } else { padded };
            let to = if layout.input.contains(&block) { width } else { padded };
            self.multiply(panels, rows, (recurrent, width), &self.weights.gates, from..to, gates);
        }
        let constant = if self.weights.constant.is_empty() { std::ptr::null() } else { self.weights.constant.as_ptr() };
        for row in worker.rows.clone() {
            let tape_row = problem.tape_row(t, row);
            // Untracked, the tape has one step, and the new cell replaces the old one.
            let cell_row = if problem.tracked { tape_row + problem.batch } else { tape_row };
            let input = match &problem.inputs {
                Inputs::Tokens(tokens) => {
                    let token = tokens[row * problem.time + t] as usize;
                    self.weights.token_table[token * gate_width..][..gate_width].as_ptr()
                }
                Inputs::Dense => constant,
            };
            let cell = |row: usize| match layout.carries {
                true => self.cells.at(row * padded, padded),
                false => std::ptr::null_mut(),
            };
            let row = CellForward {
                gates: self.gates.at(tape_row * gate_width, gate_width),
                input,
                hidden_before: self.recurrent.at(row * width, padded),
                cell_before: cell(tape_row),
                cell: cell(cell_row),
                h_hat: self.new_hidden(row, t),
            };
            // SAFETY: see `Sequence`; columns. `at` and the slices checked the extents, units are whole panels.
            unsafe { problem.model.cell.part().forward(problem.isa, padded, units, row) };
        }
    }

    /// Where the cell puts h_hat. Without attention it is `h` (R6).
    fn new_hidden(&self, row: usize, t: usize) -> *mut f32 {
        let (problem, padded) = (self.problem, self.problem.padded);
        if problem.model.attends() {
            self.h_hat.at(row * padded, padded)
        } else {
            self.states.hidden.at(problem.sequence_row(row, t), padded)
        }
    }

    /// `c[rows][..] = a[rows][k] * b[k]` for some panels of `b` and a part of k. `a` has a stride.
    fn multiply(
        &self, panels: Range<usize>, rows: usize, (a, a_stride): (*const f32, usize), b: &PackedMatrix,
        k: Range<usize>, c: *mut f32,
    ) {
        let c_stride = b.panels() * PANEL;
        let block = rows_at_a_time(rows, k.len());
        for first in (0..rows).step_by(block) {
            let rows = block.min(rows - first);
            for panel in panels.clone() {
                let b = b.panel(panel)[k.start * PANEL..k.end * PANEL].as_ptr();
                // SAFETY: the callers took `a` for rows * a_stride >= rows * k floats and `c` for rows * c_stride; see
                // `Sequence` for who else may touch them.
                unsafe {
                    let (a, c) = (a.add(first * a_stride + k.start), c.add(first * c_stride + panel * PANEL));
                    (self.problem.kernels.multiply_panel)(rows, k.len(), a, a_stride, b, c, c_stride, false);
                }
            }
        }
    }

    /// rows: scores, sparsifier, summary and final hidden state of one row (R3-R7).
    fn remind(&self, row: usize, t: usize, memory: &mut RowMemory, scratch: &mut Scratch) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let choice = &mut scratch.choice;
        // SAFETY: see `Sequence`; rows. Keys of this row were written by this thread or before a sync.
        unsafe { self.projections.finish_query(row, t) };
        self.projections.scores(row, t, memory.runs(), &mut scratch.room, &mut scratch.scores);
        problem.model.sparsifier.part().choose(&scratch.scores, problem.model.most_chosen(), choice);
        memory.attend(choice);
        // SAFETY: see `Sequence`; rows.
        unsafe { self.choices.write(problem.tape_row(t, row), choice) };
        let chosen = choice.chosen();
        let state = |slot: &u32| self.states.memory(problem, row, memory, *slot as usize);
        scratch.memories.clear();
        scratch.memories.extend(choice.slots[..chosen].iter().map(state));
        let in_place = problem.hidden == padded;
        let sequence_row = problem.sequence_row(row, t);
        let summary_row = if in_place { sequence_row } else { row * padded };
        // SAFETY: see `Sequence`; rows. Memories are rows that earlier steps of this row wrote.
        unsafe {
            (problem.kernels.summarise)(
                padded,
                &choice.weights[..chosen],
                &scratch.memories,
                self.h_hat.at(row * padded, padded),
                self.summary.at(summary_row, padded),
                self.states.hidden.at(sequence_row, padded),
                self.recurrent.at(row * problem.recurrent_width(), padded),
            );
            if !in_place {
                let to = (row * problem.time + t) * problem.hidden;
                let summary = self.summary.slice(summary_row, problem.hidden);
                self.unpadded[1].slice_mut(to, problem.hidden).copy_from_slice(summary);
                let hidden = self.states.hidden.slice(sequence_row, problem.hidden);
                self.unpadded[0].slice_mut(to, problem.hidden).copy_from_slice(hidden);
            }
        }
        if let Some(reminders) = &self.reminders {
            let step = row * problem.time + t;
            let chosen = choice.slots[..chosen].iter().zip(&choice.weights);
            let chosen =
                chosen.map(|(slot, weight)| Reminder { step: memory.step_of(*slot as usize), weight: *weight });
            // SAFETY: see `Sequence`; rows.
            unsafe {
                let entries = reminders.entries.slice_mut(step * reminders.most, reminders.most);
                reminders.counts.set(step, keep_largest(entries, chosen));
            }
        }
    }

    /// rows: without attention the hidden state is there already (R6); the next step needs it too.
    fn without_attention(&self, row: usize, t: usize) {
        let (problem, padded) = (self.problem, self.problem.padded);
        // SAFETY: see `Sequence`; rows.
        unsafe {
            let hidden = self.states.hidden.slice(problem.sequence_row(row, t), padded);
            self.recurrent.slice_mut(row * problem.recurrent_width(), padded).copy_from_slice(hidden);
            if problem.hidden != padded {
                let to = (row * problem.time + t) * problem.hidden;
                self.unpadded[0].slice_mut(to, problem.hidden).copy_from_slice(&hidden[..problem.hidden]);
            }
        }
    }

    /// rows: decides whether h(t) is stored (R2, R18); the state itself is where it was made.
    fn decide(&self, row: usize, t: usize, memory: &mut RowMemory) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let rule = &problem.model.store;
        let (state, newest): (&[f32], &[f32]) = if rule.reads_states() {
            let newest = self.states.memory(problem, row, memory, memory.newest());
            // SAFETY: see `Sequence`; rows. The newest memory is a row of `padded` floats that is written no more.
            unsafe {
                let state = self.states.hidden.slice(problem.sequence_row(row, t), padded);
                (state, std::slice::from_raw_parts(newest, padded))
            }
        } else {
            (&[], &[])
        };
        let stores = rule.stores(memory.step(t), state, newest);
        if stores {
            memory.store(&problem.model, t);
        }
        // SAFETY: see `Sequence`; rows.
        unsafe { self.stores.set(row, stores.then(|| memory.newest() as u32)) };
    }

    /// The keys of the memories that step `t` stored.
    fn store(&self, worker: &Worker<'_>, t: usize) {
        let (problem, padded) = (self.problem, self.problem.padded);
        // SAFETY: see `Sequence`; a sync lies behind what wrote this.
        let any = worker.rows.clone().any(|row| unsafe { self.stores.get(row) }.is_some());
        // The last step's memory can only be used by a later call, which computes its key itself.
        if t + 1 == problem.time || !any {
            return;
        }
        // columns: the projected h of all rows, those that store nothing among them
        let (width, rows, key) = (problem.recurrent_width(), worker.rows.len(), &self.weights.key);
        let from = self.recurrent.at(worker.rows.start * width, rows * width);
        let to = self.projected.at(worker.rows.start * padded, rows * padded);
        self.multiply(worker.part(key.panels()), rows, (from, width), key, 0..key.k(), to);
        worker.sync();
        for row in worker.own_rows() {
            // SAFETY: see `Sequence`; rows.
            unsafe {
                if let Some(slot) = self.stores.get(row).map(|slot| slot as usize) {
                    let projected = self.projected.at(row * padded, padded);
                    self.projections.keys_at(row, slot..slot + 1).copy_from_nonoverlapping(projected, padded);
                    self.projections.finish_key(row, slot);
                }
            }
        }
        worker.sync();
    }
}
