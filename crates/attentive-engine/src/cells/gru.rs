//! PyTorch's gated recurrent unit (R15), forward and backward.
//!
//! `r = sigmoid(W_ir x + W_hr h + b_r)`, `z` likewise, `n = tanh(W_in x + b_n + r * (W_hn h + b_hn))`, `h_hat = (1 - z)
//! * n + z * h`. The reset gate is applied between the candidate's two products, so each of them has a gate block: n,
//! r, z, and q for `W_hn h + b_hn`. In this order the input fills the first three and the hidden state the last three.

use super::{CellBackward, CellForward, Layout, RecurrentCell};
use crate::kernels::math::{sigmoid, tanh};
use crate::kernels::simd::{LANES, Simd};
use crate::kernels::{Isa, kernel_table};
use crate::parameters::{Gain, Parameter};

/// R15: parameters in PyTorch's order r, z, n; the bias has a fourth block, the hidden side of n. No cell state.
pub(crate) struct Gru;

const BLOCKS: usize = 4;
const N: usize = 0;
const R: usize = 1;
const Z: usize = 2;
const Q: usize = 3;

impl RecurrentCell for Gru {
    fn layout(&self) -> Layout {
        Layout {
            gates: "r, z, n",
            blocks: BLOCKS,
            input: &[R, Z, N],
            hidden: &[R, Z, Q],
            bias: &[R, Z, N, Q],
            keeps: 1,
            carries: false,
            passes_hidden: true,
        }
    }

    fn parameters(&self, input: usize, hidden: usize) -> Vec<Parameter> {
        vec![
            Parameter::cell("weight_ih", &[input, 3 * hidden], Gain::Input),
            Parameter::cell("weight_hh", &[hidden, 3 * hidden], Gain::One),
            Parameter::cell("bias", &[4 * hidden], Gain::One),
        ]
    }

    unsafe fn forward(&self, isa: Isa, padded: usize, units: (usize, usize), row: CellForward) {
        // SAFETY: guaranteed by the caller.
        unsafe { (Kernels::of(isa).forward)(padded, units, row) }
    }

    unsafe fn backward(&self, isa: Isa, padded: usize, units: (usize, usize), row: CellBackward) {
        // SAFETY: guaranteed by the caller.
        unsafe { (Kernels::of(isa).backward)(padded, units, row) }
    }
}

kernel_table! {
    /// The GRU's kernels.
    Kernels {
        forward = cell_forward(padded: usize, units: (usize, usize), row: CellForward);
        backward = cell_backward(padded: usize, units: (usize, usize), row: CellBackward);
    }
}

/// Leaves n, r, z and q in the gate blocks.
///
/// # Safety
/// As for [`RecurrentCell::forward`]; the instruction set of `S` must be available.
#[inline(always)]
unsafe fn cell_forward<S: Simd>(padded: usize, units: (usize, usize), row: CellForward) {
    for unit in (units.0..units.1).step_by(LANES) {
        // SAFETY: unit + LANES <= units.1 <= padded, and there are four blocks.
        unsafe {
            let place = |block: usize| row.gates.add(block * padded + unit);
            let product = |block: usize| {
                let x = S::load(place(block));
                if row.input.is_null() { x } else { S::add(x, S::load(row.input.add(block * padded + unit))) }
            };
            let (r, z, q) = (sigmoid::<S>(product(R)), sigmoid::<S>(product(Z)), product(Q));
            let n = tanh::<S>(S::fma(r, q, product(N)));
            for (block, value) in [(N, n), (R, r), (Z, z), (Q, q)] {
                S::store(place(block), value);
            }
            let before = S::load(row.hidden_before.add(unit));
            S::store(row.h_hat.add(unit), S::fma(z, S::sub(before, n), n));
        }
    }
}

