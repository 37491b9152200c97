//! The parameters as the kernels want them: padded, and packed once a call.

use super::aligned::Aligned;
use super::kernels::gemm::{PANEL, PackedMatrix};
use super::problem::{Inputs, Problem};
use super::team;
use std::sync::Mutex;

/// The parameters as Burn holds them, row-major `[d_input, d_output]`, gates in the order i, f, g, o.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters<'a> {
    /// `[input, 4 * hidden]`
    pub(crate) weight_ih: &'a [f32],
    /// `[hidden, 4 * hidden]`
    pub(crate) weight_hh: &'a [f32],
    /// `[4 * hidden]`
    pub(crate) bias: &'a [f32],
    /// `[hidden, hidden]`
    pub(crate) w1: &'a [f32],
    /// `[hidden, hidden]`
    pub(crate) w2: &'a [f32],
    /// `[hidden]`
    pub(crate) w3: &'a [f32],
}

impl Parameters<'_> {
    /// The first parameter that holds a NaN or an infinity.
    pub(crate) fn non_finite(&self) -> Option<&'static str> {
        let all = [
            ("weight_ih", self.weight_ih),
            ("weight_hh", self.weight_hh),
            ("bias", self.bias),
            ("w1", self.w1),
            ("w2", self.w2),
            ("w3", self.w3),
        ];
        all.into_iter().find(|(_, values)| !all_finite(values)).map(|(name, _)| name)
    }
}

/// Whether no value is a NaN or an infinity.
pub(crate) fn all_finite(values: &[f32]) -> bool {
    // The largest exponent, as whole numbers: the compiler vectorises this, and memory is the limit.
    values.iter().fold(0, |largest, x| largest.max(x.to_bits() & 0x7fff_ffff)) < 0x7f80_0000
}

/// Fills the panels of a packed matrix, `fill(panel, values)`, on several threads.
fn pack(k: usize, columns: usize, threads: usize, fill: impl Fn(usize, &mut [f32]) + Sync) -> PackedMatrix {
    let mut packed = PackedMatrix::new(k, columns);
    // Below this a matrix is packed before a thread has started.
    let threads = if k * columns < 1 << 19 { 1 } else { threads };
    {
        let panels: Vec<_> = packed.panels_mut().map(Mutex::new).collect();
        team::run(threads, |index| {
            for panel in team::share(panels.len(), index, threads) {
                // Each panel is locked once, by the one thread whose share it is.
                let mut slice = panels[panel].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                fill(panel, &mut slice);
            }
        });
    }
    packed
}

/// Where padded column `column` of a matrix with `blocks` blocks of `hidden` columns comes from.
fn unpadded(problem: &Problem, column: usize) -> Option<usize> {
    let (block, unit) = (column / problem.padded, column % problem.padded);
    (unit < problem.hidden).then_some(block * problem.hidden + unit)
}

/// Copies rows of `matrix` (`[_, width]`, width a multiple of hidden) into a panel, row `first_k` on.
fn copy_rows(problem: &Problem, panel: usize, slice: &mut [f32], first_k: usize, matrix: &[f32], width: usize) {
    for (row, values) in matrix.chunks_exact(width).enumerate() {
        let to = &mut slice[(first_k + row) * PANEL..][..PANEL];
        match unpadded(problem, panel * PANEL) {
            // Panels never straddle two gates: padded is a multiple of the panel width.
            Some(from) if unpadded(problem, panel * PANEL + PANEL - 1).is_some() => {
                to.copy_from_slice(&values[from..from + PANEL]);
            }
            _ => {
                for (i, to) in to.iter_mut().enumerate() {
                    *to = unpadded(problem, panel * PANEL + i).map_or(0.0, |from| values[from]);
                }
            }
        }
    }
}

/// Packs the transpose of `matrix` (`[rows, width]`): k runs over its padded columns, columns over its rows.
fn pack_transposed(problem: &Problem, matrix: &[f32], rows: usize, width: usize, threads: usize) -> PackedMatrix {
    let k = width / problem.hidden * problem.padded;
    pack(k, rows, threads, |panel, slice| {
        for (column, row) in (panel * PANEL..rows.min((panel + 1) * PANEL)).enumerate() {
            let values = &matrix[row * width..(row + 1) * width];
            for (block, values) in values.chunks_exact(problem.hidden).enumerate() {
                let to = slice[block * problem.padded * PANEL + column..].iter_mut().step_by(PANEL);
                to.zip(values).for_each(|(to, from)| *to = *from);
            }
        }
    })
}

