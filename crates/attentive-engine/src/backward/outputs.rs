//! The loss's derivative by the outputs, and the adjoint of h(t) that comes together at a step.

use super::buffers::Total;
use super::lanes::Lane;
use super::sweep::Sweep;
use crate::error::{Result, check_length};
use crate::kernels::gemm::{PANEL, PackedMatrix};
use crate::problem::Problem;
use crate::team::{Shared, Worker};

/// The loss's derivative by the outputs: given, `[batch, time, hidden]` with `None` for all zero, and through readouts.
#[derive(Debug, Default)]
pub struct OutputAdjoints<'a> {
    /// By h.
    pub hidden: Option<&'a [f32]>,
    /// By s.
    pub summary: Option<&'a [f32]>,
    /// Through readouts of h and s.
    pub readouts: Vec<ReadoutAdjoint<'a>>,
}

/// The derivative by a readout's output, whose derivative by h and s is made step by step as the sweep goes:
/// `dh = V1^T dy`, `ds = V2^T dy` (R8). Nothing of size `[batch, time, hidden]` is written.
#[derive(Debug)]
pub struct ReadoutAdjoint<'a> {
    /// `[batch, time, output]`, or `[batch, output]` if `last_step`.
    d_y: &'a [f32],
    hidden: usize,
    output: usize,
    last_step: bool,
    /// Transposes, `[output, hidden]`.
    v1: PackedMatrix,
    v2: PackedMatrix,
}

impl<'a> ReadoutAdjoint<'a> {
    /// From `d_y` (`[batch, time, output]`, or `[batch, output]` if only the last step is read) and the readout's
    /// matrices, `[hidden, output]` each. Lengths are checked by [`backward`](crate::backward()).
    pub fn new(d_y: &'a [f32], [hidden, output]: [usize; 2], last_step: bool, v1: &[f32], v2: &[f32]) -> Self {
        let transposed = |v: &[f32]| {
            let fits = v.len() == hidden * output;
            let hidden = if fits { hidden } else { 0 };
            crate::readout::pack(output, hidden, |class, unit| v[unit * output + class])
        };
        Self { d_y, hidden, output, last_step, v1: transposed(v1), v2: transposed(v2) }
    }

    /// Where the rows of step `t` start and how far apart they lie, if this readout sees the step.
    fn step(&self, problem: &Problem, t: usize) -> Option<(usize, usize)> {
        match self.last_step {
            true => (t + 1 == problem.time).then_some((0, self.output)),
            false => Some((t * self.output, problem.time * self.output)),
        }
    }

    fn is_zero(&self, problem: &Problem, row: usize, t: usize) -> bool {
        self.step(problem, t).is_none_or(|(start, stride)| is_zero(&self.d_y[start + row * stride..][..self.output]))
    }
}

impl OutputAdjoints<'_> {
    pub(super) fn check(&self, problem: &Problem) -> Result<()> {
        let states = problem.batch * problem.time * problem.hidden;
        for (what, given) in [("d_hidden", self.hidden), ("d_summary", self.summary)] {
            given.map_or(Ok(()), |given| check_length(what, given.len(), states))?;
        }
        for readout in &self.readouts {
            let steps = if readout.last_step { 1 } else { problem.time };
            check_length("d_y", readout.d_y.len(), problem.batch * steps * readout.output)?;
            for (what, v) in [("v1", &readout.v1), ("v2", &readout.v2)] {
                // Not only padded: what lies behind the last unit stays zero.
                check_length(what, readout.hidden, problem.hidden)?;
                check_length(what, v.panels() * PANEL, problem.padded)?;
            }
        }
        Ok(())
    }

    /// Whether the loss depends on a row's outputs at a step.
    pub(super) fn touches(&self, problem: &Problem, row: usize, t: usize) -> bool {
        let start = (row * problem.time + t) * problem.hidden;
        let nonzero =
            |adjoint: Option<&[f32]>| adjoint.is_some_and(|adjoint| !is_zero(&adjoint[start..start + problem.hidden]));
        nonzero(self.hidden)
            || (problem.model.attends() && nonzero(self.summary))
            || self.readouts.iter().any(|readout| !readout.is_zero(problem, row, t))
    }
}

impl Sweep<'_> {
    /// rows: adjoints of h and s through the readouts (R8).
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

    /// rows: the adjoint of h(t) from the step after, from the steps that remembered it, and from the loss.
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

    /// rows: adds an output's adjoint at one step, given and through readouts.
    ///
    /// # Safety
    /// No other thread may use the total, and the row must be this thread's.
    pub(super) unsafe fn add_output(
        &self, given: Option<&[f32]>, through_readouts: Shared<'_, f32>, row: usize, t: usize, total: &mut Total,
    ) {
        let (hidden, padded) = (self.problem.hidden, self.problem.padded);
        // SAFETY: the caller's promise; without padding a given row spans whole vectors.
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
}

/// Whether all values are exactly zero, of either sign.
fn is_zero(values: &[f32]) -> bool {
    // In blocks: the compiler vectorises a block, and one that is not zero ends the search.
    values.chunks(32).all(|block| block.iter().fold(0, |bits, d| bits | (d.to_bits() << 1)) == 0)
}
