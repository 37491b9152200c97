//! What can be wrong with a call.

/// A call that the engine refuses. It never computes something else instead.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A field of a [`Model`](crate::Model) cannot be what it is.
    #[error("`{field}` is {value}: {hint}")]
    Model {
        /// The field's name.
        field: &'static str,
        /// What it is now.
        value: String,
        /// What would be right.
        hint: String,
    },
    /// A slice does not have the length that the model and the batch ask for.
    #[error("`{what}` has {got} numbers, but {expected} are needed")]
    Length {
        /// Which slice.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The length that would be right.
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
    /// NaN or infinity in what came in or in what was computed.
    #[error(
        "`{what}` holds a NaN or an infinity{place}: clean the data, or lower the learning rate if it grew in training"
    )]
    NonFinite {
        /// What holds it.
        what: &'static str,
        /// Where it was found, in words; may be empty.
        place: String,
    },
    /// What a row carries into the call contradicts itself or the model.
    #[error("the carried state does not fit: {0}")]
    State(String),
}

/// `Result` with an [`EngineError`].
pub type Result<T> = std::result::Result<T, EngineError>;

/// Refuses a slice of another length.
pub(crate) fn check_length(what: &'static str, got: usize, expected: usize) -> Result<()> {
    if got == expected { Ok(()) } else { Err(EngineError::Length { what, got, expected }) }
}

/// Whether no value is a NaN or an infinity.
pub fn all_finite(values: &[f32]) -> bool {
    // The largest exponent, as whole numbers: the compiler vectorises this, and memory is the limit.
    values.iter().fold(0, |largest, x| largest.max(x.to_bits() & 0x7fff_ffff)) < 0x7f80_0000
}
