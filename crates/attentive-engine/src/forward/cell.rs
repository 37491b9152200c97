//! The cell of a step (R1, R15), and its input.

use super::sequence::Sequence;
use crate::cells::CellForward;
use crate::kernels::gemm::PANEL;
use crate::problem::Inputs;
use crate::team::Worker;

impl Sequence<'_> {
    /// rows: copies the dense input of step `t` next to the hidden state.
    pub(super) fn feed(&self, worker: &Worker<'_>, t: usize) {
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

    /// columns: computes gates, cell and h_hat of all rows (R1, R15).
    pub(super) fn cell(&self, worker: &Worker<'_>, t: usize) {
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
            // The left side is [h, x, 1]. A block may need only part of it.
            let from = if layout.hidden.contains(&block) { 0 } else { padded };
            let to = if layout.input.contains(&block) { width } else { padded };
            self.multiply(panels, rows, (recurrent, width), &self.weights.gates, from..to, gates);
        }
        let constant = if self.weights.constant.is_empty() { std::ptr::null() } else { self.weights.constant.as_ptr() };
        for row in worker.rows.clone() {
            let tape_row = problem.tape_row(t, row);
            // Without a backward pass the tape has one step, and the new cell state replaces the old one.
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

    /// The destination for the cell's h_hat. Without attention, h_hat is h (R6).
    fn new_hidden(&self, row: usize, t: usize) -> *mut f32 {
        let (problem, padded) = (self.problem, self.problem.padded);
        if problem.model.attends() {
            self.h_hat.at(row * padded, padded)
        } else {
            self.states.hidden.at(problem.sequence_row(row, t), padded)
        }
    }

    /// rows: without attention the hidden state is already in place (R6). Copies it to the next step's input.
    pub(super) fn without_attention(&self, row: usize, t: usize) {
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
}
