//! Replay (R20): computes the gates, cell states and queries of a few steps again, where the tape holds only a grid of
//! cell states.
//!
//! All hidden states are outputs of the forward pass, so the gates of a stretch are one product, and only the cell goes
//! step by step. Same kernels, same order of additions: the bits are those of the forward pass.

use super::lanes::Lane;
use super::sweep::Sweep;
use crate::cells::CellForward;
use crate::kernels::gemm::PANEL;
use crate::pool::Buffer;
use crate::problem::{GRID, Problem};
use crate::projections::{Queries, QueryView};
use crate::step;
use crate::team::{Shared, Worker};

/// The steps of one stretch of the grid, as a whole tape holds those of a call.
pub(super) struct Stretch {
    gates: Buffer,
    cells: Buffer,
    queries: Queries,
    /// `[batch, GRID, recurrent_width]`: the left sides of the gates' products.
    left: Buffer,
    /// `[batch, GRID, padded]`
    h_hat: Buffer,
}

impl Stretch {
    /// Empty if the tape holds every step.
    pub(super) fn new(problem: &Problem) -> Self {
        let rows = if problem.replayed { problem.batch * GRID } else { 0 };
        let cells = if problem.replayed { rows + problem.batch } else { 0 };
        Self {
            gates: Buffer::take(rows * problem.gate_width()),
            cells: Buffer::take(problem.if_carries(cells * problem.padded)),
            queries: Queries::new(problem.if_attends(rows), problem.padded),
            left: Buffer::take(rows * problem.recurrent_width()),
            h_hat: Buffer::take(rows * problem.padded),
        }
    }

    pub(super) fn share<'a>(&'a mut self, problem: &'a Problem) -> StretchView<'a> {
        StretchView {
            gates: Shared::new(self.gates.as_mut_slice()),
            cells: Shared::new(self.cells.as_mut_slice()),
            queries: self.queries.share(problem),
            left: Shared::new(self.left.as_mut_slice()),
            h_hat: Shared::new(self.h_hat.as_mut_slice()),
        }
    }
}

/// [`Stretch`] as the threads of a sweep see it.
#[derive(Clone, Copy)]
pub(super) struct StretchView<'a> {
    pub(super) gates: Shared<'a, f32>,
    pub(super) cells: Shared<'a, f32>,
    pub(super) queries: QueryView<'a>,
    left: Shared<'a, f32>,
    h_hat: Shared<'a, f32>,
}

/// Which stretch of the grid a thread has replayed for each of its rows.
pub(super) struct Replayed(Vec<Option<usize>>);

impl Replayed {
    pub(super) fn new(worker: &Worker<'_>) -> Self {
        Self(vec![None; worker.rows.len()])
    }
}

