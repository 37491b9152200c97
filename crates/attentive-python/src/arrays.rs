//! NumPy arrays in the memory of Rust's objects. This is the crate's only file with `unsafe` code.

use attentive_engine::Buffer;
use numpy::ndarray::{ArrayView1, ArrayViewMut, IxDyn};
use numpy::{PyArray1, PyArrayDyn};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Keeps a buffer of the engine alive for the array that shows it. The buffer goes back to the pool with the array.
#[pyclass(frozen, module = "attentive._engine")]
struct Owner(#[allow(dead_code, reason = "it is here to be dropped")] Buffer);

/// An array of the first floats of a buffer, without a copy.
pub(crate) fn pooled<'py>(
    py: Python<'py>, mut buffer: Buffer, shape: &[usize],
) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
    let len = shape.iter().product::<usize>();
    let floats = buffer.as_mut_slice();
    let start = floats.as_mut_ptr();
    if len > floats.len() {
        return Err(PyRuntimeError::new_err(format!("a buffer of {} floats is too small for {len}", floats.len())));
    }
    // Moving a buffer does not move its floats.
    let owner = Bound::new(py, Owner(buffer))?.into_any();
    // SAFETY: `start` points to at least `len` initialised floats that live as long as `owner`, which nobody else uses:
    // a buffer is not cloned, and `Owner` only drops it.
    Ok(unsafe { PyArrayDyn::borrow_from_array(&ArrayViewMut::from_shape_ptr(IxDyn(shape), start), owner) })
}

/// An array of one number that keeps `owner` alive. The number lives in `owner`.
pub(crate) fn handle<'py>(owner: Bound<'py, PyAny>, number: &i64) -> Bound<'py, PyArray1<i64>> {
    // SAFETY: `number` lives in `owner`, on the heap, as the caller guarantees; numbers are not moved within a Python
    // object.
    unsafe { PyArray1::borrow_from_array(&ArrayView1::from_shape_ptr(1, number), owner) }
}
