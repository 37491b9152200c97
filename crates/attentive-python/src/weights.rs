//! [`Weights`]: a layer's parameters in the engine's order, packed for its kernels.

use crate::errors::run;
use crate::model::Model;
use crate::turn::turned;
use attentive_engine::{PackedWeights, Parameter};
use numpy::{PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// Parameters that do not change, packed for tokens or for dense inputs.
#[pyclass(frozen, module = "attentive._engine")]
pub(crate) struct Weights {
    pub(crate) packed: Arc<PackedWeights>,
    /// In the engine's order, for the backward pass; empty if they were packed to be kept.
    pub(crate) values: Arc<Vec<Vec<f32>>>,
    /// Their shapes in PyTorch's order.
    pub(crate) shapes: Vec<Vec<usize>>,
    /// As they were given, if they were packed to be kept.
    source: Vec<Vec<f32>>,
}

/// The parameters as Python has them.
pub(crate) type Parameters<'py> = Vec<PyReadonlyArrayDyn<'py, f32>>;

#[pymethods]
impl Weights {
    /// Packs the parameters of a model, each in PyTorch's layout, for tokens or for dense inputs. With `keep`, they serve
    /// many calls without gradient, and remember what they were made from.
    #[new]
    fn new(
        py: Python<'_>, model: &Model, parameters: Parameters<'_>, dense: bool, threads: usize, keep: bool,
    ) -> PyResult<Self> {
        let declared = model.model.parameters();
        check_shapes(&declared, &parameters)?;
        let given = slices(&parameters)?;
        let shapes: Vec<Vec<usize>> = parameters.iter().map(|array| array.shape().to_vec()).collect();
        let model = model.model;
        run(py, || {
            let values: Vec<Vec<f32>> = declared
                .iter()
                .zip(&given)
                .map(|(parameter, given)| in_engine_order(parameter, given, threads))
                .collect();
            let borrowed: Vec<&[f32]> = values.iter().map(Vec::as_slice).collect();
            let packed = Arc::new(PackedWeights::new(&model, &borrowed, dense, threads)?);
            Ok(match keep {
                true => {
                    let source = given.iter().map(|given| given.to_vec()).collect();
                    Self { packed, values: Arc::default(), shapes, source }
                }
                false => Self { packed, values: Arc::new(values), shapes, source: Vec::new() },
            })
        })
    }

    /// Whether they were packed to be kept, from parameters with exactly these bits.
    fn made_from(&self, py: Python<'_>, parameters: Parameters<'_>) -> PyResult<bool> {
        let given = slices(&parameters)?;
        run(py, || {
            let same = |(a, b): (&Vec<f32>, &&[f32])| a.len() == b.len() && same_bits(a, b);
            Ok(self.source.len() == given.len() && self.source.iter().zip(&given).all(same))
        })
    }
}

/// Compares in blocks: the compiler vectorises a block, and one that differs ends the search.
fn same_bits(a: &[f32], b: &[f32]) -> bool {
    let differs = |(a, b): (&[f32], &[f32])| a.iter().zip(b).fold(0, |bits, (a, b)| bits | (a.to_bits() ^ b.to_bits()));
    a.chunks(1024).zip(b.chunks(1024)).all(|blocks| differs(blocks) == 0)
}

fn check_shapes(declared: &[Parameter], given: &Parameters<'_>) -> PyResult<()> {
    if declared.len() != given.len() {
        let (got, right) = (given.len(), declared.len());
        return Err(PyValueError::new_err(format!("there are {got} parameters, but the layer has {right}")));
    }
    for (parameter, given) in declared.iter().zip(given) {
        let right: Vec<usize> = parameter.shape.iter().rev().copied().collect();
        if given.shape() != right {
            let (name, got) = (parameter.name, given.shape());
            return Err(PyValueError::new_err(format!("`{name}` has shape {got:?}, but {right:?} is needed")));
        }
    }
    Ok(())
}

pub(crate) fn slices<'a>(arrays: &'a [PyReadonlyArrayDyn<'_, f32>]) -> PyResult<Vec<&'a [f32]>> {
    arrays.iter().map(|array| Ok(array.as_slice()?)).collect()
}

fn in_engine_order(parameter: &Parameter, given: &[f32], threads: usize) -> Vec<f32> {
    match parameter.shape[..] {
        [input, output] => turned(given, output, input, threads),
        _ => given.to_vec(),
    }
}
