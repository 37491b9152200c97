//! Algorithm 1 over a whole sequence. Each thread works on its rows or columns.

mod attention;
mod cell;
mod sequence;
mod steps;

use crate::error::{EngineError, Result, all_finite};
use crate::memory::RowEnd;
use crate::pool::Buffer;
use crate::problem::{Call, CallData, Problem};
use crate::projections::States;
use crate::reminders::Reminders;
use crate::tape::Tape;
use crate::team::{self, Barrier, Shared, Worker};
use crate::weights::PackedWeights;
use sequence::{Sequence, SharedReminders};
use std::sync::{Arc, Mutex, PoisonError};

/// The result of a forward pass.
#[derive(Debug)]
pub struct Forward {
    /// `[batch, time, hidden]`
    pub hidden: Buffer,
    /// `[batch, time, hidden]`; empty without attention, which means all zero.
    pub summary: Buffer,
    /// The cell state after the last step, `[batch, hidden]`; empty for a cell without one.
    pub last_cell: Vec<f32>,
    /// The memory of each row.
    pub rows: Vec<RowEnd>,
    /// The reminders of each step, if they were requested.
    pub reminders: Option<Reminders>,
    /// The record that [`backward`](crate::backward()) needs.
    pub tape: Tape,
}

/// Copies rows of `hidden` floats into rows of `padded` floats and fills the rest with zeros. An empty `from` means
/// zeros.
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
        let hint = "the weights were packed for another model or kind of input; pack them again".into();
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

    // If hidden is a multiple of 16, the engine works directly in the outputs. Otherwise it works in padded buffers and
    // copies each row out as soon as it is computed.
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

    // A NaN in a row's state stays there to the end, so checking the last state is enough.
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

/// Buffers that are needed only during the pass.
struct Work {
    /// `[batch, recurrent_width]`: the left side of the gates' products.
    recurrent: Buffer,
    /// `[batch, padded]`; empty without attention.
    h_hat: Buffer,
    /// `[batch, padded]`: projections of the memories that the step stores.
    projected: Buffer,
    /// `[batch, padded]`; empty if summaries are computed directly in the output.
    summary: Buffer,
    /// `[batch]`: the slot that the step fills, if any.
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
