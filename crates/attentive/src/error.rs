//! What can be wrong with what a caller gives, and what would be right.

use attentive_engine::EngineError;
use burn::tensor::{DType, Device};

/// A mistake in a configuration, an input or a carried state. The library returns these; it does not panic.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SabError {
    /// A field of [`SabLstmConfig`](crate::SabLstmConfig) or [`SabReadoutConfig`](crate::SabReadoutConfig) cannot be
    /// what it is.
    #[error("`{field}` is {value}: {hint}")]
    Config {
        /// The field's name.
        field: &'static str,
        /// What it is now.
        value: String,
        /// What would be right.
        hint: String,
    },
    /// A tensor has another shape than the layer and the batch ask for.
    #[error("`{what}` has shape {got:?}, but {expected} is needed")]
    Shape {
        /// Which tensor.
        what: &'static str,
        /// Its shape.
        got: Vec<usize>,
        /// The shape that would be right, in words or numbers.
        expected: String,
    },
    /// A tensor has a type that cannot be computed with here.
    #[error("`{what}` is {got:?}, but {expected:?} is needed: cast it with `.cast(...)`")]
    DType {
        /// Which tensor.
        what: &'static str,
        /// Its type.
        got: DType,
        /// The type that would be right.
        expected: DType,
    },
    /// A tensor is on another device than the layer.
    #[error("`{what}` is on {got}, but the layer is on {expected}: move it with `.to_device(...)`")]
    Device {
        /// Which tensor.
        what: &'static str,
        /// Its device, in Burn's words.
        got: String,
        /// The layer's device.
        expected: String,
    },
    /// A token is not a row of the input weights.
    #[error("token {token} of row {row} at step {step} is outside 0..{input}, the layer's `input` size")]
    Token {
        /// Row of the batch, from 0.
        row: usize,
        /// Step of the sequence, from 0.
        step: usize,
        /// The token.
        token: i64,
        /// How many symbols the layer knows.
        input: usize,
    },
    /// A right answer is not one of the classes.
    #[error("class {class} of row {row} is outside 0..{classes}, the columns of `scores`")]
    Class {
        /// Row of the scores, from 0.
        row: usize,
        /// The class.
        class: i64,
        /// How many classes there are.
        classes: usize,
    },
    /// NaN or infinity in a tensor.
    #[error(
        "`{what}` holds a NaN or an infinity{place}: clean the data, or lower the learning rate if it grew in training"
    )]
    NonFinite {
        /// Which tensor.
        what: &'static str,
        /// Where it was found, in words; may be empty.
        place: String,
    },
    /// A carried state does not belong to this call.
    #[error("the carried state does not fit: {0}")]
    State(String),
    /// The engine refuses a call that the layer should not have made.
    #[error("the engine refuses this call: {0}")]
    Engine(EngineError),
    /// The path that was asked for cannot run here.
    #[error("the fused path cannot run here: {0}; use `Path::Auto` or `Path::Portable`")]
    NoFusedPath(String),
}

impl From<EngineError> for SabError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Model { field, value, hint } => SabError::Config { field, value, hint },
            EngineError::NonFinite { what, place } => SabError::NonFinite { what, place },
            EngineError::State(why) => SabError::State(why),
            EngineError::Token { row, step, token, input } => {
                SabError::Token { row, step, token: i64::from(token), input }
            }
            other => SabError::Engine(other),
        }
    }
}

/// Refuses a tensor that is on another device than the layer: Burn panics where it meets one.
pub(crate) fn check_device(what: &'static str, got: &Device, layer: &Device) -> Result<()> {
    if got == layer {
        return Ok(());
    }
    let name = |device: &Device| format!("{:?}", device.clone().inner());
    Err(SabError::Device { what, got: name(got), expected: name(layer) })
}

/// `Result` with a [`SabError`].
pub type Result<T> = std::result::Result<T, SabError>;
