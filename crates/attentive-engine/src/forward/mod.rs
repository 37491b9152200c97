//! Algorithm 1 over a whole sequence. Each thread works on its rows or columns.

mod attention;
mod cell;
mod sequence;
mod steps;
mod trail;

use crate::error::{EngineError, Result, all_finite};
use crate::memory::RowMemory;
use crate::pool::Buffer;
use crate::problem::{Call, Problem};
use crate::projections::States;
use crate::reminders::Reminders;
use crate::state::{Keys, State, Unsettled};
use crate::tape::Tape;
use crate::team::{self, Barrier, Shared, Worker};
use crate::weights::PackedWeights;
use sequence::{Sequence, SharedCuts, SharedReminders};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use steps::RowWork;
use trail::{Cuts, Steps};

/// The result of a forward pass.
#[derive(Debug)]
pub struct Forward {
    /// `[batch, time, hidden]`
    pub hidden: Buffer,
    /// `[batch, time, hidden]`; empty without attention, which means all zero.
    pub summary: Buffer,
    /// The state for the next call. [Settle](State::settle) it with the hidden states first.
    pub state: State,
    /// The reminders of each step, if they were requested.
    pub reminders: Option<Reminders>,
    /// The record that [`backward`](crate::backward()) needs.
    pub tape: Tape,
}

/// Runs a sequence from a state, whose rows are those of the batch. `dense` is the dense input, `[batch, time, input]`,
/// and empty for tokens. The weights must have been packed for the call's model and kind of input.
pub fn forward(call: Call, state: State, weights: Arc<PackedWeights>, dense: &[f32]) -> Result<Forward> {
    if !weights.fits(&call.model, &call.inputs) {
        let hint = "the weights were packed for another model or kind of input; pack them again".into();
        return Err(EngineError::Model { field: "model", value: format!("{:?}", call.model), hint });
    }
    run(call, state, weights, dense, None)
}

/// [`forward`] by weights that fit. With `given` summaries, `[batch, time, hidden]`, a model without attention adds
/// them to its cell's output: a replay of steps whose reminders are known (R21).
pub(crate) fn run(
    call: Call, mut state: State, weights: Arc<PackedWeights>, dense: &[f32], given: Option<&[f32]>,
) -> Result<Forward> {
    let problem = Problem::new(call, &state, dense)?;
    // A tape keeps its keys, and an update makes them useless.
    let carried_keys = state.keys.take().filter(|keys| keys.weights == weights.id && !problem.tracked);
    let carried_keys = carried_keys.filter(|_| problem.model.attends());
    let mut tape = Tape::new(problem, weights, Arc::clone(&state.memory), carried_keys);
    let problem = tape.problem.clone();
    let threads = problem.workers();
    let (batch, time, hidden, padded) = (problem.batch, problem.time, problem.hidden, problem.padded);
    tape.initial_hidden.as_mut_slice()[..batch * padded].copy_from_slice(&state.hidden);
    tape.cells.as_mut_slice()[..state.cell.len()].copy_from_slice(&state.cell);
    let mut cuts = Cuts::new(&problem, state.rows.iter().map(|row| row.steps).collect());

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
    let keys = &mut tape.projections.keys;
    let (filled, indexes) = (keys.filled.iter(), keys.indexes.iter_mut().map(std::mem::take));
    let rows: Vec<Mutex<Option<RowWork>>> = (state.rows.drain(..).zip(filled).zip(indexes))
        .map(|((start, keys), index)| RowWork { memory: RowMemory::new(&problem.model, start), index, keys: *keys })
        .map(|work| Mutex::new(Some(work)))
        .collect();
    let sequence = Sequence {
        problem: &problem,
        weights: &tape.weights,
        gates: Shared::new(tape.gates.as_mut_slice()),
        cells: Shared::new(tape.cells.as_mut_slice()),
        grid: Shared::new(tape.grid.as_mut_slice()),
        projections: tape.projections.share(&problem, &tape.weights.vector),
        choices: tape.choices.share(),
        states: States {
            dense,
            hidden: Shared::new(hidden_rows),
            initial_hidden: tape.initial_hidden.as_slice(),
            carried: &tape.carried,
        },
        summary: Shared::new(summary_rows),
        unpadded: [Shared::new(hidden_copy), Shared::new(summary_copy)],
        recurrent: Shared::new(work.recurrent.as_mut_slice()),
        h_hat: Shared::new(work.h_hat.as_mut_slice()),
        projected: Shared::new(work.projected.as_mut_slice()),
        stores: Shared::new(&mut work.stores),
        reminders: reminders.as_mut().map(SharedReminders::new),
        given,
        cuts: cuts.as_mut().map(SharedCuts::new),
    };
    let barrier = Barrier::new(threads);
    team::run(threads, |index| {
        let worker = Worker::new(batch, index, problem.together(), &barrier);
        // Each thread takes its own rows and puts them back.
        let mut own: Vec<RowWork> = worker.own_rows().filter_map(|row| lock(&rows[row]).take()).collect();
        sequence.run(&worker, &mut own);
        worker.own_rows().zip(own).for_each(|(row, work)| *lock(&rows[row]) = Some(work));
    });

    // A NaN in a row's state stays there to the end, so checking the last state is enough.
    let last = |row: usize| &hidden_states.as_slice()[(row * time + time - 1) * hidden..][..hidden];
    if let Some(row) = (0..batch).find(|row| !all_finite(last(*row))) {
        let place = format!(" in row {row}: the products overflowed");
        return Err(EngineError::NonFinite { what: "hidden", place });
    }
    let rows = rows.into_iter().filter_map(|row| row.into_inner().unwrap_or_else(PoisonError::into_inner));
    let rows: Vec<RowWork> = rows.collect();
    let hidden = &hidden_states.as_slice()[..batch * time * hidden];
    let before = state.segments.take();
    state.segments = cuts.as_ref().map(|cuts| {
        if problem.tracked {
            tape.segments.clone_from(&before);
        }
        let (summaries, [hidden_before, cell_before]) = (summaries.as_slice(), [&*state.hidden, &*state.cell]);
        let steps = Steps { problem: &problem, cuts, hidden_before, cell_before, dense, hidden, summaries };
        steps.follow(before, |row| &rows[row].memory)
    });
    leave(&mut tape, &mut state, rows, hidden);
    Ok(Forward { hidden: hidden_states, summary: summaries, state, reminders, tape })
}

