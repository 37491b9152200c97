//! The engine for Python: `attentive._engine`.
//!
//! ```text
//! Model    the parts and options, checked                    (model)
//! Weights  parameters in the engine's order, packed once     (weights)
//! forward  arrays in, arrays out, State and Tape beside them (call)
//! Tape     backward: gradients in PyTorch's layout           (tape)
//! State    what a batch carries to the next call             (state, line, segments)
//! ```
//!
//! Every function takes contiguous NumPy arrays and returns NumPy arrays without copying them. The GIL is released while
//! the engine computes. Python's side, `python/attentive`, checks types and shapes and adds PyTorch.

mod arrays;
mod call;
mod errors;
mod fork;
mod line;
mod model;
mod readout;
mod segments;
mod state;
mod tape;
mod turn;
mod weights;

use pyo3::prelude::*;

/// The engine of Sparse Attentive Backtracking.
#[pymodule(name = "_engine")]
mod module {
    #[pymodule_export]
    use super::call::forward;
    #[pymodule_export]
    use super::fork::{after, before};
    #[pymodule_export]
    use super::model::{Model, names};
    #[pymodule_export]
    use super::readout::{readout, readout_backward};
    #[pymodule_export]
    use super::state::State;
    #[pymodule_export]
    use super::tape::Tape;
    #[pymodule_export]
    use super::weights::Weights;
    #[pymodule_export]
    use super::{keep_freed_memory, panic_for_tests};
}

/// Tells the C library to keep freed memory for the next allocation. Returns whether it had an effect.
#[pyfunction]
fn keep_freed_memory() -> bool {
    attentive_engine::keep_freed_memory()
}

/// Panics inside the engine's part of a call, so that a test sees what becomes of it.
#[pyfunction(name = "_panic")]
fn panic_for_tests(py: Python<'_>) -> PyResult<()> {
    errors::guarded(py, || panic!("this is a test"))
}
