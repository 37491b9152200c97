//! The one declaration of a model's parameters: name, shape, owner, and how they start. Operands, packing, gradients,
//! checks, initialisation and the names in files follow from it.

use crate::error::{EngineError, Result, all_finite, check_length};

/// Which part of a model a parameter belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The recurrent cell.
    Cell,
    /// The scorer of memories.
    Scorer,
}

/// How a parameter starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// Uniform in plus and minus a bound, times a gain.
    Uniform(Gain),
    /// A constant, times the scores' gain.
    Constant(f64),
}

/// Which gain of the initialisation scales a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gain {
    /// None.
    One,
    /// That of the input weights.
    Input,
    /// That of the matrices that project memories and queries.
    Attention,
    /// That of what scores are made with.
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
    /// How it starts.
    pub start: Start,
}

impl Parameter {
    pub(crate) fn cell(name: &'static str, shape: &[usize], gain: Gain) -> Self {
        Self { name, shape: shape.to_vec(), owner: Owner::Cell, start: Start::Uniform(gain) }
    }

    pub(crate) fn scorer(name: &'static str, shape: &[usize], start: Start) -> Self {
        Self { name, shape: shape.to_vec(), owner: Owner::Scorer, start }
    }

    /// How many numbers it has.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Every cell's parameters come first, in this order.
pub(crate) const WEIGHT_IH: usize = 0;
pub(crate) const WEIGHT_HH: usize = 1;
pub(crate) const BIAS: usize = 2;
/// The scorer's follow.
pub(crate) const SCORER: usize = 3;

/// Refuses values of parameters, in the order of the declaration, that do not have the declared lengths.
pub(crate) fn check_lengths(declared: &[Parameter], values: &[&[f32]]) -> Result<()> {
    check_length("parameters", values.len(), declared.len())?;
    declared
        .iter()
        .zip(values)
        .try_for_each(|(parameter, values)| check_length(parameter.name, values.len(), parameter.len()))
}

/// Refuses values that hold a NaN or an infinity.
pub(crate) fn check_finite(declared: &[Parameter], values: &[&[f32]]) -> Result<()> {
    match declared.iter().zip(values).find(|(_, values)| !all_finite(values)) {
        Some((parameter, _)) => Err(EngineError::NonFinite { what: parameter.name, place: String::new() }),
        None => Ok(()),
    }
}
