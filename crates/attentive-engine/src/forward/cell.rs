//! The cell of a step (R1, R15), and its input.

use super::sequence::Sequence;
use crate::cells::CellForward;
use crate::kernels::gemm::PANEL;
use crate::problem::{GRID, Inputs};
use crate::step;
use crate::team::Worker;

impl Sequence<'_> {
    /// rows: copies the dense input of step `t` next to the hidden state.
    pub(super) fn feed(&self, worker: &Worker<'_>, t: usize) {
        let problem = self.problem;
        if t < problem.time && matches!(problem.inputs, Inputs::Dense) {
            let width = problem.recurrent_width();
            for row in worker.own_rows() {
                // SAFETY: see `Sequence`; rows.
                let recurrent = unsafe { self.recurrent.slice_mut(row * width, width) };
                step::feed(problem, self.states.dense, (row, t), recurrent);
            }
        }
    }

    /// columns: computes gates, cell and h_hat of all rows (R1, R15).
    pub(super) fn cell(&self, worker: &Worker<'_>, t: usize) {
        let (problem, padded, layout) = (self.problem, self.problem.padded, self.problem.layout);
        let (first, rows, width) = (worker.rows.start, worker.rows.len(), problem.recurrent_width());
        let unit_panels = worker.part(padded / PANEL);
        let units = (unit_panels.start * PANEL, unit_panels.end * PANEL);
        self.keep_grid(worker, t, units);
        let recurrent = self.recurrent.at(first * width, rows * width);
        let gate_width = problem.gate_width();
        let gates = self.gates.at(problem.tape_row(t, first) * gate_width, rows * gate_width);
        // SAFETY: see `Sequence`; columns. `at` checked the extents.
        unsafe {
            step::multiply_gates(problem, self.weights, &unit_panels, rows, recurrent, (gates, gate_width));
        }
        for row in worker.rows.clone() {
            let tape_row = problem.tape_row(t, row);
            let cell = |row: usize| match layout.carries {
                true => self.cells.at(row * padded, padded),
                false => std::ptr::null_mut(),
            };
            let row = CellForward {
                gates: self.gates.at(tape_row * gate_width, gate_width),
                input: step::input_of(problem, self.weights, row, t),
                hidden_before: self.recurrent.at(row * width, padded),
                cell_before: cell(tape_row),
                cell: cell(problem.cell_row_after(t, row)),
                h_hat: self.new_hidden(row, t),
            };
            // SAFETY: see `Sequence`; columns. `at` and the slices checked the extents, units are whole panels.
            unsafe { problem.model.cell.part().forward(problem.isa, padded, units, row) };
        }
        self.keep_cuts(worker, t, units);
    }

    /// columns: keeps the cell state of the rows that have a truncation point after step `t` (R21).
    fn keep_cuts(&self, worker: &Worker<'_>, t: usize, units: (usize, usize)) {
        let (problem, padded, len) = (self.problem, self.problem.padded, units.1 - units.0);
        let Some(cuts) = self.cuts.as_ref().filter(|_| problem.layout.carries) else { return };
        for row in worker.rows.clone() {
            let Some(place) = cuts.places.find(problem, row, t) else { continue };
            // SAFETY: see `Sequence`; columns.
            unsafe {
                let cell = self.cells.slice(problem.cell_row_after(t, row) * padded + units.0, len);
                cuts.cells.slice_mut(place + units.0, len).copy_from_slice(cell);
            }
        }
    }

    /// columns: where a stretch of the grid begins, keeps the cell state before step `t`, and moves it to the start of
    /// the tape (R20).
    fn keep_grid(&self, worker: &Worker<'_>, t: usize, units: (usize, usize)) {
        let (problem, padded, len) = (self.problem, self.problem.padded, units.1 - units.0);
        if !problem.replayed || !problem.layout.carries || !t.is_multiple_of(GRID) {
            return;
        }
        for row in worker.rows.clone() {
            let before = if t == 0 { row } else { problem.cell_row_after(t - 1, row) };
            let grid_row = t / GRID * problem.batch + row;
            // SAFETY: see `Sequence`; columns. The rows differ.
            unsafe {
                let before = self.cells.slice(before * padded + units.0, len);
                self.grid.slice_mut(grid_row * padded + units.0, len).copy_from_slice(before);
                if t > 0 {
                    self.cells.slice_mut(row * padded + units.0, len).copy_from_slice(before);
                }
            }
        }
    }

    /// The destination for the cell's h_hat. Without attention, h_hat is h (R6).
    fn new_hidden(&self, row: usize, t: usize) -> *mut f32 {
        let (problem, padded) = (self.problem, self.problem.padded);
        if problem.model.attends() {
            self.h_hat.at(row * padded, padded)
        } else {
            self.states.hidden.at(problem.sequence_row(row, t), padded)
        }
    }

    /// rows: without attention the hidden state is already in place (R6), but for a summary that is given (R21). Copies
    /// it to the next step's input.
    pub(super) fn without_attention(&self, row: usize, t: usize) {
        let (problem, padded) = (self.problem, self.problem.padded);
        // SAFETY: see `Sequence`; rows.
        unsafe {
            let hidden = self.states.hidden.slice_mut(problem.sequence_row(row, t), padded);
            if let Some(given) = self.given {
                let summary = &given[(row * problem.time + t) * problem.hidden..][..problem.hidden];
                hidden.iter_mut().zip(summary).for_each(|(hidden, summary)| *hidden += summary);
            }
            self.recurrent.slice_mut(row * problem.recurrent_width(), padded).copy_from_slice(hidden);
            if problem.hidden != padded {
                let to = (row * problem.time + t) * problem.hidden;
                self.unpadded[0].slice_mut(to, problem.hidden).copy_from_slice(&hidden[..problem.hidden]);
            }
        }
    }
}
