//! The LSTM cell (R1), forward and backward.

use super::{CellBackward, CellForward, Layout, RecurrentCell};
use crate::kernels::math::{sigmoid, tanh};
use crate::kernels::simd::{LANES, Simd};
use crate::kernels::{Isa, kernel_table};
use crate::parameters::{Gain, Parameter};

/// R1: gates in the order i, f, g, o, one bias, a cell state c.
pub(crate) struct Lstm;

const GATES: usize = 4;
const IN_ORDER: &[usize] = &[0, 1, 2, 3];

impl RecurrentCell for Lstm {
    fn layout(&self) -> Layout {
        Layout {
            gates: "i, f, g, o",
            blocks: GATES,
            input: IN_ORDER,
            hidden: IN_ORDER,
            bias: IN_ORDER,
            keeps: 1,
            carries: true,
            passes_hidden: false,
        }
    }

    fn parameters(&self, input: usize, hidden: usize) -> Vec<Parameter> {
        vec![
            Parameter::cell("weight_ih", &[input, GATES * hidden], Gain::Input),
            Parameter::cell("weight_hh", &[hidden, GATES * hidden], Gain::One),
            Parameter::cell("bias", &[GATES * hidden], Gain::One),
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
    /// The LSTM's kernels.
    Kernels {
        forward = cell_forward(hidden: usize, units: (usize, usize), row: CellForward);
        backward = cell_backward(hidden: usize, units: (usize, usize), row: CellBackward);
    }
}

/// The index of the gate g, the one with a tanh.
const CANDIDATE: usize = 2;

/// Loads the four gates of some units. Each gate is a run of `hidden` floats, in the order i, f, g, o.
#[inline(always)]
unsafe fn load_gates<S: Simd>(gates: *const f32, hidden: usize, unit: usize) -> [S::V; 4] {
    // SAFETY: the caller promises four runs of `hidden` floats and unit + LANES <= hidden.
    std::array::from_fn(|gate| unsafe { S::load(gates.add(gate * hidden + unit)) })
}

/// `c = sigmoid(f) * c + sigmoid(i) * tanh(g)`, `h_hat = sigmoid(o) * tanh(c)`.
///
/// `gates` holds the pre-activations and receives the activations. If `input` is not null, it is the projected input of
/// a token, which is added to the pre-activations.
///
/// # Safety
/// As for [`RecurrentCell::forward`]; the instruction set of `S` must be available.
#[inline(always)]
unsafe fn cell_forward<S: Simd>(hidden: usize, units: (usize, usize), row: CellForward) {
    let CellForward { gates, input, cell_before, cell, h_hat, .. } = row;
    // SAFETY: unit + LANES <= units.1 <= hidden.
    unsafe {
        // Several short loops: a single long one would wait for its own results without other work to do.
        for gate in 0..GATES {
            for unit in (units.0..units.1).step_by(LANES) {
                let place = gates.add(gate * hidden + unit);
                let mut x = S::load(place);
                if !input.is_null() {
                    x = S::add(x, S::load(input.add(gate * hidden + unit)));
                }
                S::store(place, if gate == CANDIDATE { tanh::<S>(x) } else { sigmoid::<S>(x) });
            }
        }
        for unit in (units.0..units.1).step_by(LANES) {
            let [i, f, g, o] = load_gates::<S>(gates, hidden, unit);
            let c = S::fma(f, S::load(cell_before.add(unit)), S::mul(i, g));
            S::store(cell.add(unit), c);
            S::store(h_hat.add(unit), S::mul(o, tanh::<S>(c)));
        }
    }
}

/// The derivative of [`cell_forward`].
///
/// # Safety
/// As for [`cell_forward`], with the extents given at [`CellBackward`].
#[inline(always)]
unsafe fn cell_backward<S: Simd>(hidden: usize, units: (usize, usize), row: CellBackward) {
    // Copied into registers: through the struct, each field would be read again for every vector.
    let CellBackward { gates, cell, cell_before, d_h_hat, d_cell, d_gates, d_cell_before, h_hat, batch, .. } = row;
    let mut unit = units.0;
    while unit < units.1 {
        if unit.is_multiple_of(2 * LANES) {
            // One cache line per gate: the tape of the previous step is far away, and its products come first.
            let distance = batch * hidden;
            let next = gates.wrapping_add(unit).wrapping_sub(4 * distance);
            (0..4).for_each(|gate| S::prefetch(next.wrapping_add(gate * hidden)));
            S::prefetch(cell_before.wrapping_add(unit).wrapping_sub(distance));
        }
        // SAFETY: unit + LANES <= units.1 <= hidden.
        unsafe {
            let one = S::splat(1.0);
            let [i, f, g, o] = load_gates::<S>(gates, hidden, unit);
            let tanh_c = tanh::<S>(S::load(cell.add(unit)));
            let d_h = S::load(d_h_hat.add(unit));
            let mut d_c = S::mul(S::mul(d_h, o), S::fnma(tanh_c, tanh_c, one));
            if !d_cell.is_null() {
                d_c = S::add(d_c, S::load(d_cell.add(unit)));
            }
            let before = S::load(cell_before.add(unit));
            let values = [
                S::mul(S::mul(d_c, g), S::mul(i, S::sub(one, i))),
                S::mul(S::mul(d_c, before), S::mul(f, S::sub(one, f))),
                S::mul(S::mul(d_c, i), S::fnma(g, g, one)),
                S::mul(S::mul(d_h, tanh_c), S::mul(o, S::sub(one, o))),
            ];
            S::store(d_cell_before.add(unit), S::mul(d_c, f));
            for (gate, value) in values.into_iter().enumerate() {
                S::store(d_gates.add(gate * hidden + unit), value);
            }
            if !h_hat.is_null() {
                S::store(h_hat.add(unit), S::mul(o, tanh_c));
            }
        }
        unit += LANES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::tests::{both_isas, close, numbers, sigmoid, slope};

    /// The cell in f64: i, f, g, o, c, h_hat from pre-activations.
    fn cell(pre: &[f32], input: Option<&[f32]>, before: &[f32], hidden: usize) -> Vec<[f64; 6]> {
        (0..hidden)
            .map(|u| {
                let input = |g: usize| input.map_or(0.0, |x| f64::from(x[g * hidden + u]));
                let gate = |g: usize| f64::from(pre[g * hidden + u]) + input(g);
                let (i, f, g, o) = (sigmoid(gate(0)), sigmoid(gate(1)), gate(2).tanh(), sigmoid(gate(3)));
                let c = f * f64::from(before[u]) + i * g;
                [i, f, g, o, c, o * c.tanh()]
            })
            .collect()
    }

    #[test]
    fn r1_cell_agrees_with_plain_code_forward_and_backward() {
        let hidden = 32;
        for (isa, with_input) in both_isas().into_iter().flat_map(|isa| [(isa, false), (isa, true)]) {
            let pre = numbers(4 * hidden, 7, 3.0);
            let input = numbers(4 * hidden, 8, 3.0);
            let before = numbers(hidden, 9, 2.0);
            let right = cell(&pre, with_input.then_some(&input), &before, hidden);
            let mut gates = pre.clone();
            let (mut c, mut h_hat) = (vec![0.0; hidden], vec![0.0; hidden]);
            let row = CellForward {
                gates: gates.as_mut_ptr(),
                input: if with_input { input.as_ptr() } else { std::ptr::null() },
                hidden_before: std::ptr::null(),
                cell_before: before.as_ptr(),
                cell: c.as_mut_ptr(),
                h_hat: h_hat.as_mut_ptr(),
            };
            for units in [(0, 16), (16, 32)] {
                // SAFETY: extents as the kernel requires; an LSTM does not read `hidden_before`.
                unsafe { Lstm.forward(isa, hidden, units, row) };
            }
            for gate in 0..4 {
                close(&gates[gate * hidden..][..hidden], right.iter().map(|unit| unit[gate]), 1e-6);
            }
            close(&c, right.iter().map(|unit| unit[4]), 2e-6);
            close(&h_hat, right.iter().map(|unit| unit[5]), 2e-6);

            let d_h = numbers(hidden, 10, 1.0);
            for d_c in [numbers(hidden, 11, 1.0), vec![0.0; hidden]] {
                let (mut d_gates, mut d_before, mut again) =
                    (vec![f32::NAN; 4 * hidden], vec![f32::NAN; hidden], vec![f32::NAN; hidden]);
                let row = CellBackward {
                    gates: gates.as_ptr(),
                    hidden_before: std::ptr::null(),
                    cell: c.as_ptr(),
                    cell_before: before.as_ptr(),
                    d_h_hat: d_h.as_ptr(),
                    // A null adjoint means zeros.
                    d_cell: if d_c[0] == 0.0 { std::ptr::null() } else { d_c.as_ptr() },
                    d_gates: d_gates.as_mut_ptr(),
                    d_cell_before: d_before.as_mut_ptr(),
                    d_hidden_before: std::ptr::null_mut(),
                    h_hat: again.as_mut_ptr(),
                    batch: 1,
                };
                // SAFETY: extents as the kernel requires.
                unsafe { Lstm.backward(isa, hidden, (0, hidden), row) };
                assert_eq!(again, h_hat, "h_hat is recomputed bit for bit");
                // Compare with central differences of the plain code.
                let loss = |pre: &[f32], before: &[f32]| -> f64 {
                    let units = cell(pre, with_input.then_some(&input), before, hidden);
                    let part = |(u, x): (usize, &[f64; 6])| x[5] * f64::from(d_h[u]) + x[4] * f64::from(d_c[u]);
                    units.iter().enumerate().map(part).sum()
                };
                let step = 1.0 / 256.0;
                close(&d_gates, (0..4 * hidden).map(|i| slope(&pre, i, step, &|pre| loss(pre, &before))), 2e-4);
                close(&d_before, (0..hidden).map(|i| slope(&before, i, step, &|before| loss(&pre, before))), 2e-4);
            }
        }
    }
}
