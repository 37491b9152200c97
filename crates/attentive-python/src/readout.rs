//! The output layer (R8) with the engine's kernels.

use crate::errors::run;
use crate::turn::turned;
use attentive_engine::{InstructionSet, Readout};
use numpy::ndarray::{Array1, Array2};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

type Matrix<'py> = PyReadonlyArray2<'py, f32>;

/// `[rows, output]` from states and summaries, `[rows, hidden]` each, and matrices in PyTorch's layout,
/// `[output, hidden]` each. No summary means all zero.
#[pyfunction]
pub(crate) fn readout<'py>(
    py: Python<'py>, hidden: Matrix<'py>, summary: Option<Matrix<'py>>, v1: Matrix<'py>, v2: Matrix<'py>,
    bias: PyReadonlyArray1<'py, f32>, threads: usize,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let sizes = Sizes::of(&hidden, &v1, threads);
    let (h, s) = (hidden.as_slice()?, optional(&summary)?);
    let (v1, v2, bias) = (v1.as_slice()?, v2.as_slice()?, bias.as_slice()?);
    let y = run(py, || sizes.with(v1, v2, |readout| readout.forward(h, s, bias)))?;
    matrix(py, y, sizes.rows)
}

/// Gradients of the states and the summaries, if they are wanted, of both matrices and of the bias, from that of the
/// output.
type Gradients<'py> = (
    Option<Bound<'py, PyArray2<f32>>>,
    Option<Bound<'py, PyArray2<f32>>>,
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray1<f32>>,
);

/// The gradients, from that of the output, `[rows, output]`.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the operands of one operation")]
pub(crate) fn readout_backward<'py>(
    py: Python<'py>, hidden: Matrix<'py>, summary: Option<Matrix<'py>>, v1: Matrix<'py>, v2: Matrix<'py>,
    d_y: Matrix<'py>, wanted: [bool; 2], threads: usize,
) -> PyResult<Gradients<'py>> {
    let sizes = Sizes::of(&hidden, &v1, threads);
    let (h, s) = (hidden.as_slice()?, optional(&summary)?);
    let (v1, v2, d_y) = (v1.as_slice()?, v2.as_slice()?, d_y.as_slice()?);
    let (d_hidden, d_summary, d_v1, d_v2, d_bias) = run(py, || {
        let found = sizes.with(v1, v2, |readout| readout.backward(h, s, d_y, wanted))?;
        let turn = |d: Vec<f32>| turned(&d, sizes.hidden, sizes.output, threads);
        Ok((found.hidden, found.summary, turn(found.v1), turn(found.v2), found.bias))
    })?;
    let states = |d: Option<Vec<f32>>| d.map(|d| matrix(py, d, sizes.rows)).transpose();
    Ok((
        states(d_hidden)?,
        states(d_summary)?,
        matrix(py, d_v1, sizes.output)?,
        matrix(py, d_v2, sizes.output)?,
        Array1::from_vec(d_bias).into_pyarray(py),
    ))
}

#[derive(Clone, Copy)]
struct Sizes {
    rows: usize,
    hidden: usize,
    output: usize,
    threads: usize,
}

impl Sizes {
    fn of(hidden: &Matrix<'_>, v1: &Matrix<'_>, threads: usize) -> Self {
        Self { rows: hidden.shape()[0], hidden: hidden.shape()[1], output: v1.shape()[0], threads }
    }

    /// Runs `body` on a readout with these matrices, which are in PyTorch's layout.
    fn with<T>(self, v1: &[f32], v2: &[f32], body: impl FnOnce(Readout<'_>) -> T) -> T {
        let Self { rows, hidden, output, threads } = self;
        let [v1, v2] = [v1, v2].map(|v| match v.len() == hidden * output {
            true => turned(v, output, hidden, threads),
            // The engine says that the length is wrong.
            false => v.to_vec(),
        });
        let instructions = InstructionSet::Detect;
        body(Readout { rows, hidden, output, v1: &v1, v2: &v2, threads, instructions })
    }
}

fn optional<'a>(summary: &'a Option<Matrix<'_>>) -> PyResult<&'a [f32]> {
    Ok(summary.as_ref().map(|summary| summary.as_slice()).transpose()?.unwrap_or(&[]))
}

fn matrix<'py>(py: Python<'py>, values: Vec<f32>, rows: usize) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let columns = values.len() / rows.max(1);
    let matrix = Array2::from_shape_vec((rows, columns), values);
    Ok(matrix.map_err(|why| PyValueError::new_err(why.to_string()))?.into_pyarray(py))
}