/// What the forward pass multiplies by.
#[derive(Debug)]
pub(crate) struct ForwardWeights {
    /// `[h (, x, 1)] -> gates`: `[recurrent_width, 4 * padded]`
    pub(super) gates: PackedMatrix,
    /// Projected inputs of the tokens with the bias added, `[input, 4 * padded]`; empty for dense inputs.
    pub(super) token_table: Aligned,
    pub(super) w1: PackedMatrix,
    pub(super) w2: PackedMatrix,
    /// `[padded]`
    pub(super) w3: Aligned,
}

impl ForwardWeights {
    pub(crate) fn new(problem: &Problem, parameters: &Parameters<'_>) -> Self {
        let threads = problem.workers();
        let (hidden, padded) = (problem.hidden, problem.padded);
        let dense = matches!(problem.inputs, Inputs::Dense);
        let gates = pack(problem.recurrent_width(), 4 * padded, threads, |panel, slice| {
            copy_rows(problem, panel, slice, 0, parameters.weight_hh, 4 * hidden);
            if dense {
                copy_rows(problem, panel, slice, padded, parameters.weight_ih, 4 * hidden);
                copy_rows(problem, panel, slice, padded + problem.input, parameters.bias, 4 * hidden);
            }
        });
        let mut token_table = Aligned::default();
        if !dense {
            token_table = Aligned::zeros(problem.input * 4 * padded);
            let rows = token_table.chunks_exact_mut(4 * padded).zip(parameters.weight_ih.chunks_exact(4 * hidden));
            for (to, from) in rows {
                for gate in 0..4 {
                    let bias = &parameters.bias[gate * hidden..][..hidden];
                    let sums = from[gate * hidden..][..hidden].iter().zip(bias).map(|(w, b)| w + b);
                    to[gate * padded..][..hidden].iter_mut().zip(sums).for_each(|(to, sum)| *to = sum);
                }
            }
        }
        let square = |matrix: &[f32]| {
            if !problem.rules.attends() {
                return PackedMatrix::default();
            }
            pack(hidden, padded, threads, |panel, slice| copy_rows(problem, panel, slice, 0, matrix, hidden))
        };
        let mut w3 = Aligned::zeros(padded);
        w3[..hidden].copy_from_slice(parameters.w3);
        Self { gates, token_table, w1: square(parameters.w1), w2: square(parameters.w2), w3 }
    }

    /// Whether they were packed for this kind of input; a layer may take both.
    pub(crate) fn fits(&self, problem: &Problem) -> bool {
        self.token_table.is_empty() == matches!(problem.inputs, Inputs::Dense)
    }
}

/// What the backward pass multiplies by: transposes.
pub(super) struct BackwardWeights {
    /// gates -> h: `[4 * padded, padded]`
    pub(super) weight_hh: PackedMatrix,
    /// gates -> x: `[4 * padded, input]`, where the input wants a gradient.
    pub(super) weight_ih: Option<PackedMatrix>,
    /// The scorer's, where its gradient enters the states.
    pub(super) w1: Option<PackedMatrix>,
    pub(super) w2: Option<PackedMatrix>,
}

impl BackwardWeights {
    pub(super) fn new(problem: &Problem, parameters: &Parameters<'_>, input_gradient: bool, threads: usize) -> Self {
        let hidden = problem.hidden;
        let full = problem.rules.attends() && problem.rules.score_gradient == crate::config::ScoreGradient::Full;
        let square = |wanted: bool, matrix| wanted.then(|| pack_transposed(problem, matrix, hidden, hidden, threads));
        Self {
            weight_hh: pack_transposed(problem, parameters.weight_hh, hidden, 4 * hidden, threads),
            weight_ih: input_gradient
                .then(|| pack_transposed(problem, parameters.weight_ih, problem.input, 4 * hidden, threads)),
            w1: square(full && problem.rules.mental_updates, parameters.w1),
            w2: square(full, parameters.w2),
        }
    }
}
