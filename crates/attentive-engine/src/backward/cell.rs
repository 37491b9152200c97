//! The derivative of a step's cell (R1, R15), and the adjoints handed down to the previous step (R9).

use super::lanes::{Lane, LaneList};
use super::sweep::Sweep;
use crate::cells::{CellBackward, Layout};
use crate::kernels::gemm::{PANEL, PackedMatrix};
use crate::team::{Shared, Worker};

impl Sweep<'_> {
    /// columns: computes the derivative of the cell for all lanes. Leaves the adjoints of the gates in the chunk.
    pub(super) fn cells(
        &self, worker: &Worker<'_>, place: usize, lanes: &LaneList, t: usize, carry_c: [Shared<'_, f32>; 2],
    ) {
        let (problem, padded, layout) = (self.problem, self.problem.padded, self.problem.layout);
        let panels = worker.part(padded / PANEL);
        let units = (panels.start * PANEL, panels.end * PANEL);
        let gate_width = problem.gate_width();
        for (index, lane) in lanes.list.iter().enumerate() {
            let tape_row = problem.tape_row(t, lane.row);
            let before = lanes.before(index).filter(|_| layout.carries);
            let (place, lane_place) = (place + index, lanes.first + index);
            let cell = |row: usize| match layout.carries {
                true => self.cells.at(row * padded, padded).cast_const(),
                false => std::ptr::null(),
            };
            let null = std::ptr::null_mut();
            let row = CellBackward {
                gates: self.gates.at(tape_row * gate_width, gate_width),
                hidden_before: self.states.hidden_before(problem, lane.row, t),
                cell: cell(problem.cell_row_after(t, lane.row)),
                cell_before: cell(tape_row),
                d_h_hat: self.lanes.at(self.lanes.d_h, lane_place),
                d_cell: before.map_or(null, |before| self.lanes.at(carry_c[0], before)),
                d_gates: self.chunk.d_gates_at(place),
                d_cell_before: if layout.carries { self.lanes.at(carry_c[1], lane_place) } else { null },
                // The adjoints handed down to this step have been gathered, so their buffer is free.
                d_hidden_before: if layout.passes_hidden {
                    self.lanes.at(self.lanes.carry_h, lane_place)
                } else {
                    null
                },
                h_hat: if problem.model.attends() { self.chunk.h_hat_at(place) } else { null },
                batch: problem.batch,
            };
            // SAFETY: see `Sweep`; columns. The extents were checked, units are whole panels.
            unsafe { problem.model.cell.part().backward(problem.isa, padded, units, row) };
        }
    }

    /// columns: computes the adjoints of h(t-1) and c(t-1), unless the gradient is cut (R9).
    pub(super) fn hand_down(&self, worker: &Worker<'_>, place: usize, lanes: &mut LaneList, t: usize) {
        lanes.carried_from.fill(None);
        if t == 0 {
            // States from before this call are data (R14).
            return;
        }
        let mut any = false;
        for index in 0..lanes.list.len() {
            let lane = lanes.list[index];
            if !self.problem.model.cut_after(self.tape.memories[lane.row].step(t - 1)) {
                let key = lanes.key(lane);
                lanes.carried_from[key] = Some(index);
                any = true;
            }
        }
        if any {
            // Only the gate blocks that the hidden state fills take part. If h(t-1) also enters h_hat directly, that
            // part of the adjoint is already in place.
            let layout = self.problem.layout;
            let (count, width) = (lanes.list.len(), self.problem.gate_width());
            let skipped = Layout::range(layout.hidden).start * self.problem.padded;
            let from = self.chunk.d_gates.at(place * width, count * width).wrapping_add(skipped);
            let to = (self.lanes.carry_h, lanes.first);
            self.multiply_rows(worker, count, (from, width), &self.weights.weight_hh, to, layout.passes_hidden);
        }
    }

    /// columns: adds the gates' adjoints times W_ih to the input's gradient at step `t`.
    pub(super) fn input_gradient(
        &self, worker: &Worker<'_>, place: usize, lanes: &[Lane], t: usize, weight_ih: &PackedMatrix,
    ) {
        let (problem, k, width) = (self.problem, weight_ih.k(), self.problem.gate_width());
        let skipped = Layout::range(problem.layout.input).start * problem.padded;
        let a = self.chunk.d_gates.at(place * width, lanes.len() * width).wrapping_add(skipped);
        let mut products = vec![0.0; lanes.len() * PANEL];
        for panel in worker.part(weight_ih.panels()) {
            let columns = panel * PANEL..problem.input.min((panel + 1) * PANEL);
            // SAFETY: see `Sweep`; columns. `products` has 16 floats for each lane.
            unsafe {
                let (b, c) = (weight_ih.panel(panel).as_ptr(), products.as_mut_ptr());
                (problem.kernels.multiply_panel)(lanes.len(), k, a, width, b, c, PANEL, false);
                for (lane, product) in lanes.iter().zip(products.chunks_exact(PANEL)) {
                    let start = (lane.row * problem.time + t) * problem.input + columns.start;
                    let to = self.sums.input.slice_mut(start, columns.len());
                    to.iter_mut().zip(product).for_each(|(to, d)| *to += d);
                }
            }
        }
    }
}
