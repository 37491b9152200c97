//! The adjoint of h(t), gathered at its step (R13).

use super::buffers::Total;
use super::lanes::Lane;
use super::sweep::Sweep;
use crate::kernels::gemm::PANEL;
use crate::team::{Shared, Worker};

impl Sweep<'_> {
    /// rows: computes the adjoints of h and s through the readouts (R8).
    pub(super) fn read_back(&self, worker: &Worker<'_>, t: usize) {
        let (problem, padded) = (self.problem, self.problem.padded);
        let (own, losses) = (worker.own_rows(), [self.loss.hidden, self.loss.summary]);
        for (number, readout) in self.outputs.readouts.iter().enumerate() {
            let add = number > 0;
            let Some((start, stride)) = readout.step(problem, t).filter(|_| !own.is_empty()) else {
                if !add {
                    for loss in losses {
                        // SAFETY: see `Sweep`; rows.
                        unsafe { loss.slice_mut(own.start * padded, own.len() * padded).fill(0.0) };
                    }
                }
                continue;
            };
            let first = start + own.start * stride;
            let d_y = &readout.d_y[first..first + (own.len() - 1) * stride + readout.output];
            for (loss, v) in losses.into_iter().zip([&readout.v1, &readout.v2]) {
                let c = loss.at(own.start * padded, own.len() * padded);
                for panel in 0..v.panels() {
                    // SAFETY: see `Sweep`; rows. `d_y` spans own.len() rows at `stride`, as just checked.
                    unsafe {
                        let (b, c) = (v.panel(panel).as_ptr(), c.add(panel * PANEL));
                        (problem.kernels.multiply_panel)(own.len(), v.k(), d_y.as_ptr(), stride, b, c, padded, add);
                    }
                }
            }
        }
    }

    /// rows: sums the adjoint of h(t) from the following step, from the steps that were reminded of it, and from the
    /// loss.
    pub(super) fn gather(&self, lane: Lane, index: usize, t: usize, before: Option<usize>) {
        let (problem, padded, lanes) = (self.problem, self.problem.padded, self.lanes);
        let slot = self.remembered_slot(lane, t);
        // SAFETY: see `Sweep`; rows.
        unsafe {
            let mut d_h = Total::new(problem.kernels, padded, lanes.at(lanes.d_h, index));
            if let Some(before) = before {
                d_h.add(lanes.at(lanes.carry_h, before));
            }
            if let Some(d_memory) = slot.and_then(|slot| self.memories.memory(slot)) {
                d_h.add(d_memory);
            }
            if !lane.skipped {
                self.add_output(self.outputs.hidden, self.loss.hidden, lane.row, t, &mut d_h);
            }
            d_h.finish();
            if self.weights.key.is_some() {
                let to = lanes.d_key.slice_mut(index * padded, padded);
                match slot.and_then(|slot| self.memories.key(slot)) {
                    Some(d_key) => to.copy_from_slice(d_key),
                    None => to.fill(0.0),
                }
            }
        }
    }

    /// rows: adds an output's adjoint at one step, both the direct part and the part through readouts.
    ///
    /// # Safety
    /// No other thread may use the total, and the row must belong to this thread.
    pub(super) unsafe fn add_output(
        &self, given: Option<&[f32]>, through_readouts: Shared<'_, f32>, row: usize, t: usize, total: &mut Total,
    ) {
        let (hidden, padded) = (self.problem.hidden, self.problem.padded);
        // SAFETY: guaranteed by the caller; without padding a direct row spans whole vectors.
        unsafe {
            if let Some(given) = given {
                let from = &given[(row * self.problem.time + t) * hidden..][..hidden];
                if hidden == padded {
                    total.add(from.as_ptr());
                } else {
                    total.finish();
                    from.iter().enumerate().for_each(|(i, d)| *total.to.add(i) += d);
                }
            }
            if !self.outputs.readouts.is_empty() {
                total.add(through_readouts.at(row * padded, padded));
            }
        }
    }

    /// The slot that step `t` stored, if this lane takes the adjoints of that memory. With `hops = one`, only the lane
    /// that has skipped does (R12).
    pub(super) fn remembered_slot(&self, lane: Lane, t: usize) -> Option<usize> {
        let takes = self.problem.model.attends() && (self.sizes.kinds == 1 || lane.skipped);
        let filled = self.tape.memories[lane.row].filled_by(t).filter(|_| takes);
        filled.map(|slot| self.problem.slot(lane.row, slot))
    }
}
