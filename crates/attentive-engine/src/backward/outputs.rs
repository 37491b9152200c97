//! The derivative of the loss with respect to the outputs, as the caller gives it.

use crate::error::{Result, check_length};
use crate::kernels::gemm::{PANEL, PackedMatrix};
use crate::problem::Problem;

/// The derivative of the loss with respect to the outputs. It has direct parts, `[batch, time, hidden]` each with
/// `None` for all zero, and parts through readouts.
#[derive(Debug, Default)]
pub struct OutputAdjoints<'a> {
    /// With respect to h.
    pub hidden: Option<&'a [f32]>,
    /// With respect to s.
    pub summary: Option<&'a [f32]>,
    /// Through readouts of h and s.
    pub readouts: Vec<ReadoutAdjoint<'a>>,
}

/// The derivative of the loss with respect to a readout's output. The sweep computes the adjoints of h and s from it
/// step by step: `dh = V1^T dy`, `ds = V2^T dy` (R8). Nothing of size `[batch, time, hidden]` is written.
#[derive(Debug)]
pub struct ReadoutAdjoint<'a> {
    /// `[batch, time, output]`, or `[batch, output]` if `last_step`.
    pub(super) d_y: &'a [f32],
    hidden: usize,
    pub(super) output: usize,
    last_step: bool,
    /// Transposes, `[output, hidden]`.
    pub(super) v1: PackedMatrix,
    pub(super) v2: PackedMatrix,
}

impl<'a> ReadoutAdjoint<'a> {
    /// Takes `d_y` (`[batch, time, output]`, or `[batch, output]` if only the last step is read) and the readout's
    /// matrices, `[hidden, output]` each. [`backward`](crate::backward()) checks the lengths.
    pub fn new(d_y: &'a [f32], [hidden, output]: [usize; 2], last_step: bool, v1: &[f32], v2: &[f32]) -> Self {
        let transposed = |v: &[f32]| {
            let fits = v.len() == hidden * output;
            let hidden = if fits { hidden } else { 0 };
            crate::readout::pack(output, hidden, |class, unit| v[unit * output + class])
        };
        Self { d_y, hidden, output, last_step, v1: transposed(v1), v2: transposed(v2) }
    }

    /// The start of step `t`'s rows and their distance, or `None` if the readout does not read this step.
    pub(super) fn step(&self, problem: &Problem, t: usize) -> Option<(usize, usize)> {
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
                // Check `hidden` as well as the padded width: the padding must stay zero.
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

/// Whether all values are exactly zero, of either sign.
fn is_zero(values: &[f32]) -> bool {
    // In blocks: the compiler vectorises a block, and one that is not zero ends the search.
    values.chunks(32).all(|block| block.iter().fold(0, |bits, d| bits | (d.to_bits() << 1)) == 0)
}
