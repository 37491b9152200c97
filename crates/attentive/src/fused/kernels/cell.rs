//! The LSTM cell (R1), forward and backward, for one row and a range of its units.

use super::math::{sigmoid, tanh};
use super::simd::{LANES, Simd};

/// The place of g among the gates, the one that is a tanh.
const CANDIDATE: usize = 2;

/// Where the four gates of unit 0 lie: each gate is a run of `hidden` floats, in the order i, f, g, o.
#[inline(always)]
unsafe fn load_gates<S: Simd>(gates: *const f32, hidden: usize, unit: usize) -> [S::V; 4] {
    // SAFETY: the caller promises four runs of `hidden` floats and unit + LANES <= hidden.
    std::array::from_fn(|gate| unsafe { S::load(gates.add(gate * hidden + unit)) })
}

/// `c = sigmoid(f) * c + sigmoid(i) * tanh(g)`, `h_hat = sigmoid(o) * tanh(c)`.
///
/// `gates` holds the pre-activations and receives the activations. `input` is added to them if it is not null:
/// the projected input of a token.
///
/// # Safety
/// `gates` and `input` (if any) must span `4 * hidden` floats, the others `hidden`; `units` must be a range of
/// multiples of 8 inside `hidden`; the instruction set of `S` must be available.
#[inline(always)]
pub(super) unsafe fn cell_forward<S: Simd>(
    hidden: usize, units: (usize, usize), gates: *mut f32, input: *const f32, cell_before: *const f32, cell: *mut f32,
    h_hat: *mut f32,
) {
    // SAFETY: unit + LANES <= units.1 <= hidden.
    unsafe {
        // Short loops one after another: a long one waits for its own results, with nothing else at hand to compute.
        for gate in 0..4 {
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

/// What [`cell_backward`] reads and writes for one row; every pointer spans `hidden` floats unless said.
#[derive(Clone, Copy)]
pub(crate) struct CellBackward {
    /// Activations of the four gates, `4 * hidden`.
    pub(crate) gates: *const f32,
    pub(crate) cell: *const f32,
    pub(crate) cell_before: *const f32,
    /// Adjoint of h_hat.
    pub(crate) d_h_hat: *const f32,
    /// Adjoint of the cell from the next step, or null.
    pub(crate) d_cell: *const f32,
    /// Adjoint of the gates' pre-activations, `4 * hidden`.
    pub(crate) d_gates: *mut f32,
    /// Adjoint of the cell before this step.
    pub(crate) d_cell_before: *mut f32,
    /// Receives h_hat, made again; or null.
    pub(crate) h_hat: *mut f32,
    /// How many rows of cells lie between this step and the one before, which is next.
    pub(crate) batch: usize,
}

/// The derivative of [`cell_forward`].
///
/// # Safety
/// As for [`cell_forward`], with the extents given at [`CellBackward`].
#[inline(always)]
pub(super) unsafe fn cell_backward<S: Simd>(hidden: usize, units: (usize, usize), row: CellBackward) {
    let mut unit = units.0;
    while unit < units.1 {
        if unit.is_multiple_of(2 * LANES) {
            // A cache line each: the tape of the step before is far away, and the products come first.
            let before = row.batch * hidden;
            let gates = row.gates.wrapping_add(unit).wrapping_sub(4 * before);
            (0..4).for_each(|gate| S::prefetch(gates.wrapping_add(gate * hidden)));
            S::prefetch(row.cell_before.wrapping_add(unit).wrapping_sub(before));
        }
        // SAFETY: unit + LANES <= units.1 <= hidden.
        unsafe {
            let one = S::splat(1.0);
            let [i, f, g, o] = load_gates::<S>(row.gates, hidden, unit);
            let tanh_c = tanh::<S>(S::load(row.cell.add(unit)));
            let d_h = S::load(row.d_h_hat.add(unit));
            let mut d_c = S::mul(S::mul(d_h, o), S::fnma(tanh_c, tanh_c, one));
            if !row.d_cell.is_null() {
                d_c = S::add(d_c, S::load(row.d_cell.add(unit)));
            }
            let before = S::load(row.cell_before.add(unit));
            let d_gates = [
                S::mul(S::mul(d_c, g), S::mul(i, S::sub(one, i))),
                S::mul(S::mul(d_c, before), S::mul(f, S::sub(one, f))),
                S::mul(S::mul(d_c, i), S::fnma(g, g, one)),
                S::mul(S::mul(d_h, tanh_c), S::mul(o, S::sub(one, o))),
            ];
            S::store(row.d_cell_before.add(unit), S::mul(d_c, f));
            for (gate, value) in d_gates.into_iter().enumerate() {
                S::store(row.d_gates.add(gate * hidden + unit), value);
            }
            if !row.h_hat.is_null() {
                S::store(row.h_hat.add(unit), S::mul(o, tanh_c));
            }
        }
        unit += LANES;
    }
}
