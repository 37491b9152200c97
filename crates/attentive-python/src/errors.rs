//! Errors and panics as Python's exceptions.

use crate::fork::running;
use attentive_engine::EngineError;
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyValueError};
use pyo3::marker::Ungil;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The exception for an error of the engine.
pub(crate) fn exception(error: EngineError) -> PyErr {
    match error {
        EngineError::Token { .. } => PyIndexError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// Runs `body` without the GIL. A panic is a bug here, but it must not end the caller's process: it becomes a
/// `RuntimeError`.
pub(crate) fn guarded<T: Ungil + Send>(py: Python<'_>, body: impl FnOnce() -> T + Ungil + Send) -> PyResult<T> {
    let outcome = py.detach(|| {
        // Let go of before this thread takes the GIL again, which a thread that forks may hold.
        let _running = running();
        catch_unwind(AssertUnwindSafe(body))
    });
    outcome.map_err(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        PyRuntimeError::new_err(format!("the engine failed, which is a bug in attentive: {words}; please report it"))
    })
}

/// [`guarded`] for a body that may find an error of the caller's.
pub(crate) fn run<T: Ungil + Send>(
    py: Python<'_>, body: impl FnOnce() -> attentive_engine::Result<T> + Ungil + Send,
) -> PyResult<T> {
    guarded(py, body)?.map_err(exception)
}
