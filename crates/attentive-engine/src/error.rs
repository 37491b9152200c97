//! [`EngineError`]: the reasons why the engine refuses a call.

/// A call that the engine refuses. It never computes something else instead.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A field of a [`Model`](crate::Model) has an invalid value.
    #[error("`{field}` is {value}: {hint}")]
    Model {
        /// The field's name.
        field: &'static str,
        /// Its current value.
        value: String,
        /// A hint at valid values.
        hint: String,
    },
    /// A slice does not have the length that the model and the batch require.
    #[error("`{what}` has length {got}, but {expected} is needed")]
    Length {
        /// Which slice.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The required length.
        expected: usize,
    },
    /// A token is not a row of the input weights.
    #[error("token {token} of row {row} at step {step} is outside 0..{input}, the model's `input` size")]
    Token {
        /// Row of the batch, from 0.
        row: usize,
        /// Step of the sequence, from 0.
        step: usize,
        /// The token.
        token: u32,
        /// How many symbols the model knows.
        input: usize,
    },
    /// A NaN or an infinity in the input or in a result.
    #[error(
        "`{what}` holds a NaN or an infinity{place}: clean the data, or lower the learning rate if training diverged"
    )]
    NonFinite {
        /// The slice that contains it.
        what: &'static str,
        /// Its position in words; may be empty.
        place: String,
    },
    /// The carried state of a row contradicts itself or the model.
    #[error("the carried state does not fit: {0}")]
    State(String),
}

/// `Result` with an [`EngineError`].
pub type Result<T> = std::result::Result<T, EngineError>;

/// Refuses a slice of the wrong length.
pub(crate) fn check_length(what: &'static str, got: usize, expected: usize) -> Result<()> {
    if got == expected { Ok(()) } else { Err(EngineError::Length { what, got, expected }) }
}

/// Whether no value is a NaN or an infinity.
pub fn all_finite(values: &[f32]) -> bool {
    // Compares the bits as whole numbers. The compiler vectorises this, so memory is the limit.
    values.iter().fold(0, |largest, x| largest.max(x.to_bits() & 0x7fff_ffff)) < 0x7f80_0000
}