impl Sweep<'_> {
    /// Computes the steps of the stretch up to step `t` again, for the rows of these lanes that have not been there.
    /// The sweep goes backward, so a row visits each stretch once.
    pub(super) fn replay(&self, worker: &Worker<'_>, t: usize, lanes: &[Lane], replayed: &mut Replayed) {
        if !self.problem.replayed {
            return;
        }
        let mut rows: Vec<usize> = Vec::new();
        for row in lanes.iter().map(|lane| lane.row) {
            let seen = &mut replayed.0[row - worker.rows.start];
            if seen.replace(t / GRID) != Some(t / GRID) {
                rows.push(row);
            }
        }
        // Threads that share rows have the same lanes, so they agree on whether to wait.
        if rows.is_empty() {
            return;
        }
        let own = worker.own_rows();
        for row in rows.iter().filter(|row| own.contains(row)) {
            self.lay_out(*row, t);
        }
        worker.sync();
        for row in &rows {
            self.replay_cells(worker, *row, t);
        }
        if self.problem.model.attends() {
            worker.sync();
            for row in &rows {
                self.replay_queries(worker, *row, t);
            }
            worker.sync();
            for row in rows.iter().filter(|row| own.contains(row)) {
                // SAFETY: see `Sweep`; rows.
                (first_step(t)..=t).for_each(|t| unsafe { self.stretch.queries.finish(*row, t) });
            }
        }
        worker.sync();
    }

    /// rows: writes the left sides `[h(t-1), x(t), 1]`.
    fn lay_out(&self, row: usize, t: usize) {
        let (problem, width) = (self.problem, self.problem.recurrent_width());
        for t in first_step(t)..=t {
            let before = self.states.hidden_before(problem, row, t);
            // SAFETY: see `Sweep`; rows. Nobody writes hidden states during the sweep.
            unsafe {
                let left = self.stretch.left.slice_mut((row * GRID + t % GRID) * width, width);
                left[..problem.padded].copy_from_slice(std::slice::from_raw_parts(before, problem.padded));
                step::feed(problem, self.states.dense, (row, t), left);
            }
        }
    }

    /// columns: the gates and the cell of the row's steps (R1, R15).
    fn replay_cells(&self, worker: &Worker<'_>, row: usize, t: usize) {
        let (problem, padded, stretch) = (self.problem, self.problem.padded, self.stretch);
        let (first, width, gate_width) = (first_step(t), problem.recurrent_width(), problem.gate_width());
        let steps = t - first + 1;
        let unit_panels = worker.part(padded / PANEL);
        let units = (unit_panels.start * PANEL, unit_panels.end * PANEL);
        let left = stretch.left.at(row * GRID * width, steps * width);
        // Steps of a row lie a batch apart, as on the tape.
        let stride = problem.batch * gate_width;
        let gates = stretch.gates.at(row * gate_width, (steps - 1) * stride + gate_width);
        // SAFETY: see `Sweep`; columns. `at` checked the extents.
        unsafe { step::multiply_gates(problem, &self.tape.weights, &unit_panels, steps, left, (gates, stride)) };
        let carries = problem.layout.carries;
        if carries {
            let grid = &self.tape.grid.as_slice()[(t / GRID * problem.batch + row) * padded..][units.0..units.1];
            // SAFETY: see `Sweep`; columns.
            unsafe { stretch.cells.slice_mut(row * padded + units.0, grid.len()).copy_from_slice(grid) };
        }
        let cell = |row: usize| if carries { stretch.cells.at(row * padded, padded) } else { std::ptr::null_mut() };
        for t in first..=t {
            let (tape_row, place) = (problem.tape_row(t, row), row * GRID + t % GRID);
            let row = CellForward {
                gates: stretch.gates.at(tape_row * gate_width, gate_width),
                input: step::input_of(problem, &self.tape.weights, row, t),
                hidden_before: stretch.left.at(place * width, padded),
                cell_before: cell(tape_row),
                cell: cell(problem.cell_row_after(t, row)),
                h_hat: stretch.h_hat.at(place * padded, padded),
            };
            // SAFETY: see `Sweep`; columns. `at` checked the extents, units are whole panels.
            unsafe { problem.model.cell.part().forward(problem.isa, padded, units, row) };
        }
    }

    /// columns: projects the row's h_hat.
    fn replay_queries(&self, worker: &Worker<'_>, row: usize, t: usize) {
        let (problem, padded, weights) = (self.problem, self.problem.padded, self.tape.weights.query());
        let (steps, panels) = (t - first_step(t) + 1, worker.part(weights.panels()));
        let from = self.stretch.h_hat.at(row * GRID * padded, steps * padded);
        let stride = problem.batch * padded;
        let to = self.stretch.queries.values.at(row * padded, (steps - 1) * stride + padded);
        // SAFETY: see `Sweep`; columns. `at` checked the extents.
        unsafe {
            step::multiply(problem.kernels, panels, steps, (from, padded), weights, 0..weights.k(), (to, stride));
        }
    }
}

/// The first step of the stretch of step `t`.
fn first_step(t: usize) -> usize {
    t / GRID * GRID
}