fn lock<T>(cell: &Mutex<T>) -> MutexGuard<'_, T> {
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves the state for the next call. A tape keeps a copy of the rows' memories and its keys; without one, the state
/// takes the keys and the indexes along.
fn leave(tape: &mut Tape, state: &mut State, rows: Vec<RowWork>, hidden_states: &[f32]) {
    let problem = &tape.problem;
    let (time, hidden, padded) = (problem.time, problem.hidden, problem.padded);
    for (to, states) in state.hidden.chunks_exact_mut(padded).zip(hidden_states.chunks_exact(time * hidden)) {
        to[..hidden].copy_from_slice(&states[(time - 1) * hidden..]);
    }
    let cells = state.cell.len();
    let last_cells = problem.cell_row_after(time - 1, 0) * padded;
    state.cell.copy_from_slice(&tape.cells.as_slice()[if cells == 0 { 0 } else { last_cells }..][..cells]);
    let mut kept = Vec::with_capacity(rows.len());
    for (row, RowWork { memory, index, .. }) in rows.into_iter().enumerate() {
        if problem.tracked {
            tape.memories.push(memory.clone());
        } else if problem.model.attends() {
            let keys = &mut tape.projections.keys;
            // The memory of the last step has no key yet.
            keys.filled[row] = memory.slots_at(time - 1);
            keys.indexes[row] = index;
            if let Some(survivors) = memory.survivors() {
                keys.keep(row, survivors);
            }
        }
        let (start, left) = memory.end(time);
        state.rows.push(start);
        kept.push(left);
    }
    state.unsettled = Some(Unsettled { time, rows: kept });
    if !problem.tracked && problem.model.attends() {
        let none = Keys::take(0, 0, padded, 0);
        state.keys = Some(std::mem::replace(&mut tape.projections.keys, none));
    }
    if !problem.tracked {
        // The state alone holds the memories, so that settling need not copy them all.
        tape.carried = Arc::default();
    }
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