/// The derivative of [`cell_forward`].
///
/// # Safety
/// As for [`RecurrentCell::backward`]; the instruction set of `S` must be available.
#[inline(always)]
unsafe fn cell_backward<S: Simd>(padded: usize, units: (usize, usize), row: CellBackward) {
    for unit in (units.0..units.1).step_by(LANES) {
        if unit.is_multiple_of(2 * LANES) {
            // One cache line per block: the tape of the previous step is far away, and its products come first.
            let gates = row.gates.wrapping_add(unit).wrapping_sub(BLOCKS * row.batch * padded);
            (0..BLOCKS).for_each(|block| S::prefetch(gates.wrapping_add(block * padded)));
        }
        // SAFETY: unit + LANES <= units.1 <= padded, and there are four blocks.
        unsafe {
            let one = S::splat(1.0);
            let [n, r, z, q] = std::array::from_fn(|block| S::load(row.gates.add(block * padded + unit)));
            let before = S::load(row.hidden_before.add(unit));
            let d_h = S::load(row.d_h_hat.add(unit));
            let d_n = S::mul(S::mul(d_h, S::sub(one, z)), S::fnma(n, n, one));
            let d_z = S::mul(S::mul(d_h, S::sub(before, n)), S::mul(z, S::sub(one, z)));
            let d_r = S::mul(S::mul(d_n, q), S::mul(r, S::sub(one, r)));
            for (block, value) in [(N, d_n), (R, d_r), (Z, d_z), (Q, S::mul(d_n, r))] {
                S::store(row.d_gates.add(block * padded + unit), value);
            }
            S::store(row.d_hidden_before.add(unit), S::mul(d_h, z));
            if !row.h_hat.is_null() {
                S::store(row.h_hat.add(unit), S::fma(z, S::sub(before, n), n));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::tests::{both_isas, close, numbers, sigmoid, slope};

    /// The cell in f64: n, r, z, q, h_hat from the contents of the blocks n, r, z, q.
    fn cell(pre: &[f32], input: Option<&[f32]>, before: &[f32], hidden: usize) -> Vec<[f64; 5]> {
        (0..hidden)
            .map(|u| {
                let input = |g: usize| input.map_or(0.0, |x| f64::from(x[g * hidden + u]));
                let block = |g: usize| f64::from(pre[g * hidden + u]) + input(g);
                let (r, z, q) = (sigmoid(block(1)), sigmoid(block(2)), block(3));
                let n = (block(0) + r * q).tanh();
                [n, r, z, q, (1.0 - z) * n + z * f64::from(before[u])]
            })
            .collect()
    }

    #[test]
    fn r15_gru_agrees_with_plain_code_forward_and_backward() {
        let hidden = 32;
        for (isa, with_input) in both_isas().into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
            let pre = numbers(4 * hidden, 51, 3.0);
            let input = numbers(4 * hidden, 52, 3.0);
            let before = numbers(hidden, 53, 2.0);
            let right = cell(&pre, with_input.then_some(&input), &before, hidden);
            let (mut gates, mut h_hat) = (pre.clone(), vec![f32::NAN; hidden]);
            let row = CellForward {
                gates: gates.as_mut_ptr(),
                input: if with_input { input.as_ptr() } else { std::ptr::null() },
                hidden_before: before.as_ptr(),
                cell_before: std::ptr::null(),
                cell: std::ptr::null_mut(),
                h_hat: h_hat.as_mut_ptr(),
            };
            for units in [(0, 16), (16, 32)] {
                // SAFETY: extents as the kernel requires.
                unsafe { Gru.forward(isa, hidden, units, row) };
            }
            for block in 0..4 {
                close(&gates[block * hidden..][..hidden], right.iter().map(|unit| unit[block]), 1e-6);
            }
            close(&h_hat, right.iter().map(|unit| unit[4]), 2e-6);

            let d_h = numbers(hidden, 54, 1.0);
            let (mut d_gates, mut d_before, mut again) =
                (vec![f32::NAN; 4 * hidden], vec![f32::NAN; hidden], vec![f32::NAN; hidden]);
            let row = CellBackward {
                gates: gates.as_ptr(),
                hidden_before: before.as_ptr(),
                cell: std::ptr::null(),
                cell_before: std::ptr::null(),
                d_h_hat: d_h.as_ptr(),
                d_cell: std::ptr::null(),
                d_gates: d_gates.as_mut_ptr(),
                d_cell_before: std::ptr::null_mut(),
                d_hidden_before: d_before.as_mut_ptr(),
                h_hat: again.as_mut_ptr(),
                batch: 1,
            };
            // SAFETY: extents as the kernel requires.
            unsafe { Gru.backward(isa, hidden, (0, hidden), row) };
            assert_eq!(again, h_hat, "h_hat is recomputed bit for bit");
            // Compare with central differences of the plain code.
            let loss = |pre: &[f32], before: &[f32]| -> f64 {
                let units = cell(pre, with_input.then_some(&input), before, hidden);
                units.iter().zip(&d_h).map(|(unit, d)| unit[4] * f64::from(*d)).sum()
            };
            let step = 1.0 / 256.0;
            close(&d_gates, (0..4 * hidden).map(|i| slope(&pre, i, step, &|pre| loss(pre, &before))), 2e-4);
            close(&d_before, (0..hidden).map(|i| slope(&before, i, step, &|before| loss(&pre, before))), 2e-4);
        }
    }
}
