//! [`SabError`]: the mistakes that a caller can make. The messages say what would be right.

use attentive_engine::EngineError;
use burn::tensor::{DType, Device};

/// A mistake in a configuration, an input or a carried state. The library returns these; it does not panic.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SabError {
    /// A field of [`SabLstmConfig`](crate::SabLstmConfig) or [`SabReadoutConfig`](crate::SabReadoutConfig) has an
    /// invalid value.
    #[error("`{field}` is {value}: {hint}")]
    Config {
        /// The field's name.
        field: &'static str,
        /// Its current value.
        value: String,
        /// A hint at valid values.
        hint: String,
    },
    /// A tensor does not have the shape that the layer and the batch require.
    #[error("`{what}` has shape {got:?}, but {expected} is needed")]
    Shape {
        /// Which tensor.
        what: &'static str,
        /// Its shape.
        got: Vec<usize>,
        /// The required shape, in words or numbers.
        expected: String,
    },
    /// A tensor has an element type that cannot be used here.
    #[error("`{what}` is {got:?}, but {expected:?} is needed: cast it with `.cast(...)`")]
    DType {
        /// Which tensor.
        what: &'static str,
        /// Its type.
        got: DType,
        /// The required type.
        expected: DType,
    },
    /// A tensor is not on the layer's device.
    #[error("`{what}` is on {got}, but the layer is on {expected}: move it with `.to_device(...)`")]
    Device {
        /// Which tensor.
        what: &'static str,
        /// Its device, as Burn names it.
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
    /// A target class is out of range.
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
        "`{what}` holds a NaN or an infinity{place}: clean the data, or lower the learning rate if training diverged"
    )]
    NonFinite {
        /// Which tensor.
        what: &'static str,
        /// Its position in words; may be empty.
        place: String,
    },
    /// A carried state does not fit this call.
    #[error("the carried state does not fit: {0}")]
    State(String),
    /// The engine refuses a call that should have passed the layer's own checks.
    #[error("the engine refuses this call: {0}")]
    Engine(EngineError),
    /// The requested path cannot run here.
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

/// Refuses a tensor that is not on the layer's device, because Burn would panic later.
pub(crate) fn check_device(what: &'static str, got: &Device, layer: &Device) -> Result<()> {
    if got == layer {
        return Ok(());
    }
    let name = |device: &Device| format!("{:?}", device.clone().inner());
    Err(SabError::Device { what, got: name(got), expected: name(layer) })
}

/// `Result` with a [`SabError`].
pub type Result<T> = std::result::Result<T, SabError>;
