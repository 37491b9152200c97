//! The gates and the cell of one step (R1, R15). The forward pass computes them, and a replay computes them again (R20).

use crate::kernels::Kernels;
use crate::kernels::gemm::{FEW_ROWS, PANEL, PackedMatrix, rows_at_a_time};
use crate::problem::{Inputs, Problem};
use crate::weights::PackedWeights;
use std::ops::Range;

/// `c[rows][..] = a[rows][k] * b[k]` for some panels of `b` and a part of k. Rows lie the given strides apart.
///
/// # Safety
/// `a` must be readable and `c` writable for `rows` rows at their strides, of which the panels and the part of k are
/// inside; no other thread may use these panels of `c`. The kernels must be those of this CPU.
pub(crate) unsafe fn multiply(
    kernels: &Kernels, panels: Range<usize>, rows: usize, (a, a_stride): (*const f32, usize), b: &PackedMatrix,
    k: Range<usize>, (c, c_stride): (*mut f32, usize),
) {
    if rows == 0 || panels.is_empty() {
        return;
    }
    if rows <= FEW_ROWS {
        let first = &b.panel(panels.start)[k.start * PANEL..];
        // SAFETY: guaranteed by the caller; the panels are adjacent, and `k` lies within each.
        unsafe {
            let (a, c) = (a.add(k.start), c.add(panels.start * PANEL));
            let (panels, stride) = (panels.len(), b.k() * PANEL);
            (kernels.multiply_few)(rows, k.len(), a, a_stride, panels, first.as_ptr(), stride, c, c_stride);
        }
        return;
    }
    let block = rows_at_a_time(rows, k.len());
    for first in (0..rows).step_by(block) {
        let rows = block.min(rows - first);
        for panel in panels.clone() {
            let b = b.panel(panel)[k.start * PANEL..k.end * PANEL].as_ptr();
            // SAFETY: guaranteed by the caller.
            unsafe {
                let (a, c) = (a.add(first * a_stride + k.start), c.add(first * c_stride + panel * PANEL));
                (kernels.multiply_panel)(rows, k.len(), a, a_stride, b, c, c_stride, false);
            }
        }
    }
}

/// The gates' products of rows `[h, x, 1]` for a range of unit panels. Rows lie `recurrent_width` floats apart, and those
/// of the gates the given stride.
///
/// # Safety
/// As for [`multiply`].
pub(crate) unsafe fn multiply_gates(
    problem: &Problem, weights: &PackedWeights, unit_panels: &Range<usize>, rows: usize, left: *const f32,
    gates: (*mut f32, usize),
) {
    let (layout, padded, width) = (problem.layout, problem.padded, problem.recurrent_width());
    for block in 0..layout.blocks {
        let of_block = block * padded / PANEL;
        let panels = of_block + unit_panels.start..of_block + unit_panels.end;
        // The left side is [h, x, 1]. A block may need only part of it.
        let from = if layout.hidden.contains(&block) { 0 } else { padded };
        let to = if layout.input.contains(&block) { width } else { padded };
        // SAFETY: guaranteed by the caller.
        unsafe { multiply(problem.kernels, panels, rows, (left, width), &weights.gates, from..to, gates) };
    }
}

/// What a cell adds to the products of step `t` of a row: the token's projection, or the bias of blocks that no input
/// fills, or nothing (null).
pub(crate) fn input_of(problem: &Problem, weights: &PackedWeights, row: usize, t: usize) -> *const f32 {
    match &problem.inputs {
        Inputs::Tokens(tokens) => {
            let (token, width) = (tokens[row * problem.time + t] as usize, problem.gate_width());
            weights.token_table[token * width..][..width].as_ptr()
        }
        Inputs::Dense if weights.constant.is_empty() => std::ptr::null(),
        Inputs::Dense => weights.constant.as_ptr(),
    }
}

/// Copies the dense input of step `t` of a row next to the hidden state, in a row `[h, x, 1]`. Tokens need none.
pub(crate) fn feed(problem: &Problem, dense: &[f32], (row, t): (usize, usize), left: &mut [f32]) {
    if matches!(problem.inputs, Inputs::Dense) {
        let (padded, input) = (problem.padded, problem.input);
        left[padded..padded + input].copy_from_slice(&dense[(row * problem.time + t) * input..][..input]);
        left[padded + input] = 1.0;
    }
}
