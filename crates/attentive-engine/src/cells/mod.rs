//! Recurrent cells (R1, R15). A cell computes the provisional hidden state h_hat from an input and the previous state.
//!
//! A cell works on *gate blocks*: runs of `padded` floats that hold the products with the input and the hidden state.
//! Its layout says which block of each parameter fills which gate block, and its kernels do the rest.

mod gru;
mod lstm;

use crate::kernels::Isa;
use crate::parameters::Parameter;
use crate::registry::registry;

registry! {
    /// The recurrent cell (R15).
    Cell ("cell"): dyn RecurrentCell {
        /// R1: long short-term memory, gates i, f, g, o, one bias.
        Lstm = "lstm" => lstm::Lstm,
        /// PyTorch's gated recurrent unit: the reset gate is applied after the recurrent product.
        Gru = "gru" => gru::Gru,
    }
}

impl Cell {
    /// Whether the cell carries a cell state c besides h.
    pub fn carries(self) -> bool {
        self.part().layout().carries
    }

    /// The names of the gates, in the order of the weights' columns.
    pub fn gates(self) -> &'static str {
        self.part().layout().gates
    }

    /// The block of the bias that controls how much of the state is kept: the target of a forget bias. Blocks have
    /// `hidden` floats each.
    pub fn keeping_block(self) -> usize {
        self.part().layout().keeps
    }
}

/// How a cell's parameters map to its gate blocks. The blocks that the input fills are consecutive, and so are those
/// that the hidden state fills, so that products have no gaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The names of the gates, in the order of the weights' columns.
    pub(crate) gates: &'static str,
    /// The number of gate blocks.
    pub(crate) blocks: usize,
    /// For each block of `weight_ih`'s columns, the gate block it fills.
    pub(crate) input: &'static [usize],
    /// For each block of `weight_hh`'s columns, the gate block it fills.
    pub(crate) hidden: &'static [usize],
    /// For each block of the bias, the gate block it fills.
    pub(crate) bias: &'static [usize],
    /// The block of the bias that controls how much of the state is kept.
    pub(crate) keeps: usize,
    /// Whether the cell carries a cell state c besides h.
    pub(crate) carries: bool,
    /// Whether h(t-1) enters h_hat directly as well as through the products. The backward kernel then has an adjoint
    /// for it.
    pub(crate) passes_hidden: bool,
}

impl Layout {
    /// The range of gate blocks that the columns `of` fill.
    pub(crate) fn range(of: &[usize]) -> std::ops::Range<usize> {
        let first = of.iter().min().copied().unwrap_or(0);
        first..of.iter().max().map_or(first, |last| last + 1)
    }
}

/// The arguments of [`RecurrentCell::forward`] for one row. Pointers span `padded` floats unless stated otherwise.
#[derive(Clone, Copy)]
pub(crate) struct CellForward {
    /// Products of the gate blocks, `blocks * padded`. The kernel replaces them by the values that backward needs.
    pub(crate) gates: *mut f32,
    /// Added to the products, `blocks * padded`, or null. It is a token's projected input, or the bias of blocks that
    /// no input fills.
    pub(crate) input: *const f32,
    /// h(t-1)
    pub(crate) hidden_before: *const f32,
    /// c(t-1); null for a cell without a cell state, like `cell`.
    pub(crate) cell_before: *const f32,
    pub(crate) cell: *mut f32,
    pub(crate) h_hat: *mut f32,
}

/// The arguments of [`RecurrentCell::backward`] for one row. Pointers span `padded` floats unless stated otherwise.
#[derive(Clone, Copy)]
pub(crate) struct CellBackward {
    /// The gate blocks as forward left them, `blocks * padded`.
    pub(crate) gates: *const f32,
    /// h(t-1)
    pub(crate) hidden_before: *const f32,
    /// c(t) and c(t-1); null for a cell without a cell state.
    pub(crate) cell: *const f32,
    pub(crate) cell_before: *const f32,
    /// Adjoint of h_hat.
    pub(crate) d_h_hat: *const f32,
    /// Adjoint of c(t) from step t+1, or null.
    pub(crate) d_cell: *const f32,
    /// Receives the adjoint of the products, `blocks * padded`.
    pub(crate) d_gates: *mut f32,
    /// Receives the adjoint of c(t-1); null for a cell without a cell state.
    pub(crate) d_cell_before: *mut f32,
    /// Receives the direct adjoint of h(t-1), without the products; null if the layout has none.
    pub(crate) d_hidden_before: *mut f32,
    /// Receives the recomputed h_hat, or null.
    pub(crate) h_hat: *mut f32,
    /// The number of tape rows between this step and the previous one, which the sweep visits next.
    pub(crate) batch: usize,
}

/// A recurrent cell: forward and derivative, for one row and a range of its units.
pub(crate) trait RecurrentCell: Sync {
    fn layout(&self) -> Layout;

    /// `weight_ih`, `weight_hh` and `bias`, in this order.
    fn parameters(&self, input: usize, hidden: usize) -> Vec<Parameter>;

    /// # Safety
    /// Pointers must span the lengths given at [`CellForward`]; `units` must be a range of multiples of 16 inside
    /// `padded`; the CPU must have `isa`.
    unsafe fn forward(&self, isa: Isa, padded: usize, units: (usize, usize), row: CellForward);

    /// # Safety
    /// As for [`forward`](RecurrentCell::forward), with the lengths given at [`CellBackward`].
    unsafe fn backward(&self, isa: Isa, padded: usize, units: (usize, usize), row: CellBackward);
}
