//! Settings of models and of training, the keys of a configuration, and limits. Nothing here knows a task.

pub(crate) mod keys;
mod model;
mod train;

pub use keys::{parse_change, parse_value};
pub use model::{ModelSettings, TransformerSettings};
pub use train::{Schedule, TrainSettings};

use crate::error::{LabError, Result};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// The error for a value that a key cannot have; `hint` says which it can have.
pub(crate) fn wrong(key: &str, value: impl Display, hint: &str) -> LabError {
    LabError::Config(format!("`{key}` is {value}: {hint}"))
}

/// Refuses a value outside of a range; `unit` follows the limits in the message.
pub(crate) fn within<T: PartialOrd + Display>(key: &str, value: T, range: RangeInclusive<T>, unit: &str) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(wrong(key, value, &format!("it must be between {least} and {most}{unit}")))
}

/// Refuses a count of 0; `what` says what is counted, in the singular.
pub(crate) fn at_least_one(key: &str, count: usize, what: &str) -> Result<()> {
    if count > 0 { Ok(()) } else { Err(wrong(key, count, &format!("there must be at least one {what}"))) }
}
