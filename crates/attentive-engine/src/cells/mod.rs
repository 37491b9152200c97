//! Recurrent cells (R1, R15): what turns an input and the state before into the provisional hidden state h_hat.
//!
//! A cell works on *gate blocks*: runs of `padded` floats that products with the input and the hidden state fill. It says
//! which block of each parameter belongs where, and its kernels do the rest.

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
    /// Whether a cell state c is carried beside h.
    pub fn carries(self) -> bool {
        self.part().layout().carries
    }

    /// The names of the gates, in the order of the weights' columns.
    pub fn gates(self) -> &'static str {
        self.part().layout().gates
    }

    /// The block of the bias, of `hidden` floats each, that keeps the state: what a forget bias is added to.
    pub fn keeping_block(self) -> usize {
        self.part().layout().keeps
    }
}

/// How a cell's parameters and its gate blocks belong together. Blocks that the input fills are consecutive, as are those
/// that the hidden state fills, so that products need no gaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The names of the gates, in the order of the weights' columns.
    pub(crate) gates: &'static str,
    /// Gate blocks.
    pub(crate) blocks: usize,
    /// For each block of `weight_ih`'s columns, the gate block it fills.
    pub(crate) input: &'static [usize],
    /// For each block of `weight_hh`'s columns, the gate block it fills.
    pub(crate) hidden: &'static [usize],
    /// For each block of the bias, its gate block.
    pub(crate) bias: &'static [usize],
    /// The block of the bias that keeps the state.
    pub(crate) keeps: usize,
    /// Whether a cell state c is carried beside h.
    pub(crate) carries: bool,
    /// Whether h(t-1) enters h_hat beside the products, so that the backward kernel has an adjoint for it.
    pub(crate) passes_hidden: bool,
}

impl Layout {
    /// The gate blocks that some columns fill.
    pub(crate) fn range(of: &[usize]) -> std::ops::Range<usize> {
        let first = of.iter().min().copied().unwrap_or(0);
        first..of.iter().max().map_or(first, |last| last + 1)
    }
}

/// What [`RecurrentCell::forward`] reads and writes for one row; pointers span `padded` floats unless said.
#[derive(Clone, Copy)]
pub(crate) struct CellForward {
    /// Products of the gate blocks, replaced by what backward needs; `blocks * padded`.
    pub(crate) gates: *mut f32,
    /// Added to the products, `blocks * padded`, or null: a token's projected input, or a bias that no input carries.
    pub(crate) input: *const f32,
    /// h(t-1)
    pub(crate) hidden_before: *const f32,
    /// c(t-1); null without a cell state, as is `cell`.
    pub(crate) cell_before: *const f32,
    pub(crate) cell: *mut f32,
    pub(crate) h_hat: *mut f32,
}

/// What [`RecurrentCell::backward`] reads and writes for one row; pointers span `padded` floats unless said.
#[derive(Clone, Copy)]
pub(crate) struct CellBackward {
    /// What forward left in the gate blocks, `blocks * padded`.
    pub(crate) gates: *const f32,
    /// h(t-1)
    pub(crate) hidden_before: *const f32,
    /// c(t) and c(t-1); null without a cell state.
    pub(crate) cell: *const f32,
    pub(crate) cell_before: *const f32,
    /// Adjoint of h_hat.
    pub(crate) d_h_hat: *const f32,
    /// Adjoint of the cell from the next step, or null.
    pub(crate) d_cell: *const f32,
    /// Adjoint of the products, `blocks * padded`.
    pub(crate) d_gates: *mut f32,
    /// Adjoint of the cell before this step; null without a cell state.
    pub(crate) d_cell_before: *mut f32,
    /// Adjoint of h(t-1) beside the products; null where the layout says that there is none.
    pub(crate) d_hidden_before: *mut f32,
    /// Receives h_hat, made again; or null.
    pub(crate) h_hat: *mut f32,
    /// How many rows of the tape lie between this step and the one before, which is next.
    pub(crate) batch: usize,
}

/// A recurrent cell: forward and derivative, for one row and a range of its units.
pub(crate) trait RecurrentCell: Sync {
    fn layout(&self) -> Layout;

    /// `weight_ih`, `weight_hh` and `bias`, in this order.
    fn parameters(&self, input: usize, hidden: usize) -> Vec<Parameter>;

    /// # Safety
    /// Pointers must span what [`CellForward`] says; `units` must be a range of multiples of 16 inside `padded`; the CPU must
    /// have `isa`.
    unsafe fn forward(&self, isa: Isa, padded: usize, units: (usize, usize), row: CellForward);

    /// # Safety
    /// As for [`forward`](RecurrentCell::forward), with [`CellBackward`].
    unsafe fn backward(&self, isa: Isa, padded: usize, units: (usize, usize), row: CellBackward);
}
