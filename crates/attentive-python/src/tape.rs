//! [`Tape`]: the record of a call, and its backward pass.

use crate::arrays::handle;
use crate::errors::run;
use crate::turn::turned;
use crate::weights::Weights;
use attentive_engine::{OutputAdjoints, ReadoutAdjoint, Tape as EngineTape, TapeInputs};
use numpy::ndarray::ArrayD;
use numpy::{IntoPyArray, PyArray1, PyArrayDyn, PyReadonlyArray2, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The record of one call.
#[pyclass(frozen, weakref, module = "attentive._engine")]
pub(crate) struct Tape {
    tape: EngineTape,
    /// In the engine's order.
    parameters: Arc<Vec<Vec<f32>>>,
    shapes: Vec<Vec<usize>>,
    number: i64,
}

/// The derivative with respect to a readout's output: `d_y`, `[batch, time, output]`, or `[batch, 1, output]` if only
/// the last step is read, and the readout's matrices, `[output, hidden]` each.
type Read<'py> = (PyReadonlyArray3<'py, f32>, bool, PyReadonlyArray2<'py, f32>, PyReadonlyArray2<'py, f32>);

/// The gradients of the parameters, in PyTorch's layout, that of the dense input if it was asked for, and how far replayed
/// memories of earlier calls have drifted: their number, the mean and the largest (R21).
type Gradients<'py> =
    (Vec<Bound<'py, PyArrayDyn<f32>>>, Option<Bound<'py, PyArrayDyn<f32>>>, Option<(usize, f64, f64)>);

impl Tape {
    pub(crate) fn new(tape: EngineTape, weights: &Weights) -> Self {
        static NUMBERS: AtomicI64 = AtomicI64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let shapes = weights.shapes.clone();
        Self { tape, parameters: Arc::clone(&weights.values), shapes, number }
    }
}

#[pymethods]
impl Tape {
    /// Unique in the process.
    #[getter]
    fn number(&self) -> i64 {
        self.number
    }

    /// An array with the tape's number that keeps the tape alive.
    fn handle<'py>(this: &Bound<'py, Self>) -> Bound<'py, PyArray1<i64>> {
        handle(this.clone().into_any(), &this.get().number)
    }

    /// The gradients, from the derivatives of the loss with respect to h and s, `[batch, time, hidden]`, and to readouts.
    /// `dense` and `hidden` are the input and the output of the forward pass.
    #[pyo3(signature = (*, hidden, dense, d_hidden, d_summary, readouts, input_gradient, threads))]
    #[allow(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn backward<'py>(
        &self, py: Python<'py>, hidden: PyReadonlyArray3<'py, f32>, dense: Option<PyReadonlyArray3<'py, f32>>,
        d_hidden: Option<PyReadonlyArray3<'py, f32>>, d_summary: Option<PyReadonlyArray3<'py, f32>>,
        readouts: Vec<Read<'py>>, input_gradient: bool, threads: usize,
    ) -> PyResult<Gradients<'py>> {
        let input_shape = dense.as_ref().map(|dense| dense.shape().to_vec());
        let [d_hidden, d_summary] = [&d_hidden, &d_summary].map(|array| array.as_ref().map(|array| array.as_slice()));
        let (d_hidden, d_summary) = (d_hidden.transpose()?, d_summary.transpose()?);
        let inputs = TapeInputs {
            dense: dense.as_ref().map(|dense| dense.as_slice()).transpose()?.unwrap_or(&[]),
            hidden: hidden.as_slice()?,
        };
        let read = readouts.iter().map(|(d_y, last_step, v1, v2)| {
            let sizes = [v1.shape()[1], v1.shape()[0]];
            Ok((d_y.as_slice()?, *last_step, sizes, v1.as_slice()?, v2.as_slice()?))
        });
        let read: Vec<_> = read.collect::<PyResult<_>>()?;
        let (gradients, input, drift) = run(py, || {
            let readouts = read.iter().map(|(d_y, last_step, [hidden, output], v1, v2)| {
                let [v1, v2] = [v1, v2].map(|v| turned(v, *output, *hidden, threads));
                ReadoutAdjoint::new(d_y, [*hidden, *output], *last_step, &v1, &v2)
            });
            let outputs = OutputAdjoints { hidden: d_hidden, summary: d_summary, readouts: readouts.collect() };
            let parameters: Vec<&[f32]> = self.parameters.iter().map(Vec::as_slice).collect();
            let found = attentive_engine::backward(&self.tape, &parameters, inputs, outputs, input_gradient)?;
            let in_their_order = |(values, shape): (Vec<f32>, &Vec<usize>)| match shape[..] {
                [output, input] => turned(&values, input, output, threads),
                _ => values,
            };
            let gradients: Vec<Vec<f32>> = found.parameters.into_iter().zip(&self.shapes).map(in_their_order).collect();
            let drift = found.drift.map(|drift| (drift.memories, drift.mean, drift.most));
            Ok((gradients, found.input, drift))
        })?;
        let array = |values: Vec<f32>, shape: &[usize]| {
            let array = ArrayD::from_shape_vec(shape, values).map_err(|why| PyValueError::new_err(why.to_string()))?;
            Ok::<_, PyErr>(array.into_pyarray(py))
        };
        let gradients = gradients.into_iter().zip(&self.shapes).map(|(values, shape)| array(values, shape));
        let input = input.zip(input_shape).map(|(values, shape)| array(values, &shape));
        Ok((gradients.collect::<PyResult<_>>()?, input.transpose()?, drift))
    }
}
