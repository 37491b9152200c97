//! The single declaration of a model's parameters: name, shape, owner and initialisation. Operands, packing, gradients,
//! checks and the names in files follow from it.

use crate::error::{EngineError, Result, all_finite, check_length};

/// Which part of a model a parameter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The recurrent cell.
    Cell,
    /// The scorer of memories.
    Scorer,
}

/// How a parameter is initialised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// Uniform between minus and plus a bound, times a gain.
    Uniform(Gain),
    /// A constant, times the scores' gain.
    Constant(f64),
}

/// Which gain scales a parameter at initialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gain {
    /// None.
    One,
    /// The gain of the input weights.
    Input,
    /// The gain of the matrices that project memories and queries.
    Attention,
    /// The gain of the vector or number that turns projections into scores.
    Score,
}

/// One parameter of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, unique in the model.
    pub name: &'static str,
    /// `[d_input, d_output]` for a matrix, row-major, or `[length]`.
    pub shape: Vec<usize>,
    /// The part it belongs to.
    pub owner: Owner,
    /// How it is initialised.
    pub start: Start,
}

impl Parameter {
    pub(crate) fn cell(name: &'static str, shape: &[usize], gain: Gain) -> Self {
        Self { name, shape: shape.to_vec(), owner: Owner::Cell, start: Start::Uniform(gain) }
    }

    pub(crate) fn scorer(name: &'static str, shape: &[usize], start: Start) -> Self {
        Self { name, shape: shape.to_vec(), owner: Owner::Scorer, start }
    }

    /// The number of its elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Every cell's parameters come first, in this order.
pub(crate) const WEIGHT_IH: usize = 0;
pub(crate) const WEIGHT_HH: usize = 1;
pub(crate) const BIAS: usize = 2;
/// The scorer's parameters follow.
pub(crate) const SCORER: usize = 3;

/// Refuses parameter values whose lengths differ from the declaration. The values come in the order of the declaration.
pub(crate) fn check_lengths(declared: &[Parameter], values: &[&[f32]]) -> Result<()> {
    check_length("parameters", values.len(), declared.len())?;
    declared
        .iter()
        .zip(values)
        .try_for_each(|(parameter, values)| check_length(parameter.name, values.len(), parameter.len()))
}

/// Refuses values that contain a NaN or an infinity.
pub(crate) fn check_finite(declared: &[Parameter], values: &[&[f32]]) -> Result<()> {
    match declared.iter().zip(values).find(|(_, values)| !all_finite(values)) {
        Some((parameter, _)) => Err(EngineError::NonFinite { what: parameter.name, place: String::new() }),
        None => Ok(()),
    }
}
